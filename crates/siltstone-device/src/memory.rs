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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error as DeviceError;
    use crate::{AlignedBuffer, Directory, Purpose, WRITEBACK_BYTES};

    fn directory(backend: &MemoryDirectory) -> Directory {
        Directory::new(backend.clone(), Access::Buffered)
    }

    #[test]
    fn an_exclusive_lock_excludes_all_others_and_a_shared_one_those_that_are_exclusive() {
        let locks = NameLocks::default();
        let take = |name, mode| locks.take(name, mode).map_err(|error| error.kind());
        let shared = [take("a", LockMode::Shared), take("a", LockMode::Shared), take("a", LockMode::Shared)];
        for lock in shared {
            assert_eq!(take("a", LockMode::Exclusive).err(), Some(ErrorKind::WouldBlock));
            drop(lock.unwrap());
        }
        let exclusive = take("a", LockMode::Exclusive).unwrap();
        for mode in [LockMode::Shared, LockMode::Exclusive] {
            assert_eq!(take("a", mode).err(), Some(ErrorKind::WouldBlock));
            assert!(take("b", mode).is_ok(), "another name");
        }
        drop(exclusive);
        assert!(take("a", LockMode::Shared).is_ok());
    }

    #[test]
    fn clones_of_a_directory_in_memory_share_files_locks_and_other_directories() {
        let backend = MemoryDirectory::default();
        let (one, other) = (directory(&backend), directory(&backend));
        one.create("file", Access::Buffered).unwrap().write(Purpose::Log, 0, b"bytes").unwrap();
        assert_eq!(other.length_of("file").unwrap(), 5);
        assert!(other.create("file", Access::Buffered).is_err());
        let lock = one.lock().unwrap();
        assert!(matches!(other.lock(), Err(DeviceError::Locked { .. })));
        drop(lock);
        let lock = one.lock_file("file").unwrap();
        assert!(other.lock_file("file").is_err() && other.lock_file("none").is_err() && other.lock().is_ok());
        drop(lock);
        assert!(other.lock_file("file").is_ok());
        one.rename("file", "renamed").unwrap();
        assert_eq!(other.list().unwrap(), ["renamed"]);
        assert!(one.rename("file", "again").is_err());
        other.remove("renamed").unwrap();
        assert!(one.list().unwrap().is_empty() && one.remove("renamed").is_err());
        let path = Path::new("inner");
        assert!(one.other(path, false).is_err() && backend.detach(path).is_none());
        one.other(path, true).unwrap().create("file", Access::Buffered).unwrap();
        assert_eq!(other.other(path, false).unwrap().list().unwrap(), ["file"]);
        let detached = backend.detach(path).unwrap();
        assert!(other.other(path, false).is_err());
        backend.attach(path, detached);
        assert_eq!(one.other(path, true).unwrap().list().unwrap(), ["file"]);
    }

    #[test]
    fn a_file_in_memory_grows_by_zeros_and_is_cut_off() {
        let file = directory(&MemoryDirectory::default()).create("file", Access::Buffered).unwrap();
        let contents = |length: usize| -> crate::Result<Vec<u8>> {
            Ok(file.read(Purpose::Get, 0, length, &mut AlignedBuffer::default())?.to_vec())
        };
        file.write(Purpose::Log, 2, b"ab").unwrap();
        assert_eq!((file.length().unwrap(), contents(4).unwrap()), (4, b"\0\0ab".to_vec()));
        file.write(Purpose::Log, 1, b"cd").unwrap();
        file.write(Purpose::Log, 4, b"").unwrap();
        assert_eq!(contents(4).unwrap(), b"\0cdb");
        assert!(contents(5).is_err());
        file.truncate(9).unwrap();
        file.truncate(2).unwrap();
        assert_eq!((file.length().unwrap(), contents(2).unwrap()), (2, b"\0c".to_vec()));
        assert!(file.read(Purpose::Get, u64::MAX, 1, &mut AlignedBuffer::default()).is_err());
        assert!(file.write(Purpose::Log, u64::MAX, b"far").is_err());
        file.sync(Purpose::Log).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_linked_is_copied_piece_by_piece() {
        let memory = || Directory::new(MemoryDirectory::default(), Access::Buffered);
        for length in [0, 1, WRITEBACK_BYTES as usize, WRITEBACK_BYTES as usize + 1] {
            let (from, to) = (memory(), memory());
            let bytes: Vec<u8> = (0..length).map(|at| (at / 1000) as u8).collect();
            from.create("data", Access::Buffered).unwrap().write(Purpose::Manifest, 0, &bytes).unwrap();
            from.share("data", &to).unwrap();
            let copy = to.open("data", Access::Buffered).unwrap();
            assert_eq!(copy.length().unwrap(), length as u64);
            let mut buffer = AlignedBuffer::default();
            assert!(copy.read(Purpose::Recover, 0, length, &mut buffer).unwrap() == bytes);
            // The copy is a file of its own.
            copy.write(Purpose::Manifest, 0, b"x").unwrap();
            let first = from.open("data", Access::Buffered).unwrap();
            assert_eq!(first.length().unwrap(), length as u64);
        }
    }

    #[test]
    fn a_directory_is_read_only_once_that_was_asked_for() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        assert!(!directory.is_read_only());
        assert!(directory.read_only().is_read_only());
    }
}
