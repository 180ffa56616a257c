//! Reads: faults that simulations found.

use super::open;
use super::simulated::{self, Expected};
use siltstone::engine::silt::{HashStoreKind, SiltSettings};
use siltstone::{Bytes, Database, Durability};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory, Purpose};
use siltstone_testing::{Call, FailingCall, Faults, SimulatedDirectory};

#[test]
fn records_in_blocks_smaller_than_a_direct_read_are_found() {
    for (fixed, kind) in [
        (true, HashStoreKind::CuckooTable),
        (true, HashStoreKind::HashOrdered),
        (false, HashStoreKind::HashOrdered),
    ] {
        let device = SimulatedDirectory::new(1).direct_alignment(Some(4096));
        let mut builder = Database::builder("simulated").partitions(1).background_threads(0);
        builder = builder.block_bytes(512).engine(SiltSettings::default().log_slots_min(16).hash_store(kind));
        if fixed {
            builder = builder.fixed(8, 8);
        }
        let database = builder.open_in(Directory::new(device, Access::Direct)).unwrap();
        let key = |number: u64| number.to_be_bytes();
        let check = || {
            for number in 0..300 {
                let found = database.get(key(number)).unwrap();
                assert_eq!(found.as_deref(), Some(&key(number)[..]), "{kind:?} {number}");
            }
        };
        (0..300).for_each(|number| database.put(key(number), key(number)).unwrap());
        database.settle().unwrap();
        check();
        database.compact().unwrap();
        check();
    }
}

#[test]
fn a_snapshot_reads_on_after_its_part_of_the_log_was_released() {
    let device = SimulatedDirectory::new(1);
    let database = simulated::open(&device).unwrap();
    // Determines how much of the log is read for a record of unknown length.
    database.put("long", [7; 3000]).unwrap();
    database.put("short", "value").unwrap();
    let snapshot = database.iter().unwrap();
    for round in 0..20u8 {
        (0..20u8).for_each(|key| database.put([key], [round; 100]).unwrap());
        database.compact().unwrap();
    }
    let records: Result<Vec<_>, _> = snapshot.collect();
    assert_eq!(records.unwrap().len(), 2);
}

#[test]
fn reads_continue_whatever_change_failed_and_the_failed_work_leaves_no_files() {
    let mut refused = 0;
    for seed in 0..150 {
        let device = SimulatedDirectory::new(seed);
        let database = simulated::open(&device).unwrap();
        let mut expected = Expected::default();
        expected.put(&database, 0..60, Durability::Synced);
        let chance = 0.02 + 0.3 * (seed as f64 / 150.0);
        device.set_faults(match seed % 3 {
            0 => Faults { write_error: chance, ..Faults::default() },
            1 => Faults { directory_error: chance, ..Faults::default() },
            _ => Faults { write_error: chance, directory_error: chance, ..Faults::default() },
        });
        let outcome = (0..3).try_for_each(|_| database.compact());
        device.set_faults(Faults::default());
        expected.check(&database);
        if device.failed_changes() > 0 {
            refused += 1;
            assert!(outcome.is_err() && database.put("key", "value").is_err(), "seed {seed}");
            assert!(database.sync().is_err() && database.close().is_err() && database.close().is_err());
        }
        drop(database);
        let database = simulated::open(&device).unwrap();
        expected.check(&database);
        assert_eq!(database.stats().disk_bytes, device.named_bytes(), "seed {seed}: an orphan");
    }
    assert!(refused > 50, "only {refused} runs met a fault");
}

/// Lookups use what a merge has written before it is synced. When the sync fails, the device may have lost it, and they
/// read what was merged: in the database, and in snapshots that were taken while the merge was in progress.
#[test]
fn reads_continue_after_the_sync_of_a_merge_has_failed() {
    for seed in 0..20 {
        let device = SimulatedDirectory::new(seed);
        let database = simulated::open(&device).unwrap();
        let mut expected = Expected::default();
        expected.put(&database, 0..200, Durability::Synced);
        database.compact().unwrap();
        let name_part = ".sorted";
        device.set_failing_call(Some(FailingCall {
            call: Some(Call::Sync),
            name_part,
            after: 0,
            for_ever: true,
        }));
        let mut snapshots = Vec::new();
        for number in 0u32.. {
            let key = (number % 200).to_be_bytes();
            if database.put(key, [7; 60]).and_then(|()| database.step()).is_err() {
                break;
            }
            snapshots.push(database.snapshot().unwrap());
        }
        let keys: Vec<_> = (0..200u32).map(u32::to_be_bytes).collect();
        for (written, snapshot) in snapshots.iter().enumerate().skip(snapshots.len().saturating_sub(200)) {
            let values = snapshot.get_many(&keys).unwrap();
            let is_new = |value: &Option<Bytes>| value.as_deref() == Some(&[7; 60]);
            assert_eq!(values.iter().flatten().count(), 200);
            assert_eq!(values.iter().filter(|value| is_new(value)).count(), (written + 1).min(200));
        }
        let values: Vec<_> = keys.iter().map(|key| database.get(key).unwrap()).collect();
        assert!(values.iter().all(Option::is_some) && database.get_many(&keys).unwrap() == values);
    }
}

#[test]
fn on_a_full_device_no_more_writes_are_acknowledged_and_none_that_were_are_lost() {
    for seed in 0..40 {
        let device = SimulatedDirectory::new(seed);
        let database = simulated::open(&device).unwrap();
        let mut expected = Expected::default();
        expected.put(&database, 0..60, Durability::Written);
        let room = seed * 200;
        device.set_faults(Faults { capacity_bytes: Some(device.named_bytes() + room), ..Faults::default() });
        let mut acknowledged = 0u64;
        let failure = loop {
            match database.put(acknowledged.to_le_bytes(), [7; 50]) {
                Ok(()) => acknowledged += 1,
                Err(error) => break error,
            }
        };
        let refused = database.put("key", "value").unwrap_err().to_string();
        let told = failure.to_string();
        assert!(
            refused.contains("reads still work") && refused.contains("storage space"),
            "{refused}: {told}"
        );
        let check = |database: &Database| {
            expected.check_keys(database);
            (0..acknowledged).for_each(|key| assert!(database.contains(key.to_le_bytes()).unwrap()));
        };
        check(&database);
        assert!(database.sync().is_err() && database.compact().is_err() && database.close().is_err());
        drop(database);
        device.set_faults(Faults::default());
        let database = simulated::open(&device).unwrap();
        check(&database);
        database.compact().unwrap();
        check(&database);
    }
}

#[test]
fn a_compaction_that_failed_in_the_background_returns_an_error() {
    for seed in 0..30 {
        let device = SimulatedDirectory::new(seed);
        let builder = Database::builder("simulated").engine(simulated::settings()).partitions(2);
        let directory = Directory::new(device.clone(), Access::Buffered);
        let database = builder.background_threads(1).open_in(directory).unwrap();
        Expected::default().put(&database, 0..60, Durability::Written);
        device.set_faults(Faults { sync_error: 1.0, ..Faults::default() });
        // Leaves something to compact, unless the background work has failed already.
        let _ = database.put("key", "value");
        assert!(database.compact().is_err());
    }
}

#[test]
fn a_get_reads_one_block_after_merges_that_found_no_new_key_and_one_of_new_keys_alone() {
    // The LogStores are so large that nothing is merged before the compaction.
    let setup = |builder: siltstone::Builder| builder.fixed(8, 56).partitions(2).set("log_slots_min", 16_384);
    let (database, directory) = open(&MemoryDirectory::default(), setup);
    let put = |keys: std::ops::Range<u64>| {
        keys.for_each(|number| database.put(number.to_le_bytes(), [number as u8; 56]).unwrap());
        database.compact().unwrap();
    };
    put(0..1_000);
    (0..6).for_each(|_| put(0..1_000));
    put(1_000..12_000);
    let before = directory.io();
    for number in 0..12_000u64 {
        assert_eq!(database.get(number.to_le_bytes()).unwrap().unwrap()[..], [number as u8; 56]);
    }
    let gets = (directory.io() - before).of(Purpose::Get);
    assert_eq!((gets.reads, gets.read_bytes), (12_000, 12_000 * 4_096));
}
