//! Files of the operating system.
use super::{Access, DirectoryBackend, FileBackend};
use std::io;
use std::path::{Path, PathBuf};
/// A directory of the operating system.
pub struct SystemDirectory(PathBuf);
impl SystemDirectory {
    /// Opens a directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(path.to_owned()))
    }
}
impl DirectoryBackend for SystemDirectory {
    fn create(&self, _: &str, _: Access) -> io::Result<Box<dyn FileBackend>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn open(&self, _: &str, _: Access) -> io::Result<Box<dyn FileBackend>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn list(&self) -> io::Result<Vec<String>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn share(&self, _: &str, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn path(&self) -> PathBuf {
        self.0.clone()
    }
}
