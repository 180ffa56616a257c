//! Which subtrie has which code.

use super::{
    Coder, TrieSettings,
    code_string::CodeWriter,
    huffman::{self, HuffmanCode, MERGED},
    joint::{JOINT_MAX, JointCodes, joint_codes},
    large,
    skip::{SkipTable, skip_table},
    stream::Stream,
    subtrie::{Leaves, Subtrie, left_len},
};

/// The largest subtrie with a joint code, in keys.
pub(super) const SMALL_MAX: u64 = JOINT_MAX as u64;

/// The codes of a trie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Codes {
    coder: Coder,
    /// Huffman codes of nodes, by the size of the subtrie; larger subtries have the codes of [`large`].
    nodes: &'static [HuffmanCode],
    pub joint: &'static JointCodes,
    pub skip: &'static SkipTable,
    /// The largest subtrie that the table can skip: the largest whose nodes all have Huffman or joint codes.
    pub skip_max: u64,
    /// Whether subtries of up to [`SMALL_MAX`] keys have joint codes, unless their bucket is plain.
    pub has_joint: bool,
    /// A bucket's code is split in two at the first node with more keys than this.
    pub unsplit_max: u64,
    pub leaves: Leaves,
}

impl Codes {
    pub(super) fn new(settings: &TrieSettings) -> Self {
        let leaves = Leaves::new(settings);
        let is_fast = settings.coder == Coder::Fast;
        Self {
            coder: settings.coder,
            nodes: huffman::codes_up_to(settings.huffman_max),
            joint: joint_codes(),
            skip: skip_table(),
            skip_max: SMALL_MAX.max(settings.huffman_max.into()),
            // The leaves of a sparse trie depend on the first record, so its shapes are not those of the joint codes.
            has_joint: is_fast && leaves.is_dense(),
            // A joint code has no halves. The paper's coder never splits a bucket.
            unsplit_max: if is_fast { SMALL_MAX } else { u64::MAX },
            leaves,
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
            None => large::read(self.coder, stream, size),
        }
    }

    /// Writes a node of `size` keys.
    pub(super) fn write_node(&self, writer: &mut CodeWriter, size: u64, left: u64) {
        match self.nodes.get(size as usize) {
            Some(code) => code.write(writer, left),
            None => large::write(self.coder, writer, size, left),
        }
    }

    /// Writes a subtrie node by node, in pre-order.
    pub(super) fn write_plain(&self, writer: &mut CodeWriter, mut keys: &[u64], mut subtrie: Subtrie) {
        while !self.leaves.has(subtrie) {
            let left = left_len(keys, subtrie.depth);
            self.write_node(writer, subtrie.size, left);
            if left == MERGED {
                subtrie = subtrie.deeper();
                continue;
            }
            let (left_keys, right_keys) = keys.split_at(left as usize);
            let (left, right) = subtrie.split(left);
            // The left side by recursion, at most 64 deep; the right side in this loop.
            self.write_plain(writer, left_keys, left);
            (keys, subtrie) = (right_keys, right);
        }
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
