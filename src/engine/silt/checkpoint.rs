//! A consistent copy of the database in another directory.
//!
//! 1. The commit queue is locked until the end, so no store becomes live and none is removed. Pending conversions are
//!    committed.
//! 2. All writers are locked for a moment, in which buffered frames are written and the end of the log is noted: every
//!    batch is in the copy completely or not at all.
//! 3. The live stores are shared as links, or copied. The frames of the log up to the end are verified, copied and
//!    synced.
//! 4. The manifest of the copy is written last. Without it the target is no database.

use super::commits::CommitQueue;
use super::parts::Parts;
use crate::error::Result;
use crate::store::manifest::KeptSettings;
use siltstone_device::Directory;
use siltstone_device::random_number;

/// Writes a consistent copy into an empty directory. Writers are locked only until the end of the log is known.
pub(super) fn checkpoint(parts: &Parts, target: &Directory) -> Result<()> {
    let Parts { log, partitions, commits, .. } = parts;
    // With the queue locked no store becomes live and none is removed.
    let copied = commits.run(|queue| {
        queue.commit_pending()?;
        // With all writers locked, the end is not within a batch.
        let end = partitions.with_all_writers(|| log.write_buffered().map(|()| log.end()))?;
        // A failed copy does not damage this database.
        Ok(copy_live(parts, queue, end, target))
    });
    copied?
}

/// Copies the live stores, and the log up to `end`.
fn copy_live(parts: &Parts, queue: &CommitQueue, end: u64, target: &Directory) -> Result<()> {
    for store in queue.manifest.partitions().iter().flat_map(|partition| &partition.stores) {
        parts.configuration.directory.share(&store.file_name(), target)?;
    }
    // The copy has an id of its own: once either database has been written to, its log does not fit the other.
    let database_id = random_number()?;
    parts.log.copy_to(target, database_id, queue.manifest.converted_to(), end)?;
    // It states that the log is synced up to `end`, so the copied segments were synced before.
    queue.manifest.write_copy(target, database_id, end, &KeptSettings::new())
}
