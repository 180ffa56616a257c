//! Statistics: memory, I/O and counters of a database.

#[cfg(feature = "json")]
pub mod json;
mod latency;
mod prometheus;
mod text;

pub use latency::Latency;
pub(crate) use latency::{BUCKETS as LATENCY_BUCKETS, bucket_of as latency_bucket};
#[doc(hidden)]
pub use text::number_as_text;

use crate::compression::Compression;
use siltstone_device::IoSnapshot;

/// Memory by item, in bytes: the memory account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RamAccount {
    items: Vec<(&'static str, u64)>,
}

impl RamAccount {
    /// Adds bytes to an item.
    #[doc(hidden)]
    pub fn add(&mut self, item: &'static str, bytes: u64) {
        match self.items.iter_mut().find(|(name, _)| *name == item) {
            Some((_, sum)) => *sum += bytes,
            None => self.items.push((item, bytes)),
        }
    }

    /// Returns the items with their bytes.
    pub fn items(&self) -> &[(&'static str, u64)] {
        &self.items
    }

    /// Returns the sum of all items, in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.items.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// What the records of a database have in common; fixed when it is created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shape {
    /// The lengths of all keys and all values, in bytes, if they are fixed.
    pub fixed: Option<(usize, usize)>,
    /// Whether keys are hashes already.
    pub hashed_keys: bool,
    /// Whether records of fixed sizes have space for an expiry time.
    pub expiring: bool,
    /// The number of partitions.
    pub partitions: u32,
    /// The size of a block on flash, in bytes; 0 if everything is in memory.
    pub block_bytes: u32,
    /// How values are compressed.
    pub compression: Compression,
    /// The version of the format on disk; 0 if everything is in memory.
    pub format_version: u32,
}

/// The number of stores with the same structures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreKind {
    /// The role of the stores: `hash`, `sorted` or `chain`.
    pub store: &'static str,
    /// The index of the stores.
    pub index: &'static str,
    /// The filter of the stores, or `none`.
    pub filter: &'static str,
    /// The number of stores.
    pub count: u64,
}

/// A store whose index or filter is on flash although it could be in memory: lookups in it take more reads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DegradedStore {
    /// The name of its file.
    pub file: String,
    /// Whether the index is on flash: a lookup takes one or more additional reads.
    pub index_on_flash: bool,
    /// Whether the filter is on flash: an absent key costs a read.
    pub filter_on_flash: bool,
}

/// The requests to a database since it was created.
///
/// Stored in the file `USAGE` when the database is closed, and about once per minute if it has worker threads. A crash
/// loses what was counted since. Periods in which the database was open but not used do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The time during which the database was open, in milliseconds.
    pub open_ms: u64,
    /// The number of keys looked up, including those of updates.
    pub gets: u64,
    /// The number of these keys that were absent.
    pub misses: u64,
    /// The number of records put.
    pub puts: u64,
    /// The number of keys deleted, including absent ones.
    pub deletes: u64,
    /// The bytes of the keys put.
    pub key_bytes: u64,
    /// The bytes of the values put.
    pub value_bytes: u64,
    /// The bytes written to the device, for all purposes.
    pub written_bytes: u64,
    /// The number of keys at the last count, by [`len`](crate::Database::len). Keys are counted
    /// when the file is written after puts and deletes of more than a hundredth of the keys.
    pub records: u64,
    /// The number of puts and deletes before the last count.
    #[doc(hidden)]
    pub counted_writes: u64,
    /// When the file was last written, in milliseconds since the Unix epoch.
    #[doc(hidden)]
    pub saved_at_ms: u64,
}

impl Usage {
    /// Returns the bytes written to the device per byte of keys and values put, since the database was created.
    #[doc(hidden)]
    pub fn write_amplification(&self) -> f64 {
        self.written_bytes as f64 / (self.key_bytes + self.value_bytes).max(1) as f64
    }
}

/// The content, the work and the cost of a database. Amplifications are quotients of these counts.
///
/// With the feature `serde` it can be serialized, with the names of `Stats::to_json`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The name of the engine.
    pub engine: &'static str,
    /// What the records have in common.
    pub shape: Shape,
    /// The settings of the engine, by name.
    pub settings: Vec<(&'static str, String)>,
    /// The structures of the stores.
    pub stores: Vec<StoreKind>,
    /// The number of records in all stores; keys that were overwritten or deleted and not yet merged count several
    /// times.
    pub records: u64,
    /// The number of records in the SortedStores.
    pub merged_records: u64,
    /// The number of writes since the database was opened.
    pub writes: u64,
    /// The bytes of keys and values in these writes.
    pub user_bytes: u64,
    /// Operations and bytes on the device since the database was opened.
    pub io: IoSnapshot,
    /// The present memory by item.
    pub ram: RamAccount,
    /// The peak of the memory since the database was opened or [reset](crate::Database::reset_ram_peak).
    pub ram_peak: RamAccount,
    /// The bytes of all files of the database.
    pub disk_bytes: u64,
    /// The number of writes that were delayed by background work.
    pub delayed_writes: u64,
    /// The sum of these delays, in nanoseconds.
    pub delayed_ns: u64,
    /// The number of records of the log that were replayed when the database was opened.
    pub replayed_records: u64,
    /// The bytes at the end of the log that were incomplete and were truncated when the database was opened.
    pub lost_tail_bytes: u64,
    /// Stores with parts on flash because of the memory budget, or because they cannot be read. Parts that an open
    /// has not read yet do not count; a read-only database reads them with its first gets.
    pub degraded: Vec<DegradedStore>,
    /// The requests to the database, since it was created.
    pub usage: Usage,
    /// The times that operations took since the database was opened; empty without
    /// [`Builder::latencies`](crate::Builder::latencies).
    pub latencies: Vec<Latency>,
    /// Further counters of the engine, by name.
    pub details: Vec<(&'static str, f64)>,
}

impl Stats {
    /// Returns the bytes written to the device per byte that the user wrote.
    pub fn write_amplification(&self) -> f64 {
        self.io.total().write_bytes as f64 / self.user_bytes.max(1) as f64
    }
}
