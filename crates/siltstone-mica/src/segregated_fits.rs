//! The allocator of store mode: segregated fits with boundary tags (dissertation 5.3.3, "Store Mode").
//!
//! Free blocks are in lists by length: a class per number of words up to 512, and above that 16 classes between powers
//! of two. An allocation takes a block of the smallest class that has one and returns its rest to the lists. A block
//! that is released is joined with its free neighbours, so in the end all free space is one block again.
//!
//! ```text
//! memory    | item | free: 6 words                | item    | free: 4 words      |
//! tags             | 6, next | .. | 6, previous |         | 4, next | 4, prev. |
//! bitmap      0 0  |   1       0  0  0    1     |  0 0 0  |   1     0  0  1    |
//! ```
//!
//! | word of a free block | low 32 bits | high 32 bits |
//! |---|---|---|
//! | first | its length in words | the next block of its class |
//! | last | its length in words | the previous block of its class |
//!
//! Deviation: only free blocks have tags. A bitmap (a 64th of the memory, which stays in the processor's caches) marks
//! the words that are the first or last of a free block, so items spend no memory on the allocator. A block of one word
//! is in no list; a neighbour that is released absorbs it.
//!
//! D. E. Knuth, "The Art of Computer Programming", volume 1, section 2.5, has boundary tags.

use super::{Full, Space};
use siltstone_device::Pages;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Lengths up to this have a class each.
const EXACT_WORDS: u32 = 512;
/// Classes between two powers of two above.
const STEPS: u32 = 16;
const CLASSES: usize = (EXACT_WORDS + STEPS * (32 - EXACT_WORDS.ilog2())) as usize + 1;
/// The minimum length of a block in a list.
const BLOCK_WORDS_MIN: u32 = 2;
const NONE: u32 = u32::MAX;
/// The number of blocks of a class of several lengths that are searched before the next class.
const LOOKS: usize = 16;

/// The maximum number of words: offsets have 32 bits.
pub(super) const SPACE_WORDS_MAX: u64 = NONE as u64 - 1;

/// Memory for items, in blocks of any length.
pub struct SegregatedFits {
    pages: Pages,
    words: u32,
}

/// The lists of free blocks, and where free blocks begin and end.
pub struct FreeLists {
    heads: Box<[u32; CLASSES]>,
    /// Which classes have a block.
    filled: [u64; CLASSES.div_ceil(64)],
    /// Which words are the first or last of a free block.
    boundaries: Vec<u64>,
    free_words: u64,
}

/// Returns the class of blocks of this length.
#[inline]
fn class_of(words: u32) -> usize {
    if words <= EXACT_WORDS {
        return words as usize;
    }
    let power = words.ilog2();
    let step = (words >> (power - STEPS.ilog2())) - STEPS;
    (EXACT_WORDS + (power - EXACT_WORDS.ilog2()) * STEPS + step) as usize + 1
}

impl SegregatedFits {
    /// Makes a space of this many words, at most 2^32 - 2, all free.
    pub fn new(words: u64) -> crate::Result<(Self, FreeLists)> {
        let pages = Pages::new(words as usize)?;
        let fits = SegregatedFits { pages, words: words as u32 };
        let mut free = FreeLists {
            heads: Box::new([NONE; CLASSES]),
            filled: [0; CLASSES.div_ceil(64)],
            boundaries: vec![0; words.div_ceil(64) as usize],
            free_words: 0,
        };
        fits.free(&mut free, 0, fits.words);
        Ok((fits, free))
    }

    #[inline]
    fn word(&self, at: u32) -> &AtomicU64 {
        &self.pages[at as usize]
    }

    fn length(&self, boundary: u32) -> u32 {
        self.word(boundary).load(Relaxed) as u32
    }

    fn next(&self, block: u32) -> u32 {
        (self.word(block).load(Relaxed) >> 32) as u32
    }

    fn set_next(&self, block: u32, next: u32) {
        let length = self.length(block);
        self.word(block).store(u64::from(length) | u64::from(next) << 32, Relaxed);
    }

    fn set_previous(&self, block: u32, previous: u32) {
        let length = self.length(block);
        self.word(block + length - 1).store(u64::from(length) | u64::from(previous) << 32, Relaxed);
    }

    /// Makes a range of words a free block. Its neighbours must not be free.
    fn free(&self, free: &mut FreeLists, block: u32, length: u32) {
        // The rest of a block that fits exactly.
        if length == 0 {
            return;
        }
        free.free_words += u64::from(length);
        free.set_boundary(block, true);
        free.set_boundary(block + length - 1, true);
        // Before the first word, which is the same one in a block of one word.
        self.word(block + length - 1).store(u64::from(length) | u64::from(NONE) << 32, Relaxed);
        // It has no space for both tags of a list. A neighbour that is released absorbs it.
        if length < BLOCK_WORDS_MIN {
            return;
        }
        let class = class_of(length);
        let next = free.heads[class];
        self.word(block).store(u64::from(length) | u64::from(next) << 32, Relaxed);
        if next != NONE {
            self.set_previous(next, block);
        }
        free.heads[class] = block;
        free.filled[class / 64] |= 1 << (class % 64);
    }

    /// Removes a free block from its list; its words then belong to neither a list nor an item.
    fn take(&self, free: &mut FreeLists, block: u32, length: u32) {
        free.free_words -= u64::from(length);
        free.set_boundary(block, false);
        free.set_boundary(block + length - 1, false);
        if length < BLOCK_WORDS_MIN {
            return;
        }
        let next = self.next(block);
        let previous = (self.word(block + length - 1).load(Relaxed) >> 32) as u32;
        if next != NONE {
            self.set_previous(next, previous);
        }
        if previous != NONE {
            self.set_next(previous, next);
            return;
        }
        let class = class_of(length);
        free.heads[class] = next;
        if next == NONE {
            free.filled[class / 64] &= !(1 << (class % 64));
        }
    }

    /// Finds a block of at least `words` words. Searches the first few blocks of its class, then takes the first block
    /// of a larger class, where all are long enough, then searches all blocks of its class.
    fn find(&self, free: &FreeLists, words: u32) -> Option<(u32, u32)> {
        let own = class_of(words);
        let in_class = |looks: usize| {
            let first = (free.heads[own] != NONE).then_some(free.heads[own]);
            let blocks =
                std::iter::successors(first, |block| Some(self.next(*block)).filter(|next| *next != NONE));
            blocks.take(looks).map(|block| (block, self.length(block))).find(|(_, length)| *length >= words)
        };
        let in_larger = || {
            let class = free.filled_from(own + 1)?;
            Some((free.heads[class], self.length(free.heads[class])))
        };
        in_class(LOOKS).or_else(in_larger).or_else(|| in_class(usize::MAX))
    }
}

impl FreeLists {
    #[inline]
    fn set_boundary(&mut self, word: u32, is: bool) {
        let (at, bit) = (word as usize / 64, 1 << (word % 64));
        if is { self.boundaries[at] |= bit } else { self.boundaries[at] &= !bit }
    }

    #[inline]
    fn is_boundary(&self, word: u32) -> bool {
        // The word after the memory is no boundary, so a block at the end has no next one.
        self.boundaries.get(word as usize / 64).is_some_and(|bits| bits >> (word % 64) & 1 == 1)
    }

    /// Returns the first class, from this one on, that has a block.
    #[inline]
    fn filled_from(&self, class: usize) -> Option<usize> {
        let mut bits = self.filled.get(class / 64)? & u64::MAX << (class % 64);
        let mut at = class / 64;
        while bits == 0 {
            at += 1;
            bits = *self.filled.get(at)?;
        }
        Some(at * 64 + bits.trailing_zeros() as usize)
    }

    /// Returns the number of free words.
    pub fn free_words(&self) -> u64 {
        self.free_words
    }
}

impl Space for SegregatedFits {
    type State = FreeLists;
    const LOSSY: bool = false;

    fn pages(&self) -> &Pages {
        &self.pages
    }

    #[inline]
    fn first_word(&self, offset: u32) -> usize {
        offset as usize
    }

    #[inline]
    fn reserve(&self, free: &mut FreeLists, words: u32) -> Result<u32, Full> {
        // A shorter block could not be put in a list when it is released.
        let words = words.max(BLOCK_WORDS_MIN);
        if words > self.words {
            return Err(Full::Item);
        }
        let (block, length) = self.find(free, words).ok_or(Full::Memory)?;
        self.take(free, block, length);
        // The rest of the block returns to the lists.
        self.free(free, block + words, length - words);
        Ok(block)
    }

    fn release(&self, free: &mut FreeLists, offset: u32, words: u32) {
        // As long as `reserve` has made it.
        let (mut first, mut end) = (offset, offset + words.max(BLOCK_WORDS_MIN));
        // The word before the item is the last one of a free block, whose tag gives the length.
        if first > 0 && free.is_boundary(first - 1) {
            let length = self.length(first - 1);
            first -= length;
            self.take(free, first, length);
        }
        // The word after the item is the first one of a free block.
        if free.is_boundary(end) {
            let length = self.length(end);
            self.take(free, end, length);
            end += length;
        }
        // As one block: no two free blocks are neighbours, so the tags next to an item are all that has to be read.
        self.free(free, first, end - first);
    }

    fn state_bytes(&self) -> u64 {
        let heads = size_of::<[u32; CLASSES]>();
        let boundaries = self.words.div_ceil(64) as usize * 8;
        (heads + size_of::<FreeLists>() + boundaries) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Returns the free blocks found in the memory itself, after checking that lists, tags and bitmap agree.
    fn free_blocks(fits: &SegregatedFits, free: &FreeLists, taken: &BTreeMap<u32, u32>) -> Vec<(u32, u32)> {
        let mut listed = BTreeMap::new();
        for class in 0..CLASSES {
            let (mut block, mut previous) = (free.heads[class], NONE);
            assert_eq!(free.filled[class / 64] >> (class % 64) & 1 == 1, block != NONE);
            while block != NONE {
                let length = fits.length(block);
                assert_eq!((class_of(length), fits.length(block + length - 1)), (class, length));
                assert_eq!((fits.word(block + length - 1).load(Relaxed) >> 32) as u32, previous);
                assert!(listed.insert(block, length).is_none());
                (previous, block) = (block, fits.next(block));
            }
        }
        let mut blocks = Vec::new();
        let ends = taken.iter().map(|(block, words)| (*block, block + (*words).max(BLOCK_WORDS_MIN)));
        let mut from = 0;
        for (begin, end) in ends.chain([(fits.words, fits.words)]) {
            assert!(begin >= from, "blocks overlap");
            if begin > from {
                blocks.push((from, begin - from));
            }
            from = end;
        }
        let long = blocks.iter().filter(|(_, length)| *length >= BLOCK_WORDS_MIN).copied();
        assert!(listed.into_iter().eq(long), "the lists have exactly the gaps between items");
        let boundaries = blocks.iter().flat_map(|(block, length)| [*block, block + length - 1]);
        let boundaries: std::collections::BTreeSet<u32> = boundaries.collect();
        assert!((0..fits.words).all(|word| free.is_boundary(word) == boundaries.contains(&word)));
        assert_eq!(free.free_words(), blocks.iter().map(|(_, length)| u64::from(*length)).sum::<u64>());
        blocks
    }

    #[test]
    fn lists_tags_and_bitmap_agree_after_random_churn_and_all_space_is_free_again() {
        for seed in 0..8 {
            let mut random = fastrand::Rng::with_seed(seed);
            let longest = [4, 40, 700, 3000][seed as usize % 4];
            let (fits, mut free) = SegregatedFits::new(6_000 + seed * 7).unwrap();
            let mut taken = BTreeMap::new();
            for step in 0..3_000 {
                if random.bool() || taken.is_empty() {
                    let words = random.u32(1..longest);
                    if let Ok(block) = fits.reserve(&mut free, words) {
                        taken.insert(block, words);
                    }
                } else {
                    let at = random.usize(..taken.len());
                    let (block, words) = taken.iter().nth(at).map(|(block, words)| (*block, *words)).unwrap();
                    taken.remove(&block);
                    fits.release(&mut free, block, words);
                }
                if step % 50 == 0 {
                    free_blocks(&fits, &free, &taken);
                }
            }
            for (block, words) in std::mem::take(&mut taken) {
                fits.release(&mut free, block, words);
            }
            assert_eq!(free_blocks(&fits, &free, &taken), [(0, fits.words)], "one block again");
        }
    }

    #[test]
    fn a_block_that_is_long_enough_is_always_found() {
        let (fits, mut free) = SegregatedFits::new(10_000).unwrap();
        // Many free blocks of one class. Only the last is long enough: 1,024 to 1,087 words are one class.
        let blocks: Vec<u32> = (0..9).map(|_| fits.reserve(&mut free, 1_030).unwrap()).collect();
        fits.reserve(&mut free, 730).unwrap();
        for block in blocks.iter().skip(1).step_by(2) {
            fits.release(&mut free, *block, 1_030);
        }
        assert!(fits.reserve(&mut free, 1_031).is_err());
        for _ in 0..4 {
            assert!(fits.reserve(&mut free, 1_030).is_ok());
        }
        assert_eq!(fits.reserve(&mut free, 2), Err(Full::Memory));
        assert_eq!(fits.reserve(&mut free, 10_001), Err(Full::Item));
    }

    #[test]
    fn the_shortest_block_that_suffices_is_taken_up_to_512_words_and_a_little_longer_one_above() {
        for (wanted, lengths, taken) in [
            (100, [300, 101, 150], 1),
            (2, [512, 3, 2], 2),
            (512, [514, 513, 1_000], 1),
            (1_000, [2_000, 1_100, 8_000], 1),
            (2, [600, 700, 64], 2),
        ] {
            let (fits, mut free) = SegregatedFits::new(20_000).unwrap();
            let blocks = lengths.map(|length| {
                let block = fits.reserve(&mut free, length).unwrap();
                // So that the blocks are not joined when they are released.
                fits.reserve(&mut free, 2).unwrap();
                block
            });
            for (block, length) in blocks.into_iter().zip(lengths) {
                fits.release(&mut free, block, length);
            }
            assert_eq!(fits.reserve(&mut free, wanted), Ok(blocks[taken]), "{wanted} of {lengths:?}");
        }
    }

    #[test]
    fn classes_rise_with_the_length() {
        assert!((1..=EXACT_WORDS + 1).all(|words| class_of(words) == words as usize));
        for power in EXACT_WORDS.ilog2()..31 {
            let steps = (0..=STEPS).map(|step| class_of((1 << power) + step * ((1 << power) / STEPS)));
            assert!(steps.is_sorted_by(|one, next| one + 1 == *next || power == EXACT_WORDS.ilog2()));
        }
        let mut last = 0;
        for words in
            (1..5_000).chain((13..32).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]))
        {
            let class = class_of(words);
            assert!(class >= last && class < CLASSES, "{words}");
            last = class;
        }
        assert!(class_of(u32::MAX) < CLASSES);
    }
}
