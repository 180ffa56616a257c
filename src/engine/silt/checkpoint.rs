//! A consistent copy of the database in another directory.

use super::commits::{CommitQueue, Commits};
use super::configuration::Configuration;
use super::partition::Partitions;
use crate::device::Directory;
use crate::device::random_number;
use crate::error::Result;
use crate::store::log::Log;
use crate::store::manifest::KeptSettings;

/// Writes a consistent copy into an empty directory. Writers are locked only until the end of the log is known.
pub(super) fn checkpoint(
    configuration: &Configuration,
    log: &Log,
    partitions: &Partitions,
    commits: &Commits,
    target: &Directory,
) -> Result<()> {
    // With the queue locked no store becomes live and none is removed.
    let copied = commits.run(|queue| {
        queue.commit_pending()?;
        let end = partitions.with_all_writers(|| log.write_buffered().map(|()| log.end()))?;
        // A failed copy does not damage this database.
        Ok(copy_live(configuration, log, queue, end, target))
    });
    copied?
}

/// Copies the live stores, and the log up to `end`.
fn copy_live(
    configuration: &Configuration,
    log: &Log,
    queue: &CommitQueue,
    end: u64,
    target: &Directory,
) -> Result<()> {
    for store in queue.manifest.partitions().iter().flat_map(|partition| &partition.stores) {
        configuration.directory.share(&store.file_name(), target)?;
    }
    // The copy has an id of its own: once either database has been written to, its log does not fit the other.
    let database_id = random_number()?;
    log.copy_to(target, database_id, queue.converted_to(), end)?;
    queue.manifest.write_copy(target, database_id, end, &KeptSettings::new())
}
