//! The guarantees of verification, for all engines: no damage where there is none, and the number of live records.

use crate::beds::stage::{STAGES, reach};
use crate::beds::{MANY, TestBed, all_beds, fill};
use siltstone::{Batch, Database, EngineKind, Error, WriteOptions};
use std::collections::BTreeSet;

/// In the far past, in milliseconds since the Unix epoch.
const PAST: u64 = 1;

#[test]
fn an_intact_database_has_no_damage() {
    for bed in all_beds() {
        let mut database = bed.open();
        fill(&bed, &database, MANY);
        for stage in STAGES {
            database = reach(&bed, database, stage);
            let report = database.verify_with(&mut |done, all| done <= all).unwrap();
            assert!(report.damage.is_empty(), "{bed}, {stage:?}: {:?}", report.damage);
            assert!(report.checked_records >= MANY, "{bed}, {stage:?}: {}", report.checked_records);
        }
        assert!(matches!(database.verify_with(&mut |_, _| false), Err(Error::Interrupted)), "{bed}");
        // While the live records are counted as well.
        let is_first_half = &mut |done, all| done <= all / 2;
        assert!(matches!(database.verify_with(is_first_half), Err(Error::Interrupted)), "{bed}");
    }
}

/// Puts, deletes and lets expire some of the keys, one by one and in a batch. `live` are the numbers of live keys.
fn change_some(bed: &TestBed, database: &Database, version: u64, live: &mut BTreeSet<u64>) {
    let mut batch = Batch::new();
    for number in 0..MANY {
        let (key, value) = (bed.key(number), bed.value(number, version));
        let is_live = match (number + version) % 7 {
            0 => database.put(key, value).map(|()| true).unwrap(),
            1 => database.delete(key).map(|()| false).unwrap(),
            2 if bed.shape.expiring => {
                let expired = WriteOptions::default().expires_at_ms(PAST);
                database.put_with(key, value, expired).map(|()| false).unwrap()
            }
            3 => batch.delete(&key).unwrap().put(&key, value).map(|_| true).unwrap(),
            4 => batch.put(&key, value).unwrap().delete(&key).map(|_| false).unwrap(),
            _ => continue,
        };
        let _ = if is_live { live.insert(number) } else { live.remove(&number) };
    }
    database.write(&batch).unwrap();
}

#[test]
fn verify_counts_each_live_record_once() {
    for bed in all_beds() {
        let (mut database, mut live) = (bed.open(), BTreeSet::new());
        for (version, stage) in (0..).zip(STAGES) {
            change_some(&bed, &database, version, &mut live);
            database = reach(&bed, database, stage);
            let report = database.verify().unwrap();
            assert_eq!(report.live_records, Some(live.len() as u64), "{bed}, {stage:?}");
            assert!(report.checked_records >= live.len() as u64, "{bed}, {stage:?}");
            assert_eq!(database.len().unwrap(), live.len() as u64, "{bed}, {stage:?}");
        }
        change_some(&bed, &database, 5, &mut live);
        database.close().unwrap();
        drop(database);
        // Of engines outside of the library no closed database is verified.
        let is_known = EngineKind::ALL.iter().any(|kind| kind.name() == bed.engine.info.name);
        if let Some(path) = bed.path().filter(|_| bed.is_persistent() && is_known) {
            let report = Database::verify_closed(path, &mut |done, all| done <= all).unwrap();
            assert_eq!(report.live_records, Some(live.len() as u64), "{bed}, closed");
            assert!(report.checked_records > live.len() as u64, "{bed}, closed: each version");
        }
    }
}
