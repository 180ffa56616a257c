//! Memory from the system in pages, huge ones if available (dissertation 5.3.3, "Low-level memory management").
//!
//! Explicit huge pages come from a pool that the administrator configures (`vm.nr_hugepages`); if it is empty,
//! transparent huge pages are requested. Memory that is mapped twice has transparent huge pages, except for small pages
//! in the part that is mapped twice: that part has to be a file in memory, which few systems back with huge pages.
//!
//! A page is allocated on the NUMA node of the core that touches it first, so memory is local to the owner of a
//! partition if the owner is the first to write it.

#[cfg(all(target_os = "linux", not(miri)))]
mod mapping;
#[cfg(not(all(target_os = "linux", not(miri))))]
#[path = "allocation.rs"]
mod mapping;

use crate::error::{Error, Result};
use mapping::Mapping;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;

/// The size of a huge page, in bytes, and the alignment of large memory.
#[cfg(any(test, all(target_os = "linux", not(miri))))]
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Words of memory, initially zero. The system allocates a page when it is first touched.
pub struct Pages {
    mapping: Mapping,
    /// The number of words, without those mapped a second time.
    words: usize,
}

impl Pages {
    /// Maps at least this many words.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses the memory.
    pub fn new(words: usize) -> Result<Pages> {
        let mapping = Mapping::plain(bytes(words)?).map_err(Error::io("map", "memory"))?;
        Ok(Pages { mapping, words })
    }

    /// Maps this many words, and the first of them a second time after the last, so that an item that begins near the
    /// end may extend over it. `twice` is the number of words to map twice, rounded up to pages; none on systems that
    /// cannot do it.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses the memory; [`Error::Memory`] if `words` do not fill pages of 4,096 bytes.
    pub fn circular(words: usize, twice: usize) -> Result<Pages> {
        if words == 0 || !words.is_multiple_of(mapping::PAGE_BYTES / 8) {
            let problem =
                format!("{words} words are not a multiple of the page size of {} bytes", mapping::PAGE_BYTES);
            return Err(Error::Memory { problem });
        }
        let twice = bytes(twice.min(words))?.next_multiple_of(mapping::PAGE_BYTES);
        let mapping = Mapping::circular(bytes(words)?, twice).map_err(Error::io("map", "memory"))?;
        Ok(Pages { mapping, words })
    }

    /// Returns the memory in bytes, once all of it was touched.
    pub fn bytes(&self) -> u64 {
        self.words as u64 * 8
    }

    /// Returns the number of bytes in huge pages now. Asks the system, which takes milliseconds.
    pub fn huge_bytes(&self) -> u64 {
        self.mapping.huge_bytes()
    }

    /// Prefetches the cache line of a word. Has no effect if there is no such word.
    #[inline]
    pub fn prefetch(&self, word: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let address = self.mapping.address().cast::<i8>().wrapping_add(word * 8);
            // SAFETY: a prefetch reads nothing that the program could see, and no address makes it fail.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = word;
    }
}

fn bytes(words: usize) -> Result<usize> {
    let problem = || format!("{words} words exceed the address space; use fewer");
    let bytes = words.checked_mul(8).filter(|bytes| *bytes <= isize::MAX as usize / 4);
    bytes.ok_or_else(|| Error::Memory { problem: problem() })
}

impl Deref for Pages {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        let words = self.words + self.mapping.twice_bytes / 8;
        // SAFETY: the mapping has this many bytes at its address, aligned to a page and initially zero, until it is
        // dropped; every bit pattern is a valid word, and there are no other references to them.
        unsafe { std::slice::from_raw_parts(self.mapping.address().cast::<AtomicU64>(), words) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    /// Miri is slow with large memory.
    const LARGE: usize = if cfg!(miri) { 16 << 10 } else { HUGE_PAGE_BYTES };

    #[test]
    fn memory_is_zero_and_keeps_what_is_written() {
        for words in [1, 512, 700, LARGE / 8 + 1] {
            let pages = Pages::new(words).unwrap();
            assert_eq!((pages.len(), pages.bytes()), (words, words as u64 * 8));
            assert!(pages.iter().all(|word| word.load(Relaxed) == 0));
            pages[words - 1].store(7, Relaxed);
            pages.prefetch(0);
            pages.prefetch(usize::MAX / 16);
            assert_eq!(pages[words - 1].load(Relaxed), 7);
        }
        assert!(Pages::new(usize::MAX).is_err());
        let pages = Pages::new(4 * LARGE / 8).unwrap();
        pages.iter().for_each(|word| word.store(1, Relaxed));
        assert_eq!(pages.huge_bytes() % HUGE_PAGE_BYTES as u64, 0, "whole huge pages, or none");
        assert!(pages.huge_bytes() <= pages.bytes());
    }

    #[test]
    fn the_first_words_of_circular_memory_follow_the_last_ones_again() {
        for (words, twice) in [(512, 1), (1024, 1024), (4 * LARGE / 8, 600)] {
            let pages = Pages::circular(words, twice).unwrap();
            let twice = pages.len() - words;
            assert_eq!(pages.bytes(), words as u64 * 8);
            pages[0].store(1, Relaxed);
            pages[words - 1].store(2, Relaxed);
            if twice > 0 {
                assert_eq!(pages[words].load(Relaxed), 1);
                pages[words + twice - 1].store(3, Relaxed);
                assert_eq!(pages[twice - 1].load(Relaxed), 3);
            }
            assert_eq!(pages[words / 2].load(Relaxed), 0, "the rest is mapped once");
        }
        assert!(Pages::circular(0, 0).is_err() && Pages::circular(513, 1).is_err());
    }
}
