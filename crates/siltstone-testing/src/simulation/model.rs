//! What a database is compared with: the reference model, or that of a cache.

use crate::reference::{CacheReference, Cell, Ending, Records, Reference, Violation};
use siltstone::Bytes;
use siltstone::batch::{Durability, NEVER, TimestampMs, Write};
use std::ops::RangeInclusive;

/// The outcome of a check.
pub(super) type Outcome = Result<(), Violation>;

/// The model of a database.
#[derive(Debug, Clone)]
pub enum Model {
    /// That of one which keeps every record.
    Exact(Reference),
    /// That of one which may lose records.
    Cache(CacheReference),
}

impl Model {
    /// Returns the model of an empty database.
    pub fn new(is_lossy: bool) -> Model {
        if is_lossy { Model::Cache(CacheReference::default()) } else { Model::Exact(Reference::new()) }
    }

    /// Adds writes that were acknowledged.
    pub fn acknowledged(&mut self, writes: &[Write<'_>], durability: Durability) {
        match self {
            Model::Exact(reference) => reference.acknowledged(writes, durability),
            Model::Cache(reference) => reference.acknowledged(writes, durability),
        }
    }

    /// Adds writes that returned an error.
    pub fn attempted(&mut self, writes: &[Write<'_>]) {
        match self {
            Model::Exact(reference) => reference.attempted(writes),
            Model::Cache(reference) => reference.attempted(writes),
        }
    }

    /// Returns the number of writes in doubt whose combinations are tried.
    pub fn doubts(&self) -> usize {
        match self {
            Model::Exact(reference) => reference.doubts(),
            Model::Cache(_) => 0,
        }
    }

    /// Records that a sync of everything was acknowledged.
    pub fn synced(&mut self) {
        match self {
            Model::Exact(reference) => reference.synced(),
            Model::Cache(reference) => reference.synced(),
        }
    }

    /// Records that a sync of the device failed.
    pub fn sync_failed(&mut self) {
        match self {
            Model::Exact(reference) => reference.sync_failed(),
            Model::Cache(reference) => reference.sync_failed(),
        }
    }

    /// Checks what a get returned.
    pub fn check(&self, key: &[u8], found: Option<&Cell>, now_ms: TimestampMs) -> Outcome {
        match self {
            Model::Exact(reference) => reference.check(key, found, now_ms),
            Model::Cache(reference) => reference.check(key, found, Cell::eq, now_ms),
        }
    }

    /// Checks what a get returned without the expiry time.
    pub fn check_value(&self, key: &[u8], found: Option<&Bytes>, now_ms: TimestampMs) -> Outcome {
        match self {
            Model::Exact(reference) => reference.check_value(key, found, now_ms),
            Model::Cache(reference) => {
                let found = found.map(|value| Cell { value: value.clone(), expires_at_ms: NEVER });
                let is_same = |one: &Cell, other: &Cell| one.value == other.value;
                reference.check(key, found.as_ref(), is_same, now_ms)
            }
        }
    }

    /// Returns whether a get must find the key.
    pub fn is_present(&self, key: &[u8], now_ms: TimestampMs) -> bool {
        match self {
            Model::Exact(reference) => reference.is_present(key, now_ms),
            Model::Cache(_) => false,
        }
    }

    /// Returns whether it is unknown what a get returns.
    pub fn is_in_doubt(&self, key: &[u8]) -> bool {
        match self {
            Model::Exact(reference) => reference.is_in_doubt(key),
            Model::Cache(_) => true,
        }
    }

    /// Returns how many keys there are at least and at most.
    pub fn keys(&self, now_ms: TimestampMs) -> RangeInclusive<u64> {
        match self {
            Model::Exact(reference) => reference.keys(now_ms),
            Model::Cache(_) => 0..=u64::MAX,
        }
    }

    /// Checks that these may be all records.
    pub fn check_all(&self, found: &Records, now_ms: TimestampMs) -> Outcome {
        match self {
            Model::Exact(reference) => reference.check_all(found, now_ms),
            Model::Cache(_) => found.iter().try_for_each(|(key, cell)| self.check(key, Some(cell), now_ms)),
        }
    }

    /// Checks that these may be all records after the database was opened again, and continues from them.
    pub fn restarted(&mut self, ending: Ending, found: &Records, now_ms: TimestampMs) -> Outcome {
        match self {
            Model::Exact(reference) => reference.restarted(ending, found, now_ms).map(drop),
            Model::Cache(reference) => reference.restarted(ending, found, now_ms),
        }
    }
}
