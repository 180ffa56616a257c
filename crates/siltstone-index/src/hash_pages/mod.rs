//! An index that grows with its keys and never rehashes them: sorted pages of hash prefixes, each with a *unit*, the
//! number of the place of the record.
//!
//! ```text
//! hash of a key   | 1 0 | 1 1 0 1 0 0 1 ... |          42 bits are kept
//!                   page  tag
//!
//! page 00: 0010... 12, 0111... 3      the units of equal tags: the newest first
//! page 01: 1100... 40
//! page 1 : 01101.. 7, 11010.. 8       not split yet: its tags have one bit more
//! ```
//!
//! The first bits of a hash select the page, the rest is the tag. Pages are split one after the other (linear hashing,
//! Litwin, VLDB 1980), by the first bit of their tags, so a split needs neither keys nor whole hashes, and the pages
//! remain in the order of the hashes. Tags are an Elias-Fano sequence, so an index of N keys that keeps T bits of each
//! hash takes T - log2 N + 1.7 bits and a unit per key: 5.1 bytes with T = 42. A key that is not in the index has a
//! candidate with a probability of N / 2^T.
//!
//! FlashKey (V-A.1) has nodes of 36 bytes in a hash table of twice the number of keys, which is rehashed when it is
//! full. FlashStore (4.4) has a cuckoo table of 6 bytes per slot, which does not grow.

mod bit_array;
mod division;
mod marks;
mod merge;
mod page;
#[cfg(test)]
pub(super) mod tests;

pub use division::Division;
pub use marks::MARKS_BYTES;
pub use merge::Change;
pub use page::{
    GROUPS_LOG2, GROWTH_WORDS, HashPage, MARK_BITS, PAGE_HEADER_BYTES, PageEntry, TAG_BITS_MAX, UNIT_BITS_MAX,
};

use crate::BuildError;
use page::TAG_BITS_MIN;
use std::sync::Arc;

/// The minimum number of bits of a hash that are kept.
pub const HASH_BITS_MIN: u32 = 2 * TAG_BITS_MIN;

/// A split begins when the pages have more entries than this, on average. Pages that were just split have half as many
/// as those that are next.
pub const PAGE_ENTRIES: u64 = 720;

/// The memory of a page besides its words, in bytes: an `Arc` has two counters before its content. The list
/// of pages takes [`PAGE_LINK_BYTES`] more for each, and up to twice as many of them.
pub const PAGE_BYTES: usize = size_of::<HashPage>() + 2 * size_of::<usize>();
/// The memory of an element of the list of pages, in bytes.
pub const PAGE_LINK_BYTES: usize = size_of::<Arc<HashPage>>();

/// All pages of an index, or of a shard of one. Hashes are 64-bit numbers whose first bits are used.
///
/// A clone shares its pages, and a change copies a shared page, so a clone is a snapshot. It takes 8 bytes per page.
#[derive(Debug, Clone)]
pub struct HashPages {
    division: Division,
    len: u64,
    /// The heap memory of all pages, in bytes, without that of `pages`.
    page_bytes: usize,
    pages: Vec<Arc<HashPage>>,
}

impl HashPages {
    /// Makes an empty index that keeps `hash_bits` of each hash.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if these are not 18 to 41.
    pub fn new(hash_bits: u32) -> Result<Self, BuildError> {
        check_hash_bits(hash_bits)?;
        let page = HashPage::new(hash_bits);
        let page_bytes = page.heap_bytes();
        let division = Division::new(hash_bits, 1);
        Ok(HashPages { division, len: 0, page_bytes, pages: vec![Arc::new(page)] })
    }

    /// Makes an index of the pages that [`pages`](HashPages::pages) returned, for hashes of as many bits.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if the hashes have no 18 to 41 bits, or the tags of a page have another number of bits
    /// than its place requires.
    pub fn from_pages(hash_bits: u32, pages: Vec<HashPage>) -> Result<Self, BuildError> {
        HashPages::from_intact_pages(hash_bits, pages.into_iter().map(Some).collect())
    }

    /// Like [`from_pages`](HashPages::from_pages); pages that are `None` are left without entries.
    ///
    /// # Errors
    /// See [`from_pages`](HashPages::from_pages).
    pub fn from_intact_pages(hash_bits: u32, pages: Vec<Option<HashPage>>) -> Result<Self, BuildError> {
        check_hash_bits(hash_bits)?;
        let division = Division::new(hash_bits, pages.len());
        let wrong = |bits: u32| {
            let (got, limit) = (bits.into(), "that of the place of the page");
            BuildError::Setting { name: "bits of a tag", got, limit }
        };
        let mut whole = Vec::with_capacity(pages.len());
        for (number, page) in pages.into_iter().enumerate() {
            let tag_bits = division.tag_bits(number);
            if tag_bits < TAG_BITS_MIN {
                return Err(wrong(tag_bits));
            }
            // Lost pages are empty: their entries are missing, and those of the other pages are found.
            let page = page.unwrap_or_else(|| HashPage::new(tag_bits));
            // The bytes of a page do not say where it belongs. With tags of another width, lookups would
            // compare other bits.
            if page.tag_bits() != tag_bits {
                return Err(wrong(page.tag_bits()));
            }
            whole.push(page);
        }
        let pages = whole;
        let len = pages.iter().map(|page| page.len() as u64).sum();
        let page_bytes = pages.iter().map(HashPage::heap_bytes).sum();
        match pages.is_empty() {
            true => Err(BuildError::Setting { name: "pages", got: 0, limit: "1 or more" }),
            false => {
                let pages = pages.into_iter().map(Arc::new).collect();
                Ok(HashPages { division, len, page_bytes, pages })
            }
        }
    }

    /// Returns the number of bits of a hash that are kept.
    pub fn hash_bits(&self) -> u32 {
        self.division.hash_bits()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the pages, in the order of the hashes.
    pub fn pages(&self) -> &[Arc<HashPage>] {
        &self.pages
    }

    /// Returns the units that the key with this hash may have, the one that was inserted last first. Reads some 20
    /// adjacent words of one page, and the entries of a group.
    #[inline]
    pub fn candidates(&self, hash: u64) -> impl Iterator<Item = u64> {
        let (page, tag) = self.division.home(hash);
        self.pages[page].candidates(tag)
    }

    /// Gives each entry a mark, which [`mark`](HashPages::mark) sets. Entries that are inserted later have one as well.
    /// Marks take a bit per entry, and some bytes per page. [`pages`](HashPages::pages) that are encoded lose them.
    pub fn keep_marks(&mut self) {
        for page in &mut self.pages {
            self.page_bytes -= page.heap_bytes();
            Arc::make_mut(page).keep_marks();
            self.page_bytes += page.heap_bytes();
        }
    }

    /// Marks the entry of this hash that was inserted last, if the entries have marks.
    pub fn mark(&self, hash: u64) {
        let (page, tag) = self.division.home(hash);
        self.pages[page].mark(tag);
    }

    /// Removes the mark of the oldest entry with this hash and unit. Returns whether it was marked.
    pub fn take_mark(&self, hash: u64, unit: u64) -> bool {
        let (page, tag) = self.division.home(hash);
        self.pages[page].take_mark(tag, unit)
    }

    /// Inserts an entry before those of an equal hash, and splits a page if the pages are full. Units have at most 40
    /// bits.
    pub fn insert(&mut self, hash: u64, unit: u64) {
        self.change(hash, |page, tag| page.insert(tag, unit));
        self.len += 1;
        // The next page in order, not the full one, so that two numbers describe the division.
        if self.len > PAGE_ENTRIES * self.pages.len() as u64 && self.division.can_split() {
            self.split_next();
        }
    }

    /// Changes the page of a hash, or a copy of it if a clone shares the page.
    fn change<T>(&mut self, hash: u64, change: impl FnOnce(&mut HashPage, u64) -> T) -> T {
        let (page, tag) = self.division.home(hash);
        let page = &mut self.pages[page];
        // Before and after, because the copy of a shared page may have another capacity.
        self.page_bytes -= page.heap_bytes();
        // A snapshot that shares the page keeps it as it was.
        let page = Arc::make_mut(page);
        let result = change(page, tag);
        self.page_bytes += page.heap_bytes();
        result
    }

    /// Splits the next page. If tags have no more bits to spare, pages become longer instead.
    fn split_next(&mut self) {
        let page = self.division.next_split();
        let halves = self.pages[page].split();
        self.page_bytes -= self.pages[page].heap_bytes();
        self.page_bytes += halves.iter().map(HashPage::heap_bytes).sum::<usize>();
        self.pages.splice(page..=page, halves.map(Arc::new));
        // From the number of pages, so that the division always agrees with the list.
        self.division = Division::new(self.hash_bits(), self.pages.len());
    }

    /// Replaces the unit of the oldest entry with this hash and unit; its place among equal hashes stays. Returns
    /// whether there was one.
    pub fn replace(&mut self, hash: u64, from: u64, to: u64) -> bool {
        self.change(hash, |page, tag| page.replace(tag, from, to))
    }

    /// Removes the oldest entry with this hash and unit. Returns whether there was one. Memory of pages is kept: only
    /// that of their entries is released.
    pub fn remove(&mut self, hash: u64, unit: u64) -> bool {
        let is_removed = self.change(hash, |page, tag| page.remove(tag, unit));
        self.len -= u64::from(is_removed);
        is_removed
    }

    /// Returns the kept bits of each hash, as the first bits of a number, with the unit: in the order of the hashes, of
    /// equal ones the newest first.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.entries_from(0)
    }

    /// Like [`entries`](HashPages::entries), for the hashes whose kept bits are not below those of `hash`. Reads the
    /// page of `hash` from its begin.
    pub fn entries_from(&self, hash: u64) -> impl Iterator<Item = (u64, u64)> {
        let shift = 64 - self.hash_bits();
        let division = self.division;
        let first_page = division.home(hash).0;
        let entries = (first_page..).zip(&self.pages[first_page..]).flat_map(move |(number, page)| {
            let first = division.first_hash(number);
            page.entries().map(move |PageEntry { tag, unit }| (first | tag << shift, unit))
        });
        // Only the first page has hashes below the first one.
        entries.skip_while(move |(other, _)| other >> shift < hash >> shift)
    }

    /// Returns the heap memory, in bytes, in constant time. Pages that are shared with a snapshot are included.
    pub fn heap_bytes(&self) -> usize {
        self.page_bytes + self.pages.len() * PAGE_BYTES + self.pages.capacity() * PAGE_LINK_BYTES
    }
}

fn check_hash_bits(hash_bits: u32) -> Result<(), BuildError> {
    if (HASH_BITS_MIN..=TAG_BITS_MAX).contains(&hash_bits) {
        return Ok(());
    }
    Err(BuildError::Setting { name: "hash_bits of a shard", got: hash_bits.into(), limit: "18 to 41" })
}
