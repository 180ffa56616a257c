//! A page that is made of the groups of another one: those that do not change are copied as bits, not entry by entry.

use super::bit_array::copy;
use super::page::{Entry, GROUPS, HashPage};
use crate::index::bits::select_in_word;

/// The page that is made, and what was taken of the other one.
pub(super) struct Rebuilt<'p> {
    from: &'p HashPage,
    made: HashPage,
    /// The next group, where its counts begin, and the rank of its first entry, of the old page.
    group: usize,
    bit: usize,
    rank: usize,
    /// The number of entries of the groups before it in the new page.
    pushed: usize,
    /// A word of the counts of the old page at or before `bit`, and the zeros before this word.
    word: usize,
    zeros: usize,
}

impl<'p> Rebuilt<'p> {
    /// Begins a page of `len` entries with tags and units of as many bits.
    pub fn new(from: &'p HashPage, len: usize) -> Rebuilt<'p> {
        let made = from.blank(len);
        Rebuilt { from, made, group: 0, bit: 0, rank: 0, pushed: 0, word: 0, zeros: 0 }
    }

    /// Copies the groups before this one. Returns `None` if the new page has no space for them.
    pub fn copy_until(&mut self, group: usize) -> Option<()> {
        if group == self.group {
            return Some(());
        }
        let bit = self.end_of_group(group - 1) + 1;
        let rank = bit.checked_sub(group)?;
        let entries = rank.checked_sub(self.rank)?;
        if self.pushed + entries > self.made.len() {
            return None;
        }
        copy(&mut self.made.words, self.group + self.pushed, &self.from.words, self.bit, bit - self.bit);
        let (start, width) = (self.made.entries_bit(self.pushed), self.from.entry_bits() as usize);
        copy(
            &mut self.made.words,
            start,
            &self.from.words,
            self.from.entries_bit(self.rank),
            entries * width,
        );
        (self.group, self.bit, self.rank, self.pushed) = (group, bit, rank, self.pushed + entries);
        Some(())
    }

    /// Returns the position of the zero that ends a group, which is not before the last one that was wanted.
    fn end_of_group(&mut self, group: usize) -> usize {
        while let Some(word) = self.from.words.get(self.word) {
            let zeros = word.count_zeros() as usize;
            if group < self.zeros + zeros {
                return self.word * 64 + select_in_word(!word, (group - self.zeros) as u32) as usize;
            }
            self.zeros += zeros;
            self.word += 1;
        }
        self.from.words.len() * 64
    }

    /// Passes over the next group of the old page, and appends its entries to `entries`.
    pub fn take_group(&mut self, entries: &mut Vec<Entry>) {
        let end = self.end_of_group(self.group);
        let count = end.saturating_sub(self.bit).min(self.from.len() - self.rank);
        entries.extend((self.rank..self.rank + count).map(|rank| self.from.entry(self.group, rank)));
        (self.bit, self.rank) = (end + 1, self.rank + count);
        self.group += 1;
    }

    /// Adds the entries of the group that was taken. Returns `None` if the new page has no space for them.
    pub fn push_group(&mut self, entries: &[Entry]) -> Option<()> {
        if self.pushed + entries.len() > self.made.len() {
            return None;
        }
        for entry in entries {
            self.made.add_entry(self.pushed, entry);
            self.pushed += 1;
        }
        Some(())
    }

    /// Copies the other groups. Returns the page, if it has as many entries as it was made for.
    pub fn finish(mut self) -> Option<HashPage> {
        self.copy_until(GROUPS)?;
        (self.pushed == self.made.len()).then_some(self.made)
    }
}
