//! MICA's operation modes (dissertation 5.3.1, 5.3.3): which threads may read and write a bucket at the same time.
//!
//! The header word of a bucket has its version in the low 32 bits: even at rest, odd while a writer changes it. A
//! reader that finds the same even version before and after its read has seen a consistent state; otherwise it tries
//! again:
//!
//! ```text
//! reader   version 4 ---- read entries and item ---- version 6: try again
//! writer        version 5, change, version 6
//! ```
//!
//! Words that are read optimistically are atomics, so a race is defined. The fences are those of a seqlock (Boehm, "Can
//! seqlocks get along with programming language memory models?", MSPC 2012) and cost no instruction on x86-64, where a
//! relaxed load is a plain `mov`. The only loss is that compilers do not join such loads to vectors: an item of 8 + 8
//! bytes takes three moves instead of two.

use super::atomic::{AtomicU64, Ordering, fence, spin_loop, yield_now};

const VERSION: u64 = u32::MAX as u64;
/// Attempts before a waiting thread yields: the writer may have been preempted.
const SPINS: u32 = 64;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Erew {}
    impl Sealed for super::Crew {}
    impl Sealed for super::Crcw {}
}

/// An operation mode.
pub trait Mode: sealed::Sealed + Send + Sync + 'static {
    /// Whether readers run concurrently with a writer.
    const CONCURRENT_READS: bool;
    /// Whether writers run concurrently.
    const CONCURRENT_WRITES: bool;

    /// Waits until no writer is in the bucket, and returns its header.
    #[inline]
    fn begin_read(header: &AtomicU64) -> u64 {
        if Self::CONCURRENT_READS { wait_for_even(header) } else { header.load(Ordering::Relaxed) }
    }

    /// Returns whether no writer was in the bucket since its header was `seen`.
    #[inline]
    fn is_unchanged(header: &AtomicU64, seen: u64) -> bool {
        if !Self::CONCURRENT_READS {
            return true;
        }
        // Orders the reads of entries and items before the second read of the version.
        fence(Ordering::Acquire);
        header.load(Ordering::Relaxed) == seen
    }

    /// Locks the bucket for writing.
    #[inline]
    fn lock(header: &AtomicU64) {
        if Self::CONCURRENT_WRITES {
            let try_lock = |seen| {
                let (locked, order) = (next_version(seen), Ordering::Relaxed);
                // Acquire: this writer sees what the one before it has changed.
                header.compare_exchange_weak(seen, locked, Ordering::Acquire, order).is_ok()
            };
            while !try_lock(wait_for_even(header)) {}
        } else if Self::CONCURRENT_READS {
            // There is one writer, so no change is lost between the load and the store.
            header.store(next_version(header.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
        if Self::CONCURRENT_READS {
            // Orders the odd version before the writes that follow.
            fence(Ordering::Release);
        }
    }

    /// Unlocks it.
    #[inline]
    fn unlock(header: &AtomicU64) {
        if Self::CONCURRENT_READS {
            // Only the thread that has locked it changes the header. Release: its changes come before the new version.
            header.store(next_version(header.load(Ordering::Relaxed)), Ordering::Release);
        }
    }

    /// A fence between allocating memory that another writer may have released and the first write to it. A reader that
    /// sees the new contents also sees that the version changed when the memory was released.
    #[inline]
    fn before_reuse() {
        if Self::CONCURRENT_READS {
            fence(Ordering::Release);
        }
    }

    /// Adds to a counter of the writers. Wraps around, so a number can be subtracted.
    #[inline]
    fn add(count: &AtomicU64, number: u64) {
        if Self::CONCURRENT_WRITES {
            count.fetch_add(number, Ordering::Relaxed);
        } else {
            count.store(count.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
        }
    }
}

/// Exclusive read, exclusive write: one owner, no synchronization.
#[derive(Debug, Clone, Copy)]
pub enum Erew {}

/// Concurrent read, exclusive write: one writer and any number of readers.
#[derive(Debug, Clone, Copy)]
pub enum Crew {}

/// Concurrent read, concurrent write.
#[derive(Debug, Clone, Copy)]
pub enum Crcw {}

impl Mode for Erew {
    const CONCURRENT_READS: bool = false;
    const CONCURRENT_WRITES: bool = false;
}

impl Mode for Crew {
    const CONCURRENT_READS: bool = true;
    const CONCURRENT_WRITES: bool = false;
}

impl Mode for Crcw {
    const CONCURRENT_READS: bool = true;
    const CONCURRENT_WRITES: bool = true;
}

#[inline]
fn next_version(header: u64) -> u64 {
    // The version wraps around within its 32 bits, so the link above it stays.
    (header & !VERSION) | (header.wrapping_add(1) & VERSION)
}

#[inline]
fn wait_for_even(header: &AtomicU64) -> u64 {
    let mut tries = 0;
    loop {
        // Acquire: the changes before this version are seen by the reads that follow.
        let seen = header.load(Ordering::Acquire);
        if seen & 1 == 0 {
            return seen;
        }
        tries += 1;
        if tries < SPINS { spin_loop() } else { yield_now() }
    }
}
