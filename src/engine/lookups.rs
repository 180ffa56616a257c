//! How many keys of a database were looked up, and how many of them were missing. The database counts, and an engine
//! may choose its filters by the counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The number of sets of counters. Threads are spread over them, so that few write to the same cache line.
pub const STRIPES: usize = 16;

static NEXT_STRIPE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = NEXT_STRIPE.fetch_add(1, Relaxed) % STRIPES;
}

/// Returns which of [`STRIPES`] sets of counters the calling thread uses.
pub fn stripe_of_thread() -> usize {
    STRIPE.with(|stripe| *stripe)
}

/// The counters of some threads, in one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe {
    gets: AtomicU64,
    misses: AtomicU64,
}

/// The counters of one database. A copy has the same counters.
#[derive(Debug, Clone, Default)]
pub struct Lookups(Arc<[Stripe; STRIPES]>);

impl Lookups {
    /// Counts lookups of keys, and how many of the keys were missing.
    pub fn count(&self, gets: usize, misses: usize) {
        let stripe = &self.0[stripe_of_thread()];
        stripe.gets.fetch_add(gets as u64, Relaxed);
        if misses > 0 {
            stripe.misses.fetch_add(misses as u64, Relaxed);
        }
    }

    /// Counts those of an earlier open, once.
    pub fn begin_with(&self, gets: u64, misses: u64) {
        self.0[0].gets.fetch_add(gets, Relaxed);
        self.0[0].misses.fetch_add(misses, Relaxed);
    }

    /// Returns how many keys were looked up, and how many of them were missing.
    pub fn sum(&self) -> (u64, u64) {
        // Misses first, and a lookup counts its get first: there are never more misses than gets.
        let sum = |count: fn(&Stripe) -> &AtomicU64| {
            self.0.iter().fold(0_u64, |sum, stripe| sum.saturating_add(count(stripe).load(Relaxed)))
        };
        let misses = sum(|stripe| &stripe.misses);
        (sum(|stripe| &stripe.gets).max(misses), misses)
    }
}

/// Counters are no setting: those of any two databases are equal.
impl PartialEq for Lookups {
    fn eq(&self, _: &Lookups) -> bool {
        true
    }
}
