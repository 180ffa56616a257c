//! Bulk loading, and the way from a dictionary to a database and back.
//!
//! With an engine that sorts (SILT, BloomStore):
//!
//! 1. Each put gives the key to the change feed, hidden, and the record to the engine's sort. No record is visible.
//! 2. [`BulkLoader::finish`] writes these keys to the file of the feed, before the engine has any of the records. So
//!    after a kill the feed has the keys of all records that the database has.
//! 3. The engine merges the records into its stores, one partition after the other. Each partition has all or none.
//! 4. The keys become visible when the loader is dropped.
//!
//! With other engines, records are written in buffered batches, and one sync makes them durable.

use super::changes::{Feed, InFlight};
use super::usage::WriteCounts;
use super::{Database, WriteOptions};
use crate::batch::{Batch, Durability, NEVER, TimestampMs};
use crate::dictionary::{Dictionary, DictionaryBuilder};
use crate::engine::BulkLoad;
use crate::error::{Error, Result};
use std::fmt;
use std::path::Path;

/// The default of the memory for sorting, in bytes.
const MEMORY_BYTES: usize = 256 << 20;
/// An engine that appends everything gets its records in batches of this many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// A [`Progress`](crate::Progress) that a loader keeps.
type OwnedProgress<'a> = dyn FnMut(u64, u64) -> bool + 'a;

/// Takes many records at once: [`Database::bulk_loader`].
pub struct BulkLoader<'a> {
    database: &'a Database,
    memory_bytes: usize,
    progress: Box<OwnedProgress<'a>>,
    way: Option<Way<'a>>,
    /// Hides all keys of a sorted load from the change feed.
    hidden: Option<InFlight<'a>>,
    records: u64,
    key_bytes: u64,
    value_bytes: u64,
}

/// How the records get into the engine.
enum Way<'a> {
    /// Sorted, straight into its stores.
    Sorted(Box<dyn BulkLoad + 'a>),
    /// As writes, because the engine appends them to a log anyway.
    Written { batch: Batch, bytes: usize, written_bytes: u64 },
}

impl Database {
    /// Loads all records of an iterator, in any order, and returns their number. They are durable when this returns.
    /// See [`bulk_loader`](Database::bulk_loader) for what it costs and guarantees.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// let database = siltstone::Database::open(directory.path().join("db"))?;
    /// let squares = (0..10_000u64).map(|n| (n.to_be_bytes(), (n * n).to_be_bytes()));
    /// assert_eq!(database.bulk_load(squares)?, 10_000);
    /// assert_eq!(database.get(9u64.to_be_bytes())?.as_deref(), Some(&81u64.to_be_bytes()[..]));
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See the methods of [`BulkLoader`].
    #[doc(alias = "ingest")]
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let mut loader = self.bulk_loader();
        for (key, value) in records {
            loader.put(key, value)?;
        }
        loader.finish()
    }

    /// Begins a bulk load: a faster way than writes for many records, in any order, into a new database or one that has
    /// records. Records of keys that the database has replace them. If a key is loaded twice, the last record applies.
    ///
    /// Engines of partitions (SILT, BloomStore) sort the records and merge them into their last stores. That writes
    /// each record of a new database about once, and once more to temporary files if the records take more than
    /// [`memory_bytes`](BulkLoader::memory_bytes). What the database has is merged too, and so written again: a load of
    /// fewer than a tenth as many records costs less as batches. Other engines get the records in batches, since they
    /// append them to a log anyway.
    ///
    /// Nothing changes before [`finish`](BulkLoader::finish). An error in it or a crash leaves each partition with all
    /// or none of its loaded records; with an engine that gets batches, any of these. To load the same records again is
    /// harmless. Other threads may read and write in the meantime. A write to a key that is being loaded takes effect
    /// before or after the load. While a partition is merged, calls that read and write its keys in one step
    /// (`update`, `insert_if_absent`, `compare_and_swap`, `remove`, `transact`) wait.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// let mut loader = database.bulk_loader().memory_bytes(64 << 20);
    /// loader.put("key", "value")?;
    /// loader.put_until("session:9", "token", 4_102_444_800_000)?;
    /// assert_eq!(loader.finish()?, 2);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn bulk_loader(&self) -> BulkLoader<'_> {
        let progress = Box::new(|_, _| true);
        BulkLoader {
            database: self,
            memory_bytes: MEMORY_BYTES,
            progress,
            way: None,
            hidden: None,
            records: 0,
            key_bytes: 0,
            value_bytes: 0,
        }
    }

    /// Loads all records of a dictionary, and returns their number.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use siltstone::{Database, Dictionary};
    /// let path = directory.path().join("colours.dict");
    /// let colours = Dictionary::builder().build(&path, [("rose", "red"), ("violet", "blue")])?;
    /// let database = Database::open(directory.path().join("db"))?;
    /// assert_eq!(database.bulk_load_dictionary(&colours)?, 2);
    ///
    /// // And back.
    /// database.put("grass", "green")?;
    /// let path = directory.path().join("more.dict");
    /// let more = database.build_dictionary(Dictionary::builder(), &path)?;
    /// assert_eq!(more.get("grass")?.as_deref(), Some(&b"green"[..]));
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`bulk_load`](Database::bulk_load) and [`Dictionary::iter`].
    pub fn bulk_load_dictionary(&self, dictionary: &Dictionary) -> Result<u64> {
        let mut loader = self.bulk_loader();
        for record in dictionary.iter() {
            let record = record?;
            loader.put(&record.key, &record.value)?;
        }
        loader.finish()
    }

    /// Builds a dictionary of all records at this moment. A dictionary has no expiry times: records that expire later
    /// stay in it. Set [`fixed`](DictionaryBuilder::fixed) in the builder for a database of a fixed shape.
    ///
    /// # Errors
    /// See [`iter`](Database::iter) and [`DictionaryBuilder::build`].
    pub fn build_dictionary(&self, builder: DictionaryBuilder, path: impl AsRef<Path>) -> Result<Dictionary> {
        let mut writer = builder.create(path)?;
        for record in self.iter()? {
            let record = record?;
            writer.put(&record.key, &record.value)?;
        }
        writer.finish()
    }
}

impl<'a> BulkLoader<'a> {
    /// Sets the memory for sorting, in bytes, 64 KiB or more, before the first record. It is not part of the memory
    /// budget of the database. Default: 256 MiB.
    pub fn memory_bytes(mut self, memory_bytes: usize) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }

    /// Sets a function that is called now and then with the bytes of keys and values that are loaded and the total, and
    /// returns whether to continue. While records are still being added the total is 0, and the first number counts
    /// bytes in temporary files or batches.
    /// It must not call a function that waits for the load, such as [`update`](Database::update).
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// let database = siltstone::Database::open(directory.path().join("db"))?;
    /// let mut last = (0, 0);
    /// let mut loader = database.bulk_loader().progress(|done, total| {
    ///     last = (done, total);
    ///     true
    /// });
    /// loader.put("key", "value")?;
    /// loader.finish()?;
    /// assert_eq!(last, (8, 8));
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn progress(mut self, progress: impl FnMut(u64, u64) -> bool + 'a) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// Adds a record. When the memory is full, sorts the records and writes them to a temporary file, which takes about
    /// a second.
    ///
    /// # Errors
    /// Those of [`Database::put`] for an invalid record, which is not added. After any other error, such as
    /// [`Error::Interrupted`] or one of the device, the loader should be dropped.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_until(key, value, NEVER)
    }

    /// Like [`put`](BulkLoader::put), with the time at which the record expires, in milliseconds since the Unix epoch;
    /// 0 for never.
    ///
    /// # Errors
    /// See [`put`](BulkLoader::put).
    pub fn put_until(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires_at_ms: TimestampMs,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let inner = &self.database.inner;
        let hashed = inner.key(key)?;
        inner.layout.check_value(value, expires_at_ms != NEVER)?;
        // Not earlier: the memory may be set after the loader was made.
        if self.way.is_none() {
            self.way = Some(self.begin()?);
        }
        match &mut self.way {
            Some(Way::Sorted(load)) => {
                // For each record, so that `close` need not wait for the end of the load.
                let _locked = inner.lock.to_write()?;
                inner.workers.check_space((key.len() + value.len()) as u64)?;
                if let Some(feed) = &inner.feed {
                    // They stay hidden as long as the first one.
                    let hidden = feed.append_of_load(key)?;
                    self.hidden.get_or_insert(hidden);
                }
                if let Some(uniformity) = &inner.uniformity {
                    uniformity.note(hashed.hash());
                }
                load.put(hashed, value, expires_at_ms, &mut *self.progress)?;
            }
            Some(Way::Written { batch, bytes, written_bytes }) => {
                batch.put_until(key, value, expires_at_ms)?;
                *bytes += key.len() + value.len();
                if *bytes >= BATCH_BYTES {
                    *written_bytes += std::mem::take(bytes) as u64;
                    let full = std::mem::take(batch);
                    // One sync at the end covers all batches.
                    let options = WriteOptions::default().durability(Durability::Buffered);
                    self.database.write_with(&full, options)?;
                    if !(self.progress)(*written_bytes, 0) {
                        return Err(Error::Interrupted);
                    }
                }
            }
            // Not reached: `way` was set above.
            None => return Err(Error::Closed),
        }
        self.records += 1;
        self.key_bytes += key.len() as u64;
        self.value_bytes += value.len() as u64;
        Ok(())
    }

    fn begin(&self) -> Result<Way<'a>> {
        // Refuses a closed or read-only database before the first record is sorted.
        let _locked = self.database.inner.lock.to_write()?;
        let written = || Way::Written { batch: Batch::new(), bytes: 0, written_bytes: 0 };
        let load = self.database.engine().bulk_load(self.memory_bytes)?;
        Ok(load.map_or_else(written, Way::Sorted))
    }

    /// Puts all records into the database, and returns their number, in which a key that was loaded twice counts twice.
    /// The records are durable when this returns.
    ///
    /// # Errors
    /// Errors of reading and writing; [`Error::Interrupted`] if `progress` returned false.
    pub fn finish(mut self) -> Result<u64> {
        let database = self.database;
        match self.way.take() {
            Some(Way::Sorted(load)) => {
                let _locked = database.inner.lock.to_write()?;
                // Besides what is in temporary files.
                database.inner.workers.check_space(self.key_bytes + self.value_bytes)?;
                // Before the engine: after a kill the feed must not lack keys of records that the engine has.
                database.inner.feed.as_deref().map_or(Ok(()), Feed::end_load)?;
                let outcome = load.finish(database.inner.clock.now_ms(), &mut *self.progress);
                // Also after an error, which may leave some partitions loaded.
                database.inner.usage.count_writes(&WriteCounts {
                    puts: self.records,
                    key_bytes: self.key_bytes,
                    value_bytes: self.value_bytes,
                    ..WriteCounts::NONE
                });
                // Its keys are visible when the loader is dropped.
                database.inner.end_in_feed(None, outcome)?;
            }
            Some(Way::Written { batch, bytes, written_bytes }) => {
                database.write(&batch)?;
                // This covers the buffered batches as well.
                database.sync()?;
                let all_bytes = written_bytes + bytes as u64;
                if !(self.progress)(all_bytes, all_bytes) {
                    return Err(Error::Interrupted);
                }
            }
            None => database.sync()?,
        }
        Ok(self.records)
    }
}

impl fmt::Debug for BulkLoader<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = to.debug_struct("BulkLoader");
        fields.field("database", &self.database).field("records", &self.records).finish_non_exhaustive()
    }
}
