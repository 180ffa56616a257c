//! The example engine: its torn end, its creation, and a directory whose engine is not in the table.

use siltstone::{Database, Error};
use siltstone_device::{Access, Directory};
use siltstone_testing::append_log::AppendLogSettings;
use siltstone_testing::{Crash, SimulatedDirectory, Survival};

fn directory(device: &SimulatedDirectory) -> Directory {
    Directory::new(device.clone(), Access::Buffered)
}

fn open(device: &SimulatedDirectory) -> siltstone::Result<Database> {
    let builder = Database::builder("simulated").engine(AppendLogSettings).background_threads(0);
    builder.open_in(directory(device))
}

#[test]
fn recovery_returns_the_writes_before_the_torn_end_wherever_it_is() {
    let device = SimulatedDirectory::new(1);
    let database = open(&device).unwrap();
    let ends: Vec<u64> = (0..20u8)
        .map(|number| {
            database.put([number], [number; 30]).unwrap();
            database.stats().disk_bytes
        })
        .collect();
    for length in ends[0]..=ends[19] {
        let torn = device.crash_image();
        directory(&torn).open("MANIFEST", Access::Buffered).unwrap().truncate(length).unwrap();
        let database = open(&torn).unwrap();
        let kept = ends.iter().filter(|end| **end <= length).count();
        assert_eq!(database.stats().records, kept as u64, "{length} bytes");
        assert!((0..kept as u8).all(|number| database.contains([number]).unwrap()));
        assert_eq!(database.stats().disk_bytes, ends[kept - 1], "the torn end is cut off");
    }
}

#[test]
fn a_creation_or_compaction_that_is_interrupted_at_any_change_leaves_a_database_or_none() {
    for seed in 0..20 {
        for changes in 1..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let device = SimulatedDirectory::new(seed);
            device.power_off_after(changes);
            let written = open(&device).and_then(|database| {
                database.put("key", [1; 900])?;
                database.sync()?;
                let _ = database.compact();
                Ok(())
            });
            let device = device.crash(Crash::PowerLost(Survival::Scattered), &mut random);
            let database = open(&device).unwrap();
            assert!(written.is_err() || database.contains("key").unwrap(), "seed {seed}, {changes} changes");
            database.put("other", [2; 900]).unwrap();
            database.close().unwrap();
            drop(database);
            assert!(open(&device).unwrap().contains("other").unwrap());
        }
    }
}

#[test]
fn a_directory_of_an_engine_outside_of_the_table_needs_the_statement_of_the_engine() {
    let device = SimulatedDirectory::new(1);
    open(&device).unwrap().close().unwrap();
    let outcome = Database::builder("simulated").open_in(directory(&device));
    assert!(matches!(outcome, Err(Error::UnknownEngine { number: 255, .. })));
    let outcome = Database::verify_closed_in(&directory(&device), &mut |_, _| true);
    assert!(matches!(outcome, Err(Error::UnknownEngine { number: 255, .. })));
    open(&device).unwrap();
}
