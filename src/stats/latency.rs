//! Histograms of latencies.

/// Each power of two is divided into this many buckets, so a quantile is at most an eighth too high.
const BUCKETS_PER_POWER_LOG2: u32 = 3;
/// Longer times count as this long: 2^40 ns are 18 minutes.
const NS_MAX: u64 = (1 << 40) - 1;
/// The number of buckets.
pub(crate) const BUCKETS: usize = bucket_of(NS_MAX) + 1;

/// Returns the bucket of a time in nanoseconds.
pub(crate) const fn bucket_of(ns: u64) -> usize {
    let ns = if ns > NS_MAX { NS_MAX } else { ns };
    if ns >> BUCKETS_PER_POWER_LOG2 == 0 {
        return ns as usize;
    }
    let shift = ns.ilog2() - BUCKETS_PER_POWER_LOG2;
    ((shift as usize) << BUCKETS_PER_POWER_LOG2) + (ns >> shift) as usize
}

/// Returns the longest time of a bucket, in nanoseconds.
const fn end_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket >> BUCKETS_PER_POWER_LOG2 == 0 {
        return bucket;
    }
    let shift = (bucket >> BUCKETS_PER_POWER_LOG2) - 1;
    let first = bucket - (shift << BUCKETS_PER_POWER_LOG2);
    ((first + 1) << shift) - 1
}

/// The times that the calls of one operation took: [`Builder::latencies`](crate::Builder::latencies).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latency {
    operation: &'static str,
    sum_ns: u64,
    /// The number of calls, per bucket.
    counts: Vec<u64>,
}

impl Latency {
    pub(crate) fn new(operation: &'static str, sum_ns: u64, counts: Vec<u64>) -> Latency {
        Latency { operation, sum_ns, counts }
    }

    /// Returns the operation: `get`, `get_many`, `write` (puts, deletes and batches), `update` (all calls that read and
    /// write in one step), `scan` (pages), `sync`.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// Returns the number of calls.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all times, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Returns the time in nanoseconds within which a share of the calls ended, from 0 to 1. It is at most an eighth
    /// too high, and at most 18 minutes. Returns 0 if there was no call.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// let database = siltstone::Database::builder(directory.path().join("db")).latencies(true).open()?;
    /// database.put("key", "value")?;
    /// let stats = database.stats();
    /// let write = stats.latencies.iter().find(|latency| latency.operation() == "write").unwrap();
    /// assert_eq!(write.count(), 1);
    /// println!("99.9 % of the writes took at most {} ns", write.quantile_ns(0.999));
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let wanted = (share.clamp(0.0, 1.0) * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= wanted {
                return end_of(bucket);
            }
        }
        0
    }

    /// Returns the number of calls that took less than `2^power_log2` nanoseconds.
    pub(super) fn count_below(&self, power_log2: u32) -> u64 {
        self.counts[..bucket_of(1 << power_log2)].iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_an_eighth_wide_at_most() {
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(end_of(bucket)), bucket);
            if bucket + 1 < BUCKETS {
                assert_eq!(bucket_of(end_of(bucket) + 1), bucket + 1);
                let width = end_of(bucket + 1) - end_of(bucket);
                assert!(8 * (width - 1) <= end_of(bucket), "{bucket}");
            }
        }
        assert_eq!((end_of(BUCKETS - 1), bucket_of(u64::MAX)), (NS_MAX, BUCKETS - 1));
    }

    #[test]
    fn quantiles_are_at_most_an_eighth_too_high() {
        let mut counts = vec![0; BUCKETS];
        let times = (1..=1000u64).map(|number| number * 1000);
        times.clone().for_each(|ns| counts[bucket_of(ns)] += 1);
        let latency = Latency::new("get", times.sum(), counts);
        assert_eq!((latency.count(), latency.sum_ns()), (1000, 500_500_000));
        for (share, ns) in [(0.001, 1_000), (0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let found = latency.quantile_ns(share);
            assert!((ns..=ns + ns / 8).contains(&found), "{share}: {found}");
        }
        assert_eq!(latency.count_below(0), 0);
        assert_eq!(latency.count_below(16), 65, "65.536 µs are 2^16 ns");
        assert_eq!(Latency::new("get", 0, vec![0; BUCKETS]).quantile_ns(0.5), 0);
    }
}
