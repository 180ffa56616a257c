//! The databases in a directory: one, or the two of a dedup index.
//!
//!  ```text
//!  DIR/                 DIR/
//!    MANIFEST ...         parameters.json   how files are cut and chunks are hashed
//!                         chunks/           a database: one record per distinct chunk
//!                         files/            a database: one record per file
//!  ```
//!
//! `verify`, `repair`, `checkpoint`, `stats` and `compact` work on all databases of a directory. `get` and `list` read
//! the chunks of an index. The other commands refuse an index, because a record in only one of its databases would make
//! it inconsistent.

use anyhow::{Context, bail, ensure};
use std::path::{Path, PathBuf};

/// The database of the chunks, in the directory of an index.
pub const CHUNKS: &str = "chunks";
/// The catalogue of the files, in the directory of an index.
pub const FILES: &str = "files";
/// How an index cuts files and hashes chunks, in the directory of an index.
pub const PARAMETERS: &str = "parameters.json";
/// Exists while a repair of an index may have removed the evidence of a loss that the catalogue does not record yet.
pub const REPAIR_INCOMPLETE: &str = "repair-incomplete";

/// Returns whether the directory is a dedup index.
pub fn is_index(directory: &Path) -> bool {
    directory.join(CHUNKS).is_dir() && directory.join(FILES).is_dir()
}

/// Returns the directories of all databases: of the chunks and of the catalogue for an index, else the directory
/// itself.
pub fn databases(directory: &Path) -> Vec<PathBuf> {
    match is_index(directory) {
        true => vec![directory.join(CHUNKS), directory.join(FILES)],
        false => vec![directory.to_owned()],
    }
}

/// Returns the database that lookups read: the chunks of an index, else the directory itself.
pub fn readable(directory: &Path) -> PathBuf {
    if is_index(directory) { directory.join(CHUNKS) } else { directory.to_owned() }
}

/// Returns the directory itself, for commands that work on a single database.
///
/// # Errors
/// The directory is a dedup index; the message names what to do instead.
pub fn single<'a>(directory: &'a Path, command: &str) -> anyhow::Result<&'a Path> {
    if is_index(directory) {
        bail!(
            "{}: `siltstone {command}` works on one database, and this dedup index has two, {CHUNKS} and {FILES}; \
             use `siltstone dedup` to change the index and `siltstone checkpoint` to copy it",
            directory.display()
        );
    }
    Ok(directory)
}

/// Returns an error if a repair of the index was stopped before it recorded what is lost.
pub fn check_repaired(directory: &Path) -> anyhow::Result<()> {
    let marker = directory.join(REPAIR_INCOMPLETE);
    ensure!(
        !marker.try_exists().with_context(|| format!("cannot read {}", marker.display()))?,
        "{}: a repair of this index was stopped before it was complete; run `siltstone repair {0}`",
        directory.display()
    );
    Ok(())
}
