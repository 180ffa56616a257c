//! The lock of a database's directory while the database is open, and who may change its files.
//!
//! Whoever changes a file holds the lock shared while doing so. Closing waits for them, then gives the lock back: after
//! that no handle of the database changes anything, so another opening has the directory to itself.

use crate::device::process_mark;
use crate::sync::RwLock;
use crate::{Error, Result};

pub(super) struct DirectoryLock {
    /// `None` once the database is closed.
    held: RwLock<Option<Box<dyn Send + Sync>>>,
    read_only: bool,
    /// The process that opened the database.
    opened_by: u32,
    mark: u64,
}

impl DirectoryLock {
    pub fn new(held: Box<dyn Send + Sync>, read_only: bool) -> DirectoryLock {
        DirectoryLock {
            held: RwLock::new(Some(held)),
            read_only,
            opened_by: std::process::id(),
            mark: process_mark(),
        }
    }

    /// An error in a process that was forked from the one that opened the database: both have the same files, and each
    /// would write over what the other has written.
    pub fn check_process(&self) -> Result<()> {
        let opened_by = self.opened_by;
        if self.mark == process_mark() { Ok(()) } else { Err(Error::Forked { opened_by }) }
    }

    /// Lets the caller write records until the guard is dropped.
    pub fn to_write(&self) -> Result<impl Sized + '_> {
        if self.read_only { Err(Error::ReadOnly) } else { self.to_work() }
    }

    /// Lets the caller do background work until the guard is dropped. An engine that is open for reading only reads
    /// indexes and filters back, and changes nothing.
    pub fn to_work(&self) -> Result<impl Sized + '_> {
        self.check_process()?;
        let held = self.held.read();
        if held.is_some() { Ok(held) } else { Err(Error::Closed) }
    }

    /// Waits for changes under way, does the `last` ones and gives the lock back; `last` is told whether it was held.
    pub fn release(&self, last: impl FnOnce(bool) -> Result<()>) -> Result<()> {
        self.check_process()?;
        let mut held = self.held.write();
        let lock = held.take();
        last(lock.is_some())
    }
}
