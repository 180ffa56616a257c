//! The guarantees of all engines for operations that read and write atomically, and for snapshots, one test each.

use crate::beds::stage::{STAGES, reach};
use crate::beds::{MANY, TestBed, all_beds, contents, expected, fill};
use siltstone::batch::NEVER;
use siltstone::{Builder, Bytes, Change, Database, Error, Found, Iter, WriteOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

fn put(bed: &TestBed, number: u64, version: u64) -> Change {
    Change::Put { value: bed.value(number, version).into(), expires_at_ms: NEVER }
}

fn keys(bed: &TestBed, numbers: &[u64]) -> Vec<Vec<u8>> {
    numbers.iter().map(|number| bed.key(*number)).collect()
}

fn values(found: &[Option<Found>]) -> Vec<Option<Bytes>> {
    found.iter().map(|found| found.as_ref().map(|found| found.value.clone())).collect()
}

#[test]
fn a_transaction_receives_its_keys_and_applies_its_changes() {
    for bed in all_beds() {
        let mut database = bed.open();
        fill(&bed, &database, MANY);
        for (version, stage) in (1..).zip(STAGES) {
            database = reach(&bed, database, stage);
            // Keys of both partitions, some of them absent.
            let numbers: Vec<u64> = (0..60).map(|at| at * 31 % (MANY + 300)).collect();
            let before = database.get_many(&keys(&bed, &numbers)).unwrap();
            let mut all = contents(&database);
            let change = |found: &[Option<Found>], changes: &mut [Change]| {
                assert_eq!(values(found), before, "{bed}, {stage:?}");
                assert!(
                    changes.iter().all(|change| *change == Change::Keep) && changes.len() == numbers.len()
                );
                for (at, number) in numbers.iter().enumerate() {
                    match at % 3 {
                        0 => changes[at] = put(&bed, *number, version),
                        1 => changes[at] = Change::Delete,
                        _ => {}
                    }
                }
                Ok(())
            };
            database.transact(&keys(&bed, &numbers), change).unwrap();
            for (at, number) in numbers.iter().enumerate() {
                match at % 3 {
                    0 => drop(all.insert(bed.key(*number), bed.value(*number, version))),
                    1 => drop(all.remove(&bed.key(*number))),
                    _ => {}
                }
            }
            assert!(contents(&database) == all, "{bed}, {stage:?}");
        }
    }
}

#[test]
fn a_transaction_that_fails_changes_nothing() {
    for bed in all_beds() {
        let database = bed.open();
        fill(&bed, &database, 100);
        let before = contents(&database);
        let all = keys(&bed, &[1, 2, 3, 200]);
        let failed = database.transact(&all, |_, changes| {
            changes.fill(Change::Delete);
            Err(Error::Interrupted)
        });
        assert!(matches!(failed, Err(Error::Interrupted)), "{bed}");
        let mut refused = vec![(all.clone(), Bytes::from(vec![0; (256 << 20) + 1]))];
        if bed.shape.fixed.is_some() {
            refused.push((all.clone(), Bytes::from_static(b"of another length than all others")));
        }
        for (all, value) in refused {
            let outcome = database.transact(&all, |_, changes| {
                changes[0] = Change::Delete;
                changes[3] = Change::Put { value: value.clone(), expires_at_ms: NEVER };
                Ok(())
            });
            assert!(outcome.is_err(), "{bed}");
        }
        let outcome =
            database.transact(&[&bed.key(1)[..], b""], |_, _| panic!("{bed}: called with a bad key"));
        assert!(matches!(outcome, Err(Error::KeyLength { .. })), "{bed}: {outcome:?}");
        assert!(contents(&database) == before, "{bed}");
        database.transact::<&[u8]>(&[], |_, _| Ok(())).unwrap();
    }
}

#[test]
fn of_two_changes_to_one_key_in_a_transaction_the_later_applies() {
    for bed in all_beds() {
        let database = bed.open();
        let twice = keys(&bed, &[7, 8, 7]);
        let set = |changes: &mut [Change], last: Change| {
            changes.clone_from_slice(&[put(&bed, 7, 1), put(&bed, 8, 1), last]);
            Ok(())
        };
        database.transact(&twice, |_, changes| set(changes, put(&bed, 7, 2))).unwrap();
        assert_eq!(database.get(bed.key(7)).unwrap().unwrap(), bed.value(7, 2), "{bed}");
        database.transact(&twice, |_, changes| set(changes, Change::Delete)).unwrap();
        assert_eq!(contents(&database), expected(&bed, 8..9, 1), "{bed}");
    }
}

/// Four threads move units between accounts in both partitions, and one thread reads all accounts at once.
#[test]
fn transactions_of_many_threads_keep_a_sum() {
    const ACCOUNTS: u64 = 12;
    const ROUNDS: u64 = 200;
    for bed in all_beds() {
        let database = bed.open_with(bed.builder().background_threads(1)).unwrap();
        let length = bed.shape.fixed.map_or(4, |(_, length)| length);
        let units = |found: &Option<Found>| {
            found.as_ref().map_or(1_000, |found| u32::from_le_bytes(found.value[..4].try_into().unwrap()))
        };
        let holding = |units: u32| {
            let mut value = units.to_le_bytes().to_vec();
            value.resize(length, 0);
            Change::Put { value: value.into(), expires_at_ms: NEVER }
        };
        let every: Vec<u64> = (0..ACCOUNTS).collect();
        let sum = |database: &Database| {
            let mut sum = 0;
            let look = |found: &[Option<Found>], _: &mut [Change]| {
                sum = found.iter().map(units).sum::<u32>();
                Ok(())
            };
            database.transact(&keys(&bed, &every), look).unwrap();
            sum
        };
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let moving: Vec<_> = (0..4)
                .map(|thread| {
                    let (database, bed) = (&database, &bed);
                    scope.spawn(move || {
                        for round in 0..ROUNDS {
                            let from = (round * 5 + thread) % ACCOUNTS;
                            let to = (from + 1 + round % (ACCOUNTS - 1)) % ACCOUNTS;
                            let transfer = |found: &[Option<Found>], changes: &mut [Change]| {
                                changes[0] = holding(units(&found[0]) - 1);
                                changes[1] = holding(units(&found[1]) + 1);
                                Ok(())
                            };
                            database.transact(&keys(bed, &[from, to]), transfer).unwrap();
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    assert_eq!(sum(&database), ACCOUNTS as u32 * 1_000, "{bed}");
                }
            });
            let outcomes: Vec<_> = moving.into_iter().map(|thread| thread.join()).collect();
            done.store(true, Relaxed);
            outcomes.into_iter().for_each(|outcome| outcome.unwrap());
        });
        assert_eq!(sum(&database), ACCOUNTS as u32 * 1_000, "{bed}");
    }
}

#[test]
fn compare_and_swap_changes_only_an_expected_value() {
    for bed in all_beds() {
        let mut database = bed.open();
        for stage in STAGES {
            let (key, one, two) = (bed.key(stage as u64), bed.value(5, 1), bed.value(6, 2));
            let swap = |database: &Database, expected: Option<&[u8]>, new: Option<&[u8]>| {
                database.compare_and_swap(&key, expected, new).unwrap()
            };
            assert!(!swap(&database, Some(&one), Some(&two)), "{bed}: the key is absent");
            assert!(swap(&database, None, Some(&one)), "{bed}");
            database = reach(&bed, database, stage);
            assert!(!swap(&database, None, Some(&two)) && !swap(&database, Some(&two), None), "{bed}");
            assert_eq!(database.get(&key).unwrap().unwrap(), one, "{bed}, {stage:?}");
            assert!(swap(&database, Some(&one), Some(&two)), "{bed}, {stage:?}");
            assert_eq!(database.get(&key).unwrap().unwrap(), two, "{bed}, {stage:?}");
            assert!(swap(&database, Some(&two), None) && swap(&database, None, None), "{bed}, {stage:?}");
            assert!(!database.contains(&key).unwrap(), "{bed}, {stage:?}");
        }
    }
}

#[test]
fn remove_returns_the_value() {
    for bed in all_beds() {
        let mut database = bed.open();
        for stage in STAGES {
            fill(&bed, &database, 300);
            database = reach(&bed, database, stage);
            for number in (0..300).step_by(2) {
                let removed = database.remove(bed.key(number)).unwrap();
                assert_eq!(removed.as_deref(), Some(&bed.value(number, 0)[..]), "{bed}, {stage:?}");
                assert_eq!(database.remove(bed.key(number)).unwrap(), None, "{bed}, {stage:?}");
            }
            let left = (0..300).filter(|number| number % 2 == 1);
            assert_eq!(contents(&database), expected(&bed, left, 0), "{bed}, {stage:?}");
        }
    }
}

#[test]
fn many_records_are_inserted_where_their_keys_are_absent() {
    for bed in all_beds() {
        let mut database = bed.open();
        fill(&bed, &database, MANY);
        let mut all: BTreeMap<_, _> = expected(&bed, 0..MANY, 0);
        for (version, stage) in (1..).zip(STAGES) {
            database = reach(&bed, database, stage);
            let numbers: Vec<u64> = (0..200).map(|at| at * 97 % (2 * MANY)).chain([3_000, 3_000]).collect();
            let record = |at: u64, number: u64| (bed.key(number), bed.value(number, version + 10 * at));
            let records: Vec<_> = (0..).zip(&numbers).map(|(at, number)| record(at, *number)).collect();
            let expected: Vec<bool> = records
                .iter()
                .map(|(key, value)| {
                    let absent = !all.contains_key(key);
                    all.entry(key.clone()).or_insert_with(|| value.clone());
                    absent
                })
                .collect();
            assert_eq!(database.insert_many_if_absent(&records).unwrap(), expected, "{bed}, {stage:?}");
            assert!(contents(&database) == all, "{bed}, {stage:?}");
            database.delete(bed.key(3_000)).unwrap();
            all.remove(&bed.key(3_000));
        }
    }
}

/// Independent of later writes and background work, also with a record cache.
#[test]
fn a_snapshot_returns_the_records_of_the_moment_when_it_was_taken() {
    for bed in all_beds() {
        let budget =
            |builder: Builder| if bed.has_budget() { builder.memory_budget(4 << 20) } else { builder };
        let mut database = bed.open_with(budget(bed.builder())).unwrap();
        fill(&bed, &database, 400);
        for stage in STAGES {
            database = reach(&bed, database, stage);
            let snapshot = database.snapshot().unwrap();
            for number in 0..400 {
                match number % 2 {
                    0 => database.put(bed.key(number), bed.value(number, 1)).unwrap(),
                    _ => database.delete(bed.key(number)).unwrap(),
                }
                database.put(bed.key(400 + number), bed.value(number, 1)).unwrap();
                if number == 200 {
                    database.compact().unwrap();
                }
            }
            let later = database.snapshot().unwrap();
            let all: Vec<u64> = (0..800).collect();
            let many = snapshot.get_many(&keys(&bed, &all)).unwrap();
            let later_many = later.get_many(&keys(&bed, &all)).unwrap();
            for number in 0..800 {
                let (key, at) = (bed.key(number), number as usize);
                let before = (number < 400).then(|| bed.value(number, 0));
                let is_there = number >= 400 || number % 2 == 0;
                let now = is_there.then(|| bed.value(number % 400, 1));
                let context = format!("{bed}, {stage:?}, key {number}");
                assert_eq!(snapshot.get(&key).unwrap().as_deref(), before.as_deref(), "{context}");
                assert_eq!(many[at].as_deref(), before.as_deref(), "{context}");
                assert_eq!(database.get(&key).unwrap().as_deref(), now.as_deref(), "{context}");
                assert_eq!(later.get(&key).unwrap().as_deref(), now.as_deref(), "{context}");
                assert_eq!(later_many[at].as_deref(), now.as_deref(), "{context}");
            }
            let read = |iter: Iter| -> BTreeMap<Vec<u8>, Vec<u8>> {
                iter.map(|record| record.map(|record| (record.key.to_vec(), record.value.to_vec())).unwrap())
                    .collect()
            };
            assert!(read(snapshot.iter()) == expected(&bed, 0..400, 0), "{bed}, {stage:?}");
            let iter = snapshot.clone().iter();
            drop((snapshot, later));
            assert!(read(iter) == expected(&bed, 0..400, 0), "{bed}, {stage:?}");
            for number in 0..400 {
                database.put(bed.key(number), bed.value(number, 0)).unwrap();
                database.delete(bed.key(400 + number)).unwrap();
            }
        }
    }
}

#[test]
fn nothing_in_a_snapshot_expires() {
    for bed in all_beds().filter(|bed| bed.shape.expiring) {
        let now_ms = Arc::new(AtomicU64::new(1_000));
        let database = bed.open_with(bed.builder().simulated_clock(now_ms.clone())).unwrap();
        let until = WriteOptions::default().expires_at_ms(2_000);
        (0..50).for_each(|number| database.put_with(bed.key(number), bed.value(number, 0), until).unwrap());
        let snapshot = database.snapshot().unwrap();
        now_ms.store(5_000, Relaxed);
        assert!(contents(&database).is_empty(), "{bed}");
        database.compact().unwrap();
        for number in 0..50 {
            let found = snapshot.get_found(bed.key(number)).unwrap().unwrap();
            assert_eq!((found.value, found.expires_at_ms), (bed.value(number, 0).into(), 2_000), "{bed}");
        }
        assert_eq!(snapshot.iter().count(), 50, "{bed}");
        assert_eq!(database.snapshot().unwrap().iter().count(), 0, "{bed}");
    }
}

#[test]
fn a_snapshot_of_a_closed_database_returns_an_error_and_checks_its_keys() {
    for bed in all_beds() {
        let database = bed.open();
        fill(&bed, &database, 10);
        let snapshot = database.snapshot().unwrap();
        assert!(matches!(snapshot.get(b""), Err(Error::KeyLength { .. })), "{bed}");
        assert!(matches!(snapshot.get_many(&[b""]), Err(Error::KeyLength { .. })), "{bed}");
        database.close().unwrap();
        assert!(matches!(snapshot.get(bed.key(1)), Err(Error::Closed)), "{bed}");
        assert!(matches!(snapshot.get_many(&[bed.key(1)]), Err(Error::Closed)), "{bed}");
        assert!(matches!(database.snapshot().map(drop), Err(Error::Closed)), "{bed}");
    }
}

/// In the far future, in milliseconds since the Unix epoch.
const FUTURE_MS: u64 = 1 << 50;

/// For every call that writes: it expires what it puts, or it refuses the option.
#[test]
fn an_expiry_time_in_the_options_acts_or_is_refused() {
    let expires = WriteOptions::default().expires_at_ms(FUTURE_MS);
    for bed in all_beds().filter(|bed| bed.shape.fixed.is_none() || bed.shape.expiring) {
        let database = bed.open();
        let (key, value) = (|number| bed.key(number), |number| bed.value(number, 0));
        let change = |number| Change::Put { value: value(number).into(), expires_at_ms: NEVER };
        database.put_with(key(0), value(0), expires).unwrap();
        assert!(database.insert_if_absent_with(key(1), value(1), expires).unwrap(), "{bed}");
        let records: Vec<_> = (1..4).map(|number| (key(number), value(number))).collect();
        let inserted = database.insert_many_if_absent_with(&records, expires).unwrap();
        assert_eq!(inserted, [false, true, true], "{bed}");
        database.update_with(key(4), expires, |_| Ok(change(4))).unwrap();
        assert!(database.compare_and_swap_with(key(10), None, Some(&value(10)), expires).unwrap(), "{bed}");
        let both = [key(5), key(6)];
        let set = |_: &[Option<Found>], changes: &mut [Change]| {
            changes.clone_from_slice(&[change(5), change(6)]);
            Ok(())
        };
        database.transact_with(&both, expires, set).unwrap();
        database.write_with(&[(key(7), value(7))].into_iter().collect(), expires).unwrap();
        for number in (0..8).chain([10]) {
            let found = database.get_found(key(number)).unwrap().unwrap();
            assert_eq!(found.expires_at_ms, FUTURE_MS, "{bed}: {number}");
        }
        // A record that has an expiry time of its own keeps it, and one that is present is not changed.
        let own = Change::Put { value: value(8).into(), expires_at_ms: FUTURE_MS + 1 };
        database.update_with(key(8), expires, |_| Ok(own.clone())).unwrap();
        database.put(key(9), value(9)).unwrap();
        assert!(!database.insert_if_absent_with(key(9), value(9), expires).unwrap(), "{bed}");
        let expiry = |number| database.get_found(key(number)).unwrap().unwrap().expires_at_ms;
        assert_eq!((expiry(8), expiry(9)), (FUTURE_MS + 1, NEVER), "{bed}");
        let go_on = &mut |_, _| true;
        let refused = [
            database.delete_with(key(0), expires).err(),
            database.compare_and_swap_with(key(10), Some(&value(10)), None, expires).err(),
            database.delete_prefix_with([7], expires, go_on).err(),
            database.clear_with(expires, go_on).err(),
            database.retain_with(expires, go_on, |_| false).err(),
        ];
        for error in refused {
            assert!(matches!(&error, Some(Error::Setting { name: "expires_at_ms", .. })), "{bed}: {error:?}");
        }
        assert_eq!(database.iter().unwrap().count(), 11, "{bed}");
    }
    for bed in all_beds().filter(|bed| bed.shape.fixed.is_some() && !bed.shape.expiring) {
        let database = bed.open();
        let refused = database.insert_if_absent_with(bed.key(1), bed.value(1, 0), expires);
        assert!(matches!(refused, Err(Error::ExpiryUnsupported)), "{bed}");
    }
}

#[test]
fn an_iterator_of_a_closed_database_returns_the_error_once_and_ends() {
    for bed in all_beds() {
        let database = bed.open();
        fill(&bed, &database, 50);
        let snapshot = database.snapshot().unwrap();
        let mut iterators = vec![database.iter().unwrap(), snapshot.iter(), database.prefix("").unwrap()];
        let ordered = database.ordered();
        iterators.extend(ordered.map(|ordered| ordered.range(..).unwrap()));
        let mut keys = ordered.map(|ordered| ordered.range_keys(..).unwrap());
        assert!(iterators.iter_mut().all(|records| records.next().unwrap().is_ok()), "{bed}");
        assert!(keys.as_mut().is_none_or(|keys| keys.next().unwrap().is_ok()), "{bed}");
        database.close().unwrap();
        iterators.push(snapshot.iter());
        for mut records in iterators {
            assert!(matches!(records.next(), Some(Err(Error::Closed))), "{bed}");
            assert!(records.next().is_none(), "{bed}");
        }
        if let Some(keys) = &mut keys {
            assert!(matches!(keys.next(), Some(Err(Error::Closed))) && keys.next().is_none(), "{bed}");
        }
    }
}

#[derive(Debug, PartialEq)]
enum OwnError {
    Refused(usize),
    Database(String),
}

impl From<Error> for OwnError {
    fn from(error: Error) -> Self {
        OwnError::Database(error.to_string())
    }
}

#[test]
fn an_update_returns_a_result_or_an_error_of_the_caller() {
    for bed in all_beds() {
        let database = bed.open();
        fill(&bed, &database, 1);
        let replaced = database.try_update(bed.key(0), |found| -> Result<_, OwnError> {
            Ok((put(&bed, 0, 1), found.map(|found| found.value.clone())))
        });
        assert_eq!(replaced, Ok(Some(bed.value(0, 0).into())), "{bed}");
        let refused = database.try_update(bed.key(0), |found| -> Result<(Change, ()), _> {
            Err(OwnError::Refused(found.map_or(0, |found| found.value.len())))
        });
        assert_eq!(refused, Err(OwnError::Refused(bed.value(0, 1).len())), "{bed}");
        let too_long = database.try_update(bed.key(0), |_| {
            Ok((Change::Put { value: vec![0; (256 << 20) + 1].into(), expires_at_ms: NEVER }, ()))
        });
        assert!(matches!(too_long, Err(OwnError::Database(_))), "{bed}");
        assert_eq!(
            database.get(bed.key(0)).unwrap().unwrap(),
            bed.value(0, 1),
            "{bed}: errors change nothing"
        );
    }
}
