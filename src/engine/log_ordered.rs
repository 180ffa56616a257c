//! Access in the order of the keys, if the setting `ordered` is set.

use super::log_engine::LogEngine;
use super::{Direction, Engine, KeyBounds, Keys, Ordered, Record, Records};
use crate::batch::TimestampMs;
use crate::compose::hashed_log::{LogSnapshot, RangeKeys, RangeRecords};
use crate::error::Result;
use crate::store::ordered_keys::OrderedRange;

impl LogEngine {
    /// Returns the keys of a range, and the records of the same moment; `None` if no order is kept.
    fn snapshot_of_range(
        &self,
        (start, end): KeyBounds<'_>,
        direction: Direction,
        now_ms: TimestampMs,
    ) -> Result<Option<(LogSnapshot, OrderedRange)>> {
        self.check_open()?;
        let bounds = (start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec));
        let taken = LogSnapshot::take_ordered(&self.parts.logs, now_ms)?;
        Ok(taken.map(|(snapshot, keys)| (snapshot, keys.range(bounds, direction))))
    }
}

/// Records are read up to 128 together. Keys alone are read from the ordered set, and only records with an expiry time
/// are looked up.
impl Ordered for LogEngine {
    fn range(
        &self,
        bounds: KeyBounds<'_>,
        direction: Direction,
        limit: usize,
        now_ms: TimestampMs,
    ) -> Result<Records> {
        let taken = self.snapshot_of_range(bounds, direction, now_ms)?;
        let record = |(key, value, expires_at_ms)| Record { key, value, expires_at_ms };
        Ok(match taken {
            Some((snapshot, range)) => {
                Box::new(RangeRecords::new(snapshot, range, limit).map(move |read| read.map(record)))
            }
            None => Box::new(std::iter::empty()),
        })
    }

    fn range_keys(
        &self,
        bounds: KeyBounds<'_>,
        direction: Direction,
        limit: usize,
        now_ms: TimestampMs,
    ) -> Result<Keys> {
        Ok(match self.snapshot_of_range(bounds, direction, now_ms)? {
            Some((snapshot, range)) => Box::new(RangeKeys::new(snapshot, range, limit)),
            None => Box::new(std::iter::empty()),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::compose::hashed_log::Manifest;
    use crate::compose::hashed_log::live::LiveLogs;
    use crate::device::memory::MemoryDirectory;
    use crate::device::{Access, Directory};
    use crate::{Database, FlashKeySettings, Result, Step};

    fn open(files: &MemoryDirectory) -> Database {
        let settings = FlashKeySettings::default().segment_bytes(8192).ordered(true);
        let directory = Directory::new(files.clone(), Access::Buffered);
        Database::builder("db").engine(settings).background_threads(0).open_in(directory).unwrap()
    }

    fn keys(database: &Database) -> Vec<Vec<u8>> {
        let keys = database.ordered().unwrap().range_keys(..).unwrap();
        keys.map(|key| key.map(|key| key.to_vec())).collect::<Result<_>>().unwrap()
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
