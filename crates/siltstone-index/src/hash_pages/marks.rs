//! A bit per entry of a page that lookups set: the recency bits of FlashStore (4.2). Pages without them pay 8 bytes.
//!
//! Lookups share a page, so they set bits atomically. Everything else has the page to itself. A lost or a wrong mark
//! costs no more than a record that stays too long or leaves too early, so the order of memory does not matter.

use crate::list_bytes;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The memory of the marks of a page besides their words of 64 marks, in bytes.
pub const MARKS_BYTES: usize = size_of::<Words>();

/// The marks of the entries of a page, by their ranks. Two pages with the same entries are equal whatever is marked.
#[derive(Debug, Default)]
pub(super) struct Marks(Option<Box<Words>>);

#[derive(Debug)]
struct Words(Vec<AtomicU64>);

impl Clone for Marks {
    fn clone(&self) -> Marks {
        // Marks that are set meanwhile may be missing in the copy, which costs little.
        let copy = |words: &Words| words.0.iter().map(|word| AtomicU64::new(word.load(Relaxed))).collect();
        Marks(self.0.as_ref().map(|words| Box::new(Words(copy(words)))))
    }
}

impl PartialEq for Marks {
    fn eq(&self, _: &Marks) -> bool {
        true
    }
}

impl Eq for Marks {}

impl Marks {
    /// Makes the marks of `len` entries. None is marked.
    pub fn of(len: usize) -> Marks {
        Marks(Some(Box::new(Words((0..len.div_ceil(64)).map(|_| AtomicU64::default()).collect()))))
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
        // One atomic operation: a lookup that marks the entry at the same time is either returned here or keeps its
        // mark.
        self.word(rank).is_some_and(|(word, bit)| word.fetch_and(!bit, Relaxed) & bit != 0)
    }

    /// Inserts an entry without a mark at a rank, of a page that has `len` entries then.
    pub fn insert(&mut self, rank: usize, len: usize) {
        let Some(Words(words)) = self.0.as_deref_mut() else { return };
        words.resize_with(len.div_ceil(64), AtomicU64::default);
        let (mut kept, mut carry) = ((1 << (rank % 64)) - 1, 0);
        for word in words.iter_mut().skip(rank / 64).map(AtomicU64::get_mut) {
            let shifted = (*word & !kept) << 1 | carry;
            carry = *word >> 63;
            *word = *word & kept | shifted;
            kept = 0;
        }
    }

    /// Removes the entry at a rank, of a page that has `len` entries then.
    pub fn remove(&mut self, rank: usize, len: usize) {
        let Some(Words(words)) = self.0.as_deref_mut() else { return };
        let mut carry = 0;
        for (number, word) in words.iter_mut().map(AtomicU64::get_mut).enumerate().skip(rank / 64).rev() {
            let kept = if number == rank / 64 { (1 << (rank % 64)) - 1 } else { 0 };
            let shifted = *word >> 1 & !kept | carry << 63;
            carry = *word & 1;
            *word = *word & kept | shifted;
        }
        words.truncate(len.div_ceil(64));
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
        let bytes = |words: &Words| size_of::<Words>() + list_bytes(&words.0);
        self.0.as_ref().map_or(0, |words| bytes(words))
    }
}
