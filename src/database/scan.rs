//! Scans: reading all records in pages.

use super::Database;
use super::latencies::Operation;
use crate::engine::{Record, ScanLimit, ScanPage};
use crate::error::Result;
use siltstone_device::random_number;
use std::ops::{Bound, RangeBounds};

impl Database {
    /// Returns one page of a scan: records whose scan positions are in a range, in the order of the positions. A scan
    /// reads all records of a range in pages and holds nothing between two pages: [`ScanPage::next`] is all that it
    /// needs to continue, also in another process or after a restart.
    ///
    /// The scan position of a key is its placement hash, a number that never changes. With
    /// [`hashed_keys`](crate::Builder::hashed_keys) it is the first 8 bytes of the key, in big-endian order.
    ///
    /// - A key that is present during the whole scan is returned exactly once, with a value that it had during that
    ///   call.
    /// - A key that is put or deleted during the scan is returned at most once. It is returned if it is present when
    ///   the page is read that its position belongs to.
    /// - Keys of equal positions are all in one page, even beyond the limit. With a hash of 64 bits there are hardly
    ///   any, but hashed keys may share their first 8 bytes.
    /// - Every number is a valid position. A position of another database is harmless: the scan begins somewhere else.
    ///
    /// A page costs one seek per store, and reads little more than its records. With MICA, writers to a partition wait
    /// while the page reads from it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// let database = siltstone::Database::builder(directory.path().join("db")).open()?;
    /// database.put("a", "1")?;
    /// database.put("b", "2")?;
    /// let (mut keys, mut next) = (Vec::new(), Some(0));
    /// while let Some(position) = next {
    ///     let page = database.scan(position.., 1_000)?;
    ///     keys.extend(page.records.into_iter().map(|record| record.key));
    ///     next = page.next;
    /// }
    /// keys.sort();
    /// assert_eq!(keys, ["a", "b"]);
    ///
    /// // Four jobs. Each scans a quarter of all records.
    /// let jobs = (0..4u64).map(|job| job << 62..=job << 62 | u64::MAX >> 2);
    /// let pages = jobs.map(|positions| database.scan(positions, 1_000)).collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(pages.iter().map(|page| page.records.len()).sum::<usize>(), 2);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`get`](Database::get).
    pub fn scan(&self, positions: impl RangeBounds<u64>, limit: impl Into<ScanLimit>) -> Result<ScanPage> {
        let _measured = self.inner.latencies.as_ref().map(|latencies| latencies.measure(Operation::Scan));
        let first = match positions.start_bound() {
            Bound::Included(first) => Some(*first),
            Bound::Excluded(before) => before.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let last = match positions.end_bound() {
            Bound::Included(last) => Some(*last),
            Bound::Excluded(end) => end.checked_sub(1),
            Bound::Unbounded => Some(u64::MAX),
        };
        let Some((first, last)) = first.zip(last) else {
            // There is no position above an excluded start of 2^64 - 1 or below an excluded end of 0.
            self.engine().check_open()?;
            return Ok(ScanPage::default());
        };
        self.engine().scan(first..=last, limit.into(), self.inner.clock.now_ms())
    }

    /// Returns up to `records` records chosen at random: those from a random scan position on. Their keys and values
    /// are independent of each other, because the position of a key is a hash. With
    /// [`hashed_keys`](crate::Builder::hashed_keys) they are if the keys are uniform. Costs as much as a page of a
    /// [`scan`](Database::scan), or two.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// let database = siltstone::Database::open(directory.path().join("db"))?;
    /// (0..100u8).try_for_each(|number| database.put([number], [number]))?;
    /// let sample = database.sample(10)?;
    /// assert_eq!(sample.len(), 10);
    /// let mean: usize = sample.iter().map(|record| record.value.len()).sum::<usize>() / 10;
    /// assert_eq!(mean, 1);
    /// assert_eq!(database.sample(1_000)?.len(), 100);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`scan`](Database::scan).
    pub fn sample(&self, records: usize) -> Result<Vec<Record>> {
        let start = random_number()?;
        let mut sample = Vec::new();
        // The positions are a circle.
        for positions in
            [(Bound::Included(start), Bound::Unbounded), (Bound::Unbounded, Bound::Excluded(start))]
        {
            let mut next = Some(positions);
            while let Some(positions) = next.filter(|_| sample.len() < records) {
                let page = self.scan(positions, records - sample.len())?;
                sample.extend(page.records);
                next = page.next.map(|next| (Bound::Included(next), positions.1));
            }
        }
        // A page has all records of its last position.
        sample.truncate(records);
        Ok(sample)
    }

    /// Returns false only if the key is certainly absent. Reads nothing from the device.
    ///
    /// With SILT it uses the tags of new records and the filters that are in memory. Any key may be in a last store
    /// without a filter: see [`filter_last_store`](crate::SiltSettings::filter_last_store). It returns true also for
    /// keys that are deleted or expired. With MICA it is exact.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// let database = siltstone::Database::builder(directory.path().join("db")).open()?;
    /// assert!(!database.may_contain("key")?);
    /// database.put("key", "value")?;
    /// assert!(database.may_contain("key")?);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed), or an error for a key that is not allowed.
    pub fn may_contain(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.engine().may_contain(self.inner.key(key.as_ref())?, self.inner.clock.now_ms())
    }
}
