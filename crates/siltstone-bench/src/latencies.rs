//! How long single operations took: an HDR histogram of nanoseconds with three significant digits.

use hdrhistogram::Histogram;
use std::fmt::Write;
use std::time::Duration;

/// The latencies of many operations.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u64>);

/// Significant digits.
const DIGITS: u8 = 3;
/// Longer latencies count as this: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

impl Default for Latencies {
    fn default() -> Self {
        #[expect(
            clippy::expect_used,
            reason = "it fails only beyond 5 digits or without a range, and both are constants"
        )]
        Latencies(Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS).expect("the bounds can be had"))
    }
}

impl Latencies {
    /// Adds one operation.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds all operations of another.
    pub fn merge(&mut self, other: &Latencies) {
        // Both have the same bounds, so that nothing is refused.
        let _ = self.0.add(&other.0);
    }

    /// How many operations.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that this share of the operations did not exceed, in microseconds.
    pub fn quantile_us(&self, share: f64) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.value_at_quantile(share) as f64 / 1e3 }
    }

    /// The longest, in microseconds.
    pub fn max_us(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    /// The distribution as text, a line for each doubling of the latency.
    pub fn describe(&self) -> String {
        let mut text = format!(
            "Microseconds per op: count {}, average {:.3}, min {:.3}, max {:.3}\n",
            self.count(),
            self.0.mean() / 1e3,
            if self.0.is_empty() { 0.0 } else { self.0.min() as f64 / 1e3 },
            self.max_us()
        );
        let mut sum = 0;
        for step in self.0.iter_log(128, 2.0) {
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
