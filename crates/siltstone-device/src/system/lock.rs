//! Locks of a directory and of a single file by `flock`, which the system releases when the process ends.
//!
//! The lock of a directory is on the directory itself, so it needs neither a file nor write permission, and a removed
//! `LOCK` file does not admit a second writer. Where directories cannot be locked (NFS), `LOCK` is locked instead. In
//! any case `LOCK` contains the number of the writing process.

use super::{open_at, retry};
use crate::LOCK;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};

/// What to do where the file system has no locks.
const WITHOUT_LOCKS: &str = "the file system has no locks (flock); open the database read-only, copy it to another \
                             file system, or mount this one with locks (NFS: without `nolock`)";

/// A held lock. A forked child has the same open files: it must neither release the lock nor change `LOCK`.
pub(super) struct HeldLock {
    files: Vec<File>,
    /// `LOCK`, with the number of this process in it.
    named: Option<File>,
    process: u32,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        // Before the lock is released: after that the number may be that of the next process.
        if let Some(file) = &self.named {
            // If this fails, the number that remains does no harm: it is read only while the lock is held.
            let _ = file.set_len(0);
        }
        // Closing the files would not suffice: a child of this process may still have them open.
        for file in self.named.iter().chain(&self.files) {
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

/// Takes the exclusive lock of a directory; `WouldBlock` if it is taken.
pub(super) fn lock_directory(directory: &File) -> io::Result<HeldLock> {
    // First the directory: a process that removes `LOCK` and creates another one is still refused.
    let whole = lock_whole(directory, FlockOperation::NonBlockingLockExclusive)?;
    let file = lock_file(directory, LOCK, OFlags::RDWR | OFlags::CREATE).map_err(with_remedy)?;
    // Only for the errors of others: a full file system must not prevent an open.
    let named = name_process(&file).is_ok().then(|| file.try_clone()).transpose()?;
    let files = whole.into_iter().chain([file]).collect();
    Ok(HeldLock { files, named, process: std::process::id() })
}

/// Adds what to do to the error of a file system without locks.
fn with_remedy(error: io::Error) -> io::Error {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    let has_no_locks = matches!(code, Some(Errno::OPNOTSUPP | Errno::NOLCK | Errno::NOSYS | Errno::INVAL));
    if has_no_locks { io::Error::new(ErrorKind::Unsupported, WITHOUT_LOCKS) } else { error }
}

/// Takes a shared lock of a directory, which excludes the exclusive one. Changes nothing in the directory. Where there
/// are no locks, there is none: the caller has to know that no process writes.
pub(super) fn lock_directory_shared(directory: &File) -> io::Result<HeldLock> {
    let operation = FlockOperation::NonBlockingLockShared;
    let mut files = Vec::from_iter(lock_whole(directory, operation)?);
    match open_at(directory, LOCK, OFlags::RDONLY) {
        Ok(file) => match retry(|| flock(&file, operation)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(error),
            // The lock on the directory suffices, and without locks there is none.
            Err(_) => {}
            Ok(()) => files.push(file),
        },
        Err(error) if files.is_empty() && error.kind() != ErrorKind::NotFound => return Err(error),
        // The lock on the directory itself needs no file.
        Err(_) => {}
    }
    Ok(HeldLock { files, named: None, process: std::process::id() })
}

/// Locks the directory itself; `None` if directories cannot be locked.
fn lock_whole(directory: &File, operation: FlockOperation) -> io::Result<Option<File>> {
    // Opened again for the lock: `flock` belongs to an open file, so a second lock within this process is refused as
    // well.
    let handle = open_at(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY)?;
    match retry(|| flock(&handle, operation)) {
        Ok(()) => Ok(Some(handle)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(error),
        Err(_) => Ok(None),
    }
}

/// Takes the exclusive lock of a file of the directory.
pub(super) fn lock_one(directory: &File, name: &str) -> io::Result<HeldLock> {
    let files = vec![lock_file(directory, name, OFlags::RDWR)?];
    Ok(HeldLock { files, named: None, process: std::process::id() })
}

fn lock_file(directory: &File, name: &str, flags: OFlags) -> io::Result<File> {
    let file = open_at(directory, name, flags)?;
    retry(|| flock(&file, FlockOperation::NonBlockingLockExclusive))?;
    // Another file may have taken its name before it was locked.
    let (locked, named) = (file.metadata()?, open_at(directory, name, OFlags::RDONLY)?.metadata()?);
    if (locked.dev(), locked.ino()) != (named.dev(), named.ino()) {
        return Err(ErrorKind::WouldBlock.into());
    }
    Ok(file)
}

fn name_process(file: &File) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)
}

/// Returns the process that has the directory locked for writing, from `LOCK`; `None` if there is none, or it is not
/// recorded.
pub(super) fn holder(directory: &File) -> Option<u32> {
    // If a shared lock can be taken, there is no writer.
    match lock_directory_shared(directory) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        _ => return None,
    }
    let mut bytes = [0; 16];
    let length = open_at(directory, LOCK, OFlags::RDONLY).ok()?.read_at(&mut bytes, 0).ok()?;
    std::str::from_utf8(&bytes[..length]).ok()?.trim_end().parse().ok()
}
