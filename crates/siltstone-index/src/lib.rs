//! Indexes and filters: pure structures in memory, without I/O, clock or threads. From the hash of a key, an index
//! computes the range of blocks or records that holds its record; a filter reports keys that are certainly absent.
//!
//! A *placement* is a 64-bit hash, uniform over its range; records on flash are ordered by it. A *fingerprint* is a
//! second 64-bit hash of the same key, independent of the first; tags and filters are made from it.
//!
//! | structure | memory per key | returns |
//! |---|---|---|
//! | [`partial_key_cuckoo`] | about 5 bytes | the candidates of a key; fixed capacity |
//! | [`hash_pages`] | about 5 bytes | the candidates of a key; grows with its keys |
//! | [`fences`] | 0.5 bits, 16 records per block | the blocks of records of any size, in hash order |
//! | [`perfect`] | 0.24 bits, 16 records per block | the one block (or slot) of a record of fixed size |
//! | [`entropy_trie`] | 2.5 bits and less | the record's number, or its block, in hash order |
//! | [`bloom`] | 20 bits for a false-positive rate of 2^-12 per set | which of up to 256 sets may have the key |
//! | [`run_columns`] | 20 bits and more, on flash | the blocks of a record, or none |
//! | [`run_fences`] | 0.4 bits, 60 records per block | the blocks that columns name |
//! | [`prefilter`] | 4 bits for a false-positive rate of 0.18 | whether the key may be present; grows with its keys |
//! | [`filter`] | 8 bits for a false-positive rate of 2^-8 | whether the key may be present |
//!
//! `coding` has what the formats of these structures, and of all files of Siltstone, are made of.
//!
//! # Examples
//!
//! A million records of about 100 bytes, in blocks of 4 KiB and in the order of their placements. The fences find the
//! blocks of a record with 0.1 bits per record:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use siltstone_index::PlacementIndex;
//! use siltstone_index::fences::{Fences, FencesBuilder, FencesSettings};
//!
//! let placement = |record: u64| record * (u64::MAX / 1_000_000);
//! let blocks = |record: u64| record * 100 / 4096..((record + 1) * 100).div_ceil(4096);
//! let mut builder =
//!     FencesBuilder::new(FencesSettings { expected_records: 1_000_000, expected_blocks: 24_415 });
//! for record in 0..1_000_000 {
//!     builder.push(placement(record), blocks(record))?;
//! }
//! let fences = builder.finish();
//! assert!(fences.locate(placement(170_000)).contains(&blocks(170_000).start));
//! assert!(fences.heap_bytes() < 40_000);
//!
//! let mut bytes = Vec::new();
//! fences.encode(&mut bytes);
//! assert_eq!(Fences::decode(&bytes)?.locate(placement(9)), fences.locate(placement(9)));
//! assert!(Fences::decode(&bytes[1..]).is_err());
//! # Ok(())
//! # }
//! ```

mod bits;
pub mod bloom;
pub mod coding;
mod elias_fano;
pub mod entropy_trie;
pub mod fences;
pub mod filter;
#[cfg(feature = "hash-pages")]
pub mod hash_pages;
pub mod partial_key_cuckoo;
pub mod perfect;
pub mod prefilter;
mod processors;
pub mod run_columns;
pub mod run_fences;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use crate::coding::DecodeError;

use std::fmt;
use std::ops::Range;

/// Maps the placement of a key to the units that may hold its record.
///
/// For a key that was never inserted, `locate` still returns a valid range: an index knows where, not whether.
pub trait PlacementIndex: Send + Sync {
    /// Returns the units (records for a dense index, blocks for the others) that may hold the record. The range lies
    /// within the units of the index; it is empty only if the index is, or if it excludes the key as a filter does. For
    /// a placement that no record has, a trie or a perfect index returns any unit, so it does not say where a range of
    /// placements begins.
    fn locate(&self, placement: u64) -> Range<u64>;

    /// Returns the heap memory of the structure, in bytes.
    fn heap_bytes(&self) -> usize;
}

/// Returns the heap memory of a list itself, in bytes.
pub(crate) fn list_bytes<T>(list: &Vec<T>) -> usize {
    size_of::<T>() * list.capacity()
}

/// A structure could not be built.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// Placements must be pushed in ascending order.
    OutOfOrder {
        /// The preceding placement.
        last: u64,
        /// The placement that was pushed.
        got: u64,
    },
    /// A setting is outside its limits.
    Setting {
        /// The setting's name.
        name: &'static str,
        /// The value given.
        got: u64,
        /// The allowed values.
        limit: &'static str,
    },
    /// None of the seeds tried led to a structure.
    SeedsExhausted {
        /// The structure that was being built.
        structure: &'static str,
        /// The number of seeds tried.
        tries: u32,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::OutOfOrder { last, got } => {
                write!(
                    to,
                    "placement {got:#018x} follows {last:#018x}; placements must be in ascending order"
                )
            }
            BuildError::Setting { name, got, limit } => write!(to, "{name} is {got}; it must be {limit}"),
            BuildError::SeedsExhausted { structure, tries } => {
                write!(to, "{structure}: none of {tries} seeds worked; check the keys for duplicates")
            }
        }
    }
}

impl std::error::Error for BuildError {}
