//! The result of one phase of one store: a line of JSON.

use crate::compare::meter::{Memory, Spent};
use serde::{Deserialize, Serialize};

/// The result of one phase of one store.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Row {
    /// The table that it belongs to.
    pub table: String,
    /// The name of the table's group, which determines the conditions.
    pub group: String,
    /// The number of the run among equal runs.
    pub round: usize,
    /// The store.
    pub peer: String,
    /// The store's version and options.
    pub options: String,
    /// The phase.
    pub phase: String,
    /// Why there are no results, if there are none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<String>,
    /// The number of keys.
    pub keys: u64,
    /// The length of every key, in bytes.
    pub key_size: usize,
    /// The length of every value, in bytes.
    pub value_size: usize,
    /// The size of the store's caches, in bytes.
    pub cache_bytes: u64,
    /// The limit of its memory, page cache included, in bytes.
    pub limit_bytes: Option<u64>,
    /// The peak usage of this limit, in bytes.
    pub limit_peak_bytes: Option<u64>,
    /// Gets and puts; each key of a batch counts.
    pub operations: u64,
    /// The number of puts among them.
    pub puts: u64,
    /// Operations per second, until the last one had returned.
    pub ops_per_s: f64,
    /// Operations per second, until no background work was left; for phases that write.
    pub settled_ops_per_s: Option<f64>,
    /// Operations per second, until everything had reached the device as well.
    pub synced_ops_per_s: Option<f64>,
    /// Latencies of gets, in microseconds; of calls, if a call has several gets.
    pub gets: Quantiles,
    /// Latencies of puts, in microseconds; none if all were in transactions of several puts.
    #[serde(default)]
    pub puts_us: Option<Quantiles>,
    /// CPU time of the whole process per operation, settled, including the benchmark's own work, in microseconds.
    pub cpu_us_per_op: f64,
    /// Bytes that the process read from the device, per operation.
    pub read_bytes_per_op: f64,
    /// Reads of the device per operation, by all processes: correct on an otherwise idle machine.
    pub device_reads_per_op: f64,
    /// Bytes that the process wrote per byte that was put, settled.
    pub write_amplification: Option<f64>,
    /// Bytes that the device wrote, for all processes, per byte that was put, synced.
    pub device_write_amplification: Option<f64>,
    /// Bytes on the device per byte of the records.
    pub space_amplification: f64,
    /// The largest of these during a phase that writes, sampled ten times per second.
    pub space_amplification_max: Option<f64>,
    /// The space that the store had to keep to, if one was given.
    pub space_given: Option<f64>,
    /// Heap and stacks, without what was in use before the store was opened, in bytes.
    pub ram_bytes: u64,
    /// The same per key.
    pub ram_bytes_per_key: f64,
    /// The memory that the store reports, in bytes.
    pub reported_ram_bytes: Option<u64>,
    /// The memory of the process.
    pub memory: Memory,
    /// The time to open the store, in seconds.
    pub open_seconds: f64,
    /// The load average of the machine over the last minute, at the end.
    pub load_average: f64,
    /// All counts until the last operation had returned.
    pub spent: Spent,
    /// All counts until everything was settled and had reached the device.
    pub spent_synced: Spent,
    /// Further counters of the store.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub details: Vec<(String, f64)>,
}

/// Latencies in microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Quantiles {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The 99.99th percentile.
    pub p9999: f64,
    /// The 99.999th percentile.
    #[serde(default)]
    pub p99999: f64,
    /// The maximum.
    pub max: f64,
}
