//! Keys, their limits, and their hashes.

use crate::error::{Error, Result};
use siphasher::{sip, sip128};
use std::fmt;

/// The maximum length of a key, in bytes.
pub const KEY_LENGTH_MAX: usize = 65_535;
/// The maximum length of a value, in bytes.
pub const VALUE_LENGTH_MAX: usize = 256 << 20;

/// Checks that a key has 1 to [`KEY_LENGTH_MAX`] bytes.
pub fn check_key(key: &[u8]) -> Result<()> {
    check_key_length(key.len())
}

/// Checks the length of a key, in bytes.
pub fn check_key_length(length: usize) -> Result<()> {
    if (1..=KEY_LENGTH_MAX).contains(&length) { Ok(()) } else { Err(Error::KeyLength { length }) }
}

/// Checks that a value has at most [`VALUE_LENGTH_MAX`] bytes.
pub fn check_value(value: &[u8]) -> Result<()> {
    check_value_length(value.len())
}

/// Checks the length of a value, in bytes.
pub fn check_value_length(length: usize) -> Result<()> {
    if length <= VALUE_LENGTH_MAX { Ok(()) } else { Err(Error::ValueLength { length }) }
}

/// The order in which a range returns its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// From the lowest key on.
    #[default]
    Ascending,
    /// From the highest key on.
    Descending,
}

/// What all records of a database have in common.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordLayout {
    /// The lengths of all keys and all values, in bytes, if they are fixed: records then store no lengths.
    pub fixed: Option<(usize, usize)>,
    /// Whether records of fixed lengths have space for an expiry time; other records have it as needed.
    pub expiring: bool,
}

// The type is in the documented interface of MICA, the checks are not.
#[doc(hidden)]
impl RecordLayout {
    /// Checks the length of a key.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::RecordSize`].
    pub fn check_key(&self, key: &[u8]) -> Result<()> {
        match self.fixed {
            // A fixed length is within the limits since the database was created.
            Some((expected, _)) if key.len() == expected => Ok(()),
            Some((expected, _)) => {
                check_key(key)?;
                Err(Error::RecordSize { what: "key", expected, got: key.len() })
            }
            None => check_key(key),
        }
    }

    /// Checks the length of a value, and whether its record may expire if it does.
    ///
    /// # Errors
    /// [`Error::ValueLength`], [`Error::RecordSize`], [`Error::ExpiryUnsupported`].
    pub fn check_value(&self, value: &[u8], expires: bool) -> Result<()> {
        match self.fixed {
            Some((_, expected)) if value.len() == expected => match expires && !self.expiring {
                true => Err(Error::ExpiryUnsupported),
                false => Ok(()),
            },
            Some((_, expected)) => {
                check_value(value)?;
                Err(Error::RecordSize { what: "value", expected, got: value.len() })
            }
            None => check_value(value),
        }
    }
}

/// The 128-bit hash of a key, in two independent halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash {
    /// Determines the key's partition, its order on flash and its bucket.
    pub placement: u64,
    /// Distinguishes keys of similar placement, in tags and filters.
    pub fingerprint: u64,
}

impl KeyHash {
    /// Returns the partition of the key, one of 2^`partitions_log2`, and the hash within it: the bits of the placement
    /// that are equal for all keys of the partition are replaced by bits of the fingerprint.
    #[inline]
    pub fn route(self, partitions_log2: u32) -> Route {
        let KeyHash { placement, fingerprint } = self;
        match partitions_log2 {
            // On its own, because a shift by 64 bits overflows.
            0 => Route { partition: 0, hash: self },
            bits => Route {
                partition: (placement >> (64 - bits)) as usize,
                hash: KeyHash { placement: placement << bits | fingerprint >> (64 - bits), fingerprint },
            },
        }
    }

    /// Returns the hash within one of 2^`partitions_log2` partitions: [`route`](KeyHash::route).
    #[inline]
    pub fn within_partition(self, partitions_log2: u32) -> KeyHash {
        self.route(partitions_log2).hash
    }

    /// Returns the complete placement of a key, from its hash within `partition`.
    #[inline]
    pub fn whole_placement(self, partition: usize, partitions_log2: u32) -> u64 {
        match partitions_log2 {
            0 => self.placement,
            bits => (partition as u64) << (64 - bits) | self.placement >> bits,
        }
    }

    /// Returns the partition of the key, one of 2^`partitions_log2`.
    #[inline]
    pub fn partition(self, partitions_log2: u32) -> usize {
        self.route(partitions_log2).partition
    }
}

/// Where a key belongs.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// The number of the partition.
    pub partition: usize,
    /// The hash of the key within the partition.
    pub hash: KeyHash,
}

/// A key with its hash. An operation hashes its key once, where it enters the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    bytes: &'a [u8],
    hash: KeyHash,
}

impl<'a> Key<'a> {
    /// Returns the key.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns its hash.
    #[inline]
    pub fn hash(&self) -> KeyHash {
        self.hash
    }
}

/// How a database hashes its keys; fixed when it is created. `Debug` does not show the seed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KeyHasher {
    /// SipHash-1-3 with 128 bits of output and a secret seed, so no adversary can choose keys that collide.
    Keyed([u64; 2]),
    /// SipHash-1-3 with 64 bits of output and a secret seed, for an engine in memory: no file has it. As safe as
    /// `Keyed`, because SipHash is a pseudorandom function with either output: without the seed, hashes look random,
    /// also to who sees how long operations on keys of their choice take. Both halves of a hash are the same number:
    /// the engine uses one of them.
    ///
    /// Hashes of a few multiplications are three times as fast, but no pseudorandom functions: two keys that collide
    /// show how to find more of them. AES is one, but takes twice the time where keys are hashed one by one.
    Keyed64([u64; 2]),
    /// The keys are uniform hashes already: their first 16 bytes are used unchanged (shorter keys are repeated).
    Identity,
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            KeyHasher::Keyed(_) => "Keyed(..)",
            KeyHasher::Keyed64(_) => "Keyed64(..)",
            KeyHasher::Identity => "Identity",
        })
    }
}

#[cfg(test)]
thread_local! {
    /// The number of keys that this thread has hashed.
    pub(crate) static HASHES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The minimum length of a key that is a hash, in bytes: that of the placement.
pub const HASH_LENGTH_MIN: usize = 8;

impl KeyHasher {
    /// Checks that a key is valid for this hasher.
    ///
    /// # Errors
    /// [`Error::HashLength`] for a key that is too short to be a hash.
    pub fn check_key(&self, key: &[u8]) -> Result<()> {
        match self {
            KeyHasher::Identity if key.len() < HASH_LENGTH_MIN => Err(Error::HashLength { got: key.len() }),
            _ => Ok(()),
        }
    }

    /// Returns a key with its hash.
    ///
    /// ```
    /// let key = siltstone::key::KeyHasher::Keyed([1, 2]).key(b"key");
    /// assert_eq!(key.bytes(), b"key");
    /// ```
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        Key { bytes, hash: self.hash(bytes) }
    }

    /// Returns the hash of `key`. Takes about 10 ns for a short key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        #[cfg(test)]
        HASHES.set(HASHES.get() + 1);
        match self {
            KeyHasher::Keyed([seed0, seed1]) => {
                let hash = sip128::SipHasher13::new_with_keys(*seed0, *seed1).hash(key);
                KeyHash { placement: hash.h1, fingerprint: hash.h2 }
            }
            KeyHasher::Keyed64([seed0, seed1]) => {
                let hash = sip::SipHasher13::new_with_keys(*seed0, *seed1).hash(key);
                KeyHash { placement: hash, fingerprint: hash }
            }
            KeyHasher::Identity => {
                let mut bytes = [0u8; 16];
                for (to, from) in bytes.iter_mut().zip(key.iter().cycle()) {
                    *to = *from;
                }
                let whole = u128::from_be_bytes(bytes);
                KeyHash { placement: (whole >> 64) as u64, fingerprint: whole as u64 }
            }
        }
    }
}

/// Hashes the keys of a database within their partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionHasher {
    /// The hash function.
    pub key_hasher: KeyHasher,
    /// The binary logarithm of the number of partitions.
    pub partitions_log2: u32,
}

impl PartitionHasher {
    /// Returns the partition of a key and the hash of the key in it.
    #[inline]
    pub fn route(&self, key: Key<'_>) -> Route {
        key.hash.route(self.partitions_log2)
    }

    /// Returns the hash of a key within its partition.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.key_hasher.hash(key).within_partition(self.partitions_log2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_too_long_keys_are_refused() {
        assert!(check_key(b"").is_err());
        assert!(check_key(&vec![0; KEY_LENGTH_MAX]).is_ok());
        assert!(check_key(&vec![0; KEY_LENGTH_MAX + 1]).is_err());
        assert!(check_value(b"").is_ok());
    }

    #[test]
    fn errors_name_the_limits() {
        let errors = [
            (Error::KeyLength { length: 0 }, "65,535 bytes".to_owned()),
            (Error::ValueLength { length: 0 }, format!("{VALUE_LENGTH_MAX} bytes")),
            (Error::HashLength { got: 0 }, format!("{HASH_LENGTH_MIN} bytes")),
        ];
        assert_eq!(KEY_LENGTH_MAX, 65_535);
        errors.iter().for_each(|(error, limit)| assert!(error.to_string().contains(limit), "{error}"));
    }

    #[test]
    fn no_debug_output_shows_the_seed() {
        let hasher = KeyHasher::Keyed([0x0123_4567_89ab_cdef, 4_242_424_242_424]);
        let within = PartitionHasher { key_hasher: hasher, partitions_log2: 4 };
        let report = crate::VerifyReport { hasher: Some(hasher), ..Default::default() };
        let short = KeyHasher::Keyed64([0x0123_4567_89ab_cdef, 4_242_424_242_424]);
        let shown =
            [format!("{hasher:?}"), format!("{within:#?}"), format!("{report:?}"), format!("{short:?}")];
        for shown in shown {
            assert!(shown.contains("Keyed(..)") || shown == "Keyed64(..)", "{shown}");
            assert!(!shown.contains("4242424242424") && !shown.contains("81985529216486895"), "{shown}");
        }
    }

    #[test]
    fn another_seed_places_keys_elsewhere() {
        let one = KeyHasher::Keyed([1, 2]).hash(b"key");
        let two = KeyHasher::Keyed([1, 3]).hash(b"key");
        assert_ne!(one.placement, two.placement);
        assert_ne!(one.fingerprint, two.fingerprint);
        // Each half of the seed counts, for keys of one word and for others.
        for key in [&b"key"[..], b"8 bytes.", b"more than 8 bytes"] {
            let hashes = [[1, 2], [1, 3], [2, 2]].map(|seed| KeyHasher::Keyed64(seed).hash(key).placement);
            assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2] && hashes[1] != hashes[2]);
        }
    }

    #[test]
    fn a_whole_placement_follows_from_the_hash_within_a_partition() {
        for partitions_log2 in [0, 1, 4, 10] {
            for number in 0..100u32 {
                let hash = KeyHasher::Keyed([1, 2]).hash(&number.to_le_bytes());
                let (partition, within) =
                    (hash.partition(partitions_log2), hash.within_partition(partitions_log2));
                assert_eq!(within.whole_placement(partition, partitions_log2), hash.placement);
            }
        }
    }

    #[test]
    fn hashed_keys_are_placed_in_their_own_order() {
        let low = KeyHasher::Identity.hash(&[1; 20]);
        let high = KeyHasher::Identity.hash(&[2; 20]);
        assert!(low.placement < high.placement);
    }
}
