//! Memory from the system in whole pages, huge ones where they are granted (dissertation 5.3.3, "Low-level memory
//! management").
//!
//! Explicit huge pages come from a pool that the administrator sets aside (`vm.nr_hugepages`); where it is empty,
//! transparent ones are asked for. Memory that is mapped twice has transparent ones, and small ones in the part that is
//! there twice, since only a file can be, and files in memory get huge pages on few systems.
//!
//! Pages are taken from the node of the core that touches them first, so they are local to it if the owner of a
//! partition is the first to write there.

#[cfg(all(target_os = "linux", not(miri)))]
mod mapping;
#[cfg(not(all(target_os = "linux", not(miri))))]
#[path = "allocation.rs"]
mod mapping;

use crate::{Error, Result};
use mapping::Mapping;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;

/// The size of a huge page, in bytes, and what the beginning of large memory is a multiple of.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// What kind of pages memory was given in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageKind {
    /// The system's usual ones.
    Small,
    /// Huge ones as far as the system finds them when the memory is first touched; see [`Pages::huge_bytes`].
    Transparent,
    /// Huge ones from the pool.
    Huge,
}

/// Words of memory, zero at first. Nothing of it is taken from the system before it is touched.
pub struct Pages {
    mapping: Mapping,
    /// The words that are there once.
    words: usize,
}

impl Pages {
    /// So many words at the least.
    ///
    /// # Errors
    /// [`Error::Io`] if the system does not grant the memory.
    pub fn new(words: usize) -> Result<Pages> {
        let mapping = Mapping::plain(bytes(words)?).map_err(Error::io("map", "memory"))?;
        Ok(Pages { mapping, words })
    }

    /// So many words, of which the first are there a second time behind the last, so that what begins near the end may
    /// run over it. As many as `twice` says and fill whole pages; none where the system cannot do it.
    ///
    /// # Errors
    /// [`Error::Io`] if the system does not grant the memory; `words` must fill whole pages of 4,096 bytes.
    pub fn circular(words: usize, twice: usize) -> Result<Pages> {
        if words == 0 || !words.is_multiple_of(mapping::PAGE_BYTES / 8) {
            let problem =
                format!("{words} words are not a multiple of the page size of {} bytes", mapping::PAGE_BYTES);
            return Err(Error::Setting { name: "circular memory", problem });
        }
        let twice = bytes(twice.min(words))?.next_multiple_of(mapping::PAGE_BYTES);
        let mapping = Mapping::circular(bytes(words)?, twice).map_err(Error::io("map", "memory"))?;
        Ok(Pages { mapping, words })
    }

    /// The words that are there once: those behind them are the first ones again.
    pub fn once(&self) -> usize {
        self.words
    }

    /// What kind of pages most of it is in.
    pub fn kind(&self) -> PageKind {
        self.mapping.kind
    }

    /// The memory that it takes when all of it was touched, in bytes.
    pub fn bytes(&self) -> u64 {
        self.words as u64 * 8
    }

    /// How many bytes of it stand in huge pages now. Asks the system: takes milliseconds.
    pub fn huge_bytes(&self) -> u64 {
        self.mapping.huge_bytes()
    }

    /// Asks the processor to fetch the cache line of a word. No word there: nothing happens.
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
    bytes.ok_or_else(|| Error::Setting { name: "memory", problem: problem() })
}

impl Deref for Pages {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        let words = self.words + self.mapping.twice_bytes / 8;
        // SAFETY: the mapping has that many bytes at its address, aligned to a page and zero at first, until it is
        // dropped; every pattern of bits is a word, and nobody has another kind of reference to them.
        unsafe { std::slice::from_raw_parts(self.mapping.address().cast::<AtomicU64>(), words) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    /// Miri takes long over much memory.
    const LARGE: usize = if cfg!(miri) { 16 << 10 } else { HUGE_PAGE_BYTES };

    #[test]
    fn memory_is_zero_and_keeps_what_is_written() {
        for words in [1, 512, 700, LARGE / 8 + 1] {
            let pages = Pages::new(words).unwrap();
            assert_eq!((pages.len(), pages.once(), pages.bytes()), (words, words, words as u64 * 8));
            assert!(pages.iter().all(|word| word.load(Relaxed) == 0));
            pages[words - 1].store(7, Relaxed);
            pages.prefetch(0);
            pages.prefetch(usize::MAX / 16);
            assert_eq!(pages[words - 1].load(Relaxed), 7);
        }
        assert!(Pages::new(usize::MAX).is_err());
    }

    #[test]
    fn the_first_words_of_circular_memory_stand_behind_the_last_again() {
        for (words, twice) in [(512, 1), (1024, 1024), (4 * LARGE / 8, 600)] {
            let pages = Pages::circular(words, twice).unwrap();
            let twice = pages.len() - pages.once();
            assert_eq!(pages.once(), words);
            pages[0].store(1, Relaxed);
            pages[words - 1].store(2, Relaxed);
            if twice > 0 {
                assert_eq!(pages[words].load(Relaxed), 1);
                pages[words + twice - 1].store(3, Relaxed);
                assert_eq!(pages[twice - 1].load(Relaxed), 3);
            }
            assert_eq!(pages[words / 2].load(Relaxed), 0, "the rest is there once");
        }
        assert!(Pages::circular(0, 0).is_err() && Pages::circular(513, 1).is_err());
    }
}
