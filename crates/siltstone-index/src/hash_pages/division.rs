//! How the hashes are divided among the pages of an index: by their first bits. Pages that are split take one bit more.

use super::PAGE_ENTRIES;
use super::page::TAG_BITS_MIN;

/// The division of all hashes among a number of pages, in the order of the hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Division {
    /// The number of bits of a hash that are kept.
    hash_bits: u32,
    /// Pages that are not split yet are selected by this many bits.
    level: u32,
    /// The number of pages of this level that are split.
    split: usize,
}

impl Division {
    /// Divides hashes among `pages`, one or more. `hash_bits` of each hash are kept.
    pub fn new(hash_bits: u32, pages: usize) -> Division {
        let level = pages.max(1).ilog2();
        Division { hash_bits, level, split: pages.max(1) - (1 << level) }
    }

    /// Divides hashes among as many pages as an index has after `entries` insertions.
    pub fn for_entries(hash_bits: u32, entries: u64) -> Division {
        // A page needs tags of `TAG_BITS_MIN`, which limits the number of pages.
        let most = 1u64.checked_shl(hash_bits.saturating_sub(TAG_BITS_MIN)).unwrap_or(u64::MAX);
        Division::new(hash_bits, entries.div_ceil(PAGE_ENTRIES).clamp(1, most) as usize)
    }

    /// Returns the number of bits of a hash that are kept.
    pub fn hash_bits(&self) -> u32 {
        self.hash_bits
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> usize {
        (1 << self.level) + self.split
    }

    /// Returns the page of a hash, and its tag there.
    #[inline]
    pub fn home(&self, hash: u64) -> (usize, u64) {
        let kept = hash >> (64 - self.hash_bits);
        let tag_bits = self.hash_bits - self.level;
        let page = (kept >> tag_bits) as usize;
        // This page is split: one bit more selects its half.
        if page < self.split {
            let tag_bits = tag_bits - 1;
            return ((kept >> tag_bits) as usize, kept & ((1 << tag_bits) - 1));
        }
        (page + self.split, kept & ((1 << tag_bits) - 1))
    }

    /// Returns the number of bits of the tags of a page.
    pub fn tag_bits(&self, page: usize) -> u32 {
        let page_bits = if page < 2 * self.split { self.level + 1 } else { self.level };
        self.hash_bits.saturating_sub(page_bits)
    }

    /// Returns the lowest hash of a page.
    pub fn first_hash(&self, page: usize) -> u64 {
        let is_split = page < 2 * self.split;
        let (number, bits) = if is_split { (page, self.level + 1) } else { (page - self.split, self.level) };
        // A single page has no bits of its own: the shift is by 64, and its lowest hash 0.
        (number as u64).checked_shl(64 - bits).unwrap_or(0)
    }

    /// Returns the highest hash of a page.
    pub fn last_hash(&self, page: usize) -> u64 {
        if page + 1 < self.pages() { self.first_hash(page + 1) - 1 } else { u64::MAX }
    }

    /// Returns whether the tags have a bit that selects one of two pages.
    pub(super) fn can_split(&self) -> bool {
        self.hash_bits - self.level > TAG_BITS_MIN
    }

    /// Returns the page that is split next.
    pub(super) fn next_split(&self) -> usize {
        2 * self.split
    }
}
