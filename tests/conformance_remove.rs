//! The guarantees of all engines for the removal of many records, one test each.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "some is for other suites")]
mod beds;
#[path = "beds/stage.rs"]
mod stage;

use beds::{MANY, TestBed, all_beds, beds, contents, expected, fill};
use siltstone::{Database, Durability, Error, Progress, Purpose, Result, WriteOptions};
use stage::{STAGES, Stage, reach};

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

#[test]
fn a_removal_stops_between_two_batches() {
    type Remove = fn(&Database, &mut Progress<'_>) -> Result<u64>;
    let removals: [Remove; 2] = [
        |database, progress| database.delete_prefix_with("", WriteOptions::default(), progress),
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
