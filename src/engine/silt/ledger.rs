//! What is live, in memory and durably: the manifest, and the conversions that are not yet in it.
//!
//! A HashStore answers as soon as it is written, but its LogStore's part of the log is kept until the manifest names
//! it. So conversions need not be synced one by one: some of them, or a merge, are committed together.

use super::Core;
use super::live::{Edit, Manifest};
use super::settings::Mistake;
use crate::Result;
use crate::device::Purpose;
use crate::store::StoreFile;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How many bytes of the log may be synced before the manifest states it. It costs two syncs more.
const UNSTATED_BYTES_MAX: u64 = 4 << 20;

/// A conversion that is not yet in the manifest.
pub(super) struct Pending {
    pub edit: Edit,
    pub number: u64,
    /// The file alone, so that filter and index can be let go of meanwhile.
    pub file: Arc<StoreFile>,
}

/// The manifest and what waits to be written into it. Locked before any partition is. A commit that failed is never
/// repeated: a sync that is repeated succeeds without what the system has dropped.
pub(super) struct Ledger {
    pub manifest: Manifest,
    pending: Vec<Pending>,
}

impl Ledger {
    pub fn new(manifest: Manifest) -> Ledger {
        Ledger { manifest, pending: Vec::new() }
    }

    /// How many conversions wait.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}

impl Core {
    /// Takes a conversion in, and commits all that wait once they are many.
    pub(super) fn commit_later(&self, ledger: &mut Ledger, pending: Pending) -> Result<()> {
        ledger.pending.push(pending);
        self.pending_commits.store(ledger.pending.len() as u64, Ordering::Release);
        if ledger.pending.len() < self.partitions.len() {
            return Ok(());
        }
        self.commit_pending(ledger)
    }

    /// Commits all conversions that wait.
    pub(super) fn commit_pending(&self, ledger: &mut Ledger) -> Result<()> {
        if ledger.pending.is_empty() {
            return Ok(());
        }
        self.commit(ledger, None)?;
        self.release_log(ledger)
    }

    /// Commits all conversions that wait, and a merge. Those that the merge took in are left out. What was replaced can
    /// be removed once nobody can find it any more: that is the caller's part, and [`release_log`](Self::release_log).
    pub(super) fn commit(&self, ledger: &mut Ledger, merge: Option<Edit>) -> Result<()> {
        let mut edits = Vec::new();
        let mut merge = merge;
        for pending in &ledger.pending {
            match &mut merge {
                Some(merge) if merge.removed.contains(&pending.number) => {
                    merge.removed.retain(|number| *number != pending.number);
                    merge.converted_to = merge.converted_to.max(pending.edit.converted_to);
                }
                _ => {
                    pending.file.sync(Purpose::Convert)?;
                    edits.push(pending.edit.clone());
                }
            }
        }
        edits.extend(merge);
        // A batch may have gone on behind a LogStore: it must not be durable here and lost there.
        if !self.settings.makes(Mistake::CommitsBeforeTheLog) {
            self.log.sync_to(self.log.end())?;
        }
        ledger.manifest.commit(&edits, self.log.synced())?;
        self.log_stated.store(ledger.manifest.log_synced(), Ordering::Release);
        ledger.pending.clear();
        self.pending_commits.store(0, Ordering::Release);
        Ok(())
    }

    /// States in the manifest up to where the log is synced. The end of the log cannot be lost unnoticed before there.
    pub(super) fn state_synced(&self, ledger: &mut Ledger) -> Result<()> {
        let synced = self.log.synced();
        if synced > ledger.manifest.log_synced() {
            ledger.manifest.commit(&[], synced)?;
            self.log_stated.store(synced, Ordering::Release);
        }
        Ok(())
    }

    /// As [`state_synced`](Self::state_synced), once a segment, or some megabytes, were synced since it was done last;
    /// `at_once` if anything was. Does not wait for a checkpoint or another commit that is under way.
    pub(super) fn state_synced_now_and_then(&self, at_once: bool) -> Result<()> {
        let unstated = self.log.synced().saturating_sub(self.log_stated.load(Ordering::Acquire));
        let least = if at_once { 1 } else { UNSTATED_BYTES_MAX.min(self.settings.log_segment_bytes) };
        if unstated < least {
            return Ok(());
        }
        self.ledger.try_run(|ledger| self.state_synced(ledger)).map(drop)
    }

    /// Removes what of the log every partition has in stores.
    pub(super) fn release_log(&self, ledger: &Ledger) -> Result<()> {
        let converted = ledger.manifest.partitions().iter().map(|partition| partition.converted_to);
        self.log.release_before(converted.min().unwrap_or(0))
    }
}
