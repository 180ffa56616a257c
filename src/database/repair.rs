//! Verifying and repairing databases that nobody has open, and reading what was asked of one that somebody has.

use super::Database;
use super::place::engine_of;
use super::usage_file;
use crate::damage::{RepairReport, VerifyReport};
use crate::device::{Access, Directory};
use crate::progress::Progress;
use crate::stats::Usage;
use crate::{Error, Result};
use std::io::ErrorKind;
use std::path::Path;

/// How a database is repaired.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RepairOptions {
    /// How store files are read: past the page cache, for example, lest it hides what the device holds. Damaged ones
    /// are read from the device in any case where the system drops its cache when it is asked to.
    pub access: Access,
}

impl RepairOptions {
    /// How store files are read. Default: through the page cache.
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }
}

impl Database {
    /// Reads everything of a database that nobody has open for writing, also of one that cannot be opened, and says
    /// what is damaged. Nothing is changed, and nothing has to be writable. `progress` is given the bytes done and the
    /// bytes in all.
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open, [`Error::NotFound`] if there is none, [`Error::Version`] if a newer program
    /// wrote it, [`Error::Interrupted`] if `progress` answered so, [`Error::Io`] if files cannot be read.
    /// [`Error::Corrupt`] only if manifest and mirror both are damaged: then nobody can tell what the files mean.
    pub fn verify_closed(path: impl AsRef<Path>, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        let directory =
            existing(Directory::system_read_only(path.as_ref(), Access::default()), path.as_ref())?;
        Database::verify_closed_in(&directory, progress)
    }

    /// Repairs a database that nobody has open: keeps every record that is sound, and sets the damaged files aside in a
    /// directory within the database's. The report tells which keys may be lost, and of which older values may be
    /// answered. A sound database is not changed at all; a repair that is interrupted, in whichever way, has changed
    /// nothing or all. Needs free space for what is sound of the damaged files, and 32 MiB of memory.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("db");
    /// use siltstone::{Database, RepairOptions};
    ///
    /// # let database = Database::builder(&path).open()?;
    /// # database.close()?;
    /// # drop(database);
    /// let report = Database::repair(&path, &RepairOptions::default(), &mut |_done, _all| true)?;
    /// for range in report.found.lost() {
    ///     println!("lost: {range}");
    /// }
    /// assert!(report.found.damage.is_empty() && report.set_aside.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`verify_closed`](Database::verify_closed); [`Error::Io`] if something is damaged and nothing may be
    /// written.
    pub fn repair(
        path: impl AsRef<Path>,
        options: &RepairOptions,
        progress: &mut Progress<'_>,
    ) -> Result<RepairReport> {
        let path = path.as_ref();
        match Database::repair_in(&existing(Directory::system(path, options.access), path)?, progress) {
            Err(Error::Io { source, .. }) if is_refused(&source) => Database::repair_in(
                &existing(Directory::system_read_only(path, options.access), path)?,
                progress,
            ),
            outcome => outcome,
        }
    }

    /// What was asked of a database until it was last [kept](Usage), also while another process has it open; `None` if
    /// nothing was kept, or it is damaged. Reads one small file.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no database.
    pub fn kept_usage(path: impl AsRef<Path>) -> Result<Option<Usage>> {
        let directory =
            existing(Directory::system_read_only(path.as_ref(), Access::default()), path.as_ref())?;
        engine_of(&directory)?;
        Ok(usage_file::read(&directory))
    }

    /// [`verify_closed`](Database::verify_closed) in any directory of the device room.
    pub fn verify_closed_in(directory: &Directory, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        let engine = engine_of(directory)?;
        let _lock = directory.lock_shared()?;
        engine.examine(directory, progress)
    }

    /// [`repair`](Database::repair) in any directory of the device room.
    pub fn repair_in(directory: &Directory, progress: &mut Progress<'_>) -> Result<RepairReport> {
        let engine = engine_of(directory)?;
        let _lock = if directory.is_read_only() { directory.lock_shared()? } else { directory.lock()? };
        engine.repair(directory, progress)
    }
}

/// Whether nothing may be written where this was tried.
fn is_refused(source: &std::io::Error) -> bool {
    matches!(source.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied)
}

fn existing(opened: Result<Directory>, path: &Path) -> Result<Directory> {
    match opened {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Err(Error::NotFound { path: path.to_owned() })
        }
        outcome => outcome,
    }
}
