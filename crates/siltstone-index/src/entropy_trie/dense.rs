//! Reads a dense trie with joint codes, as nearly every lookup does.
//!
//! It does the same as [`Reader::locate`], with fewer branches that a processor cannot predict. Keys are distinct here,
//! so depths need not be counted.

use super::{
    KEY_BITS,
    code_string::PEEK_BITS,
    codes::SMALL_MAX,
    huffman::MERGED,
    joint::Apart,
    reader::Reader,
    skip::{Skipped, Stack},
    subtrie::Subtrie,
};
use std::ops::Range;

impl<const BACKWARD: bool> Reader<'_, BACKWARD> {
    /// Returns the records that may be that of `key` in the subtrie whose code comes next.
    #[inline(always)]
    pub(super) fn locate_joint(&mut self, key: u64, subtrie: Subtrie) -> Range<u64> {
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
                    self.skip_joint(left, KEY_BITS);
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

    /// Completes [`locate_joint`](Self::locate_joint) in a single key or a pair, without a branch between the two.
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
    fn skip_joint(&mut self, size: u64, depth: u32) {
        if size <= self.codes.skip_max {
            self.skip_stack(Stack::one(size));
        } else {
            self.skip_large(size, depth);
        }
    }

    /// Skips a subtrie that is too large for the table.
    #[inline(never)]
    fn skip_large(&mut self, mut size: u64, depth: u32) {
        // The depth bounds the recursion on damaged bytes, as the end of the code bounds the loop.
        while size > self.codes.skip_max && depth > 0 && !self.stream.is_at_end() {
            let left = self.codes.read_node(&mut self.stream, size);
            if left != MERGED {
                self.skip_joint(left, depth - 1);
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
        // They come before the others, so they are skipped at once if the stack is full.
        if !stack.push(apart) {
            self.skip_stack(Stack::new(apart.sizes));
        }
    }
}
