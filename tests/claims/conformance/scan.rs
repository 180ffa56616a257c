//! The guarantees of all engines for scans, lookups without a read, and access in key order, one test each.

use crate::beds::stage::{STAGES, Stage, reach};
use crate::beds::{MANY, TestBed, all_beds, contents, expected, fill, spread};
use siltstone::{Database, Error, FoundRef, Record, ScanLimit, WriteOptions};
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

const PAST: u64 = 1;
const FUTURE: u64 = 1 << 50;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns all records of a range of positions, read in pages of at most `limit` records.
fn scanned(database: &Database, positions: impl RangeBounds<u64>, limit: usize) -> Vec<Record> {
    let end = positions.end_bound().cloned();
    let mut start = positions.start_bound().cloned();
    let (mut records, mut last) = (Vec::new(), 0);
    loop {
        let page = database.scan((start, end), limit).unwrap();
        records.extend(page.records);
        let Some(next) = page.next else { return records };
        assert!(next > last && (start, end).contains(&next), "{next} after {last}");
        (start, last) = (Bound::Included(next), next);
    }
}

/// Returns the records as a map. Each key may occur once.
fn map_of(records: impl IntoIterator<Item = Record>) -> Map {
    let mut map = Map::new();
    for record in records {
        assert!(
            map.insert(record.key.to_vec(), record.value.to_vec()).is_none(),
            "each key is returned once"
        );
    }
    map
}

#[test]
fn a_scan_returns_every_record_once_whatever_the_size_of_a_page() {
    for bed in all_beds() {
        let mut database = bed.open();
        fill(&bed, &database, MANY);
        for stage in STAGES {
            database = reach(&bed, database, stage);
            let whole = scanned(&database, .., usize::MAX);
            assert!(map_of(whole.clone()) == contents(&database), "{bed}, {stage:?}");
            assert_eq!(whole.len() as u64, MANY);
            assert!(scanned(&database, .., 110) == whole, "{bed}, {stage:?}");
            let tenth = 0..u64::MAX / 10;
            assert!(
                whole.starts_with(&scanned(&database, tenth, 1)),
                "{bed}, {stage:?}: one record per page"
            );
        }
        (0..MANY).for_each(|number| database.delete(bed.key(number)).unwrap());
        assert_eq!(database.scan(.., 10).unwrap().next, None, "{bed}: nothing is left");
    }
}

#[test]
fn a_page_ends_at_its_limit() {
    for bed in all_beds() {
        let database = bed.open();
        fill(&bed, &database, MANY);
        let records = |limit: ScanLimit| database.scan(.., limit).unwrap().records;
        for limit in [1, 2, 100] {
            assert_eq!(records(limit.into()).len(), limit, "{bed}");
        }
        assert_eq!(records(0.into()).len(), 1, "{bed}: a scan always makes progress");
        let bytes = |records: &[Record]| -> usize {
            records.iter().map(|record| record.key.len() + record.value.len()).sum()
        };
        for limit in [1, 500, 20_000] {
            let page = records(ScanLimit { bytes: limit, ..ScanLimit::from(usize::MAX) });
            assert!(bytes(&page) >= limit && bytes(&page[..page.len() - 1]) < limit, "{bed}");
        }
    }
}

#[test]
fn a_page_of_keys_has_the_keys_of_a_page_of_records_and_no_values() {
    for bed in all_beds() {
        for stage in [Stage::Written, Stage::Compacted] {
            let database = bed.open();
            fill(&bed, &database, MANY);
            let database = reach(&bed, database, stage);
            let all = database.scan(.., usize::MAX).unwrap().records;
            let (mut keys, mut next) = (Vec::new(), Some(0));
            while let Some(position) = next {
                let page =
                    database.scan(position.., ScanLimit { keys_only: true, ..ScanLimit::from(300) }).unwrap();
                assert!(page.records.iter().all(|record| record.value.is_empty()), "{bed}, {stage:?}");
                keys.extend(page.records.into_iter().map(|record| record.key));
                next = page.next;
            }
            assert!(keys.iter().eq(all.iter().map(|record| &record.key)), "{bed}, {stage:?}");
        }
    }
}

/// Keys of numbers below `MANY` are never deleted; those from `MANY` on are written and deleted repeatedly.
#[test]
fn a_scan_continues_after_writes_merges_and_restarts() {
    for bed in all_beds() {
        let mut database = bed.open();
        fill(&bed, &database, MANY);
        (MANY..2 * MANY).for_each(|number| database.put(bed.key(number), bed.value(number, 0)).unwrap());
        let (mut seen, mut next, mut round) = (Map::new(), Some(0), 0);
        while let Some(position) = next {
            let page = database.scan(position.., 250).unwrap();
            for record in page.records {
                assert!(seen.insert(record.key.to_vec(), record.value.to_vec()).is_none(), "{bed}");
            }
            next = page.next;
            round += 1;
            for number in (0..2 * MANY).filter(|number| spread(number + round).is_multiple_of(5)) {
                match number < MANY {
                    true => database.put(bed.key(number), bed.value(number, round)).unwrap(),
                    false if round % 2 == 0 => database.delete(bed.key(number)).unwrap(),
                    false => database.put(bed.key(number), bed.value(number, round)).unwrap(),
                }
            }
            database = reach(&bed, database, STAGES[round as usize % STAGES.len()]);
        }
        assert!(round >= 2 * MANY / 250 / 2, "{bed}: {round} pages");
        for number in 0..MANY {
            let value = seen.get(&bed.key(number)).unwrap();
            assert!((0..=round).any(|version| *value == bed.value(number, version)), "{bed}, {number}");
        }
    }
}

#[test]
fn ranges_of_positions_divide_the_records() {
    for bed in all_beds() {
        let mut database = bed.open();
        fill(&bed, &database, MANY);
        for stage in STAGES {
            database = reach(&bed, database, stage);
            let all = scanned(&database, .., 300);
            // Parts whose ends are not those of partitions, and some that are very small.
            for parts in [1, 3, 40] {
                let start = |part: u64| u64::MAX / parts * part;
                let divided = (0..parts).flat_map(|part| {
                    let end = if part + 1 == parts { u64::MAX } else { start(part + 1) - 1 };
                    scanned(&database, start(part)..=end, 300)
                });
                assert!(divided.eq(all.iter().cloned()), "{bed}, {stage:?}, {parts} parts");
            }
            for (start, end) in [(5, 5), (u64::MAX, 0), (0, 0)] {
                let page = database.scan(start..end, 10).unwrap();
                assert_eq!((page.records.len(), page.next), (0, None), "{bed}");
            }
            let beyond = (Bound::Excluded(u64::MAX), Bound::Unbounded);
            assert_eq!(database.scan(beyond, 10).unwrap().next, None, "{bed}");
        }
    }
}

/// Keys with the same first 8 bytes are at one position if keys are hashes.
#[test]
fn keys_of_one_position_are_in_one_page() {
    for bed in all_beds().filter(|bed| bed.shape.hashed_keys) {
        let mut database = bed.open();
        fill(&bed, &database, 300);
        let length = bed.shape.fixed.map_or(20, |(length, _)| length);
        for (first, number) in [(0, 1), (0x77, 2), (0x77, 3), (0xff, 4)] {
            for last in 0..20 {
                let mut key = vec![first; length];
                (key[length - 1], key[length - 2]) = (last, number as u8);
                database.put(&key, bed.value(number, 0)).unwrap();
            }
        }
        for stage in STAGES {
            database = reach(&bed, database, stage);
            let all = scanned(&database, .., usize::MAX);
            assert_eq!(map_of(all.clone()).len(), 380, "{bed}, {stage:?}");
            let count = |first: u8| {
                let position = u64::from_be_bytes([first; 8]);
                let page = database.scan(position.., 1).unwrap();
                assert_eq!(page.next, position.checked_add(1), "{bed}, {stage:?}");
                page.records.len()
            };
            assert_eq!([count(0), count(0x77), count(0xff)], [20, 40, 20], "{bed}, {stage:?}");
            assert!(scanned(&database, .., 1) == all, "{bed}, {stage:?}");
        }
    }
}

#[test]
fn a_scan_omits_expired_records() {
    for bed in all_beds().filter(|bed| bed.shape.expiring) {
        let mut database = bed.open();
        for number in 0..400 {
            let expires_at_ms = if number % 2 == 0 { PAST } else { FUTURE };
            let options = WriteOptions::default().expires_at_ms(expires_at_ms);
            database.put_with(bed.key(number), bed.value(number, 0), options).unwrap();
        }
        for stage in STAGES {
            database = reach(&bed, database, stage);
            let records = scanned(&database, .., 30);
            assert!(records.iter().all(|record| record.expires_at_ms == FUTURE), "{bed}, {stage:?}");
            let odd = (0..400).filter(|number| number % 2 == 1);
            assert!(map_of(records) == expected(&bed, odd, 0), "{bed}, {stage:?}");
        }
    }
}

#[test]
fn a_key_that_may_not_be_contained_is_absent() {
    for bed in all_beds() {
        let mut database = bed.open();
        assert!(!database.may_contain(bed.key(1)).unwrap(), "{bed}: the database is empty");
        fill(&bed, &database, MANY);
        (0..MANY).step_by(3).for_each(|number| database.delete(bed.key(number)).unwrap());
        for stage in STAGES {
            database = reach(&bed, database, stage);
            let may_contain = |number| database.may_contain(bed.key(number)).unwrap();
            assert!((0..MANY).all(|number| number % 3 == 0 || may_contain(number)), "{bed}, {stage:?}");
            if !bed.is_persistent() {
                let exact =
                    (0..2 * MANY).all(|number| may_contain(number) == (number < MANY && number % 3 != 0));
                assert!(exact, "{bed}");
            }
        }
        database.close().unwrap();
        assert!(matches!(database.may_contain(bed.key(1)), Err(Error::Closed)), "{bed}");
        assert!(matches!(database.scan(.., 1), Err(Error::Closed)), "{bed}");
    }
}

#[test]
fn filters_exclude_absent_keys() {
    let has_filter = |bed: &TestBed| {
        let settings = (bed.engine.small)(true).1.describe();
        settings.iter().any(|setting| setting.name == "filter_last_store")
    };
    for bed in all_beds().filter(has_filter) {
        let open =
            || bed.open_with(bed.builder().memory_budget(8 << 20).set("filter_last_store", 8)).unwrap();
        let database = open();
        let false_positives = |database: &Database| {
            (MANY..2 * MANY).filter(|number| database.may_contain(bed.key(*number)).unwrap()).count()
        };
        fill(&bed, &database, MANY);
        assert!(false_positives(&database) < 100, "{bed}, in young stores");
        let database = reach(&bed, database, Stage::Compacted);
        assert!(false_positives(&database) < 30, "{bed}, in the last store");
    }
}

/// The bounds of a range of keys.
type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Returns pairs of bounds of every kind, some without a key between them.
fn bounds(keys: &[Vec<u8>]) -> Vec<Bounds<'_>> {
    let one = |at: usize| [Bound::Included(&keys[at][..]), Bound::Excluded(&keys[at][..])];
    let mut bounds = vec![(Bound::Unbounded, Bound::Unbounded)];
    for (from, to) in [(0, keys.len() - 1), (3, 40), (7, 7), (50, 20)] {
        for start in one(from) {
            bounds.push((start, Bound::Unbounded));
            bounds.push((Bound::Unbounded, start));
            bounds.extend(one(to).map(|end| (start, end)));
        }
    }
    bounds
}

/// Returns the beds of the engines that keep the order of the keys.
fn ordered_beds() -> Vec<TestBed> {
    let beds: Vec<TestBed> = all_beds().filter(|bed| bed.open().ordered().is_some()).collect();
    assert!(!beds.is_empty(), "the example engine keeps the order of the keys");
    beds
}

#[test]
fn ordered_access_returns_ranges_in_key_order() {
    for bed in ordered_beds() {
        let mut database = bed.open();
        fill(&bed, &database, 300);
        for stage in STAGES {
            database = reach(&bed, database, stage);
            let ordered = database.ordered().unwrap();
            let all = contents(&database);
            let keys: Vec<Vec<u8>> = all.keys().cloned().collect();
            for (start, end) in bounds(&keys) {
                let within: Vec<Record> =
                    ordered.range((start, end)).unwrap().collect::<Result<_, _>>().unwrap();
                let expected =
                    || all.iter().filter(|(key, _)| RangeBounds::<&[u8]>::contains(&(start, end), &&key[..]));
                let same = |record: &Record, (key, value): (&Vec<u8>, &Vec<u8>)| {
                    record.key == key[..] && record.value == value[..]
                };
                assert!(
                    within.len() == expected().count()
                        && within.iter().zip(expected()).all(|(record, one)| same(record, one)),
                    "{bed}, {stage:?}, {start:?} to {end:?}"
                );
                let ascending: Vec<_> =
                    ordered.range_keys((start, end)).unwrap().map(Result::unwrap).collect();
                assert!(ascending.iter().eq(within.iter().map(|record| &record.key)), "{bed}, {stage:?}");
                let descending = ordered.descending().range((start, end)).unwrap().map(Result::unwrap);
                assert!(descending.eq(within.iter().rev().cloned()), "{bed}, {stage:?}");
                for limit in [0, 1, within.len() / 2, within.len() + 1] {
                    let first = ordered.limit(limit).range((start, end)).unwrap().map(Result::unwrap);
                    assert!(
                        first.eq(within.iter().take(limit).cloned()),
                        "{bed}, {stage:?}, {limit} records"
                    );
                    let keys = ordered.limit(limit).descending().range_keys((start, end)).unwrap();
                    let last = within.iter().rev().take(limit).map(|record| record.key.clone());
                    assert!(keys.map(Result::unwrap).eq(last), "{bed}, {stage:?}, {limit} keys");
                }
            }
            for prefix in [&b""[..], &keys[9][..1], &keys[9], &[0xff], &[0xff, 0xff]] {
                let found = map_of(ordered.prefix(prefix).unwrap().map(Result::unwrap));
                let expected = all.iter().filter(|(key, _)| key.starts_with(prefix));
                assert!(found.iter().eq(expected), "{bed}, {stage:?}, {prefix:?}");
            }
        }
    }
}

#[test]
fn an_ordered_range_does_not_change() {
    for bed in ordered_beds() {
        let database = bed.open();
        fill(&bed, &database, 200);
        let ordered = database.ordered().unwrap();
        let (before, range) = (contents(&database), ordered.range(..).unwrap());
        (100..300).for_each(|number| database.put(bed.key(number), bed.value(number, 1)).unwrap());
        (0..50).for_each(|number| database.delete(bed.key(number)).unwrap());
        assert!(map_of(range.map(Result::unwrap)) == before, "{bed}");
        assert!(map_of(ordered.range(..).unwrap().map(Result::unwrap)) == contents(&database), "{bed}");
    }
}

#[test]
fn memory_knows_of_each_key_what_a_lookup_finds_or_that_flash_has_to_be_read() {
    for bed in all_beds() {
        let mut database = bed.open();
        fill(&bed, &database, MANY);
        for stage in STAGES {
            database = reach(&bed, database, stage);
            let keys: Vec<Vec<u8>> = (0..600).map(|at| bed.key(at * 7 % (2 * MANY))).collect();
            let mut known = vec![None; keys.len()];
            let show = |at: usize, found: Option<FoundRef<'_>>| {
                let before = known[at].replace(found.map(|found| found.value.to_vec()));
                assert_eq!(before, None, "{bed}, {stage:?}: number {at} is shown twice");
            };
            let unknown = database.get_many_in_memory(&keys, show).unwrap();
            for (at, (key, known)) in keys.iter().zip(known).enumerate() {
                assert_eq!(known.is_none(), unknown.contains(&at), "{bed}, {stage:?}: number {at}");
                let found = || database.get(key).unwrap().map(Vec::from);
                assert!(known.is_none_or(|known| known == found()), "{bed}, {stage:?}: number {at}");
            }
        }
    }
}
