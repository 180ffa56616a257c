//! A page that is made of entries in the order of their tags.

use super::bit_array::add;
use super::page::{Entry, GROUPS_LOG2, HashPage};

/// A page with some of the entries that it is made for.
pub(super) struct Filling {
    page: HashPage,
    low_bits: u32,
    unit_bits: u32,
    /// The number of entries that it has, and the bit of the next one.
    rank: usize,
    at: usize,
}

impl Filling {
    /// Begins a page for `len` entries with tags of `tag_bits`, 9 to 41, and units of `unit_bits`.
    pub fn new(tag_bits: u32, unit_bits: u32, len: usize) -> Filling {
        let page = HashPage::blank(tag_bits as u8, unit_bits as u8, len);
        let at = page.entries_bit(0);
        Filling { page, low_bits: tag_bits - GROUPS_LOG2, unit_bits, rank: 0, at }
    }

    /// Begins a page like this one, for units of at least `unit_bits`.
    pub fn of(page: &HashPage, unit_bits: u32, len: usize) -> Filling {
        Filling::new(page.tag_bits(), page.unit_bits().max(unit_bits), len)
    }

    /// Adds the next entry. Returns `None` if the page has all for which it is made.
    #[inline(always)]
    pub fn push(&mut self, Entry { tag, unit }: Entry) -> Option<()> {
        if self.rank == self.page.len() {
            return None;
        }
        let words = &mut self.page.words;
        let count = (tag >> self.low_bits) as usize + self.rank;
        words[count / 64] |= 1 << (count % 64);
        let low = tag & ((1 << self.low_bits) - 1);
        let entry_bits = self.unit_bits + self.low_bits;
        if entry_bits < 64 {
            add(words, self.at, entry_bits, low << self.unit_bits | unit);
        } else {
            add(words, self.at, self.unit_bits, unit);
            add(words, self.at + self.unit_bits as usize, self.low_bits, low);
        }
        self.at += entry_bits as usize;
        self.rank += 1;
        Some(())
    }

    /// Returns the page. Entries that are missing are zeros.
    pub fn into_page(self) -> HashPage {
        self.page
    }

    /// Returns the page, if it has as many entries as it was made for.
    pub fn finish(self) -> Option<HashPage> {
        (self.rank == self.page.len()).then_some(self.page)
    }
}
