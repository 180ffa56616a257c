//! Statistics in the text format of Prometheus, version 0.0.4:
//!
//! ```text
//! # HELP siltstone_store_records Records by kind of store.
//! # TYPE siltstone_store_records gauge
//! siltstone_store_records{database="a",engine="silt",store="log"} 12
//! siltstone_store_records{database="a",engine="silt",store="hash"} 340
//! ```

mod details;

use super::{Latency, Stats};
use details::{DETAILS, Detail, OTHER};
use siltstone_device::{IoCount, Purpose};
use std::fmt::Write;

impl Stats {
    /// Returns the statistics in the text format of Prometheus: gauges, and counters, whose names end with `_total`,
    /// since the database was created (gets, puts, deletes) or opened (the others). Each sample has the labels, such as
    /// the name of the database, and the engine. What only an engine counts has metrics of its own.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// let text = database.stats().to_prometheus(&[("database", "chunks")]);
    /// assert!(text.contains("siltstone_puts_total{database=\"chunks\",engine=\"silt\"} 0\n"));
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn to_prometheus(&self, labels: &[(&str, &str)]) -> String {
        let mut metrics = Metrics { text: String::new(), labels: labels.to_vec() };
        metrics.labels.push(("engine", self.engine));
        for (name, help, value) in [
            ("records", "Records in all stores, with older versions that are not merged yet", self.records),
            ("merged_records", "Records in the last stores", self.merged_records),
            ("disk_bytes", "Bytes of all files of the database", self.disk_bytes),
            ("degraded_stores", "Stores with parts that do not fit into memory", self.degraded.len() as u64),
        ] {
            metrics.single(name, help, "gauge", value as f64);
        }
        for (name, what, since, value) in [
            ("gets_total", "Lookups of keys", CREATED, self.usage.gets),
            ("misses_total", "Lookups of keys that were absent", CREATED, self.usage.misses),
            ("puts_total", "Puts", CREATED, self.usage.puts),
            ("deletes_total", "Deletes", CREATED, self.usage.deletes),
            ("writes_total", "Puts and deletes", OPENED, self.writes),
            ("user_bytes_total", "Bytes of keys and values in these writes", OPENED, self.user_bytes),
            ("delayed_writes_total", "Writes that background work delayed", OPENED, self.delayed_writes),
        ] {
            metrics.single(name, &format!("{what}, {since}"), "counter", value as f64);
        }
        let help = format!("The sum of the delays of writes, {OPENED}");
        metrics.single("write_delay_seconds_total", &help, "counter", self.delayed_ns as f64 / 1e9);
        for (name, help, account) in [
            ("ram_bytes", "Memory by item", &self.ram),
            (
                "ram_peak_bytes",
                "The peak of memory by item, since it was opened or the peak was reset",
                &self.ram_peak,
            ),
        ] {
            let items = account.items().iter().map(|(item, bytes)| (*item, *bytes as f64));
            metrics.family(name, help, "gauge", "item", items);
        }
        let counts: [(&str, &str, CountOf); 5] = [
            ("device_reads_total", "Reads", |count| count.reads),
            ("device_read_bytes_total", "Bytes read", |count| count.read_bytes),
            ("device_writes_total", "Writes", |count| count.writes),
            ("device_write_bytes_total", "Bytes written", |count| count.write_bytes),
            ("device_syncs_total", "Syncs", |count| count.syncs),
        ];
        for (name, what, count) in counts {
            let of = |purpose: Purpose| (purpose.name(), count(&self.io.of(purpose)) as f64);
            let help = format!("{what} of the device by purpose, {OPENED}");
            metrics.family(name, &help, "counter", "purpose", Purpose::ALL.into_iter().map(of));
        }
        metrics.histograms(&self.latencies);
        metrics.details(&self.details);
        metrics.text
    }
}

/// The life times of counters.
const CREATED: &str = "since the database was created";
const OPENED: &str = "since the database was opened";

/// One of the counts of a purpose.
type CountOf = fn(&IoCount) -> u64;

/// Metrics in the text format.
struct Metrics<'a> {
    text: String,
    labels: Vec<(&'a str, &'a str)>,
}

impl Metrics<'_> {
    fn single(&mut self, name: &str, help: &str, kind: &str, value: f64) {
        self.begin(name, help, kind);
        self.sample(name, None, value);
    }

    /// Adds a metric with a further label, a sample per value of the label.
    fn family<'v>(
        &mut self,
        name: &str,
        help: &str,
        kind: &str,
        label: &str,
        samples: impl Iterator<Item = (&'v str, f64)>,
    ) {
        self.begin(name, help, kind);
        samples.for_each(|(value_of_label, value)| self.sample(name, Some((label, value_of_label)), value));
    }

    /// Adds what only an engine counts. The samples of a metric follow each other, in whatever order the details are.
    fn details(&mut self, details: &[(&'static str, f64)]) {
        let value_of = |name: &str| details.iter().find(|(found, _)| *found == name).map(|(_, value)| *value);
        for group in DETAILS.chunk_by(|one, next| one.metric == next.metric) {
            let found = group.iter().filter_map(|detail| Some((detail, value_of(detail.name)?)));
            let found: Vec<(&Detail, f64)> = found.collect();
            let Some((Detail { metric, help, .. }, _)) = found.first() else { continue };
            match metric.ends_with("_total") {
                true => self.begin(metric, &format!("{help}, {OPENED}"), "counter"),
                false => self.begin(metric, help, "gauge"),
            }
            found.iter().for_each(|(detail, value)| self.sample(metric, detail.label, *value));
        }
        let is_known = |name: &str| DETAILS.iter().any(|detail| detail.name == name);
        let mut others = details.iter().copied().filter(|(name, _)| !is_known(name)).peekable();
        if others.peek().is_some() {
            self.family(OTHER, "Values of an engine of another crate, by name", "gauge", "name", others);
        }
    }

    /// Adds the times of operations, with a bucket per power of two from 2^10 ns to 2^36 ns.
    fn histograms(&mut self, latencies: &[Latency]) {
        let name = "operation_seconds";
        if !latencies.is_empty() {
            self.begin(name, &format!("The times of operations, {OPENED}"), "histogram");
        }
        for latency in latencies {
            self.labels.push(("operation", latency.operation()));
            for power_log2 in 10..=36 {
                let seconds = ((1u64 << power_log2) as f64 / 1e9).to_string();
                let count = latency.count_below(power_log2) as f64;
                self.sample(&format!("{name}_bucket"), Some(("le", &seconds)), count);
            }
            let count = latency.count() as f64;
            self.sample(&format!("{name}_bucket"), Some(("le", "+Inf")), count);
            self.sample(&format!("{name}_sum"), None, latency.sum_ns() as f64 / 1e9);
            self.sample(&format!("{name}_count"), None, count);
            self.labels.pop();
        }
    }

    fn begin(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP siltstone_{name} {help}.\n# TYPE siltstone_{name} {kind}");
    }

    fn sample(&mut self, name: &str, label: Option<(&str, &str)>, value: f64) {
        let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels = self.labels.iter().copied().chain(label);
        let labels: Vec<String> =
            labels.map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let _ = writeln!(self.text, "siltstone_{name}{{{}}} {value}", labels.join(","));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Stats {
        let mut stats = Stats { engine: "silt", ..Stats::default() };
        stats.ram.add("filters", 12_345);
        // Not in the order of the metrics.
        for name in ["hash_records", "merges", "occupancy", "log_records", "conversions"] {
            stats.details.push((name, 0.9375));
        }
        let mut counts = vec![0; crate::stats::LATENCY_BUCKETS];
        counts[crate::stats::latency_bucket(3_000)] = 7;
        stats.latencies.push(Latency::new("get", 21_000, counts));
        stats
    }

    #[test]
    fn every_sample_belongs_to_the_metric_that_was_declared_before_it() {
        let text = some().to_prometheus(&[("path", "a \"b\"\\\n")]);
        let (mut declared, mut samples, mut helped) = (Vec::new(), 0, "");
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                helped = help.split_once(' ').unwrap().0;
                let is_counter = helped.ends_with("_total");
                assert!(!is_counter || line.ends_with(" created.") || line.ends_with(" opened."), "{line}");
                continue;
            }
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(!declared.contains(&name), "{name} is declared once");
                assert_eq!(helped, name);
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                declared.push(name);
                continue;
            }
            let (name, rest) = line.split_once('{').unwrap();
            let of_histogram =
                ["_bucket", "_sum", "_count"].into_iter().find_map(|end| name.strip_suffix(end));
            assert!(declared.last() == Some(&name) || declared.last().copied() == of_histogram, "{line}");
            assert!(rest.starts_with("path=\"a \\\"b\\\"\\\\\\n\",engine=\"silt\""), "{line}");
            let (_, value) = rest.rsplit_once("} ").unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            samples += 1;
        }
        for wanted in
            ["le=\"0.000002048\"} 0\n", "le=\"0.000004096\"} 7\n", "le=\"+Inf\"} 7\n", "} 0.000021\n"]
        {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        for wanted in ["store_records{", "background_jobs_total{", "engine_value{"] {
            assert!(text.contains(&format!("\nsiltstone_{wanted}path=")), "{wanted}: {text}");
        }
        assert!(samples > 30 && text.contains(",item=\"filters\"} 12345\n"), "{text}");
    }
}
