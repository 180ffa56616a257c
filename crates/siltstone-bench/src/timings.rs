//! The latencies of operations by kind, and the rate of a phase: as JSON, and as lines like YCSB's.

use crate::latencies::Latencies;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// The latencies of operations, by kind. There are few kinds, each with a name such as `READ`.
#[derive(Debug, Clone, Default)]
pub struct Timings(Vec<(&'static str, Latencies)>);

impl Timings {
    /// Adds one operation.
    pub fn record(&mut self, kind: &'static str, latency: Duration) {
        self.of(kind).record(latency);
    }

    /// Adds all operations of `other`.
    pub fn merge(&mut self, other: &Timings) {
        other.0.iter().for_each(|(kind, latencies)| self.of(kind).merge(latencies));
    }

    fn of(&mut self, kind: &'static str) -> &mut Latencies {
        let at = self.0.iter().position(|(other, _)| *other == kind).unwrap_or_else(|| {
            self.0.push((kind, Latencies::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// Returns the number of operations of a kind.
    pub fn count(&self, kind: &str) -> u64 {
        self.0.iter().filter(|(other, _)| *other == kind).map(|(_, latencies)| latencies.count()).sum()
    }

    /// Returns the latencies of all kinds together.
    pub fn together(&self) -> Latencies {
        let mut all = Latencies::default();
        self.0.iter().for_each(|(_, latencies)| all.merge(latencies));
        all
    }
}

/// The latencies of one kind of operations, in microseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// The number of operations.
    pub operations: u64,
    /// The mean.
    pub mean_us: f64,
    /// The minimum.
    pub min_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 95th percentile.
    pub p95_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The maximum.
    pub max_us: f64,
}

impl From<&Latencies> for Figures {
    fn from(latencies: &Latencies) -> Figures {
        Figures {
            operations: latencies.count(),
            mean_us: latencies.mean_us(),
            min_us: latencies.min_us(),
            p50_us: latencies.quantile_us(0.5),
            p95_us: latencies.quantile_us(0.95),
            p99_us: latencies.quantile_us(0.99),
            p999_us: latencies.quantile_us(0.999),
            max_us: latencies.max_us(),
        }
    }
}

/// The rate of a phase. Serialises with the common field names.
#[derive(Debug, Clone, Serialize)]
pub struct Rates {
    /// The time until the last operation returned.
    pub seconds: f64,
    /// Operations per second of that time.
    pub ops_per_s: f64,
    /// The time including the background work that writes left behind, if there were writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_seconds: Option<f64>,
    /// Operations per second of the time including background work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_ops_per_s: Option<f64>,
    /// All operations together.
    #[serde(flatten)]
    pub all: Figures,
    /// By kind; the names are in lower case.
    pub by_operation: BTreeMap<String, Figures>,
}

impl Rates {
    /// Computes the rates from the latencies and the wall-clock time.
    pub fn new(timings: &Timings, seconds: f64, settled_seconds: Option<f64>) -> Rates {
        let all = Figures::from(&timings.together());
        let per_s = |seconds: f64| all.operations as f64 / seconds.max(1e-9);
        let named = |(kind, latencies): &(&str, Latencies)| {
            (kind.to_ascii_lowercase().replace('-', "_"), Figures::from(latencies))
        };
        Rates {
            seconds,
            ops_per_s: per_s(seconds),
            settled_seconds,
            settled_ops_per_s: settled_seconds.map(per_s),
            by_operation: timings.0.iter().map(named).collect(),
            all,
        }
    }

    /// Formats the summary like YCSB: one figure per line, with its section in brackets.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let mut line = |section: &str, name: &str, value: f64, digits: usize| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "[{section}], {name}, {value:.digits$}");
        };
        line("OVERALL", "RunTime(ms)", self.seconds * 1e3, 0);
        line("OVERALL", "Throughput(ops/sec)", self.ops_per_s, 1);
        if let Some(settled) = self.settled_ops_per_s {
            line("OVERALL", "SettledThroughput(ops/sec)", settled, 1);
        }
        for (kind, figures) in &self.by_operation {
            let section = kind.to_ascii_uppercase().replace('_', "-");
            line(&section, "Operations", figures.operations as f64, 0);
            for (name, value) in [
                ("AverageLatency(us)", figures.mean_us),
                ("MinLatency(us)", figures.min_us),
                ("MaxLatency(us)", figures.max_us),
                ("50thPercentileLatency(us)", figures.p50_us),
                ("95thPercentileLatency(us)", figures.p95_us),
                ("99thPercentileLatency(us)", figures.p99_us),
                ("99.9PercentileLatency(us)", figures.p999_us),
            ] {
                line(&section, name, value, 2);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timings() -> Timings {
        let (mut one, mut other) = (Timings::default(), Timings::default());
        one.record("READ", Duration::from_micros(10));
        other.record("READ", Duration::from_micros(30));
        other.record("READ-MODIFY-WRITE", Duration::from_micros(50));
        one.merge(&other);
        one
    }

    #[test]
    fn kinds_are_counted_separately_and_together() {
        let rates = Rates::new(&timings(), 0.5, None);
        assert_eq!((timings().count("READ"), timings().count("INSERT")), (2, 0));
        assert_eq!((rates.all.operations, rates.ops_per_s), (3, 6.0));
        let object = serde_json::to_value(&rates).unwrap();
        assert_eq!(object["by_operation"]["read_modify_write"]["operations"], 1);
        assert!((object["by_operation"]["read"]["mean_us"].as_f64().unwrap() - 20.0).abs() < 0.1);
        assert!(object["p999_us"].as_f64().unwrap() >= 50.0 && object.get("settled_ops_per_s").is_none());
    }

    #[test]
    fn the_summary_reads_like_ycsb() {
        let summary = Rates::new(&timings(), 0.5, Some(1.0)).summary();
        for line in [
            "[OVERALL], RunTime(ms), 500\n",
            "[OVERALL], Throughput(ops/sec), 6.0\n",
            "[OVERALL], SettledThroughput(ops/sec), 3.0\n",
            "[READ], Operations, 2\n",
            "[READ-MODIFY-WRITE], Operations, 1\n",
        ] {
            assert!(summary.contains(line), "{line}{summary}");
        }
    }
}
