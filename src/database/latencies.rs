//! The times that operations take: histograms, and events for slow ones.
//!
//! Without either option there are no [`Latencies`], and an operation reads no clock.

use crate::stats::{LATENCY_BUCKETS, Latency, latency_bucket};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The operations whose times are counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operation {
    Get,
    GetMany,
    Write,
    Update,
    Scan,
    Sync,
}

impl Operation {
    const ALL: [Operation; 6] = [
        Operation::Get,
        Operation::GetMany,
        Operation::Write,
        Operation::Update,
        Operation::Scan,
        Operation::Sync,
    ];

    fn name(self) -> &'static str {
        match self {
            Operation::Get => "get",
            Operation::GetMany => "get_many",
            Operation::Write => "write",
            Operation::Update => "update",
            Operation::Scan => "scan",
            Operation::Sync => "sync",
        }
    }
}

/// The times of the calls of one operation.
struct Histogram {
    sum_ns: AtomicU64,
    counts: [AtomicU64; LATENCY_BUCKETS],
}

/// Measures the operations of a database that was opened so.
pub(super) struct Latencies {
    /// A histogram per operation, some 2.4 KiB each.
    histograms: Option<Box<[Histogram; Operation::ALL.len()]>>,
    /// Operations that take longer are events.
    slow: Option<Duration>,
}

impl Latencies {
    /// Returns `None` if nothing is to be measured.
    pub fn new(counted: bool, slow: Option<Duration>) -> Option<Latencies> {
        let new = |_| Histogram {
            sum_ns: AtomicU64::new(0),
            counts: [const { AtomicU64::new(0) }; LATENCY_BUCKETS],
        };
        let histograms = counted.then(|| Box::new(Operation::ALL.map(new)));
        (counted || slow.is_some()).then_some(Latencies { histograms, slow })
    }

    /// Measures an operation until what this returns is dropped.
    pub fn measure(&self, operation: Operation) -> Measured<'_> {
        Measured { latencies: self, operation, began: Instant::now() }
    }

    /// Returns the times so far.
    pub fn all(&self) -> Vec<Latency> {
        let histograms = self.histograms.iter().flat_map(|histograms| histograms.iter());
        let latency = |(operation, histogram): (Operation, &Histogram)| {
            let counts = histogram.counts.iter().map(|count| count.load(Relaxed)).collect();
            Latency::new(operation.name(), histogram.sum_ns.load(Relaxed), counts)
        };
        Operation::ALL.into_iter().zip(histograms).map(latency).collect()
    }
}

/// An operation that is being measured.
pub(super) struct Measured<'a> {
    latencies: &'a Latencies,
    operation: Operation,
    began: Instant,
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        // First, so that the time is that of the operation alone.
        let elapsed = self.began.elapsed();
        if let Some(histograms) = &self.latencies.histograms {
            let histogram = &histograms[self.operation as usize];
            let ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
            histogram.sum_ns.fetch_add(ns, Relaxed);
            histogram.counts[latency_bucket(ns)].fetch_add(1, Relaxed);
        }
        if self.latencies.slow.is_some_and(|slow| elapsed >= slow) {
            event!(warn, operation = self.operation.name(), ?elapsed, "slow operation");
        }
    }
}
