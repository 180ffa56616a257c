//! Removes databases.
//!
//! 1. Take the lock of the directory, and of the disk below.
//! 2. Destroy the disk. Only the manifest here says where it is, so this comes first.
//! 3. Remove all files but the manifests, and sync the directory. If this is interrupted, the manifest is still there,
//!    and the next call removes the rest.
//! 4. Remove the manifests and `LOCK`, and sync the directory.
//! 5. Unlock the directory, and remove it if it is empty.

use super::Database;
use super::builder::remove_empty_directory;
use super::changes;
use super::compressed;
use super::disk;
use super::place::{engine_of, is_left, is_truncated, refuse_disk};
use super::repair::existing;
use super::usage_file;
use crate::engine::EngineSettings;
use crate::error::{Error, Result};
use crate::names::{CLAIM_NAME, FileName, TRUNCATED_NAME, is_beside};
use siltstone_device::{Access, Directory, LOCK, Purpose};
use std::path::Path;

impl Database {
    /// Removes the database in the directory `path` with all its records, and the directory if it contains nothing
    /// else. The database must not be open. That of the slow drive of FlashStore is removed as well.
    ///
    /// The manifest is removed last. If this fails or is interrupted, call it again.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("db");
    /// use siltstone::Database;
    ///
    /// let database = Database::open(&path)?;
    /// database.put("key", "value")?;
    /// drop(database);
    /// Database::destroy(&path)?;
    /// assert!(!path.exists());
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) if there is no database, [`Error::Locked`](crate::Error::Locked) if
    /// it is open, [`Error::Setting`] if it is the disk of another database, which is destroyed with that one,
    /// [`Error::Io`](crate::Error::Io) if files cannot be removed.
    pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let directory = existing(Directory::system(path, Access::default()), path)?;
        refuse_disk(&directory)?;
        destroy_in(&directory)
    }
}

/// A database that is closed, and locked.
pub(super) struct Locked {
    pub engine: Box<dyn EngineSettings>,
    pub directory: Directory,
    /// `None` if the caller has the lock.
    lock: Option<Box<dyn Send + Sync>>,
}

/// The names of the files of a database.
pub(super) struct Files {
    /// All but the manifests.
    pub others: Vec<String>,
    pub manifests: Vec<String>,
}

/// Locks a database and, one after another, the disks below it. Changes nothing. `stated` is the engine that the user
/// chose, which may be none of the table. With `is_locked` the caller has the lock of the first directory.
pub(super) fn lock_all(
    directory: Directory,
    mut stated: Option<Box<dyn EngineSettings>>,
    mut is_locked: bool,
) -> Result<Vec<Locked>> {
    let (mut all, mut next) = (Vec::new(), Some(directory));
    while let Some(directory) = next {
        let engine = match (engine_of(&directory), stated.take()) {
            // One that is not in the table.
            (Err(Error::UnknownEngine { .. }), Some(stated)) => stated,
            (engine, _) => engine?,
        };
        let lock = if std::mem::take(&mut is_locked) { None } else { Some(directory.lock()?) };
        next = match disk::of_closed(&*engine, &directory) {
            Ok(disk) => disk,
            // An earlier call has removed the disk, or the manifest names a database that is none of its own.
            Err(Error::Setting { .. }) => None,
            Err(error) => return Err(error),
        };
        all.push(Locked { engine, directory, lock });
    }
    Ok(all)
}

fn destroy_in(directory: &Directory) -> Result<()> {
    // All before anything is removed: a disk that is open elsewhere leaves the database as it is.
    let mut all = lock_all(directory.clone(), None, false)?;
    for disk in all.iter().skip(1) {
        let names = disk.directory.list()?;
        for claim in names.iter().filter(|name| *name == CLAIM_NAME) {
            // First: a disk without it can be destroyed by itself if this is interrupted.
            disk.directory.remove(claim)?;
        }
    }
    // The lowest disk first: only the manifest above says where it is.
    while let Some(lowest) = all.pop() {
        remove_files(lowest)?;
    }
    Ok(())
}

/// Returns the names of the files of a database, without those that describe its records.
pub(super) fn files_of(engine: &dyn EngineSettings, directory: &Directory) -> Result<Files> {
    let is_of_manifest = |name: &str| {
        use FileName::{Manifest, Mirror, NewManifest, NewMirror};
        matches!(FileName::parse(name), Some(Manifest | Mirror | NewManifest | NewMirror))
    };
    let is_claim = |name: &str| name == CLAIM_NAME;
    let names = directory.list()?;
    let (manifests, mut others): (Vec<String>, Vec<String>) =
        names.into_iter().partition(|name| is_of_manifest(name));
    let is_own =
        |name: &str| usage_file::owns(name) || compressed::file::owns(name) || changes::state::owns(name);
    others.retain(|name| is_claim(name) || is_own(name) || engine.owns(name));
    // First: a disk without it is a database by itself if this is interrupted.
    others.sort_by_key(|name| !is_claim(name));
    Ok(Files { others, manifests })
}

fn remove_files(Locked { engine, directory, lock }: Locked) -> Result<()> {
    let Files { others, manifests } = files_of(&*engine, &directory)?;
    others.iter().try_for_each(|name| directory.remove(name))?;
    let (is_marked, mut left) = (is_truncated(&directory)?, directory.list()?);
    left.retain(|name| is_beside(name) || is_left(name, &*engine) || (is_marked && name == TRUNCATED_NAME));
    left.iter().try_for_each(|name| match directory.remove(name) {
        // Nothing needs it: what is gone already is as good as removed.
        Err(error) if error.is_not_found() => Ok(()),
        removed => removed,
    })?;
    // Before the manifest goes: as long as it exists, another call finds the files that are left.
    directory.sync(Purpose::Maintain)?;
    manifests.iter().try_for_each(|name| directory.remove(name))?;
    // The database is still locked: where the system can lock a directory, the lock is not that of this file.
    directory.remove(LOCK)?;
    directory.sync(Purpose::Maintain)?;
    // Only now: until here no other process may create a database in this directory.
    drop(lock);
    remove_empty_directory(&directory.path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineKind;
    use crate::names::COMPANION_NAMES;
    use siltstone_device::{DirectoryBackend, FileBackend, LockMode, OpenMode, SystemDirectory};
    use std::io;
    use std::path::PathBuf;

    /// A directory that lists a file which another thread has removed.
    struct StillListed(SystemDirectory);

    impl DirectoryBackend for StillListed {
        fn open(&self, name: &str, access: Access, mode: OpenMode) -> io::Result<Box<dyn FileBackend>> {
            DirectoryBackend::open(&self.0, name, access, mode)
        }

        fn list(&self) -> io::Result<Vec<String>> {
            let mut names = DirectoryBackend::list(&self.0)?;
            names.push("truncated-USAGE".to_owned());
            Ok(names)
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            DirectoryBackend::remove(&self.0, name)
        }

        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            DirectoryBackend::rename(&self.0, from, to)
        }

        fn sync(&self) -> io::Result<()> {
            DirectoryBackend::sync(&self.0)
        }

        fn lock(&self, name: &str, mode: LockMode) -> io::Result<Box<dyn Send + Sync>> {
            DirectoryBackend::lock(&self.0, name, mode)
        }

        fn path(&self) -> PathBuf {
            DirectoryBackend::path(&self.0)
        }
    }

    #[test]
    fn a_file_of_a_truncation_that_is_gone_already_does_not_interrupt_the_removal_of_a_database() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        Database::open(&path).unwrap().put("key", "value").unwrap();
        let listed = StillListed(SystemDirectory::open(&path).unwrap());
        destroy_in(&Directory::new(listed, Access::Buffered)).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn of_a_destroyed_database_nothing_remains_and_of_other_files_all() {
        let directory = tempfile::tempdir().unwrap();
        let persistent = EngineKind::ALL.iter().filter(|kind| kind.info().number.is_some());
        for kind in persistent {
            let path = directory.path().join(kind.name());
            let create = || {
                let database = Database::builder(&path).engine(kind.complete_settings()).open().unwrap();
                database.put("key", "value").unwrap();
                database
            };
            let database = create();
            assert!(matches!(Database::destroy(&path), Err(Error::Locked { .. })));
            database.compact().unwrap();
            drop(database);
            std::fs::write(path.join(COMPANION_NAMES[0]), "of a binding").unwrap();
            Database::destroy(&path).unwrap();
            assert!(!path.exists());
            assert!(matches!(Database::destroy(&path), Err(Error::NotFound { .. })));
            drop(create());
            std::fs::write(path.join("notes.txt"), "mine").unwrap();
            Database::destroy(&path).unwrap();
            let names: Vec<_> = path.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names, ["notes.txt"], "{}", kind.name());
        }
    }

    #[test]
    fn a_database_whose_disk_is_open_elsewhere_is_not_destroyed_and_stays_whole() {
        let directory = tempfile::tempdir().unwrap();
        let (flash, disk) = (directory.path().join("flash"), directory.path().join("disk"));
        let builder = Database::builder(&flash).set("engine", "flashstore").set("disk", disk.display());
        let builder = builder.set("segment_bytes", "64KiB").set("flash_bytes", "2MiB");
        builder.clone().open().unwrap().put("key", "value").unwrap();
        let reader = Database::open_read_only(&disk).unwrap();
        assert!(matches!(Database::destroy(&flash), Err(Error::Locked { .. })));
        drop(reader);
        assert_eq!(builder.open().unwrap().get("key").unwrap().as_deref(), Some(&b"value"[..]));
        Database::destroy(&flash).unwrap();
        assert!(!disk.exists() && !flash.exists());
    }

    #[test]
    fn the_slow_drive_is_destroyed_as_well() {
        let directory = tempfile::tempdir().unwrap();
        let (flash, disk) = (directory.path().join("flash"), directory.path().join("disk"));
        let builder = Database::builder(&flash).set("engine", "flashstore").set("disk", disk.display());
        drop(builder.set("segment_bytes", "64KiB").set("flash_bytes", "2MiB").open().unwrap());
        assert!(disk.exists());
        Database::destroy(&flash).unwrap();
        assert!(!disk.exists() && !flash.exists());
    }
}
