//! How many keys there are.

use super::open;
use crate::{Builder, Database};
use siltstone_device::memory::MemoryDirectory;

/// What is stated, in shares of the true number.
const ERROR_MAX: f64 = 0.02;

fn check(database: &Database, expected: u64, when: &str) {
    assert_eq!(database.iter().unwrap().count() as u64, expected, "{when}");
    let got = database.len().unwrap();
    let error = (got as f64 - expected as f64) / expected as f64;
    assert!(error.abs() <= ERROR_MAX, "{when}: {got} instead of {expected}: {:.1} %", error * 100.0);
}

#[test]
fn the_number_of_keys_is_right_within_two_per_cent_at_any_time_and_exact_after_a_compaction() {
    let files = MemoryDirectory::default();
    let setup = |builder: Builder| builder.fixed(8, 8).set("log_slots_min", 256).seed([3, 4]);
    let (database, _) = open(&files, setup);
    const KEYS: u64 = 40_000;
    let put = |database: &Database, keys: std::ops::Range<u64>, round: u64| {
        keys.for_each(|number| database.put(number.to_le_bytes(), round.to_le_bytes()).unwrap());
    };
    for part in 0..4 {
        put(&database, part * KEYS / 4..(part + 1) * KEYS / 4, 0);
        check(&database, (part + 1) * KEYS / 4, "inserting");
    }
    for round in 1..4 {
        put(&database, 0..KEYS / 2, round);
        check(&database, KEYS, "overwriting");
        put(&database, KEYS / 2..KEYS, round);
        check(&database, KEYS, "having overwritten");
    }
    (0..KEYS / 2).for_each(|number| database.delete((2 * number).to_le_bytes()).unwrap());
    (KEYS..2 * KEYS).for_each(|number| database.delete(number.to_le_bytes()).unwrap());
    check(&database, KEYS / 2, "deleting, also what is not there");
    drop(database);
    let (database, _) = open(&files, setup);
    check(&database, KEYS / 2, "opened again");
    assert!(database.stats().usage.records.abs_diff(KEYS / 2) <= KEYS / 100);
    database.compact().unwrap();
    assert_eq!(database.len().unwrap(), KEYS / 2);
    assert!(database.stats().records == KEYS / 2 && database.stats().merged_records == KEYS / 2);
}

#[test]
fn few_records_are_counted_exactly_wherever_they_are() {
    let (database, _) = open(&MemoryDirectory::default(), |builder| builder.partitions(2));
    assert_eq!(database.len().unwrap(), 0);
    for number in 0..900u64 {
        database.put(number.to_le_bytes(), "value").unwrap();
        if number % 3 == 0 {
            database.delete((number / 2).to_le_bytes()).unwrap();
        }
    }
    let expected = database.iter().unwrap().count() as u64;
    assert!(expected < 900 && database.len().unwrap() == expected);
}

#[test]
fn a_compaction_gives_the_log_back_whatever_partitions_had_no_write() {
    let (database, _) = open(&MemoryDirectory::default(), |builder| builder.partitions(16));
    for number in 0..3u64 {
        database.put(number.to_le_bytes(), vec![7; 1 << 20]).unwrap();
    }
    (0..3u64).for_each(|number| database.delete(number.to_le_bytes()).unwrap());
    assert!(database.stats().disk_bytes > 3 << 20);
    database.compact().unwrap();
    assert!(database.stats().disk_bytes < 64 << 10, "{} bytes", database.stats().disk_bytes);
    // All in one partition.
    let (database, _) = open(&MemoryDirectory::default(), |builder| builder.partitions(16).hashed_keys());
    for number in 0..3_000u32 {
        database.put([[0; 4], number.to_be_bytes()].concat(), "value").unwrap();
    }
    database.compact().unwrap();
    let report = database.verify().unwrap();
    assert_eq!(report.checked_records, 3_000, "each record is stored once");
}

#[test]
fn a_compaction_of_a_database_that_was_opened_again_gives_the_log_back() {
    let files = MemoryDirectory::default();
    let setup = |builder: Builder| builder.partitions(1).seed([3, 4]);
    let (database, _) = open(&files, setup);
    (0..200u64).for_each(|number| database.put(number.to_le_bytes(), vec![7; 1 << 10]).unwrap());
    drop(database);
    let (database, _) = open(&files, setup);
    (0..200u64).for_each(|number| database.delete(number.to_le_bytes()).unwrap());
    assert!(database.stats().disk_bytes > 200 << 10);
    database.compact().unwrap();
    assert!(database.stats().disk_bytes < 64 << 10, "{} bytes", database.stats().disk_bytes);
}
