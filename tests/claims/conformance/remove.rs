//! The guarantees of all engines for the removal of many records, one test each.

use crate::beds::stage::{STAGES, Stage, reach};
use crate::beds::{MANY, TestBed, all_beds, beds, contents, expected, fill};
use siltstone::{Builder, Database, Durability, EngineKind, Error, Progress, Purpose, Result, WriteOptions};
use std::collections::BTreeMap;

/// Returns the prefix of some 256 keys if they are numbers, and of fewer if they are hashes.
fn prefix(bed: &TestBed, number: u64) -> Vec<u8> {
    let length = if bed.shape.hashed_keys { 1 } else { 7 };
    bed.key(number)[..length].to_vec()
}

#[test]
fn records_that_are_selected_by_prefix_or_function_are_removed_and_no_others() {
    // Of a database that is settled, a step may do work that is not needed yet.
    let stages = || STAGES.into_iter().filter(|stage| !matches!(stage, Stage::Settled));
    for bed in all_beds() {
        let mut database = bed.open();
        fill(&bed, &database, MANY);
        for (at, stage) in (0..).zip(stages()) {
            database = reach(&bed, database, stage);
            let (mut all, prefix) = (contents(&database), prefix(&bed, 256 * at));
            let before = all.len() as u64;
            all.retain(|key, _| !key.starts_with(&prefix));
            let deleted = database.delete_prefix(&prefix).unwrap();
            assert_eq!(deleted, before - all.len() as u64, "{bed}, {stage:?}");
            assert!(contents(&database) == all && deleted > 0, "{bed}, {stage:?}");

            let (before, mut seen) = (all.clone(), 0);
            let keeps = |value: &[u8]| value.first().is_none_or(|byte| u64::from(*byte) % 16 != at);
            all.retain(|_, value| keeps(value));
            let removed = database.retain(|record| {
                seen += 1;
                assert!(before.get(&record.key[..]).is_some_and(|value| record.value == value[..]));
                keeps(&record.value)
            });
            assert_eq!((removed.unwrap() as usize, seen), (before.len() - all.len(), before.len()), "{bed}");
            assert!(contents(&database) == all && !all.is_empty(), "{bed}, {stage:?}");
        }
        let left = contents(&database).len() as u64;
        assert_eq!((database.clear().unwrap(), database.clear().unwrap()), (left, 0), "{bed}");
        assert!(contents(&database).is_empty(), "{bed}");
    }
}

#[test]
fn a_prefix_that_all_keys_have_by_mistake_deletes_nothing() {
    for bed in all_beds() {
        let database = bed.open();
        fill(&bed, &database, 30);
        for prefix in [&b""[..], &Vec::new()] {
            let refused = database.delete_prefix(prefix);
            let is_named = |problem: &str| problem.contains("clear");
            let is_refused =
                matches!(&refused, Err(Error::Setting { name: "prefix", problem }) if is_named(problem));
            assert!(is_refused, "{bed}: {refused:?}");
        }
        assert_eq!(
            (database.len().unwrap(), database.clear().unwrap(), database.len().unwrap()),
            (30, 30, 0)
        );
    }
}

#[test]
fn many_deletions_survive_another_opening() {
    for bed in beds() {
        let database = bed.open();
        fill(&bed, &database, MANY);
        let synced = WriteOptions::default().durability(Durability::Synced);
        let deleted = database.delete_prefix_with(prefix(&bed, 300), synced, &mut |_, _| true).unwrap();
        let removed =
            database.retain_with(synced, &mut |_, _| true, |record| record.key[7] % 2 == 0).unwrap();
        assert!(deleted > 0 && removed > 0, "{bed}");
        let left = contents(&database);
        drop(database);
        let database = bed.open();
        assert!(contents(&database) == left && left.len() as u64 == MANY - deleted - removed, "{bed}");
        assert_eq!(database.clear().unwrap(), left.len() as u64, "{bed}");
        drop(database);
        assert!(contents(&bed.open()).is_empty(), "{bed}");
    }
}

/// The first and the last value of each key, and whether a filter refuses it.
type Put = BTreeMap<Vec<u8>, ([Vec<u8>; 2], bool)>;

/// Returns the builder of a bed without the order of keys, with which FlashKey takes no filter.
fn unordered(bed: &TestBed) -> Builder {
    let is_flashkey = bed.to_string().starts_with("flashkey");
    if is_flashkey { bed.builder().set("ordered", false) } else { bed.builder() }
}

/// Puts two values of each key into a database with a filter that refuses every second key, or only its last value.
fn filtered(bed: &TestBed, refuses_first: bool) -> (Database, Put) {
    let of = |number| ([bed.value(number, 1), bed.value(number, 2)], number % 2 == 0);
    let put: Put = (0..MANY).map(|number| (bed.key(number), of(number))).collect();
    let known = put.clone();
    let builder = unordered(bed).compaction_filter(move |key, value| {
        let ([first, last], is_refused) = &known[key];
        assert!(value == first || value == last, "a value that was put");
        !is_refused || !refuses_first && value == first
    });
    let database = bed.open_with(builder).unwrap();
    for (key, ([first, last], _)) in &put {
        database.put(key, first).unwrap();
        database.put(key, last).unwrap();
    }
    database.compact().unwrap();
    (database, put)
}

#[test]
fn records_that_a_compaction_filter_refuses_disappear_when_they_are_written_again_and_no_others_do() {
    for bed in beds() {
        let (database, put) = filtered(&bed, true);
        let found = contents(&database);
        assert!(found.iter().all(|(key, value)| *value == put[key].0[1]), "{bed}");
        assert!(put.iter().all(|(key, (_, is_refused))| *is_refused || found.contains_key(key)), "{bed}");
        // A segment without overwritten records is not cleaned, and the engine of the tests that only appends writes
        // nothing again.
        let left = found.keys().filter(|key| put[*key].1).count() as u64;
        let rewrites = EngineKind::ALL.iter().any(|kind| kind.name() == database.stats().engine);
        assert!(if rewrites { left * 50 < MANY } else { left * 2 == MANY }, "{bed}: {left} are left");
        // Without the filter, what has disappeared is not found again.
        drop(database);
        let database = bed.open_with(unordered(&bed)).unwrap();
        database.compact().unwrap();
        assert!(contents(&database) == found, "{bed}");
    }
}

#[test]
fn a_compaction_filter_is_refused_in_memory_and_where_keys_are_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let flashkey = || Database::builder(&path).engine(EngineKind::FlashKey);
    let refused =
        flashkey().set("ordered", true).compaction_filter(|_, _| true).open().unwrap_err().to_string();
    assert!(refused.starts_with("compaction_filter") && refused.contains("`retain`"), "{refused}");
    assert!(!path.exists());
    drop(flashkey().set("ordered", true).open().unwrap());
    assert!(flashkey().compaction_filter(|_, _| true).open().is_err(), "the database keeps the order");
    let mica = Database::builder("").engine(EngineKind::Mica).compaction_filter(|_, _| true);
    let refused = mica.open_in_memory().unwrap_err().to_string();
    assert!(refused.contains("compaction_filter") && refused.contains("mica"), "{refused}");
}

#[test]
fn an_older_value_does_not_come_back_when_a_compaction_filter_refuses_the_last_one() {
    for bed in beds() {
        let (database, put) = filtered(&bed, false);
        let found = contents(&database);
        assert!(found.iter().all(|(key, value)| *value == put[key].0[1]), "{bed}");
        assert!(put.iter().all(|(key, (_, is_refused))| *is_refused || found.contains_key(key)), "{bed}");
    }
}

#[test]
fn a_removal_stops_between_two_batches() {
    type Remove = fn(&Database, &mut Progress<'_>) -> Result<u64>;
    let removals: [Remove; 2] = [
        |database, progress| database.clear_with(WriteOptions::default(), progress),
        |database, progress| database.retain_with(WriteOptions::default(), progress, |_| false),
    ];
    for bed in all_beds() {
        for remove in removals {
            let database = bed.open();
            database.clear().unwrap();
            fill(&bed, &database, MANY);
            let mut removed = 0;
            let outcome = remove(&database, &mut |removed_now, read| {
                assert!(removed == 0 && removed_now == read, "{bed}");
                removed = removed_now;
                false
            });
            assert!(matches!(outcome, Err(Error::Interrupted)), "{bed}: {outcome:?}");
            assert!(removed > 0 && removed < MANY, "{bed}: {removed}");
            assert_eq!(contents(&database).len() as u64, MANY - removed, "{bed}");
        }
    }
}

#[test]
fn a_removal_reads_each_record_once() {
    for bed in beds() {
        let reads = |read: &dyn Fn(&Database)| {
            let database = bed.open();
            database.clear().unwrap();
            fill(&bed, &database, MANY);
            database.compact().unwrap();
            let before = database.stats().io;
            read(&database);
            let io = database.stats().io - before;
            (io.of(Purpose::Iterate).reads, io.of(Purpose::Get).reads)
        };
        let (iterated, _) = reads(&|database| {
            let mut next = Some(0);
            while let Some(position) = next {
                next = database.scan(position.., 1_024).unwrap().next;
            }
        });
        let retained = reads(&|database| assert_eq!(database.retain(|_| false).unwrap(), MANY));
        let deleted = reads(&|database| assert_eq!(database.clear().unwrap(), MANY));
        // Deletions are background work as well, which moves records between two pages.
        let once = 0..=2 * iterated + 8;
        assert!(once.contains(&retained.0) && retained.1 == 0, "{bed}: {retained:?} for {iterated}");
        assert!(once.contains(&deleted.0) && deleted.1 == 0, "{bed}: {deleted:?} for {iterated}");
        if bed.open().ordered().is_some() {
            assert!(10 * deleted.0 <= iterated, "{bed}: {deleted:?} for {iterated}");
        }
    }
}

/// `retain` holds no lock while it asks for records of a page, so that the function can write here.
#[test]
fn a_record_that_is_replaced_meanwhile_is_kept_if_the_new_one_is() {
    for bed in all_beds() {
        let database = bed.open();
        fill(&bed, &database, 200);
        let old = contents(&database);
        let number_of = |key: &[u8]| (0..200).find(|number| bed.key(*number) == key).unwrap();
        let (mut replaced, mut deleted) = (0, 0);
        let removed = database.retain(|record| {
            let is_old = old[&record.key[..]] == record.value[..];
            match number_of(&record.key) {
                number if is_old && number % 4 == 0 => {
                    replaced += 1;
                    database.put(&record.key, bed.value(number, 1)).unwrap();
                }
                number if number % 4 == 1 => {
                    deleted += 1;
                    database.delete(&record.key).unwrap();
                }
                _ => {}
            }
            !is_old
        });
        assert_eq!((replaced, deleted), (50, 50), "{bed}");
        assert_eq!(removed.unwrap(), 100, "{bed}");
        assert!(contents(&database) == expected(&bed, (0..200).step_by(4), 1), "{bed}");
    }
}

#[test]
fn a_read_only_database_refuses_to_remove() {
    for bed in beds().filter(|bed| bed.path().is_some()) {
        let database = bed.open();
        fill(&bed, &database, 10);
        drop(database);
        let database = bed.open_with(bed.builder().read_only(true)).unwrap();
        for outcome in
            [database.clear(), database.retain(|_| panic!("{bed}: was asked")), database.delete_prefix("x")]
        {
            assert!(matches!(outcome, Err(Error::ReadOnly)), "{bed}: {outcome:?}");
        }
    }
}
