//! What all measured structures have in common.

use super::sample::Key;

/// A structure that was made of a sample, and what is needed to judge its answers.
pub(super) trait Subject {
    /// The memory of the structure on the heap, in bytes, and of nothing else.
    fn heap_bytes(&self) -> usize;

    /// Looks a key up; the number depends on everything that was found out.
    fn look_up(&self, key: Key) -> u64;

    /// Looks up every key of the sample, which come in the order of their placements, and judges the answers.
    fn verify(&self, sorted: &[Key]) -> Verified;

    /// Whether a key may be there, if the structure tells that.
    fn may_contain(&self, _key: Key) -> Option<bool> {
        None
    }

    /// The share of the space of all blocks that records fill, if it depends on the structure.
    fn space_used(&self) -> Option<f64> {
        None
    }
}

/// What the answers to all keys were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Verified {
    /// The keys with a right answer.
    pub keys: u64,
    /// The slots or blocks that were named in all answers together.
    pub units: u64,
}

impl Verified {
    /// Adds an answer.
    pub fn add(&mut self, is_right: bool, units: u64) {
        self.keys += u64::from(is_right);
        self.units += units;
    }
}
