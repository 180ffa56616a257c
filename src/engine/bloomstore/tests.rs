//! Claims about prefilters.

use super::BloomStoreSettings;
use crate::Database;
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory, Purpose};
use std::collections::BTreeMap;

const KEYS: u64 = 12_000;
/// Keys that were never put begin with this.
const MISSING: u64 = 1 << 40;
const MISSES: u64 = 2_000;

fn directory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

fn open(directory: &Directory, prefilter_bits: Option<u8>) -> Database {
    let settings = BloomStoreSettings::default().chain_length(8).runs(8).buffered_filters(2);
    let settings = settings.log_slots_min(128).region_slots_max(64);
    let settings = match prefilter_bits {
        Some(bits) => settings.prefilter_bits(bits),
        None => settings,
    };
    let builder = Database::builder("memory").background_threads(0).partitions(2).seed([3, 4]);
    builder.engine(settings).open_in(directory.clone()).unwrap()
}

/// Puts, overwrites and deletes keys. Returns what the database has then.
fn fill(database: &Database) -> BTreeMap<u64, u64> {
    let mut expected = BTreeMap::new();
    for step in 0..KEYS {
        let key = step * 31 % (KEYS * 3 / 4);
        if step % 50 == 49 {
            database.delete(key.to_be_bytes()).unwrap();
            expected.remove(&key);
        } else {
            database.put(key.to_be_bytes(), step.to_be_bytes()).unwrap();
            expected.insert(key, step);
        }
        if step % 16 == 0 {
            database.settle().unwrap();
        }
    }
    database.settle().unwrap();
    expected
}

fn assert_holds(database: &Database, expected: &BTreeMap<u64, u64>) {
    let keys: Vec<[u8; 8]> = (0..KEYS).map(u64::to_be_bytes).collect();
    let found = database.get_many(&keys).unwrap();
    for (key, found) in (0..KEYS).zip(found) {
        let expected = expected.get(&key).map(|step| step.to_be_bytes());
        assert_eq!(found.as_deref(), expected.as_ref().map(|value| &value[..]), "key {key}");
        assert_eq!(database.get(key.to_be_bytes()).unwrap(), found, "key {key}");
        assert!(found.is_none() || database.may_contain(key.to_be_bytes()).unwrap(), "key {key}");
    }
}

/// Returns the reads of a get of a missing key, alone and among many.
fn reads_per_miss(directory: &Directory, database: &Database) -> [f64; 2] {
    let reads = || directory.io().of(Purpose::Get).reads;
    let keys: Vec<[u8; 8]> = (MISSING..MISSING + MISSES).map(u64::to_be_bytes).collect();
    let before = reads();
    keys.iter().for_each(|key| assert!(database.get(key).unwrap().is_none()));
    let between = reads();
    assert!(database.get_many(&keys).unwrap().iter().all(Option::is_none));
    [between - before, reads() - between].map(|reads| reads as f64 / MISSES as f64)
}

fn prefilter_bytes(database: &Database) -> u64 {
    let ram = database.stats().ram;
    ram.items().iter().filter(|(name, _)| *name == "prefilter").map(|(_, bytes)| bytes).sum()
}

#[test]
fn with_4_bits_a_missing_key_takes_at_most_0_2_reads_also_after_the_database_was_opened_again() {
    let directory = directory();
    let database = open(&directory, Some(4));
    let expected = fill(&database);
    assert!(database.stats().merged_records > 0);
    for _ in 0..2 {
        assert_holds(&database, &expected);
        let reads = reads_per_miss(&directory, &database);
        assert!(reads.iter().all(|reads| (0.01..=0.2).contains(reads)), "{reads:?} reads");
        database.compact().unwrap();
    }
    let held = prefilter_bytes(&database);
    database.close().unwrap();
    let database = open(&directory, None);
    assert_holds(&database, &expected);
    database.settle().unwrap();
    assert_eq!(prefilter_bytes(&database), held, "the prefilters are read back");
    assert!(database.stats().degraded.is_empty());
    assert!(reads_per_miss(&directory, &database).iter().all(|reads| *reads <= 0.2));
}

#[test]
fn a_database_that_had_no_prefilter_gets_one_with_the_next_chain() {
    let directory = directory();
    let database = open(&directory, None);
    let expected = fill(&database);
    assert!(reads_per_miss(&directory, &database)[0] >= 1.0);
    database.close().unwrap();
    let database = open(&directory, Some(8));
    for number in 0..4_000 {
        database.put((2 * MISSING + number).to_be_bytes(), "new").unwrap();
        if number % 16 == 0 {
            database.settle().unwrap();
        }
    }
    database.settle().unwrap();
    assert!(prefilter_bytes(&database) > KEYS * 3 / 4, "8 bits per key");
    assert_holds(&database, &expected);
    assert!(reads_per_miss(&directory, &database)[0] < 0.1);
}

#[test]
fn under_a_small_budget_prefilters_stay_on_flash_and_no_key_is_lost() {
    let directory = directory();
    let database = open(&directory, Some(16));
    let expected = fill(&database);
    // Two bytes each in a prefilter, more together than the budget.
    for number in 0..300_000 {
        database.put((2 * MISSING + number).to_be_bytes(), "new").unwrap();
    }
    database.settle().unwrap();
    let held = prefilter_bytes(&database);
    assert!(held > 520 << 10);
    // The least budget of two partitions.
    database.set_memory_budget(Some(520 << 10)).unwrap();
    database.settle().unwrap();
    assert_holds(&database, &expected);
    assert!(prefilter_bytes(&database) < held);
    let total = database.stats().ram.total_bytes();
    assert!(total <= 520 << 10, "{total} bytes");
    database.set_memory_budget(None).unwrap();
    database.settle().unwrap();
    assert_eq!(prefilter_bytes(&database), held);
    assert_holds(&database, &expected);
}
