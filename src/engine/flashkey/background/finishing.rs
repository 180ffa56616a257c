//! Finishes segments, and writes redo and keys.
//!
//! 1. Redo is written when the user log has grown by its share, or the changes in memory have: so an open reads little.
//! 2. Keys are written to a run when there are as many in memory as may be.
//! 3. A segment that grows ends if it is mostly dead, or too long, or if notes of it take too much of a memory budget.
//! 4. A segment that has ended is synced and committed; only then it can be cleaned.

use super::{FLUSH_CHANGE_BYTES, FLUSH_LOG_BYTES, FLUSH_SEGMENTS, KEY_LOG_BYTES, KEY_SEGMENTS};
use super::{FinishCounts, Jobs, Look, Requests};
use crate::engine::flashkey::commits::Ledger;
use crate::error::Result;

impl Jobs {
    pub(super) fn finish_counts(&self, look: &Look) -> FinishCounts {
        let changes_max = FLUSH_CHANGE_BYTES.min(self.memory.pending_bytes_max());
        FinishCounts {
            unfinished: self.logs.data.unfinished(),
            must_end: look.must_end.is_some(),
            uncovered: self.commits.uncovered_bytes() as f64 / self.flush_bytes() as f64,
            changes: look.pending_bytes as f64 / changes_max as f64,
            keys: self.unflushed_keys(),
            flushes_keys: self.requests.has(Requests::FLUSH_KEYS),
        }
    }

    pub(super) fn flush_bytes(&self) -> u64 {
        FLUSH_LOG_BYTES.min(FLUSH_SEGMENTS * self.logs.settings.segment_bytes)
    }

    /// Returns how many times as many keys are in memory as should be, or bytes of the user log that an open reads
    /// to find them.
    fn unflushed_keys(&self) -> f64 {
        let Some(keys) = &self.logs.keys else { return 0.0 };
        let log_bytes = KEY_LOG_BYTES.min(KEY_SEGMENTS * self.logs.settings.segment_bytes);
        keys.fullness().max(self.commits.unflushed_key_bytes() as f64 / log_bytes as f64)
    }

    /// Finishes a segment, or writes redo.
    pub(super) fn step_finish(&self) -> Result<bool> {
        let counts = || self.finish_counts(&self.look());
        self.finishing.step(
            || Ok(counts().is_pending().then_some(())),
            |()| {
                let counts = counts();
                if counts.must_flush() {
                    self.commits.run(Ledger::flush)?;
                } else if counts.must_flush_keys() {
                    // Before: a compaction that is requested meanwhile needs another one. In one step: until these keys
                    // are in a run, no merge may take all runs.
                    self.requests.replace(Requests::FLUSH_KEYS, Requests::FLUSHES_KEYS);
                    self.commits.run(Ledger::flush_keys)?;
                    self.requests.remove(Requests::FLUSHES_KEYS);
                } else if counts.must_end {
                    self.end_segment()?;
                } else if let Some(segment) = self.logs.data.finish_step()? {
                    // The step has synced the segment, so the manifest may name it.
                    self.commits.run(|ledger| ledger.finish(segment))?;
                    self.changes.require_look();
                }
                Ok(None)
            },
        )
    }

    /// Ends a segment that grows and that the last look chose.
    fn end_segment(&self) -> Result<()> {
        // At once, not with the next look: until then the following steps would end more segments.
        let class = self.look.write().must_end.take();
        class.map_or(Ok(()), |class| self.logs.data.start_new_segment(class))
    }
}
