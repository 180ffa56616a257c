//! What needs all partitions at one moment: snapshots and checkpoints.

use super::Core;
use super::live::Manifest;
use super::partition::{Partition, Sought, Stores, View};
use crate::Result;
use crate::batch::TimestampMs;
use crate::cache::Ticket;
use crate::device::{Directory, Purpose, with_scratch};
use crate::engine::{Found, Record, Records, Snapshot};
use crate::key::{Key, random_number};
use crate::store::log::{Log, LogView};
use crate::store::log_store::{FrozenLog, LogCursor};
use crate::store::merge::{Cursor, MergeCursor};
use crate::store::record::RecordView;
use bytes::Bytes;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What is read at a time of each store, in bytes.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// A partition at one moment.
#[derive(Clone)]
pub(super) struct PartitionSnapshot {
    pub active: Arc<FrozenLog>,
    pub view: Arc<View>,
}

impl PartitionSnapshot {
    /// The partition as it is now, with a view of the log that has its records. Writers wait only for the lock of the
    /// state.
    pub fn take(partition: &Partition, log: &Arc<Log>) -> (PartitionSnapshot, LogView) {
        let state = partition.state.read();
        let active = Arc::new(state.active.freeze(log.end()));
        // While the state is locked, nothing that it refers to is released.
        (PartitionSnapshot { active, view: state.view.clone() }, log.view())
    }
}

/// All partitions at one moment.
pub(super) struct SiltSnapshot {
    core: Arc<Core>,
    log: LogView,
    partitions: Vec<PartitionSnapshot>,
    now_ms: TimestampMs,
}

impl SiltSnapshot {
    pub fn take(core: &Arc<Core>, now_ms: TimestampMs) -> SiltSnapshot {
        let _locked: Vec<_> = core.partitions.iter().map(|partition| partition.writer.lock()).collect();
        // Before any state: nothing is appended now, but a commit may release what a state that was read points to.
        let log = core.log.view();
        let end = core.log.end();
        let freeze = |partition: &Partition| {
            let state = partition.state.read();
            PartitionSnapshot { active: Arc::new(state.active.freeze(end)), view: state.view.clone() }
        };
        let partitions = core.partitions.iter().map(freeze).collect();
        SiltSnapshot { core: core.clone(), log, partitions, now_ms }
    }

    /// Where to look for a key. What is found there may have been replaced since, so the record cache takes no part.
    fn open<'a>(&'a self, key: Key<'a>) -> (Sought<'a>, Stores) {
        let (partition, hash) = self.core.place(key);
        let stores = Stores::of_snapshot(&self.partitions[partition], &self.log, hash);
        (self.core.sought(key.bytes(), hash, self.now_ms, Ticket::NONE), stores)
    }
}

impl Snapshot for SiltSnapshot {
    fn get(&self, key: Key<'_>) -> Result<Option<Found>> {
        let (sought, stores) = self.open(key);
        with_scratch(|buffer| stores.look_up(&sought, Purpose::Get, buffer))
    }

    fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Found>>> {
        self.core.look_up_many(keys, |key| ControlFlow::Continue(self.open(key)))
    }

    /// Partition by partition, each in hash order.
    fn records(&self) -> Records {
        let (core, log, now_ms) = (self.core.clone(), self.log.clone(), self.now_ms);
        Box::new(self.partitions.clone().into_iter().flat_map(move |snapshot| {
            let cursor = cursor(&core, &snapshot, &log, now_ms, |_| PIECE_BYTES);
            PartitionRecords { cursor, failed: false }
        }))
    }
}

/// All records of a partition in hash order. `piece_bytes` gives, for a store of so many bytes, how many of them are
/// read at a time.
pub(super) fn cursor(
    core: &Core,
    snapshot: &PartitionSnapshot,
    log: &LogView,
    now_ms: TimestampMs,
    piece_bytes: impl Fn(u64) -> usize,
) -> MergeCursor {
    let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
    for frozen in std::iter::once(&snapshot.active).chain(&snapshot.view.frozen) {
        let (log, frozen) = (log.clone(), frozen.clone());
        sources.push(Box::new(LogCursor::new(log, frozen, core.placing, Purpose::Iterate)));
    }
    for (_, store) in &snapshot.view.hash_stores {
        sources.push(store.cursor(Purpose::Iterate, piece_bytes(store.file().length())));
    }
    if let Some((_, store)) = &snapshot.view.sorted {
        sources.push(store.cursor(Purpose::Iterate, piece_bytes(store.file().length())));
    }
    MergeCursor::new(sources, Some(now_ms))
}

/// A record of its own.
pub(super) fn copy(record: &RecordView<'_>) -> Record {
    Record {
        key: Bytes::copy_from_slice(record.key),
        value: Bytes::copy_from_slice(record.value.unwrap_or_default()),
        expires_at_ms: record.expires_at_ms,
    }
}

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
            Ok(_) => self.cursor.entry().map(|entry| Ok(copy(&entry.record))),
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

impl Core {
    /// Writes a consistent copy into an empty directory. Writers wait only until the end of the log is known.
    pub(super) fn checkpoint(&self, target: &Directory) -> Result<()> {
        // No store is made live and none is removed as long as the manifest is held.
        let copied = self.ledger.run(|ledger| {
            self.commit_pending(ledger)?;
            let end = {
                let _locked: Vec<_> =
                    self.partitions.iter().map(|partition| partition.writer.lock()).collect();
                self.log.write_buffered()?;
                self.log.end()
            };
            // An error of the copy spoils nothing here.
            Ok(self.copy_live(&ledger.manifest, end, target))
        });
        copied?
    }

    /// Copies what the manifest names, and the log up to `end`.
    fn copy_live(&self, manifest: &Manifest, end: u64, target: &Directory) -> Result<()> {
        for store in manifest.partitions().iter().flat_map(|partition| &partition.stores) {
            self.directory.share(&store.file_name(), target)?;
        }
        let converted = manifest.partitions().iter().map(|partition| partition.converted_to);
        // With an id of its own: once either was written to, the log of one is not taken for that of the other.
        let database_id = random_number()?;
        self.log.copy_to(target, database_id, converted.min().unwrap_or(0), end)?;
        manifest.write_copy(target, database_id, end)
    }
}
