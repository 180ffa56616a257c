//! The metrics of each phase.

use crate::compare::phase::{Phase, Work};
use crate::compare::row::Row;

/// A metric of a row, its name and its format.
pub struct Metric {
    pub name: &'static str,
    pub of: fn(&Row) -> Option<f64>,
    pub show: fn(f64) -> String,
}

/// Formats integers, with commas between thousands.
pub fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn two(value: f64) -> String {
    format!("{value:.2}")
}

fn one(value: f64) -> String {
    format!("{value:.1}")
}

fn milliseconds(us: f64) -> String {
    format!("{:.2} ms", us / 1e3)
}

pub const OPS_PER_S: Metric = Metric { name: "ops/s", of: |row| Some(row.ops_per_s), show: whole };
const PUTS_PER_S: Metric =
    Metric { name: "puts/s", of: |row| Some(row.puts as f64 / row.spent.seconds), show: whole };
pub const SETTLED: Metric = Metric { name: "settled", of: |row| row.settled_ops_per_s, show: whole };
pub const WRITE_AMPLIFICATION: Metric = Metric { name: "WA", of: |row| row.write_amplification, show: two };
const SYNCED: Metric = Metric { name: "on the device", of: |row| row.synced_ops_per_s, show: whole };
const DEVICE_WRITES: Metric =
    Metric { name: "WA of the device", of: |row| row.device_write_amplification, show: two };
/// The most space during the phase.
const SPACE_MAX: Metric = Metric { name: "most space", of: |row| row.space_amplification_max, show: two };
pub const SPACE: Metric = Metric { name: "space", of: |row| Some(row.space_amplification), show: two };
const CPU: Metric = Metric { name: "CPU, µs", of: |row| Some(row.cpu_us_per_op), show: two };
const READ_BYTES: Metric = Metric { name: "B read", of: |row| Some(row.read_bytes_per_op), show: whole };
const READS: Metric = Metric { name: "device reads", of: |row| Some(row.device_reads_per_op), show: two };
pub const GET_P50: Metric = Metric { name: "p50, µs", of: |row| Some(row.gets.p50), show: one };
const GETS_PER_S: Metric =
    Metric { name: "gets/s", of: |row| Some(gets(row) / row.spent.seconds), show: whole };
/// Bytes that the process read from the device, background work included, per byte that gets returned.
pub const READ_AMPLIFICATION: Metric = Metric {
    name: "RA",
    of: |row| {
        let returned = gets(row) * (row.key_size + row.value_size) as f64;
        (returned > 0.0).then(|| row.spent.read_bytes as f64 / returned)
    },
    show: two,
};
/// The mean latency of gets.
pub const GET_MEAN: Metric = Metric { name: "mean of gets, µs", of: |row| Some(row.gets.mean), show: one };
/// The tail of gets.
pub const GET_P9999: Metric =
    Metric { name: "p99.99 of gets", of: |row| Some(row.gets.p9999), show: milliseconds };
const GET_P99: Metric = Metric { name: "p99 of gets", of: |row| Some(row.gets.p99), show: milliseconds };
const GET_P999: Metric = Metric { name: "p99.9 of gets", of: |row| Some(row.gets.p999), show: milliseconds };
const PUT_P999: Metric =
    Metric { name: "p99.9 of puts", of: |row| row.puts_us.map(|puts| puts.p999), show: milliseconds };
/// Heap and stacks.
pub const RAM: Metric = Metric { name: "heap, B per key", of: |row| Some(row.ram_bytes_per_key), show: two };
/// The peak usage of the memory limit.
const PEAK: Metric = Metric {
    name: "with page cache, B per key",
    of: |row| row.limit_peak_bytes.map(|bytes| bytes as f64 / row.keys as f64),
    show: two,
};
const REPORTED_RAM: Metric = Metric {
    name: "as reported, B per key",
    of: |row| row.reported_ram_bytes.map(|bytes| bytes as f64 / row.keys as f64),
    show: two,
};

/// Returns the number of gets.
fn gets(row: &Row) -> f64 {
    (row.operations - row.puts.min(row.operations)) as f64
}

/// Returns the metrics of a phase; `from_device` if it reads from the device.
pub fn of(phase: &str, from_device: bool) -> Vec<&'static Metric> {
    let Ok(phase) = phase.parse::<Phase>() else { return vec![] };
    match phase.work {
        Work::Load | Work::Overwrite(_) => vec![
            &OPS_PER_S,
            &SETTLED,
            &SYNCED,
            &WRITE_AMPLIFICATION,
            &DEVICE_WRITES,
            &SPACE,
            &SPACE_MAX,
            &CPU,
            &PUT_P999,
            &RAM,
            &REPORTED_RAM,
        ],
        Work::Mixed(_) | Work::Ycsb(_) => vec![
            &OPS_PER_S,
            &SETTLED,
            &WRITE_AMPLIFICATION,
            &CPU,
            &GET_P50,
            &GET_P99,
            &GET_P999,
            &GET_P9999,
            &PUT_P999,
        ],
        Work::ReadWhileWriting(_) => vec![
            &GETS_PER_S,
            &PUTS_PER_S,
            &GET_MEAN,
            &GET_P50,
            &GET_P99,
            &GET_P999,
            &GET_P9999,
            &WRITE_AMPLIFICATION,
            &READ_AMPLIFICATION,
            &CPU,
        ],
        Work::Read if from_device => {
            vec![&OPS_PER_S, &READS, &READ_BYTES, &CPU, &GET_P999, &RAM, &REPORTED_RAM, &PEAK]
        }
        Work::MultiGet | Work::Miss if from_device => vec![&OPS_PER_S, &READS, &READ_BYTES, &CPU],
        Work::Read => vec![&OPS_PER_S, &READ_BYTES, &CPU, &GET_P50, &GET_P999, &GET_P9999],
        Work::MultiGet | Work::Miss => vec![&OPS_PER_S, &CPU, &GET_P50],
        Work::Raw => vec![&OPS_PER_S],
    }
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn thousands_are_separated() {
        for (value, text) in [(0.4, "0"), (999.0, "999"), (1000.0, "1,000"), (1234567.8, "1,234,568")] {
            assert_eq!(whole(value), text);
        }
    }
}
