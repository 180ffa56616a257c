//! Reads a trie node by node.

use super::{
    codes::Codes,
    huffman::MERGED,
    stream::Stream,
    subtrie::{Leaves, Subtrie},
};
use std::ops::Range;

/// Reads a bucket's code, or half of it, in one direction. [`dense`](super::dense) reads joint codes.
pub(super) struct Reader<'a, const BACKWARD: bool> {
    pub codes: &'a Codes,
    pub stream: Stream<'a, BACKWARD>,
}

impl<const BACKWARD: bool> Reader<'_, BACKWARD> {
    /// Returns the records that may be that of `key` in the subtrie whose code comes next.
    ///
    /// The end of the code also ends the walk. Every node takes at least a bit, so this bounds the work on damaged
    /// bytes.
    pub(super) fn locate(&mut self, key: u64, mut subtrie: Subtrie) -> Range<u64> {
        while !self.codes.leaves.has(subtrie) && !self.stream.is_at_end() {
            let left = self.codes.read_node(&mut self.stream, subtrie.size);
            if left == MERGED {
                // The bit of the key is not compared, so a key that is absent takes this side too.
                subtrie = subtrie.deeper();
                continue;
            }
            let (left, right) = subtrie.split(left);
            subtrie = if subtrie.is_right(key) {
                // The code of the left subtrie precedes that of the right one.
                self.skip(self.codes.leaves, left);
                right
            } else {
                left
            };
        }
        subtrie.records()
    }

    /// Skips the code of a subtrie.
    fn skip(&mut self, leaves: Leaves, mut subtrie: Subtrie) {
        while !leaves.has(subtrie) && !self.stream.is_at_end() {
            let left = self.codes.read_node(&mut self.stream, subtrie.size);
            if left == MERGED {
                subtrie = subtrie.deeper();
            } else {
                let (left, right) = subtrie.split(left);
                self.skip(leaves, left);
                subtrie = right;
            }
        }
    }
}
