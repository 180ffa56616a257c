//! The costs of operations: the counters of a database as the quotients that all reports share.

use crate::accounts;
use serde::Serialize;
use serde_json::Value;
use siltstone::Stats;
use siltstone_device::Purpose;
use std::fmt::Write;

/// The costs of operations, and the contents of the database after them. Serialises with the common field names.
#[derive(Debug, Clone, Serialize)]
pub struct Costs {
    /// Keys in the database at the end.
    pub keys: u64,
    /// Memory at the end, in bytes.
    pub ram_bytes: u64,
    /// The peak of memory since the last reset, in bytes.
    pub ram_bytes_max: u64,
    /// Memory at the end, per key.
    pub ram_bytes_per_key: f64,
    /// The peak of memory, per key at the end.
    pub ram_bytes_per_key_max: f64,
    /// Memory at its peak, by component, in bytes.
    pub ram_account: Value,
    /// Device reads per key looked up: of records, and of pages of an index that is on flash. Those of background work
    /// in the same time count as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_per_get: Option<f64>,
    /// Bytes read from the device per key looked up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_get: Option<f64>,
    /// Bytes written to the device per byte written by the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<f64>,
    /// Bytes on disk per byte of keys and values.
    pub space_amplification: f64,
    /// Bytes of all files.
    pub disk_bytes: u64,
    /// Writes that had to wait for background work.
    pub delayed_writes: u64,
    /// Their total delay, in nanoseconds.
    pub delayed_ns: u64,
    /// Operations and bytes on the device, by purpose.
    pub io: Value,
    /// The engine's other counters.
    pub details: Value,
}

impl Costs {
    /// Computes the costs from the statistics before and after, the current number of keys, the bytes of their keys and
    /// values, and the number of keys looked up.
    pub fn new(before: &Stats, after: &Stats, keys: u64, data_bytes: u64, lookups: u64) -> Costs {
        let io = after.io - before.io;
        let user_bytes = after.user_bytes.saturating_sub(before.user_bytes);
        let per_key = |bytes: u64| bytes as f64 / keys.max(1) as f64;
        let per_lookup = |count: u64| (lookups > 0).then(|| count as f64 / lookups as f64);
        Costs {
            keys,
            ram_bytes: after.ram.total_bytes(),
            ram_bytes_max: after.ram_peak.total_bytes(),
            ram_bytes_per_key: per_key(after.ram.total_bytes()),
            ram_bytes_per_key_max: per_key(after.ram_peak.total_bytes()),
            ram_account: accounts::ram(&after.ram_peak),
            reads_per_get: per_lookup(io.of(Purpose::Get).reads),
            read_bytes_per_get: per_lookup(io.of(Purpose::Get).read_bytes),
            write_amplification: (user_bytes > 0).then(|| io.total().write_bytes as f64 / user_bytes as f64),
            space_amplification: after.disk_bytes as f64 / data_bytes.max(1) as f64,
            disk_bytes: after.disk_bytes,
            delayed_writes: after.delayed_writes.saturating_sub(before.delayed_writes),
            delayed_ns: after.delayed_ns.saturating_sub(before.delayed_ns),
            io: accounts::io(&io),
            details: accounts::details(after),
        }
    }

    /// Formats the reads per lookup, if keys were looked up.
    pub fn describe_reads(&self) -> Option<String> {
        let (reads, bytes) = (self.reads_per_get?, self.read_bytes_per_get?);
        Some(format!("{reads:.4} reads and {bytes:.0} bytes per get"))
    }

    /// Formats the write amplification, if something was written.
    pub fn describe_writes(&self) -> Option<String> {
        Some(format!("{:.2} bytes written per byte", self.write_amplification?))
    }

    /// Formats all figures like YCSB's summaries: one per line, with its section in brackets.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for (name, value) in [
            ("Keys", Some(self.keys as f64)),
            ("RAM(bytes/key)", Some(self.ram_bytes_per_key)),
            ("PeakRAM(bytes/key)", Some(self.ram_bytes_per_key_max)),
            ("Reads/Get", self.reads_per_get),
            ("ReadBytes/Get", self.read_bytes_per_get),
            ("WriteAmplification", self.write_amplification),
            ("SpaceAmplification", Some(self.space_amplification)),
            ("Disk(bytes)", Some(self.disk_bytes as f64)),
        ] {
            if let Some(value) = value {
                let digits = if value.fract() == 0.0 { 0 } else { 4 };
                // Writing to a string cannot fail.
                let _ = writeln!(text, "[STORE], {name}, {value:.digits$}");
            }
        }
        text
    }

    /// Formats the memory.
    pub fn describe_ram(&self) -> String {
        let (now, most) = (self.ram_bytes_per_key, self.ram_bytes_per_key_max);
        format!("RAM {now:.3} B per key, at most {most:.3} ({} keys)", self.keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_without_operations_are_left_out() {
        let (mut before, mut after) = (Stats::default(), Stats::default());
        (before.user_bytes, after.user_bytes) = (7, 7);
        after.disk_bytes = 50;
        let costs = Costs::new(&before, &after, 0, 25, 0);
        assert_eq!((costs.reads_per_get, costs.write_amplification), (None, None));
        assert_eq!((costs.space_amplification, costs.ram_bytes_per_key), (2.0, 0.0));
        assert_eq!((costs.describe_reads(), costs.describe_writes()), (None, None));
        assert!(costs.summary().contains("[STORE], SpaceAmplification, 2\n"));
        assert!(!costs.summary().contains("Get"));
    }

    #[test]
    fn only_what_came_in_between_counts() {
        let (mut before, mut after) = (Stats::default(), Stats::default());
        (before.delayed_ns, after.delayed_ns) = (5, 12);
        (before.user_bytes, after.user_bytes) = (7, 9);
        after.ram_peak.add("index", 30);
        let costs = Costs::new(&before, &after, 10, 100, 4);
        assert_eq!((costs.delayed_ns, costs.ram_bytes_per_key_max), (7, 3.0));
        assert_eq!((costs.reads_per_get, costs.write_amplification), (Some(0.0), Some(0.0)));
    }
}
