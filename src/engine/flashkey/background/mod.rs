//! Background work: which job runs next, one bounded step at a time.

use super::choice::{Choice, Compaction};
use super::cleanings::Cleanings;
use super::commits::{Commits, Ledger};
use super::confirm::Confirming;
use super::indexed_logs::IndexedLogs;
use super::memory::Memory;
use super::search::IndexSearch;
use crate::batch::TimestampMs;
use crate::engine::jobs::JobSlot;
use crate::error::Result;
use crate::store::data_logs::SegmentInfo;
use crate::store::ordered_keys::KeyMerge;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

mod cleaning;
mod saving;

use cleaning::ToClean;
use saving::Saving;

/// The changes of the index are written to redo after this many bytes of the user log, or segments if these are
/// smaller, and after this many bytes of changes.
pub const FLUSH_LOG_BYTES: u64 = 64 << 20;
pub const FLUSH_SEGMENTS: u64 = 2;
pub const FLUSH_CHANGE_BYTES: u64 = 4 << 20;
/// Keys in memory are written to a run after this many bytes of the user log, or segments if these are smaller: an
/// opening reads as many.
const KEY_LOG_BYTES: u64 = 256 << 20;
const KEY_SEGMENTS: u64 = 8;
/// A put waits when the keys in memory exceed their memory by this factor.
const KEY_FULLNESS_MAX: f64 = 2.0;
/// A put waits when this many segments wait to be finished, or this many times the bytes after which redo is written.
pub const WAITING_SEGMENTS_MAX: f64 = 8.0;
const WAITING_FLUSHES_MAX: f64 = 4.0;
/// A put waits when this many times as many overwrites are unconfirmed as may be. Of a small database, one for this
/// many bytes of a segment may be.
pub const UNCONFIRMED_MAX: f64 = 2.0;
const SEGMENT_BYTES_PER_NOTE: u64 = 64;
/// All segments are looked at once in this many steps, if none of them was finished, released or confirmed.
const STEPS_PER_LOOK: u64 = 16;
/// A put waits when the redo is this many times as long as at the begin of a save.
const REDO_MAX: f64 = 2.0;
/// The index is saved when the changes of entries on flash take this much memory per entry, in bytes, or this much.
pub const CHANGES_BYTES_PER_ENTRY: f64 = 0.23;
pub const CHANGES_BYTES_MIN: u64 = 32 << 10;
pub const CHANGES_BYTES_MIN_PER_SHARD: u64 = 1 << 10;
/// A put waits when they take this many times as much.
pub const CHANGES_MAX: f64 = 1.15;

/// The state of the background work.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    /// Work is pending or running.
    pub is_pending: bool,
    /// Some of it is not running, so one more thread would find something to do.
    pub wants_thread: bool,
    /// How far it is behind the writes; from 1 on, writers must wait.
    pub pressure: f64,
}

/// The kinds of jobs that are executed in the order in which they are behind.
enum Job {
    Confirm,
    Clean,
    MergeKeys,
    Save,
}

/// The jobs, at most one of each kind.
pub(crate) struct Jobs {
    logs: Arc<IndexedLogs>,
    commits: Arc<Commits>,
    memory: Arc<Memory>,
    finishing: JobSlot<()>,
    cleanings: Cleanings,
    searching: JobSlot<IndexSearch>,
    confirming: JobSlot<ConfirmingOf>,
    saving: JobSlot<Saving>,
    merging: JobSlot<KeyMerge>,
    compaction: Mutex<Compaction>,
    must_search: AtomicBool,
    /// Whether there is a segment to confirm, and whether one is being confirmed.
    must_confirm: AtomicBool,
    is_confirming: AtomicBool,
    /// How many overwrites may be unconfirmed, and were at the last look at the segments.
    unconfirmed_max: AtomicU64,
    unconfirmed: AtomicU64,
    /// The number of steps, and whether the segments have to be looked at after this one.
    steps: AtomicU64,
    must_look: AtomicBool,
    /// Whether a step has worked since the segments were looked at.
    has_worked: AtomicBool,
    save_requested: AtomicBool,
    /// The keys in memory have to be written to a run, then all runs merged: a compaction was requested.
    flush_keys_requested: AtomicBool,
    merge_keys_requested: AtomicBool,
    is_merging: AtomicBool,
    /// Whether runs have to be merged, and how far that is behind.
    must_merge: AtomicBool,
    merge_pressure: AtomicU64,
    is_saving: AtomicBool,
    /// Whether a part of the index is on flash.
    is_on_flash: AtomicBool,
    /// What there is to clean.
    to_clean: ToClean,
    /// The bytes of changes that are not in redo, after the last step.
    pending_bytes: AtomicU64,
    /// The bytes of redo per byte of it at which the index is saved.
    redo_share: AtomicU64,
    /// The memory of changes of entries on flash, per byte of it at which the index is saved.
    changes_share: AtomicU64,
    /// Whether entries have to be moved between memory and flash.
    must_move: AtomicBool,
    /// Whether the index takes more memory than its share, and whether it takes clearly less.
    is_index_full: AtomicBool,
    has_index_space: AtomicBool,
    /// Whether the logs will not be full for a while.
    has_space: AtomicBool,
    /// How many entries were removed because a newer one replaces them, segments were confirmed without being
    /// cleaned, and indexes were saved.
    pub confirmed: AtomicU64,
    pub confirmed_segments: AtomicU64,
    pub saves: AtomicU64,
    /// How many merges of keys have ended.
    pub key_merges: AtomicU64,
}

/// A segment that is being confirmed, and whether a compaction requires it.
struct ConfirmingOf {
    job: Confirming,
    segment: SegmentInfo,
    of_compaction: bool,
}

impl Jobs {
    pub fn new(logs: &Arc<IndexedLogs>, commits: &Arc<Commits>, memory: &Arc<Memory>) -> Jobs {
        let health = logs.health();
        let jobs = Jobs {
            logs: logs.clone(),
            commits: commits.clone(),
            memory: memory.clone(),
            finishing: JobSlot::new("end of a segment", health),
            cleanings: Cleanings::new(health),
            searching: JobSlot::new("search of overwrites", health),
            confirming: JobSlot::new("confirmation of overwrites", health),
            saving: JobSlot::new("save of the index", health),
            merging: JobSlot::new("merge of keys", health),
            compaction: Mutex::default(),
            must_search: AtomicBool::new(!logs.index.is_empty()),
            must_confirm: AtomicBool::new(false),
            is_confirming: AtomicBool::new(false),
            unconfirmed_max: AtomicU64::new(0),
            unconfirmed: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            must_look: AtomicBool::new(false),
            has_worked: AtomicBool::new(false),
            save_requested: AtomicBool::new(false),
            flush_keys_requested: AtomicBool::new(false),
            merge_keys_requested: AtomicBool::new(false),
            is_merging: AtomicBool::new(false),
            must_merge: AtomicBool::new(false),
            merge_pressure: AtomicU64::new(0),
            is_saving: AtomicBool::new(false),
            is_on_flash: AtomicBool::new(false),
            to_clean: ToClean::default(),
            pending_bytes: AtomicU64::new(0),
            redo_share: AtomicU64::new(0),
            changes_share: AtomicU64::new(0),
            must_move: AtomicBool::new(false),
            is_index_full: AtomicBool::new(false),
            has_index_space: AtomicBool::new(false),
            has_space: AtomicBool::new(false),
            confirmed: AtomicU64::new(0),
            confirmed_segments: AtomicU64::new(0),
            saves: AtomicU64::new(0),
            key_merges: AtomicU64::new(0),
        };
        jobs.refresh();
        jobs
    }

    /// Returns the state of the background work. Costs some atomic loads.
    pub fn work(&self) -> Work {
        let unfinished = self.logs.data.unfinished() as f64 / WAITING_SEGMENTS_MAX;
        let uncovered = self.commits.uncovered_bytes() as f64 / self.flush_bytes() as f64;
        let pending = self.pending_bytes.load(Relaxed) as f64 / self.flush_change_bytes() as f64;
        let unflushed = uncovered.max(pending) / WAITING_FLUSHES_MAX;
        let clean = self.clean_pressure();
        let must_finish =
            unfinished > 0.0 || self.must_flush() || self.must_flush_keys() || self.must_end(clean);
        let pending = [
            (must_finish, self.finishing.is_running()),
            (self.cleans(), self.cleanings.are_running(self.pressure_of_second_cleaning())),
            (self.may_search(), self.searching.is_running()),
            (self.must_confirm(), self.confirming.is_running()),
            (self.must_save(), self.saving.is_running()),
            (self.must_merge_keys(), self.merging.is_running()),
        ];
        // Each step also frees the space of removed files.
        let frees = self.logs.directory.unfreed_bytes() > 0;
        // A step finds out whether there is work on segments.
        let is_unknown =
            self.has_worked.load(Relaxed) || self.logs.unconfirmed() != self.unconfirmed.load(Relaxed);
        let is_pending = frees || is_unknown || pending.iter().any(|(is_pending, _)| *is_pending);
        let is_any_running = pending.iter().any(|(_, is_running)| *is_running);
        let wants_thread = frees && !is_any_running
            || pending.iter().any(|(is_pending, is_running)| *is_pending && !is_running);
        let keys = self.flush_keys_pressure().max(self.merge_pressure());
        let later = clean.max(keys).max(self.confirm_pressure()).max(self.save_pressure());
        Work { is_pending, wants_thread, pressure: unfinished.max(unflushed).max(later) }
    }

    /// Returns whether logs of which records leave are not full, nor were a short time ago: a recycling makes little
    /// space, which new records need.
    pub fn has_space(&self) -> bool {
        self.has_space.load(Relaxed) && self.has_index_space.load(Relaxed)
    }

    fn merge_pressure(&self) -> f64 {
        f64::from_bits(self.merge_pressure.load(Relaxed))
    }

    fn save_pressure(&self) -> f64 {
        let redo = f64::from_bits(self.redo_share.load(Relaxed)) / REDO_MAX;
        redo.max(f64::from_bits(self.changes_share.load(Relaxed)) / CHANGES_MAX)
    }

    fn confirm_pressure(&self) -> f64 {
        // Those of segments that are not finished, or that are being cleaned, are not waited for.
        if !self.is_confirming.load(Relaxed) && !self.must_confirm.load(Relaxed) {
            return 0.0;
        }
        let least = self.logs.settings.segment_bytes / SEGMENT_BYTES_PER_NOTE;
        let allowed = self.unconfirmed_max.load(Relaxed).max(least);
        self.logs.unconfirmed() as f64 / (UNCONFIRMED_MAX * allowed as f64)
    }

    fn must_confirm(&self) -> bool {
        let unconfirmed = self.logs.unconfirmed();
        // There may be more in segments that are not finished, or that are being cleaned.
        let are_new = unconfirmed > self.unconfirmed.load(Relaxed);
        self.is_confirming.load(Relaxed)
            || self.must_confirm.load(Relaxed)
            || are_new && unconfirmed > self.unconfirmed_max.load(Relaxed)
    }

    fn flush_bytes(&self) -> u64 {
        FLUSH_LOG_BYTES.min(FLUSH_SEGMENTS * self.logs.settings.segment_bytes)
    }

    fn must_flush(&self) -> bool {
        self.commits.uncovered_bytes() >= self.flush_bytes()
            || self.pending_bytes.load(Relaxed) >= self.flush_change_bytes()
    }

    fn flush_change_bytes(&self) -> u64 {
        FLUSH_CHANGE_BYTES.min(self.memory.pending_bytes_max())
    }

    /// Returns how many times as many keys are in memory as should be, or bytes of the user log that an open reads
    /// to find them.
    fn unflushed_keys(&self) -> f64 {
        let Some(keys) = &self.logs.keys else { return 0.0 };
        let log_bytes = KEY_LOG_BYTES.min(KEY_SEGMENTS * self.logs.settings.segment_bytes);
        keys.fullness().max(self.commits.unflushed_key_bytes() as f64 / log_bytes as f64)
    }

    fn flush_keys_pressure(&self) -> f64 {
        self.unflushed_keys() / KEY_FULLNESS_MAX
    }

    fn must_flush_keys(&self) -> bool {
        self.flush_keys_requested.load(Relaxed) || self.unflushed_keys() >= 1.0
    }

    fn must_merge_keys(&self) -> bool {
        self.must_merge.load(Relaxed)
            || self.is_merging.load(Relaxed)
            || self.merge_keys_requested.load(Relaxed)
    }

    /// Returns whether overwrites have to be searched for: once the entries are where they are to be.
    fn may_search(&self) -> bool {
        self.must_search.load(Relaxed) && self.logs.index.shards_to_load() == 0
    }

    fn must_save(&self) -> bool {
        f64::from_bits(self.redo_share.load(Relaxed)) > 1.0
            || f64::from_bits(self.changes_share.load(Relaxed)) > 1.0
            || self.must_move.load(Relaxed)
            || self.logs.index.shards_to_load() > 0
            || self.save_requested.load(Relaxed)
            || self.is_saving.load(Relaxed)
    }

    /// Returns how many segments were cleaned.
    pub fn cleaned(&self) -> u64 {
        self.cleanings.ended.load(Relaxed)
    }

    /// Requests that every dead byte that is in the logs now is removed, and that the index is saved. The following
    /// steps do it.
    pub fn request_compaction(&self) -> Result<()> {
        self.logs.with_all_writers(|| self.logs.data.start_new_segments())?;
        *self.compaction.lock() = Compaction::of(self.logs.data.ends());
        self.save_requested.store(true, Relaxed);
        if self.logs.keys.is_some() {
            self.flush_keys_requested.store(true, Relaxed);
            self.merge_keys_requested.store(true, Relaxed);
        }
        self.refresh();
        Ok(())
    }

    /// Returns whether a compaction was requested and has not ended.
    pub fn is_compacting(&self) -> bool {
        self.compaction.lock().is_running()
    }

    /// Executes one bounded piece of work. Returns whether there was any.
    pub fn step(&self, now_ms: TimestampMs) -> Result<bool> {
        self.logs.health().run(|| {
            let worked = self.step_finish()? || self.step_most_urgent(now_ms)?;
            let freed = self.logs.directory.free_removed(!worked)?;
            let is_due = self.steps.fetch_add(1, Relaxed).is_multiple_of(STEPS_PER_LOOK);
            let looks = self.must_look.swap(false, Relaxed) || is_due || !worked;
            self.refresh_rest();
            if looks {
                self.look_at_segments();
            }
            self.has_worked.store(!looks, Relaxed);
            // A compaction may have got to its next part.
            Ok(worked || freed || self.must_look.load(Relaxed))
        })
    }

    /// Executes a step of the job that is furthest behind.
    fn step_most_urgent(&self, now_ms: TimestampMs) -> Result<bool> {
        // The other jobs look up entries.
        if self.logs.index.shards_to_load() > 0 && self.step_save()? {
            return Ok(true);
        }
        let mut jobs = [
            (self.confirm_pressure(), Job::Confirm),
            (self.clean_pressure(), Job::Clean),
            (self.merge_pressure(), Job::MergeKeys),
            (self.save_pressure(), Job::Save),
        ];
        jobs.sort_by(|one, other| other.0.total_cmp(&one.0));
        for (_, job) in jobs {
            let worked = match job {
                Job::Confirm => self.step_confirm()?,
                Job::Clean => self.step_clean(now_ms)?,
                Job::MergeKeys => self.step_merge_keys()?,
                Job::Save => self.step_save()?,
            };
            if worked {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finishes a segment, or writes redo.
    fn step_finish(&self) -> Result<bool> {
        let start = || {
            let must_flush = self.must_flush() || self.must_flush_keys();
            let is_needed = must_flush || self.logs.data.unfinished() > 0 || self.to_clean.must_end();
            Ok(is_needed.then_some(()))
        };
        self.finishing.step(start, |()| {
            if self.must_flush() {
                self.commits.run(Ledger::flush)?;
            } else if self.must_flush_keys() {
                self.commits.run(Ledger::flush_keys)?;
                self.flush_keys_requested.store(false, Relaxed);
            } else if self.to_clean.must_end() {
                self.end_segment()?;
            } else if let Some(segment) = self.logs.data.finish_step()? {
                self.commits.run(|ledger| ledger.finish(segment))?;
                self.must_look.store(true, Relaxed);
            }
            Ok(None)
        })
    }

    /// Confirms the overwrites of a segment, or searches for those that are not noted.
    fn step_confirm(&self) -> Result<bool> {
        let start = || {
            let Choice { to_confirm, of_compaction, .. } = self.choose();
            let Some(segment) = to_confirm.filter(|segment| self.logs.hold(segment)) else { return Ok(None) };
            self.is_confirming.store(true, Relaxed);
            let job = Confirming::begin(&self.logs, &segment);
            Ok(Some(ConfirmingOf { job, segment, of_compaction }))
        };
        let has_confirmed = self.confirming.step(start, |mut confirming| {
            let (removed, is_complete) = confirming.job.step(&self.logs)?;
            self.confirmed.fetch_add(removed, Relaxed);
            let heap_bytes = if is_complete { 0 } else { confirming.job.heap_bytes() };
            self.memory.confirm_bytes.store(heap_bytes as u64, Relaxed);
            if !is_complete {
                return Ok(Some(confirming));
            }
            if confirming.of_compaction {
                self.compaction.lock().confirmed(&confirming.segment);
            }
            self.confirmed_segments.fetch_add(1, Relaxed);
            self.must_look.store(true, Relaxed);
            self.is_confirming.store(false, Relaxed);
            Ok(None)
        })?;
        Ok(has_confirmed || self.step_search()?)
    }

    fn step_search(&self) -> Result<bool> {
        let start = || Ok(self.may_search().then(IndexSearch::default));
        self.searching.step(start, |search| {
            let search = search.step(&self.logs, self.unconfirmed_max.load(Relaxed))?;
            self.memory
                .search_bytes
                .store(search.as_ref().map_or(0, IndexSearch::heap_bytes) as u64, Relaxed);
            if search.is_none() {
                self.must_search.store(false, Relaxed);
                self.must_look.store(true, Relaxed);
            }
            Ok(search)
        })
    }

    /// Merges some keys of runs.
    fn step_merge_keys(&self) -> Result<bool> {
        let Some(keys) = &self.logs.keys else { return Ok(false) };
        let start = || {
            // A compaction merges what was in memory as well.
            let all = self.merge_keys_requested.load(Relaxed) && !self.flush_keys_requested.load(Relaxed);
            let records = self.logs.index.len();
            if all {
                self.merge_keys_requested.store(false, Relaxed);
            }
            if !all && !keys.must_merge(records) {
                return Ok(None);
            }
            let merge = keys.start_merge(all, records, self.commits.new_run()?);
            self.is_merging.store(merge.is_some(), Relaxed);
            Ok(merge)
        };
        // Of a shard on flash this is not known without a read; such keys stay until it is in memory.
        let is_gone = |key: &[u8]| !self.logs.index.may_contain(self.logs.hasher().hash(key).placement);
        self.merging.step(start, |mut merge| {
            let merged = merge.step(&is_gone)?;
            self.memory.key_merge_bytes.store(merge.heap_bytes() as u64, Relaxed);
            let Some(merged) = merged else { return Ok(Some(merge)) };
            self.commits.run(|ledger| ledger.merge_keys(merged))?;
            self.memory.key_merge_bytes.store(0, Relaxed);
            self.is_merging.store(false, Relaxed);
            self.key_merges.fetch_add(1, Relaxed);
            Ok(None)
        })
    }

    /// Chooses the segments to work on.
    fn choose(&self) -> Choice {
        let unconfirmed = self.logs.unconfirmed();
        self.unconfirmed.store(unconfirmed, Relaxed);
        let must_confirm = unconfirmed > self.unconfirmed_max.load(Relaxed);
        // Until then, not all overwrites are noted.
        let is_searching = self.must_search.load(Relaxed);
        let are_noted = !(is_searching || self.is_on_flash.load(Relaxed) && self.must_save());
        let mut compaction = self.compaction.lock();
        if compaction.confirms && compaction.noted_to.is_none() && are_noted {
            compaction.noted_to = Some(self.logs.data.ends());
        }
        let is_index_full = self.is_index_full.load(Relaxed);
        let choice = Choice::new(&self.logs, &self.commits, &compaction, must_confirm, is_index_full);
        if compaction.confirms && !choice.is_unconfirmed && compaction.noted_to.is_some() {
            compaction.confirms = false;
        } else if !compaction.confirms
            && compaction.is_running()
            && are_noted
            // Before that, they are not to be cleaned.
            && self.logs.data.unfinished() == 0
            && choice.victim.is_none()
            && !choice.is_any_held
        {
            compaction.end_or_repeat(unconfirmed, self.logs.data.ends());
        } else {
            return choice;
        }
        self.must_look.store(true, Relaxed);
        Choice::new(&self.logs, &self.commits, &compaction, must_confirm, is_index_full)
    }

    /// Updates what work there is on segments.
    fn look_at_segments(&self) {
        let choice = self.choose();
        self.must_confirm.store(choice.to_confirm.is_some(), Relaxed);
        self.to_clean.note(&choice, self.logs.data.bytes());
        self.has_space.store(choice.has_space, Relaxed);
    }

    /// Updates the state of the work, after a change of the memory budget.
    pub fn refresh(&self) {
        self.refresh_rest();
        self.look_at_segments();
    }

    /// Updates the state of the work, except that on segments.
    pub fn refresh_rest(&self) {
        self.memory.keep_within_budget();
        let index = &self.logs.index;
        let residency = index.residency();
        let least = self.flush_bytes().min(FLUSH_SEGMENTS * self.logs.data.segment_bytes());
        let saved_at = least.max(residency.memory_bytes).max(index.saved_bytes());
        let redo_share = index.redo_bytes() as f64 / saved_at as f64;
        self.redo_share.store(redo_share.to_bits(), Relaxed);
        let least = CHANGES_BYTES_MIN + CHANGES_BYTES_MIN_PER_SHARD * index.shards() as u64;
        let saved_at = (CHANGES_BYTES_PER_ENTRY * residency.entries as f64).max(least as f64);
        self.changes_share.store((residency.changes_bytes as f64 / saved_at).to_bits(), Relaxed);
        self.must_move.store(residency.is_moving, Relaxed);
        let index_max = self.memory.index_bytes_max();
        self.is_index_full.store(residency.memory_bytes > index_max, Relaxed);
        self.has_index_space.store(residency.memory_bytes < index_max / 8 * 7, Relaxed);
        self.is_on_flash.store(residency.memory_shards < index.shards(), Relaxed);
        self.logs.average_frames(residency.entries);
        self.unconfirmed_max.store(self.memory.unconfirmed_max(residency.entries), Relaxed);
        self.pending_bytes.store(index.pending_bytes() as u64, Relaxed);
        if let Some(keys) = &self.logs.keys {
            self.must_merge.store(keys.must_merge(residency.entries), Relaxed);
            self.merge_pressure.store(keys.pressure().to_bits(), Relaxed);
        }
    }
}
