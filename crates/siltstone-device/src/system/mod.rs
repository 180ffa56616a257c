//! Files of the operating system.

mod descriptors;
mod direct;
mod file;
#[cfg(target_os = "linux")]
#[cfg_attr(
    not(all(target_arch = "x86_64", target_pointer_width = "64", not(any(miri, thread_sanitizer)))),
    path = "unguarded_copy.rs"
)]
mod guarded_copy;
mod lock;
#[cfg_attr(not(target_os = "linux"), path = "no_mapping.rs")]
mod mapping;
pub(super) mod pages;
mod process;
mod random;
#[cfg_attr(
    not(all(
        feature = "io-uring",
        target_os = "linux",
        any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64",
            target_arch = "loongarch64",
            target_arch = "powerpc64"
        )
    )),
    path = "no_ring.rs"
)]
pub(super) mod ring;
mod threads;
#[cfg_attr(not(target_os = "linux"), path = "no_window.rs")]
mod window;

use super::{Access, DirectoryBackend, DirectoryState, FileBackend, LOCK, LockMode, OpenMode, PieceExecutor};
use crate::error::{Error, Result};
use descriptors::Descriptors;
use file::SystemFile;
pub(crate) use process::has_ended;
pub use process::process_mark;
pub use random::random_number;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// The highest of the descriptors of standard input, output and error.
const STANDARD_DESCRIPTOR_MAX: RawFd = 2;

/// Returns the default limit of the files that a database keeps open: three quarters of what the limit of the process
/// (`RLIMIT_NOFILE`) can be raised to without a privilege.
pub fn open_files_default() -> u64 {
    descriptors::share_of(descriptors::limits().1)
}

/// A directory of the file system. Files are looked up relative to its handle: it remains the same directory if the
/// process changes its working directory or the directory is renamed. Its path is used in errors only.
pub struct SystemDirectory {
    path: PathBuf,
    descriptors: Arc<Descriptors>,
    /// Whether files are opened for reading only and nothing is changed.
    read_only: bool,
}

impl SystemDirectory {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// [`Error::Io`] if it does not exist, is not a directory, or may not be read.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let handle = open_directory(CWD, &path).map_err(Error::io("open", &path))?;
        Ok(SystemDirectory { path, descriptors: Arc::new(Descriptors::new(handle)), read_only: false })
    }

    /// Opens a directory for reading only: its files may belong to another user or be on a read-only medium. Changes
    /// are refused (`ReadOnlyFilesystem`).
    ///
    /// # Errors
    /// See [`open`](SystemDirectory::open).
    pub fn open_read_only(path: impl Into<PathBuf>) -> Result<Self> {
        Ok(SystemDirectory { read_only: true, ..SystemDirectory::open(path)? })
    }

    /// Opens a directory, and creates it and its parents if they are missing. Its name survives a power loss, also if
    /// an earlier process created it and did not sync it. Costs a sync of the parent directory.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be created or opened.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let handle = create_durably(CWD, &path).map_err(Error::io("create", &path))?;
        Ok(SystemDirectory { path, descriptors: Arc::new(Descriptors::new(handle)), read_only: false })
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.read_only { Err(ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }

    /// Returns the open directory.
    pub(crate) fn handle(&self) -> &File {
        &self.descriptors.handle
    }

    /// Returns the process that has the exclusive lock of the directory, if it is known.
    pub(crate) fn lock_holder(&self) -> Option<u32> {
        lock::holder(self.handle())
    }

    /// Limits the number of open files; others are closed, and opened again when they are used.
    pub(crate) fn limit_open_files(&self, max: u64) {
        self.descriptors.limit(max);
    }

    /// Returns the number of open files, and its limit.
    pub(crate) fn open_files(&self) -> (u64, u64) {
        self.descriptors.counts()
    }

    /// Adds the file `name` to the directory `target`: as a hard link if possible, else as a copy, which is synced
    /// before it gets its name. The entry is durable when `target` was synced.
    pub(crate) fn share(&self, name: &str, target: &SystemDirectory) -> io::Result<()> {
        let linked =
            rustix::fs::linkat(self.handle(), checked(name)?, target.handle(), name, AtFlags::empty());
        match linked.map_err(io::Error::from) {
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => {
                copy_durably(self.handle(), name, target.handle())
            }
            outcome => outcome,
        }
    }
}

/// Checks a name, which may come from bytes on disk and must not lead out of the directory.
fn checked(name: &str) -> io::Result<&str> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not the name of a file in the directory"));
    }
    Ok(name)
}

fn retry<T>(call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    Ok(rustix::io::retry_on_intr(call)?)
}

/// Opens a file or directory in a directory. What is neither, such as a pipe, is refused without waiting for it.
fn open_at(directory: impl AsFd, name: &str, flags: OFlags) -> io::Result<File> {
    let mode = Mode::from_raw_mode(0o666);
    let all_flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = above_standard(retry(|| rustix::fs::openat(&directory, name, all_flags, mode))?)?;
    if flags.contains(OFlags::DIRECTORY) {
        return Ok(file);
    }
    if !file.metadata()?.is_file() {
        let problem = "it is not a regular file; a database has no others: remove it";
        return Err(io::Error::new(ErrorKind::InvalidInput, problem));
    }
    // With this flag, io_uring would return an error for a read that has to wait for the drive.
    rustix::fs::fcntl_setfl(&file, rustix::fs::fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Opens a directory at a path relative to another one.
fn open_directory(base: BorrowedFd<'_>, path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    above_standard(retry(|| rustix::fs::openat(base, path, flags, Mode::empty()))?)
}

/// Returns the same open file with a descriptor above those of standard input, output and error. In a process that has
/// closed these, a file would get one of them, and what a library prints would overwrite its bytes.
fn above_standard(mut file: OwnedFd) -> io::Result<File> {
    if file.as_raw_fd() > STANDARD_DESCRIPTOR_MAX {
        return Ok(file.into());
    }
    let moved = rustix::io::fcntl_dupfd_cloexec(&file, STANDARD_DESCRIPTOR_MAX + 1)?;
    // The number stays taken: each later file would have it for a moment, in which something may be printed.
    let null = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty());
    if null.is_ok_and(|null| rustix::io::dup2(&null, &mut file).is_ok()) {
        let _ = file.into_raw_fd();
    }
    Ok(moved.into())
}

/// Returns whether the file or directory at `path`, or the deepest existing one above it, is within this directory, or
/// is this directory.
pub(super) fn contains(directory: &File, path: &Path) -> io::Result<bool> {
    let wanted = rustix::fs::fstat(directory)?;
    let path = std::path::absolute(path)?;
    let existing = path.ancestors().find(|above| above.exists()).unwrap_or(&path);
    for above in existing.canonicalize()?.ancestors() {
        let found = rustix::fs::stat(above)?;
        if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a directory that is open was removed, or a file in it.
pub(super) fn is_removed(directory: &File, name: &str) -> io::Result<bool> {
    if rustix::fs::fstat(directory)?.st_nlink == 0 {
        return Ok(true);
    }
    match rustix::fs::statat(directory, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(true),
        found => Ok(found.map(|_| false)?),
    }
}

/// Creates missing directories from the top down, and syncs the name of each before the next is created. So after a
/// crash only the deepest existing one may have an unsynced name, and that is synced in any case.
fn create_durably(base: BorrowedFd<'_>, path: &Path) -> io::Result<File> {
    // Another error than that it is missing is found again below.
    if let Ok(handle) = open_directory(base, path) {
        return match sync_name(&handle) {
            // A process that may not read the parent directory has not created this one.
            Err(error) if error.kind() != ErrorKind::PermissionDenied => Err(error),
            _ => Ok(handle),
        };
    }
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        create_durably(base, above)?;
    }
    match rustix::fs::mkdirat(base, path, Mode::from_raw_mode(0o777)) {
        // Another process may have created it since.
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let handle = open_directory(base, path)?;
    sync_name(&handle)?;
    Ok(handle)
}

/// Syncs the parent of a directory.
fn sync_name(directory: &File) -> io::Result<()> {
    sync_entries(&open_at(directory, "..", OFlags::RDONLY | OFlags::DIRECTORY)?)
}

/// Blocks until the entries of a directory survive a power loss.
fn sync_entries(directory: &File) -> io::Result<()> {
    directory.sync_all()?;
    #[cfg(any(test, feature = "testing"))]
    synced::note(directory);
    Ok(())
}

impl DirectoryBackend for SystemDirectory {
    fn open(&self, name: &str, access: Access, mode: OpenMode) -> io::Result<Box<dyn FileBackend>> {
        let flags = match mode {
            OpenMode::New => {
                self.check_writable()?;
                OFlags::RDWR | OFlags::CREATE | OFlags::EXCL
            }
            OpenMode::Existing if self.read_only => OFlags::RDONLY,
            OpenMode::Existing => OFlags::RDWR,
        };
        Ok(Box::new(SystemFile::open(&self.descriptors, checked(name)?, flags, access)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.handle())? {
            let entry = entry?;
            let is_directory = match entry.file_type() {
                // Some file systems do not state the type.
                FileType::Unknown => {
                    let found =
                        rustix::fs::statat(self.handle(), entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(found.st_mode).is_dir()
                }
                known => known.is_dir(),
            };
            let name = entry.file_name().to_string_lossy();
            if name != LOCK && !is_directory {
                names.push(name.into_owned());
            }
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check_writable()?;
        let name = checked(name)?;
        let unlink = || Ok(rustix::fs::unlinkat(self.handle(), name, AtFlags::empty())?);
        self.descriptors.remove(name, unlink)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check_writable()?;
        let (from, to) = (checked(from)?, checked(to)?);
        let rename = || Ok(rustix::fs::renameat(self.handle(), from, self.handle(), to)?);
        self.descriptors.rename(from, to, rename)
    }

    fn sync(&self) -> io::Result<()> {
        self.check_writable()?;
        sync_entries(self.handle())
    }

    fn lock(&self, name: &str, mode: LockMode) -> io::Result<Box<dyn Send + Sync>> {
        if mode == LockMode::Exclusive {
            self.check_writable()?;
        }
        Ok(Box::new(match (name, mode) {
            (LOCK, LockMode::Exclusive) => lock::lock_directory(self.handle())?,
            (LOCK, LockMode::Shared) => lock::lock_directory_shared(self.handle())?,
            (name, LockMode::Exclusive) => lock::lock_one(self.handle(), checked(name)?)?,
            (_, LockMode::Shared) => return Err(ErrorKind::Unsupported.into()),
        }))
    }

    fn other(&self, path: &Path, create: bool) -> io::Result<Box<dyn DirectoryBackend>> {
        let (base, creates) = (self.handle().as_fd(), create && !self.read_only);
        let handle = if creates { create_durably(base, path)? } else { open_directory(base, path)? };
        let descriptors = Arc::new(Descriptors::new(handle));
        Ok(Box::new(SystemDirectory { path: self.path.join(path), descriptors, read_only: self.read_only }))
    }

    fn state(&self) -> io::Result<DirectoryState> {
        let state = retry(|| rustix::fs::fstatvfs(self.handle()))?;
        // Some file systems state no size.
        let free_bytes = (state.f_blocks > 0).then(|| state.f_bavail.saturating_mul(state.f_frsize));
        Ok(DirectoryState { free_bytes, system_run: *SYSTEM_RUN })
    }

    fn executor(&self) -> Option<Box<dyn PieceExecutor>> {
        Some(ring::executor().unwrap_or_else(threads::executor))
    }

    fn as_system(&self) -> Option<&SystemDirectory> {
        Some(self)
    }

    fn path(&self) -> PathBuf {
        self.path.clone()
    }
}

/// The random number of the start of the system; only Linux has it.
static SYSTEM_RUN: LazyLock<Option<u128>> = LazyLock::new(|| {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
});

/// Copies under a temporary name first, so that an incomplete copy never has the final one.
fn copy_durably(directory: &File, name: &str, target: &File) -> io::Result<()> {
    let passing = format!("{name}.copy");
    let copy = || {
        let mut from = open_at(directory, name, OFlags::RDONLY)?;
        // An earlier copy may have been interrupted.
        let mut to = open_at(target, &passing, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        io::copy(&mut from, &mut to)?;
        to.sync_all()?;
        Ok(rustix::fs::renameat(target, &passing, target, name)?)
    };
    copy().inspect_err(|_| {
        let _ = rustix::fs::unlinkat(target, &passing, AtFlags::empty());
    })
}

/// The directories that a thread has synced, for tests, which cannot cause a real power loss.
#[cfg(any(test, feature = "testing"))]
pub mod synced {
    use std::cell::RefCell;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    thread_local! {
        /// `None` until a test of this thread asks: other threads would only fill their memory.
        static SYNCED: RefCell<Option<Vec<(u64, u64)>>> = const { RefCell::new(None) };
    }

    pub(super) fn note(directory: &File) {
        SYNCED.with_borrow_mut(|synced| {
            let metadata = synced.as_ref().and_then(|_| directory.metadata().ok());
            synced
                .iter_mut()
                .for_each(|synced| synced.extend(metadata.iter().map(|of| (of.dev(), of.ino()))));
        });
    }

    /// Notes from now on what this thread syncs, and forgets what it has synced.
    pub fn forget() {
        SYNCED.set(Some(Vec::new()));
    }

    /// Returns whether this thread has synced the entries of the directory since.
    pub fn has(path: &Path) -> bool {
        let is_synced = |metadata: std::fs::Metadata| {
            let id = (metadata.dev(), metadata.ino());
            SYNCED.with_borrow(|synced| synced.as_ref().is_some_and(|synced| synced.contains(&id)))
        };
        std::fs::metadata(path).is_ok_and(is_synced)
    }
}

#[cfg(test)]
mod tests;
