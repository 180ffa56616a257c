//! Removes all records of a database at once, whatever their number.
//!
//! 1. Close the database, and take its locks again.
//! 2. Write the mark, the file `TRUNCATED`, and sync the directory. From now on the database is empty. Unlock it.
//! 3. Open the database, which finds the mark under the lock of the directory. So does an open after a crash.
//! 4. Give all files new names, which begin with `truncated-`: first those of the disk below, then those here, the
//!    manifest last. Only it says which files there are, and where the disk is. Other files stay.
//! 5. Create an empty database with the settings of the old one.
//! 6. Remove the mark, under the same lock. Until then nothing was written to the empty database, so after a crash the
//!    next open removes it too, and begins with step 4.
//! 7. Remove the files of the old one, by a thread. What is left when the database is closed, or after a crash, the
//!    next open removes.

use super::Database;
use super::builder::Builder;
use super::destroy::{Locked, files_of, lock_all};
use super::place::is_left;
use crate::engine::EngineSettings;
use crate::error::{Error, Result};
use crate::names::{TRUNCATED_MARK, TRUNCATED_NAME, TRUNCATED_PREFIX};
use siltstone_device::sync::Mutex;
use siltstone_device::{Access, Directory, Purpose};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

/// How to open a database again.
pub(super) struct Reopening {
    pub builder: Builder,
    pub directory: Directory,
    /// The memory budget that the database has now.
    pub memory_budget: Mutex<Option<u64>>,
}

impl Database {
    /// Removes all records at once, whatever their number, and returns the empty database. It is opened with the
    /// settings of this one, also with those that the database keeps and with its present memory budget. All handles of
    /// this one are closed.
    ///
    /// A crash leaves all records or none. After one in the middle of the call, the next open creates the empty
    /// database, with the settings of that open. The files of the removed records are removed in the background;
    /// without background threads, before this returns. The change feed begins from nothing: positions in the old one
    /// are lost. Files of bindings and servers that describe the records stay, and so do files that are none of the
    /// database.
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
    /// all records or none. [`Error::Io`] if the directory has a file `TRUNCATED` of another origin.
    #[doc(alias("clear", "flush", "remove_all", "delete_all"))]
    pub fn truncate(self) -> Result<Database> {
        if self.inner.lock.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let Reopening { builder, directory, memory_budget } = &self.inner.reopening;
        let (shape, settings) = (&self.inner.shape, self.engine().stats().settings);
        let feed_bytes = self.inner.feed.as_ref().map(|feed| feed.bytes_max());
        let memory_budget = *memory_budget.lock();
        let builder = builder.clone().with_kept(shape, &settings, feed_bytes, memory_budget)?;
        let directory = directory.clone();
        let is_persistent = self.engine().capabilities().persistent;
        if is_persistent {
            refuse_name(&directory)?;
        }
        self.close()?;
        drop(self);
        if is_persistent {
            // Also the disks: one that is open elsewhere leaves the database as it is.
            let _locked = lock_all(directory.clone(), builder.stated_engine(), false)?;
            write_mark(&directory)?;
        }
        builder.open_again(directory)
    }
}

/// Refuses to write the mark over a file of the user. An open database has no mark.
fn refuse_name(directory: &Directory) -> Result<()> {
    if directory.list()?.iter().all(|name| name != TRUNCATED_NAME) {
        return Ok(());
    }
    Err(Error::io("create", directory.path_of(TRUNCATED_NAME))(ErrorKind::AlreadyExists.into()))
}

/// Writes the mark durably.
fn write_mark(directory: &Directory) -> Result<()> {
    // A name that the next open removes.
    let new = format!("{TRUNCATED_PREFIX}{TRUNCATED_NAME}");
    if directory.list()?.contains(&new) {
        directory.remove(&new)?;
    }
    let file = directory.create(&new, Access::Buffered)?;
    file.write(Purpose::Maintain, 0, TRUNCATED_MARK)?;
    // Before the rename: after a loss of power the whole mark is there or none.
    file.sync(Purpose::Maintain)?;
    drop(file);
    directory.rename(&new, TRUNCATED_NAME)?;
    Ok(directory.sync(Purpose::Maintain)?)
}

/// Gives the files of a database whose directory has the mark their new names. The caller has the lock of the
/// directory.
pub(super) fn complete(directory: &Directory, stated: Option<Box<dyn EngineSettings>>) -> Result<()> {
    match lock_all(directory.clone(), stated, true) {
        Ok(locked) => rename_all(&locked),
        // All files have their new names already.
        Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives the files of a database, and of the disks below it, their new names.
fn rename_all(locked: &[Locked]) -> Result<()> {
    // The lowest disk first: only the manifest above says where it is.
    for Locked { engine, directory, .. } in locked.iter().rev() {
        let files = files_of(&**engine, directory)?;
        let rename = |name: &String| directory.rename(name, &format!("{TRUNCATED_PREFIX}{name}"));
        files.others.iter().try_for_each(rename)?;
        // Before the manifest goes: as long as it exists, another call finds the files that are left.
        directory.sync(Purpose::Maintain)?;
        files.manifests.iter().try_for_each(rename)?;
        directory.sync(Purpose::Maintain)?;
    }
    Ok(())
}

/// Removes the mark, when there is an empty database. The caller has the lock of the directory.
pub(super) fn end(directory: &Directory) -> Result<()> {
    directory.remove(TRUNCATED_NAME)?;
    Ok(directory.sync(Purpose::Maintain)?)
}

/// Files that truncations have left, by directory.
type Left = Vec<(Directory, Vec<String>)>;

/// Returns the files that truncations have left in some directories.
pub(super) fn left(directories: &[Directory], engine: &dyn EngineSettings) -> Result<Left> {
    let mut all = Left::new();
    for directory in directories {
        let mut names = directory.list()?;
        names.retain(|name| is_left(name, engine));
        if !names.is_empty() {
            all.push((directory.clone(), names));
        }
    }
    Ok(all)
}

/// What removes the files that truncations have left.
#[derive(Default)]
pub(super) struct Remover {
    is_stopping: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Remover {
    /// Removes files by a thread of its own, or at once. What cannot be removed is left to the next open.
    pub fn start(left: Left, by_thread: bool) -> Remover {
        let remover = Remover::default();
        if left.is_empty() {
            return remover;
        }
        let is_stopping = remover.is_stopping.clone();
        let remove = move || {
            for (directory, names) in &left {
                for name in names.iter().take_while(|_| !is_stopping.load(Relaxed)) {
                    drop(directory.remove(name));
                }
            }
        };
        if by_thread {
            // Without a thread they stay until the next open.
            *remover.thread.lock() = thread::Builder::new().name("truncation".to_owned()).spawn(remove).ok();
        } else {
            remove();
        }
        remover
    }

    /// Ends the thread when it has removed the file that it is at: a closed database changes nothing more.
    pub fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
        // Locked meanwhile, so that another thread that closes the database waits as well.
        let mut thread = self.thread.lock();
        if let Some(thread) = thread.take() {
            // A panic would have left files, which the next open removes.
            let _ = thread.join();
        }
    }

    /// Forgets the thread, which belongs to another process.
    pub fn abandon(&mut self) {
        std::mem::forget(self.thread.get_mut().take());
    }
}
