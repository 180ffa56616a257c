//! The binary export format, version 1; `docs/formats/export.md` has its diagram.

use super::{Fault, RecordSink, Source};
use anyhow::{Context, bail, ensure};
use siltstone::key::{KEY_LENGTH_MAX, VALUE_LENGTH_MAX};
use siltstone::{Bytes, Record};
use siltstone_index::coding::checksum::{crc32c, crc32c_append};
use std::io::{Read, Write};

/// The magic number. No JSON begins with its first byte.
pub const MAGIC: [u8; 8] = *b"\x93SILTEXP";
/// The version that is written, and the only one that can be read.
pub const VERSION: u32 = 1;
/// Magic, version, CRC.
const HEADER_BYTES: usize = 8 + 4 + 4;
/// The lengths and the expiry time before a key and its value.
const RECORD_HEAD_BYTES: usize = 2 + 4 + 8;

/// Writes the export format.
pub struct Writer<W> {
    target: W,
    records: u64,
}

impl<W: Write> Writer<W> {
    /// Starts the stream.
    pub fn new(mut target: W) -> anyhow::Result<Self> {
        let mut header = [MAGIC.as_slice(), &VERSION.to_le_bytes()].concat();
        header.extend(crc32c(&header).to_le_bytes());
        target.write_all(&header)?;
        Ok(Writer { target, records: 0 })
    }

    fn write_checked(&mut self, parts: &[&[u8]]) -> std::io::Result<()> {
        let mut crc = 0;
        for part in parts {
            crc = crc32c_append(crc, part);
            self.target.write_all(part)?;
        }
        self.target.write_all(&crc.to_le_bytes())
    }
}

impl<W: Write> RecordSink for Writer<W> {
    fn write(&mut self, record: &Record) -> anyhow::Result<()> {
        let key_length =
            u16::try_from(record.key.len()).context("a key is longer than the maximum of 65,535 bytes")?;
        let value_length =
            u32::try_from(record.value.len()).context("a value is longer than the maximum of 256 MiB")?;
        ensure!(key_length > 0, "a key is empty");
        self.write_checked(&[
            &key_length.to_le_bytes(),
            &value_length.to_le_bytes(),
            &record.expires_at_ms.to_le_bytes(),
            &record.key,
            &record.value,
        ])?;
        self.records += 1;
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let records = self.records;
        self.write_checked(&[&0u16.to_le_bytes(), &records.to_le_bytes()])?;
        Ok(self.target.flush()?)
    }
}

/// Reads the export format. Everything it yields is checked.
pub struct Reader<R> {
    source: R,
    position: u64,
    records: u64,
}

impl<R: Read> Reader<R> {
    /// Checks the header of the stream.
    pub fn new(source: R) -> anyhow::Result<Self> {
        let mut reader = Reader { source, position: 0, records: 0 };
        let header = reader.read(HEADER_BYTES, "the header")?;
        ensure!(header.starts_with(&MAGIC), "not a siltstone export: the first 8 bytes are wrong");
        let version = u32_at(&header, 8);
        ensure!(
            version == VERSION,
            "the export has format version {version}, but this program reads version {VERSION}; export the data again"
        );
        reader.check(&[&header[..12]], u32_at(&header, 12), 0)?;
        Ok(reader)
    }

    /// Memory grows only with the bytes that are actually read, whatever length was announced.
    fn read(&mut self, length: usize, what: &str) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length.min(1 << 20));
        let read = (&mut self.source).take(length as u64).read_to_end(&mut bytes);
        let read = read.with_context(|| format!("cannot read the export at byte {}", self.position))?;
        self.position += read as u64;
        ensure!(
            read == length,
            "the export ends at byte {} within {what}: it was cut short; export the data again",
            self.position
        );
        Ok(bytes)
    }

    fn check(&self, parts: &[&[u8]], expected: u32, start: u64) -> anyhow::Result<()> {
        let got = parts.iter().fold(0, |crc, part| crc32c_append(crc, part));
        ensure!(
            got == expected,
            "the export is damaged between bytes {start} and {}: expected CRC {expected:08x}, got {got:08x}",
            self.position
        );
        Ok(())
    }

    fn next_record(&mut self) -> anyhow::Result<Option<Record>> {
        let start = self.position;
        let key_length = self.read(2, "a record")?;
        if key_length == [0, 0] {
            return self.end(start).map(|()| None);
        }
        let rest = self.read(RECORD_HEAD_BYTES - 2, "a record")?;
        let value_length = u32_at(&rest, 0) as usize;
        if value_length > VALUE_LENGTH_MAX {
            bail!(
                "the export is damaged at byte {start}: a value of {value_length} bytes; the maximum is 256 MiB"
            );
        }
        let key = self.read(usize::from(u16::from_le_bytes([key_length[0], key_length[1]])), "a key")?;
        debug_assert!(key.len() <= KEY_LENGTH_MAX);
        let value = self.read(value_length, "a value")?;
        let crc = self.read(4, "a checksum")?;
        self.check(&[&key_length, &rest, &key, &value], u32_at(&crc, 0), start)?;
        self.records += 1;
        let expires_at_ms = u64_at(&rest, 4);
        Ok(Some(Record { key: Bytes::from(key), value: Bytes::from(value), expires_at_ms }))
    }

    fn end(&mut self, start: u64) -> anyhow::Result<()> {
        let end = self.read(8 + 4, "the end")?;
        self.check(&[&[0, 0], &end[..8]], u32_at(&end, 8), start)?;
        let (expected, got) = (u64_at(&end, 0), self.records);
        ensure!(got == expected, "the export should have {expected} records, but has {got}");
        let mut after = [0; 1];
        ensure!(
            self.source.read(&mut after)? == 0,
            "there are bytes after the end of the export at byte {}",
            self.position
        );
        Ok(())
    }
}

impl<R: Read> Source for Reader<R> {
    /// After damage nothing is known of what follows.
    fn next(&mut self) -> Result<Option<Record>, Fault> {
        self.next_record().map_err(Fault::Fatal)
    }

    fn place(&self) -> String {
        format!("record {}", self.records)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{all, some_records};
    use super::*;

    const GOLDEN: &[u8] = include_bytes!("../../../../fixtures/export-v1.bin");

    fn exported() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes).unwrap();
        some_records().iter().for_each(|record| writer.write(record).unwrap());
        writer.finish().unwrap();
        bytes
    }

    fn import(bytes: &[u8]) -> anyhow::Result<Vec<Record>> {
        all(Box::new(Reader::new(bytes)?))
    }

    #[test]
    fn version_1_is_written_and_read_unchanged() {
        if std::env::var_os("SILTSTONE_BLESS").is_some() {
            std::fs::write("../../fixtures/export-v1.bin", exported()).unwrap();
        }
        assert_eq!(exported(), GOLDEN);
        assert_eq!(import(GOLDEN).unwrap(), some_records());
    }

    #[test]
    fn a_truncated_export_is_refused() {
        for length in 0..GOLDEN.len() {
            assert!(import(&GOLDEN[..length]).is_err(), "{length} bytes");
        }
        assert!(import(&[GOLDEN, b"!"].concat()).is_err());
    }

    #[test]
    fn a_flipped_bit_anywhere_is_found() {
        for at in 0..GOLDEN.len() * 8 {
            let mut bytes = GOLDEN.to_vec();
            bytes[at / 8] ^= 1 << (at % 8);
            assert!(import(&bytes).is_err(), "bit {at}");
        }
    }

    #[test]
    fn records_before_the_damage_are_still_read() {
        let mut bytes = GOLDEN.to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        let mut reader = Reader::new(&bytes[..]).unwrap();
        for record in some_records() {
            assert_eq!(reader.next().unwrap(), Some(record));
        }
        assert!(reader.next().is_err());
    }
}
