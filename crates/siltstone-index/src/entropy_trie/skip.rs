//! A table that skips whole subtries of a dense trie, several nodes per step.
//!
//! The subtries that remain to be skipped form a stack of sizes, packed in a word. A step combines the uppermost size
//! and the next [`WINDOW_BITS`] bits of code to the index of a precomputed entry: how many of these bits belong to the
//! subtrie, and which subtries remain of it. No branch depends on what was read until the stack is empty, so the
//! processor mispredicts at most once.
//!
//! ```text
//! stack   5 3 ..    code  1011 0|110 ..     entry of (5 keys, 10110110): 5 bits, leaves a pair
//! stack   2 3 ..    code  110 ..
//! ```

use super::{
    code_string::PEEK_BITS,
    huffman::{self, HuffmanCode, SIZE_MAX},
    joint::{APART_BITS, Apart, JOINT_MAX, JointCodes, joint_codes},
    stream::Stream,
};
use std::sync::LazyLock;

/// The bits of code per step.
const WINDOW_BITS: u32 = 8;

/// Steps before the first test for an empty stack: enough for most subtries of up to 6 keys. A step with an empty stack
/// has no effect.
const STEPS_AT_FIRST: u32 = 3;

/// The further steps for which a loaded word has bits.
const STEPS_FURTHER: u32 = PEEK_BITS / WINDOW_BITS - STEPS_AT_FIRST;

/// The maximum number of subtries that an entry leaves.
const LEFT_MAX: u32 = 3;

static SKIP_TABLE: LazyLock<Box<SkipTable>> = LazyLock::new(|| Box::new(SkipTable::new()));

/// Returns the table, shared by all tries of the process: 64 KiB.
pub(super) fn skip_table() -> &'static SkipTable {
    &SKIP_TABLE
}

/// The sizes of subtries minus one, [`APART_BITS`] each, the next one lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stack(u64);

impl Stack {
    /// Makes a stack of these [subtries](Apart::sizes).
    #[inline(always)]
    pub(super) fn new(apart_sizes: u32) -> Self {
        Self(u64::from(apart_sizes))
    }

    /// Makes a stack of one subtrie of 1 to 64 keys.
    #[inline(always)]
    pub(super) fn one(size: u64) -> Self {
        // One key is a 0, which is an empty stack: a single key has no code.
        Self(size - 1)
    }

    /// Removes the next subtrie and returns its size.
    pub(super) fn pop(&mut self) -> u64 {
        let size = self.0 & ((1 << APART_BITS) - 1);
        self.0 >>= APART_BITS;
        size + 1
    }

    /// Puts these subtries before all others. Returns false, without an effect, if they do not fit.
    pub(super) fn push(&mut self, apart: Apart) -> bool {
        // The highest sizes must not be lost: they are the subtries that are skipped last.
        let fits = self.0.leading_zeros() >= u32::from(apart.bits);
        if fits {
            self.0 = self.0 << apart.bits | u64::from(apart.sizes);
        }
        fits
    }

    #[inline(always)]
    fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether a step might lose subtries at the far end.
    #[inline(always)]
    fn is_full(self) -> bool {
        self.0 >> (64 - (LEFT_MAX - 1) * APART_BITS) != 0
    }
}

/// The result of [`SkipTable::skip`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skipped {
    /// All subtries were skipped.
    All,
    /// The next subtrie begins with a code word that is too long for the table, or the stack is full.
    UpTo(Stack),
}

/// A step: from the lowest bit on, the number of bits taken (6 bits), the number of bits pushed on the stack (8), and
/// these bits (18). If a code word is too long, no bits are taken, and what was popped is pushed again.
type SkipEntry = u32;

/// The table, with a row per size minus one.
#[derive(Debug)]
pub(super) struct SkipTable {
    rows: [[SkipEntry; 1 << WINDOW_BITS]; SIZE_MAX],
}

impl SkipTable {
    fn new() -> Self {
        let (codes, joint) = (huffman::codes_up_to(SIZE_MAX as u32), joint_codes());
        let row = |row| std::array::from_fn(|window| work_out(codes, joint, row + 1, window as u64));
        Self { rows: std::array::from_fn(row) }
    }

    /// Skips these subtries, or the rest of the bucket's code if it ends before.
    #[inline(always)]
    pub(super) fn skip<const BACKWARD: bool>(
        &self,
        stream: &mut Stream<'_, BACKWARD>,
        mut stack: Stack,
    ) -> Skipped {
        loop {
            let (mut window, mut entries) = (stream.peek(), 0);
            for _ in 0..STEPS_AT_FIRST {
                self.step(&mut stack, &mut window, &mut entries);
            }
            if !stack.is_empty() {
                for _ in 0..STEPS_FURTHER {
                    self.step(&mut stack, &mut window, &mut entries);
                }
            }
            // The fields of the entries add up without carries: the sum of all bits taken is below 64.
            let taken = entries & 63;
            stream.take(taken);
            if stack.is_empty() || stream.is_at_end() {
                return Skipped::All;
            }
            // The next code word is longer than the window, or the stack has no space for an entry.
            if taken == 0 || stack.is_full() {
                return Skipped::UpTo(stack);
            }
        }
    }

    /// Skips as much of the next subtrie as `window` determines, and adds the entry to `entries`.
    #[inline(always)]
    fn step(&self, stack: &mut Stack, window: &mut u64, entries: &mut SkipEntry) {
        // An entry would move sizes out of the word.
        if stack.is_full() {
            return;
        }
        let row = &self.rows[(stack.0 & ((1 << APART_BITS) - 1)) as usize];
        let entry = row[(*window & ((1 << WINDOW_BITS) - 1)) as usize];
        *entries = entries.wrapping_add(entry);
        *window >>= entry & 63;
        stack.0 = (stack.0 >> APART_BITS) << ((entry >> 6) & 63) | u64::from(entry >> 14);
    }
}

/// Computes the entry for a subtrie of `size` keys whose code starts with `window`.
fn work_out(codes: &[HuffmanCode], joint: &JointCodes, size: usize, window: u64) -> SkipEntry {
    let mut left = Apart::one(size);
    let mut taken = 0;
    while left.bits > 0 {
        let size = (left.sizes & ((1 << APART_BITS) - 1)) as usize + 1;
        let rest = Apart { sizes: left.sizes >> APART_BITS, bits: left.bits - APART_BITS as u8 };
        let (next, len) = if (3..=JOINT_MAX).contains(&size) {
            let (shape, len) = joint.decode(size, window >> taken);
            (joint.shape(shape).apart, len)
        } else {
            let (symbol, len) = codes[size].decode(window >> taken);
            (Apart::of_node(size, symbol as usize), len)
        };
        let is_complete = taken + len <= WINDOW_BITS;
        // The entry has bits for three subtries. The rest is left to the next step.
        if !is_complete || u32::from(next.bits + rest.bits) > LEFT_MAX * APART_BITS {
            break;
        }
        left = next.then(rest);
        taken += len;
    }
    taken | u32::from(left.bits) << 6 | left.sizes << 14
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slow way: a list of sizes, and one code word after another until `bits` are read.
    fn read_by_code_words(size: usize, window: u64, bits: u32) -> Vec<usize> {
        let (codes, joint) = (huffman::codes_up_to(SIZE_MAX as u32), joint_codes());
        let (mut sizes, mut read) = (vec![size], 0);
        while read < bits {
            let size = sizes.pop().unwrap();
            let (apart, len) = if (3..=JOINT_MAX).contains(&size) {
                let (shape, len) = joint.decode(size, window >> read);
                (joint.shape(shape).apart, len)
            } else {
                let (symbol, len) = codes[size].decode(window >> read);
                (Apart::of_node(size, symbol as usize), len)
            };
            let first = sizes.len();
            let mut apart = Stack::new(apart.sizes);
            while !apart.is_empty() {
                sizes.insert(first, apart.pop() as usize);
            }
            read += len;
        }
        assert_eq!(read, bits);
        sizes
    }

    #[test]
    fn a_step_does_what_reading_code_words_does() {
        let table = skip_table();
        for size in 2..=SIZE_MAX {
            for bits in 0..1 << WINDOW_BITS {
                let (mut stack, mut window, mut entry) = (Stack::one(size as u64), bits, 0);
                table.step(&mut stack, &mut window, &mut entry);
                assert_eq!(window, bits >> (entry & 63));
                let mut sizes = read_by_code_words(size, bits, entry & 63);
                while let Some(size) = sizes.pop() {
                    assert_eq!(stack.pop(), size as u64);
                }
                assert!(stack.is_empty());
            }
        }
    }

    #[test]
    fn few_code_words_are_too_long_for_the_table() {
        let too_long = skip_table().rows[1..].as_flattened().iter().filter(|entry| **entry & 63 == 0).count();
        assert!(too_long < (SIZE_MAX << WINDOW_BITS) / 20, "{too_long}");
    }

    #[test]
    fn a_step_takes_most_of_the_bits_of_its_window() {
        let entries = skip_table().rows[1..].as_flattened();
        let taken = entries.iter().map(|entry| entry & 63).sum::<u32>() as f64 / entries.len() as f64;
        assert!((6.1..6.4).contains(&taken), "{taken}");
    }

    #[test]
    fn steps_leave_an_empty_and_a_full_stack_alone() {
        for stack in [Stack(0), Stack(u64::MAX >> 4)] {
            let (mut after, mut window, mut entries) = (stack, 0x5555, 0);
            skip_table().step(&mut after, &mut window, &mut entries);
            assert_eq!((after, window, entries), (stack, 0x5555, 0));
        }
    }
}
