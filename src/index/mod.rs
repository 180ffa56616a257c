//! Pure structures in memory: no I/O, no clock, no thread. Each answers, from the placement hash of a key, where its
//! record may stand (an index) or whether it may be there at all (a filter).
//!
//! A *placement* is a 64-bit hash, uniform over its whole range; records on flash are ordered by it. A *fingerprint* is
//! a second 64-bit hash of the same key, independent of the first, from which tags and filters are made.

mod bits;
pub mod block_perfect;
mod elias_fano;
pub mod entropy_trie;
pub mod fences;
pub mod filter;
pub mod partial_key_cuckoo;
mod perfect;
#[cfg(test)]
mod testing;

pub use crate::coding::DecodeError;

use std::ops::Range;

/// Finds where the record of a key stands, given the placement of the key.
///
/// The answer for a key that is not in the index is some valid range all the same: an index says where, not whether.
pub trait PlacementIndex: Send + Sync {
    /// The units (records for a dense index, blocks for the others) among which the record is, if it is there at all.
    /// The range lies within what the index was built over; it is empty only if the index is.
    fn locate(&self, placement: u64) -> Range<u64>;

    /// All the memory that the structure holds on the heap, in bytes.
    fn heap_bytes(&self) -> usize;
}

/// Why keys could not be made into a structure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Placements must come in ascending order.
    #[error("placement {got:#018x} follows {last:#018x}; placements must be in ascending order")]
    OutOfOrder {
        /// The placement before it.
        last: u64,
        /// The placement that was pushed.
        got: u64,
    },
    /// A setting is outside its limits.
    #[error("{name} is {got}; it must be {limit}")]
    Setting {
        /// The setting's name.
        name: &'static str,
        /// What was asked for.
        got: u64,
        /// What is allowed.
        limit: &'static str,
    },
    /// The construction did not succeed with any of the seeds that it tried.
    #[error("{structure}: none of {tries} seeds worked; check the keys for duplicates")]
    SeedsExhausted {
        /// The structure that was being built.
        structure: &'static str,
        /// How many seeds were tried.
        tries: u32,
    },
}
