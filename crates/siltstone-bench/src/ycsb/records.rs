//! The records: YCSB's keys, and values whose fields identify their record.

use super::zipfian::fnv_64;
use crate::keys::Values;
use std::io::Write;

/// The prefix of every key.
const PREFIX: &str = "user";
/// The digits of the highest hash.
const DIGITS_MAX: usize = 19;
/// The seed of the fields' contents. It is the same for all runs, so that a later run can check what an earlier one
/// wrote.
const CONTENTS_SEED: u64 = 0;

/// Generates keys and values. A value is the concatenation of its fields, without names.
#[derive(Debug, Clone)]
pub struct Records {
    field_count: u64,
    field_length: usize,
    fixed: bool,
    fields: Values,
}

impl Records {
    /// Creates records of `field_count` fields of `field_length` bytes. With `fixed`, numbers in keys are padded with
    /// zeros (YCSB's `zeropadding`), so that all records have one size.
    pub fn new(field_count: usize, field_length: usize, fixed: bool) -> Records {
        let fields = Values::new(field_length, CONTENTS_SEED);
        Records { field_count: field_count as u64, field_length, fixed, fields }
    }

    /// The length of the longest keys, in bytes; with fixed sizes, of all keys.
    pub const KEY_BYTES_MAX: usize = PREFIX.len() + DIGITS_MAX;

    /// Returns the length of the values, in bytes.
    pub fn value_bytes(&self) -> usize {
        self.field_count as usize * self.field_length
    }

    /// Returns the total bytes of the keys and values of this many records. Takes about 10 ns per record.
    pub fn data_bytes(&self, records: u64) -> u64 {
        let digits = |number: u64| fnv_64(number).checked_ilog10().map_or(1, |digits| u64::from(digits) + 1);
        let key_bytes: u64 = match self.fixed {
            true => records.saturating_mul(Self::KEY_BYTES_MAX as u64),
            false => (0..records).map(|number| PREFIX.len() as u64 + digits(number)).sum(),
        };
        key_bytes.saturating_add(records.saturating_mul(self.value_bytes() as u64))
    }

    /// Writes the key of a record.
    pub fn write_key(&self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        let width = if self.fixed { DIGITS_MAX } else { 0 };
        let hash = fnv_64(number);
        // Writing to a vector cannot fail.
        let _ = write!(key, "{PREFIX}{hash:0width$}");
    }

    /// Writes a value whose fields all come from one write with that number.
    pub fn write_value(&self, number: u64, write: u64, value: &mut Vec<u8>) {
        value.clear();
        let mut contents = Vec::with_capacity(self.field_length + 8);
        for field in 0..self.field_count {
            self.fields.write(self.field(number, field), write, &mut contents);
            value.extend_from_slice(&contents);
        }
    }

    /// Rewrites one field of a value; `field` is taken modulo the number of fields.
    pub fn update_field(&self, number: u64, field: u64, value: &mut [u8]) {
        let field = field % self.field_count;
        let start = field as usize * self.field_length;
        let Some(bytes) = value.get_mut(start..start + self.field_length) else { return };
        let mut contents = Vec::with_capacity(self.field_length + 8);
        self.fields.write(self.field(number, field), write_of(bytes).wrapping_add(1), &mut contents);
        bytes.copy_from_slice(&contents);
    }

    /// Returns whether a value belongs to the record and every field is intact.
    pub fn is_of(&self, number: u64, value: &[u8]) -> bool {
        value.len() == self.value_bytes()
            && (0..)
                .zip(value.chunks_exact(self.field_length))
                .all(|(field, bytes)| self.fields.is_of(self.field(number, field), bytes))
    }

    /// Returns the number of updates to a value's fields since the load, for fields of at least 16 bytes.
    pub fn updates_of(&self, value: &[u8]) -> u64 {
        value.chunks_exact(self.field_length).map(write_of).fold(0, u64::wrapping_add)
    }

    /// Returns a number that is unique to a field of a record.
    fn field(&self, number: u64, field: u64) -> u64 {
        number.wrapping_mul(self.field_count).wrapping_add(field)
    }
}

/// Returns the number of the write that generated a field: [`Values`] puts it first in fields of at least 16 bytes.
fn write_of(field: &[u8]) -> u64 {
    field.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_ycsb() {
        let mut key = Vec::new();
        Records::new(10, 100, false).write_key(0, &mut key);
        assert_eq!(key, b"user6284781860667377211");
        let (short, fixed) = (Records::new(1, 1, false), Records::new(1, 1, true));
        let shorter = (0..1000).find(|number| fnv_64(*number) < 100_000_000_000_000_000).unwrap();
        short.write_key(shorter, &mut key);
        let digits = key[4..].to_vec();
        fixed.write_key(shorter, &mut key);
        assert!(key.len() == Records::KEY_BYTES_MAX && key.ends_with(&digits) && key.starts_with(b"user00"));
    }

    #[test]
    fn the_bytes_of_records_are_those_of_their_keys_and_values() {
        for fixed in [false, true] {
            let records = Records::new(2, 5, fixed);
            let mut key = Vec::new();
            let length = |number| {
                records.write_key(number, &mut key);
                key.len() as u64 + 10
            };
            let sum: u64 = (0..500).map(length).sum();
            assert_eq!(records.data_bytes(500), sum);
        }
    }

    #[test]
    fn an_update_changes_one_field_and_counts() {
        let records = Records::new(3, 20, false);
        let mut value = Vec::new();
        records.write_value(5, 0, &mut value);
        let before = value.clone();
        for (times, field) in [1, 4, 2].into_iter().enumerate() {
            assert!(records.is_of(5, &value) && records.updates_of(&value) == times as u64);
            records.update_field(5, field, &mut value);
        }
        assert!(records.is_of(5, &value) && records.updates_of(&value) == 3);
        assert!(
            value[..20] == before[..20] && value[20..40] != before[20..40] && value[40..] != before[40..]
        );
    }

    #[test]
    fn a_value_of_another_record_or_with_swapped_fields_is_detected() {
        let records = Records::new(3, 20, false);
        let mut value = Vec::new();
        records.write_value(5, 7, &mut value);
        assert!(!records.is_of(6, &value) && !records.is_of(5, &value[1..]) && !records.is_of(5, &[]));
        let moved = [&value[20..], &value[..20]].concat();
        assert!(!records.is_of(5, &moved));
    }
}
