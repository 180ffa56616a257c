//! Keys that represent numbers, and values that can be verified.

use crate::random::{GOLDEN, mix};
use crate::{Error, Result, json};

/// Generates keys of one length from numbers, like db_bench: the number in big-endian order, padded with `0`.
///
/// Keys that should be hashes are made with a bijection of the number, so they are as distinct as the numbers.
#[derive(Debug, Clone)]
pub struct Keys {
    length: usize,
    count: u64,
    hashed: bool,
}

impl Keys {
    /// Creates keys of `length` bytes for the numbers below `count`, and the same number of missing keys.
    pub fn new(length: usize, count: u64, hashed: bool) -> Result<Keys> {
        let bits = 8 * length.min(8) as u32;
        let too_short = length == 0 || (hashed && length < 8) || u128::from(count) * 2 > 1 << bits;
        match too_short {
            true => Err(Error::Settings(format!(
                "{count} keys and as many missing ones need more than {length} bytes each"
            ))),
            false => Ok(Keys { length, count, hashed }),
        }
    }

    /// Returns the number of keys, without the missing ones.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Writes the key of a number.
    pub fn write(&self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        if self.hashed {
            let mut word = mix(number);
            while key.len() < self.length {
                key.extend_from_slice(&word.to_be_bytes());
                word = mix(word.wrapping_add(GOLDEN));
            }
        } else {
            let bytes = number.to_be_bytes();
            key.extend_from_slice(&bytes[8 - self.length.min(8)..]);
            key.resize(self.length, b'0');
        }
        key.truncate(self.length);
    }

    /// Writes a key that no number below the count has.
    pub fn write_missing(&self, number: u64, key: &mut Vec<u8>) {
        let bits = 8 * self.length.min(8) as u32;
        self.write((u64::MAX >> (64 - bits)) - number, key);
    }

    /// Returns the number below the count that has this key.
    pub fn number_of(&self, key: &[u8]) -> Option<u64> {
        let mut first = [0; 8];
        let length = key.len().min(8);
        first[8 - length..].copy_from_slice(&key[..length]);
        let word = u64::from_be_bytes(first);
        let number = if self.hashed { unmix(word) } else { word };
        let mut expected = Vec::with_capacity(self.length);
        self.write(number, &mut expected);
        (number < self.count && expected == key).then_some(number)
    }
}

/// Returns the inverse of [`mix`].
fn unmix(mut number: u64) -> u64 {
    number = unshift(number, 31).wrapping_mul(0x3196_42b2_d24d_8ec3);
    number = unshift(number, 27).wrapping_mul(0x96de_1b17_3f11_9089);
    unshift(number, 30)
}

/// Returns the inverse of `number ^ number >> shift`, for shifts of at least 22.
fn unshift(number: u64, shift: u32) -> u64 {
    number ^ (number >> shift) ^ (number >> (2 * shift))
}

/// Generates values of one length. A value of at least 16 bytes identifies its key and its write: its first 8 bytes are
/// the number of the write, the others are derived from that number and the key. Shorter values are derived from the
/// key alone.
#[derive(Debug, Clone)]
pub struct Values {
    length: usize,
    seed: u64,
    kind: ValueKind,
}

/// What values consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValueKind {
    /// Random bytes.
    #[default]
    Random,
    /// JSON whose names repeat, and whose numbers and words are random.
    Json,
}

impl ValueKind {
    /// All kinds.
    pub const ALL: [ValueKind; 2] = [ValueKind::Random, ValueKind::Json];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            ValueKind::Random => "random",
            ValueKind::Json => "json",
        }
    }
}

crate::named!(ValueKind);

impl Values {
    /// Creates values of `length` bytes.
    pub fn new(length: usize, seed: u64) -> Values {
        Values { length, seed, kind: ValueKind::Random }
    }

    /// Creates values of this kind. Those of JSON have at least 64 bytes.
    pub fn of_kind(kind: ValueKind, length: usize, seed: u64) -> Result<Values> {
        match kind == ValueKind::Json && length < json::LENGTH_MIN {
            true => Err(Error::Settings(format!("values of JSON have at least {} bytes", json::LENGTH_MIN))),
            false => Ok(Values { kind, ..Values::new(length, seed) }),
        }
    }

    /// Writes the value that a write gives to the key of a number.
    pub fn write(&self, number: u64, write: u64, value: &mut Vec<u8>) {
        value.clear();
        value.reserve(self.length + 8);
        if self.kind == ValueKind::Json {
            return json::write(self.length, write, &mut self.words(number, write), value);
        }
        let write = if self.length >= 16 {
            value.extend_from_slice(&write.to_le_bytes());
            write
        } else {
            0
        };
        for word in self.words(number, write) {
            if value.len() >= self.length {
                break;
            }
            value.extend_from_slice(&word.to_le_bytes());
        }
        value.truncate(self.length);
    }

    fn words(&self, number: u64, write: u64) -> impl Iterator<Item = u64> + use<> {
        let mut state = mix(number.wrapping_add(mix(write ^ self.seed)));
        std::iter::repeat_with(move || {
            state = state.wrapping_add(GOLDEN);
            (state ^ (state >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
        })
    }

    /// Returns whether `value` belongs to the key of this number.
    pub fn is_of(&self, number: u64, value: &[u8]) -> bool {
        if value.len() != self.length {
            return false;
        }
        if self.kind == ValueKind::Json {
            let Some(write) = json::write_of(value) else { return false };
            let mut expected = Vec::new();
            self.write(number, write, &mut expected);
            return expected == value;
        }
        let (write, rest) = match value.split_first_chunk::<8>() {
            Some((write, rest)) if self.length >= 16 => (u64::from_le_bytes(*write), rest),
            _ => (0, value),
        };
        let mut words = self.words(number, write);
        let (whole, last) = rest.as_chunks::<8>();
        // Compared in words and without an early exit: verification must not dominate the measurement.
        let differences = whole.iter().zip(&mut words);
        let different = differences.fold(0, |all, (bytes, word)| all | (u64::from_le_bytes(*bytes) ^ word));
        different == 0 && words.next().is_some_and(|word| word.to_le_bytes().starts_with(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_number_has_its_own_key_and_missing_ones_differ() {
        for (length, hashed) in
            [(1, false), (2, false), (7, false), (8, false), (8, true), (20, false), (33, true)]
        {
            let count = if length == 1 { 128 } else { 1000 };
            let keys = Keys::new(length, count, hashed).unwrap();
            let mut seen = HashSet::new();
            let mut key = Vec::new();
            for number in 0..count {
                keys.write(number, &mut key);
                assert_eq!((key.len(), keys.number_of(&key)), (length, Some(number)));
                assert!(seen.insert(key.clone()));
                keys.write_missing(number, &mut key);
                assert_eq!((key.len(), keys.number_of(&key)), (length, None));
                assert!(seen.insert(key.clone()));
            }
        }
    }

    #[test]
    fn too_short_keys_are_refused() {
        assert!(Keys::new(1, 129, false).is_err());
        assert!(Keys::new(0, 1, false).is_err());
        assert!(Keys::new(7, 1, true).is_err());
        assert!(Keys::new(8, u64::MAX / 2, false).is_ok());
    }

    #[test]
    fn a_value_of_json_reveals_a_wrong_key_and_every_flipped_bit() {
        let values = Values::of_kind(ValueKind::Json, 300, 3).unwrap();
        let mut value = Vec::new();
        values.write(17, 5, &mut value);
        assert!(values.is_of(17, &value) && !values.is_of(18, &value) && !values.is_of(17, &value[1..]));
        for bit in 0..8 * value.len() {
            value[bit / 8] ^= 1 << (bit % 8);
            assert!(!values.is_of(17, &value), "bit {bit}");
            value[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(Values::of_kind(ValueKind::Json, 63, 3).is_err());
    }

    #[test]
    fn a_value_reveals_a_wrong_key_and_every_flipped_bit() {
        for length in [1, 8, 15, 16, 44, 100] {
            let values = Values::new(length, 3);
            let mut value = Vec::new();
            values.write(17, 5, &mut value);
            assert!(value.len() == length && values.is_of(17, &value));
            assert!(length == 1 || !values.is_of(18, &value), "{length}");
            assert!(!values.is_of(17, &value[1..]));
            for bit in 0..8 * length {
                value[bit / 8] ^= 1 << (bit % 8);
                assert!(!values.is_of(17, &value), "{length}: bit {bit}");
                value[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}
