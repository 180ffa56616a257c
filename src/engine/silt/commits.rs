//! Commits: which stores are live, in memory and durably.
//!
//! A HashStore is searched as soon as it is written, but its part of the log is kept until the manifest contains it. So
//! conversions need not be synced one by one: several of them, or a merge, become durable in one commit.
//!
//! 1. The files of pending conversions are synced. A merge has synced its own.
//! 2. The log is synced: a batch must not be durable in the stores of one partition and lost for another.
//! 3. One commit of the manifest names all files. After a crash either all of them are live or none.
//! 4. The caller replaces the view, removes the files that were replaced, and releases the log. Recovery needs none of
//!    them any more.

use super::configuration::Configuration;
use super::live::{Edit, Manifest};
use super::partition_settings::Mistake;
use crate::error::Result;
use crate::health::FailStop;
use crate::store::StoreFile;
use crate::store::log::Log;
use siltstone_device::Purpose;
use siltstone_device::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// The most bytes of synced log that the manifest does not state. Stating it costs two more syncs.
const UNSTATED_BYTES_MAX: u64 = 4 << 20;

/// A conversion that is not yet in the manifest.
pub(super) struct PendingConversion {
    pub edit: Edit,
    pub number: u64,
    /// The file without its index and filter, which may be dropped before the commit.
    pub file: Arc<StoreFile>,
}

/// The counts that are read without the lock.
#[derive(Default)]
struct CommitCounts {
    /// Conversions that are not yet in the manifest.
    pending: AtomicU64,
    /// The end of the synced log that the manifest states.
    log_stated: AtomicU64,
}

/// The manifest and the conversions that are not yet in it. A commit that failed is never repeated: a repeated sync
/// succeeds without the pages that the system has dropped.
pub(super) struct CommitQueue {
    configuration: Arc<Configuration>,
    log: Arc<Log>,
    pub manifest: Manifest,
    pending: Vec<PendingConversion>,
    counts: Arc<CommitCounts>,
}

impl CommitQueue {
    /// Adds a conversion. Commits all of them once there are as many as partitions.
    pub fn add(&mut self, conversion: PendingConversion) -> Result<()> {
        self.pending.push(conversion);
        self.counts.pending.store(self.pending.len() as u64, Ordering::Release);
        // One commit for about one conversion of each partition, since every commit syncs.
        if self.pending.len() < self.configuration.partitions() {
            return Ok(());
        }
        self.commit_pending().map(drop)
    }

    /// Commits all pending conversions. Returns whether there were any.
    pub fn commit_pending(&mut self) -> Result<bool> {
        if self.pending.is_empty() {
            return Ok(false);
        }
        self.commit(Vec::new())?;
        // After the commit: before it, recovery would read these records from the log.
        self.release_log()?;
        Ok(true)
    }

    /// Commits all pending conversions, except those that one of the `edits` removes again, and then the edits. The
    /// caller removes the replaced files once no view has them, and calls [`release_log`](Self::release_log).
    pub fn commit(&mut self, mut edits: Vec<Edit>) -> Result<()> {
        let mut all = Vec::with_capacity(self.pending.len() + edits.len());
        for pending in &self.pending {
            // A store that was merged before its commit never becomes live: the merge's edit covers it.
            match edits.iter_mut().find(|edit| edit.removed.contains(&pending.number)) {
                Some(merge) => {
                    merge.removed.retain(|number| *number != pending.number);
                    merge.converted_to = merge.converted_to.max(pending.edit.converted_to);
                }
                None => {
                    // A file must be durable before the manifest names it.
                    pending.file.sync(Purpose::Convert)?;
                    all.push(pending.edit.clone());
                }
            }
        }
        all.append(&mut edits);
        // A batch may continue after the end of a LogStore. It must not be durable in the store and lost in the log.
        if !self.configuration.settings.makes(Mistake::CommitsBeforeTheLog) {
            self.log.sync_to(self.log.end())?;
        }
        self.manifest.commit(&all, self.log.synced())?;
        self.counts.log_stated.store(self.manifest.log_synced(), Ordering::Release);
        // They are live now: a merge removes them by its own edit from here on.
        self.pending.clear();
        self.counts.pending.store(0, Ordering::Release);
        Ok(())
    }

    /// Commits an edit without the pending conversions, which it may depend on: a mistake.
    pub fn commit_alone(&mut self, edit: &Edit) -> Result<()> {
        self.manifest.commit(std::slice::from_ref(edit), self.log.synced())
    }

    /// States in the manifest how much of the log is synced. Up to there, a missing end of the log is found.
    pub fn state_synced(&mut self) -> Result<()> {
        let synced = self.log.synced();
        // Nothing is synced for this: it states only what other calls have made durable.
        if synced > self.manifest.log_synced() {
            self.manifest.commit(&[], synced)?;
            self.counts.log_stated.store(synced, Ordering::Release);
        }
        Ok(())
    }

    /// Removes the part of the log that every partition has in stores.
    pub fn release_log(&self) -> Result<()> {
        self.log.release_before(self.manifest.converted_to())
    }
}

/// The commit queue under its lock, which is taken before the lock of any partition.
pub(super) struct Commits {
    queue: FailStop<CommitQueue>,
    configuration: Arc<Configuration>,
    log: Arc<Log>,
    counts: Arc<CommitCounts>,
    next_store_number: AtomicU64,
}

impl Commits {
    pub fn new(configuration: &Arc<Configuration>, log: &Arc<Log>, manifest: Manifest) -> Commits {
        let counts = Arc::new(CommitCounts::default());
        counts.log_stated.store(manifest.log_synced(), Ordering::Release);
        // The open has removed every file that no commit names, so no file has one of the next numbers.
        let next_store_number = AtomicU64::new(manifest.next_number());
        let queue = CommitQueue {
            configuration: configuration.clone(),
            log: log.clone(),
            manifest,
            pending: Vec::new(),
            counts: counts.clone(),
        };
        Commits {
            queue: FailStop::new(log.health(), queue),
            configuration: configuration.clone(),
            log: log.clone(),
            counts,
            next_store_number,
        }
    }

    /// Returns a number for a new store.
    pub fn take_store_number(&self) -> u64 {
        self.next_store_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns how many conversions are not yet in the manifest.
    pub fn pending(&self) -> u64 {
        self.counts.pending.load(Ordering::Acquire)
    }

    /// Runs `work` with the queue locked. If it fails, the database accepts no more writes.
    pub fn run<T>(&self, work: impl FnOnce(&mut CommitQueue) -> Result<T>) -> Result<T> {
        self.queue.run(work)
    }

    /// Reads the manifest.
    pub fn look<T>(&self, look: impl FnOnce(&Manifest) -> T) -> T {
        self.queue.look(|queue| look(&queue.manifest))
    }

    /// Calls [`CommitQueue::state_synced`] if a segment or some megabytes were synced since the last time; with
    /// `at_once`, if anything was. Returns at once if a checkpoint or another commit is in progress.
    pub fn state_synced_now_and_then(&self, at_once: bool) -> Result<()> {
        let unstated = self.log.synced().saturating_sub(self.counts.log_stated.load(Ordering::Acquire));
        let least =
            if at_once { 1 } else { UNSTATED_BYTES_MAX.min(self.configuration.settings.log_segment_bytes) };
        if unstated < least {
            return Ok(());
        }
        // If the queue is in use, its user is about to commit.
        self.queue.try_run(CommitQueue::state_synced).map(drop)
    }
}
