//! The report of a benchmark: a line like db_bench's, and a JSON object.

use super::{Benchmark, Sample, Settings};
use crate::costs::Costs;
use crate::latencies::Latencies;
use serde::Serialize;
use siltstone::Stats;
use std::fmt::Write;
use std::time::Duration;

/// The report of a benchmark. Serialises to its JSON object.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The benchmark's name.
    pub benchmark: &'static str,
    /// Why it was skipped, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<&'static str>,
    /// The engine.
    pub engine: &'static str,
    /// The settings.
    #[serde(flatten)]
    pub settings: Settings,
    /// Completed operations.
    pub operations: u64,
    /// The time until the last operation returned.
    pub seconds: f64,
    /// Operations per second of that time.
    pub ops_per_s: f64,
    /// Microseconds per operation, as seen by one thread.
    pub micros_per_op: f64,
    /// Microseconds of CPU time per operation of the threads that execute them, including the kernel's and that of the
    /// benchmark itself, which makes keys and values and checks results, and without that of background work.
    pub cpu_micros_per_op: f64,
    /// Microseconds of CPU time of the whole process per operation, with that of background work until none is left,
    /// for benchmarks that write.
    pub process_cpu_micros_per_op: f64,
    /// Mebibytes of keys and values per second.
    pub mb_per_s: f64,
    /// The time including the background work that writes left behind, for benchmarks that write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_seconds: Option<f64>,
    /// Operations per second of the time including background work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_ops_per_s: Option<f64>,
    /// Keys looked up.
    #[serde(skip)]
    pub lookups: u64,
    /// Keys found, for benchmarks that look up keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<u64>,
    /// The median latency in microseconds; of a call, if a call does several operations.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The maximum.
    pub max_us: f64,
    /// The growth of the process's heap since before the database was opened, if it is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap_bytes: Option<u64>,
    /// Log records that were read when the database was opened, for opens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed_records: Option<u64>,
    /// The costs, and the contents at the end.
    #[serde(flatten)]
    pub costs: Costs,
    /// The most bytes of all files per byte of keys and values at the end, while records were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space_amplification_max: Option<f64>,
    /// The benchmark over time, if that was wanted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Sample>,
    /// The latencies.
    #[serde(skip)]
    pub latencies: Latencies,
    /// The statistics of the database at the end.
    #[serde(skip)]
    pub stats: Stats,
}

/// The raw measurements of the clock and of the database.
pub(super) struct Measured {
    pub work: super::worker::Work,
    pub seconds: f64,
    pub settled_seconds: Option<f64>,
    pub process_cpu: Duration,
    pub before: Stats,
    pub after: Stats,
    pub keys: u64,
    pub heap_bytes: Option<u64>,
    pub disk_bytes_max: Option<u64>,
    pub series: Vec<Sample>,
}

impl Report {
    pub(super) fn new(benchmark: Benchmark, settings: &Settings, measured: Measured) -> Report {
        let Measured {
            work,
            seconds,
            settled_seconds,
            process_cpu,
            before,
            after,
            keys,
            heap_bytes,
            disk_bytes_max,
            series,
        } = measured;
        let (operations, threads) = (work.operations, benchmark.threads(settings.threads));
        let lookups = if benchmark.looks_up() { operations - work.puts } else { 0 };
        let data_bytes = keys * (settings.key_size + settings.value_size) as u64;
        let per_s = |seconds: f64| operations as f64 / seconds.max(1e-9);
        let micros_per_op = |time: Duration| time.as_secs_f64() * 1e6 / operations.max(1) as f64;
        Report {
            benchmark: benchmark.name(),
            skipped: None,
            engine: after.engine,
            settings: settings.clone(),
            operations,
            seconds,
            ops_per_s: per_s(seconds),
            micros_per_op: seconds * 1e6 * threads as f64 / operations.max(1) as f64,
            cpu_micros_per_op: micros_per_op(work.cpu),
            process_cpu_micros_per_op: micros_per_op(process_cpu),
            mb_per_s: work.bytes as f64 / f64::from(1 << 20) / seconds.max(1e-9),
            settled_seconds,
            settled_ops_per_s: settled_seconds.map(per_s),
            lookups,
            found: (lookups > 0).then_some(work.found),
            p50_us: work.latencies.quantile_us(0.5),
            p99_us: work.latencies.quantile_us(0.99),
            p999_us: work.latencies.quantile_us(0.999),
            max_us: work.latencies.max_us(),
            heap_bytes,
            replayed_records: None,
            costs: Costs::new(&before, &after, keys, data_bytes, lookups),
            space_amplification_max: disk_bytes_max.map(|bytes| bytes as f64 / data_bytes.max(1) as f64),
            series,
            latencies: work.latencies,
            stats: after,
        }
    }

    /// Formats the line like db_bench.
    pub fn line(&self) -> String {
        if let Some(reason) = self.skipped {
            return format!("{:<12} : skipped ({reason})", self.benchmark);
        }
        let mut line = format!(
            "{:<12} : {:11.3} micros/op {:.0} ops/sec {:.3} seconds {} operations;",
            self.benchmark, self.micros_per_op, self.ops_per_s, self.seconds, self.operations
        );
        if self.mb_per_s > 0.0 {
            let _ = write!(line, " {:6.1} MB/s", self.mb_per_s);
        }
        if let Some(found) = self.found {
            let _ = write!(line, " ({found} of {} found)", self.lookups);
        }
        line
    }

    /// Formats a second line with what db_bench does not print.
    pub fn remarks(&self) -> String {
        let mut remarks = vec![];
        if let Some(settled) = self.settled_ops_per_s {
            remarks.push(format!("settled {settled:.0} ops/sec"));
        }
        if self.cpu_micros_per_op > 0.0 {
            remarks.push(format!(
                "CPU {:.2} micros/op of the callers, {:.2} of the process",
                self.cpu_micros_per_op, self.process_cpu_micros_per_op
            ));
        }
        remarks.extend(self.costs.describe_writes());
        if let Some(most) = self.space_amplification_max {
            remarks.push(format!(
                "{:.2} bytes on disk per byte, at most {most:.2}",
                self.costs.space_amplification
            ));
        }
        remarks.extend(self.costs.describe_reads());
        if let Some(replayed) = self.replayed_records {
            remarks.push(format!("{replayed} records replayed"));
        }
        if self.latencies.count() > 0 {
            let (p50, p99, p999) = (self.p50_us, self.p99_us, self.p999_us);
            remarks.push(format!("p50 {p50:.1}, p99 {p99:.1}, p99.9 {p999:.1} us"));
        }
        if let Some(heap_bytes) = self.heap_bytes {
            remarks.push(format!("heap {heap_bytes} B, account {} B", self.costs.ram_bytes));
        }
        remarks.push(self.costs.describe_ram());
        remarks.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::worker::Work;

    fn measured(operations: u64, found: u64) -> Measured {
        let mut work = Work { operations, found, bytes: 31 << 20, ..Work::default() };
        work.latencies.record(Duration::from_micros(2));
        let (before, after) = (Stats::default(), Stats::default());
        Measured {
            work,
            seconds: 0.5,
            settled_seconds: Some(1.0),
            process_cpu: Duration::ZERO,
            before,
            after,
            keys: 10,
            heap_bytes: None,
            disk_bytes_max: Some(1),
            series: Vec::new(),
        }
    }

    #[test]
    fn the_line_reads_like_db_bench() {
        let report = Report::new(Benchmark::ReadRandom, &Settings::default(), measured(100_000, 62_906));
        assert_eq!(
            report.line(),
            "readrandom   :       5.000 micros/op 200000 ops/sec 0.500 seconds 100000 operations;   62.0 MB/s (62906 of 100000 found)"
        );
    }

    #[test]
    fn the_time_of_an_operation_is_that_of_the_threads_that_ran() {
        let settings = Settings { threads: 4, ..Settings::default() };
        for (benchmark, expected) in [
            (Benchmark::ReadRandom, 4.0 * 5.0),
            (Benchmark::ReadSeq, 5.0),
            (Benchmark::Compact, 5.0),
            (Benchmark::Reopen, 5.0),
        ] {
            let report = Report::new(benchmark, &settings, measured(100_000, 0));
            assert!((report.micros_per_op - expected).abs() < 1e-9, "{}", report.line());
        }
    }

    #[test]
    fn the_object_has_the_common_fields() {
        let report = Report::new(Benchmark::ReadRandom, &Settings::default(), measured(10, 10));
        let object = serde_json::to_value(report).unwrap();
        for field in [
            "benchmark",
            "ops_per_s",
            "cpu_micros_per_op",
            "process_cpu_micros_per_op",
            "p50_us",
            "p99_us",
            "p999_us",
            "ram_bytes_per_key",
            "ram_bytes_per_key_max",
            "ram_account",
            "reads_per_get",
            "read_bytes_per_get",
            "space_amplification",
            "space_amplification_max",
            "delayed_ns",
            "settled_ops_per_s",
        ] {
            assert!(object.get(field).is_some(), "{field}");
        }
    }
}
