//! The latencies of single calls: a histogram that is small compared with the memory being measured.

use crate::compare::row::Quantiles;
use anyhow::Result;
use hdrhistogram::Histogram;
use std::time::Duration;

/// Significant digits: 15 KB per histogram.
const DIGITS: u8 = 2;
/// Longer latencies count as this one.
const NS_MAX: u64 = 100_000_000_000;

/// The latencies of many calls.
pub struct Latencies(Histogram<u32>);

impl Latencies {
    /// Makes an empty histogram.
    pub fn new() -> Result<Latencies> {
        Ok(Latencies(Histogram::new_with_bounds(1, NS_MAX, DIGITS)?))
    }

    /// Adds a call.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(NS_MAX));
    }

    /// Adds all calls of another histogram.
    pub fn merge(&mut self, other: &Latencies) -> Result<()> {
        Ok(self.0.add(&other.0)?)
    }

    /// Returns quantiles of the latencies, if there are any.
    pub fn quantiles_if_any(&self) -> Option<Quantiles> {
        (!self.0.is_empty()).then(|| self.quantiles())
    }

    /// Returns quantiles of the latencies; zeros if there are none.
    pub fn quantiles(&self) -> Quantiles {
        let quantile =
            |share| if self.0.is_empty() { 0.0 } else { self.0.value_at_quantile(share) as f64 / 1e3 };
        Quantiles {
            mean: if self.0.is_empty() { 0.0 } else { self.0.mean() / 1e3 },
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            p9999: quantile(0.9999),
            p99999: quantile(0.99999),
            max: quantile(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_two_digits_after_merging() {
        let (mut low, mut high) = (Latencies::new().unwrap(), Latencies::new().unwrap());
        (1..=500).for_each(|micros| low.record(Duration::from_micros(micros)));
        (501..=1000).for_each(|micros| high.record(Duration::from_micros(micros)));
        low.merge(&high).unwrap();
        let quantiles = low.quantiles();
        for (got, expected) in
            [(quantiles.mean, 500.0), (quantiles.p50, 500.0), (quantiles.p99, 990.0), (quantiles.max, 1000.0)]
        {
            assert!((got / expected - 1.0).abs() < 0.02, "{expected}: {got}");
        }
    }
}
