//! The codes of the fast coder, and which subtrie has which.

use super::{
    joint::{JOINT_MAX, JointCodes, joint_codes},
    rice,
    skip::{SkipTable, skip_table},
    stream::Stream,
};
use crate::index::entropy_trie::{
    TrieSettings,
    code_string::CodeWriter,
    huffman::{self, HuffmanCode, MERGED},
    subtrie::{Leaves, Subtrie, left_len, walk_keys},
};

/// The largest subtrie with a joint code in a dense trie, in keys. In any trie, a bucket's code is split in two at the
/// first node with more keys.
pub(super) const SMALL_MAX: u64 = JOINT_MAX as u64;

/// The codes of the fast coder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Codes {
    /// Huffman codes of nodes, by the size of the subtrie; larger subtries have Rice codes.
    nodes: &'static [HuffmanCode],
    pub joint: &'static JointCodes,
    pub skip: &'static SkipTable,
    /// The largest subtrie that the table can skip: the largest without Rice codes.
    pub skip_max: u64,
    pub leaves: Leaves,
}

impl Codes {
    pub(super) fn new(settings: &TrieSettings) -> Self {
        Self {
            nodes: huffman::codes_up_to(settings.huffman_max),
            joint: joint_codes(),
            skip: skip_table(),
            skip_max: SMALL_MAX.max(settings.huffman_max.into()),
            leaves: Leaves::new(settings),
        }
    }

    /// Reads a node of `size` keys: [`MERGED`], or |Left|, which is less than `size`.
    #[inline(always)]
    pub(super) fn read_node<const BACKWARD: bool>(
        &self,
        stream: &mut Stream<'_, BACKWARD>,
        size: u64,
    ) -> u64 {
        match self.nodes.get(size as usize) {
            Some(code) => {
                let (symbol, len) = code.decode(stream.peek());
                stream.take(len);
                symbol
            }
            None => rice::read(stream, size),
        }
    }

    /// Writes a node of `size` keys.
    pub(super) fn write_node(&self, writer: &mut CodeWriter, size: u64, left: u64) {
        match self.nodes.get(size as usize) {
            Some(code) => code.write(writer, left),
            None => rice::write(writer, size, left),
        }
    }

    /// Writes a subtrie node by node.
    pub(super) fn write_plain(&self, writer: &mut CodeWriter, keys: &[u64], subtrie: Subtrie) {
        walk_keys(keys, self.leaves, subtrie, &mut |size, left| self.write_node(writer, size, left));
    }

    /// Writes a subtrie of a dense trie in which no keys are equal.
    pub(super) fn write_joint(&self, writer: &mut CodeWriter, mut keys: &[u64], mut depth: u32) {
        while keys.len() > JOINT_MAX {
            let left = left_len(keys, depth);
            self.write_node(writer, keys.len() as u64, left);
            depth += 1;
            if left != MERGED {
                let (left_keys, right_keys) = keys.split_at(left as usize);
                self.write_joint(writer, left_keys, depth);
                keys = right_keys;
            }
        }
        self.joint.write(writer, keys, depth);
    }
}
