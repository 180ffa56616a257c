//! Counters that all threads add to without waiting for each other's cache lines.
//!
//! ```text
//! thread    1  17   2  18   ..   16  32
//!           └─┬─┘   └─┬─┘        └─┬──┘
//! stripe  [ 3 1 9 ][ 0 4 2 ] .. [ 7 7 0 ]    N counters in one cache line each; a sum reads all stripes
//! ```

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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn threads_that_start_together_share_no_cache_line() {
        let stripe = || std::thread::spawn(|| STRIPE.with(|stripe| *stripe)).join().unwrap();
        assert_ne!(stripe(), stripe());
        assert_eq!(size_of::<Striped<2>>(), 64 * STRIPES);
        assert_eq!(align_of::<Striped<2>>(), 64);
    }
}
