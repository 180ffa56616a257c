//! A Bloom filter of one set whose size is not known before (after Almeida, Baquero, Preguiça and Hutchison, "Scalable
//! Bloom Filters", Information Processing Letters 2007).
//!
//! ```text
//! expected keys   N: m bits per key         one filter of a fixed size, as in BloomStore (III-C), if no more keys come
//! the next        N: m + 2 bits per key     each further part is for as many keys as all before it,
//! the next       2N: m + 4 bits per key     and has 0.38 times the false positives of the one before
//! ```

use super::{BloomFilters, functions_of};
use crate::coding::Decoder;
use crate::index::{BuildError, DecodeError};

const STRUCTURE: &str = "growing Bloom filter";
const MAGIC: [u8; 4] = *b"SSGF";
const VERSION: u16 = 1;
/// The bytes before those of the parts.
const HEADER_BYTES: usize = 24;

/// The maximum number of bits per key.
pub const BITS_PER_KEY_MAX: u32 = 32;
/// The bits per key that a part has more than the one before.
const MORE_BITS: u32 = 2;
/// The minimum number of rows: fewer would give small sets a large share of false positives.
const ROWS_MIN: u64 = 64;

/// A Bloom filter to which keys are added.
///
/// Up to the expected number of keys it is one filter. Beyond, all parts together have at most 1.62 times the false
/// positives of the first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrowingFilter {
    /// A filter for each part.
    parts: BloomFilters,
    bits_per_key: u32,
    /// The keys for which the first part is made.
    expected_keys: u64,
    keys: u64,
}

impl GrowingFilter {
    /// Makes an empty filter, with the memory for the keys that are expected, at least one.
    ///
    /// # Errors
    /// [`BuildError::Setting`] for no bits per key or more than [`BITS_PER_KEY_MAX`].
    pub fn new(expected_keys: u64, bits_per_key: u32) -> Result<Self, BuildError> {
        if !(1..=BITS_PER_KEY_MAX).contains(&bits_per_key) {
            return Err(BuildError::Setting {
                name: "bits_per_key",
                got: bits_per_key.into(),
                limit: "1 to 32",
            });
        }
        let expected_keys = expected_keys.max(1);
        let mut filter =
            GrowingFilter { parts: BloomFilters::default(), bits_per_key, expected_keys, keys: 0 };
        filter.add_part()?;
        Ok(filter)
    }

    /// Returns the number of keys for which these parts are made.
    fn capacity(&self, parts: u32) -> u64 {
        self.expected_keys.saturating_mul(1 << (parts.max(1) - 1).min(63))
    }

    /// Returns the number of rows of a part, and the keys for which it is made.
    fn rows_and_keys(&self, part: u32) -> (u32, u64) {
        let keys = self.capacity(part);
        let rows = keys.saturating_mul(u64::from(self.bits_per_key + MORE_BITS * part));
        (rows.clamp(ROWS_MIN, u32::MAX.into()) as u32, keys)
    }

    fn add_part(&mut self) -> Result<(), BuildError> {
        let (rows, keys) = self.rows_and_keys(self.parts.columns());
        self.parts.add_filter(rows, functions_of(rows, keys as f64))
    }

    /// Returns the number of keys that were inserted.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Inserts a key.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if there are more than 2^255 times the expected keys.
    pub fn insert(&mut self, hash: u64) -> Result<(), BuildError> {
        if self.keys >= self.capacity(self.parts.columns()) {
            self.add_part()?;
        }
        self.keys += 1;
        self.parts.insert(hash);
        Ok(())
    }

    /// Returns whether a key may have been inserted; false if it was certainly not.
    pub fn may_contain(&self, hash: u64) -> bool {
        self.parts.groups().iter().any(|part| !part.matches(hash).is_empty())
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.parts.heap_bytes()
    }

    /// Appends the encoded filter (`docs/formats/bloom_filters.md`).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend((self.bits_per_key as u16).to_le_bytes());
        out.extend(self.expected_keys.to_le_bytes());
        out.extend(self.keys.to_le_bytes());
        self.parts.encode(out);
    }

    /// Decodes what [`encode`](GrowingFilter::encode) has appended.
    ///
    /// # Errors
    /// Bytes that the format does not allow, with their offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let bits_per_key = reader.u16("bits per key")?.into();
        let is_allowed = (1..=BITS_PER_KEY_MAX).contains(&bits_per_key);
        reader.check(2, is_allowed, || format!("1 to {BITS_PER_KEY_MAX}"), || bits_per_key.to_string())?;
        let expected_keys = reader.u64("a number of expected keys")?;
        reader.check(8, expected_keys > 0, || "at least one key".into(), || "none".into())?;
        let keys = reader.u64("a number of keys")?;
        let parts = BloomFilters::decode(bytes.get(HEADER_BYTES..).unwrap_or_default())?;
        let filter = GrowingFilter { parts, bits_per_key, expected_keys, keys };
        let rows = filter
            .parts
            .groups()
            .iter()
            .flat_map(|part| std::iter::repeat_n(part.rows(), part.columns() as usize));
        let are_allowed = filter.parts.columns() > 0
            && (0..).zip(rows).all(|(part, rows)| filter.rows_and_keys(part).0 == rows);
        reader.check(0, are_allowed, || format!("parts for {expected_keys} keys"), || "others".into())?;
        let capacity = filter.capacity(filter.parts.columns());
        reader.check(8, keys <= capacity, || format!("at most {capacity} keys"), || keys.to_string())?;
        Ok(filter)
    }
}
