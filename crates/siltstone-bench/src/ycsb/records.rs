//! The records: YCSB's keys, and values whose fields tell to which record they belong.

use super::zipfian::fnv_64;
use crate::keys::Values;
use std::io::Write;

/// What every key begins with.
const PREFIX: &str = "user";
/// The digits of the highest number that a hash can be.
const DIGITS_MAX: usize = 19;
/// From which number the contents of fields follow. One for all runs, so that a later one can check what an earlier one
/// has written.
const CONTENTS_SEED: u64 = 0;

/// Makes keys and values. A value is its fields one after the other, without their names.
#[derive(Debug, Clone)]
pub struct Records {
    field_count: u64,
    field_length: usize,
    fixed: bool,
    fields: Values,
}

impl Records {
    /// Records of `field_count` fields of `field_length` bytes. If they are all to have one size, the numbers in the
    /// keys are filled up with zeros (YCSB's `zeropadding`).
    pub fn new(field_count: usize, field_length: usize, fixed: bool) -> Records {
        let fields = Values::new(field_length, CONTENTS_SEED);
        Records { field_count: field_count as u64, field_length, fixed, fields }
    }

    /// The length of the longest keys, in bytes; of all, if they have one size.
    pub const KEY_BYTES_MAX: usize = PREFIX.len() + DIGITS_MAX;

    /// The length of the values, in bytes.
    pub fn value_bytes(&self) -> usize {
        self.field_count as usize * self.field_length
    }

    /// The bytes of the keys and values of so many records; takes some 10 ns a record.
    pub fn data_bytes(&self, records: u64) -> u64 {
        let digits = |number: u64| fnv_64(number).checked_ilog10().map_or(1, |digits| u64::from(digits) + 1);
        let key_bytes: u64 = match self.fixed {
            true => records.saturating_mul(Self::KEY_BYTES_MAX as u64),
            false => (0..records).map(|number| PREFIX.len() as u64 + digits(number)).sum(),
        };
        key_bytes.saturating_add(records.saturating_mul(self.value_bytes() as u64))
    }

    /// The key of a record.
    pub fn write_key(&self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        let width = if self.fixed { DIGITS_MAX } else { 0 };
        let hash = fnv_64(number);
        // A vector takes everything.
        let _ = write!(key, "{PREFIX}{hash:0width$}");
    }

    /// A value all of whose fields come from one write of that number.
    pub fn write_value(&self, number: u64, write: u64, value: &mut Vec<u8>) {
        value.clear();
        let mut contents = Vec::with_capacity(self.field_length + 8);
        for field in 0..self.field_count {
            self.fields.write(self.field(number, field), write, &mut contents);
            value.extend_from_slice(&contents);
        }
    }

    /// Writes one field of a value once more; `field` counts modulo the number of fields.
    pub fn update_field(&self, number: u64, field: u64, value: &mut [u8]) {
        let field = field % self.field_count;
        let start = field as usize * self.field_length;
        let Some(bytes) = value.get_mut(start..start + self.field_length) else { return };
        let mut contents = Vec::with_capacity(self.field_length + 8);
        self.fields.write(self.field(number, field), write_of(bytes).wrapping_add(1), &mut contents);
        bytes.copy_from_slice(&contents);
    }

    /// Whether a value belongs to the record, with every field whole.
    pub fn is_of(&self, number: u64, value: &[u8]) -> bool {
        value.len() == self.value_bytes()
            && (0..)
                .zip(value.chunks_exact(self.field_length))
                .all(|(field, bytes)| self.fields.is_of(self.field(number, field), bytes))
    }

    /// How often the fields of a value were updated since the record was loaded; for fields of 16 bytes or more.
    pub fn updates_of(&self, value: &[u8]) -> u64 {
        value.chunks_exact(self.field_length).map(write_of).fold(0, u64::wrapping_add)
    }

    /// Every field of every record has a number of its own.
    fn field(&self, number: u64, field: u64) -> u64 {
        number.wrapping_mul(self.field_count).wrapping_add(field)
    }
}

/// The number of the write that made a field: [`Values`] puts it first, from 16 bytes on.
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
    fn a_value_of_another_record_or_with_fields_in_another_order_is_told() {
        let records = Records::new(3, 20, false);
        let mut value = Vec::new();
        records.write_value(5, 7, &mut value);
        assert!(!records.is_of(6, &value) && !records.is_of(5, &value[1..]) && !records.is_of(5, &[]));
        let moved = [&value[20..], &value[..20]].concat();
        assert!(!records.is_of(5, &moved));
    }
}
