//! Removal of many records: by a prefix, by a function, or all.
//!
//! Records are read in pages and deleted in batches. By a prefix, keys are deleted whatever their records are by then.
//! By a function:
//!
//! 1. Note the number of writes, read a page, and select its records by the function.
//! 2. Take the lock of the directory alone. If no write runs, and the number of writes is the same, delete the records
//!    without reading them again.
//! 3. Otherwise read them again in a transaction. Delete those that are as they were read, or that the function selects
//!    again as they are now.

use super::usage::WriteCounts;
use super::{Database, WriteOptions};
use crate::batch::HashedWrite;
use crate::engine::{Change, Record, ScanLimit};
use crate::error::{Error, Result};
use crate::progress::Progress;

/// The records that are read, and whose keys are deleted, at a time.
const BATCH: ScanLimit = ScanLimit { records: 1_024, bytes: 1 << 20, keys_only: false };

impl Database {
    /// Deletes all keys that begin with `prefix`, and returns how many there were.
    ///
    /// If the engine keeps the [order of the keys](Database::ordered), this reads these keys and no records. Else it
    /// reads all records of the database once. Every key costs a [`delete`](Database::delete): the space returns with
    /// background work, or by [`compact`](Database::compact).
    ///
    /// Keys are deleted in batches of up to 1,024. Each batch is atomic and as durable as the database's default, and
    /// other threads read and write between two batches. A key that is put during the call may remain, and one that
    /// other threads delete at the same time may be counted.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.write(&[("user:1", "Ada"), ("user:2", "Bob"), ("zone:1", "north")].into_iter().collect())?;
    /// assert_eq!(database.delete_prefix("user:")?, 2);
    /// assert_eq!(database.iter()?.count(), 1);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Setting`] for an empty prefix, which a program may give by mistake: [`clear`](Database::clear) deletes
    /// all keys. Those of [`iter`](Database::iter) and of [`delete`](Database::delete); earlier batches remain deleted.
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<u64> {
        self.delete_prefix_with(prefix, WriteOptions::default(), &mut |_, _| true)
    }

    /// Like [`delete_prefix`](Database::delete_prefix), with its own durability. Calls `progress` after each batch with
    /// the keys that were deleted and the records or keys that were read so far. If it returns false, nothing more is
    /// deleted.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// use siltstone::{Durability, WriteOptions};
    ///
    /// (0..5_000u32).try_for_each(|number| database.put(number.to_be_bytes(), "value"))?;
    /// let synced = WriteOptions::default().durability(Durability::Synced);
    /// let mut deleted = 0;
    /// let stopped = database.delete_prefix_with([0], synced, &mut |deleted_now, _read| {
    ///     deleted = deleted_now;
    ///     deleted < 2_000
    /// });
    /// assert!(matches!(stopped, Err(siltstone::Error::Interrupted)));
    /// assert_eq!(database.iter()?.count(), 5_000 - deleted as usize);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Interrupted`] if `progress` returned false, and those of [`delete_prefix`](Database::delete_prefix).
    pub fn delete_prefix_with(
        &self,
        prefix: impl AsRef<[u8]>,
        options: WriteOptions,
        progress: &mut Progress<'_>,
    ) -> Result<u64> {
        let prefix = prefix.as_ref();
        if prefix.is_empty() {
            let problem = "an empty prefix is that of all keys; use `clear` to delete all".into();
            return Err(Error::Setting { name: "prefix", problem });
        }
        self.delete_beginning_with(prefix, options, progress)
    }

    /// Deletes the keys that begin with `prefix`, all if it is empty.
    pub(super) fn delete_beginning_with(
        &self,
        prefix: &[u8],
        options: WriteOptions,
        progress: &mut Progress<'_>,
    ) -> Result<u64> {
        options.check_without_expiry()?;
        if self.ordered().is_none() {
            return self.remove_by_page(progress, &mut |records, _| {
                let keys = records.iter().map(|record| &record.key[..]);
                self.delete_all(keys.filter(|key| key.starts_with(prefix)), options)
            });
        }
        // Refuses a closed or read-only database before anything is read.
        drop(self.inner.lock.to_write()?);
        let (mut deleted, mut last) = (0, None);
        // Nothing is held between two batches: what is deleted gives its space back meanwhile.
        while let Some(ordered) = self.ordered() {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            for key in ordered.limit(BATCH.records).prefix_keys_after(prefix, last.as_deref())? {
                let key = key?;
                bytes += key.len();
                batch.push(key);
                if bytes >= BATCH.bytes {
                    break;
                }
            }
            let Some(key) = batch.last() else { break };
            last = Some(key.to_vec());
            deleted += self.delete_all(batch.iter().map(|key| &key[..]), options)?;
            if !progress(deleted, deleted) {
                return Err(Error::Interrupted);
            }
        }
        Ok(deleted)
    }

    /// Deletes all keys, and returns how many there were. Costs and guarantees what
    /// [`delete_prefix`](Database::delete_prefix) does with a prefix that all keys have.
    /// [`truncate`](Database::truncate) costs much less, and closes all other handles.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.write(&[("a", "1"), ("b", "2")].into_iter().collect())?;
    /// assert_eq!(database.clear()?, 2);
    /// assert!(database.is_empty()?);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`delete_prefix`](Database::delete_prefix).
    pub fn clear(&self) -> Result<u64> {
        self.clear_with(WriteOptions::default(), &mut |_, _| true)
    }

    /// Like [`clear`](Database::clear), with its own durability. Calls `progress` as
    /// [`delete_prefix_with`](Database::delete_prefix_with) does.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("key", "value")?;
    /// let synced = siltstone::WriteOptions::default().durability(siltstone::Durability::Synced);
    /// assert_eq!(database.clear_with(synced, &mut |_deleted, _read| true)?, 1);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`delete_prefix_with`](Database::delete_prefix_with).
    pub fn clear_with(&self, options: WriteOptions, progress: &mut Progress<'_>) -> Result<u64> {
        self.delete_beginning_with(&[], options, progress)
    }

    /// Removes all records for which `keep` returns false, and returns their number. Reads all records once, in the
    /// order of their [scan positions](Database::scan).
    ///
    /// A record that another thread replaces meanwhile is removed only if `keep` returned false for the new one as
    /// well, so `keep` may see a key twice. Because of that, records that are removed are read a second time if other
    /// threads or background work write at the same moment. `keep` must not use the database, or it may deadlock.
    /// Batches and durability are those of [`delete_prefix`](Database::delete_prefix).
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// (0..100u8).try_for_each(|number| database.put([number], [number % 3]))?;
    /// assert_eq!(database.retain(|record| record.value[0] != 0)?, 34);
    /// assert_eq!(database.iter()?.count(), 66);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`delete_prefix`](Database::delete_prefix).
    pub fn retain(&self, keep: impl FnMut(&Record) -> bool) -> Result<u64> {
        self.retain_with(WriteOptions::default(), &mut |_, _| true, keep)
    }

    /// Like [`retain`](Database::retain), with its own durability. Calls `progress` after each batch with the records
    /// that were removed and that were read so far. If it returns false, nothing more is removed.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// use siltstone::{Durability, WriteOptions};
    ///
    /// database.put("key", "value")?;
    /// let synced = WriteOptions::default().durability(Durability::Synced);
    /// let mut report = |removed, read| {
    ///     println!("removed {removed} of {read}");
    ///     true
    /// };
    /// assert_eq!(database.retain_with(synced, &mut report, |record| record.value.len() < 4)?, 1);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Interrupted`] if `progress` returned false, and those of [`retain`](Database::retain).
    pub fn retain_with(
        &self,
        options: WriteOptions,
        progress: &mut Progress<'_>,
        mut keep: impl FnMut(&Record) -> bool,
    ) -> Result<u64> {
        options.check_without_expiry()?;
        self.remove_by_page(progress, &mut |records, writes_before| {
            let selected: Vec<&Record> = records.iter().filter(|record| !keep(record)).collect();
            let deletes = self.deletes(selected.iter().map(|record| &record.key[..]))?;
            if deletes.is_empty() {
                return Ok(0);
            }
            // Before the lock is taken alone: no other write should wait for this delay.
            let counts = WriteCounts::of(deletes.iter().map(|delete| delete.write));
            self.inner.or_removed(self.inner.workers.admit(&counts))?;
            // With the lock alone no write runs, and if none was counted since, the records are as they were read.
            if let Some(alone) = self.inner.lock.to_write_alone()?
                && self.inner.usage.writes() == writes_before
            {
                self.inner.write_locked(&deletes, &counts, options.durability)?;
                drop(alone);
                return Ok(deletes.len() as u64);
            }
            self.remove_if(&selected, options, &mut keep)
        })
    }

    /// Returns the deletes of these keys.
    fn deletes<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> Result<Vec<HashedWrite<'a>>> {
        keys.map(|key| Ok(HashedWrite::delete(self.inner.key(key)?))).collect()
    }

    /// Deletes these keys, all or none, and returns their number.
    fn delete_all<'a>(&self, keys: impl Iterator<Item = &'a [u8]>, options: WriteOptions) -> Result<u64> {
        let deletes = self.deletes(keys)?;
        if !deletes.is_empty() {
            self.apply(&deletes, options.durability)?;
        }
        Ok(deletes.len() as u64)
    }

    /// Calls `remove` with each page of records, and with the number of writes before the page was read. Sums up what
    /// it returns.
    fn remove_by_page(
        &self,
        progress: &mut Progress<'_>,
        remove: &mut dyn FnMut(&[Record], u64) -> Result<u64>,
    ) -> Result<u64> {
        // Refuses a closed or read-only database before anything is read.
        drop(self.inner.lock.to_write()?);
        let (mut removed, mut read, mut next) = (0, 0, Some(0));
        while let Some(position) = next {
            // Before the page is read: a write that is counted after this may not be in the page.
            let writes = self.inner.usage.writes();
            let page = self.scan(position.., BATCH)?;
            removed += remove(&page.records, writes)?;
            read += page.records.len() as u64;
            next = page.next;
            if !progress(removed, read) {
                return Err(Error::Interrupted);
            }
        }
        Ok(removed)
    }

    /// Removes those of these records that are as they were read, or that `keep` does not keep as they are now. Returns
    /// their number.
    fn remove_if(
        &self,
        records: &[&Record],
        options: WriteOptions,
        keep: &mut dyn FnMut(&Record) -> bool,
    ) -> Result<u64> {
        let keys: Vec<&[u8]> = records.iter().map(|record| &record.key[..]).collect();
        let mut removed = 0;
        self.transact_with(&keys, options, |found, changes| {
            for ((record, found), change) in records.iter().zip(found).zip(changes) {
                // Deleted or expired since it was read.
                let Some(found) = found else { continue };
                let now = Record {
                    key: record.key.clone(),
                    value: found.value.clone(),
                    expires_at_ms: found.expires_at_ms,
                };
                // Equal with its expiry time: with another one it is another record, which `keep` has not seen.
                if now == **record || !keep(&now) {
                    *change = Change::Delete;
                    removed += 1;
                }
            }
            Ok(())
        })?;
        Ok(removed)
    }
}
