//! Statistics as a table for people.

use super::{Stats, StoreKind};
use siltstone_device::{IoCount, Purpose};
use std::fmt::{self, Display, Formatter};

/// Returns a number as text: an integer if it is whole or has at least six digits before the point, otherwise six
/// digits.
#[doc(hidden)]
pub fn number_as_text(value: f64) -> String {
    let after_the_first = value.abs().max(1.0).log10() as usize;
    let decimals = if value.fract() == 0.0 { 0 } else { 5usize.saturating_sub(after_the_first) };
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Latency;

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
}
