//! The redo log of an index: one batch of records for each flush, in a log of its own.
//!
//! ```text
//! shards      ... insert, replace, remove, ...      pending, in memory
//! flush 7     | covered by the index: the end of each log of data | operations of shard 0 | of shard 1 | ...
//! ```
//!
//! A flush takes the operations of all shards, and the ends of the logs of data, at one moment at which nothing writes.
//! So the index as of a flush contains exactly what is before these ends.
//!
//! 1. A flush takes the lock of flushes, before the writers. So flushes are in the log in the order of their numbers.
//! 2. With all writers locked, it takes the operations of all shards. The caller notes the ends of the logs of data.
//! 3. Without the writers, the caller syncs these logs up to the ends: redo never covers what a power loss takes.
//! 4. The operations are appended as one batch, which an open finds completely or not at all.
//!
//! If a step fails after the second one, the operations are in no redo, and nothing more is written. Nothing is lost:
//! an open indexes what users wrote after the last flush again, and finds moved records at their old places.

use super::format::{Covered, RedoHeader};
use super::operations::Run;
use super::{LogIndex, LogIndexSettings};
use crate::batch::Durability;
use crate::error::Result;
use crate::health::Health;
use crate::store::log::Log;
use crate::store::record::RecordView;
use siltstone_device::sync::atomic::{AtomicU64, Ordering};
use siltstone_device::sync::{Mutex, MutexGuard};
use std::sync::Arc;

/// The redo log starts a new segment at this size, in bytes.
pub(super) const SEGMENT_BYTES: u64 = if cfg!(test) { 8 << 10 } else { 16 << 20 };

/// The redo log, and the order of flushes.
pub(super) struct Redo {
    pub log: Arc<Log>,
    health: Arc<Health>,
    /// The number of the next flush. Held during a flush.
    pub(super) flush: Mutex<u64>,
    /// The position of the first record that is still needed.
    pub from: AtomicU64,
}

impl Redo {
    /// Makes the state of a redo log whose next flush has this number.
    pub fn new(log: Arc<Log>, next: u64, from: u64) -> Redo {
        let health = log.health().clone();
        Redo { log, health, flush: Mutex::new(next), from: AtomicU64::new(from) }
    }

    /// Returns the end of the redo log, and the number of the flush that is written there next.
    pub fn next(&self) -> (u64, u64) {
        // Under the lock, no flush is between its append and its number.
        let next = self.flush.lock();
        (self.log.end(), *next)
    }
}

/// A flush of the operations of an index into its redo log. Only one exists at a time.
///
/// If it is dropped after it has taken operations and before these are in the redo log, nothing more is written.
pub struct Flush<'a> {
    settings: LogIndexSettings,
    index: &'a LogIndex,
    next: MutexGuard<'a, u64>,
    taken: Option<Vec<Vec<Run>>>,
}

impl<'a> Flush<'a> {
    /// Waits for another flush.
    pub(super) fn start(index: &'a LogIndex) -> Flush<'a> {
        Flush { settings: index.settings(), index, next: index.redo.flush.lock(), taken: None }
    }

    /// Takes the operations of all shards. The caller holds the writers of all shards, and determines what the index
    /// covers before it releases them.
    pub fn take_operations(&mut self) {
        // Only once per flush: shards count it.
        if self.taken.is_none() {
            let shards = self.index.shards.iter();
            self.taken = Some(shards.map(|shard| shard.write().pending.take()).collect());
        }
    }

    /// Appends the operations to the redo log, without a sync. Everything before `covered` must be synced, so that a
    /// crash leaves no entry without its record. Does nothing if no operations were taken.
    pub fn log(&mut self, covered: &Covered) -> Result<()> {
        // `taken` stays set until they are appended: if that fails, the drop ends all writing.
        let Some(shards) = self.taken.as_mut().map(std::mem::take) else { return Ok(()) };
        let number = *self.next;
        let values = RedoHeader { number, covered: *covered }.records(&self.settings, shards);
        let key = number.to_le_bytes();
        let records =
            values.iter().map(|value| RecordView { key: &key, value: Some(value), expires_at_ms: 0 });
        // One batch: after a crash an open finds all records of the flush or none.
        self.index.redo.log.append(records, Durability::Written, |_| ())?;
        *self.next += 1;
        self.taken = None;
        Ok(())
    }
}

impl Drop for Flush<'_> {
    fn drop(&mut self) {
        if self.taken.is_some() {
            self.index.redo.health.poison("changes of the index were not written to the redo log");
        }
    }
}

impl LogIndex {
    /// Begins a flush, after the end of another one. Take the writers of shards after this call.
    pub fn start_flush(&self) -> Flush<'_> {
        Flush::start(self)
    }

    /// Blocks until all flushes so far survive a power loss.
    pub fn sync_redo(&self) -> Result<()> {
        self.redo.log.sync_to(self.redo.log.end())
    }

    /// Returns the redo log.
    pub fn redo(&self) -> &Arc<Log> {
        &self.redo.log
    }

    /// Returns the bytes of the redo log that an open reads.
    pub fn redo_bytes(&self) -> u64 {
        // In this order: the log has ended behind this position before it was stored.
        let from = self.redo.from.load(Ordering::Acquire);
        self.redo.log.end() - from
    }
}
