//! Background work: which job runs next, one bounded step at a time.
//!
//! 1. `counts` computes from numbers which jobs have something to do, and how far each is behind.
//! 2. A step is of the job that is furthest behind. A job works on one segment, or on one part of the index or of the
//!    keys, in bounded steps.
//! 3. When a job has ended, and once in some steps, the segments are looked at: what there is to clean and to confirm.
//!    Everything else is counted after each step.

use super::choice::{Choice, Compaction};
use super::clean::{CLEANINGS_MAX, Cleaning};
use super::commits::Commits;
use super::indexed_logs::IndexedLogs;
use super::memory::Memory;
use super::search::IndexSearch;
use crate::batch::TimestampMs;
use crate::engine::jobs::{JobSlot, JobSlots, step_furthest_behind};
use crate::error::Result;
use crate::store::ordered_keys::KeyMerge;
use siltstone_device::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use siltstone_device::sync::{Mutex, RwLock};
use std::sync::Arc;

mod cleaning;
mod confirming;
mod counts;
mod finishing;
mod merging;
mod saving;

use confirming::ConfirmingOf;
pub use counts::{CHANGES_MAX, UNCONFIRMED_MAX, WAITING_SEGMENTS_MAX};
use counts::{CleanCounts, ConfirmCounts, Counts, FinishCounts, Job, KeyCounts, SaveCounts};
use saving::Saving;

/// The changes of the index are written to redo after this many bytes of the user log, or segments if these are
/// smaller, and after this many bytes of changes.
pub const FLUSH_LOG_BYTES: u64 = 64 << 20;
pub const FLUSH_SEGMENTS: u64 = 2;
pub const FLUSH_CHANGE_BYTES: u64 = 4 << 20;
/// Keys in memory are written to a run after this many bytes of the user log, or segments if these are smaller: an
/// open reads as many.
const KEY_LOG_BYTES: u64 = 256 << 20;
const KEY_SEGMENTS: u64 = 8;
/// Of a small database, one overwrite for this many bytes of a segment may be unconfirmed before writes wait.
const SEGMENT_BYTES_PER_NOTE: u64 = 64;
/// All segments are looked at once in this many steps, if no job has ended.
const STEPS_PER_LOOK: u64 = 16;
/// The index is saved when the changes of entries on flash take this much memory per entry, in bytes, or this much.
pub const CHANGES_BYTES_PER_ENTRY: f64 = 0.23;
pub const CHANGES_BYTES_MIN: u64 = 32 << 10;
pub const CHANGES_BYTES_MIN_PER_SHARD: u64 = 1 << 10;

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

/// The jobs, at most one of each kind but for cleanings.
pub(crate) struct Jobs {
    logs: Arc<IndexedLogs>,
    commits: Arc<Commits>,
    memory: Arc<Memory>,
    finishing: JobSlot<()>,
    cleanings: JobSlots<Cleaning>,
    searching: JobSlot<IndexSearch>,
    confirming: JobSlot<ConfirmingOf>,
    saving: JobSlot<Saving>,
    merging: JobSlot<KeyMerge>,
    compaction: Mutex<Compaction>,
    requests: Requests,
    changes: Changes,
    look: RwLock<Look>,
    ended: Mutex<Ended>,
}

/// How much work has ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ended {
    /// The number of segments that were cleaned.
    pub cleaned: u64,
    /// The number of entries that were removed because a newer one replaces them.
    pub confirmed: u64,
    /// The number of segments that were confirmed without being cleaned.
    pub confirmed_segments: u64,
    /// How often the index was saved.
    pub saves: u64,
    /// The number of merges of keys.
    pub key_merges: u64,
}

/// What the last look has found. Writes change it only a little: it is read with each of them.
#[derive(Debug, Clone, Copy, Default)]
struct Look {
    /// Whether there is a segment to confirm, and how many overwrites were unconfirmed.
    must_confirm: bool,
    unconfirmed: u64,
    /// Whether there is a segment to clean, and one to clean as soon as finished ones exceed their space.
    must_clean: bool,
    is_any_dirty: bool,
    /// The live bytes of the segment that is cleaned next.
    live: u64,
    /// How far the cleaning of full logs is behind, or of those in a file system that is short of space.
    clean_pressure: f64,
    /// The class whose growing segment has to end, so that it can be cleaned or confirmed.
    must_end: Option<u8>,
    /// All bytes of the logs.
    log_bytes: u64,
    /// Whether the logs will not be full for a while.
    has_space: bool,
    /// Whether the index takes more memory than its share, and whether it takes clearly less.
    is_index_full: bool,
    has_index_space: bool,
    /// Whether a part of the index is on flash, and whether entries have to be moved between memory and flash.
    is_on_flash: bool,
    must_move: bool,
    /// How short the budget's memory is.
    shortage: f64,
    /// How many overwrites may be unconfirmed, and of how many the memory budget has place for the notes.
    unconfirmed_max: u64,
    notes_max: u64,
    /// The bytes of changes that are not in redo.
    pending_bytes: u64,
    /// Redo, and the memory of changes of entries on flash, as shares of what they are when the index is saved.
    redo_share: f64,
    changes_share: f64,
    /// Whether runs of keys have to be merged, and how far that is behind.
    must_merge: bool,
    merge_pressure: f64,
}

/// Work that is done in any case.
struct Requests(AtomicU8);

impl Requests {
    /// Overwrites that are not noted have to be searched for.
    const SEARCH: u8 = 1;
    /// The index has to be saved, the keys in memory written to a run, and all runs merged: by a compaction.
    const SAVE: u8 = 2;
    const FLUSH_KEYS: u8 = 4;
    const MERGE_KEYS: u8 = 8;
    /// Keys are being written to a run.
    const FLUSHES_KEYS: u8 = 16;

    fn add(&self, requests: u8) {
        self.0.fetch_or(requests, Relaxed);
    }

    fn remove(&self, requests: u8) {
        self.0.fetch_and(!requests, Relaxed);
    }

    /// Replaces one by the other, so that no thread sees neither.
    fn replace(&self, old: u8, new: u8) {
        let _ = self.0.fetch_update(Relaxed, Relaxed, |requests| Some(requests & !old | new));
    }

    /// Returns whether there is any of these.
    fn has(&self, requests: u8) -> bool {
        self.0.load(Relaxed) & requests != 0
    }
}

/// What has changed, in steps, and which part of it the last look has seen. A count, so that what a step does during
/// the look of another thread is not missed.
#[derive(Default)]
struct Changes {
    made: AtomicU64,
    seen: AtomicU64,
}

impl Changes {
    fn note_step(&self) {
        self.made.fetch_add(1, Relaxed);
    }

    /// Notes that a job has ended, or that a compaction has got to its next part: the next step looks.
    fn require_look(&self) {
        self.made.fetch_add(STEPS_PER_LOOK, Relaxed);
    }

    fn unseen(&self) -> u64 {
        self.made.load(Relaxed).saturating_sub(self.seen.load(Relaxed))
    }

    fn must_look(&self) -> bool {
        self.unseen() >= STEPS_PER_LOOK
    }
}

impl Jobs {
    pub fn new(logs: &Arc<IndexedLogs>, commits: &Arc<Commits>, memory: &Arc<Memory>) -> Jobs {
        let health = logs.health();
        // Notes are not durable, so the overwrites from before this open have to be found.
        let requests = if logs.index.is_empty() { 0 } else { Requests::SEARCH };
        let jobs = Jobs {
            logs: logs.clone(),
            commits: commits.clone(),
            memory: memory.clone(),
            finishing: JobSlot::new("end of a segment", health),
            cleanings: JobSlots::new("cleaning", health, CLEANINGS_MAX),
            searching: JobSlot::new("search of overwrites", health),
            confirming: JobSlot::new("confirmation of overwrites", health),
            saving: JobSlot::new("save of the index", health),
            merging: JobSlot::new("merge of keys", health),
            compaction: Mutex::default(),
            requests: Requests(AtomicU8::new(requests)),
            changes: Changes::default(),
            look: RwLock::default(),
            ended: Mutex::default(),
        };
        jobs.refresh();
        jobs
    }

    fn look(&self) -> Look {
        *self.look.read()
    }

    /// Returns what there is to do. Costs a lock and some atomic loads.
    fn counts(&self) -> Counts {
        let look = self.look();
        Counts {
            finish: self.finish_counts(&look),
            confirm: self.confirm_counts(&look),
            // Once the entries are where they are to be.
            searches: self.requests.has(Requests::SEARCH) && self.logs.index.shards_to_load() == 0,
            clean: self.clean_counts(&look),
            keys: self.key_counts(&look),
            save: self.save_counts(&look),
        }
    }

    fn is_running(&self, job: Job, counts: &Counts) -> bool {
        match job {
            Job::Finish => self.finishing.is_running(),
            Job::Confirm => self.confirming.is_running(),
            Job::Search => self.searching.is_running(),
            Job::Clean => self.cleanings.are_running(self.takes_second_cleaning(&counts.clean)),
            Job::MergeKeys => self.merging.is_running(),
            Job::Save => self.saving.is_running(),
        }
    }

    /// Returns the state of the background work.
    pub fn work(&self) -> Work {
        let counts = self.counts();
        let due = counts.due();
        let is_running = |job| self.is_running(job, &counts);
        let mut pending = due.iter().filter(|due| due.is_pending).peekable();
        // Each step also frees the space of removed files.
        let frees = self.logs.directory.unfreed_bytes() > 0;
        // A step finds out whether there is work on segments.
        let is_unknown =
            self.changes.unseen() > 0 || counts.confirm.unconfirmed != counts.confirm.unconfirmed_then;
        let is_pending = frees || is_unknown || pending.peek().is_some();
        let wants_thread =
            pending.any(|due| !is_running(due.job)) || frees && !due.iter().any(|due| is_running(due.job));
        let pressure = due.iter().map(|due| due.pressure).fold(0.0, f64::max);
        Work { is_pending, wants_thread, pressure }
    }

    /// Returns whether logs whose records may leave are not full, nor were a short time ago: a recycling makes little
    /// space, which new records need.
    pub fn has_space(&self) -> bool {
        let look = self.look();
        look.has_space && look.has_index_space
    }

    /// Returns how much other work has ended.
    pub fn ended(&self) -> Ended {
        *self.ended.lock()
    }

    /// Requests that every dead byte that is in the logs now is removed, and that the index is saved. The following
    /// steps do it.
    pub fn request_compaction(&self) -> Result<()> {
        // Only a finished segment is cleaned, so what is there now must end.
        self.logs.with_all_writers(|| self.logs.data.start_new_segments())?;
        *self.compaction.lock() = Compaction::of(self.logs.data.ends());
        let of_keys = Requests::FLUSH_KEYS | Requests::MERGE_KEYS;
        self.requests.add(Requests::SAVE | if self.logs.keys.is_some() { of_keys } else { 0 });
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
            if worked {
                self.changes.note_step();
            }
            let freed = self.logs.directory.free_removed(!worked)?;
            self.refresh_rest();
            if !worked || self.changes.must_look() {
                self.look_at_segments();
            }
            // A compaction may have got to its next part.
            Ok(worked || freed || self.changes.must_look())
        })
    }

    /// Executes a step of the job that is furthest behind.
    fn step_most_urgent(&self, now_ms: TimestampMs) -> Result<bool> {
        // The other jobs look up entries.
        if self.logs.index.shards_to_load() > 0 && self.step_save()? {
            return Ok(true);
        }
        step_furthest_behind(self.counts().due(), |job| match job {
            // Before all others: a segment that is not finished keeps others from work.
            Job::Finish => Ok(false),
            Job::Confirm => self.step_confirm(),
            Job::Search => self.step_search(),
            Job::Clean => self.step_clean(now_ms),
            Job::MergeKeys => self.step_merge_keys(),
            Job::Save => self.step_save(),
        })
    }

    /// Chooses the segments to work on.
    fn choose(&self) -> Choice {
        let unconfirmed = self.logs.unconfirmed();
        // A copy: each write reads the look, so its lock is not held while all segments are examined.
        let look = {
            let mut look = self.look.write();
            look.unconfirmed = unconfirmed;
            *look
        };
        let must_confirm = unconfirmed > look.unconfirmed_max;
        let has_many_notes = unconfirmed > look.notes_max;
        // Until then, not all overwrites are noted.
        let is_searching = self.requests.has(Requests::SEARCH);
        let are_noted = !(is_searching || look.is_on_flash && self.save_counts(&look).is_pending());
        // Held to the end of the function, so of several threads one takes the compaction a part further.
        let mut compaction = self.compaction.lock();
        if compaction.confirms && compaction.noted_to.is_none() && are_noted {
            compaction.noted_to = Some(self.logs.data.ends());
        }
        let choose = |compaction: &Compaction| {
            let is_index_full = look.is_index_full;
            Choice::new(&self.logs, &self.commits, compaction, must_confirm, has_many_notes, is_index_full)
        };
        let choice = choose(&compaction);
        if compaction.confirms && !choice.is_unconfirmed && compaction.noted_to.is_some() {
            // All that is dead is known by now, so the segments with dead bytes can be chosen.
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
        self.changes.require_look();
        // The compaction has got to its next part, and that may require another segment.
        choose(&compaction)
    }

    /// Updates what work there is on segments.
    fn look_at_segments(&self) {
        // Read before: what changes during the look is looked at again.
        let (made, log_bytes) = (self.changes.made.load(Relaxed), self.logs.data.bytes());
        let choice = self.choose();
        let mut look = self.look.write();
        // Another thread may have looked later and faster. Its look stays.
        if self.changes.seen.load(Relaxed) <= made {
            look.must_confirm = choice.to_confirm.is_some();
            look.must_clean = choice.victim.is_some();
            look.is_any_dirty = choice.is_any_dirty;
            look.live = choice.live;
            look.clean_pressure = choice.clean_pressure;
            look.must_end = choice.must_end;
            look.log_bytes = log_bytes;
            look.has_space = choice.has_space;
            self.changes.seen.store(made, Relaxed);
        }
    }

    /// Updates the state of the work, after a change of the memory budget.
    pub fn refresh(&self) {
        self.refresh_rest();
        self.look_at_segments();
    }

    /// Updates the state of the work, except that on segments.
    pub fn refresh_rest(&self) {
        // First: this decides how many shards are to be in memory, and `is_moving` compares with that.
        self.memory.keep_within_budget();
        let index = &self.logs.index;
        let residency = index.residency();
        let least = self.flush_bytes().min(FLUSH_SEGMENTS * self.logs.data.segment_bytes());
        let redo_max = least.max(residency.memory_bytes).max(index.saved_bytes());
        let least = CHANGES_BYTES_MIN + CHANGES_BYTES_MIN_PER_SHARD * index.shards() as u64;
        let changes_max = (CHANGES_BYTES_PER_ENTRY * residency.entries as f64).max(least as f64);
        let index_max = self.memory.index_bytes_max();
        let entries = residency.entries;
        let keys = self.logs.keys.as_ref().map(|keys| (keys.must_merge(entries), keys.pressure()));
        let (must_merge, merge_pressure) = keys.unwrap_or_default();
        let (redo_bytes, pending_bytes) = (index.redo_bytes(), index.pending_bytes() as u64);
        let is_on_flash = residency.memory_shards < index.shards();
        self.logs.average_frames(entries);
        let mut look = self.look.write();
        look.redo_share = redo_bytes as f64 / redo_max as f64;
        look.changes_share = residency.changes_bytes as f64 / changes_max;
        look.must_move = residency.is_moving;
        look.shortage = self.memory.shortage();
        look.is_index_full = residency.memory_bytes > index_max;
        // Clearly less than the limit: otherwise the next puts would make it full again.
        look.has_index_space = residency.memory_bytes < index_max / 8 * 7;
        look.is_on_flash = is_on_flash;
        look.unconfirmed_max = self.memory.unconfirmed_max(entries);
        look.notes_max = self.memory.notes_max();
        look.pending_bytes = pending_bytes;
        look.must_merge = must_merge;
        look.merge_pressure = merge_pressure;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_during_a_look_is_looked_at_again() {
        let changes = Changes::default();
        changes.note_step();
        assert!(changes.unseen() == 1 && !changes.must_look());
        let made = changes.made.load(Relaxed);
        changes.note_step();
        changes.seen.store(made, Relaxed);
        assert_eq!(changes.unseen(), 1);
        changes.require_look();
        assert!(changes.must_look());
    }
}
