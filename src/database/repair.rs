//! Repairs databases that are not open, and reads the usage counters of one that may be open elsewhere.

use super::Database;
use super::changes;
use super::closed;
use super::compressed;
use super::disk;
use super::place::{engine_of, not_opened};
use super::usage_file;
use crate::damage::RepairReport;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::stats::Usage;
use siltstone_device::{Access, Directory};
use std::io::ErrorKind;
use std::path::Path;

/// The options of a repair.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RepairOptions {
    /// How store files are read. Reads that bypass the page cache show what the device holds. Damaged files are read
    /// again from the device in any case, if the system drops its cache on request.
    pub access: Access,
}

impl RepairOptions {
    /// Sets how store files are read. Default: through the page cache.
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }
}

impl Database {
    /// Repairs a database that is not open: keeps every intact record, and moves damaged files to a subdirectory. The
    /// report lists keys that may be lost and keys for which reads may return older values. An intact database is not
    /// changed. An interrupted repair has either changed nothing or completed. Needs free space for the intact records
    /// of damaged files, and 32 MiB of memory.
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
    /// See [`verify_closed`](Database::verify_closed); also [`Error::Io`] if there is damage and the directory is not
    /// writable.
    pub fn repair(
        path: impl AsRef<Path>,
        options: &RepairOptions,
        progress: &mut Progress<'_>,
    ) -> Result<RepairReport> {
        let path = path.as_ref();
        match Database::repair_in(&existing(Directory::system(path, options.access), path)?, progress) {
            // Only a repair needs to write: an intact database is examined on a read-only medium too.
            Err(Error::Io { source, .. }) if is_refused(&source) => Database::repair_in(
                &existing(Directory::system_read_only(path, options.access), path)?,
                progress,
            ),
            outcome => outcome,
        }
    }

    /// Returns the usage counters as last [saved](Usage), even while another process has the database open; `None` if
    /// they are missing or damaged. Reads one small file.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no database.
    #[doc(hidden)]
    pub fn kept_usage(path: impl AsRef<Path>) -> Result<Option<Usage>> {
        let directory =
            existing(Directory::system_read_only(path.as_ref(), Access::default()), path.as_ref())?;
        engine_of(&directory)?;
        Ok(usage_file::read(&directory))
    }

    /// Like [`repair`](Database::repair), in any directory of the module `device`.
    #[doc(hidden)]
    pub fn repair_in(directory: &Directory, progress: &mut Progress<'_>) -> Result<RepairReport> {
        let engine = engine_of(directory)?;
        // Shared on a read-only medium: others may read there too, and none can write.
        let _lock = if directory.is_read_only() { directory.lock_shared()? } else { directory.lock()? };
        let mut bytes = 0;
        let mut report = engine.repair(directory, &mut |done, all| {
            bytes = all;
            progress(done, all)
        })?;
        // After the engine: both copies must have the secret in the header, which may have been damaged.
        compressed::file::repair(directory, &mut report)?;
        if report.found.damage.is_empty() {
            // Only here: after a repair, an interrupt of this search would lose the report. And not before the end of
            // the change feed: a dictionary that is lost stays lost, and every repair finds it again.
            let found = &mut report.found;
            closed::examine_dictionary(&*engine, directory, found, &mut |_| progress(bytes, bytes))?;
        } else if !directory.is_read_only() {
            // Not all keys of lost records are known, so followers have to read all records again.
            changes::end(directory)?;
        }
        // After the repair here, which may have restored the setting that names the disk.
        if let Some(disk) = disk::of_closed(&*engine, directory)? {
            let mut progress = |done, all| progress(bytes + done, bytes + all);
            disk::add_repaired(&mut report, Database::repair_in(&disk, &mut progress)?, &disk);
        }
        Ok(report)
    }
}

/// Returns whether the error means that the directory is not writable.
fn is_refused(source: &std::io::Error) -> bool {
    matches!(source.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied)
}

pub(super) fn existing(opened: siltstone_device::Result<Directory>, path: &Path) -> Result<Directory> {
    opened.map_err(|error| not_opened(path.to_owned(), error.into()))
}
