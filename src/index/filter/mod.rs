//! Filters: whether a key may be in a set, from its hashes alone. They are never wrong about a key that is.

mod cuckoo;
mod ranged;
mod ribbon;

pub use cuckoo::{CandidateSlot, CuckooFilter};
pub use ranged::{RangedFilter, RangedFilterBuilder};
pub use ribbon::{RibbonBuilder, RibbonFilter};

/// A set of keys that is sometimes wrong about a key that is not in it.
///
/// The encoded form of each filter stands in `docs/formats`; it carries no checksum, which the file around it has.
pub trait Filter: Send + Sync {
    /// False only if the key is certainly not in the set.
    fn may_contain(&self, placement: u64, fingerprint: u64) -> bool;

    /// The keys that it was made of.
    fn len(&self) -> u64;

    /// Whether it was made of no key.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All the memory that the filter holds on the heap, in bytes.
    fn heap_bytes(&self) -> usize;

    /// The memory on the heap in bits for each key; 0 if there is none.
    fn bits_per_key(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.heap_bytes() as f64 * 8.0 / self.len() as f64 }
    }

    /// Appends the encoded filter.
    fn encode(&self, out: &mut Vec<u8>);
}
