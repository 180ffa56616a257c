//! The bytes of a record, in the two forms in which stores keep them.
//!
//! *Stream* form, for records one after another (the log, hash-ordered blocks): a byte of flags, for records of any
//! size the lengths of key and value, the expiry time if the flags say so, the key and the value. *Slot* form, for
//! records of the same size (cuckoo tables, blocks of fixed-size records): the flags if the store can hold tombstones,
//! the expiry time if the database has them, the key and the value, or zeros for a tombstone.
//!
//! ```text
//! stream   | flags | key length | value length | expiry | key | value |      lengths: varints, absent if fixed
//! slot     | flags | expiry | key | value |                                  flags, expiry: only where needed
//! ```
//!
//! `docs/formats/record.md` has both diagrams.

use crate::batch::{NEVER, TimestampMs, Write, has_expired};
use crate::key::{
    KEY_LENGTH_MAX, PartitionHasher, RecordLayout, VALUE_LENGTH_MAX, check_key_length, check_value_length,
};
use siltstone_index::coding::push_varint;
use std::ops::Range;

/// The record is a tombstone.
pub const FLAG_DELETED: u8 = 1 << 0;
/// The record has an expiry time.
pub const FLAG_EXPIRES: u8 = 1 << 1;

/// The bytes of an expiry time.
pub const EXPIRY_BYTES: usize = 8;

/// A record in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value; `None` for a tombstone.
    pub value: Option<&'a [u8]>,
    /// When the record expires, or [`NEVER`].
    pub expires_at_ms: TimestampMs,
}

impl<'a> From<Write<'a>> for RecordView<'a> {
    fn from(write: Write<'a>) -> Self {
        match write {
            Write::Put { key, value, expires_at_ms } => RecordView { key, value: Some(value), expires_at_ms },
            Write::Delete { key } => RecordView { key, value: None, expires_at_ms: NEVER },
        }
    }
}

impl RecordView<'_> {
    /// Returns whether a lookup at `now_ms` finds nothing: the record is a tombstone or has expired.
    pub fn is_gone(&self, now_ms: TimestampMs) -> bool {
        self.value.is_none() || has_expired(self.expires_at_ms, now_ms)
    }
}

/// The positions of a record's parts in a buffer that is stored separately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordSpan {
    key: Range<usize>,
    value: Option<Range<usize>>,
    expires_at_ms: TimestampMs,
}

impl RecordSpan {
    /// Makes the span of a record whose parts are slices of `buffer`.
    pub fn within(buffer: &[u8], record: &RecordView<'_>) -> RecordSpan {
        let range = |part: &[u8]| {
            // The difference of two addresses. For a part of another buffer the range is wrong, and `view` returns
            // nothing.
            let start = (part.as_ptr() as usize).wrapping_sub(buffer.as_ptr() as usize);
            start..start.wrapping_add(part.len())
        };
        RecordSpan {
            key: range(record.key),
            value: record.value.map(range),
            expires_at_ms: record.expires_at_ms,
        }
    }

    /// Returns the record, from the buffer that it is a part of.
    pub fn view<'a>(&self, buffer: &'a [u8]) -> RecordView<'a> {
        let part = |range: &Range<usize>| buffer.get(range.clone()).unwrap_or_default();
        RecordView {
            key: part(&self.key),
            value: self.value.as_ref().map(part),
            expires_at_ms: self.expires_at_ms,
        }
    }
}

/// The shape of the records of a store: how they are encoded, and how their keys are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordShape {
    /// How records are encoded.
    pub layout: RecordLayout,
    /// How keys are hashed.
    pub hasher: PartitionHasher,
}

/// Why bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordProblem {
    /// They end too early; at least this many bytes are needed.
    Short(usize),
    /// They cannot be a record.
    Malformed(&'static str),
}

/// What precedes the key and the value of a record in stream form.
struct StreamHead {
    flags: u8,
    /// Where the expiry time, or else the key, begins.
    at: usize,
    expiry_bytes: usize,
    key_length: usize,
    value_length: Option<usize>,
}

// The type is in the documented interface of MICA, the bytes of stores are not.
#[doc(hidden)]
impl RecordLayout {
    /// Appends the stream form of a record, with further flags for the log.
    pub fn encode_stream(&self, record: &RecordView<'_>, more_flags: u8, out: &mut Vec<u8>) {
        let mut flags = more_flags;
        if record.value.is_none() {
            flags |= FLAG_DELETED;
        }
        // Per record: in stream form, records that never expire do not pay 8 bytes.
        if record.expires_at_ms != NEVER {
            flags |= FLAG_EXPIRES;
        }
        out.push(flags);
        if self.fixed.is_none() {
            push_varint(out, record.key.len() as u64);
            if let Some(value) = record.value {
                push_varint(out, value.len() as u64);
            }
        }
        if record.expires_at_ms != NEVER {
            out.extend_from_slice(&record.expires_at_ms.to_le_bytes());
        }
        out.extend_from_slice(record.key);
        out.extend_from_slice(record.value.unwrap_or_default());
    }

    /// Decodes the record in stream form at the start of `bytes`. Returns its flags, the record, and its length.
    pub fn decode_stream<'a>(&self, bytes: &'a [u8]) -> Result<(u8, RecordView<'a>, usize), RecordProblem> {
        let head = self.decode_head(bytes)?;
        let StreamHead { flags, expiry_bytes, key_length, value_length, .. } = head;
        let deleted = flags & FLAG_DELETED != 0;
        // `decode_head` has limited both lengths, so this does not overflow.
        let end = head.at + expiry_bytes + key_length + value_length.unwrap_or(0);
        // With the length that is needed, so that a cursor reads as many blocks at once.
        let body = bytes.get(head.at..end).ok_or(RecordProblem::Short(end))?;
        let (expiry, body) = body.split_at(expiry_bytes);
        let (key, value) = body.split_at(key_length);
        // Without an expiry time the slice is empty, and the record never expires.
        let expires_at_ms = expiry.try_into().map_or(NEVER, u64::from_le_bytes);
        Ok((flags, RecordView { key, value: (!deleted).then_some(value), expires_at_ms }, end))
    }

    /// Returns the key of the record in stream form at the start of `bytes`, even if the value is incomplete.
    pub fn decode_stream_key<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], RecordProblem> {
        let head = self.decode_head(bytes)?;
        let start = head.at + head.expiry_bytes;
        let end = start + head.key_length;
        bytes.get(start..end).ok_or(RecordProblem::Short(end))
    }

    fn decode_head(&self, bytes: &[u8]) -> Result<StreamHead, RecordProblem> {
        let flags = *bytes.first().ok_or(RecordProblem::Short(1))?;
        let deleted = flags & FLAG_DELETED != 0;
        let mut at = 1;
        let (key_length, value_length) = match self.fixed {
            Some((key_length, value_length)) => (key_length, (!deleted).then_some(value_length)),
            None => {
                // Any number of 32 bits. It is checked below, before it is used.
                let key_length = read_varint(bytes, &mut at)? as usize;
                let value_length = if deleted { None } else { Some(read_varint(bytes, &mut at)? as usize) };
                (key_length, value_length)
            }
        };
        // Before a caller reads or allocates what the lengths claim.
        if check_key_length(key_length).is_err() {
            return Err(RecordProblem::Malformed("a key length of 1 to 65,535 bytes"));
        }
        if check_value_length(value_length.unwrap_or(0)).is_err() {
            return Err(RecordProblem::Malformed("a value length of at most 256 MiB"));
        }
        let expiry_bytes = if flags & FLAG_EXPIRES != 0 { EXPIRY_BYTES } else { 0 };
        Ok(StreamHead { flags, at, expiry_bytes, key_length, value_length })
    }

    /// Returns the length of the stream form of a record.
    pub fn stream_bytes(&self, record: &RecordView<'_>) -> usize {
        let lengths = match self.fixed {
            Some(_) => 0,
            None => {
                varint_bytes(record.key.len()) + record.value.map_or(0, |value| varint_bytes(value.len()))
            }
        };
        let expiry = if record.expires_at_ms == NEVER { 0 } else { EXPIRY_BYTES };
        1 + lengths + expiry + record.key.len() + record.value.map_or(0, <[u8]>::len)
    }

    /// Returns the maximum number of bytes that the stream form adds to key and value.
    fn stream_overhead_max(&self) -> usize {
        1 + if self.fixed.is_none() { 3 + 4 } else { 0 } + if self.expiring { EXPIRY_BYTES } else { 0 }
    }

    /// Returns the maximum length of a record in stream form.
    pub fn stream_bytes_max(&self) -> usize {
        let (key_length, value_length) = self.fixed.unwrap_or((KEY_LENGTH_MAX, VALUE_LENGTH_MAX));
        self.stream_overhead_max() + key_length + value_length
    }

    /// Returns the minimum length of a record in either form: that of a tombstone in stream form, or of a slot.
    pub fn bytes_min(&self) -> usize {
        match self.fixed {
            Some((key_length, _)) => key_length,
            // Flags, a length of one byte, and a key of one byte.
            None => 3,
        }
    }

    /// Returns the bytes of a slot, if all records have the same size.
    pub fn slot_bytes(&self, with_flags: bool) -> Option<usize> {
        let (key_length, value_length) = self.fixed?;
        Some(
            usize::from(with_flags)
                + if self.expiring { EXPIRY_BYTES } else { 0 }
                + key_length
                + value_length,
        )
    }

    /// Appends the slot form of a record of the fixed size.
    pub fn encode_slot(&self, record: &RecordView<'_>, with_flags: bool, out: &mut Vec<u8>) {
        if with_flags {
            out.push(if record.value.is_none() { FLAG_DELETED } else { 0 });
        }
        if self.expiring {
            out.extend_from_slice(&record.expires_at_ms.to_le_bytes());
        }
        out.extend_from_slice(record.key);
        // A tombstone fills its slot, so that all slots have one size and are found by their numbers.
        match (record.value, self.fixed) {
            (Some(value), _) => out.extend_from_slice(value),
            (None, fixed) => out.resize(out.len() + fixed.map_or(0, |(_, value_length)| value_length), 0),
        }
    }

    /// Decodes a record in slot form; `slot` must have exactly its bytes.
    pub fn decode_slot<'a>(&self, slot: &'a [u8], with_flags: bool) -> Option<RecordView<'a>> {
        let (key_length, value_length) = self.fixed?;
        let (flags, rest) = if with_flags { slot.split_at_checked(1)? } else { (&[0u8][..], slot) };
        let (expiry, rest) = rest.split_at_checked(if self.expiring { EXPIRY_BYTES } else { 0 })?;
        let (key, value) = rest.split_at_checked(key_length)?;
        // Exactly, because bytes of another length would be those of two slots.
        if value.len() != value_length {
            return None;
        }
        let expires_at_ms = expiry.try_into().map_or(NEVER, u64::from_le_bytes);
        let deleted = flags.first().is_some_and(|flags| flags & FLAG_DELETED != 0);
        Some(RecordView { key, value: (!deleted).then_some(value), expires_at_ms })
    }
}

fn varint_bytes(number: usize) -> usize {
    ((usize::BITS - number.leading_zeros()).div_ceil(7) as usize).max(1)
}

fn read_varint(bytes: &[u8], at: &mut usize) -> Result<u32, RecordProblem> {
    let mut number = 0u64;
    // At most five bytes, so 64 bits hold any number that is read. A number of more than 32 bits is refused below.
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(*at).ok_or(RecordProblem::Short(*at + 1))?;
        *at += 1;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return u32::try_from(number).map_err(|_| RecordProblem::Malformed("a length of 32 bits"));
        }
    }
    Err(RecordProblem::Malformed("a length of at most five bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VARIABLE: RecordLayout = RecordLayout { fixed: None, expiring: true };
    const FIXED: RecordLayout = RecordLayout { fixed: Some((3, 2)), expiring: true };

    fn records() -> [RecordView<'static>; 3] {
        [
            RecordView { key: b"abc", value: Some(b"xy"), expires_at_ms: NEVER },
            RecordView { key: b"abd", value: Some(b"zz"), expires_at_ms: 77 },
            RecordView { key: b"abe", value: None, expires_at_ms: NEVER },
        ]
    }

    #[test]
    fn a_record_is_decoded_from_its_stream_form_and_from_no_shorter_one() {
        for layout in [VARIABLE, FIXED] {
            for record in records() {
                let mut bytes = Vec::new();
                layout.encode_stream(&record, 0x80, &mut bytes);
                assert_eq!(bytes.len(), layout.stream_bytes(&record));
                let (flags, back, taken) = layout.decode_stream(&bytes).unwrap();
                assert_eq!((flags & 0x80, back, taken), (0x80, record, bytes.len()));
                assert_eq!(layout.decode_stream_key(&bytes).unwrap(), record.key);
                let after_key = bytes.len() - record.value.map_or(0, <[u8]>::len);
                assert_eq!(layout.decode_stream_key(&bytes[..after_key]).unwrap(), record.key);
                assert!(layout.decode_stream_key(&bytes[..after_key - 1]).is_err());
                for short in 0..bytes.len() {
                    let problem = layout.decode_stream(&bytes[..short]).unwrap_err();
                    assert!(matches!(problem, RecordProblem::Short(needed) if needed > short));
                }
            }
        }
    }

    #[test]
    fn a_record_is_decoded_from_its_slot() {
        for with_flags in [true, false] {
            for record in records().into_iter().filter(|record| with_flags || record.value.is_some()) {
                let mut slot = Vec::new();
                FIXED.encode_slot(&record, with_flags, &mut slot);
                assert_eq!(slot.len(), FIXED.slot_bytes(with_flags).unwrap());
                assert_eq!(FIXED.decode_slot(&slot, with_flags).unwrap(), record);
                assert_eq!(FIXED.decode_slot(&slot[1..], with_flags), None);
            }
        }
    }

    #[test]
    fn the_length_of_the_stream_form_is_known_before_it_is_encoded() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152] {
            let key = vec![1; length.clamp(1, KEY_LENGTH_MAX)];
            let record = RecordView { key: &key, value: Some(&vec![2; length]), expires_at_ms: 5 };
            let mut bytes = Vec::new();
            VARIABLE.encode_stream(&record, 0, &mut bytes);
            assert_eq!(bytes.len(), VARIABLE.stream_bytes(&record), "{length}");
        }
    }

    #[test]
    fn impossible_lengths_are_malformed() {
        assert!(matches!(VARIABLE.decode_stream(&[0, 0, 0]), Err(RecordProblem::Malformed(_))));
        let huge = [0, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, b'k'];
        assert!(matches!(VARIABLE.decode_stream(&huge), Err(RecordProblem::Malformed(_))));
        assert!(VARIABLE.decode_stream(&[0, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]).is_err());
    }

    #[test]
    fn an_expired_record_and_a_tombstone_are_gone() {
        let [put, expiring, deleted] = records();
        assert!(
            !put.is_gone(u64::MAX) && !expiring.is_gone(76) && expiring.is_gone(77) && deleted.is_gone(0)
        );
    }
}
