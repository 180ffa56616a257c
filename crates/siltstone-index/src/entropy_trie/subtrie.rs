//! The shape of a trie, independent of the code of its nodes.

use super::{KEY_BITS, TrieSettings, huffman::MERGED};
use std::ops::Range;

/// A subtrie of `size` keys that share their first `depth` bits; the number of its first record is `first`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subtrie {
    pub size: u64,
    pub depth: u32,
    pub first: u64,
}

impl Subtrie {
    /// Returns the trie of a bucket.
    pub(super) fn root(size: u64, first: u64) -> Self {
        Self { size, depth: 0, first }
    }

    /// Returns the subtries on the left and on the right of the split.
    #[inline(always)]
    pub(super) fn split(self, left: u64) -> (Self, Self) {
        let depth = self.depth + 1;
        let right = Self { size: self.size - left, depth, first: self.first + left };
        (Self { size: left, depth, first: self.first }, right)
    }

    /// Returns the same keys one bit deeper.
    #[inline(always)]
    pub(super) fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    /// Returns whether `key`, if it is present, is in the right subtrie.
    #[inline(always)]
    pub(super) fn is_right(self, key: u64) -> bool {
        key << self.depth >> (KEY_BITS - 1) == 1
    }

    pub(super) fn records(self) -> Range<u64> {
        self.first..self.first + self.size
    }
}

/// The rule for where tries end: at a single record (dense) or block (sparse), and where keys have no more bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaves {
    records_per_block: u64,
    /// 2^64 divided by `records_per_block`, rounded up; 0 for 1.
    reciprocal: u64,
}

impl Leaves {
    pub(super) fn new(settings: &TrieSettings) -> Self {
        let records_per_block = u64::from(settings.records_per_block);
        Self { records_per_block, reciprocal: (u64::MAX / records_per_block.max(1)).wrapping_add(1) }
    }

    /// Returns whether records are located, not only blocks.
    pub(super) fn is_dense(self) -> bool {
        self.records_per_block == 1
    }

    /// Returns whether the subtrie is a leaf, which has no code.
    #[inline(always)]
    pub(super) fn has(self, subtrie: Subtrie) -> bool {
        // With all bits used up the keys are equal: no node could separate them.
        subtrie.size <= 1
            || subtrie.depth >= KEY_BITS
            || (!self.is_dense()
                && self.offset_in_block(subtrie.first) + subtrie.size <= self.records_per_block)
    }

    /// Returns `position` modulo the records per block. A division would take longer than reading a node.
    #[inline(always)]
    fn offset_in_block(self, position: u64) -> u64 {
        if position > u64::from(u32::MAX) {
            return position % self.records_per_block;
        }
        // Exact for 32-bit numbers: D. Lemire, O. Kaser, N. Kurz, "Faster remainder by direct computation", 2019.
        let fraction = self.reciprocal.wrapping_mul(position);
        ((u128::from(fraction) * u128::from(self.records_per_block)) >> 64) as u64
    }
}

/// Returns |Left| of the ascending `keys`, which share their first `depth` bits, or [`MERGED`].
#[inline]
pub(super) fn left_len(keys: &[u64], depth: u32) -> u64 {
    let left = keys.partition_point(|key| key << depth >> (KEY_BITS - 1) == 0);
    if left == keys.len() { MERGED } else { left as u64 }
}
