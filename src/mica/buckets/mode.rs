//! Who may read and write a bucket at the same time: MICA's operation modes (dissertation 5.3.1, 5.3.3).
//!
//! The header word of a bucket has its version in the low 32 bits: even at rest, odd while a writer is in it. A reader
//! that finds the same even version before and after has seen one moment; else it begins anew. Words that are read
//! optimistically are atomics, so that a race is defined; the fences are those of a seqlock (Boehm, "Can seqlocks get
//! along with programming language memory models?", MSPC 2012) and cost no instruction on x86-64.
//!
//! There a relaxed load is the `mov` of a plain one. All that is lost is that compilers leave such loads alone, where
//! they would join two plain ones into a vector: an item of 8 + 8 bytes takes three moves instead of two.

use super::atomic::{AtomicU64, Ordering, fence, spin_loop, yield_now};

const VERSION: u64 = u32::MAX as u64;
/// Tries before a waiting thread lets others run: the writer it waits for may have lost its core.
const SPINS: u32 = 64;

mod sealed {
    pub trait Sealed {}
}

/// An operation mode.
pub trait Mode: sealed::Sealed + Send + Sync + 'static {
    /// Whether readers may meet a writer.
    const CONCURRENT_READS: bool;
    /// Whether writers may meet.
    const CONCURRENT_WRITES: bool;

    /// Waits until no writer is in the bucket and returns its header.
    fn begin_read(header: &AtomicU64) -> u64;
    /// Whether no writer was in the bucket since its header was `seen`.
    fn is_unchanged(header: &AtomicU64, seen: u64) -> bool;
    /// Enters the bucket as a writer.
    fn lock(header: &AtomicU64);
    /// Leaves it.
    fn unlock(header: &AtomicU64);

    /// Comes between taking memory that another writer may have given back and the first write to it. A reader that
    /// sees what is written there then also sees the version that changed when the memory was given back.
    #[inline]
    fn before_reuse() {
        if Self::CONCURRENT_READS {
            fence(Ordering::Release);
        }
    }

    /// Adds to a count that writers keep; wraps, so that a number can be taken away.
    #[inline]
    fn add(count: &AtomicU64, number: u64) {
        if Self::CONCURRENT_WRITES {
            count.fetch_add(number, Ordering::Relaxed);
        } else {
            count.store(count.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
        }
    }
}

/// Exclusive read, exclusive write: one owner, no synchronisation at all.
#[derive(Debug, Clone, Copy)]
pub enum Erew {}

/// Concurrent read, exclusive write: one writer beside any readers.
#[derive(Debug, Clone, Copy)]
pub enum Crew {}

/// Concurrent read, concurrent write.
#[derive(Debug, Clone, Copy)]
pub enum Crcw {}

impl sealed::Sealed for Erew {}
impl sealed::Sealed for Crew {}
impl sealed::Sealed for Crcw {}

impl Mode for Erew {
    const CONCURRENT_READS: bool = false;
    const CONCURRENT_WRITES: bool = false;

    #[inline]
    fn begin_read(header: &AtomicU64) -> u64 {
        header.load(Ordering::Relaxed)
    }

    #[inline]
    fn is_unchanged(_header: &AtomicU64, _seen: u64) -> bool {
        true
    }

    #[inline]
    fn lock(_header: &AtomicU64) {}

    #[inline]
    fn unlock(_header: &AtomicU64) {}
}

impl Mode for Crew {
    const CONCURRENT_READS: bool = true;
    const CONCURRENT_WRITES: bool = false;

    #[inline]
    fn begin_read(header: &AtomicU64) -> u64 {
        wait_for_even(header)
    }

    #[inline]
    fn is_unchanged(header: &AtomicU64, seen: u64) -> bool {
        fence(Ordering::Acquire);
        header.load(Ordering::Relaxed) == seen
    }

    #[inline]
    fn lock(header: &AtomicU64) {
        header.store(next_version(header.load(Ordering::Relaxed)), Ordering::Relaxed);
        fence(Ordering::Release);
    }

    #[inline]
    fn unlock(header: &AtomicU64) {
        header.store(next_version(header.load(Ordering::Relaxed)), Ordering::Release);
    }
}

impl Mode for Crcw {
    const CONCURRENT_READS: bool = true;
    const CONCURRENT_WRITES: bool = true;

    #[inline]
    fn begin_read(header: &AtomicU64) -> u64 {
        wait_for_even(header)
    }

    #[inline]
    fn is_unchanged(header: &AtomicU64, seen: u64) -> bool {
        Crew::is_unchanged(header, seen)
    }

    #[inline]
    fn lock(header: &AtomicU64) {
        loop {
            let seen = wait_for_even(header);
            let locked = next_version(seen);
            if header.compare_exchange_weak(seen, locked, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                fence(Ordering::Release);
                return;
            }
        }
    }

    #[inline]
    fn unlock(header: &AtomicU64) {
        Crew::unlock(header);
    }
}

#[inline]
fn next_version(header: u64) -> u64 {
    (header & !VERSION) | (header.wrapping_add(1) & VERSION)
}

#[inline]
fn wait_for_even(header: &AtomicU64) -> u64 {
    let mut tries = 0;
    loop {
        let seen = header.load(Ordering::Acquire);
        if seen & 1 == 0 {
            return seen;
        }
        tries += 1;
        if tries < SPINS { spin_loop() } else { yield_now() }
    }
}
