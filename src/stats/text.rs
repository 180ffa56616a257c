//! Statistics as text: a table for people, and the format of Prometheus.

use super::{Latency, Stats, StoreKind};
use siltstone_device::{IoCount, Purpose};
use std::fmt::{self, Display, Formatter, Write};

/// Returns a number as text: an integer if it is whole or has at least six digits before the point, otherwise six
/// digits.
#[doc(hidden)]
pub fn number_as_text(value: f64) -> String {
    let before_the_point = value.abs().max(1.0).log10() as usize + 1;
    let decimals = if value.fract() == 0.0 { 0 } else { 6usize.saturating_sub(before_the_point) };
    format!("{value:.decimals$}")
}

/// A table: a line per count, then a line per purpose of the device's operations.
impl Display for Stats {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, value: &dyn Display| writeln!(to, "{name:<28} {:>16}", value.to_string());
        row("engine", &self.engine)?;
        self.add_shape(&mut row)?;
        row("records, all versions", &self.records)?;
        row("records in the last store", &self.merged_records)?;
        row("bytes on disk", &self.disk_bytes)?;
        row("bytes of memory", &self.ram.total_bytes())?;
        for (item, bytes) in self.ram.items() {
            row(&format!("  {item}"), bytes)?;
        }
        row("bytes of memory, peak", &self.ram_peak.total_bytes())?;
        if self.records > 0 {
            let per_record = self.ram.total_bytes() as f64 / self.records as f64;
            row("bytes of memory per record", &number_as_text(per_record))?;
        }
        row("gets (lifetime)", &self.usage.gets)?;
        row("  of missing keys", &self.usage.misses)?;
        row("puts (lifetime)", &self.usage.puts)?;
        row("deletes (lifetime)", &self.usage.deletes)?;
        row("milliseconds open (lifetime)", &self.usage.open_ms)?;
        row("bytes written (lifetime)", &self.usage.written_bytes)?;
        row("write amplification", &number_as_text(self.usage.write_amplification()))?;
        row("writes", &self.writes)?;
        row("bytes of keys and values", &self.user_bytes)?;
        row("delayed writes", &self.delayed_writes)?;
        row("  total milliseconds", &format!("{:.1}", self.delayed_ns as f64 / 1e6))?;
        row("records replayed", &self.replayed_records)?;
        row("truncated bytes of the log", &self.lost_tail_bytes)?;
        for (name, value) in &self.details {
            row(name, &number_as_text(*value))?;
        }
        for latency in self.latencies.iter().filter(|latency| latency.count() > 0) {
            row(&format!("{}, calls", latency.operation()), &latency.count())?;
            for (name, share) in [("50 %", 0.5), ("99 %", 0.99), ("99.9 %", 0.999)] {
                let us = latency.quantile_ns(share) as f64 / 1e3;
                row(&format!("  microseconds, {name}"), &format!("{us:.1}"))?;
            }
        }
        self.add_device(to)
    }
}

/// Writes a line of the table.
type Row<'a> = dyn FnMut(&str, &dyn Display) -> fmt::Result + 'a;

impl Stats {
    fn add_shape(&self, row: &mut Row<'_>) -> fmt::Result {
        let shape = &self.shape;
        let yes_or_no = |flag: bool| if flag { "yes" } else { "no" };
        if shape.format_version > 0 {
            row("format version", &shape.format_version)?;
            row("bytes per block", &shape.block_bytes)?;
        }
        row("bytes per key", &shape.fixed.map_or("any".to_owned(), |(key, _)| key.to_string()))?;
        row("bytes per value", &shape.fixed.map_or("any".to_owned(), |(_, value)| value.to_string()))?;
        row("values are compressed", &shape.compression)?;
        row("keys are hashes", &yes_or_no(shape.hashed_keys))?;
        row("records may expire", &yes_or_no(shape.expiring))?;
        for (name, value) in &self.settings {
            row(&format!("setting {name}"), value)?;
        }
        for StoreKind { store, index, filter, count } in &self.stores {
            row(&format!("{store} stores"), &format!("{count}, index {index}, filter {filter}"))?;
        }
        Ok(())
    }

    fn add_device(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let titles = ["device for", "reads", "bytes", "writes", "bytes", "syncs"];
        let mut line = |columns: [&dyn Display; 6]| {
            let [purpose, reads, read_bytes, writes, write_bytes, syncs] =
                columns.map(|column| column.to_string());
            writeln!(
                to,
                "{purpose:<10} {reads:>12} {read_bytes:>16} {writes:>12} {write_bytes:>16} {syncs:>8}"
            )
        };
        line(titles.each_ref().map(|title| title as &dyn Display))?;
        for purpose in Purpose::ALL {
            let IoCount { reads, read_bytes, writes, write_bytes, syncs, .. } = self.io.of(purpose);
            if reads + writes + syncs > 0 {
                line([&purpose.name(), &reads, &read_bytes, &writes, &write_bytes, &syncs])?;
            }
        }
        Ok(())
    }

    /// Returns the statistics in the text format of Prometheus: gauges, and counters since the database was created
    /// (gets, puts, deletes) or opened (the others). Each sample has the labels, such as the name of the database, and
    /// the engine.
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
        let help = format!("Values and counts of the engine; counts {OPENED}");
        metrics.family("detail", &help, "gauge", "name", self.details.iter().copied());
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
        stats.details.push(("occupancy", 0.9375));
        let mut counts = vec![0; crate::stats::LATENCY_BUCKETS];
        counts[crate::stats::latency_bucket(3_000)] = 7;
        stats.latencies.push(Latency::new("get", 21_000, counts));
        stats
    }

    #[test]
    fn numbers_have_six_digits() {
        for (value, text) in [
            (336.0, "336"),
            (16_331_228_070.175_44, "16331228070"),
            (47_891.101, "47891.1"),
            (25.821, "25.8210"),
        ] {
            assert_eq!(number_as_text(value), text);
        }
    }

    #[test]
    fn the_table_has_every_component_of_memory() {
        let table = some().to_string();
        for wanted in ["silt", "filters", "12345", "occupancy", "0.9375"] {
            assert!(table.contains(wanted), "{wanted}: {table}");
        }
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
        assert!(samples > 30 && text.contains(",item=\"filters\"} 12345\n"), "{text}");
    }
}
