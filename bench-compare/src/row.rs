//! What one phase of one store came to: a line of JSON.

use crate::meter::{Memory, Spent};
use serde::{Deserialize, Serialize};

/// What one phase of one store came to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Row {
    /// The table that it belongs to.
    pub table: String,
    /// The conditions under which it ran: the name of the table's group.
    pub group: String,
    /// Which of several equal runs.
    pub round: usize,
    /// The store.
    pub peer: String,
    /// Its version and options.
    pub options: String,
    /// The phase.
    pub phase: String,
    /// Why there are no figures, if there are none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<String>,
    /// How many keys there are.
    pub keys: u64,
    /// The length of every key, in bytes.
    pub key_size: usize,
    /// The length of every value, in bytes.
    pub value_size: usize,
    /// What the store's caches could hold, in bytes.
    pub cache_bytes: u64,
    /// The limit of its memory, page cache included, in bytes.
    pub limit_bytes: Option<u64>,
    /// The most that was used of it, in bytes.
    pub limit_peak_bytes: Option<u64>,
    /// Gets and puts, each key of a batch counted.
    pub operations: u64,
    /// Of these, puts.
    pub puts: u64,
    /// Operations a second, until the last had returned.
    pub ops_per_s: f64,
    /// Operations a second, until no background work was left; for phases that write.
    pub settled_ops_per_s: Option<f64>,
    /// Operations a second, until everything had reached the device as well.
    pub synced_ops_per_s: Option<f64>,
    /// Latencies of gets (of calls, where a call does several), in microseconds.
    pub gets: Quantiles,
    /// Latencies of puts (of transactions, where one has several), in microseconds.
    pub puts_us: Quantiles,
    /// CPU time of the whole process over the operations, settled, the bench's own work included, in microseconds.
    pub cpu_us_per_op: f64,
    /// Bytes that the process read from the device, over the operations.
    pub read_bytes_per_op: f64,
    /// Reads of the device over the operations, by whomever: right on a machine that does nothing else.
    pub device_reads_per_op: f64,
    /// Bytes that the process wrote over those that it was given, settled.
    pub write_amplification: Option<f64>,
    /// Bytes that the device wrote, by whomever, over those that the process was given, synced.
    pub device_write_amplification: Option<f64>,
    /// Bytes on the device over those of the records.
    pub space_amplification: f64,
    /// Heap and stacks, without what there was before the store was opened, in bytes.
    pub ram_bytes: u64,
    /// The same over the keys.
    pub ram_bytes_per_key: f64,
    /// What the store says of its memory, in bytes.
    pub told_ram_bytes: Option<u64>,
    /// The memory of the process.
    pub memory: Memory,
    /// How long it took to open the store, in seconds.
    pub open_seconds: f64,
    /// The load of the machine over the last minute when it ended.
    pub load_average: f64,
    /// All counts until the last operation had returned.
    pub spent: Spent,
    /// All counts until everything was settled and had reached the device.
    pub spent_synced: Spent,
    /// What else the store counts.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub details: Vec<(String, f64)>,
}

/// Latencies in microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Quantiles {
    /// Half took no longer.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1,000.
    pub p999: f64,
    /// None took longer.
    pub max: f64,
}
