//! The free space that logs leave to deletes and background work.

use super::clean::CLEANINGS_MAX;
use super::commits::Commits;
use super::indexed_logs::IndexedLogs;
use crate::engine::jobs::{check_space, is_short, reserve_bytes};
use crate::error::Result;

impl IndexedLogs {
    /// Returns an error if puts of this many bytes would leave less than the reserve and `owed` bytes, otherwise how
    /// many more may be put before the space is measured again.
    pub fn check_space(&self, bytes: u64, owed: u64) -> Result<u64> {
        check_space(&self.directory, bytes, || self.reserve_bytes().saturating_add(owed))
    }

    /// Returns how many bytes puts leave free. A cleaning writes at most the bytes of a segment before it frees one. A
    /// save writes a new index before it frees the old one and its redo, which is as long when the save begins. A merge
    /// of keys writes at most all of them.
    pub fn reserve_bytes(&self) -> u64 {
        let cleaned = CLEANINGS_MAX as u64 * self.data.segment_bytes();
        let index = self.index.heap_bytes().max(self.index.saved_bytes() as usize) as u64;
        let saved = 2 * index.max(self.data.segment_bytes());
        let keys = self.keys.as_ref().map_or(0, |keys| keys.disk_bytes() + keys.table_bytes_max());
        reserve_bytes(self.live_bytes(), cleaned + saved + keys)
    }

    /// Returns whether the file system has less than the reserve.
    pub(super) fn is_short(&self) -> bool {
        is_short(&self.directory, self.reserve_bytes())
    }

    /// Returns the bytes that a checkpoint copies because they cannot be shared, about.
    pub fn bytes_to_copy(&self, commits: &Commits) -> u64 {
        let unfinished = self.data.ends().into_iter().zip(commits.finished_to());
        let unfinished: u64 = unfinished.map(|(end, finished)| end.saturating_sub(finished)).sum();
        unfinished + self.index.redo_bytes()
    }
}
