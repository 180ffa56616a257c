//! A directory that leaves out some of what it is asked for and says that all went well: to the device this looks as if
//! the engine had forgotten to ask.

use crate::device::{Access, DirectoryBackend, FileBackend};
use crate::testing::simulated::SimulatedDirectory;
use std::io;
use std::path::PathBuf;

/// What an engine can forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Omission {
    /// To sync the files whose names begin or end so.
    SyncOf(&'static str),
    /// To sync the directory.
    SyncOfTheDirectory,
    /// To cut off the torn end of a file.
    Truncation,
    /// To look whether a write went well.
    ErrorsOfWrites,
    /// To look whether a sync went well.
    ErrorsOfSyncs,
    /// To remove files that are not needed any more.
    Removal,
}

/// A simulated directory with an omission.
pub(super) struct Forgetful {
    directory: SimulatedDirectory,
    omission: Omission,
}

impl Forgetful {
    pub fn new(directory: SimulatedDirectory, omission: Omission) -> Forgetful {
        Forgetful { directory, omission }
    }

    fn file(&self, name: &str, file: Box<dyn FileBackend>) -> Box<dyn FileBackend> {
        let skips_sync = match self.omission {
            Omission::SyncOf(affix) => name.starts_with(affix) || name.ends_with(affix),
            _ => false,
        };
        Box::new(ForgetfulFile { file, omission: self.omission, skips_sync })
    }
}

struct ForgetfulFile {
    file: Box<dyn FileBackend>,
    omission: Omission,
    skips_sync: bool,
}

impl DirectoryBackend for Forgetful {
    fn create(&self, name: &str, access: Access) -> io::Result<Box<dyn FileBackend>> {
        Ok(self.file(name, self.directory.create(name, access)?))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn FileBackend>> {
        Ok(self.file(name, self.directory.open(name, access)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.directory.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if self.omission == Omission::Removal { Ok(()) } else { self.directory.remove(name) }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.directory.rename(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        if self.omission == Omission::SyncOfTheDirectory { Ok(()) } else { self.directory.sync() }
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        self.directory.lock(name)
    }

    fn share(&self, name: &str, target: &dyn DirectoryBackend) -> io::Result<()> {
        self.directory.share(name, target)
    }

    fn path(&self) -> PathBuf {
        self.directory.path()
    }
}

impl FileBackend for ForgetfulFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let outcome = self.file.write_at(offset, bytes);
        if self.omission == Omission::ErrorsOfWrites { Ok(()) } else { outcome }
    }

    fn sync(&self) -> io::Result<()> {
        if self.skips_sync {
            return Ok(());
        }
        let outcome = self.file.sync();
        if self.omission == Omission::ErrorsOfSyncs { Ok(()) } else { outcome }
    }

    fn drop_cache(&self) {
        self.file.drop_cache();
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        if self.omission == Omission::Truncation { Ok(()) } else { self.file.truncate(length) }
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn alignment(&self) -> usize {
        self.file.alignment()
    }
}
