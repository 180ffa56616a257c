//! Files in memory, for tests and for measuring the operations of an engine.

use super::{Access, DirectoryBackend, FileBackend, FileState, LOCK, LockMode, OpenMode};
use crate::sync::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::io::{self, Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Bytes = Arc<RwLock<Vec<u8>>>;

/// A directory in memory. Clones share the files, so a database can be opened again on them.
#[derive(Clone, Default)]
pub struct MemoryDirectory {
    files: Arc<Mutex<BTreeMap<String, Bytes>>>,
    locks: NameLocks,
    /// Other directories by their paths.
    others: Arc<Mutex<BTreeMap<PathBuf, MemoryDirectory>>>,
}

struct MemoryFile(Bytes);

/// The locked names. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct NameLocks(Arc<Mutex<BTreeMap<String, Holders>>>);

/// The holders of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holders {
    One,
    Shared(usize),
}

/// A held lock, released on drop.
struct NameLock {
    locks: NameLocks,
    name: String,
}

impl NameLocks {
    /// Locks a name; `WouldBlock` if another lock of it excludes this one.
    pub fn take(&self, name: &str, mode: LockMode) -> io::Result<Box<dyn Send + Sync>> {
        let mut locks = self.0.lock();
        let holders = match (mode, locks.get(name)) {
            (LockMode::Exclusive, None) => Holders::One,
            (LockMode::Shared, None) => Holders::Shared(1),
            (LockMode::Shared, Some(Holders::Shared(count))) => Holders::Shared(count + 1),
            _ => return Err(ErrorKind::WouldBlock.into()),
        };
        locks.insert(name.to_owned(), holders);
        Ok(Box::new(NameLock { locks: self.clone(), name: name.to_owned() }))
    }
}

impl Drop for NameLock {
    fn drop(&mut self) {
        let mut locks = self.locks.0.lock();
        match locks.get_mut(&self.name) {
            Some(Holders::Shared(count)) if *count > 1 => *count -= 1,
            _ => drop(locks.remove(&self.name)),
        }
    }
}

impl MemoryDirectory {
    /// Removes another directory, as if its device were not there.
    #[cfg(any(test, feature = "testing"))]
    pub fn detach(&self, path: &Path) -> Option<MemoryDirectory> {
        self.others.lock().remove(path)
    }

    /// Adds another directory.
    #[cfg(any(test, feature = "testing"))]
    pub fn attach(&self, path: &Path, other: MemoryDirectory) {
        self.others.lock().insert(path.to_owned(), other);
    }

    fn find(&self, name: &str) -> io::Result<Bytes> {
        self.files.lock().get(name).cloned().ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl DirectoryBackend for MemoryDirectory {
    fn open(&self, name: &str, _access: Access, mode: OpenMode) -> io::Result<Box<dyn FileBackend>> {
        if mode == OpenMode::Existing {
            return Ok(Box::new(MemoryFile(self.find(name)?)));
        }
        let mut files = self.files.lock();
        if files.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let bytes = Bytes::default();
        files.insert(name.to_owned(), bytes.clone());
        Ok(Box::new(MemoryFile(bytes)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.lock().keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.lock().remove(name).map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files.lock();
        let bytes = files.remove(from).ok_or_else(|| Error::from(ErrorKind::NotFound))?;
        files.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, name: &str, mode: LockMode) -> io::Result<Box<dyn Send + Sync>> {
        if name != LOCK {
            self.find(name)?;
        }
        self.locks.take(name, mode)
    }

    fn other(&self, path: &Path, create: bool) -> io::Result<Box<dyn DirectoryBackend>> {
        let mut others = self.others.lock();
        if create {
            others.entry(path.to_owned()).or_default();
        }
        Ok(Box::new(others.get(path).cloned().ok_or(ErrorKind::NotFound)?))
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("memory")
    }
}

impl FileBackend for MemoryFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.read();
        let from = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
        let count = from.len().min(buffer.len());
        buffer[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.write();
        let start = usize::try_from(offset).map_err(|_| ErrorKind::FileTooLarge)?;
        let end = start.checked_add(from.len()).ok_or(ErrorKind::FileTooLarge)?;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(from);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.0.write().truncate(usize::try_from(length).unwrap_or(usize::MAX));
        Ok(())
    }

    fn state(&self) -> io::Result<FileState> {
        Ok(FileState { length: self.0.read().len() as u64, names: None })
    }
}
