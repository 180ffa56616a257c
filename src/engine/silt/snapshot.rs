//! Snapshots: all partitions at one moment.

use super::parts::Parts;
use super::view::PartitionSnapshot;
use crate::batch::TimestampMs;
use crate::engine::{Found, Record, Records, Snapshot};
use crate::error::Result;
use crate::key::{Key, PartitionHasher};
use crate::store::log::LogView;
use crate::store::log_cursor::LogCursor;
use crate::store::merge::{Cursor, MergeCursor};
use siltstone_device::{Purpose, with_scratch};
use std::sync::Arc;

/// The size of a read of each store during iteration, in bytes.
pub(super) const READ_BYTES: usize = 64 << 10;

/// All partitions at one moment.
///
/// It keeps the indexes and filters of its stores in memory, also after they were merged or dropped. The memory account
/// does not have them: at most what the items `log_index` to `sorted_filter` had when the snapshot was taken.
pub(super) struct SiltSnapshot {
    parts: Arc<Parts>,
    log: LogView,
    partitions: Vec<PartitionSnapshot>,
    now_ms: TimestampMs,
}

impl SiltSnapshot {
    /// Locks all writers for a moment, and copies nothing. While the snapshot is held, the first change of a table of a
    /// LogStore's index copies that table.
    pub fn take(parts: &Arc<Parts>, now_ms: TimestampMs) -> SiltSnapshot {
        let (partitions, log) = parts.partitions.snapshot();
        SiltSnapshot { parts: parts.clone(), log, partitions, now_ms }
    }
}

impl Snapshot for SiltSnapshot {
    fn get(&self, key: Key<'_>) -> Result<Option<Found>> {
        let (context, stores) = self.parts.start_in_snapshot(key, self.now_ms, &self.partitions, &self.log);
        Found::read(|value| with_scratch(|buffer| stores.look_up(&context, buffer, value)))
    }

    fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Found>>> {
        let mut found = vec![None; keys.len()];
        let numbers: Vec<_> = (0..keys.len()).collect();
        let start = |&number: &usize| {
            let key = keys[number];
            let (context, stores) =
                self.parts.start_in_snapshot(key, self.now_ms, &self.partitions, &self.log);
            (number, context, stores)
        };
        self.parts.look_up_many(&numbers, start, &mut found)?;
        Ok(found)
    }

    /// Returns all records, partition by partition, each in hash order.
    fn records(&self) -> Records {
        let (hasher, log, now_ms) = (self.parts.configuration.hasher, self.log.clone(), self.now_ms);
        Box::new(self.partitions.clone().into_iter().flat_map(move |snapshot| {
            let cursor = cursor(hasher, &snapshot, &log, Some(now_ms), |_| READ_BYTES);
            PartitionRecords { cursor, failed: false }
        }))
    }
}

/// Returns all records of a partition in hash order, without those that are gone at `gone_at_ms`; `None` keeps
/// tombstones and expired records. `read_bytes` returns the size of a read of a store of this length.
pub(super) fn cursor(
    hasher: PartitionHasher,
    snapshot: &PartitionSnapshot,
    log: &LogView,
    gone_at_ms: Option<TimestampMs>,
    read_bytes: impl Fn(u64) -> usize,
) -> MergeCursor {
    // From the newest source to the oldest: of records with equal keys the first source wins.
    let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
    for frozen in std::iter::once(&snapshot.active).chain(&snapshot.view.frozen) {
        let (log, frozen) = (log.clone(), frozen.clone());
        sources.push(Box::new(LogCursor::new(log, frozen, hasher, Purpose::Iterate)));
    }
    // Without `view.merged`: the stores that are being merged have the same records.
    for (_, store) in &snapshot.view.hash_stores {
        sources.push(store.cursor(Purpose::Iterate, read_bytes(store.file().length())));
    }
    if let Some((_, store)) = &snapshot.view.sorted {
        sources.push(store.cursor(Purpose::Iterate, read_bytes(store.file().length())));
    }
    MergeCursor::new(sources, gone_at_ms)
}

/// The records of one partition. Ends after the first error.
struct PartitionRecords {
    cursor: MergeCursor,
    failed: bool,
}

impl Iterator for PartitionRecords {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        match self.cursor.advance() {
            Ok(_) => self.cursor.entry().map(|entry| Ok(Record::copy_of(&entry.record, false))),
            Err(error) => {
                // The cursor has passed the record that it could not read: to continue would skip it silently.
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}
