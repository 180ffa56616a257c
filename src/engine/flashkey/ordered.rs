//! Access in the order of the keys, if the setting `ordered` is set.

use super::engine::FlashKeyEngine;
use crate::batch::TimestampMs;
use crate::engine::flashkey::{LogSnapshot, RangeCache, RangeKeys, RangeRecords};
use crate::engine::{Direction, Engine, Found, KeyBounds, Keys, Ordered, Record, Records, Snapshot};
use crate::error::Result;
use crate::key::Key;
use crate::store::ordered_keys::{KeysSnapshot, OrderedRange};

/// The records and the keys in order of one moment.
pub(super) struct OrderedSnapshot {
    records: LogSnapshot,
    keys: KeysSnapshot,
    cache: RangeCache,
}

impl OrderedSnapshot {
    fn keys(&self, (start, end): KeyBounds<'_>, direction: Direction) -> OrderedRange {
        self.keys.range((start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec)), direction)
    }
}

/// Records are read up to 128 together. Keys alone are read from the ordered set, and only records with an expiry time
/// are looked up. What expires was decided when the snapshot was taken.
impl Ordered for OrderedSnapshot {
    fn range(
        &self,
        bounds: KeyBounds<'_>,
        direction: Direction,
        limit: usize,
        _now_ms: TimestampMs,
    ) -> Result<Records> {
        let keys = self.keys(bounds, direction);
        let records = RangeRecords::new(self.records.clone(), self.cache.clone(), keys, limit);
        let record = |(key, value, expires_at_ms)| Record { key, value, expires_at_ms };
        Ok(Box::new(records.map(move |read| read.map(record))))
    }

    fn range_keys(
        &self,
        bounds: KeyBounds<'_>,
        direction: Direction,
        limit: usize,
        _now_ms: TimestampMs,
    ) -> Result<Keys> {
        let keys = self.keys(bounds, direction);
        Ok(Box::new(RangeKeys::new(self.records.clone(), self.cache.clone(), keys, limit)))
    }
}

impl Snapshot for OrderedSnapshot {
    fn get(&self, key: Key<'_>) -> Result<Option<Found>> {
        Snapshot::get(&self.records, key)
    }

    fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Found>>> {
        Snapshot::get_many(&self.records, keys)
    }

    fn records(&self) -> Records {
        Snapshot::records(&self.records)
    }

    fn ordered(&self) -> Option<&dyn Ordered> {
        Some(self)
    }
}

impl FlashKeyEngine {
    /// Takes a snapshot that has the order of the keys; `None` if no order is kept.
    pub(super) fn ordered_snapshot(&self, now_ms: TimestampMs) -> Result<Option<OrderedSnapshot>> {
        self.check_open()?;
        let taken = LogSnapshot::take_ordered(&self.parts.logs, now_ms)?;
        let cache = RangeCache::new(&self.parts.logs, &self.parts.cache);
        Ok(taken.map(|(records, keys)| OrderedSnapshot { records, keys, cache }))
    }
}

/// A range is one of a snapshot that is taken for it.
impl Ordered for FlashKeyEngine {
    fn range(
        &self,
        bounds: KeyBounds<'_>,
        direction: Direction,
        limit: usize,
        now_ms: TimestampMs,
    ) -> Result<Records> {
        match self.ordered_snapshot(now_ms)? {
            Some(snapshot) => snapshot.range(bounds, direction, limit, now_ms),
            None => Ok(Box::new(std::iter::empty())),
        }
    }

    fn range_keys(
        &self,
        bounds: KeyBounds<'_>,
        direction: Direction,
        limit: usize,
        now_ms: TimestampMs,
    ) -> Result<Keys> {
        match self.ordered_snapshot(now_ms)? {
            Some(snapshot) => snapshot.range_keys(bounds, direction, limit, now_ms),
            None => Ok(Box::new(std::iter::empty())),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::flashkey::Manifest;
    use crate::engine::flashkey::live::LiveLogs;
    use crate::{Database, FlashKeySettings, Result, Step};
    use siltstone_device::memory::MemoryDirectory;
    use siltstone_device::{Access, Directory, Purpose};

    fn open(files: &MemoryDirectory) -> Database {
        let settings = FlashKeySettings::default().segment_bytes(8192).ordered(true);
        let directory = Directory::new(files.clone(), Access::Buffered);
        Database::builder("db").engine(settings).background_threads(0).open_in(directory).unwrap()
    }

    fn open_with_cache() -> Database {
        let settings = FlashKeySettings::default().ordered(true);
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let builder = Database::builder("db").engine(settings).memory_budget(8 << 20);
        builder.background_threads(0).open_in(directory).unwrap()
    }

    fn put_all(database: &Database, value: u8) {
        (0..1_000u32).for_each(|key| database.put(key.to_be_bytes(), [value; 50]).unwrap());
    }

    /// Checks that all of these records have this value.
    fn check(records: impl Iterator<Item = Result<crate::Record>>, count: usize, value: u8) {
        let records: Vec<_> = records.collect::<Result<_>>().unwrap();
        assert_eq!(records.len(), count);
        assert!(records.iter().all(|record| *record.value == [value; 50]));
    }

    #[test]
    fn records_of_a_range_that_was_read_before_come_from_the_record_cache() {
        let database = open_with_cache();
        put_all(&database, 1);
        let reads = || database.stats().io.of(Purpose::Get).reads;
        let range = || database.ordered().unwrap().limit(500).range(..).unwrap();
        check(range(), 500, 1);
        let before = reads();
        check(range(), 500, 1);
        assert_eq!(reads(), before);
        // What ranges have inserted is replaced as what gets have.
        put_all(&database, 2);
        check(range(), 500, 2);
        assert_eq!(reads(), before + 500);
        let key = 7u32.to_be_bytes();
        assert_eq!(*database.get(key).unwrap().unwrap(), [2; 50]);
        assert_eq!(reads(), before + 500);
    }

    #[test]
    fn a_range_has_the_records_of_its_moment_whatever_the_record_cache_has() {
        let database = open_with_cache();
        put_all(&database, 1);
        check(database.ordered().unwrap().range(..).unwrap(), 1_000, 1);
        let mut range = database.ordered().unwrap().range(..).unwrap();
        check(range.by_ref().take(16), 16, 1);
        put_all(&database, 2);
        check(database.ordered().unwrap().range(..).unwrap(), 1_000, 2);
        check(range, 984, 1);
        // Nor does the cache take what the range has read.
        check(database.ordered().unwrap().range(..).unwrap(), 1_000, 2);
        let old = database.ordered().unwrap().range(..).unwrap();
        // An iterator keeps the database open.
        drop(database);
        check(old, 1_000, 2);
    }

    #[test]
    fn ranges_of_a_snapshot_are_of_its_moment_whatever_is_flushed_and_merged_since() {
        let database = open(&MemoryDirectory::default());
        let key = |number: u32| (number * 7919 % 1_000).to_be_bytes();
        let mut snapshots = Vec::new();
        for round in 0..4u8 {
            (0..700)
                .for_each(|number| database.put(key(number + u32::from(round) * 100), [round; 50]).unwrap());
            (0..100).for_each(|number| database.delete(key(number * 3 + u32::from(round))).unwrap());
            let expected: Vec<_> =
                database.ordered().unwrap().range(..).unwrap().map(Result::unwrap).collect();
            snapshots.push((database.snapshot().unwrap(), expected));
            database.compact().unwrap();
            while database.step().unwrap() == Step::Worked {}
        }
        for (snapshot, mut expected) in snapshots {
            let ordered = snapshot.ordered().unwrap();
            let all = |records: crate::Iter| records.collect::<Result<Vec<_>>>().unwrap();
            assert_eq!(all(ordered.range(..).unwrap()), expected);
            let found =
                snapshot.get_many(&expected.iter().map(|record| &record.key).collect::<Vec<_>>()).unwrap();
            assert!(found.into_iter().flatten().eq(expected.iter().map(|record| record.value.clone())));
            let middle = &300u32.to_be_bytes()[..];
            let above = expected.partition_point(|record| *record.key < *middle);
            assert_eq!(all(ordered.limit(20).range(middle..).unwrap()), expected[above..above + 20]);
            assert_eq!(snapshot.iter().count(), expected.len());
            expected.reverse();
            assert_eq!(all(ordered.descending().range(..).unwrap()), expected);
            let keys = ordered.descending().range_keys(..).unwrap().map(Result::unwrap);
            assert!(keys.eq(expected.iter().map(|record| record.key.clone())));
        }
    }

    fn keys(database: &Database) -> Vec<Vec<u8>> {
        let keys = database.ordered().unwrap().range_keys(..).unwrap();
        keys.map(|key| key.map(|key| key.to_vec())).collect::<Result<_>>().unwrap()
    }

    fn detail(database: &Database, name: &str) -> f64 {
        database.stats().details.iter().find(|(other, _)| *other == name).unwrap().1
    }

    /// Put at the tail, deleted at the head.
    #[test]
    fn the_head_of_a_queue_is_found_without_passing_all_that_was_deleted() {
        let files = MemoryDirectory::default();
        let directory = Directory::new(files, Access::Buffered);
        let settings = FlashKeySettings::default().ordered(true);
        let builder = Database::builder("db").engine(settings).background_threads(0);
        let database = builder.open_in(directory).unwrap();
        // Other records lie on both sides.
        (0..5_000u64).for_each(|key| {
            database.put([&[key as u8 & 1 | 2], &key.to_be_bytes()[..]].concat(), "x").unwrap()
        });
        database.settle().unwrap();
        let key = |number: u64| [&[2, 9], &number.to_be_bytes()[..]].concat();
        let mut most = 0.0f64;
        for number in 0..100_000u64 {
            database.put(key(number), [7; 10]).unwrap();
            if number >= 100 {
                database.delete(key(number - 100)).unwrap();
            }
            if number % 1_000 == 999 {
                let before = detail(&database, "deleted_keys_passed");
                let mut first = database.ordered().unwrap().limit(1).prefix_keys(&[2, 9]).unwrap();
                assert_eq!(first.next().unwrap().unwrap(), key(number - 99));
                most = most.max(detail(&database, "deleted_keys_passed") - before);
                database.settle().unwrap();
            }
        }
        assert!(most > 0.0 && most < 12_000.0, "{most} deleted keys were passed");
    }

    #[test]
    fn keys_whose_runs_are_gone_are_found_in_the_records() {
        let files = MemoryDirectory::default();
        let database = open(&files);
        let key = |number: u64| format!("key {:05}", number * 7919 % 3000).into_bytes();
        (0..3000).for_each(|number| database.put(key(number), [3; 50]).unwrap());
        (0..1000).for_each(|number| database.put(key(number), [4; 50]).unwrap());
        (500..800).for_each(|number| database.delete(key(number)).unwrap());
        database.compact().unwrap();
        while database.step().unwrap() == Step::Worked {}
        (100..200).for_each(|number| database.delete(key(number)).unwrap());
        let before = keys(&database);
        database.close().unwrap();

        // As a repair leaves it: without runs. The first segments of the user log are released.
        let directory = Directory::new(files.clone(), Access::Buffered);
        let manifest = Manifest::open(&directory).unwrap();
        let live = manifest.state().clone();
        assert!(
            !live.key_runs.is_empty()
                && live.finished.iter().all(|segment| segment.class > 0 || segment.base > 0)
        );
        let live = LiveLogs { key_runs: Vec::new(), keys_flushed_to: 0, ..live };
        let (header, synced) = (manifest.header(), manifest.log_synced());
        Manifest::replace(&directory, header, live, manifest.settings(), synced).unwrap();

        for _ in 0..2 {
            let database = open(&files);
            assert_eq!(before.len(), 2600);
            assert_eq!(keys(&database), before);
            database.close().unwrap();
            let manifest = Manifest::open(&directory).unwrap();
            assert!(!manifest.state().key_runs.is_empty(), "they are in runs again");
        }
    }
}
