//! Commits: what becomes durable in which order.
//!
//! | what | before it |
//! |---|---|
//! | a redo record | the logs are synced up to where it covers them |
//! | `Finished` | the segment is synced |
//! | `Released` | the logs, and the redo of everything that cleaning moved, are synced |
//! | `Keys` | the run is synced, and the user log up to where the runs have its keys |
//! | `Index` | the redo of everything that the saved index contains is synced |

use super::indexed_logs::IndexedLogs;
use super::live::{Edit, Manifest};
use super::log_settings::Mistake;
use crate::error::Result;
use crate::health::FailStop;
use crate::store::data_logs::{CLASSES, FinishedSegment, USER};
use crate::store::manifest::KeptSettings;
use crate::store::ordered_keys::{KeyRun, MergedRuns};
use crate::store::unit_index::{Flush, SavedIndex};
use siltstone_device::sync::atomic::{AtomicU64, Ordering};
use siltstone_device::{Directory, random_number};
use std::sync::Arc;

/// The name under which the manifest keeps the last number that the store below has confirmed.
pub(crate) const BELOW_NUMBER: &str = "disk_number";

/// The most bytes of the synced user log that the manifest does not state. Stating it costs two more syncs.
const UNSTATED_BYTES_MAX: u64 = 4 << 20;

/// The most bytes of the user log whose keys are read again after a clean end.
const UNFLUSHED_AT_CLOSE_BYTES: u64 = 16 << 20;

/// The manifest, and the order of redo records. A commit that failed is never repeated: a repeated sync succeeds
/// without the pages that the system has dropped.
pub(crate) struct Ledger {
    logs: Arc<IndexedLogs>,
    pub manifest: Manifest,
    counts: Arc<CommitCounts>,
}

/// Returns the length of the file of a saved index, in bytes.
pub(super) fn saved_bytes(directory: &Directory, saved: &SavedIndex) -> Result<u64> {
    Ok(directory.length_of(&saved.file_name())?)
}

/// The counts that are read without the lock.
#[derive(Default)]
struct CommitCounts {
    /// The end of the synced user log that the manifest states.
    stated: AtomicU64,
    /// The end of the user log, and how far redo covers it.
    end: AtomicU64,
    covered: AtomicU64,
    /// The keys of the user log up to here are in runs.
    keys_flushed_to: AtomicU64,
    /// Where the last finished segment of each class ended.
    finished_to: [AtomicU64; CLASSES],
    next_number: AtomicU64,
    /// The length of the saved index, in bytes.
    saved_bytes: AtomicU64,
}

impl CommitCounts {
    /// Returns a number for a new file.
    fn take_number(&self) -> u64 {
        // Relaxed: a number has to be unique, and says nothing of other memory.
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number and the tag of a new run of keys.
    fn new_run(&self) -> Result<KeyRun> {
        Ok(KeyRun { number: self.take_number(), tag: random_number()? })
    }
}

impl Ledger {
    /// Writes the changes of the index to redo. The logs are synced first, so redo never covers what a power loss
    /// takes. Returns up to where redo covers the logs.
    pub fn flush(&mut self) -> Result<[u64; CLASSES]> {
        let logs = self.logs.clone();
        let IndexedLogs { data, index, .. } = &*logs;
        // Before the writers are locked: this waits for the lock of flushes, which a save also takes.
        let mut flush = index.start_flush();
        // With all writers locked no record is between its append and its entry, so the index has exactly the records
        // before these ends.
        let covered = logs.with_all_writers(|| {
            flush.take_operations();
            data.ends_of_records()
        });
        let logged = self.log(&mut flush, covered);
        // If this failed, the operations are in no redo. The cause is recorded here: dropping `flush` ends all writing
        // as well, but does not know it.
        logged.inspect_err(|error| data.health().poison(error.to_string()))?;
        self.counts.covered.store(covered[usize::from(USER)], Ordering::Release);
        Ok(covered)
    }

    /// Writes the operations of a flush to redo, after what they need.
    fn log(&mut self, flush: &mut Flush, covered: [u64; CLASSES]) -> Result<()> {
        if let Some(below) = &self.logs.below {
            // A record is written below before its entry is removed. Redo makes the removal durable, so from then on
            // these logs need a store below that has the record.
            let number = (BELOW_NUMBER.to_owned(), below.confirm()?.to_string());
            self.manifest.keep(&KeptSettings::from([number]))?;
        }
        if !self.logs.settings.makes(Mistake::WritesRedoBeforeTheLogs) {
            (0..).zip(covered).try_for_each(|(class, end)| self.logs.data.sync_to(class, end))?;
        }
        flush.log(&covered)
    }

    /// Blocks until the index, as it is now, survives a power loss.
    pub fn make_index_durable(&mut self) -> Result<()> {
        // Before the operations are taken: what leaves from now on may not be in this flush.
        self.logs.left.begin();
        self.flush()?;
        self.logs.index.sync_redo()?;
        self.logs.left.end();
        Ok(())
    }

    /// Commits an edit, and how much of the user log and of redo is synced: a missing end of either is found then.
    fn commit(&mut self, edit: Option<Edit>) -> Result<()> {
        // Read before the commit: what is synced meanwhile is stated by the next one.
        let (synced, redo_synced) = (self.logs.data.synced(USER), self.logs.index.redo().synced());
        let is_later = redo_synced > self.manifest.state().redo_synced;
        let stated = is_later.then_some(Edit::RedoSynced(redo_synced));
        let edits: Vec<Edit> = edit.into_iter().chain(stated).collect();
        if edits.is_empty() && synced <= self.manifest.log_synced() {
            return Ok(());
        }
        self.manifest.commit(&edits, synced)?;
        self.counts.stated.store(self.manifest.log_synced(), Ordering::Release);
        Ok(())
    }

    /// Commits that a segment, which is synced, takes no more records.
    pub fn finish(&mut self, segment: FinishedSegment) -> Result<()> {
        self.commit(Some(Edit::Finished(segment)))?;
        // After the commit: cleaning chooses segments before this position, and only one that the manifest has can be
        // released.
        self.counts.finished_to[usize::from(segment.class)].store(segment.end, Ordering::Release);
        Ok(())
    }

    /// Writes the keys in memory to a run, if keys are kept in order. The user log is synced first, so that new records
    /// never take positions whose keys seem to be in runs already.
    pub fn flush_keys(&mut self) -> Result<()> {
        let Some(keys) = &self.logs.keys else { return Ok(()) };
        // Table and end are of one moment: the keys of all records before the end are in the table or in runs.
        let flushed_to = self.logs.with_all_writers(|| {
            keys.seal();
            self.logs.data.ends()[usize::from(USER)]
        });
        let flushed = keys.write_sealed(self.counts.new_run()?)?;
        self.logs.data.sync_to(USER, flushed_to)?;
        let added = flushed.as_ref().and_then(|flushed| flushed.added());
        // Otherwise nothing was put since the last run, so there is no new run either.
        if flushed_to > self.manifest.state().keys_flushed_to {
            self.commit(Some(Edit::Keys { added, replaced: None, flushed_to }))?;
        }
        // After the commit: from now on a merge may take the run, and the commit of the merge names it.
        if let (Some(keys), Some(flushed)) = (&self.logs.keys, flushed) {
            keys.flushed(flushed);
        }
        self.counts.keys_flushed_to.store(flushed_to, Ordering::Release);
        Ok(())
    }

    /// Commits runs that have the keys of all records, after a repair has left none.
    pub fn keys_built(&mut self, runs: &[KeyRun]) -> Result<()> {
        let flushed_to = self.logs.data.ends()[usize::from(USER)];
        self.logs.data.sync_to(USER, flushed_to)?;
        let added = runs.iter().map(|run| Some(*run)).chain([None]);
        // One commit: with a part of the runs, an open would not look for the keys of the others.
        let edits: Vec<Edit> = added.map(|added| Edit::Keys { added, replaced: None, flushed_to }).collect();
        self.manifest.commit(&edits, self.logs.data.synced(USER))?;
        self.counts.keys_flushed_to.store(flushed_to, Ordering::Release);
        Ok(())
    }

    /// Commits merged runs of keys, and removes those that they replace.
    pub fn merge_keys(&mut self, merged: MergedRuns) -> Result<()> {
        let flushed_to = self.manifest.state().keys_flushed_to;
        let (added, replaced) = (merged.added(), Some(merged.replaced));
        self.commit(Some(Edit::Keys { added, replaced, flushed_to }))?;
        // Removes the merged runs: until the commit, an open needs them.
        self.logs.keys.as_ref().map_or(Ok(()), |keys| keys.merged(merged))
    }

    /// Releases a segment to which no entry points. At an open, the keys that are not in runs are found in the user
    /// log, so those of the segment are written to a run before.
    pub fn release(&mut self, class: u8, base: u64) -> Result<()> {
        let live = self.manifest.state();
        let is_unflushed = |segment: &FinishedSegment| {
            (segment.class, segment.base) == (USER, base) && segment.end > live.keys_flushed_to
        };
        if class == USER && live.finished.iter().any(is_unflushed) {
            self.flush_keys()?;
        }
        // A crash brings back the entries whose removal is not durable. They would point to what takes these slots.
        if !self.logs.settings.makes(Mistake::ReleasesBeforeRedo) {
            self.make_index_durable()?;
        }
        self.commit(Some(Edit::Released { class, base }))?;
        // After the commit: this frees the slots, and the manifest must not have two segments with the same ones.
        self.logs.data.release(class, base)
    }

    /// Commits a saved index, which is synced, and releases the redo that it replaces and the one before.
    pub fn save(&mut self, saved: SavedIndex) -> Result<()> {
        let before = self.manifest.state().index;
        let bytes = saved_bytes(&self.logs.directory, &saved)?;
        self.commit(Some(Edit::Index(saved)))?;
        self.counts.saved_bytes.store(bytes, Ordering::Relaxed);
        // Until the commit, an open needs the last file and its redo.
        self.logs.index.saved(&saved)?;
        before.map_or(Ok(()), |before| Ok(self.logs.directory.remove(&before.file_name())?))
    }

    /// Makes everything durable, and ends the last segment of each log where its frames end.
    pub fn close(&mut self) -> Result<()> {
        let end = self.logs.data.ends()[usize::from(USER)];
        if end - self.manifest.state().keys_flushed_to > UNFLUSHED_AT_CLOSE_BYTES {
            self.flush_keys()?;
        }
        self.make_index_durable()?;
        // After the syncs, which append markers.
        self.logs.data.end_append()?;
        self.logs.index.redo().end_append()?;
        self.state_synced()
    }

    /// States in the manifest how much of the user log is synced. Up to there, a missing end of the log is found.
    pub fn state_synced(&mut self) -> Result<()> {
        self.commit(None)
    }
}

/// The ledger under its lock, which is taken before the writers of shards.
pub(crate) struct Commits {
    ledger: FailStop<Ledger>,
    logs: Arc<IndexedLogs>,
    counts: Arc<CommitCounts>,
}

impl Commits {
    /// `covered` is where redo covers the logs, and `saved_bytes` the length of the saved index.
    pub fn new(
        logs: &Arc<IndexedLogs>,
        manifest: Manifest,
        covered: [u64; CLASSES],
        saved_bytes: u64,
    ) -> Commits {
        let counts = Arc::new(CommitCounts {
            finished_to: manifest.state().finished_to.map(AtomicU64::new),
            next_number: AtomicU64::new(manifest.next_number()),
            saved_bytes: AtomicU64::new(saved_bytes),
            keys_flushed_to: AtomicU64::new(manifest.state().keys_flushed_to),
            ..CommitCounts::default()
        });
        counts.stated.store(manifest.log_synced(), Ordering::Release);
        counts.covered.store(covered[usize::from(USER)], Ordering::Release);
        counts.end.store(logs.data.ends()[usize::from(USER)], Ordering::Relaxed);
        let ledger = Ledger { logs: logs.clone(), manifest, counts: counts.clone() };
        Commits { ledger: FailStop::new(logs.health(), ledger), logs: logs.clone(), counts }
    }

    /// Runs `work` with the ledger locked. If it fails, the database accepts no more writes.
    pub fn run<T>(&self, work: impl FnOnce(&mut Ledger) -> Result<T>) -> Result<T> {
        self.ledger.run(work)
    }

    /// Reads the manifest.
    pub fn look<T>(&self, look: impl FnOnce(&Manifest) -> T) -> T {
        self.ledger.look(|ledger| look(&ledger.manifest))
    }

    /// Returns the bytes of the manifest and the saved index on flash.
    pub fn disk_bytes(&self) -> u64 {
        self.look(Manifest::disk_bytes) + self.counts.saved_bytes.load(Ordering::Relaxed)
    }

    /// Returns a number for a new saved index.
    pub fn take_number(&self) -> u64 {
        self.counts.take_number()
    }

    /// Returns the number and the tag of a new run of keys.
    pub fn new_run(&self) -> Result<KeyRun> {
        self.counts.new_run()
    }

    /// Returns the bytes of the user log whose keys are not in runs: at an open, they are read again.
    pub fn unflushed_key_bytes(&self) -> u64 {
        let end = self.counts.end.load(Ordering::Relaxed);
        end.saturating_sub(self.counts.keys_flushed_to.load(Ordering::Acquire))
    }

    /// Returns where the last finished segment of each class ended.
    pub fn finished_to(&self) -> [u64; CLASSES] {
        self.counts.finished_to.each_ref().map(|position| position.load(Ordering::Acquire))
    }

    /// Notes the end of the user log after an append.
    pub fn note_end(&self, end: u64) {
        // Writers of several shards note their ends in any order.
        self.counts.end.fetch_max(end, Ordering::Relaxed);
    }

    /// Returns the bytes of the user log that redo does not cover: at an open, they are read again.
    pub fn uncovered_bytes(&self) -> u64 {
        let end = self.counts.end.load(Ordering::Relaxed);
        end.saturating_sub(self.counts.covered.load(Ordering::Acquire))
    }

    /// Calls [`Ledger::state_synced`] if some megabytes were synced since the last time; with `at_once`, if anything
    /// was. Returns at once if a checkpoint or another commit is in progress.
    pub fn state_synced_now_and_then(&self, at_once: bool) -> Result<()> {
        let synced = self.logs.data.synced(USER);
        let unstated = synced.saturating_sub(self.counts.stated.load(Ordering::Acquire));
        let least = if at_once { 1 } else { UNSTATED_BYTES_MAX.min(self.logs.settings.segment_bytes) };
        if unstated < least {
            return Ok(());
        }
        // If the ledger is in use, its user is about to commit.
        self.ledger.try_run(Ledger::state_synced).map(drop)
    }
}
