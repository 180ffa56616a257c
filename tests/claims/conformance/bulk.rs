//! What a bulk load guarantees, with every engine.

use crate::beds::stage::{STAGES, reach};
use crate::beds::{MANY, SHAPES, TestBed, all_beds, contents, expected, fill};
use siltstone::batch::NEVER;
use siltstone::{Change, Database, Dictionary, Error, Found, SiltSettings};
use siltstone_testing::TestEngine;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Scope;
use std::time::Duration;

/// The least memory that a load sorts in: most records go through temporary files.
const MEMORY_BYTES: usize = 64 << 10;

fn load(bed: &TestBed, database: &Database, numbers: impl Iterator<Item = u64>, version: u64) -> u64 {
    let mut loader = database.bulk_loader().memory_bytes(MEMORY_BYTES);
    numbers.for_each(|number| loader.put(bed.key(number), bed.value(number, version)).unwrap());
    loader.finish().unwrap()
}

#[test]
fn a_load_fills_a_new_database() {
    for bed in all_beds() {
        let mut database = bed.open();
        assert_eq!(load(&bed, &database, 0..MANY, 0), MANY, "{bed}");
        for stage in STAGES {
            database = reach(&bed, database, stage);
            assert_eq!(contents(&database), expected(&bed, 0..MANY, 0), "{bed}, {stage:?}");
            assert!(database.get(bed.key(MANY)).unwrap().is_none());
            assert_eq!(database.get(bed.key(7)).unwrap().unwrap(), bed.value(7, 0), "{bed}, {stage:?}");
        }
        assert!(database.verify().unwrap().damage.is_empty(), "{bed}");
        assert_eq!(database.len().unwrap(), MANY, "{bed}");
        assert_eq!(database.stats().usage.puts, MANY, "{bed}");
    }
}

#[test]
fn loaded_records_replace_older_ones_and_are_replaced_by_newer_ones() {
    for (number, bed) in all_beds().enumerate() {
        let stage = STAGES[number % STAGES.len()];
        let mut database = bed.open();
        fill(&bed, &database, MANY);
        (0..50).for_each(|number| database.delete(bed.key(number)).unwrap());
        // Some of them into the record cache.
        (0..2).for_each(|_| (400..500).for_each(|number| drop(database.get(bed.key(number)).unwrap())));
        database = reach(&bed, database, stage);
        let before = database.snapshot().unwrap();
        load(&bed, &database, (0..100).chain(400..600).chain(0..100), 1);
        let mut all = expected(&bed, 50..MANY, 0);
        all.extend(expected(&bed, (0..100).chain(400..600), 1));
        for number in 400..600 {
            assert_eq!(database.get(bed.key(number)).unwrap().unwrap(), bed.value(number, 1), "{bed}");
        }
        assert_eq!(contents(&database), all, "{bed}, {stage:?}");
        assert_eq!(before.get(bed.key(450)).unwrap().unwrap(), bed.value(450, 0), "{bed}, {stage:?}");
        assert!(before.get(bed.key(3)).unwrap().is_none(), "{bed}, {stage:?}");
        database.put(bed.key(450), bed.value(450, 2)).unwrap();
        database.compact().unwrap();
        assert_eq!(database.get(bed.key(450)).unwrap().unwrap(), bed.value(450, 2), "{bed}, {stage:?}");
        assert!(database.verify().unwrap().damage.is_empty(), "{bed}, {stage:?}");
    }
}

#[test]
fn a_load_that_is_stopped_changes_nothing_or_whole_partitions_and_can_be_repeated() {
    for bed in all_beds().filter(|bed| bed.shape == SHAPES[0]) {
        let database = bed.open();
        fill(&bed, &database, 300);
        for calls in [1, 2, 5, 30] {
            let mut left = calls;
            let mut loader = database.bulk_loader().memory_bytes(MEMORY_BYTES).progress(|_, _| {
                left -= 1;
                left > 0
            });
            let numbers = || 200..3_000;
            let outcome = numbers()
                .try_for_each(|number| loader.put(bed.key(number), bed.value(number, 1)))
                .and_then(|()| loader.finish());
            assert!(matches!(outcome, Ok(2_800) | Err(Error::Interrupted)), "{bed}: {outcome:?}");
            for number in 0..300 {
                let value = database.get(bed.key(number)).unwrap().unwrap();
                let loaded = number >= 200 && value == bed.value(number, 1);
                assert!(loaded || value == bed.value(number, 0), "{bed}, key {number}");
            }
        }
        database.put(bed.key(0), bed.value(0, 1)).unwrap();
        load(&bed, &database, 200..3_000, 1);
        database.compact().unwrap();
        let mut all = expected(&bed, 1..200, 0);
        all.extend(expected(&bed, (0..1).chain(200..3_000), 1));
        assert_eq!(contents(&database), all, "{bed}");
    }
}

#[test]
fn a_load_writes_each_record_of_a_new_database_about_once() {
    for engine in TestEngine::persistent() {
        let bed = TestBed::in_memory(engine, SHAPES[2]);
        let database = bed.open();
        let mut loader = database.bulk_loader();
        (0..20_000).for_each(|number| loader.put(bed.key(number), bed.value(number, 0)).unwrap());
        loader.finish().unwrap();
        let stats = database.stats();
        assert_eq!((stats.writes, stats.user_bytes), (20_000, 20_000 * 64), "{bed}");
        let bound = match bed.has_stores() {
            // The records, the lengths and checksums of their blocks, and their index.
            true => 1.2,
            // Logs with small segments.
            false => 2.0,
        };
        let amplification = stats.write_amplification();
        assert!((1.0..bound).contains(&amplification), "{bed}: {amplification}");
    }
}

#[test]
fn loads_and_writes_of_other_threads_exclude_each_other_key_by_key() {
    for bed in all_beds().filter(|bed| bed.shape == SHAPES[0]) {
        let database = bed.open();
        fill(&bed, &database, 500);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for round in 0..4 {
                    for number in 1_000..1_500 {
                        database.put(bed.key(number), bed.value(number, round)).unwrap();
                        if number.is_multiple_of(50) {
                            database.step().unwrap();
                        }
                        let found = database.get(bed.key(number)).unwrap().unwrap();
                        assert_eq!(found, bed.value(number, round), "{bed}, key {number}");
                    }
                }
            });
            for version in 10..13 {
                load(&bed, &database, 0..1_000, version);
                for number in (0..1_000).step_by(7) {
                    let found = database.get(bed.key(number)).unwrap().unwrap();
                    assert_eq!(found, bed.value(number, version), "{bed}, key {number}");
                }
            }
            writer.join().unwrap();
        });
        database.compact().unwrap();
        let mut all = expected(&bed, 0..1_000, 12);
        all.extend(expected(&bed, 1_000..1_500, 3));
        assert_eq!(contents(&database), all, "{bed}");
    }
}

/// The time for which a test waits for what may not come.
const A_WHILE: Duration = Duration::from_millis(100);

/// Loads a record in another thread, and waits a while, in which the load must not end.
fn load_meanwhile<'scope>(
    scope: &'scope Scope<'scope, '_>,
    database: &'scope Database,
    key: &'scope [u8],
    value: &'static [u8],
) {
    let (sender, ended) = channel();
    scope.spawn(move || {
        let mut loader = database.bulk_loader();
        loader.put(key, value).unwrap();
        loader.finish().unwrap();
        // The receiver may be gone.
        let _ = sender.send(());
    });
    assert_eq!(ended.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout), "the load has ended");
}

/// Returns the change that adds 1 to a number, which begins with 0.
fn incremented(found: Option<&Found>) -> Change {
    let number = found.map_or(0, |found| found.value[0]);
    Change::Put { value: vec![number + 1].into(), expires_at_ms: NEVER }
}

#[test]
fn a_load_that_ends_during_an_update_is_before_or_after_it() {
    for bed in all_beds().filter(|bed| bed.shape == SHAPES[0]) {
        let (database, key, other) = (&bed.open(), &bed.key(1), bed.key(2));
        let number = || database.get(key).unwrap().unwrap()[0];
        database.put(key, [5]).unwrap();
        std::thread::scope(|scope| {
            let change = |found: Option<&Found>| {
                load_meanwhile(scope, database, key, &[100]);
                Ok(incremented(found))
            };
            database.update(key, change).unwrap();
        });
        assert!([100, 101].contains(&number()), "{bed}: {}", number());
        std::thread::scope(|scope| {
            let change = |found: &[Option<Found>], changes: &mut [Change]| {
                load_meanwhile(scope, database, key, &[200]);
                changes[0] = incremented(found[0].as_ref());
                Ok(())
            };
            database.transact(&[key, &other], change).unwrap();
        });
        assert!([200, 201].contains(&number()), "{bed}: {}", number());
        // As `insert_if_absent` does. Whichever is first, the loaded record remains.
        database.delete(key).unwrap();
        std::thread::scope(|scope| {
            let change = |found: Option<&Found>| {
                load_meanwhile(scope, database, key, &[50]);
                Ok(if found.is_none() { incremented(None) } else { Change::Keep })
            };
            database.update(key, change).unwrap();
        });
        assert_eq!(number(), 50, "{bed}");
    }
}

#[test]
fn an_update_that_begins_during_a_load_is_before_or_after_it() {
    for bed in all_beds().filter(|bed| bed.shape == SHAPES[0]) {
        let (database, key) = (&bed.open(), &bed.key(1));
        fill(&bed, database, 500);
        database.put(key, [5]).unwrap();
        std::thread::scope(|scope| {
            let mut begun = 0;
            let progress = |_: u64, total: u64| {
                // The total is known once the records are sorted.
                begun += u32::from(total > 0);
                if begun == 1 && total > 0 {
                    let (sender, ended) = channel();
                    scope.spawn(move || {
                        database.update(key, |found| Ok(incremented(found))).unwrap();
                        // The receiver may be gone.
                        let _ = sender.send(());
                    });
                    // Whether it waits for the end of the load is up to the engine.
                    let _ = ended.recv_timeout(A_WHILE);
                }
                true
            };
            let mut loader = database.bulk_loader().progress(progress);
            loader.put(key, [100]).unwrap();
            loader.finish().unwrap();
        });
        let number = database.get(key).unwrap().unwrap()[0];
        assert!([100, 101].contains(&number), "{bed}: {number}");
        assert_eq!(contents(database).len(), 500, "{bed}");
    }
}

#[test]
fn a_loader_refuses_what_a_put_refuses_and_continues() {
    for bed in all_beds().filter(|bed| bed.shape == SHAPES[2]) {
        let database = bed.open();
        let mut loader = database.bulk_loader();
        loader.put(bed.key(1), bed.value(1, 0)).unwrap();
        assert!(matches!(loader.put("short", bed.value(1, 0)), Err(Error::RecordSize { .. })), "{bed}");
        assert!(matches!(loader.put(bed.key(1), "short"), Err(Error::RecordSize { .. })), "{bed}");
        assert!(matches!(
            loader.put_until(bed.key(1), bed.value(1, 0), 1 << 50),
            Err(Error::ExpiryUnsupported)
        ));
        assert_eq!(loader.finish().unwrap(), 1);
        assert_eq!(contents(&database), expected(&bed, 1..2, 0), "{bed}");
        database.close().unwrap();
        assert!(matches!(database.bulk_load([(bed.key(1), bed.value(1, 0))]), Err(Error::Closed)), "{bed}");
    }
}

#[test]
fn records_that_expire_are_loaded_with_their_time() {
    for bed in all_beds().filter(|bed| bed.shape.expiring) {
        let database = bed.open();
        let mut loader = database.bulk_loader();
        loader.put_until(bed.key(1), bed.value(1, 0), 1).unwrap();
        loader.put_until(bed.key(2), bed.value(2, 0), 1 << 50).unwrap();
        loader.finish().unwrap();
        assert!(database.get(bed.key(1)).unwrap().is_none(), "{bed}");
        assert_eq!(database.get_found(bed.key(2)).unwrap().unwrap().expires_at_ms, 1 << 50, "{bed}");
    }
}

#[test]
fn a_load_builds_the_filter_of_the_last_store() {
    let directory = tempfile::tempdir().unwrap();
    let settings = SiltSettings::default().filter_last_store(Some(8));
    let database = Database::builder(directory.path().join("db")).engine(settings).open().unwrap();
    database.bulk_load((0..5_000u32).map(|number| (number.to_be_bytes(), "value"))).unwrap();
    let misses = (5_000..10_000u32).filter(|number| !database.may_contain(number.to_be_bytes()).unwrap());
    assert!(misses.count() > 4_500);
}

#[test]
fn a_database_becomes_a_dictionary_and_a_dictionary_a_database() {
    let directory = tempfile::tempdir().unwrap();
    for bed in all_beds().filter(|bed| bed.path().is_none() && bed.shape != SHAPES[1]) {
        let database = bed.open();
        fill(&bed, &database, 300);
        let builder = match bed.shape.fixed {
            Some((key_length, value_length)) => Dictionary::builder().fixed(key_length, value_length),
            None => Dictionary::builder(),
        };
        let dictionary = database.build_dictionary(builder, directory.path().join("records.dict")).unwrap();
        assert_eq!(dictionary.len(), 300, "{bed}");
        let other = TestBed::in_memory(bed.engine.clone(), bed.shape).open();
        assert_eq!(other.bulk_load_dictionary(&dictionary).unwrap(), 300);
        assert_eq!(contents(&other), expected(&bed, 0..300, 0), "{bed}");
    }
}
