//! The latencies of single operations: an HDR histogram of nanoseconds with three significant digits.

use hdrhistogram::Histogram;
use std::fmt::Write;
use std::time::Duration;

/// The latencies of many operations. The first operation allocates a quarter of a megabyte.
#[derive(Debug, Clone, Default)]
pub struct Latencies(Option<Histogram<u64>>);

/// Significant digits.
const DIGITS: u8 = 3;
/// The longest latency, an hour. Longer ones are counted as this.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

fn new_histogram() -> Histogram<u64> {
    #[expect(
        clippy::expect_used,
        reason = "it fails only beyond 5 digits or without a range, and both are constants"
    )]
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS).expect("the bounds are valid")
}

impl Latencies {
    /// Adds one operation.
    pub fn record(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.0.get_or_insert_with(new_histogram).saturating_record(nanoseconds);
    }

    /// Adds all operations of `other`.
    pub fn merge(&mut self, other: &Latencies) {
        if let Some(other) = &other.0 {
            // Both have the same bounds, so adding cannot fail.
            let _ = self.0.get_or_insert_with(new_histogram).add(other);
        }
    }

    /// Returns the number of operations.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, Histogram::len)
    }

    /// Returns the latency that this share of the operations did not exceed, in microseconds.
    pub fn quantile_us(&self, share: f64) -> f64 {
        self.0.as_ref().map_or(0.0, |histogram| histogram.value_at_quantile(share) as f64 / 1e3)
    }

    /// Returns the mean, in microseconds.
    pub fn mean_us(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |histogram| histogram.mean() / 1e3)
    }

    /// Returns the minimum, in microseconds.
    pub fn min_us(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |histogram| histogram.min() as f64 / 1e3)
    }

    /// Returns the maximum, in microseconds.
    pub fn max_us(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |histogram| histogram.max() as f64 / 1e3)
    }

    /// Formats the distribution as text, with one line per doubling of the latency.
    pub fn describe(&self) -> String {
        let Some(histogram) = &self.0 else { return String::new() };
        let mut text = format!(
            "Microseconds per op: count {}, average {:.3}, min {:.3}, max {:.3}\n",
            self.count(),
            self.mean_us(),
            self.min_us(),
            self.max_us()
        );
        let mut sum = 0;
        for step in histogram.iter_log(128, 2.0) {
            let count = step.count_since_last_iteration();
            sum += count;
            if count > 0 {
                let share = 100.0 / self.count() as f64;
                let up_to = step.value_iterated_to() as f64 / 1e3;
                let (one, all) = (count as f64 * share, sum as f64 * share);
                let _ = writeln!(text, "  up to {up_to:>12.3}: {count:>12} {one:>8.3}% {all:>8.3}%");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_three_digits_after_merging() {
        let (mut low, mut high) = (Latencies::default(), Latencies::default());
        (1..=500).for_each(|micros| low.record(Duration::from_micros(micros)));
        (501..=1000).for_each(|micros| high.record(Duration::from_micros(micros)));
        low.merge(&high);
        assert_eq!(low.count(), 1000);
        for (share, expected) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let got = low.quantile_us(share);
            assert!((got / expected - 1.0).abs() < 2e-3, "{share}: {got}");
        }
        assert!(low.describe().contains("count 1000"));
        assert_eq!(Latencies::default().quantile_us(0.5), 0.0);
    }
}
