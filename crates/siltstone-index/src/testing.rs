//! Helpers for the tests of this module.

use crate::coding::mix;

/// A sequence of uniform pseudo-random numbers (splitmix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns `count` pairs of a placement and a fingerprint.
    pub(crate) fn keys(&mut self, count: usize) -> Vec<(u64, u64)> {
        (0..count).map(|_| (self.next(), self.next())).collect()
    }

    /// Returns the same in ascending order.
    pub(crate) fn sorted_keys(&mut self, count: usize) -> Vec<(u64, u64)> {
        let mut keys = self.keys(count);
        keys.sort_unstable();
        keys
    }

    /// Returns the placements of these.
    pub(crate) fn sorted_placements(&mut self, count: usize) -> Vec<u64> {
        self.sorted_keys(count).into_iter().map(|(placement, _)| placement).collect()
    }
}
