//! What needs all partitions at one moment: iteration, checkpoints, verification.

use super::Core;
use super::open::store_name;
use super::partition::View;
use crate::batch::TimestampMs;
use crate::device::{AlignedBuffer, Directory, Purpose};
use crate::engine::{Record, Records, VerifyReport};
use crate::progress::Progress;
use crate::store::block::Block;
use crate::store::file::StoreFile;
use crate::store::log::{FrozenLog, LogCursor, LogView};
use crate::store::merge::{Cursor, MergeCursor};
use crate::store::sorted::SortedCursor;
use crate::{Error, Result};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

/// What is read at a time of each store, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// A partition at one moment.
struct PartitionSnapshot {
    active: Arc<FrozenLog>,
    view: Arc<View>,
}

/// All records as they are now, partition by partition.
pub(super) fn records(core: &Arc<Core>, now_ms: TimestampMs) -> Result<Records> {
    let locked: Vec<_> = core.partitions.iter().map(|partition| partition.writer.lock()).collect();
    let end = core.log.end();
    let snapshots: Vec<_> = core
        .partitions
        .iter()
        .map(|partition| {
            let state = partition.state.read();
            PartitionSnapshot { active: Arc::new(state.active.freeze(end)), view: state.view.clone() }
        })
        .collect();
    let log = core.log.view();
    drop(locked);
    let core = core.clone();
    Ok(Box::new(snapshots.into_iter().flat_map(move |snapshot| {
        let cursor = cursor(&core, &snapshot, &log, now_ms);
        PartitionRecords { cursor, failed: false }
    })))
}

fn cursor(core: &Core, snapshot: &PartitionSnapshot, log: &LogView, now_ms: TimestampMs) -> MergeCursor {
    let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
    for frozen in std::iter::once(&snapshot.active).chain(&snapshot.view.frozen) {
        sources.push(Box::new(LogCursor::new(log.clone(), frozen.clone(), core.placing, Purpose::Iterate)));
    }
    for (_, store) in &snapshot.view.hash_stores {
        sources.push(store.cursor(core.placing, Purpose::Iterate, PIECE_BYTES));
    }
    if let Some((_, store)) = &snapshot.view.sorted {
        let cursor = SortedCursor::new(store.clone(), core.placing, Purpose::Iterate, PIECE_BYTES);
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
    pub(super) fn checkpoint(&self, target: &Path) -> Result<()> {
        // No store is made live and none is removed as long as the manifest is held.
        let mut ledger = self.ledger.lock();
        self.fail_stop(|| self.commit_pending(&mut ledger))?;
        let manifest = &ledger.manifest;
        let end = {
            let _locked: Vec<_> = self.partitions.iter().map(|partition| partition.writer.lock()).collect();
            self.fail_stop(|| self.log.write_buffered())?;
            self.log.end()
        };
        for store in manifest.partitions().iter().flat_map(|partition| &partition.stores) {
            self.directory.share(&store_name(store.number, store.role), target)?;
        }
        let copy = Directory::system(target, self.directory.access())?;
        let converted = manifest.partitions().iter().map(|partition| partition.converted_to);
        self.log.copy_to(&copy, converted.min().unwrap_or(0), end)?;
        manifest.write_copy(&copy)
    }

    /// Reads every block, index and filter of every store, and the log, and lists what is damaged.
    pub(super) fn verify(&self, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        let views: Vec<_> =
            self.partitions.iter().map(|partition| partition.state.read().view.clone()).collect();
        let total: u64 = views.iter().map(|view| view.disk_bytes()).sum::<u64>() + self.log.disk_bytes();
        for view in &views {
            let hash_stores = view.hash_stores.iter().map(|(_, store)| store.file());
            for file in hash_stores.chain(view.sorted.iter().map(|(_, store)| store.file())) {
                verify_store(file, &mut report)?;
                if !progress(report.checked_bytes, total) {
                    return Err(Error::Interrupted);
                }
            }
        }
        let from = self
            .ledger
            .lock()
            .manifest
            .partitions()
            .iter()
            .map(|partition| partition.converted_to)
            .min()
            .unwrap_or(0);
        let mut records = 0;
        let stores_bytes = report.checked_bytes;
        let mut progress = |done: u64, _| progress((stores_bytes + done).min(total), total);
        let scanned = self.log.scan(from, &mut progress, &mut |_, _| {
            records += 1;
            Ok(())
        });
        report.checked_records += records;
        report.checked_bytes += self.log.end().saturating_sub(from);
        note_damage(scanned, &mut report)?;
        Ok(report)
    }
}

/// Damage goes into the report; anything else ends the verification.
fn note_damage(outcome: Result<()>, report: &mut VerifyReport) -> Result<()> {
    match outcome {
        Err(error @ Error::Corrupt { .. }) => {
            report.damage.push(error);
            Ok(())
        }
        other => other,
    }
}

fn verify_store(file: &StoreFile, report: &mut VerifyReport) -> Result<()> {
    let footer = file.footer();
    let mut buffer = AlignedBuffer::default();
    let per_piece = (PIECE_BYTES as u64 / u64::from(footer.block_bytes)).max(1);
    for first in (0..footer.blocks).step_by(per_piece as usize) {
        let bytes = file.read_blocks(Purpose::Maintain, first..first + per_piece, &mut buffer)?;
        for (number, block) in (first..).zip(bytes.chunks_exact(footer.block_bytes as usize)) {
            note_damage(Block::open(file.file(), footer.number, number, block).map(drop), report)?;
        }
    }
    for section in [&footer.index, &footer.filter] {
        note_damage(file.read_section(section, Purpose::Maintain).map(drop), report)?;
    }
    report.checked_bytes += file.length();
    report.checked_records += footer.records;
    Ok(())
}
