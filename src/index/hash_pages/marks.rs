//! A bit per entry of a page that lookups set: the recency bits of FlashStore (4.2). Pages without them pay 8 bytes.
//!
//! Lookups share a page, so they set bits atomically. Everything else has the page to itself. A lost or a wrong mark
//! costs no more than a record that stays too long or leaves too early, so the order of memory does not matter.

use super::bit_array::{close, open};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The marks of the entries of a page, by their ranks. Two pages with the same entries are equal whatever is marked.
#[derive(Debug, Default)]
pub(super) struct Marks(Option<Box<Words>>);

#[derive(Debug)]
struct Words(Vec<AtomicU64>);

impl Clone for Marks {
    fn clone(&self) -> Marks {
        Marks(self.words().map(|words| Box::new(Words(words.into_iter().map(AtomicU64::new).collect()))))
    }
}

impl PartialEq for Marks {
    fn eq(&self, _: &Marks) -> bool {
        true
    }
}

impl Eq for Marks {}

impl Marks {
    /// Makes the marks of `len` entries, none of which is marked.
    pub fn of(len: usize) -> Marks {
        Marks::from_words(vec![0; len.div_ceil(64)])
    }

    fn from_words(words: Vec<u64>) -> Marks {
        Marks(Some(Box::new(Words(words.into_iter().map(AtomicU64::new).collect()))))
    }

    fn words(&self) -> Option<Vec<u64>> {
        self.0.as_ref().map(|words| words.0.iter().map(|word| word.load(Relaxed)).collect())
    }

    /// Returns whether the page has marks.
    pub fn exist(&self) -> bool {
        self.0.is_some()
    }

    fn word(&self, rank: usize) -> Option<(&AtomicU64, u64)> {
        Some((self.0.as_ref()?.0.get(rank / 64)?, 1 << (rank % 64)))
    }

    /// Marks an entry.
    pub fn set(&self, rank: usize) {
        // Most are marked already, and reading does not take the word from other processors.
        if let Some((word, bit)) = self.word(rank)
            && word.load(Relaxed) & bit == 0
        {
            word.fetch_or(bit, Relaxed);
        }
    }

    /// Removes the mark of an entry. Returns whether it had one.
    pub fn take(&self, rank: usize) -> bool {
        self.word(rank).is_some_and(|(word, bit)| word.fetch_and(!bit, Relaxed) & bit != 0)
    }

    /// Inserts an entry without a mark at a rank, of a page that has `len` entries then.
    pub fn insert(&mut self, rank: usize, len: usize) {
        self.change(|words| {
            words.resize(len.div_ceil(64), 0);
            open(words, rank, 1);
            words[rank / 64] &= !(1 << (rank % 64));
        });
    }

    /// Removes the entry at a rank, of a page that has `len` entries then.
    pub fn remove(&mut self, rank: usize, len: usize) {
        self.change(|words| {
            close(words, rank, 1);
            words.truncate(len.div_ceil(64));
        });
    }

    fn change(&mut self, change: impl FnOnce(&mut Vec<u64>)) {
        if let Some(mut words) = self.words() {
            change(&mut words);
            *self = Marks::from_words(words);
        }
    }

    /// Returns the marks of the entries from one rank to another one.
    pub fn part(&self, start: usize, end: usize) -> Marks {
        if !self.exist() {
            return Marks::default();
        }
        let part = Marks::of(end - start);
        let is_marked =
            |rank: &usize| self.word(*rank).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0);
        (start..end).filter(is_marked).for_each(|rank| part.set(rank - start));
        part
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let bytes = |words: &Words| size_of::<Words>() + words.0.capacity() * size_of::<AtomicU64>();
        self.0.as_ref().map_or(0, |words| bytes(words))
    }
}
