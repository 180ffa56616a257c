//! The common interface of all measured structures.

use super::sample::Key;

/// A structure built from a sample, with what is needed to verify its results.
pub(super) trait Subject {
    /// Returns the memory of the structure itself on the heap, in bytes.
    fn heap_bytes(&self) -> usize;

    /// Looks up a key. The number depends on the whole result, so the lookup cannot be optimized away.
    fn look_up(&self, key: Key) -> u64;

    /// Looks up every key of the sample, in the order of placements, and checks the results.
    fn verify(&self, sorted: &[Key]) -> Verified;

    /// Returns whether a key may exist, if the structure is a filter.
    fn may_contain(&self, _key: Key) -> Option<bool> {
        None
    }

    /// Returns the share of the space of all blocks that records fill, if it depends on the structure.
    fn space_used(&self) -> Option<f64> {
        None
    }
}

/// The verified results of all keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Verified {
    /// The number of keys with a correct result.
    pub keys: u64,
    /// The total number of slots or blocks that all lookups returned.
    pub units: u64,
}

impl Verified {
    /// Adds a result.
    pub fn add(&mut self, is_right: bool, units: u64) {
        self.keys += u64::from(is_right);
        self.units += units;
    }
}
