//! Where the files of a benchmark are: in a directory that was named, or in a temporary one that goes away.

use crate::interrupt::RemovedAtExit;
use crate::outcome::complain;
use anyhow::Context;
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// File systems in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// A directory, the file system that it is on, and the device of that.
#[derive(Serialize)]
pub struct Ground {
    pub directory: PathBuf,
    #[serde(flatten)]
    mount: Option<Mount>,
    #[serde(skip)]
    _temporary: Option<(TempDir, RemovedAtExit)>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Mount {
    file_system: String,
    device: String,
}

/// A report, and where it was measured.
#[derive(Serialize)]
pub struct Grounded<'a, R> {
    #[serde(flatten)]
    pub report: &'a R,
    pub place: &'a Ground,
}

impl Ground {
    /// The directory `named`, or `name` in a temporary one. Warns of one in memory, where no drive is measured.
    pub fn prepare(named: Option<&Path>, name: &str) -> anyhow::Result<Ground> {
        match named {
            Some(named) => Ok(Ground::at(named.to_owned(), None)),
            None => Ground::temporary(&std::env::temp_dir(), name),
        }
    }

    /// `name` in a temporary directory below `above`.
    pub fn temporary(above: &Path, name: &str) -> anyhow::Result<Ground> {
        let temporary = tempfile::Builder::new().prefix("siltstone-bench-").tempdir_in(above);
        let temporary = temporary
            .with_context(|| format!("cannot create a temporary directory in {}", above.display()))?;
        let removed = RemovedAtExit::new(temporary.path());
        Ok(Ground::at(temporary.path().join(name), Some((temporary, removed))))
    }

    fn at(directory: PathBuf, temporary: Option<(TempDir, RemovedAtExit)>) -> Ground {
        let mount = fs::read_to_string("/proc/self/mountinfo").ok();
        let existing = directory.ancestors().find_map(|path| match path == Path::new("") {
            true => fs::canonicalize(".").ok(),
            false => fs::canonicalize(path).ok(),
        });
        let mount = mount.zip(existing).and_then(|(mounts, path)| mount_of(&mounts, &path));
        if let Some(mount) = mount.as_ref().filter(|mount| IN_MEMORY.contains(&&*mount.file_system)) {
            complain(format_args!(
                "{} is on {}, which is in memory, so this does not measure a drive; use a directory on a drive",
                directory.display(),
                mount.file_system
            ));
        }
        Ground { directory, mount, _temporary: temporary }
    }

    /// A line with the place and the sizes of records.
    pub fn print(&self, records: &str) -> io::Result<()> {
        let mount = match &self.mount {
            Some(Mount { file_system, device }) => format!(" on {file_system} ({device})"),
            None => String::new(),
        };
        writeln!(io::stdout(), "{}{mount}; {records}", self.directory.display())
    }
}

/// The innermost mount of a path, by the lines of /proc/self/mountinfo.
fn mount_of(mounts: &str, path: &Path) -> Option<Mount> {
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        // The system writes a space in a name as \040.
        let point = before.split(' ').nth(4)?.replace("\\040", " ");
        let mut after = after.split(' ');
        let (file_system, device) = (after.next()?.to_owned(), after.next()?.to_owned());
        path.starts_with(&point).then_some((point.len(), Mount { file_system, device }))
    };
    // Of two at one point the later hides the earlier.
    mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length).map(|(_, mount)| mount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_tells_file_system_and_device() {
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
