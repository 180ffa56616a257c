//! The lock on the directory of an open database, and the permission to change its files.
//!
//! Every change of a file holds the lock shared. Closing waits for running changes and then releases the lock. After
//! that no handle of the database changes anything, so another open has the directory to itself.

use crate::error::{Error, Result};
use siltstone_device::sync::Mutex;
use siltstone_device::sync::atomic::{AtomicBool, Ordering::Relaxed};
use siltstone_device::{StripedLock, process_mark};

pub(super) struct DirectoryLock {
    /// Shared by what changes files.
    changing: StripedLock,
    /// Set while no thread shares `changing`.
    is_closed: AtomicBool,
    /// `None` once the database is closed.
    held: Mutex<Option<Box<dyn Send + Sync>>>,
    read_only: bool,
    /// The process that opened the database.
    opened_by: u32,
    mark: u64,
}

impl DirectoryLock {
    pub fn new(held: Box<dyn Send + Sync>, read_only: bool) -> DirectoryLock {
        DirectoryLock {
            changing: StripedLock::default(),
            is_closed: AtomicBool::new(false),
            held: Mutex::new(Some(held)),
            read_only,
            opened_by: std::process::id(),
            mark: process_mark(),
        }
    }

    /// Returns an error in a process that was forked from the one that opened the database: both have the same open
    /// files, and would overwrite each other's writes.
    pub fn check_process(&self) -> Result<()> {
        let opened_by = self.opened_by;
        if self.mark == process_mark() { Ok(()) } else { Err(Error::Forked { opened_by }) }
    }

    /// Returns whether the database was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Allows the caller to write records until the guard is dropped.
    pub fn to_write(&self) -> Result<impl Sized + '_> {
        if self.read_only { Err(Error::ReadOnly) } else { self.to_work() }
    }

    /// Allows the caller alone to write records until the guard is dropped. Returns `None` if others write or do
    /// background work now.
    pub fn to_write_alone(&self) -> Result<Option<impl Sized + '_>> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.check_process()?;
        // Without waiting: callers have another way, which needs no more than the shared lock.
        match self.changing.try_alone() {
            Some(_) if self.is_closed.load(Relaxed) => Err(Error::Closed),
            alone => Ok(alone),
        }
    }

    /// Allows the caller to do background work until the guard is dropped. In a read-only database that work only loads
    /// indexes and filters, and changes nothing.
    pub fn to_work(&self) -> Result<impl Sized + '_> {
        self.check_process()?;
        let shared = self.changing.share();
        // Checked after the wait, during which the database may have been closed.
        if self.is_closed.load(Relaxed) { Err(Error::Closed) } else { Ok(shared) }
    }

    /// Waits for running changes, runs `last` and releases the lock. The argument of `last` is whether the lock was
    /// held.
    pub fn release(&self, last: impl FnOnce(bool) -> Result<()>) -> Result<()> {
        // Before the wait: the threads that hold the lock are not in a forked process, and never release it.
        self.check_process()?;
        let _alone = self.changing.alone();
        self.is_closed.store(true, Relaxed);
        // Dropped after `last`: until it has returned, no other handle or process opens the directory.
        let lock = self.held.lock().take();
        last(lock.is_some())
    }
}
