//! Files of the operating system.

mod direct;
mod file;
pub(super) mod pages;
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

use super::{Access, DirectoryBackend, FileBackend, LOCK};
use crate::{Error, Result};
use file::SystemFile;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory of the file system.
pub struct SystemDirectory {
    path: PathBuf,
    /// The directory itself, for syncing its entries.
    handle: fs::File,
    /// Whether files are opened for reading alone, and nothing is changed.
    read_only: bool,
}

impl SystemDirectory {
    /// Opens a directory that is there.
    ///
    /// # Errors
    /// [`Error::Io`] if there is none, if it is something else, or if it may not be read.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let handle = open_directory(&path).map_err(Error::io("open", &path))?;
        Ok(SystemDirectory { path, handle, read_only: false })
    }

    /// Opens a directory for reading alone: its files may be those of another user or of a read-only medium. Whatever
    /// would change it is refused (`ReadOnlyFilesystem`).
    ///
    /// # Errors
    /// As [`open`](SystemDirectory::open).
    pub fn open_read_only(path: impl Into<PathBuf>) -> Result<Self> {
        Ok(SystemDirectory { read_only: true, ..SystemDirectory::open(path)? })
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.read_only { Err(ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }

    /// Opens a directory and makes it, and those above it, where they are missing. What was made survives a loss of
    /// power.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be made or opened.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        create_durably(&path).map_err(Error::io("create", &path))?;
        SystemDirectory::open(path)
    }

    /// The path of a file. A name may come from bytes on disk, so it must not lead out of the directory.
    fn file_path(&self, name: &str) -> io::Result<PathBuf> {
        if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "this is no name of a file in the directory",
            ));
        }
        Ok(self.path.join(name))
    }
}

fn open_directory(path: &Path) -> io::Result<fs::File> {
    let handle = fs::File::open(path)?;
    if handle.metadata()?.is_dir() { Ok(handle) } else { Err(ErrorKind::NotADirectory.into()) }
}

fn create_durably(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|above| !above.as_os_str().is_empty() && !above.exists()).collect();
    fs::create_dir_all(path)?;
    for made in missing {
        let above = made.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::File::open(above)?.sync_all()?;
    }
    Ok(())
}

impl DirectoryBackend for SystemDirectory {
    fn create(&self, name: &str, access: Access) -> io::Result<Box<dyn FileBackend>> {
        self.check_writable()?;
        let path = self.file_path(name)?;
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        match SystemFile::new(file, access) {
            Ok(file) => Ok(Box::new(file)),
            Err(error) => {
                fs::remove_file(&path)?;
                Err(error)
            }
        }
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn FileBackend>> {
        let file = OpenOptions::new().read(true).write(!self.read_only).open(self.file_path(name)?)?;
        Ok(Box::new(SystemFile::new(file, access)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != LOCK && !entry.file_type()?.is_dir() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check_writable()?;
        fs::remove_file(self.file_path(name)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check_writable()?;
        fs::rename(self.file_path(from)?, self.file_path(to)?)
    }

    fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    /// An advisory lock (`flock`) of the file, which stays when the lock is given back. It belongs to the open file, so
    /// a second one in the same process is refused too, and it ends with the process, however that ends.
    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        self.check_writable()?;
        let path = self.file_path(name)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(name == LOCK).truncate(false).open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        // Another file may have taken its name before it was locked.
        let (locked, named) = (file.metadata()?, fs::metadata(&path)?);
        if (locked.dev(), locked.ino()) != (named.dev(), named.ino()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(file))
    }

    /// The copy, where a link cannot be made, is synced before it stands there. The entry itself is durable when the
    /// directory `target` was synced.
    fn share(&self, name: &str, target: &Path) -> io::Result<()> {
        let (from, to) = (self.file_path(name)?, target.join(name));
        match fs::hard_link(&from, &to) {
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => {
                copy_durably(&from, &to)
            }
            outcome => outcome,
        }
    }

    fn set_aside(&self, names: &[&str], folder: &str) -> io::Result<()> {
        self.check_writable()?;
        let target = self.file_path(folder)?;
        fs::create_dir(&target)?;
        names.iter().try_for_each(|name| self.share(name, &target))?;
        open_directory(&target)?.sync_all()?;
        self.sync()
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn path(&self) -> PathBuf {
        self.path.clone()
    }
}

/// Copies under a passing name first, so that a half copy never bears the true one.
fn copy_durably(from: &Path, to: &Path) -> io::Result<()> {
    let mut passing = to.as_os_str().to_owned();
    passing.push(".copy");
    let copy = || {
        let mut target = fs::File::create(&passing)?;
        io::copy(&mut fs::File::open(from)?, &mut target)?;
        target.sync_all()?;
        fs::rename(&passing, to)
    };
    copy().inspect_err(|_| drop(fs::remove_file(&passing)))
}

#[cfg(test)]
mod tests;
