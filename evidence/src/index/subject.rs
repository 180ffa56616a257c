//! The common interface of all measured structures.

use super::sample::Key;
use serde::Serialize;

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

    /// Returns the costs of inserting the keys one by one, if they depend on the load.
    fn inserts(&self) -> Option<Inserts> {
        None
    }

    /// Returns the share of the space of all blocks that records fill, if it depends on the structure.
    fn space_used(&self) -> Option<f64> {
        None
    }
}

/// The costs of inserting keys into a table with a fixed number of slots.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Inserts {
    /// The share of the slots that is taken.
    pub load: f64,
    /// The keys that moved to another slot per key inserted. Each of them is read from flash.
    pub relocations_per_insert: f64,
    /// The load at which the first key moved to the auxiliary table, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_at_first_failure: Option<f64>,
    /// The keys in the auxiliary table.
    pub auxiliary_keys: u64,
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
