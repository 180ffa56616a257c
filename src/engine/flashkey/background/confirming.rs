//! Confirms the overwrites of a segment that is not cleaned soon, and searches for those that are not noted.
//!
//! 1. A segment is chosen, one that a running compaction requires before all others. The job holds it.
//! 2. Each step confirms some of its overwrites (`confirm` has these steps). Nothing is lost in a crash.
//! 3. When all notes that the job has taken are resolved, it ends, and the next step looks for another segment.
//!
//! The search runs once per open (`search` has its steps). Until it ends, a compaction confirms nothing.

use super::{ConfirmCounts, Jobs, Look, Requests, SEGMENT_BYTES_PER_NOTE};
use crate::engine::flashkey::choice::Choice;
use crate::engine::flashkey::confirm::Confirming;
use crate::engine::flashkey::search::IndexSearch;
use crate::error::Result;
use crate::store::data_logs::SegmentInfo;
use siltstone_device::sync::atomic::Ordering::Relaxed;

/// A segment that is being confirmed, and whether a compaction requires it.
pub(super) struct ConfirmingOf {
    job: Confirming,
    segment: SegmentInfo,
    of_compaction: bool,
}

impl Jobs {
    pub(super) fn confirm_counts(&self, look: &Look) -> ConfirmCounts {
        let unconfirmed = self.logs.unconfirmed();
        // With new notes, the next look may find a segment to end.
        let may_end =
            look.must_end.is_some() || self.logs.data.unfinished() > 0 || unconfirmed > look.unconfirmed;
        ConfirmCounts {
            is_begun: self.confirming.is_begun(),
            is_any: look.must_confirm,
            may_end: unconfirmed > look.notes_max && may_end,
            unconfirmed,
            unconfirmed_then: look.unconfirmed,
            most: look.unconfirmed_max,
            least: (self.logs.settings.segment_bytes / SEGMENT_BYTES_PER_NOTE).min(look.notes_max),
        }
    }

    /// Confirms the overwrites of a segment.
    pub(super) fn step_confirm(&self) -> Result<bool> {
        let start = || {
            // Chosen again: other jobs may hold or have released segments since the last look.
            let Choice { to_confirm, of_compaction, .. } = self.choose();
            let Some(segment) = to_confirm.filter(|segment| self.logs.hold(segment)) else { return Ok(None) };
            let job = Confirming::begin(&self.logs, &segment);
            Ok(Some(ConfirmingOf { job, segment, of_compaction }))
        };
        self.confirming.step(start, |mut confirming| {
            let (removed, is_complete) = confirming.job.step(&self.logs, self.memory.transfer_bytes())?;
            let heap_bytes = if is_complete { 0 } else { confirming.job.heap_bytes() };
            self.memory.confirm_bytes.store(heap_bytes as u64, Relaxed);
            self.ended.lock().confirmed += removed;
            if !is_complete {
                return Ok(Some(confirming));
            }
            self.ended.lock().confirmed_segments += 1;
            // Before the look that this step requires, which must not choose the same segment again.
            if confirming.of_compaction {
                self.compaction.lock().confirmed(&confirming.segment);
            }
            self.changes.require_look();
            Ok(None)
        })
    }

    /// Searches a part of the index for overwrites that are not noted.
    pub(super) fn step_search(&self) -> Result<bool> {
        let start = || Ok(self.counts().searches.then(IndexSearch::default));
        self.searching.step(start, |search| {
            let search = search.step(&self.logs, self.look().unconfirmed_max)?;
            let heap_bytes = search.as_ref().map_or(0, IndexSearch::heap_bytes);
            self.memory.search_bytes.store(heap_bytes as u64, Relaxed);
            if search.is_none() {
                // After the last notes: a compaction waits for this, because it confirms what is noted.
                self.requests.remove(Requests::SEARCH);
                self.changes.require_look();
            }
            Ok(search)
        })
    }
}
