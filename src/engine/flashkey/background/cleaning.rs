//! When a segment is cleaned, and when writes wait for that.
//!
//! 1. A look at all segments chooses one. The job holds it, so no other job works on it.
//! 2. Each step cleans a piece of it (`clean` has these steps).
//! 3. If cleaning is far behind, a second segment is cleaned at the same time. There must be space for the copies of
//!    both, because neither segment is free before its own job has ended.
//! 4. When a job has ended, the next step looks again. Over a store below, a running compaction is extended to what the
//!    job has moved.

use super::{CleanCounts, Jobs, Look};
use crate::batch::TimestampMs;
use crate::engine::flashkey::choice::Choice;
use crate::engine::flashkey::clean::Cleaning;
use crate::engine::jobs::FURTHER_PRESSURE;
use crate::error::Result;

impl Jobs {
    pub(super) fn clean_counts(&self, look: &Look) -> CleanCounts {
        let logs = &self.logs;
        CleanCounts {
            is_begun: self.cleanings.begun() > 0,
            is_any: look.must_clean,
            is_any_dirty: look.is_any_dirty,
            live: look.live,
            found: look.clean_pressure,
            recycles: logs.settings.recycling.is_some(),
            excess: logs.excess(),
            excess_share: logs.excess_pressure(),
            bound: logs.bound_pressure(),
            may_finish: logs.data.unfinished() > 0 || look.must_end.is_some(),
            is_changed: logs.data.bytes() != look.log_bytes,
        }
    }

    /// Returns whether a second segment may be cleaned besides the first one. Records leave one segment at a time.
    pub(super) fn takes_second_cleaning(&self, counts: &CleanCounts) -> bool {
        let may_begin = (counts.is_any || counts.is_any_dirty) && self.logs.may_move(counts.live);
        may_begin && !counts.recycles && counts.pressure() >= FURTHER_PRESSURE
    }

    pub(super) fn step_clean(&self, now_ms: TimestampMs) -> Result<bool> {
        // The store below has to catch up first.
        if self.logs.below.as_ref().is_some_and(|below| below.pressure() >= 1.0) {
            return Ok(false);
        }
        let compacts = self.is_compacting();
        let start = |_| {
            let Choice { victim, live, fate, .. } = self.choose();
            // A second cleaning writes its copies before the first one frees its segment.
            let is_possible = self.cleanings.begun() == 0 || self.logs.may_move(live);
            let victim = victim.filter(|segment| is_possible && self.logs.hold(segment));
            let begin = |segment| Cleaning::begin(&self.logs, segment, live, fate).in_compaction(compacts);
            Ok(victim.map(begin))
        };
        let is_urgent = self.takes_second_cleaning(&self.clean_counts(&self.look()));
        self.cleanings.step(is_urgent, start, |mut cleaning, number| {
            cleaning.compacts |= compacts;
            let buffered = &self.memory.clean_bytes[number];
            let moves = cleaning.moves_what_may_leave(&self.logs);
            let piece_bytes = self.memory.transfer_bytes() as usize;
            let step = cleaning.step(&self.logs, &self.commits, now_ms, piece_bytes, buffered)?;
            let is_done = step.next.is_none();
            {
                let mut ended = self.ended.lock();
                ended.confirmed += step.confirmed;
                ended.cleaned += u64::from(is_done);
            }
            // Once, at the end: until then the copies have no last place that one extension could reach.
            if moves && is_done {
                self.extend_compaction()?;
            }
            if is_done {
                self.changes.require_look();
            }
            Ok(step.next)
        })
    }

    /// Lets a running compaction reach what a cleaning that began before it has moved behind its end.
    fn extend_compaction(&self) -> Result<()> {
        if self.is_compacting() {
            self.logs.with_all_writers(|| self.logs.data.start_new_segments())?;
            self.compaction.lock().extend(self.logs.data.ends());
        }
        Ok(())
    }
}
