//! A database of the engine FlashKey with the keys in order, written by an earlier version: `fixtures/databases/` has
//! it as a kill left it, with a saved index, notes in the redo log, records that cleaning moved, runs of keys,
//! tombstones and records that expire. A copy is opened, read, written and compacted.
//!
//! `SILTSTONE_BLESS=1` writes the database if it is missing. An existing one is never overwritten.

use siltstone::batch::NEVER;
use siltstone::{Database, Error, FlashKeySettings, Record, WriteOptions};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const NAME: &str = "v1-flashkey";
const KEYS: u32 = 700;
/// In the far past, and in the far future, in milliseconds since the Unix epoch.
const PAST: u64 = 1;
const FUTURE: u64 = 1 << 50;

type Contents = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

fn key(number: u32) -> Vec<u8> {
    let rest = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    [&rest[..4], &number.to_be_bytes()[..], &rest[..number as usize % 9]].concat()
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
}

fn build(path: &Path) -> Writing {
    let settings = FlashKeySettings::default().segment_bytes(4_096).space(1.3).ordered(true);
    let builder = Database::builder(path).engine(settings).partitions(2).seed([0x5117, 0x570e]);
    let mut writing =
        Writing { database: builder.background_threads(0).open().unwrap(), contents: Contents::new() };
    for step in 0..4 * KEYS {
        writing.put(step * 11 % KEYS, step / KEYS, NEVER);
        if step % 8 == 0 {
            writing.database.settle().unwrap();
        }
    }
    (150..190).for_each(|number| writing.delete(number));
    writing.put(200, 5, PAST);
    writing.put(201, 5, FUTURE);
    writing.database.settle().unwrap();
    // After the last background work, so that opening finds these in the log.
    (640..KEYS + 20).for_each(|number| writing.put(number, 6, NEVER));
    writing.delete(5);
    writing
}

fn fixture() -> PathBuf {
    super::fixture(NAME, |path| {
        let directory = tempfile::tempdir().unwrap();
        let written = directory.path().join("db");
        let _open_as_at_a_kill = build(&written);
        super::copy_files(&written, path);
    })
}

fn contents() -> Contents {
    build(&tempfile::tempdir().unwrap().path().join("db")).contents
}

/// Opens a database without knowledge of its settings.
fn open(path: &Path) -> siltstone::Result<Database> {
    Database::builder(path).create(false).background_threads(0).open()
}

fn check(database: &Database, expected: &Contents) {
    for number in 0..KEYS + 100 {
        let found = database.get_found(key(number)).unwrap();
        let found = found.map(|found| (found.value.to_vec(), found.expires_at_ms));
        assert_eq!(found.as_ref(), expected.get(&key(number)), "key {number}");
    }
    let pair = |record: siltstone::Result<Record>| {
        let record = record.unwrap();
        (record.key.to_vec(), (record.value.to_vec(), record.expires_at_ms))
    };
    assert_eq!(&database.iter().unwrap().map(pair).collect::<Contents>(), expected);
    let in_order: Vec<_> = database.ordered().unwrap().range(..).unwrap().map(pair).collect();
    assert_eq!(in_order, expected.clone().into_iter().collect::<Vec<_>>());
}

#[test]
fn a_flashkey_of_an_earlier_version_has_all_records_in_the_order_of_their_keys() {
    let copy = super::copy_of(&fixture());
    let database = open(copy.path()).unwrap();
    check(&database, &contents());
    let report = database.verify().unwrap();
    assert!(report.damage.is_empty() && report.checked_records > 600, "{report:?}");
    assert_eq!(database.stats().lost_tail_bytes, 0);
    assert!(database.stats().replayed_records > 60, "{}", database.stats().replayed_records);
}

#[test]
fn a_flashkey_of_an_earlier_version_can_be_written_compacted_and_opened_again() {
    let copy = super::copy_of(&fixture());
    let mut writing = Writing { database: open(copy.path()).unwrap(), contents: contents() };
    for number in (0..600).step_by(3) {
        writing.put(number, 9, NEVER);
        writing.database.settle().unwrap();
    }
    (1..600).step_by(9).for_each(|number| writing.delete(number));
    check(&writing.database, &writing.contents);
    writing.database.close().unwrap();
    let Writing { database, contents } = writing;
    drop(database);
    let database = open(copy.path()).unwrap();
    database.compact().unwrap();
    check(&database, &contents);
    drop(database);
    check(&open(copy.path()).unwrap(), &contents);
}

#[test]
fn files_of_a_later_version_of_flashkey_are_refused_by_their_number_and_unchanged() {
    for kind in ["MANIFEST", "log-", "redo-", ".keys"] {
        let copy = super::copy_of(&fixture());
        let name = super::files(copy.path()).into_keys().find(|name| name.contains(kind));
        let name = name.unwrap_or_else(|| panic!("the fixture has no {kind}"));
        let mut bytes = fs::read(copy.path().join(&name)).unwrap();
        // Every file begins with a magic number of 8 bytes and its version.
        bytes[8..12].copy_from_slice(&9u32.to_le_bytes());
        if kind == ".keys" {
            let footer = bytes.len() - 128;
            bytes[footer + 8..footer + 12].copy_from_slice(&9u32.to_le_bytes());
        }
        fs::write(copy.path().join(&name), &bytes).unwrap();
        let before = super::files(copy.path());
        match open(copy.path()).and_then(|database| database.ordered().unwrap().range(..).map(drop)) {
            Err(Error::Version { file, found: 9, supported: 1 }) => assert!(file.ends_with(&name)),
            other => panic!("{name}: {other:?}"),
        }
        let mut after = super::files(copy.path());
        after.remove("LOCK");
        assert_eq!(after, before, "{name}");
    }
}
