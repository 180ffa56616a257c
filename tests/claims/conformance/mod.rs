//! The guarantees of all engines, one test each. A new engine is a new row of `TestEngine::all`, and needs no change
//! here.

mod atomic;
mod bulk;
mod remove;
mod scan;
mod verify;

use crate::beds::stage::{STAGES, Stage, reach};
use crate::beds::{MANY, all_beds, beds, contents, expected, fill};
use siltstone::batch::NEVER;
use siltstone::key::{HASH_LENGTH_MIN, KEY_LENGTH_MAX};
use siltstone::{
    Batch, Builder, Bytes, Change, Compression, Database, Durability, Error, FoundRef, Record, Stats,
    WriteOptions,
};
use siltstone_testing::TestEngine;
use std::collections::BTreeMap;

/// In the far past, and in the far future, in milliseconds since the Unix epoch.
const PAST: u64 = 1;
const FUTURE: u64 = 1 << 50;

#[test]
fn a_key_has_its_last_value() {
    for bed in all_beds() {
        let mut database = bed.open();
        fill(&bed, &database, MANY);
        for (version, stage) in (1..).zip(STAGES) {
            for number in 0..MANY {
                match number % 3 {
                    0 => database.put(bed.key(number), bed.value(number, version)).unwrap(),
                    1 => database.delete(bed.key(number)).unwrap(),
                    _ => {}
                }
            }
            database = reach(&bed, database, stage);
            for number in 0..MANY {
                let expected = match number % 3 {
                    0 => Some(bed.value(number, version)),
                    1 => None,
                    _ => Some(bed.value(number, 0)),
                };
                let got = database.get(bed.key(number)).unwrap();
                assert_eq!(got.as_deref(), expected.as_deref(), "{bed}, {stage:?}, key {number}");
                let mut buffer = b"before".to_vec();
                assert_eq!(
                    database.get_into(bed.key(number), &mut buffer).unwrap().is_some(),
                    expected.is_some()
                );
                assert_eq!(buffer, [b"before", &expected.clone().unwrap_or_default()[..]].concat());
                assert_eq!(database.contains(bed.key(number)).unwrap(), expected.is_some());
            }
            for number in MANY..2 * MANY {
                assert!(database.get(bed.key(number)).unwrap().is_none(), "{bed}, {stage:?}, key {number}");
            }
        }
    }
}

#[test]
fn a_deleted_key_can_be_put_again() {
    for bed in all_beds() {
        let mut database = bed.open();
        for stage in STAGES {
            fill(&bed, &database, 300);
            (0..300).for_each(|number| database.delete(bed.key(number)).unwrap());
            database = reach(&bed, database, stage);
            assert!(contents(&database).is_empty(), "{bed}, {stage:?}");
            database.put(bed.key(7), bed.value(7, 9)).unwrap();
            assert_eq!(contents(&database), expected(&bed, 7..8, 9), "{bed}, {stage:?}");
        }
    }
}

#[test]
fn insert_if_absent_inserts_once() {
    for bed in all_beds() {
        let mut database = bed.open();
        for stage in STAGES {
            let number = stage as u64;
            assert!(database.insert_if_absent(bed.key(number), bed.value(number, 0)).unwrap(), "{bed}");
            fill(&bed, &database, 0);
            database = reach(&bed, database, stage);
            assert!(
                !database.insert_if_absent(bed.key(number), bed.value(number, 1)).unwrap(),
                "{bed}, {stage:?}"
            );
            assert_eq!(database.get(bed.key(number)).unwrap().unwrap(), bed.value(number, 0));
            database.delete(bed.key(number)).unwrap();
            assert!(
                database.insert_if_absent(bed.key(number), bed.value(number, 2)).unwrap(),
                "{bed}, {stage:?}"
            );
            assert_eq!(database.get(bed.key(number)).unwrap().unwrap(), bed.value(number, 2));
        }
    }
}

#[test]
fn an_update_receives_the_value_and_applies_the_change_that_it_returns() {
    for bed in all_beds() {
        let mut database = bed.open();
        for stage in STAGES {
            let key = bed.key(stage as u64);
            let put = |version| Change::Put { value: bed.value(1, version).into(), expires_at_ms: NEVER };
            let update = |database: &Database, change: siltstone::Result<Change>| {
                let mut seen = None;
                let outcome = database.update(&key, |found| {
                    seen = found.map(|found| found.value.clone());
                    change.clone()
                });
                (seen, outcome)
            };
            let (seen, outcome) = update(&database, Ok(Change::Delete));
            assert!(seen.is_none() && outcome.is_ok(), "{bed}: deleting an absent key is not an error");
            update(&database, Ok(put(1))).1.unwrap();
            database = reach(&bed, database, stage);
            let (seen, _) = update(&database, Ok(Change::Keep));
            assert_eq!(seen.as_deref(), Some(&bed.value(1, 1)[..]), "{bed}, {stage:?}");
            let (seen, outcome) = update(&database, Err(Error::Interrupted));
            assert!(
                seen.is_some() && matches!(outcome, Err(Error::Interrupted)),
                "{bed}: the error is returned"
            );
            let (seen, _) = update(&database, Ok(put(2)));
            assert_eq!(
                seen.as_deref(),
                Some(&bed.value(1, 1)[..]),
                "{bed}, {stage:?}: errors change nothing"
            );
            let (seen, _) = update(&database, Ok(Change::Delete));
            assert_eq!(seen.as_deref(), Some(&bed.value(1, 2)[..]), "{bed}, {stage:?}");
            assert!(!database.contains(&key).unwrap(), "{bed}, {stage:?}");
        }
    }
}

#[test]
fn updates_of_many_threads_are_not_lost() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 300;
    for bed in all_beds() {
        let database = bed.open_with(bed.builder().background_threads(1)).unwrap();
        let length = bed.shape.fixed.map_or(4, |(_, length)| length);
        let count = |value: &Bytes| u32::from_le_bytes(value[..4].try_into().unwrap());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (database, bed) = (&database, &bed);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let increment = |found: Option<&siltstone::Found>| {
                            let next = found.map_or(0, |found| count(&found.value)) + 1;
                            let mut value = next.to_le_bytes().to_vec();
                            value.resize(length, 0);
                            Ok(Change::Put { value: value.into(), expires_at_ms: NEVER })
                        };
                        database.update(bed.key(round % 3), increment).unwrap();
                        database.put(bed.key(100 + thread * ROUNDS + round), bed.value(round, 0)).unwrap();
                    }
                });
            }
        });
        let sum: u32 = (0..3).map(|number| count(&database.get(bed.key(number)).unwrap().unwrap())).sum();
        assert_eq!(u64::from(sum), THREADS * ROUNDS, "{bed}");
        assert_eq!(contents(&database).len() as u64, 3 + THREADS * ROUNDS, "{bed}");
    }
}

#[test]
fn of_two_writes_in_a_batch_the_later_applies() {
    for bed in all_beds() {
        let mut database = bed.open();
        for stage in STAGES {
            let mut batch = Batch::new();
            for number in 0..200 {
                batch.put(bed.key(number), bed.value(number, 1)).unwrap();
            }
            for number in (0..200).step_by(2) {
                batch.delete(bed.key(number)).unwrap();
            }
            for number in (0..200).step_by(4) {
                batch.put(bed.key(number), bed.value(number, 2)).unwrap();
            }
            database.write(&batch).unwrap();
            database = reach(&bed, database, stage);
            let mut all = expected(&bed, (0..200).filter(|number| number % 2 == 1), 1);
            all.extend(expected(&bed, (0..200).step_by(4), 2));
            assert_eq!(contents(&database), all, "{bed}, {stage:?}");
        }
        database.write(&Batch::new()).unwrap();
    }
}

#[test]
fn values_of_many_keys_are_in_the_order_of_the_keys() {
    for bed in all_beds() {
        let mut database = bed.open();
        fill(&bed, &database, MANY);
        for stage in STAGES {
            database = reach(&bed, database, stage);
            let numbers: Vec<u64> = (0..600).map(|at| at * 7 % (2 * MANY)).chain([3, 3, 3]).collect();
            let keys: Vec<Vec<u8>> = numbers.iter().map(|number| bed.key(*number)).collect();
            let values = database.get_many(&keys).unwrap();
            let there = database.contains_many(&keys).unwrap();
            assert_eq!(values.len(), keys.len());
            let mut shown = vec![None; keys.len()];
            let show = |at: usize, found: Option<FoundRef<'_>>| {
                let before = shown[at].replace(found.map(|found| found.value.to_vec()));
                assert_eq!(before, None, "{bed}, {stage:?}: number {at} is shown twice");
            };
            database.get_many_with(&keys, show).unwrap();
            assert!(shown.iter().all(Option::is_some), "{bed}, {stage:?}: not all numbers were shown");
            for (key, shown) in keys.iter().zip(shown.into_iter().flatten()) {
                assert_eq!(shown.as_deref(), database.get(key).unwrap().as_deref(), "{bed}, {stage:?}");
            }
            for ((number, value), there) in numbers.iter().zip(values).zip(there) {
                let expected = (*number < MANY).then(|| bed.value(*number, 0));
                assert_eq!(value.as_deref(), expected.as_deref(), "{bed}, {stage:?}, key {number}");
                assert_eq!(there, expected.is_some());
            }
            assert!(database.get_many::<&[u8]>(&[]).unwrap().is_empty());
            database.get_many_with::<&[u8]>(&[], |_, _| panic!("there is no key")).unwrap();
        }
    }
}

#[test]
fn an_iteration_returns_the_records_of_the_moment_when_it_began() {
    for bed in all_beds() {
        let mut database = bed.open();
        fill(&bed, &database, 400);
        for stage in [Stage::Written, Stage::HalfWay, Stage::Compacted] {
            database = reach(&bed, database, stage);
            let iteration = database.iter().unwrap();
            for number in 0..400 {
                match number % 2 {
                    0 => database.put(bed.key(number), bed.value(number, 1)).unwrap(),
                    _ => database.delete(bed.key(number)).unwrap(),
                }
                database.put(bed.key(400 + number), bed.value(number, 1)).unwrap();
            }
            database.compact().unwrap();
            let seen: Vec<Record> = iteration.map(Result::unwrap).collect();
            let count = seen.len();
            let seen: BTreeMap<_, _> =
                seen.into_iter().map(|record| (record.key.to_vec(), record.value.to_vec())).collect();
            assert_eq!(seen.len(), count, "{bed}, {stage:?}: each key once");
            assert!(seen == expected(&bed, 0..400, 0), "{bed}, {stage:?}: {count} records");
            for number in 0..400 {
                database.put(bed.key(number), bed.value(number, 0)).unwrap();
                database.delete(bed.key(400 + number)).unwrap();
            }
        }
    }
}

#[test]
fn an_expired_record_is_absent_and_so_are_earlier_values() {
    for bed in all_beds().filter(|bed| bed.shape.expiring) {
        let mut database = bed.open();
        let until = |expires_at_ms| WriteOptions::default().expires_at_ms(expires_at_ms);
        for stage in STAGES {
            fill(&bed, &database, 300);
            for number in 0..300 {
                let expires_at_ms = [PAST, FUTURE, NEVER][number as usize % 3];
                database.put_with(bed.key(number), bed.value(number, 1), until(expires_at_ms)).unwrap();
            }
            database = reach(&bed, database, stage);
            for number in 0..300 {
                let found = database.get_found(bed.key(number)).unwrap();
                let expires_at_ms = found.as_ref().map(|found| found.expires_at_ms);
                let mut buffer = b"before".to_vec();
                assert_eq!(database.get_into(bed.key(number), &mut buffer).unwrap(), expires_at_ms);
                assert_eq!(&buffer[6..], found.map(|found| found.value).unwrap_or_default());
                assert_eq!(
                    expires_at_ms,
                    [None, Some(FUTURE), Some(NEVER)][number as usize % 3],
                    "{bed}, {stage:?}"
                );
            }
            let there = (0..300).filter(|number| number % 3 != 0);
            assert_eq!(contents(&database), expected(&bed, there, 1), "{bed}, {stage:?}");
            assert!(database.insert_if_absent(bed.key(0), bed.value(0, 2)).unwrap(), "{bed}, {stage:?}");
            let record = database.iter().unwrap().map(Result::unwrap).find(|record| record.key == bed.key(1));
            assert_eq!(record.unwrap().expires_at_ms, FUTURE, "{bed}, {stage:?}");
        }
    }
}

#[test]
fn keys_and_values_may_have_any_length_up_to_the_limits() {
    for bed in all_beds().filter(|bed| bed.shape.fixed.is_none()) {
        let mut database = bed.open();
        let lengths =
            [(1, 0), (1, 1), (2, 4_095), (8, 4_096), (40, 4_097), (255, 70_000), (256, 0), (4_096, 10)];
        let longest = [(KEY_LENGTH_MAX, 0), (KEY_LENGTH_MAX, 1 << 16), (33, 3 << 20)];
        let shortest = if bed.shape.hashed_keys { HASH_LENGTH_MIN } else { 1 };
        let is_long = |(key_length, _): &(usize, usize)| *key_length >= shortest;
        let lengths: Vec<(usize, usize)> = lengths.into_iter().chain(longest).filter(is_long).collect();
        let key = |at: usize, length: usize| vec![at as u8 + 1; length];
        let value =
            |at: usize, length: usize| -> Vec<u8> { (0..length).map(|byte| (byte * 7 + at) as u8).collect() };
        for (at, (key_length, value_length)) in lengths.iter().enumerate() {
            database.put(key(at, *key_length), value(at, *value_length)).unwrap();
        }
        for stage in STAGES {
            database = reach(&bed, database, stage);
            for (at, (key_length, value_length)) in lengths.iter().enumerate() {
                let got = database.get(key(at, *key_length)).unwrap();
                assert!(
                    got.is_some_and(|got| got == value(at, *value_length)),
                    "{bed}, {stage:?}: {key_length} B, {value_length} B"
                );
            }
            assert_eq!(contents(&database).len(), lengths.len(), "{bed}, {stage:?}");
        }
    }
}

#[test]
fn an_impossible_key_is_refused_by_reads_and_writes_alike() {
    for engine in TestEngine::all() {
        let fixed = |builder: Builder| builder.fixed(8, 3);
        let hashed = |builder: Builder| builder.hashed_keys();
        let both = |builder: Builder| builder.fixed(8, 3).hashed_keys();
        type Shape = fn(Builder) -> Builder;
        let shapes: [(Shape, &[&[u8]]); 3] = [
            (fixed, &[b"", b"1234567", b"123456789"]),
            (hashed, &[b"", b"1234567"]),
            (both, &[b"", b"1234567"]),
        ];
        for (shape, wrong_keys) in shapes {
            let directory = tempfile::tempdir().unwrap();
            let open =
                || shape(Database::builder(directory.path()).engine((engine.small)(true).1)).open().unwrap();
            let mut database = open();
            database.put(b"12345678", b"abc").unwrap();
            if database.capabilities().persistent {
                drop(database);
                database = Database::builder(directory.path()).engine((engine.small)(true).1).open().unwrap();
            }
            for key in wrong_keys {
                let mut batch = Batch::new();
                let outcomes = [
                    ("get", database.get(key).map(drop)),
                    ("get_found", database.get_found(key).map(drop)),
                    ("get_into", database.get_into(key, &mut Vec::new()).map(drop)),
                    ("contains", database.contains(key).map(drop)),
                    ("get_many", database.get_many(&[&b"12345678"[..], key]).map(drop)),
                    ("get_many_with", database.get_many_with(&[key], |_, _| panic!("shown"))),
                    ("contains_many", database.contains_many(&[key]).map(drop)),
                    ("put", database.put(key, b"abc")),
                    ("delete", database.delete(key)),
                    ("update", database.update(key, |_| Ok(Change::Keep))),
                    ("insert_if_absent", database.insert_if_absent(key, b"abc").map(drop)),
                    ("write", batch.delete(key).map(drop).and_then(|()| database.write(&batch))),
                ];
                for (name, outcome) in outcomes {
                    let refused = matches!(
                        outcome,
                        Err(Error::KeyLength { .. } | Error::RecordSize { .. } | Error::HashLength { .. })
                    );
                    assert!(refused, "{engine:?}: {name} of {key:?}: {outcome:?}");
                }
            }
            assert_eq!(database.get(b"12345678").unwrap().as_deref(), Some(&b"abc"[..]));
        }
    }
}

#[test]
fn an_empty_database_can_do_everything() {
    for bed in all_beds() {
        let mut database = bed.open();
        for stage in STAGES {
            database = reach(&bed, database, stage);
            assert!(database.get(bed.key(1)).unwrap().is_none(), "{bed}");
            assert!(contents(&database).is_empty(), "{bed}");
            database.delete(bed.key(1)).unwrap();
            database.sync().unwrap();
            assert!(database.verify().unwrap().damage.is_empty(), "{bed}, {stage:?}");
            let target = tempfile::tempdir().unwrap();
            if !bed.is_persistent() {
                let outcome = database.checkpoint(target.path());
                assert!(matches!(outcome, Err(Error::Unsupported { .. })), "{bed}: {outcome:?}");
                continue;
            }
            database.checkpoint(target.path()).unwrap();
            assert!(contents(&bed.builder_at(target.path()).open().unwrap()).is_empty(), "{bed}, {stage:?}");
        }
    }
}

#[test]
fn keys_with_equal_hashes_are_distinguished() {
    for bed in all_beds().filter(|bed| bed.shape.hashed_keys) {
        let mut database = bed.open();
        // The first 16 bytes place a key; keys that differ only after them collide completely.
        let colliding = |number: u8| [bed.key(5)[..8].repeat(2), vec![number; 16]].concat();
        fill(&bed, &database, 300);
        for number in 0..6 {
            database.put(colliding(number), bed.value(number.into(), 7)).unwrap();
        }
        database.delete(colliding(3)).unwrap();
        for stage in STAGES {
            database = reach(&bed, database, stage);
            for number in 0..7 {
                let expected = (number < 6 && number != 3).then(|| bed.value(number.into(), 7));
                let got = database.get(colliding(number)).unwrap();
                assert_eq!(got.as_deref(), expected.as_deref(), "{bed}, {stage:?}, key {number}");
            }
            assert_eq!(contents(&database).len(), 305, "{bed}, {stage:?}");
            fill(&bed, &database, 300);
        }
    }
}

#[test]
fn more_equal_hashes_than_any_bucket_holds_lose_nothing() {
    for bed in all_beds().filter(|bed| bed.shape.hashed_keys) {
        let mut database = bed.open();
        let colliding = |number: u16| [vec![9; 16], number.to_be_bytes().repeat(8)].concat();
        for number in 0..100 {
            database.put(colliding(number), bed.value(number.into(), 7)).unwrap();
        }
        for stage in STAGES {
            database = reach(&bed, database, stage);
            for number in 0..100 {
                let got = database.get(colliding(number)).unwrap();
                assert!(
                    got.is_some_and(|got| got == bed.value(number.into(), 7)),
                    "{bed}, {stage:?}, key {number}"
                );
            }
            assert!(database.get(colliding(100)).unwrap().is_none());
        }
    }
}

#[test]
fn many_threads_write_and_read_at_the_same_time() {
    const THREADS: u64 = 4;
    for bed in all_beds() {
        let database = bed.open_with(bed.builder().background_threads(1)).unwrap();
        let mine = |thread: u64| (thread * MANY..(thread + 1) * MANY).step_by(3);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (database, bed) = (&database, &bed);
                scope.spawn(move || {
                    for number in mine(thread) {
                        database.put(bed.key(number), bed.value(number, 0)).unwrap();
                        let got = database.get(bed.key(number)).unwrap();
                        assert_eq!(
                            got.as_deref(),
                            Some(&bed.value(number, 0)[..]),
                            "{bed}: a thread reads its own writes"
                        );
                        if number % 2 == 0 {
                            database.delete(bed.key(number)).unwrap();
                        }
                    }
                });
            }
            let (database, bed) = (&database, &bed);
            scope.spawn(move || {
                for _ in 0..5 {
                    for record in database.iter().unwrap() {
                        let record = record.unwrap();
                        assert!(record.key.len() >= 8, "{bed}");
                    }
                }
            });
        });
        let there = (0..THREADS).flat_map(mine).filter(|number| number % 2 == 1);
        let all = expected(&bed, there, 0);
        assert!(contents(&database) == all, "{bed}");
        database.close().unwrap();
        drop(database);
        assert!(!bed.is_persistent() || contents(&bed.open()) == all, "{bed}: reopened");
    }
}

#[test]
fn a_database_that_was_dropped_without_close_is_complete() {
    for bed in beds() {
        let database = bed.open();
        fill(&bed, &database, MANY);
        let clone = database.clone();
        drop(database);
        clone.put(bed.key(MANY), bed.value(MANY, 0)).unwrap();
        drop(clone);
        assert!(contents(&bed.open()) == expected(&bed, 0..MANY + 1, 0), "{bed}");
    }
}

#[test]
fn a_closed_database_returns_an_error_and_can_be_closed_again() {
    for bed in all_beds() {
        let database = bed.open();
        database.put(bed.key(1), bed.value(1, 0)).unwrap();
        let clone = database.clone();
        database.close().unwrap();
        database.close().unwrap();
        assert!(matches!(clone.put(bed.key(2), bed.value(2, 0)), Err(Error::Closed)), "{bed}");
        assert!(matches!(clone.get(bed.key(1)), Err(Error::Closed)), "{bed}");
        assert!(matches!(clone.sync(), Err(Error::Closed)), "{bed}");
    }
}

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    for bed in beds() {
        let mut database = bed.open();
        fill(&bed, &database, 400);
        for stage in [Stage::Written, Stage::HalfWay, Stage::Compacted] {
            database = reach(&bed, database, stage);
            let target = tempfile::tempdir().unwrap();
            let target = target.path().join("not/yet/there");
            database.checkpoint(&target).unwrap();
            for number in 0..400 {
                database.put(bed.key(number), bed.value(number, 1)).unwrap();
            }
            database.compact().unwrap();
            let copy = bed.builder_at(&target).create(false).open().unwrap();
            assert!(contents(&copy) == expected(&bed, 0..400, 0), "{bed}, {stage:?}");
            copy.put(bed.key(0), bed.value(0, 2)).unwrap();
            copy.compact().unwrap();
            assert_eq!(database.get(bed.key(0)).unwrap().unwrap(), bed.value(0, 1), "{bed}, {stage:?}");
            assert!(database.checkpoint(&target).is_err(), "{bed}: it is not empty");
            fill(&bed, &database, 400);
        }
    }
}

#[test]
fn the_statistics_count_requests_and_their_cost() {
    for bed in all_beds() {
        let database = bed.open();
        fill(&bed, &database, MANY);
        let stats = database.stats();
        assert_eq!(stats.engine, bed.engine.info.name);
        assert_eq!(stats.writes, MANY, "{bed}");
        let bytes = |number| (bed.key(number).len() + bed.value(number, 0).len()) as u64;
        assert_eq!(stats.user_bytes, (0..MANY).map(bytes).sum::<u64>(), "{bed}");
        // A database with compression writes less.
        let least = if bed.shape.compression == Compression::None { stats.user_bytes } else { 1 };
        let written = stats.io.total().write_bytes >= least && stats.disk_bytes > 0;
        assert_eq!(written, bed.is_persistent(), "{bed}: all of it was written, or nothing");
        assert!(stats.ram.total_bytes() > 0, "{bed}");
        database.compact().unwrap();
        let stats = database.stats();
        assert_eq!(stats.records, MANY, "{bed}: after merges each key counts once");
        assert_eq!(database.len().unwrap(), MANY, "{bed}");
        assert!(stats.ram_peak.total_bytes() >= stats.ram.total_bytes(), "{bed}");
        database.reset_ram_peak();
        // The read buffers are those of all threads of the process, and other tests run.
        let is_own = |item: &&(&str, u64)| item.0 != "read_buffers";
        let own_peak =
            |stats: &Stats| stats.ram_peak.items().iter().filter(is_own).map(|item| item.1).sum::<u64>();
        assert!(own_peak(&database.stats()) <= own_peak(&stats), "{bed}");
    }
}

#[test]
fn deleting_everything_frees_the_space_of_the_stores() {
    for bed in all_beds() {
        let database = bed.open();
        fill(&bed, &database, MANY);
        database.compact().unwrap();
        (0..MANY).for_each(|number| database.delete(bed.key(number)).unwrap());
        database.compact().unwrap();
        let stats = database.stats();
        assert_eq!(stats.records, 0, "{bed}");
        assert!(stats.disk_bytes < bed.engine.stores * (64 << 10), "{bed}: {} bytes", stats.disk_bytes);
    }
}

#[test]
fn every_durability_is_supported_and_synced_writes_are_synced() {
    for bed in all_beds() {
        let database = bed.open();
        let all = [Durability::Buffered, Durability::Written, Durability::Synced];
        for (number, durability) in (0..).zip(all) {
            let before = database.stats().io.total().syncs;
            let options = WriteOptions::default().durability(durability);
            database.put_with(bed.key(number), bed.value(number, 0), options).unwrap();
            let synced = database.stats().io.total().syncs > before;
            assert!(durability != Durability::Synced || synced || !bed.is_persistent(), "{bed}");
            assert_eq!(database.get(bed.key(number)).unwrap().unwrap(), bed.value(number, 0), "{bed}");
        }
        database.close().unwrap();
        drop(database);
        let expected = expected(&bed, 0..if bed.is_persistent() { 3 } else { 0 }, 0);
        assert_eq!(contents(&bed.open()), expected, "{bed}: what survives the process");
    }
}
