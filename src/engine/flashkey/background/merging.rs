//! Merges runs of keys in order. `store::ordered_keys` has the merge itself.
//!
//! 1. A merge begins when there are enough runs. For a compaction it takes all runs, after the keys in memory are in
//!    one as well.
//! 2. Steps merge some keys each, and the last one syncs the new run. A crash leaves the runs before, and the next open
//!    removes the file, which no manifest names.
//! 3. The manifest names the new run in place of the others. After that, their files are removed.

use super::{Jobs, KeyCounts, Look, Requests};
use crate::error::Result;
use siltstone_device::sync::atomic::Ordering::Relaxed;

impl Jobs {
    pub(super) fn key_counts(&self, look: &Look) -> KeyCounts {
        KeyCounts {
            is_begun: self.merging.is_begun(),
            must_merge: look.must_merge,
            is_requested: self.requests.has(Requests::MERGE_KEYS),
            pressure: look.merge_pressure,
        }
    }

    /// Merges some keys of runs.
    pub(super) fn step_merge_keys(&self) -> Result<bool> {
        let Some(keys) = &self.logs.keys else { return Ok(false) };
        let start = || {
            // A compaction merges what was in memory as well.
            let all = self.requests.has(Requests::MERGE_KEYS)
                && !self.requests.has(Requests::FLUSH_KEYS | Requests::FLUSHES_KEYS);
            let records = self.logs.index.len();
            if all {
                // Before the request is removed: a thread that asks in between must see the one or the other.
                self.merging.begin();
                self.requests.remove(Requests::MERGE_KEYS);
            }
            // The look that led here may be old: a merge that has ended since may have been enough.
            if !all && !keys.must_merge(records) {
                return Ok(None);
            }
            Ok(keys.start_merge(all, records, self.commits.new_run()?))
        };
        // Of a shard on flash this is not known without a read; such keys stay until it is in memory.
        let is_gone = |key: &[u8]| !self.logs.index.may_contain(self.logs.hasher().hash(key).placement);
        self.merging.step(start, |mut merge| {
            let merged = merge.step(&is_gone)?;
            self.memory.key_merge_bytes.store(merge.heap_bytes() as u64, Relaxed);
            let Some(merged) = merged else { return Ok(Some(merge)) };
            // The last step has synced the new run, so the manifest may name it.
            self.commits.run(|ledger| ledger.merge_keys(merged))?;
            self.memory.key_merge_bytes.store(0, Relaxed);
            self.ended.lock().key_merges += 1;
            Ok(None)
        })
    }
}
