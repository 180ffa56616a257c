//! A consistent copy of the database in another directory.

use super::commits::{Commits, Ledger};
use super::indexed_logs::IndexedLogs;
use crate::error::Result;
use crate::store::data_logs::{CLASSES, USER};
use crate::store::manifest::KeptSettings;
use siltstone_device::{Directory, random_number};

/// The end of each log.
type Ends = [u64; CLASSES];

/// Writes a consistent copy into an empty directory. Finished segments and the saved index are shared, the rest is
/// copied. Writers are locked only until the ends of the logs are known. The copy keeps `settings`.
pub(crate) fn checkpoint(
    logs: &IndexedLogs,
    commits: &Commits,
    target: &Directory,
    settings: &KeptSettings,
) -> Result<()> {
    // With the ledger locked no segment is finished or released, and no redo is written.
    let copied = commits.run(|ledger| {
        let covered = ledger.flush()?;
        // A failed copy does not damage this database.
        Ok(copy_live(logs, ledger, &covered, target, settings))
    });
    copied?
}

/// Copies the logs up to `covered`, and the redo that covers them.
fn copy_live(
    logs: &IndexedLogs,
    ledger: &Ledger,
    covered: &Ends,
    target: &Directory,
    settings: &KeptSettings,
) -> Result<()> {
    let live = ledger.manifest.state();
    // The copy has an id of its own: once either database has been written to, its logs do not fit the other.
    let database_id = random_number()?;
    // A saved index and a run of keys never change, so both databases may have the file.
    if let Some(saved) = live.index {
        logs.directory.share(&saved.file_name(), target)?;
    }
    for run in &live.key_runs {
        logs.directory.share(&run.file_name(), target)?;
    }
    logs.data.copy_to(target, database_id, &live.finished, &live.finished_to, covered)?;
    // No flush follows the one of this checkpoint, so the redo ends with what covers these ends.
    let redo = logs.index.redo();
    redo.copy_to(target, database_id, live.index.map_or(0, |saved| saved.redo_from), redo.end())?;
    // Last: a copy without a manifest is not a database.
    ledger.manifest.write_copy(target, database_id, covered[usize::from(USER)], settings)
}
