//! The accounts, as users read them.

use crate::device::IoSnapshot;
use crate::key::{KeyHasher, check_key};
use crate::{Error, Result};

/// Memory by item, in bytes: the first of the three accounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RamAccount {
    items: Vec<(&'static str, u64)>,
}

impl RamAccount {
    /// Adds bytes to an item.
    pub fn add(&mut self, item: &'static str, bytes: u64) {
        match self.items.iter_mut().find(|(name, _)| *name == item) {
            Some((_, sum)) => *sum += bytes,
            None => self.items.push((item, bytes)),
        }
    }

    /// The items with their bytes.
    pub fn items(&self) -> &[(&'static str, u64)] {
        &self.items
    }

    /// All items together, in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.items.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// What shapes the records of a database; fixed when it is created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shape {
    /// The lengths of all keys and all values, in bytes, if they are fixed.
    pub fixed: Option<(usize, usize)>,
    /// The keys are hashes already.
    pub hashed_keys: bool,
    /// Records have room for an expiry time.
    pub expiring: bool,
    /// The number of partitions.
    pub partitions: u32,
    /// The size of a block on flash, in bytes; 0 if everything is in memory.
    pub block_bytes: u32,
    /// The version of the format on disk; 0 if everything is in memory.
    pub format_version: u32,
}

impl Shape {
    /// Checks that a key can be in the database: those that are read are checked as those that are written.
    pub(crate) fn check_key(&self, key: &[u8]) -> Result<()> {
        check_key(key)?;
        match self.fixed {
            Some((expected, _)) if expected != key.len() => {
                Err(Error::RecordSize { what: "key", expected, got: key.len() })
            }
            _ if self.hashed_keys => KeyHasher::Identity.check_key(key),
            _ => Ok(()),
        }
    }
}

/// How many stores have the same structures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreKind {
    /// Which stores: `hash` or `sorted`.
    pub store: &'static str,
    /// Their index.
    pub index: &'static str,
    /// Their filter, or `none`.
    pub filter: &'static str,
    /// How many.
    pub count: u64,
}

/// A store of which parts are on flash that could be in memory: lookups in it cost more reads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DegradedStore {
    /// Its file.
    pub file: String,
    /// Records are searched for on flash: one read more, or some.
    pub index_on_flash: bool,
    /// Keys that are not there cost a read too.
    pub filter_on_flash: bool,
}

/// What was asked of a database since it was created: what its user did, whatever it cost.
///
/// It is kept in the file `USAGE` when the database is closed, and about once a minute where it has worker threads.
/// After a crash what was counted since is lost; openings in which nothing was asked do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// How long the database was open, in milliseconds.
    pub open_ms: u64,
    /// Keys that were looked up, also by updates.
    pub gets: u64,
    /// Those of them that were not there.
    pub misses: u64,
    /// Records that were put.
    pub puts: u64,
    /// Keys that were deleted, also if they were not there.
    pub deletes: u64,
    /// The bytes of the keys that were put.
    pub key_bytes: u64,
    /// The bytes of the values that were put.
    pub value_bytes: u64,
    /// Bytes that were written to the device, for whatever purpose.
    pub written_bytes: u64,
    /// How many keys there were when they were counted last, as [`approximate_len`](crate::Database::approximate_len)
    /// does: when the file was written after puts and deletes of more than a hundredth of the keys.
    pub records: u64,
    /// The puts and deletes until they were counted last.
    pub counted_writes: u64,
    /// When this was last written to the file, in milliseconds since the Unix epoch.
    pub saved_at_ms: u64,
}

impl Usage {
    /// Bytes written to the device for each byte of keys and values that were put, since the database was created.
    pub fn write_amplification(&self) -> f64 {
        self.written_bytes as f64 / (self.key_bytes + self.value_bytes).max(1) as f64
    }
}

/// What a database holds, has done, and costs. Amplifications are quotients of these counts.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The engine's name.
    pub engine: &'static str,
    /// What shapes the records.
    pub shape: Shape,
    /// The structures of the stores.
    pub stores: Vec<StoreKind>,
    /// Records in all stores; keys that were overwritten or deleted and not yet merged count more than once.
    pub records: u64,
    /// Records in the last store alone.
    pub merged_records: u64,
    /// Writes that were asked for since the database was opened.
    pub writes: u64,
    /// Bytes of keys and values in these writes.
    pub user_bytes: u64,
    /// Operations and bytes on the device since the database was opened.
    pub io: IoSnapshot,
    /// Memory by item, now.
    pub ram: RamAccount,
    /// The highest point of the account since the last [`reset`](crate::Database::reset_ram_peak).
    pub ram_peak: RamAccount,
    /// Bytes of all files of the database.
    pub disk_bytes: u64,
    /// Writes that were made to wait for background work.
    pub delayed_writes: u64,
    /// How long they waited together, in nanoseconds.
    pub delayed_ns: u64,
    /// Records of the log that were read back when the database was opened.
    pub replayed_records: u64,
    /// Bytes at the end of the log that were not whole and were cut off when the database was opened.
    pub lost_tail_bytes: u64,
    /// Stores of which parts are on flash, since there is no room for them or since they are yet to be read back.
    pub degraded: Vec<DegradedStore>,
    /// What was asked of the database, in this opening and before.
    pub usage: Usage,
    /// What else the engine counts, by name.
    pub details: Vec<(&'static str, f64)>,
}

impl Stats {
    /// Bytes written to the device for each byte that the user wrote.
    pub fn write_amplification(&self) -> f64 {
        self.io.total().write_bytes as f64 / self.user_bytes.max(1) as f64
    }
}
