//! Removes all records of a database at once, whatever their number.
//!
//! 1. Close the database, and take its locks again.
//! 2. Create `TRUNCATED`, and sync the directory. From now on the database is empty: an open that finds this file does
//!    the steps 3 and 4 first.
//! 3. Give all files new names, which begin with `truncated-`: first those of the disk below, then those here, the
//!    manifest last. Only it says which files there are, and where the disk is.
//! 4. Remove `TRUNCATED`.
//! 5. Create an empty database with the settings of the old one.
//! 6. Remove the files of the old one, by a thread. What a crash leaves of them the next open removes.

use super::Database;
use super::builder::Builder;
use super::destroy::{Locked, lock_all};
use crate::engine::EngineSettings;
use crate::error::{Error, Result};
use crate::names::{TRUNCATED_NAME, TRUNCATED_PREFIX};
use siltstone_device::{Access, Directory, Purpose};
use std::thread;

/// How to open a database again.
pub(super) struct Reopening {
    pub builder: Builder,
    pub directory: Directory,
}

impl Database {
    /// Removes all records at once, whatever their number, and returns the empty database. It is opened with the
    /// settings of this one, also with those that the database keeps. All handles of this one are closed.
    ///
    /// A crash leaves all records or none. After one in the middle of the call, the next open creates the empty
    /// database, with the settings of that open. The files of the removed records are removed in the background;
    /// without background threads, before this returns. The change feed begins from nothing: positions in the old one
    /// are lost. Files of bindings and servers that describe the records stay.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("key", "value")?;
    /// let database = database.truncate()?;
    /// assert!(!database.contains("key")?);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; those of [`close`](Database::close) and of opening the database. It is closed then, and has
    /// all records or none.
    #[doc(alias("clear", "flush", "remove_all", "delete_all"))]
    pub fn truncate(self) -> Result<Database> {
        if self.inner.lock.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let Reopening { builder, directory } = &self.inner.reopening;
        let (shape, settings) = (&self.inner.shape, self.engine().stats().settings);
        let (builder, directory) = (builder.clone().with_kept(shape, &settings)?, directory.clone());
        let is_persistent = self.engine().capabilities().persistent;
        self.close()?;
        drop(self);
        if is_persistent {
            let locked = lock_all(directory.clone(), builder.stated_engine())?;
            directory.create(TRUNCATED_NAME, Access::Buffered)?;
            directory.sync(Purpose::Maintain)?;
            rename_all(locked, &directory)?;
        }
        builder.open_again(directory)
    }
}

/// Completes a truncation that was interrupted, if there is one.
pub(super) fn complete(directory: &Directory, stated: Option<Box<dyn EngineSettings>>) -> Result<()> {
    if !is_interrupted(directory)? {
        return Ok(());
    }
    match lock_all(directory.clone(), stated) {
        Ok(locked) => rename_all(locked, directory),
        // All files have their new names already.
        Err(Error::NotFound { .. }) => remove_mark(directory),
        Err(error) => Err(error),
    }
}

/// Returns whether the records of a database were removed, and their files still have their names.
pub(super) fn is_interrupted(directory: &Directory) -> Result<bool> {
    Ok(directory.list()?.iter().any(|name| name == TRUNCATED_NAME))
}

/// Gives the files of a database, and of the disks below it, their new names.
fn rename_all(mut locked: Vec<Locked>, directory: &Directory) -> Result<()> {
    // The lowest disk first: only the manifest above says where it is.
    while let Some(Locked { engine, directory, .. }) = locked.last() {
        let files = super::destroy::files_of(&**engine, directory)?;
        let rename = |name: &String| directory.rename(name, &format!("{TRUNCATED_PREFIX}{name}"));
        files.others.iter().try_for_each(rename)?;
        // Before the manifest goes: as long as it exists, another call finds the files that are left.
        directory.sync(Purpose::Maintain)?;
        files.manifests.iter().try_for_each(rename)?;
        directory.sync(Purpose::Maintain)?;
        // Unlocked after its last change.
        locked.pop();
    }
    remove_mark(directory)
}

fn remove_mark(directory: &Directory) -> Result<()> {
    directory.remove(TRUNCATED_NAME)?;
    Ok(directory.sync(Purpose::Maintain)?)
}

/// Removes the files that truncations have left in some directories: by a thread of its own, or at once. What cannot be
/// removed is left to the next open.
pub(super) fn remove_left(directories: &[Directory], by_thread: bool) -> Result<()> {
    for directory in directories {
        let mut left = directory.list()?;
        left.retain(|name| name.starts_with(TRUNCATED_PREFIX));
        if left.is_empty() {
            continue;
        }
        let directory = directory.clone();
        let remove = move || left.iter().for_each(|name| drop(directory.remove(name)));
        if by_thread {
            // Without a thread they stay until the next open.
            drop(thread::Builder::new().name("truncation".to_owned()).spawn(remove));
        } else {
            remove();
        }
    }
    Ok(())
}
