//! The binary format of traces, version 1; `docs/formats/trace.md` has its diagram.

use super::{Kind, Operation, Result, TraceError};
use siltstone::key::VALUE_LENGTH_MAX;
use siltstone_index::coding::checksum::crc32c;
use std::io::{self, Read, Write};

/// The magic number. No text begins with its first byte.
pub const MAGIC: [u8; 8] = *b"\x93SILTTRC";
/// The version that is written, and the only one that can be read.
pub const VERSION: u32 = 1;
/// Magic, version, CRC.
const HEADER_BYTES: usize = 8 + 4 + 4;
/// Length, number of operations, time of the first.
const CHUNK_HEAD_BYTES: usize = 4 + 4 + 8;
/// The size at which a chunk is written.
const CHUNK_BYTES: usize = 64 << 10;
/// The maximum size of a chunk that is read, so that a wrong length does not cost memory.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// The kind, in the first byte of an operation; the higher bits are flags of the fields that follow.
const KIND_BITS: u8 = 0b11;
const HAS_KEY_LENGTH: u8 = 1 << 2;
const HAS_VALUE_LENGTH: u8 = 1 << 3;
const HAS_TIME: u8 = 1 << 4;
const HAS_TIME_TO_LIVE: u8 = 1 << 5;
const UNUSED_BITS: u8 = 0b1100_0000;

/// The previous operation in the chunk, relative to which the next one is encoded.
#[derive(Default, Clone, Copy)]
struct Before {
    key_length: u16,
    value_length: u32,
    time_ms: u64,
}

/// Writes a trace. The trace has no end mark until it is [finished](Writer::finish).
pub struct Writer<W: Write> {
    target: W,
    chunk: Vec<u8>,
    chunk_operations: u32,
    chunk_time_ms: u64,
    before: Before,
    operations: u64,
}

impl<W: Write> Writer<W> {
    /// Starts a trace.
    pub fn new(mut target: W) -> io::Result<Self> {
        let mut header = [MAGIC.as_slice(), &VERSION.to_le_bytes()].concat();
        header.extend(crc32c(&header).to_le_bytes());
        target.write_all(&header)?;
        Ok(Writer {
            target,
            chunk: Vec::with_capacity(CHUNK_BYTES + 64),
            chunk_operations: 0,
            chunk_time_ms: 0,
            before: Before::default(),
            operations: 0,
        })
    }

    /// Adds an operation. A time before the latest one is replaced by it; lengths beyond the limits are reduced to
    /// them.
    pub fn write(&mut self, operation: &Operation) -> io::Result<()> {
        let key_length = operation.key_length.max(1);
        let value_length = operation.value_length.min(VALUE_LENGTH_MAX as u32);
        let time_ms = operation.time_ms.max(self.before.time_ms);
        if self.chunk_operations == 0 {
            self.chunk_time_ms = time_ms;
            self.before = Before { time_ms, ..Before::default() };
        }
        let tag_at = self.chunk.len();
        let mut tag = operation.kind as u8;
        self.chunk.push(tag);
        self.chunk.extend_from_slice(&operation.key.to_le_bytes());
        let mut follow = |bit, follows, number| {
            if follows {
                tag |= bit;
                put_varint(&mut self.chunk, number);
            }
        };
        follow(HAS_KEY_LENGTH, key_length != self.before.key_length, key_length.into());
        follow(HAS_VALUE_LENGTH, value_length != self.before.value_length, value_length.into());
        follow(HAS_TIME, time_ms != self.before.time_ms, time_ms - self.before.time_ms);
        follow(HAS_TIME_TO_LIVE, operation.time_to_live_s != 0, operation.time_to_live_s.into());
        self.chunk[tag_at] = tag;
        self.before = Before { key_length, value_length, time_ms };
        self.chunk_operations += 1;
        self.operations += 1;
        if self.chunk.len() >= CHUNK_BYTES { self.write_chunk() } else { Ok(()) }
    }

    fn write_chunk(&mut self) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(CHUNK_HEAD_BYTES + self.chunk.len() + 4);
        bytes.extend((self.chunk.len() as u32).to_le_bytes());
        bytes.extend(self.chunk_operations.to_le_bytes());
        bytes.extend(self.chunk_time_ms.to_le_bytes());
        bytes.extend_from_slice(&self.chunk);
        bytes.extend(crc32c(&bytes).to_le_bytes());
        self.chunk.clear();
        self.chunk_operations = 0;
        self.target.write_all(&bytes)
    }

    /// Writes the rest and the end mark. Returns the number of operations in the trace.
    pub fn finish(mut self) -> io::Result<u64> {
        if self.chunk_operations > 0 {
            self.write_chunk()?;
        }
        let mut end = [0; CHUNK_HEAD_BYTES + 4];
        end[8..16].copy_from_slice(&self.operations.to_le_bytes());
        let crc = crc32c(&end[..CHUNK_HEAD_BYTES]);
        end[CHUNK_HEAD_BYTES..].copy_from_slice(&crc.to_le_bytes());
        self.target.write_all(&end)?;
        self.target.flush()?;
        Ok(self.operations)
    }
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads a trace. Everything it yields is checked; it ends at the first error. Takes the memory of a chunk, at most a
/// megabyte.
pub struct Reader<R> {
    source: R,
    /// The number of bytes read so far.
    position: u64,
    chunk: Vec<u8>,
    /// The offset of the chunk's operations in the trace.
    chunk_start: u64,
    /// The position in the chunk, and the number of operations left.
    at: usize,
    left: u32,
    before: Before,
    operations: u64,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Checks the header of the trace.
    pub fn new(source: R) -> Result<Self> {
        let mut reader = Reader {
            source,
            position: 0,
            chunk: Vec::new(),
            chunk_start: 0,
            at: 0,
            left: 0,
            before: Before::default(),
            operations: 0,
            ended: false,
        };
        let header: [u8; HEADER_BYTES] = reader.read("the header")?;
        let magic = number(&header, 0);
        expect("the magic", 0, u64::from_le_bytes(MAGIC), magic)?;
        let version = number(&header, 8) as u32;
        if version != VERSION {
            return Err(TraceError::Version { got: version });
        }
        expect_crc("the header", 0, &header)?;
        Ok(reader)
    }

    fn read<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    fn fill(&mut self, mut bytes: &mut [u8], what: &'static str) -> Result<()> {
        while !bytes.is_empty() {
            match self.source.read(bytes) {
                Ok(0) => return Err(TraceError::CutShort { at: self.position, what }),
                Ok(read) => {
                    self.position += read as u64;
                    bytes = &mut bytes[read..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads the next chunk. Returns whether there was one; otherwise the end has been checked.
    fn next_chunk(&mut self) -> Result<bool> {
        let start = self.position;
        let head: [u8; CHUNK_HEAD_BYTES] = self.read("the head of a chunk")?;
        let length = number(&head, 0) as u32 as usize;
        if length == 0 {
            self.end(start, &head)?;
            return Ok(false);
        }
        if length > CHUNK_BYTES_MAX {
            return Err(damaged("the length of a chunk", start, CHUNK_BYTES_MAX as u64, length as u64));
        }
        let mut chunk = head.to_vec();
        chunk.resize(CHUNK_HEAD_BYTES + length + 4, 0);
        self.fill(&mut chunk[CHUNK_HEAD_BYTES..], "a chunk")?;
        expect_crc("a chunk", start, &chunk)?;
        chunk.truncate(CHUNK_HEAD_BYTES + length);
        self.left = number(&head, 4) as u32;
        self.before = Before { time_ms: number(&head, 8), ..Before::default() };
        if self.left == 0 {
            return Err(damaged("the number of operations of a chunk", start + 4, 1, 0));
        }
        (self.chunk, self.chunk_start, self.at) = (chunk, start, CHUNK_HEAD_BYTES);
        Ok(true)
    }

    fn end(&mut self, start: u64, head: &[u8; CHUNK_HEAD_BYTES]) -> Result<()> {
        let mut end = [0; CHUNK_HEAD_BYTES + 4];
        end[..CHUNK_HEAD_BYTES].copy_from_slice(head);
        self.fill(&mut end[CHUNK_HEAD_BYTES..], "the end")?;
        expect_crc("the end", start, &end)?;
        expect("the end", start + 4, 0, number(head, 4) & u64::from(u32::MAX))?;
        expect("the number of operations", start + 8, self.operations, number(head, 8))?;
        let mut after = [0; 1];
        match self.fill(&mut after, "") {
            Err(TraceError::CutShort { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => Err(damaged("something after the end", self.position - 1, 0, after[0].into())),
        }
    }

    fn next_operation(&mut self) -> Result<Option<Operation>> {
        if self.left == 0 && !self.next_chunk()? {
            return Ok(None);
        }
        let operation = self.decode()?;
        self.left -= 1;
        self.operations += 1;
        let read = self.at as u64;
        if self.left == 0 {
            expect("the length of a chunk", self.chunk_start, self.chunk.len() as u64, read)?;
        }
        Ok(Some(operation))
    }

    fn decode(&mut self) -> Result<Operation> {
        let start = self.chunk_start + self.at as u64;
        let tag = self.take::<1>()?[0];
        expect("the unused bits of an operation", start, 0, (tag & UNUSED_BITS).into())?;
        let kind = Kind::ALL.get(usize::from(tag & KIND_BITS));
        let kind = *kind.ok_or_else(|| damaged("the kind of an operation", start, 2, 3))?;
        let key = u64::from_le_bytes(self.take()?);
        let mut before = self.before;
        if tag & HAS_KEY_LENGTH != 0 {
            before.key_length = self.varint("the length of a key", u16::MAX.into())? as u16;
        }
        if before.key_length == 0 {
            return Err(damaged("the length of a key", start, 1, 0));
        }
        if tag & HAS_VALUE_LENGTH != 0 {
            before.value_length = self.varint("the length of a value", VALUE_LENGTH_MAX as u64)? as u32;
        }
        if tag & HAS_TIME != 0 {
            before.time_ms += self.varint("a time", u64::MAX - before.time_ms)?;
        }
        let time_to_live_s = match tag & HAS_TIME_TO_LIVE {
            0 => 0,
            _ => self.varint("a time to live", u32::MAX.into())? as u32,
        };
        self.before = before;
        let Before { key_length, value_length, time_ms } = before;
        Ok(Operation { kind, key, key_length, value_length, time_ms, time_to_live_s })
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.chunk.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        let end = self.chunk_start + self.chunk.len() as u64;
        let bytes = bytes.ok_or(damaged("an operation beyond its chunk", end, self.at as u64, N as u64))?;
        self.at += N;
        Ok(*bytes)
    }

    fn varint(&mut self, what: &'static str, most: u64) -> Result<u64> {
        let start = self.chunk_start + self.at as u64;
        let mut number = 0u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.take::<1>()?[0];
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return if number <= most { Ok(number) } else { Err(damaged(what, start, most, number)) };
            }
        }
        Err(damaged(what, start, most, u64::MAX))
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Operation>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_operation().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Returns the little-endian number at an offset, of up to 8 bytes.
fn number(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.iter_mut().zip(bytes.iter().skip(at)).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(word)
}

/// Checks that the last four bytes are the CRC of those before.
fn expect_crc(what: &'static str, at: u64, bytes: &[u8]) -> Result<()> {
    let checked = bytes.len().saturating_sub(4);
    let crc = crc32c(&bytes[..checked]);
    expect(what, at, crc.into(), number(bytes, checked))
}

fn expect(what: &'static str, at: u64, expected: u64, got: u64) -> Result<()> {
    if got == expected { Ok(()) } else { Err(damaged(what, at, expected, got)) }
}

fn damaged(what: &'static str, at: u64, expected: u64, got: u64) -> TraceError {
    TraceError::Damaged { what, at, expected, got }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    const GOLDEN: &[u8] = include_bytes!("../../../../fixtures/trace-v1.bin");

    fn some_operations() -> Vec<Operation> {
        let operation = |kind, key, key_length, value_length, time_ms, time_to_live_s| Operation {
            kind,
            key,
            key_length,
            value_length,
            time_ms,
            time_to_live_s,
        };
        vec![
            operation(Kind::Get, 0, 32, 0, 0, 0),
            operation(Kind::Set, u64::MAX, 32, 44, 0, 0),
            operation(Kind::Set, 1, 32, 44, 1, 86_400),
            operation(Kind::Delete, 1, 1, 0, 300_000, 0),
            operation(Kind::Get, 7, u16::MAX, VALUE_LENGTH_MAX as u32, u64::MAX, u32::MAX),
        ]
    }

    fn written(operations: &[Operation]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes).unwrap();
        operations.iter().for_each(|operation| writer.write(operation).unwrap());
        assert_eq!(writer.finish().unwrap(), operations.len() as u64);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<Operation>> {
        Reader::new(bytes)?.collect()
    }

    /// A trace with one chunk that has these operations and correct checksums.
    fn with_chunk(payload: &[u8], operations: u32) -> Vec<u8> {
        let mut bytes = written(&[])[..HEADER_BYTES].to_vec();
        let start = bytes.len();
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(operations.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(payload);
        let crc = crc32c(&bytes[start..]);
        bytes.extend(crc.to_le_bytes());
        bytes
    }

    #[test]
    fn version_1_is_written_and_read_unchanged() {
        if std::env::var_os("SILTSTONE_WRITE_FIXTURES").is_some() {
            std::fs::write("../../fixtures/trace-v1.bin", written(&some_operations())).unwrap();
        }
        assert_eq!(written(&some_operations()), GOLDEN);
        assert_eq!(read(GOLDEN).unwrap(), some_operations());
    }

    #[test]
    fn many_chunks_come_back_as_they_were() {
        let mut random = random::stream(1, 1);
        let mut time_ms = 0;
        let operations: Vec<Operation> = (0..40_000)
            .map(|_| {
                time_ms += random.u64(..3);
                Operation {
                    kind: Kind::ALL[random.u64(..3) as usize],
                    key: random.u64(..),
                    key_length: random.u64(..40) as u16 + 1,
                    value_length: random.u64(..3) as u32 * 1000,
                    time_ms,
                    time_to_live_s: random.u64(..2) as u32,
                }
            })
            .collect();
        let bytes = written(&operations);
        assert!(bytes.len() > 4 * CHUNK_BYTES);
        assert_eq!(read(&bytes).unwrap(), operations);
        assert_eq!(read(&written(&[])).unwrap(), []);
    }

    #[test]
    fn operations_like_the_one_before_take_nine_bytes() {
        let operation = |key| Operation { key, ..some_operations()[1] };
        let bytes = |count| written(&(0..count).map(operation).collect::<Vec<_>>()).len();
        assert_eq!(bytes(1001) - bytes(1), 9_000);
    }

    #[test]
    fn a_truncated_trace_is_refused() {
        for length in 0..GOLDEN.len() {
            assert!(matches!(read(&GOLDEN[..length]), Err(TraceError::CutShort { .. })), "{length} bytes");
        }
        assert!(read(&[GOLDEN, b"!"].concat()).is_err());
    }

    #[test]
    fn a_flipped_bit_anywhere_is_found() {
        for at in 0..GOLDEN.len() * 8 {
            let mut bytes = GOLDEN.to_vec();
            bytes[at / 8] ^= 1 << (at % 8);
            assert!(read(&bytes).is_err(), "bit {at}");
        }
    }

    #[test]
    fn hostile_chunks_with_right_checksums_give_an_error_or_operations_within_the_limits() {
        let mut random = random::stream(2, 2);
        let golden = written(&some_operations());
        let payload = &golden[HEADER_BYTES + CHUNK_HEAD_BYTES..golden.len() - CHUNK_HEAD_BYTES - 8];
        let mut read_some = 0;
        for _ in 0..20_000 {
            let mut payload = payload.to_vec();
            for _ in 0..random.u64(..4) {
                let at = random.u64(..payload.len() as u64) as usize;
                payload[at] = random.u64(..) as u8;
            }
            payload.truncate(random.u64(..payload.len() as u64 + 1) as usize);
            let count = random.u64(..7) as u32;
            for operation in Reader::new(&with_chunk(&payload, count)[..]).unwrap() {
                let Ok(operation) = operation else { break };
                assert!(operation.key_length > 0 && operation.value_length <= VALUE_LENGTH_MAX as u32);
                read_some += 1;
            }
        }
        assert!(read_some > 1_000);
    }

    #[test]
    fn errors_name_the_damaged_field() {
        let get = |tag: u8, rest: &[u8]| [&[tag], &[0; 8][..], rest].concat();
        let long = [0xff; 10];
        for (payload, operations, wrong) in [
            (get(0b111, &[1]), 1, "the kind of an operation"),
            (get(0b100_0000, &[]), 1, "the unused bits of an operation"),
            (get(0, &[]), 1, "the length of a key"),
            (get(HAS_KEY_LENGTH, &[0]), 1, "the length of a key"),
            (get(HAS_KEY_LENGTH, &[0xff, 0xff, 0x7f]), 1, "the length of a key"),
            (
                get(HAS_KEY_LENGTH | HAS_VALUE_LENGTH, &[1, 0x81, 0x80, 0x80, 0x80, 1]),
                1,
                "the length of a value",
            ),
            (get(HAS_KEY_LENGTH | HAS_TIME, &[&[1], &long[..]].concat()), 1, "a time"),
            (get(HAS_KEY_LENGTH, &[1, 9]), 1, "the length of a chunk"),
            (get(HAS_KEY_LENGTH, &[1]), 2, "an operation beyond its chunk"),
            (get(HAS_KEY_LENGTH, &[1]), 0, "the number of operations of a chunk"),
        ] {
            match read(&with_chunk(&payload, operations)) {
                Err(TraceError::Damaged { what, .. }) => assert_eq!(what, wrong),
                other => panic!("{wrong}: {other:?}"),
            }
        }
        let mut long_chunk = with_chunk(&[0], 1);
        long_chunk[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(read(&long_chunk), Err(TraceError::Damaged { what: "the length of a chunk", .. })));
    }
}
