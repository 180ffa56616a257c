//! Verifies databases, and counts their live records.

use super::Database;
use super::closed;
use super::compressed;
use super::disk;
use super::place::engine_of;
use super::repair::existing;
use crate::damage::VerifyReport;
use crate::engine::GoOn;
use crate::error::{Error, Result};
use crate::progress::Progress;
use siltstone_device::{Access, Directory};
use std::path::Path;

impl Database {
    /// Reads everything and reports damage. If there is none, it also counts the live records, for which it reads all
    /// records again, as [`len`](Database::len) does. For a database that cannot be opened, use
    /// [`verify_closed`](Database::verify_closed); [`repair`](Database::repair) repairs it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("key", "value")?;
    /// let report = database.verify()?;
    /// assert!(report.damage.is_empty() && report.live_records == Some(1));
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_with(&mut |_, _| true)
    }

    /// Like [`verify`](Database::verify). `progress` is called with the bytes read and the total, and returns whether
    /// to continue. What is read again to count the live records is the second half of the total.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("key", "value")?;
    /// let report = database.verify_with(&mut |done_bytes, all_bytes| {
    ///     eprintln!("{done_bytes} of {all_bytes} bytes");
    ///     true
    /// })?;
    /// assert!(report.damage.is_empty());
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted) if `progress` returns false.
    pub fn verify_with(&self, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        let check = |progress: &mut Progress<'_>| self.engine().verify(progress);
        verify_and_count(progress, check, |go_on| self.count_keys(go_on))
    }

    /// Reads all of a database that is not open for writing, and reports damage. Also works if the database cannot be
    /// opened. Changes nothing and needs no write permission. `progress` receives the bytes read and the total.
    ///
    /// If there is no damage, it counts the live records as [`verify`](Database::verify) does, and takes the memory of
    /// an open database.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// # database.put("key", "value")?;
    /// # database.close()?;
    /// let report = siltstone::Database::verify_closed(directory.path().join("db"), &mut |_done, _all| true)?;
    /// assert!(report.damage.is_empty() && report.live_records == Some(1));
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Locked`] if the database is open, [`Error::NotFound`] if there is none, [`Error::Version`] if a newer
    /// program wrote it, [`Error::Interrupted`] if `progress` returns false, [`Error::Io`] if files cannot be read.
    /// [`Error::Corrupt`] only if both the manifest and its mirror are damaged: without them the other files cannot be
    /// interpreted.
    pub fn verify_closed(path: impl AsRef<Path>, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        let directory =
            existing(Directory::system_read_only(path.as_ref(), Access::default()), path.as_ref())?;
        let engine = engine_of(&directory)?;
        // Nothing is written between the check and the count.
        let _lock = directory.lock_shared()?;
        let check = |progress: &mut Progress<'_>| Database::verify_closed_in(&directory, progress);
        verify_and_count(progress, check, |go_on| closed::count(&*engine, &directory, go_on))
    }

    /// Like [`verify_closed`](Database::verify_closed), in any directory of the module `device`, also one for writing.
    /// Does not count the live records.
    #[doc(hidden)]
    pub fn verify_closed_in(directory: &Directory, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        let engine = engine_of(directory)?;
        let _lock = directory.lock_shared()?;
        let mut bytes = 0;
        let mut report = engine.examine(directory, &mut |done, all| {
            bytes = all;
            progress(done, all)
        })?;
        if report.damage.is_empty() {
            closed::examine_dictionary(&*engine, directory, &mut report, &mut |_| progress(bytes, bytes))?;
        }
        compressed::file::examine(directory, &mut report)?;
        if let Some(disk) = disk::of_closed(&*engine, directory)? {
            let mut progress = |done, all| progress(bytes + done, bytes + all);
            report.add(Database::verify_closed_in(&disk, &mut progress)?);
        }
        Ok(report)
    }

    /// Returns the exact number of keys at one moment.
    pub(super) fn count_keys(&self, go_on: &mut GoOn<'_>) -> Result<u64> {
        let engine = self.engine();
        // A count takes long. It ends when another handle closes the database.
        let mut go_on = |passed| engine.check_open().is_ok() && go_on(passed);
        let counted = engine.count_keys(self.inner.clock.now_ms(), &mut go_on);
        // The files may belong to another handle when the database is closed.
        engine.check_open().and(counted)
    }
}

/// Checks a database and, if it has no damage, counts its live records. Each is one half of the progress.
fn verify_and_count(
    progress: &mut Progress<'_>,
    check: impl FnOnce(&mut Progress<'_>) -> Result<VerifyReport>,
    count: impl FnOnce(&mut GoOn<'_>) -> Result<u64>,
) -> Result<VerifyReport> {
    let (mut half, mut total) = (0, 0);
    let mut report = check(&mut |done, all| {
        (half, total) = (all, all.saturating_mul(2));
        progress(done, total)
    })?;
    if report.damage.is_empty() {
        let record_bytes = half as f64 / report.checked_records.max(1) as f64;
        // The count has no total in bytes, so it is scaled, and stays within its half.
        let counted_bytes = |passed: u64| half.min((passed as f64 * record_bytes) as u64);
        let keys = count(&mut |passed| progress(half.saturating_add(counted_bytes(passed)), total))?;
        report.live_records = Some(keys);
    }
    if progress(total, total) { Ok(report) } else { Err(Error::Interrupted) }
}
