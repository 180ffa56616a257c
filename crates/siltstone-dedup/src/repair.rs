//! Repairing an index: two databases. The catalogue must not claim more than the chunks hold.
//!
//! A repair reports losses once; the next one finds nothing. So that a repair that is stopped in between does not
//! leave totals that are too high, the file `repair-incomplete` exists in the directory of the index from before the
//! first change until the catalogue records the loss:
//!
//! ```text
//! verify files and chunks         no damage: nothing is written
//! create repair-incomplete        synced; `dedup` and `checkpoint` refuse the index from here on
//! repair files                    the loss of files is no longer visible
//! Index::note_loss                the next run counts the references again
//! remove repair-incomplete
//! repair chunks                   the loss of chunks is no longer visible
//! ```

use super::index::Index;
use super::parameters;
use crate::place::{CHUNKS, FILES, REPAIR_INCOMPLETE};
use anyhow::Context;
use siltstone::KeyRange;
use siltstone_command::database;
use siltstone_command::interrupt::Interrupt;
use siltstone_command::outcome::complain;
use std::fs::{self, File};
use std::path::Path;

/// Repairs both databases of an index with `repair_one`, which returns whether records are lost. If any are, the next
/// run counts the references again, and reads the files again whose records are lost. A repair that was stopped must be
/// run again.
pub fn repair(
    directory: &Path,
    interrupt: &Interrupt,
    repair_one: &mut dyn FnMut(&Path) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let (chunks, files, marker) =
        (directory.join(CHUNKS), directory.join(FILES), directory.join(REPAIR_INCOMPLETE));
    let was_stopped = marker.try_exists().with_context(|| format!("cannot read {}", marker.display()))?;
    let found = [database::verify(&files, interrupt)?, database::verify(&chunks, interrupt)?];
    let is_damaged = found.iter().any(|report| !report.damage.is_empty());
    if is_damaged && !was_stopped {
        change(directory, || File::create(&marker)?.sync_all())?;
    }
    let files_lose = repair_one(&files)?;
    // A stopped repair may have removed the evidence of a loss, so its marker counts as one.
    let lost: Vec<KeyRange> = found.iter().flat_map(|report| report.lost()).collect();
    if was_stopped || files_lose || !lost.is_empty() {
        Index::note_loss(&files)?;
        complain(format_args!(
            "the next `siltstone dedup` counts the references of all files again before it reads files, which reads \
             the whole index, and then reads those files again whose records are lost"
        ));
    }
    if is_damaged || was_stopped {
        change(directory, || fs::remove_file(&marker))?;
    }
    repair_one(&chunks)?;
    accept_moments(directory, &files)
}

/// Accepts databases of different moments: the next run counts the references again.
fn accept_moments(directory: &Path, files: &Path) -> anyhow::Result<()> {
    let Some(chunking) = parameters::read(directory)? else { return Ok(()) };
    if let Err(different) = Index::check(directory, &chunking) {
        complain(format_args!("{different:#}"));
        complain(format_args!("accepted: the next `siltstone dedup` counts the references again"));
        Index::note_loss(files)?;
    }
    Ok(())
}

/// Changes the entries of a directory durably.
fn change(directory: &Path, change: impl FnOnce() -> std::io::Result<()>) -> anyhow::Result<()> {
    let changed = change().and_then(|()| File::open(directory)?.sync_all());
    changed.with_context(|| format!("cannot change {REPAIR_INCOMPLETE} in {}", directory.display()))
}
