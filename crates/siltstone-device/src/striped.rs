//! Counters that all threads add to, and a lock that they share, without waiting for each other's cache lines.
//!
//! ```text
//! thread    1  17   2  18   ..   16  32
//!           └─┬─┘   └─┬─┘        └─┬──┘
//! stripe  [ 3 1 9 ][ 0 4 2 ] .. [ 7 7 0 ]    N counters in one cache line each; a sum reads all stripes
//! ```

use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::array::from_fn;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// The number of sets of counters, over which threads are spread.
const STRIPES: usize = 16;

static NEXT_STRIPE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = NEXT_STRIPE.fetch_add(1, Relaxed) % STRIPES;
}

#[derive(Debug)]
#[repr(align(64))]
struct Stripe<const N: usize>([AtomicU64; N]);

/// `N` counters, at most eight. Takes 1 KiB.
#[derive(Debug)]
pub struct Striped<const N: usize>([Stripe<N>; STRIPES]);

impl<const N: usize> Default for Striped<N> {
    fn default() -> Self {
        const { assert!(N <= 8, "the counters of a stripe are in one cache line") };
        Striped(from_fn(|_| Stripe(from_fn(|_| AtomicU64::new(0)))))
    }
}

impl<const N: usize> Striped<N> {
    /// Adds to the counters, in their order. A thread that reads a sum with it also reads what was written before.
    #[inline]
    pub fn add(&self, counts: [u64; N]) {
        let Stripe(counters) = &self.0[STRIPE.with(|stripe| *stripe)];
        for (counter, count) in counters.iter().zip(counts) {
            if count > 0 {
                counter.fetch_add(count, Release);
            }
        }
    }

    /// Returns the sums. Additions meanwhile may be in some of them: since the last counter is read first, none has
    /// more than those before it that were added with it.
    pub fn sums(&self) -> [u64; N] {
        let mut sums = [0; N];
        for at in (0..N).rev() {
            let counts = self.0.iter().map(|Stripe(counters)| counters[at].load(Acquire));
            sums[at] = counts.fold(0, u64::saturating_add);
        }
        sums
    }
}

/// A lock that any number of threads share, each with a stripe of its own, or that one has alone, which takes all
/// stripes: sharing is for every operation, having it alone is rare.
#[derive(Debug)]
pub struct StripedLock([LockStripe; LOCK_STRIPES]);

/// With Shuttle, whose threads are one thread of the system, each stripe is only one more place to switch at.
const LOCK_STRIPES: usize = if cfg!(shuttle) { 1 } else { STRIPES };

#[derive(Debug, Default)]
#[repr(align(64))]
struct LockStripe(RwLock<()>);

impl Default for StripedLock {
    fn default() -> Self {
        StripedLock(from_fn(|_| LockStripe::default()))
    }
}

impl StripedLock {
    /// Waits until no thread has the lock alone, and shares it. A thread that shares it must not take it again: one
    /// that waits to have it alone goes first.
    #[inline]
    pub fn share(&self) -> RwLockReadGuard<'_, ()> {
        self.0[STRIPE.with(|stripe| *stripe) % LOCK_STRIPES].0.read()
    }

    /// Waits until no other thread shares the lock, and takes it alone.
    pub fn alone(&self) -> impl Sized {
        // All in this order, so that two threads do not wait for each other.
        self.0.iter().map(|stripe| stripe.0.write()).collect::<Vec<_>>()
    }

    /// Takes the lock alone; returns `None` if another thread has it or shares it.
    pub fn try_alone(&self) -> Option<Vec<RwLockWriteGuard<'_, ()>>> {
        self.0.iter().map(|stripe| stripe.0.try_write()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn sums_have_what_all_threads_have_added() {
        let counters = Striped::<3>::default();
        std::thread::scope(|scope| {
            for thread in 0..2 * STRIPES as u64 {
                let counters = &counters;
                scope.spawn(move || (0..100).for_each(|_| counters.add([1, thread, 0])));
            }
        });
        assert_eq!(counters.sums(), [3_200, 49_600, 0]);
    }

    #[test]
    fn a_lock_is_had_alone_only_while_no_thread_shares_it() {
        let lock = StripedLock::default();
        // One after the other in threads of different stripes.
        for _ in 0..STRIPES + 1 {
            let (is_shared, may_end) = (Barrier::new(2), Barrier::new(2));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let _shared = lock.share();
                    is_shared.wait();
                    may_end.wait();
                });
                is_shared.wait();
                assert!(lock.try_alone().is_none());
                drop(lock.share());
                may_end.wait();
            });
        }
        let alone = lock.alone();
        assert!(lock.try_alone().is_none());
        std::thread::scope(|scope| {
            let sharing = scope.spawn(|| drop(lock.share()));
            drop(alone);
            sharing.join().unwrap();
        });
        assert!(lock.try_alone().is_some());
    }

    #[test]
    fn threads_that_start_together_share_no_cache_line() {
        let stripe = || std::thread::spawn(|| STRIPE.with(|stripe| *stripe)).join().unwrap();
        assert_ne!(stripe(), stripe());
        assert_eq!(size_of::<Striped<2>>(), 64 * STRIPES);
        assert_eq!(align_of::<Striped<2>>(), 64);
    }
}
