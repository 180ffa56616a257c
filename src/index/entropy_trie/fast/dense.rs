//! Reads a dense trie with joint codes, as nearly every lookup does.
//!
//! It does the same as a `NodeReader`, with fewer branches that a processor cannot predict. Keys are distinct here, so
//! depths need not be counted.

use super::{
    codes::{Codes, SMALL_MAX},
    joint::Apart,
    skip::{Skipped, Stack},
    stream::Stream,
};
use crate::index::entropy_trie::{KEY_BITS, code_string::PEEK_BITS, huffman::MERGED, subtrie::Subtrie};
use std::ops::Range;

/// Reads a bucket's code in one direction.
pub(super) struct DenseReader<'a, const BACKWARD: bool> {
    pub codes: &'a Codes,
    pub stream: Stream<'a, BACKWARD>,
}

impl<const BACKWARD: bool> DenseReader<'_, BACKWARD> {
    /// Returns the records that may be that of `key` in the subtrie whose code comes next.
    #[inline(always)]
    pub(super) fn locate(&mut self, key: u64, subtrie: Subtrie) -> Range<u64> {
        let mut key = key.unbounded_shl(subtrie.depth);
        let Subtrie { mut size, mut first, .. } = subtrie;
        loop {
            while size > SMALL_MAX && !self.stream.is_at_end() {
                let left = self.codes.read_node(&mut self.stream, size);
                let is_right = key >> (KEY_BITS - 1) == 1;
                key <<= 1;
                if left == MERGED {
                    continue;
                }
                if is_right {
                    // The key is in the right subtrie, whose code follows that of the left one.
                    self.skip(left, KEY_BITS);
                    first += left;
                    size -= left;
                } else {
                    size = left;
                }
            }
            if size > 2 && size <= SMALL_MAX {
                let (shape, len) = self.codes.joint.decode(size as usize, self.stream.peek());
                self.stream.take(len);
                let path = self.codes.joint.path(shape, key);
                self.skip_stack(Stack::new(path.before()));
                key <<= path.depth();
                first += path.first();
                size = path.size();
            }
            if size <= 2 || self.stream.is_at_end() {
                break;
            }
        }
        self.locate_in_pair(key, size, first)
    }

    /// Completes [`locate`](Self::locate) in a single key or a pair, without a branch between the two.
    #[inline(always)]
    fn locate_in_pair(&mut self, mut key: u64, size: u64, first: u64) -> Range<u64> {
        // A pair is coded as a 0 for each bit that its keys share, then a 1. The bit after those is 0 in the first key,
        // so in the searched key it is the number of the record in the pair.
        let mut alike = self.stream.peek().trailing_zeros();
        while alike >= PEEK_BITS && size == 2 && !self.stream.is_at_end() {
            key <<= PEEK_BITS;
            self.stream.take(PEEK_BITS);
            alike = self.stream.peek().trailing_zeros();
        }
        match size {
            0..=2 => {
                let first = first + (key << (alike % KEY_BITS) >> (KEY_BITS - 1) & size.saturating_sub(1));
                first..first + size.min(1)
            }
            _ => first..first + size,
        }
    }

    /// Skips a subtrie. Unless bytes are damaged, it is at most `depth` nodes deep.
    #[inline(always)]
    fn skip(&mut self, size: u64, depth: u32) {
        if size <= self.codes.skip_max {
            self.skip_stack(Stack::one(size));
        } else {
            self.skip_large(size, depth);
        }
    }

    /// Skips a subtrie that is too large for the table.
    #[inline(never)]
    fn skip_large(&mut self, mut size: u64, depth: u32) {
        while size > self.codes.skip_max && depth > 0 && !self.stream.is_at_end() {
            let left = self.codes.read_node(&mut self.stream, size);
            if left != MERGED {
                self.skip(left, depth - 1);
                size -= left;
            }
        }
        if size <= self.codes.skip_max {
            self.skip_stack(Stack::one(size));
        }
    }

    /// Skips these subtries.
    #[inline(never)]
    fn skip_stack(&mut self, mut stack: Stack) {
        while let Skipped::UpTo(mut rest) = self.codes.skip.skip(&mut self.stream, stack) {
            self.skip_code_word(&mut rest);
            stack = rest;
        }
    }

    /// Skips a single code word.
    #[cold]
    fn skip_code_word(&mut self, stack: &mut Stack) {
        let apart = match stack.pop() {
            2 => {
                let is_split = self.stream.peek() & 1 == 1;
                self.stream.take(1);
                Apart::one(if is_split { 0 } else { 2 })
            }
            size @ 3..=SMALL_MAX => {
                let (shape, len) = self.codes.joint.decode(size as usize, self.stream.peek());
                self.stream.take(len);
                self.codes.joint.shape(shape).apart
            }
            size => Apart::of_node(size as usize, self.codes.read_node(&mut self.stream, size) as usize),
        };
        if !stack.push(apart) {
            self.skip_stack(Stack::new(apart.sizes));
        }
    }

    /// Calls `visit` with each node of the subtrie whose code comes next, and its symbol.
    pub(super) fn walk(&mut self, mut subtrie: Subtrie, visit: &mut impl FnMut(Subtrie, u64)) {
        while !self.codes.leaves.has(subtrie) && !self.stream.is_at_end() {
            let left = match subtrie.size {
                2 => {
                    let left = self.stream.peek() & 1;
                    self.stream.take(1);
                    left
                }
                size @ 3..=SMALL_MAX => {
                    let (shape, len) = self.codes.joint.decode(size as usize, self.stream.peek());
                    self.stream.take(len);
                    return self.walk_shape(shape, subtrie, visit);
                }
                size => self.codes.read_node(&mut self.stream, size),
            };
            visit(subtrie, left);
            if left == MERGED {
                subtrie = subtrie.deeper();
            } else {
                let (left, right) = subtrie.split(left);
                self.walk(left, visit);
                subtrie = right;
            }
        }
    }

    fn walk_shape(&mut self, number: u8, subtrie: Subtrie, visit: &mut impl FnMut(Subtrie, u64)) {
        let shape = *self.codes.joint.shape(number);
        let left = u64::from(shape.left);
        if left == MERGED && subtrie.size <= 2 {
            return self.walk(subtrie, visit);
        }
        visit(subtrie, left);
        if left == MERGED {
            return self.walk(subtrie.deeper(), visit);
        }
        let (left, right) = subtrie.split(left);
        self.walk_shape(shape.sides[0], left, visit);
        self.walk_shape(shape.sides[1], right, visit);
    }
}
