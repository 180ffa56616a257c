//! Filters: approximate sets of keys. A filter never excludes a key that is in the set.

pub(crate) mod cuckoo;
pub(crate) mod ranged;
mod ribbon;

pub use cuckoo::{CandidateSlot, CuckooFilter};
pub use ranged::{KEYS_PER_RANGE, RangedFilter, RangedFilterBuilder};
pub use ribbon::{RibbonBuilder, RibbonFilter};

/// A set of keys that sometimes contains a key that was not inserted.
///
/// `docs/formats` has the encoded form of each filter. It has no checksum; the file around it has one.
pub trait Filter: Send + Sync {
    /// Returns false only if the key is certainly not in the set.
    fn may_contain(&self, placement: u64, fingerprint: u64) -> bool;

    /// Returns the number of keys in the set.
    fn len(&self) -> u64;

    /// Returns whether the set is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the heap memory, in bytes.
    fn heap_bytes(&self) -> usize;

    /// Returns the heap memory in bits per key; 0 for an empty set.
    fn bits_per_key(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.heap_bytes() as f64 * 8.0 / self.len() as f64 }
    }

    /// Appends the encoded filter.
    fn encode(&self, out: &mut Vec<u8>);
}
