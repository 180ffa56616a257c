//! Databases of the engine FlashStore written by earlier versions: `fixtures/databases/` has one above a disk, with
//! records on flash alone, on the disk alone and on both, tombstones, records that were read from the disk and records
//! that stayed; and a cache. A copy of each is opened, read, written and compacted.
//!
//! `SILTSTONE_BLESS=1` writes a database that is missing. An existing one is never overwritten.

use siltstone::batch::NEVER;
use siltstone::{Database, Disk, Error, FlashStoreSettings, SiltSettings, WriteOptions};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SEED: [u64; 2] = [0x5117, 0x570e];
const SEGMENT_BYTES: u64 = 4_096;
const KEYS: u32 = 700;
/// Records that expire in the far past, and in the far future, in milliseconds since the Unix epoch.
const PAST: u64 = 1;
const FUTURE: u64 = 1 << 50;
/// The number of records of the cache, and those that have just been put.
const CACHED: usize = 512;
const NEWEST: std::ops::Range<u32> = 640..KEYS;

type Contents = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Golden {
    Tier,
    Cache,
}

const ALL: [Golden; 2] = [Golden::Tier, Golden::Cache];

fn key(number: u32) -> Vec<u8> {
    let rest = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    [&number.to_be_bytes()[..], &rest[..number as usize % 9]].concat()
}

fn value(number: u32, version: u32) -> Vec<u8> {
    (0..(number + version) * 11 % 80).map(|at| (number * 7 + version * 31 + at) as u8).collect()
}

/// A database that is written, with what it must have.
struct Writing {
    database: Database,
    contents: Contents,
}

impl Writing {
    fn put(&mut self, number: u32, version: u32, expires_at_ms: u64) {
        let (key, value) = (key(number), value(number, version));
        self.database.put_with(&key, &value, WriteOptions::default().expires_at_ms(expires_at_ms)).unwrap();
        match expires_at_ms {
            PAST => self.contents.remove(&key),
            _ => self.contents.insert(key, (value, expires_at_ms)),
        };
    }

    fn delete(&mut self, number: u32) {
        self.database.delete(key(number)).unwrap();
        self.contents.remove(&key(number));
    }

    fn get(&self, numbers: impl Iterator<Item = u32>) {
        numbers.for_each(|number| drop(self.database.get(key(number)).unwrap()));
    }

    fn settle(&self) {
        self.database.settle().unwrap();
    }
}

impl Golden {
    fn path(self) -> PathBuf {
        let name = ["v1-flashstore", "v1-flashstore-cache"][self as usize];
        super::fixture(name, |path| {
            let directory = tempfile::tempdir().unwrap();
            let written = directory.path().join("db");
            let _open_as_at_a_kill = self.build(&written);
            super::copy_files(&written, path);
        })
    }

    fn settings(self) -> FlashStoreSettings {
        let settings = FlashStoreSettings::default().segment_bytes(SEGMENT_BYTES);
        let settings = settings.flash_bytes(16 * SEGMENT_BYTES).usage(0.5);
        let of_disk = SiltSettings::default().log_slots_min(64).merge_ratio(0.1);
        match self {
            Golden::Tier => settings.disk(Disk::at("disk").engine(of_disk)),
            Golden::Cache => settings.cache(true),
        }
    }

    /// Writes the database, which stays open, and what it must have.
    fn build(self, path: &Path) -> Writing {
        let builder = Database::builder(path).engine(self.settings()).partitions(2);
        let database = builder.seed(SEED).background_threads(0).open().unwrap();
        let mut writing = Writing { database, contents: Contents::new() };
        for number in 0..KEYS {
            writing.put(number, 1, NEVER);
            // Read, so that some records stay.
            writing.get((number / 2..number).step_by(17));
            if number % 16 == 0 {
                writing.settle();
            }
        }
        // Found on the disk twice, so that flash has them as well.
        writing.get((0..40).chain(0..40));
        writing.settle();
        (100..160).for_each(|number| writing.put(number, 2, NEVER));
        writing.settle();
        (150..170).for_each(|number| writing.delete(number));
        writing.put(200, 3, PAST);
        writing.put(201, 3, FUTURE);
        // After the last background work, so that opening finds these in the log.
        NEWEST.for_each(|number| writing.put(number, 4, NEVER));
        writing.delete(5);
        writing
    }

    fn contents(self) -> Contents {
        self.build(&tempfile::tempdir().unwrap().path().join("db")).contents
    }

    /// Returns a copy of the fixture, which may be changed.
    fn copy(self) -> TempDir {
        super::copy_of(&self.path())
    }
}

/// Opens a database without knowledge of its settings.
fn open(path: &Path) -> siltstone::Result<Database> {
    Database::builder(path).create(false).background_threads(0).open()
}

fn detail(database: &Database, name: &str) -> f64 {
    let details = database.stats().details;
    details.iter().find(|(other, _)| *other == name).unwrap().1
}

/// Checks all keys, and all records of an iteration. Returns how many there are; those of a cache may be fewer than
/// what was put.
fn check(golden: Golden, database: &Database, expected: &Contents) -> usize {
    let mut count = 0;
    for number in 0..KEYS + 100 {
        let found = database.get_found(key(number)).unwrap();
        let found = found.map(|found| (found.value.to_vec(), found.expires_at_ms));
        if found.is_some() || golden == Golden::Tier {
            assert_eq!(found.as_ref(), expected.get(&key(number)), "{golden:?}, key {number}");
        }
        count += usize::from(found.is_some());
    }
    let records = database.iter().unwrap().map(Result::unwrap);
    let records = records.map(|record| (record.key.to_vec(), (record.value.to_vec(), record.expires_at_ms)));
    let records: Contents = records.collect();
    assert!(records.iter().all(|(key, found)| expected.get(key) == Some(found)), "{golden:?}");
    assert_eq!(records.len(), count, "{golden:?}");
    count
}

#[test]
fn a_flashstore_of_an_earlier_version_has_all_records() {
    for golden in ALL {
        let (copy, expected) = (golden.copy(), golden.contents());
        let database = open(copy.path()).unwrap();
        assert!(detail(&database, "log_bytes") > 0.0 && database.stats().replayed_records > 10);
        assert_eq!(database.stats().lost_tail_bytes, 0);
        let report = database.verify().unwrap();
        assert!(report.damage.is_empty() && report.checked_records > 200, "{golden:?}: {report:?}");
        let count = check(golden, &database, &expected);
        match golden {
            Golden::Tier => {
                assert_eq!(count, expected.len());
                assert!(
                    detail(&database, "clean_records") > 10.0 && detail(&database, "disk_records") > 200.0
                );
            }
            Golden::Cache => {
                assert_eq!(count, CACHED);
                NEWEST.for_each(|number| assert!(database.contains(key(number)).unwrap()));
            }
        }
    }
}

#[test]
fn a_flashstore_of_an_earlier_version_can_be_written_compacted_and_opened_again() {
    for golden in ALL {
        let (copy, contents) = (golden.copy(), golden.contents());
        let mut writing = Writing { database: open(copy.path()).unwrap(), contents };
        for number in (0..600).step_by(3) {
            writing.put(number, 9, NEVER);
            writing.settle();
        }
        (1..600).step_by(9).for_each(|number| writing.delete(number));
        check(golden, &writing.database, &writing.contents);
        writing.database.close().unwrap();
        let Writing { database, contents } = writing;
        drop(database);
        let database = open(copy.path()).unwrap();
        database.compact().unwrap();
        let count = check(golden, &database, &contents);
        if golden == Golden::Tier {
            assert_eq!((count, database.stats().merged_records), (contents.len(), contents.len() as u64));
        }
        drop(database);
        assert_eq!(check(golden, &open(copy.path()).unwrap(), &contents), count);
    }
}

#[test]
fn the_fixtures_have_every_kind_of_file() {
    let kinds = ["MANIFEST", "log-", "moved1-", "redo-", ".index"];
    for (golden, directory, kinds) in [
        (Golden::Tier, "", [&kinds[..], &["moved3-"]].concat()),
        (Golden::Tier, "disk", vec!["FLASHSTORE", "MANIFEST", "log-", ".sorted"]),
        (Golden::Cache, "", kinds.to_vec()),
    ] {
        let names = fs::read_dir(golden.path().join(directory)).unwrap();
        let names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        for kind in kinds {
            assert!(names.iter().any(|name| name.contains(kind)), "{kind} of {golden:?}: {names:?}");
        }
    }
}

#[test]
fn a_flashstore_of_a_later_version_is_refused_by_its_number() {
    let later = 2u32;
    for name in ["MANIFEST", "disk/MANIFEST"] {
        let copy = Golden::Tier.copy();
        for name in [name.to_owned(), format!("{name}.mirror")] {
            let Ok(mut bytes) = fs::read(copy.path().join(&name)) else { continue };
            bytes[8..12].copy_from_slice(&later.to_le_bytes());
            fs::write(copy.path().join(&name), &bytes).unwrap();
        }
        match open(copy.path()).map(drop) {
            Err(Error::Version { file, found: 2, .. }) => assert!(file.ends_with(name), "{file:?}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}
