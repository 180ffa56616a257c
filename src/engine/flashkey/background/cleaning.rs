//! When a segment is cleaned, and when writes wait for that.

use super::{CleanCounts, Jobs, Look};
use crate::batch::TimestampMs;
use crate::engine::flashkey::choice::Choice;
use crate::engine::flashkey::clean::Cleaning;
use crate::error::Result;

impl Jobs {
    pub(super) fn clean_counts(&self, look: &Look) -> CleanCounts {
        let logs = &self.logs;
        CleanCounts {
            is_begun: self.cleanings.is_any_begun(),
            is_any: look.must_clean,
            is_any_dirty: look.is_any_dirty,
            live: look.live,
            found: look.clean_pressure,
            recycles: logs.settings.recycling.is_some(),
            excess: logs.excess(),
            excess_share: logs.excess_pressure(),
            bound: logs.bound_pressure(),
            may_finish: logs.data.unfinished() > 0 || look.must_end,
            is_changed: logs.data.bytes() != look.log_bytes,
        }
    }

    /// Returns how far behind cleaning is, if two segments may be cleaned at once. Records leave one segment at a time.
    pub(super) fn pressure_of_second_cleaning(&self, counts: &CleanCounts) -> f64 {
        let may_begin = (counts.is_any || counts.is_any_dirty) && self.logs.may_move(counts.live);
        if may_begin && !counts.recycles { counts.pressure() } else { 0.0 }
    }

    pub(super) fn step_clean(&self, now_ms: TimestampMs) -> Result<bool> {
        // The store below has to catch up first.
        if self.logs.below.as_ref().is_some_and(|below| below.pressure() >= 1.0) {
            return Ok(false);
        }
        let start = || {
            let Choice { victim, live, fate, .. } = self.choose();
            // A second cleaning writes its copies before the first one frees its segment.
            let is_possible = !self.cleanings.is_any_begun() || self.logs.may_move(live);
            victim
                .filter(|segment| is_possible && self.logs.hold(segment))
                .map(|segment| Cleaning::begin(&self.logs, segment, live, fate))
        };
        let compacts = self.is_compacting();
        let pressure = self.pressure_of_second_cleaning(&self.clean_counts(&self.look()));
        self.cleanings.step(pressure, start, |mut cleaning, number| {
            cleaning.compacts |= compacts;
            let buffered = &self.memory.clean_bytes[number];
            let moves = cleaning.moves_what_may_leave(&self.logs);
            let piece_bytes = self.memory.transfer_bytes() as usize;
            let step = cleaning.step(&self.logs, &self.commits, now_ms, piece_bytes, buffered)?;
            self.ended.lock().confirmed += step.confirmed;
            if moves && step.next.is_none() {
                self.extend_compaction()?;
            }
            if step.next.is_none() {
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
