//! A directory as the other modules use it: errors name the file.

use super::file::File;
use super::shared::{Shared, Usage};
use super::system::{self, SystemDirectory, has_ended};
use super::{
    Access, AlignedBuffer, DirectoryBackend, DirectoryState, FileBackend, IoSnapshot, LOCK, LockMode,
    OpenMode, Purpose, QUEUE_DEPTH_MAX, WRITEBACK_BYTES,
};
use crate::error::{Error, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The unit of writeback while gets read, in bytes.
const SHARED_WRITEBACK_BYTES: u64 = 64 << 10;
/// The unit of writeback of a file to which calls of users append. Starting it takes some 0.1 ms per MiB.
const APPENDED_WRITEBACK_BYTES: u64 = 4 << 20;

/// The default number of reads of a batch in flight.
const QUEUE_DEPTH: usize = 32;

/// A directory of files. Cheap to clone; all clones share the counters.
#[derive(Clone)]
pub struct Directory {
    pub(super) backend: Arc<dyn DirectoryBackend>,
    pub(super) shared: Arc<Shared>,
    access: Access,
    usage: Usage,
}

impl Directory {
    /// Makes a directory of any backend. Store files are opened with `access`.
    pub fn new(backend: impl DirectoryBackend + 'static, access: Access) -> Self {
        let usage = Usage {
            queue_depth: QUEUE_DEPTH as u16,
            skips_checksums_on_get: false,
            maps_appends: true,
            is_read_only: false,
        };
        let shared = Shared::new(&backend);
        Directory { backend: Arc::new(backend), shared, access, usage }
    }

    /// Sets that nothing is to be changed, for a backend that refuses every change (`ReadOnlyFilesystem`).
    pub fn read_only(mut self) -> Self {
        self.usage.is_read_only = true;
        self
    }

    /// Sets whether lookups trust what they read from stores, without computing checksums. All other reads verify them.
    /// Default: false.
    pub fn skip_checksums_on_get(mut self, skip: bool) -> Self {
        self.usage.skips_checksums_on_get = skip;
        self
    }

    /// Sets whether files are appended to through a mapping, where the system supports it. Default: true.
    pub fn map_appends(mut self, maps_appends: bool) -> Self {
        self.usage.maps_appends = maps_appends;
        self
    }

    /// Sets how many reads of a batch are in flight, clamped to 1 to 256. With 1, reads are executed one after another
    /// by `pread`. Default: 32.
    pub fn queue_depth(mut self, depth: usize) -> Self {
        self.usage.queue_depth = depth.clamp(1, QUEUE_DEPTH_MAX) as u16;
        self
    }

    /// Opens an existing directory of the operating system.
    pub fn system(path: &Path, access: Access) -> Result<Self> {
        Ok(Directory::new(SystemDirectory::open(path)?, access))
    }

    /// Opens an existing directory of the operating system for reading only.
    pub fn system_read_only(path: &Path, access: Access) -> Result<Self> {
        Ok(Directory::new(SystemDirectory::open_read_only(path)?, access).read_only())
    }

    /// Opens a directory of the operating system, and creates it durably if it is missing.
    pub fn create_system(path: &Path, access: Access) -> Result<Self> {
        Ok(Directory::new(SystemDirectory::create(path)?, access))
    }

    /// Returns whether files are opened for reading only and every change is refused.
    pub fn is_read_only(&self) -> bool {
        self.usage.is_read_only
    }

    /// Limits the number of open files, as far as possible: a file with unsynced writes, and one that was removed while
    /// in use, stays open. Default: three quarters of the limit of the process.
    pub fn limit_open_files(&self, max: u64) {
        if let Some(system) = self.backend.as_system() {
            system.limit_open_files(max);
        }
    }

    /// Returns the number of open files and its limit; `None` if files take no descriptors.
    pub fn open_files(&self) -> Option<(u64, u64)> {
        self.backend.as_system().map(SystemDirectory::open_files)
    }

    /// Returns the access of store files.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns the next unit of writeback of a file to which calls of users append, in bytes. Large units cost least,
    /// and fewer calls wait for one; but with direct I/O gets queue behind each of them, so units are smaller while
    /// gets read.
    pub fn writeback_bytes(&self) -> u64 {
        let leaves_drive = self.access.is_direct() && self.shared.gets.lock().check(&self.shared.counters);
        if leaves_drive { SHARED_WRITEBACK_BYTES } else { APPENDED_WRITEBACK_BYTES }
    }

    /// Returns the bytes of the file system that are free for this process; `None` if that is unknown.
    pub fn free_bytes(&self) -> Result<Option<u64>> {
        Ok(self.state()?.free_bytes)
    }

    /// Returns whether another directory takes its space from the same file system, as far as that is known.
    pub fn shares_file_system(&self, other: &Directory) -> bool {
        let system = |directory: &Directory| {
            let system = directory.backend.as_system()?;
            rustix::fs::fstat(system.handle()).ok().map(|state| state.st_dev)
        };
        system(self) == system(other)
    }

    /// Returns the counts of all files of this directory.
    pub fn io(&self) -> IoSnapshot {
        self.shared.counters.snapshot()
    }

    /// Returns a number that differs between two starts of the system: [`DirectoryState::system_run`].
    pub fn system_run(&self) -> Result<Option<u128>> {
        Ok(self.state()?.system_run)
    }

    fn state(&self) -> Result<DirectoryState> {
        self.backend.state().map_err(Error::io("measure", self.path()))
    }

    /// Returns the name of the directory in errors.
    pub fn path(&self) -> PathBuf {
        self.backend.path()
    }

    /// Returns the name of one of its files in errors.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.backend.path().join(name)
    }

    /// Returns whether `path`, which need not exist, is this directory or within it. False if this one is not of the
    /// operating system.
    pub fn contains(&self, path: &Path) -> Result<bool> {
        let Some(system) = self.backend.as_system() else { return Ok(false) };
        system::contains(system.handle(), path).map_err(Error::io("find", path))
    }

    /// Checks that neither the directory nor the file `name` in it was removed since it was opened: what is written to
    /// a removed directory is lost when its files are closed.
    ///
    /// # Errors
    /// [`Error::Removed`].
    pub fn check_present(&self, name: &str) -> Result<()> {
        let Some(system) = self.backend.as_system() else { return Ok(()) };
        match system::is_removed(system.handle(), name) {
            Ok(false) => Ok(()),
            Ok(true) => Err(Error::Removed { path: self.path() }),
            Err(error) => Err(Error::io("find", self.path_of(name))(error)),
        }
    }

    /// Creates a new, empty file.
    pub fn create(&self, name: &str, access: Access) -> Result<File> {
        let backend = self.backend.open(name, access, OpenMode::New);
        Ok(self.file(name, backend.map_err(Error::io("create", self.path_of(name)))?.into()))
    }

    /// Opens an existing file.
    pub fn open(&self, name: &str, access: Access) -> Result<File> {
        let backend = self.backend.open(name, access, OpenMode::Existing);
        Ok(self.file(name, backend.map_err(Error::io("open", self.path_of(name)))?.into()))
    }

    /// Returns the length of a file, 0 if it does not exist.
    pub fn length_of(&self, name: &str) -> Result<u64> {
        match self.open(name, Access::Buffered) {
            Ok(file) => file.length(),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    pub(super) fn file(&self, name: &str, backend: Arc<dyn FileBackend>) -> File {
        File::new(backend, self.path_of(name), self.shared.clone(), self.usage)
    }

    /// Opens another directory of the same kind and for the same use: that at `path`, relative to this one. With
    /// `create`, a missing one is created durably, unless this one is read-only.
    pub fn other(&self, path: &Path, create: bool) -> Result<Directory> {
        let backend = self.backend.other(path, create).map_err(Error::io("open", self.path().join(path)))?;
        let shared = Shared::new(&*backend);
        Ok(Directory { backend: backend.into(), shared, access: self.access, usage: self.usage })
    }

    /// Returns the names of all files, sorted.
    pub fn list(&self) -> Result<Vec<String>> {
        let mut names = self.backend.list().map_err(Error::io("list", self.path()))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Removes a file.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.backend.remove(name).map_err(Error::io("remove", self.path_of(name)))
    }

    /// Renames a file, and atomically replaces an existing one.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.backend.rename(from, to).map_err(Error::io("rename", self.path_of(from)))
    }

    /// Blocks until all creations, removals and renames survive a power loss.
    pub fn sync(&self, purpose: Purpose) -> Result<()> {
        self.shared.counters.sync(purpose);
        self.backend.sync().map_err(Error::io("sync", self.path()))
    }

    /// Takes the exclusive lock of the directory until the result is dropped.
    ///
    /// # Errors
    /// [`Error::Locked`] if the directory is locked by another holder.
    pub fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        self.backend.lock(LOCK, LockMode::Exclusive).map_err(|error| self.not_locked(error))
    }

    /// Takes a shared lock of the directory until the result is dropped. Changes nothing in the directory and needs no
    /// write permission.
    ///
    /// # Errors
    /// [`Error::Locked`] if the exclusive lock is taken.
    pub fn lock_shared(&self) -> Result<Box<dyn Send + Sync>> {
        self.backend.lock(LOCK, LockMode::Shared).map_err(|error| self.not_locked(error))
    }

    fn not_locked(&self, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::WouldBlock => {
                let process = self.backend.as_system().and_then(SystemDirectory::lock_holder);
                Error::Locked { path: self.path(), process, has_ended: process.is_some_and(has_ended) }
            }
            _ => Error::io("lock", self.path())(error),
        }
    }

    /// Takes the exclusive lock of a file of the directory until the result is dropped. Readers of the file ignore it.
    ///
    /// # Errors
    /// [`Error::Locked`] if the file is locked by another holder.
    pub fn lock_file(&self, name: &str) -> Result<Box<dyn Send + Sync>> {
        self.backend.lock(name, LockMode::Exclusive).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                Error::Locked { path: self.path_of(name), process: None, has_ended: false }
            }
            _ => Error::io("lock", self.path_of(name))(error),
        })
    }

    /// Adds the file `name` to the directory `target`: as a hard link if possible, else as a copy, which is synced. The
    /// entry is durable when `target` was synced.
    pub fn share(&self, name: &str, target: &Directory) -> Result<()> {
        match (self.backend.as_system(), target.backend.as_system()) {
            (Some(from), Some(to)) => from.share(name, to).map_err(Error::io("link", target.path_of(name))),
            _ => self.copy(name, target),
        }
    }

    fn copy(&self, name: &str, target: &Directory) -> Result<()> {
        let from = self.open(name, Access::Buffered)?;
        let to = target.create(name, Access::Buffered)?;
        let (length, mut offset) = (from.length()?, 0);
        let mut buffer = AlignedBuffer::default();
        while offset < length {
            let count = (length - offset).min(WRITEBACK_BYTES) as usize;
            let bytes = from.read(Purpose::Maintain, offset, count, &mut buffer)?;
            // A copy has no checksum of its own, so a bit that flipped on the way from the device must be noticed here.
            from.confirm(offset, bytes)?;
            to.write(Purpose::Maintain, offset, bytes)?;
            offset += count as u64;
        }
        to.sync(Purpose::Maintain)
    }

    /// Creates a subdirectory with the first unused name of the form `folder`-*number*, and durably adds the files
    /// `names` to it. Files in it are never listed. Returns its name.
    pub fn set_aside(&self, names: &[&str], folder: &str) -> Result<String> {
        let mut number = 1u64;
        let folder = loop {
            let folder = format!("{folder}-{number:04}");
            match self.backend.other(Path::new(&folder), false) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => break folder,
                Err(error) if error.kind() != io::ErrorKind::NotADirectory => {
                    return Err(Error::io("open", self.path_of(&folder))(error));
                }
                _ => number += 1,
            }
        };
        // Its own name is durable when this returns, so the files survive as soon as theirs are.
        let target = self.other(Path::new(&folder), true)?;
        names.iter().try_for_each(|name| self.share(name, &target))?;
        target.sync(Purpose::Maintain)?;
        Ok(folder)
    }
}
