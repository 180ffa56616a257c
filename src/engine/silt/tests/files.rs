//! Claims about the files of a database as a whole: their names, whose they are, and where they end.

use super::simulated::{self, Expected};
use crate::damage::VerifyReport;
use crate::device::{Access, Directory, Purpose};
use crate::testing::SimulatedDirectory;
use crate::{Database, Durability};
use std::collections::BTreeMap;

fn directory(device: &SimulatedDirectory) -> Directory {
    Directory::new(device.clone(), Access::Buffered)
}

fn contents(device: &SimulatedDirectory) -> BTreeMap<String, Vec<u8>> {
    let directory = directory(device);
    let read = |name: String| {
        let file = directory.open(&name, Access::Buffered).unwrap();
        let length = file.length().unwrap() as usize;
        let mut buffer = crate::device::AlignedBuffer::default();
        let bytes = file.read(Purpose::Get, 0, length, &mut buffer).unwrap().to_vec();
        (name, bytes)
    };
    device.names().unwrap().into_iter().map(read).collect()
}

fn write(device: &SimulatedDirectory, name: &str, bytes: &[u8]) {
    let file = directory(device).create(name, Access::Buffered).unwrap();
    file.write(Purpose::Log, 0, bytes).unwrap();
}

fn verify(device: &SimulatedDirectory) -> VerifyReport {
    Database::verify_closed_in(&directory(device), &mut |_, _| true).unwrap()
}

/// A database with all kinds of files, closed, whose log begins at 0 or later.
fn closed(device: &SimulatedDirectory, compacted: bool) -> Expected {
    let database = simulated::open(device).unwrap();
    let mut expected = Expected::default();
    expected.put(&database, 0..50, Durability::Synced);
    if compacted {
        database.compact().unwrap();
        expected.put(&database, 20..90, Durability::Synced);
        database.settle().unwrap();
        expected.put(&database, 60..64, Durability::Synced);
    }
    database.close().unwrap();
    expected
}

#[test]
fn files_of_other_owners_are_left_alone_and_do_not_matter() {
    const STRAYS: [&str; 16] = [
        "log-0",
        "log-00",
        "log-+0",
        "log-2024",
        "log-20240101",
        "log-ffffffffffffffff1",
        "log-0000000000000000.bak",
        "log-000000000000000A",
        "cafe.hash",
        "1.sorted",
        "00000001.hash.old",
        "0000CAFE.sorted",
        "MANIFEST.backup.new",
        "MANIFEST.old",
        "notes.txt",
        "+0000001.hash",
    ];
    for compacted in [false, true] {
        let device = SimulatedDirectory::new(1);
        let mut expected = closed(&device, compacted);
        let log = contents(&device).into_iter().find(|(name, _)| name.starts_with("log-")).unwrap().1;
        for (number, name) in STRAYS.iter().enumerate() {
            // Some look like segments of the log by their bytes, too.
            write(&device, name, if number % 2 == 0 { &log } else { b"the user's own" });
        }
        let strays = |device: &SimulatedDirectory| -> BTreeMap<_, _> {
            contents(device).into_iter().filter(|(name, _)| STRAYS.contains(&&name[..])).collect()
        };
        let before = strays(&device);
        assert_eq!(before.len(), STRAYS.len());
        assert!(verify(&device).damage.is_empty());
        let files = contents(&device);
        assert!(Database::repair_in(&directory(&device), &mut |_, _| true).unwrap().set_aside.is_none());
        assert_eq!(contents(&device), files);
        for _ in 0..2 {
            let database = simulated::open(&device).unwrap();
            expected.check(&database);
            expected.put(&database, 10..40, Durability::Synced);
            database.compact().unwrap();
            database.close().unwrap();
        }
        expected.check(&simulated::open(&device).unwrap());
        assert_eq!(strays(&device), before);
    }
}
