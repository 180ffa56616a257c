//! The policy of background work: which jobs have something to do, and how far each is behind. It touches no files.
//!
//! ```text
//! counts of the logs, of the index, of the last look  ->  Counts  ->  [(job, is_pending, pressure)]
//! ```

use crate::engine::jobs::Due;

/// A put waits when the keys in memory exceed their memory by this factor.
const KEY_FULLNESS_MAX: f64 = 2.0;
/// A put waits when this many segments wait to be finished, or this many times the bytes after which redo is written.
pub const WAITING_SEGMENTS_MAX: f64 = 8.0;
const WAITING_FLUSHES_MAX: f64 = 4.0;
/// A put waits when this many times as many overwrites are unconfirmed as may be.
pub const UNCONFIRMED_MAX: f64 = 2.0;
/// A put waits when the redo is this many times as long as at the begin of a save.
const REDO_MAX: f64 = 2.0;
/// A put waits when the changes of entries on flash take this many times the memory at which the index is saved.
pub const CHANGES_MAX: f64 = 1.15;

/// The kinds of jobs. Of those that are equally far behind, an earlier one runs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    /// Finishes a segment, or writes redo or keys.
    Finish,
    /// Confirms the overwrites of a segment.
    Confirm,
    /// Searches for overwrites that are not noted.
    Search,
    /// Cleans a segment.
    Clean,
    MergeKeys,
    /// Saves the index, or loads it.
    Save,
}

/// What there is to do.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub finish: FinishCounts,
    pub confirm: ConfirmCounts,
    /// Whether overwrites have to be searched for.
    pub searches: bool,
    pub clean: CleanCounts,
    pub keys: KeyCounts,
    pub save: SaveCounts,
}

impl Counts {
    /// Returns all kinds of jobs. A step tries the first one before all others: it makes the space of other jobs.
    pub fn due(&self) -> [Due<Job>; 6] {
        let Counts { finish, confirm, searches, clean, keys, save } = self;
        // A segment that grows may have to end before one can be cleaned: a step finds out.
        let must_find_end = clean.pressure() >= 1.0 && !clean.is_pending() && clean.is_changed;
        let due = |job, is_pending, pressure| Due { job, is_pending, pressure };
        [
            due(Job::Finish, finish.is_pending() || must_find_end, finish.pressure()),
            due(Job::Confirm, confirm.is_pending(), confirm.pressure()),
            due(Job::Search, *searches, 0.0),
            due(Job::Clean, clean.is_pending(), clean.pressure()),
            due(Job::MergeKeys, keys.is_pending(), keys.pressure),
            due(Job::Save, save.is_pending(), save.pressure()),
        ]
    }
}

/// Segments, redo and keys that are to be written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FinishCounts {
    /// The number of segments that do not grow any more and are not finished.
    pub unfinished: u64,
    /// Whether a segment that grows has to end.
    pub must_end: bool,
    /// The bytes of the user log that redo does not cover, and those of changes that are not in redo, as shares of what
    /// they are written at.
    pub uncovered: f64,
    pub changes: f64,
    /// The same of keys in memory, and whether they are to be written in any case.
    pub keys: f64,
    pub flushes_keys: bool,
}

impl FinishCounts {
    /// Returns whether redo has to be written.
    pub fn must_flush(&self) -> bool {
        self.uncovered >= 1.0 || self.changes >= 1.0
    }

    /// Returns whether keys have to be written to a run.
    pub fn must_flush_keys(&self) -> bool {
        self.flushes_keys || self.keys >= 1.0
    }

    pub fn is_pending(&self) -> bool {
        self.unfinished > 0 || self.must_end || self.must_flush() || self.must_flush_keys()
    }

    fn pressure(&self) -> f64 {
        let segments = self.unfinished as f64 / WAITING_SEGMENTS_MAX;
        let redo = self.uncovered.max(self.changes) / WAITING_FLUSHES_MAX;
        segments.max(redo).max(self.keys / KEY_FULLNESS_MAX)
    }
}

/// Unconfirmed overwrites.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConfirmCounts {
    pub is_begun: bool,
    /// Whether the last look found a segment with some.
    pub is_any: bool,
    /// Whether there are more than a memory budget has place for, and a segment ends so that some can be confirmed.
    pub may_end: bool,
    /// Their number now, and at the last look.
    pub unconfirmed: u64,
    pub unconfirmed_then: u64,
    /// How many there may be before some are confirmed, and before writes wait, if that is more.
    pub most: u64,
    pub least: u64,
}

impl ConfirmCounts {
    fn is_pending(&self) -> bool {
        // There may be more in segments that are not finished, or that are being cleaned.
        let are_new = self.unconfirmed > self.unconfirmed_then;
        self.is_begun || self.is_any || are_new && self.unconfirmed > self.most
    }

    fn pressure(&self) -> f64 {
        // Those of segments that are not finished, or that are being cleaned, are not waited for.
        if !self.is_begun && !self.is_any && !self.may_end {
            return 0.0;
        }
        self.unconfirmed as f64 / (UNCONFIRMED_MAX * self.most.max(self.least) as f64)
    }
}

/// Dead bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CleanCounts {
    pub is_begun: bool,
    /// Whether the last look found a segment to clean, and one to clean as soon as there is an excess.
    pub is_any: bool,
    pub is_any_dirty: bool,
    /// The live bytes of the segment that is cleaned next.
    pub live: u64,
    /// How far full logs are behind, or those in a file system that is short of space, by the last look.
    pub found: f64,
    /// Records leave the logs.
    pub recycles: bool,
    /// By how much finished segments exceed their space, in bytes and as a share of what it may be.
    pub excess: f64,
    pub excess_share: f64,
    /// How close all bytes are to the bound of the logs.
    pub bound: f64,
    /// What could free some bytes, besides a cleaning: a segment that is not finished, or one that has to end.
    pub may_finish: bool,
    /// Whether something was written since the last look.
    pub is_changed: bool,
}

impl CleanCounts {
    /// Returns whether a segment is being cleaned or has to be.
    pub fn is_pending(&self) -> bool {
        // The segment to which records were moved may make the share of dead bytes small before a cleaning ends.
        self.is_begun || self.is_any || self.is_any_dirty && self.excess > 0.0
    }

    pub fn pressure(&self) -> f64 {
        // With records that leave, only the look compares the bytes with what flash may have: no excess is counted.
        if self.recycles {
            return self.found;
        }
        let cleans = self.is_pending();
        let pressure = if cleans { self.found.max(self.excess_share) } else { self.found };
        // What cannot be changed is not waited for.
        let may_free = cleans || self.may_finish || self.is_changed;
        if may_free { pressure.max(self.bound) } else { pressure }
    }
}

/// Runs of keys.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KeyCounts {
    pub is_begun: bool,
    pub must_merge: bool,
    pub is_requested: bool,
    pub pressure: f64,
}

impl KeyCounts {
    fn is_pending(&self) -> bool {
        self.is_begun || self.must_merge || self.is_requested
    }
}

/// The index.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SaveCounts {
    pub is_begun: bool,
    pub is_requested: bool,
    /// Redo, and the memory of changes of entries on flash, as shares of what they are when the index is saved.
    pub redo: f64,
    pub changes: f64,
    /// Whether entries have to be moved between memory and flash.
    pub must_move: bool,
    /// How short the budget's memory is, which entries give back when they are moved to flash.
    pub shortage: f64,
    pub shards_to_load: usize,
}

impl SaveCounts {
    pub fn is_pending(&self) -> bool {
        let is_long = self.redo > 1.0 || self.changes > 1.0;
        self.is_begun || self.is_requested || is_long || self.must_move || self.shards_to_load > 0
    }

    fn pressure(&self) -> f64 {
        let pressure = (self.redo / REDO_MAX).max(self.changes / CHANGES_MAX);
        // Memory that a save cannot give back is not waited for.
        if self.must_move { pressure.max(self.shortage) } else { pressure }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &Counts, job: Job) -> Due<Job> {
        *counts.due().iter().find(|due| due.job == job).unwrap()
    }

    fn pending(counts: &Counts) -> Vec<Job> {
        counts.due().iter().filter(|due| due.is_pending).map(|due| due.job).collect()
    }

    #[test]
    fn without_work_no_job_is_pending_and_no_write_waits() {
        assert_eq!(pending(&Counts::default()), []);
        assert!(Counts::default().due().iter().all(|due| due.pressure.is_nan() || due.pressure <= 0.0));
    }

    #[test]
    fn each_kind_of_work_is_pending_by_its_own_counts() {
        let finish = |finish| Counts { finish, ..Counts::default() };
        for counts in [
            finish(FinishCounts { unfinished: 1, ..FinishCounts::default() }),
            finish(FinishCounts { changes: 1.0, ..FinishCounts::default() }),
            finish(FinishCounts { keys: 1.0, ..FinishCounts::default() }),
            finish(FinishCounts { must_end: true, ..FinishCounts::default() }),
        ] {
            assert_eq!(pending(&counts), [Job::Finish], "{counts:?}");
        }
        let save = SaveCounts { redo: 1.1, ..SaveCounts::default() };
        assert_eq!(pending(&Counts { save, ..Counts::default() }), [Job::Save]);
        let keys = KeyCounts { is_requested: true, ..KeyCounts::default() };
        assert_eq!(pending(&Counts { keys, ..Counts::default() }), [Job::MergeKeys]);
        assert_eq!(pending(&Counts { searches: true, ..Counts::default() }), [Job::Search]);
    }

    #[test]
    fn overwrites_that_no_segment_has_are_not_waited_for() {
        let confirm = |unconfirmed, is_any| {
            let confirm = ConfirmCounts {
                is_any,
                unconfirmed,
                unconfirmed_then: 150,
                most: 100,
                least: 50,
                ..Default::default()
            };
            of(&Counts { confirm, ..Counts::default() }, Job::Confirm)
        };
        assert_eq!(confirm(150, false), Due { job: Job::Confirm, is_pending: false, pressure: 0.0 });
        assert_eq!(confirm(151, false), Due { job: Job::Confirm, is_pending: true, pressure: 0.0 });
        assert_eq!(confirm(200, true), Due { job: Job::Confirm, is_pending: true, pressure: 1.0 });
    }

    #[test]
    fn writes_wait_at_the_bound_of_the_logs_only_if_something_can_free_bytes() {
        let full = CleanCounts { bound: 1.0, excess_share: 0.5, excess: 1.0, ..CleanCounts::default() };
        let clean = |clean| of(&Counts { clean, ..Counts::default() }, Job::Clean);
        assert_eq!(clean(full).pressure, 0.0);
        assert_eq!(clean(CleanCounts { is_any_dirty: true, ..full }).pressure, 1.0);
        assert_eq!(clean(CleanCounts { may_finish: true, ..full }).pressure, 1.0);
        assert!(!clean(CleanCounts { may_finish: true, ..full }).is_pending);
        assert_eq!(clean(CleanCounts { is_any: true, bound: 0.0, ..full }).pressure, 0.5);
        // Records that leave make space: only full logs are waited for.
        assert_eq!(clean(CleanCounts { recycles: true, is_any: true, found: 0.3, ..full }).pressure, 0.3);
    }

    #[test]
    fn a_segment_that_grows_is_looked_at_when_writes_wait_and_none_can_be_cleaned() {
        let clean = CleanCounts { bound: 1.0, is_changed: true, ..CleanCounts::default() };
        assert_eq!(pending(&Counts { clean, ..Counts::default() }), [Job::Finish]);
        let clean = CleanCounts { is_any: true, ..clean };
        assert_eq!(pending(&Counts { clean, ..Counts::default() }), [Job::Clean]);
    }
}
