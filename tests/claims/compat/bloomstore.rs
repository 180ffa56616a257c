//! A database that BloomStore wrote with an earlier version: `fixtures/databases/v1-bloomstore`, with a merged run,
//! runs in a chain and after it, a prefilter, and a log. A copy of it is opened, read, written and merged.
//!
//! `SILTSTONE_BLESS=1` writes the database if it is missing. An existing one is never overwritten: it must remain what
//! the program of its time wrote.

use siltstone::{BloomStoreSettings, Database, Durability, WriteOptions};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const NAME: &str = "v1-bloomstore";
const KEYS: u32 = 900;
/// In the far future, in milliseconds since the Unix epoch.
const FUTURE: u64 = 1 << 50;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: u32) -> Vec<u8> {
    let mixed = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    [&number.to_be_bytes()[..], &mixed].concat()[..4 + number as usize % 9].to_vec()
}

fn value(number: u32, version: u32) -> Vec<u8> {
    let length = if (number + version) % 60 == 7 { 1_300 } else { number * 11 % 60 };
    (0..length).map(|at| (number * 7 + version * 31 + at) as u8).collect()
}

/// Writes to a database, and returns what it has then. The last records stay in the log.
fn fill(database: &Database) -> Contents {
    let mut contents = Contents::new();
    for step in 0..2 * KEYS {
        let number = step * 7 % KEYS;
        if step % 40 == 39 {
            database.delete(key(number)).unwrap();
            contents.remove(&key(number));
        } else {
            let options = WriteOptions::default().expires_at_ms(FUTURE);
            database.put_with(key(number), value(number, step), options).unwrap();
            contents.insert(key(number), value(number, step));
        }
        if step % 8 == 0 {
            database.settle().unwrap();
        }
    }
    database.settle().unwrap();
    for number in KEYS..KEYS + 30 {
        database.put(key(number), value(number, 1)).unwrap();
        contents.insert(key(number), value(number, 1));
    }
    contents
}

fn create(path: &Path) -> Database {
    let settings =
        BloomStoreSettings::default().chain_length(8).runs(8).buffered_filters(3).prefilter_bits(4);
    let settings = settings.space(10.0).log_slots_min(64).region_slots_max(64);
    let builder = Database::builder(path).engine(settings).background_threads(0).seed([0x5117, 0x570e]);
    builder.partitions(2).block_bytes(512).open().unwrap()
}

fn fixture() -> PathBuf {
    super::fixture(NAME, |path| {
        let database = create(path);
        fill(&database);
        database.close().unwrap();
        drop(database);
        fs::remove_file(path.join("LOCK")).unwrap();
    })
}

/// Returns a copy, and what it has.
fn copy() -> (TempDir, Contents) {
    let other = tempfile::tempdir().unwrap();
    let contents = fill(&create(other.path()));
    (super::copy_of(&fixture()), contents)
}

/// Opens a database without knowledge of its settings.
fn open(path: &Path) -> Database {
    Database::builder(path).create(false).background_threads(0).open().unwrap()
}

fn check(database: &Database, contents: &Contents) {
    for number in 0..KEYS + 100 {
        let found = database.get(key(number)).unwrap();
        assert_eq!(found.as_deref(), contents.get(&key(number)).map(Vec::as_slice), "key {number}");
    }
    let records = database.iter().unwrap().map(Result::unwrap);
    assert_eq!(
        &records.map(|record| (record.key.to_vec(), record.value.to_vec())).collect::<Contents>(),
        contents
    );
}

#[test]
fn a_database_of_an_earlier_version_has_all_records() {
    let (copy, contents) = copy();
    let database = open(copy.path());
    check(&database, &contents);
    let report = database.verify().unwrap();
    assert!(report.damage.is_empty() && u64::from(KEYS) < report.checked_records, "{report:?}");
    let stats = database.stats();
    assert_eq!(stats.lost_tail_bytes, 0);
    assert!(stats.replayed_records >= 30, "{} records in the log", stats.replayed_records);
    database.settle().unwrap();
    let ram = database.stats().ram;
    assert!(ram.items().iter().any(|(name, bytes)| *name == "prefilter" && *bytes > 0), "{ram:?}");
}

#[test]
fn it_has_every_kind_of_file() {
    let names: Vec<_> = fs::read_dir(fixture()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let count = |end: &str| names.iter().filter(|name| name.to_string_lossy().ends_with(end)).count();
    assert_eq!((count(".sorted"), count(".chain")), (2, 2), "{names:?}");
    assert!(count(".hash") > 2, "{names:?}");
}

#[test]
fn a_database_of_an_earlier_version_can_be_written_merged_and_opened_again() {
    let (copy, mut contents) = copy();
    let database = open(copy.path());
    for number in (0..KEYS).step_by(3) {
        let options = WriteOptions::default().durability(Durability::Buffered);
        database.put_with(key(number), value(number, 9), options).unwrap();
        contents.insert(key(number), value(number, 9));
    }
    check(&database, &contents);
    database.compact().unwrap();
    check(&database, &contents);
    assert_eq!(database.stats().merged_records, contents.len() as u64);
    database.close().unwrap();
    drop(database);
    check(&open(copy.path()), &contents);
}
