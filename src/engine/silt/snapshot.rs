//! What needs all partitions at one moment: iteration and checkpoints.

use super::Core;
use super::partition::View;
use crate::Result;
use crate::batch::TimestampMs;
use crate::device::{Directory, Purpose};
use crate::engine::{Record, Records};
use crate::key::random_number;
use crate::store::log::{FrozenLog, LogCursor, LogView};
use crate::store::manifest::Manifest;
use crate::store::merge::{Cursor, MergeCursor};
use crate::store::sorted::SortedCursor;
use bytes::Bytes;
use std::sync::Arc;

/// What is read at a time of each store, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// A partition at one moment.
pub(super) struct PartitionSnapshot {
    pub active: Arc<FrozenLog>,
    pub view: Arc<View>,
}

/// All records as they are now, partition by partition.
pub(super) fn records(core: &Arc<Core>, now_ms: TimestampMs) -> Result<Records> {
    let locked: Vec<_> = core.partitions.iter().map(|partition| partition.writer.lock()).collect();
    // Before any state: nothing is appended now, but a commit may release what a state that was read still points to.
    let log = core.log.view();
    let end = core.log.end();
    let snapshots: Vec<_> = core
        .partitions
        .iter()
        .map(|partition| {
            let state = partition.state.read();
            PartitionSnapshot { active: Arc::new(state.active.freeze(end)), view: state.view.clone() }
        })
        .collect();
    drop(locked);
    let core = core.clone();
    Ok(Box::new(snapshots.into_iter().flat_map(move |snapshot| {
        let cursor = cursor(&core, &snapshot, &log, now_ms, PIECE_BYTES);
        PartitionRecords { cursor, failed: false }
    })))
}

/// All records of a partition in hash order, each store read `piece_bytes` at a time.
pub(super) fn cursor(
    core: &Core,
    snapshot: &PartitionSnapshot,
    log: &LogView,
    now_ms: TimestampMs,
    piece_bytes: usize,
) -> MergeCursor {
    let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
    for frozen in std::iter::once(&snapshot.active).chain(&snapshot.view.frozen) {
        let (log, frozen) = (log.clone(), frozen.clone());
        sources.push(Box::new(LogCursor::new(log, frozen, core.placing, Purpose::Iterate)));
    }
    for (_, store) in &snapshot.view.hash_stores {
        sources.push(store.cursor(core.placing, Purpose::Iterate, piece_bytes));
    }
    if let Some((_, store)) = &snapshot.view.sorted {
        let cursor = SortedCursor::new(store.clone(), core.placing, Purpose::Iterate, piece_bytes);
        sources.push(Box::new(cursor));
    }
    MergeCursor::new(sources, Some(now_ms))
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
            Ok(_) => self.cursor.entry().map(|entry| {
                Ok(Record {
                    key: Bytes::copy_from_slice(entry.record.key),
                    value: Bytes::copy_from_slice(entry.record.value.unwrap_or_default()),
                    expires_at_ms: entry.record.expires_at_ms,
                })
            }),
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
