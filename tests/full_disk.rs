//! Full file systems: a small ext4 in a file, and a small tmpfs. Mounting them requires root. Where they cannot be
//! mounted the tests are skipped and report that on standard error.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and prints")]

use siltstone::{Access, Database, Durability, Error, WriteOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The size of the file systems, in bytes.
const SIZE: u64 = 8 << 20;

/// A mounted file system, unmounted when it is dropped.
struct Mounted {
    directory: TempDir,
}

/// Runs a command; returns its output if it failed.
fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Reports on standard error that a test is skipped, even if test output is captured.
fn skip(reason: &str) {
    let mut uncaptured = std::io::stderr();
    writeln!(uncaptured, "SKIPPED: tests/full_disk.rs: {reason}").unwrap();
}

impl Mounted {
    fn new(mount: impl FnOnce(&Path) -> Result<(), String>) -> Option<Mounted> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("mounted")).unwrap();
        match mount(directory.path()) {
            Ok(()) => Some(Mounted { directory }),
            Err(reason) => {
                skip(&format!("a file system cannot be mounted here: {}", reason.trim()));
                None
            }
        }
    }

    fn tmpfs() -> Option<Mounted> {
        Mounted::new(|root| {
            let (size, path) = (format!("size={SIZE}"), root.join("mounted"));
            run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", path.to_str().unwrap()])
        })
    }

    fn ext4() -> Option<Mounted> {
        Mounted::new(|root| {
            let (image, path) = (root.join("image"), root.join("mounted"));
            std::fs::File::create(&image).unwrap().set_len(SIZE).unwrap();
            run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()])?;
            run("mount", &["-o", "loop", image.to_str().unwrap(), path.to_str().unwrap()])
        })
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run("umount", &[self.path().to_str().unwrap()]).unwrap_or_else(|reason| println!("{reason}"));
    }
}

fn open(directory: &Path, access: Access, background_threads: usize) -> siltstone::Result<Database> {
    let builder =
        Database::builder(directory.join("db")).access(access).partitions(2).set("log_slots_min", 64);
    builder.background_threads(background_threads).open()
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Fills the disk, and checks that everything acknowledged can be read, before and after space was freed.
fn fill_and_recover(directory: &Path, access: Access, background_threads: usize) {
    // A merge that begins when the space is free again needs as much as a partition, half of the data.
    let ballast = directory.join("ballast");
    std::fs::write(&ballast, vec![1; SIZE as usize / 2]).unwrap();
    let database = open(directory, access, background_threads).unwrap();
    let mut acknowledged = 0;
    let failure = loop {
        let durability = [Durability::Written, Durability::Synced][acknowledged as usize % 100 / 99];
        let options = WriteOptions::default().durability(durability);
        match database.put_with(key(acknowledged), vec![acknowledged as u8; 1000], options) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error.to_string(),
        }
        assert!(u64::from(acknowledged) * 1000 < SIZE, "more than the disk holds was acknowledged");
    };
    assert!(failure.contains("No space left on device"), "{failure}");
    let again = database.put(key(0), "again").unwrap_err();
    assert!(
        matches!(again, Error::Poisoned { .. }) && again.to_string().contains("No space left"),
        "{again}"
    );
    assert!(again.to_string().contains("reopening recovers"), "{again}");
    assert!(database.sync().is_err() && database.compact().is_err());
    let check = |database: &Database| {
        for number in 0..acknowledged {
            let found = database.get(key(number)).unwrap();
            assert!(found.is_some_and(|value| *value == [number as u8; 1000]), "{number} of {acknowledged}");
        }
    };
    check(&database);
    assert!(database.close().is_err());
    drop(database);
    std::fs::remove_file(ballast).unwrap();
    let database = open(directory, access, background_threads).unwrap();
    check(&database);
    assert!(database.verify().unwrap().damage.is_empty());
    database.put("more", "space").unwrap();
    database.close().unwrap();
}

#[test]
fn on_a_full_tmpfs_no_acknowledged_write_is_lost() {
    for background_threads in [0, 1] {
        let Some(mounted) = Mounted::tmpfs() else { return };
        fill_and_recover(&mounted.path(), Access::Buffered, background_threads);
    }
}

#[test]
fn on_a_full_ext4_no_acknowledged_write_is_lost() {
    for access in [Access::Buffered, Access::DirectOrBuffered] {
        let Some(mounted) = Mounted::ext4() else { return };
        fill_and_recover(&mounted.path(), access, 1);
    }
}
