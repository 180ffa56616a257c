//! The directory of a benchmark's files, and the file system that it is on.

use crate::{Error, Result};
use clap::builder::{PathBufValueParser, TypedValueParser};
use serde::Serialize;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// File systems in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// Parses the path of a directory of databases, which need not exist. A file is refused before anything is read in it.
pub fn directory() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.is_file() {
        true => Err("this is a file, but a database is a directory; use another path"),
        false => Ok(path),
    })
}

/// A directory. A temporary one is removed with its contents when it is dropped.
#[derive(Debug, Serialize)]
pub struct Place {
    directory: PathBuf,
    #[serde(flatten)]
    mount: Option<Mount>,
    #[serde(skip)]
    temporary: Option<TempDir>,
}

/// The mount point of a directory.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Mount {
    file_system: String,
    device: String,
}

impl Place {
    /// Returns the directory `named`, or a new one in the system's directory for temporary files.
    pub fn prepare(named: Option<&Path>) -> Result<Place> {
        match named {
            Some(named) => Ok(Place::at(named.to_owned(), None)),
            None => Place::temporary(&std::env::temp_dir()),
        }
    }

    /// Creates a temporary directory in `parent`.
    pub fn temporary(parent: &Path) -> Result<Place> {
        let temporary = tempfile::Builder::new().prefix("siltstone-bench-").tempdir_in(parent);
        let what = || format!("cannot create a temporary directory in {}", parent.display());
        let temporary = temporary.map_err(|error| Error::System(what(), error))?;
        Ok(Place::at(temporary.path().join("db"), Some(temporary)))
    }

    fn at(directory: PathBuf, temporary: Option<TempDir>) -> Place {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok();
        let existing = directory.ancestors().find_map(|path| match path == Path::new("") {
            true => fs::canonicalize(".").ok(),
            false => fs::canonicalize(path).ok(),
        });
        let mount = mounts.zip(existing).and_then(|(mounts, path)| mount_of(&mounts, &path));
        Place { directory, mount, temporary }
    }

    /// Returns the directory, which may not exist yet.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the directory that is removed at the end, if this is a temporary one.
    pub fn removed_at_end(&self) -> Option<&Path> {
        self.temporary.as_ref().map(TempDir::path)
    }

    /// Returns the file system of the directory if it is in memory.
    pub fn file_system_in_memory(&self) -> Option<&str> {
        let file_system = self.mount.as_ref().map(|mount| mount.file_system.as_str());
        file_system.filter(|file_system| IN_MEMORY.contains(file_system))
    }

    /// Returns an error if the directory has contents.
    pub fn check_empty(&self) -> Result<()> {
        match fs::read_dir(&self.directory) {
            Ok(mut entries) => match entries.next() {
                Some(_) => Err(Error::Occupied(self.directory.clone())),
                None => Ok(()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::System(format!("cannot list {}", self.directory.display()), error)),
        }
    }

    /// Removes the database that this run has written.
    pub fn clear(&self) -> Result<()> {
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::System(format!("cannot remove {}", self.directory.display()), error))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.directory.display())?;
        match &self.mount {
            Some(Mount { file_system, device }) => write!(to, " on {file_system} ({device})"),
            None => Ok(()),
        }
    }
}

/// Returns the innermost mount of a path, from the lines of /proc/self/mountinfo.
fn mount_of(mounts: &str, path: &Path) -> Option<Mount> {
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        // The system escapes a space in a name as \040.
        let point = before.split(' ').nth(4)?.replace("\\040", " ");
        let mut after = after.split(' ');
        let (file_system, device) = (after.next()?.to_owned(), after.next()?.to_owned());
        path.starts_with(&point).then_some((point.len(), Mount { file_system, device }))
    };
    // A later mount hides an earlier one at the same point.
    mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length).map(|(_, mount)| mount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_contents_is_refused_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "kept").unwrap();
        let place = Place::prepare(Some(directory.path())).unwrap();
        assert!(matches!(place.check_empty(), Err(Error::Occupied(_))));
        drop(place);
        assert_eq!(fs::read(directory.path().join("file")).unwrap(), b"kept");
    }

    #[test]
    fn a_temporary_directory_is_removed_at_the_end() {
        let place = Place::prepare(None).unwrap();
        fs::create_dir(place.directory()).unwrap();
        place.check_empty().unwrap();
        place.clear().unwrap();
        place.clear().unwrap();
        assert!(!place.directory().exists());
        let removed = place.removed_at_end().unwrap().to_owned();
        drop(place);
        assert!(!removed.exists());
    }

    #[test]
    fn the_innermost_mount_has_the_file_system_and_the_device() {
        let mounts = "22 1 252:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
                      30 22 0:26 / /tmp rw - tmpfs tmpfs rw,size=1g\n\
                      31 22 252:2 / /mnt/two\\040words rw - xfs /dev/vdb rw\n\
                      32 22 252:3 / /mnt/two\\040words rw - btrfs /dev/vdc rw\n";
        for (path, file_system, device) in [
            ("/tmp/bench", "tmpfs", "tmpfs"),
            ("/tmpfile", "ext4", "/dev/vda1"),
            ("/mnt/two words/db", "btrfs", "/dev/vdc"),
        ] {
            let expected = Mount { file_system: file_system.to_owned(), device: device.to_owned() };
            assert_eq!(mount_of(mounts, Path::new(path)), Some(expected), "{path}");
        }
    }
}
