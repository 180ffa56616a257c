//! A table that passes over whole subtries of a dense trie, several nodes a step.
//!
//! The subtries that are still to be passed over form a stack of sizes, which fits into a word. A step takes the
//! uppermost size and the next [`WINDOW_BITS`] bits of the code to an entry that was worked out beforehand: how many of
//! these bits belong to the subtrie, and which subtries are then left of it. There is no branch on what was read, and so
//! no misprediction, until the stack is empty.

use super::{
    huffman::{self, HuffmanCode, SIZE_MAX},
    joint::{APART_BITS, Apart, JOINT_MAX, JointCodes, joint_codes},
};
use crate::index::bits::PEEK_BITS;
use std::sync::LazyLock;

/// The bits of code that a step looks at.
const WINDOW_BITS: u32 = 8;

/// So many steps can be made between two loads of a window.
pub(super) const STEPS: u32 = PEEK_BITS / WINDOW_BITS;

/// The entries of the table.
const ENTRIES: usize = SIZE_MAX << WINDOW_BITS;

/// An entry leaves at most so many subtries.
const LEFT_MAX: u32 = 3;

static SKIP_TABLE: LazyLock<Box<SkipTable>> = LazyLock::new(|| Box::new(SkipTable::new()));

/// The table, shared by all tries of the process: 64 KiB.
pub(super) fn skip_table() -> &'static SkipTable {
    &SKIP_TABLE
}

/// The sizes of subtries less one, [`APART_BITS`] each, the next one lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stack(u64);

impl Stack {
    /// These subtries and no others.
    #[inline(always)]
    pub(super) fn new(apart: Apart) -> Self {
        Self(u64::from(apart.sizes))
    }

    /// One subtrie of 0 to 64 keys.
    #[inline(always)]
    pub(super) fn one(size: u64) -> Self {
        Self(size.saturating_sub(1))
    }

    #[inline(always)]
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Puts these subtries before all others, if there is room for them.
    pub(super) fn push(&mut self, apart: Apart) -> bool {
        let fits = self.0.leading_zeros() >= u32::from(apart.bits);
        if fits {
            self.0 = self.0 << apart.bits | u64::from(apart.sizes);
        }
        fits
    }

    /// Takes the size of the next subtrie.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> u64 {
        let size = self.0 & ((1 << APART_BITS) - 1);
        self.0 >>= APART_BITS;
        size + 1
    }
}

/// A step: the bits taken, the bits pushed on the stack, and what is pushed, in 6, 8 and 18 bits from the lowest on.
type Entry = u32;

#[derive(Debug)]
pub(super) struct SkipTable {
    entries: [Entry; ENTRIES],
}

impl SkipTable {
    fn new() -> Self {
        let (codes, joint) = (huffman::codes_up_to(SIZE_MAX as u32), joint_codes());
        let mut entries = [0; ENTRIES];
        for (index, entry) in entries.iter_mut().enumerate() {
            let (size, window) = ((index >> WINDOW_BITS) + 1, index & ((1 << WINDOW_BITS) - 1));
            *entry = work_out(codes, joint, size, window as u64);
        }
        Self { entries }
    }

    /// Passes over as much of the next subtrie as can be told from `window`, of which at least [`WINDOW_BITS`] bits must
    /// be valid, and takes the bits off it. Gives the number of bits; with 0 nothing was done, because a code word is
    /// too long or the stack might overflow.
    #[inline(always)]
    pub(super) fn step(&self, stack: &mut Stack, window: &mut u64) -> u32 {
        let index = (stack.0 << WINDOW_BITS) & (ENTRIES as u64 - 1) | *window & ((1 << WINDOW_BITS) - 1);
        let entry = self.entries[index as usize];
        let taken = entry & 63;
        if taken == 0 || stack.0 >> (64 - LEFT_MAX * APART_BITS + APART_BITS) != 0 {
            return 0;
        }
        *window >>= taken;
        stack.0 = (stack.0 >> APART_BITS) << ((entry >> 6) & 63) | u64::from(entry >> 14);
        taken
    }
}

/// The entry for a subtrie of `size` keys whose code starts with `window`.
fn work_out(codes: &[HuffmanCode], joint: &JointCodes, size: usize, window: u64) -> Entry {
    let mut left = Apart::one(size);
    let mut taken = 0;
    while left.bits > 0 {
        let size = (left.sizes & ((1 << APART_BITS) - 1)) as usize + 1;
        let rest = Apart { sizes: left.sizes >> APART_BITS, bits: left.bits - APART_BITS as u8 };
        let (next, len) = if (3..=JOINT_MAX).contains(&size) {
            let (shape, len) = joint.decode(size, window >> taken);
            (shape.apart, len)
        } else {
            let (symbol, len) = codes[size].decode(window >> taken);
            let symbol = symbol as usize;
            (
                if symbol == 0 {
                    Apart::one(size)
                } else {
                    Apart::one(symbol).then(Apart::one(size - symbol))
                },
                len,
            )
        };
        let is_told = taken + len <= WINDOW_BITS;
        if !is_told || u32::from(next.bits + rest.bits) > LEFT_MAX * APART_BITS {
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

    #[test]
    fn every_entry_takes_what_reading_node_by_node_takes() {
        // The slow way: a list of sizes, one code word after the other, for as many bits as the entry took.
        let (codes, joint, table) = (huffman::codes_up_to(64), joint_codes(), skip_table());
        for size in 2..=SIZE_MAX {
            for window in 0..1u64 << WINDOW_BITS {
                let (mut stack, mut rest) = (Stack::one(size as u64), window);
                let taken = table.step(&mut stack, &mut rest);
                let mut sizes = vec![size];
                let mut read = 0;
                while read < taken {
                    let size = sizes.pop().unwrap();
                    if (3..=JOINT_MAX).contains(&size) {
                        let (shape, len) = joint.decode(size, window >> read);
                        let mut apart = Stack::new(shape.apart);
                        let mut all = vec![];
                        while !apart.is_empty() {
                            all.push(apart.pop() as usize);
                        }
                        sizes.extend(all.iter().rev());
                        read += len;
                    } else {
                        let (symbol, len) = codes[size].decode(window >> read);
                        let symbol = symbol as usize;
                        sizes.extend([size - symbol, symbol].iter().filter(|side| **side > 1));
                        read += len;
                    }
                }
                assert_eq!(read, taken);
                assert_eq!(rest, window >> taken);
                while let Some(size) = sizes.pop() {
                    assert_eq!(stack.pop(), size as u64);
                }
                assert!(stack.is_empty());
            }
        }
    }

    #[test]
    fn most_windows_take_a_code_word_at_least() {
        let empty = skip_table().entries.iter().filter(|entry| **entry & 63 == 0).count();
        assert!(empty < ENTRIES / 5, "{empty}");
    }

    #[test]
    fn a_full_stack_is_left_alone() {
        let mut stack = Stack(u64::MAX >> 4);
        let before = stack;
        assert_eq!(skip_table().step(&mut stack, &mut 0), 0);
        assert_eq!(stack, before);
    }
}
