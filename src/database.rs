//! The face that users see: a [`Database`], made by its [`Builder`]. This room owns the worker threads and the clock.

mod atomic;
mod builder;
mod clock;
mod lock;
mod ordered;
mod place;
mod repair;
mod scan;
mod snapshot;
mod usage;
#[doc(hidden)]
pub mod usage_file;
mod workers;

pub use builder::Builder;
pub use ordered::{KeyIter, OrderedDatabase};
pub use repair::RepairOptions;
pub use snapshot::{Iter, Snapshot};

use crate::batch::{Batch, Durability, HashedWrite, TimestampMs, Write};
use crate::damage::VerifyReport;
use crate::engine::{Capabilities, Engine, Found, Step};
use crate::key::{Key, KeyHasher, check_value};
use crate::progress::Progress;
use crate::stats::{Shape, Stats};
use crate::store::record::RecordLayout;
use crate::{Error, Result};
use bytes::Bytes;
use clock::Clock;
use lock::DirectoryLock;
use std::path::Path;
use std::sync::Arc;
use usage::UsageCounters;
use workers::Workers;

/// A key-value store in a directory of its own.
///
/// Handles are cheap to clone and can be used from any thread. The database is closed when the last one is dropped;
/// [`close`](Database::close) does it at once, whatever other handles there are, and tells whether it went well.
///
/// The directory stays the same one when the process changes its working directory and when the directory is renamed.
/// Only the process that opened the database may write: in a child made by `fork` writes, syncs and background work
/// answer [`Error::Forked`], and dropping a handle there changes nothing. Like all memory that threads share, handles
/// may be used in such a child only if no other thread was using the database at the time of the fork.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("db");
/// let database = siltstone::Database::builder(&path).open()?;
/// database.put("key", "value")?;
/// assert_eq!(database.get("key")?.as_deref(), Some(&b"value"[..]));
/// assert!(!database.insert_if_absent("key", "other")?);
/// database.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    workers: Workers,
    engine: Arc<dyn Engine>,
    durability: Durability,
    clock: Clock,
    usage: Arc<UsageCounters>,
    shape: Shape,
    hasher: KeyHasher,
    lock: Arc<DirectoryLock>,
}

/// How a write is done, where it differs from the database's defaults.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// How long it must have survived when it is acknowledged; the database's default if `None`.
    pub durability: Option<Durability>,
    /// When the record ceases to be, in milliseconds since the Unix epoch; never if 0.
    pub expires_at_ms: TimestampMs,
}

impl WriteOptions {
    /// With a durability of its own.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// With an expiry time, in milliseconds since the Unix epoch.
    pub fn expires_at_ms(mut self, expires_at_ms: TimestampMs) -> Self {
        self.expires_at_ms = expires_at_ms;
        self
    }
}

impl Database {
    /// Sets up a database in the directory `path`.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    /// Opens a database for reading only: [`Builder::read_only`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Database> {
        Database::builder(path).read_only(true).open()
    }

    fn engine(&self) -> &dyn Engine {
        &*self.inner.engine
    }

    /// The value of a key. One flash read, seldom more; none if the record is young enough to stand in memory.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        Ok(self.get_found(key)?.map(|found| found.value))
    }

    /// The value of a key with its expiry time.
    pub fn get_found(&self, key: impl AsRef<[u8]>) -> Result<Option<Found>> {
        let key = self.inner.key(key.as_ref())?;
        let found = self.engine().get(key, self.inner.clock.now_ms())?;
        self.inner.usage.count_gets(1, usize::from(found.is_none()));
        Ok(found)
    }

    /// Whether the key is there. Costs as much as a get.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The values of many keys, in their order, with overlapping reads.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        let keys = self.inner.keys(keys)?;
        let found = self.engine().get_many(&keys, self.inner.clock.now_ms())?;
        self.inner.usage.count_gets(found.len(), found.iter().filter(|found| found.is_none()).count());
        Ok(found.into_iter().map(|found| found.map(|found| found.value)).collect())
    }

    /// Whether each of many keys is there, in their order.
    pub fn contains_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        Ok(self.get_many(keys)?.into_iter().map(|found| found.is_some()).collect())
    }

    /// Gives the key a value, in place of an older one.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// [`put`](Database::put) with a durability or an expiry time of its own.
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let write = Write::Put { key, value, expires_at_ms: options.expires_at_ms };
        self.apply(&[self.inner.hashed(write)?], options)
    }

    /// Removes the key, if it is there.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// [`delete`](Database::delete) with a durability of its own.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.apply(&[self.inner.hashed(Write::Delete { key: key.as_ref() })?], options)
    }

    /// Applies all writes of a batch or none.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.write_with(batch, WriteOptions::default())
    }

    /// [`write`](Database::write) with a durability of its own; the expiry times are the batch's.
    pub fn write_with(&self, batch: &Batch, options: WriteOptions) -> Result<()> {
        let writes = batch.writes().map(|write| self.inner.hashed(write)).collect::<Result<Vec<_>>>()?;
        if writes.is_empty() { Ok(()) } else { self.apply(&writes, options) }
    }

    fn apply(&self, writes: &[HashedWrite<'_>], options: WriteOptions) -> Result<()> {
        let bytes = writes.iter().map(|write| write.write().user_bytes()).sum();
        self.inner.workers.admit(bytes)?;
        let locked = self.inner.lock.to_write()?;
        let durability = options.durability.unwrap_or(self.inner.durability);
        self.engine().write(writes, durability, self.inner.clock.now_ms())?;
        drop(locked);
        self.inner.usage.count_writes(writes.iter().map(HashedWrite::write));
        self.inner.workers.wake();
        Ok(())
    }

    /// How many keys there are, about: with a standard error of at most 0.6 %, and less where most keys are in the last
    /// store. Exact where nothing was written since a [`compact`](Database::compact), where there are at most 512
    /// records in each partition, and in an engine in memory; `iter()?.count()` is always exact. Keys that have expired
    /// may count until they are merged.
    ///
    /// Reads up to 32,768 records, or 512 of each partition, and at least some blocks of each store: milliseconds.
    /// Memory for that is taken as by an iterator.
    pub fn approximate_len(&self) -> Result<u64> {
        self.engine().approximate_len(self.inner.clock.now_ms())
    }

    /// Returns when all writes before it survive a loss of power.
    pub fn sync(&self) -> Result<()> {
        let _locked = self.inner.lock.to_write()?;
        self.engine().sync()
    }

    /// Does one bounded piece of background work. For databases that were opened with no worker thread.
    pub fn step(&self) -> Result<Step> {
        let _locked = self.inner.lock.to_work()?;
        self.engine().step(self.inner.clock.now_ms())
    }

    /// Returns when no background work is left to do.
    pub fn settle(&self) -> Result<()> {
        self.inner.lock.check_process()?;
        self.inner.workers.settle()
    }

    /// Merges everything into the last store and returns when that is done.
    pub fn compact(&self) -> Result<()> {
        let locked = self.inner.lock.to_write()?;
        self.engine().request_compaction()?;
        drop(locked);
        self.settle()
    }

    /// Writes a consistent copy into the directory `target`, which must be empty or not yet there. Files that never
    /// change are shared by hard links where the file system allows it; the copy opens as a database of its own.
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<()> {
        let _locked = self.inner.lock.to_write()?;
        self.engine().checkpoint(&builder::create_empty_directory(target.as_ref())?)
    }

    /// Reads everything and says what is damaged. [`verify_closed`](Database::verify_closed) does so for a database
    /// that cannot be opened, and [`repair`](Database::repair) mends it.
    pub fn verify(&self, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        self.engine().verify(progress)
    }

    /// What the database holds, has done and costs.
    pub fn stats(&self) -> Stats {
        let mut stats = self.engine().stats();
        (stats.delayed_writes, stats.delayed_ns) = self.inner.workers.delayed();
        stats.disk_bytes += self.inner.usage.file_bytes();
        stats.usage = self.inner.usage.until(self.inner.clock.now_ms());
        stats
    }

    /// Changes the [memory budget](Builder::memory_budget), in bytes; `None` lets the database have what it takes, and
    /// no record cache. What is too much is given back at once, but for buffers in use; what there is room for again
    /// is read back by background work.
    ///
    /// # Errors
    /// [`Error::Setting`] for a budget that is too small; it names the least.
    pub fn set_memory_budget(&self, bytes: Option<u64>) -> Result<()> {
        self.inner.lock.check_process()?;
        self.engine().set_memory_budget(bytes)?;
        self.inner.workers.wake();
        Ok(())
    }

    /// Begins a new peak of the RAM account.
    pub fn reset_ram_peak(&self) {
        self.engine().reset_ram_peak();
    }

    /// What the engine can do beyond the common interface.
    pub fn capabilities(&self) -> Capabilities {
        self.engine().capabilities()
    }

    /// Waits for calls that are under way, stops background work, makes everything durable and unlocks the directory,
    /// also if there are other handles. Later calls answer [`Error::Closed`].
    pub fn close(&self) -> Result<()> {
        match self.inner.close() {
            Err(Error::Closed) => Ok(()),
            outcome => outcome,
        }
    }
}

impl Inner {
    /// A key, checked and hashed.
    fn key<'a>(&self, key: &'a [u8]) -> Result<Key<'a>> {
        self.shape.check_key(key)?;
        Ok(self.hasher.key(key))
    }

    /// Many keys, checked and hashed.
    fn keys<'a, K: AsRef<[u8]>>(&self, keys: &'a [K]) -> Result<Vec<Key<'a>>> {
        keys.iter().map(|key| self.key(key.as_ref())).collect()
    }

    /// A write, checked, with its key hashed.
    fn hashed<'a>(&self, write: Write<'a>) -> Result<HashedWrite<'a>> {
        self.check(&write)?;
        Ok(HashedWrite::new(write, &self.hasher))
    }

    /// Checks a write against the limits and the shape of the records.
    fn check(&self, write: &Write<'_>) -> Result<()> {
        self.shape.check_key(write.key())?;
        if let Write::Put { value, .. } = write {
            check_value(value)?;
        }
        RecordLayout { fixed: self.shape.fixed, expiring: self.shape.expiring }.check(write)
    }

    fn close(&self) -> Result<()> {
        self.lock.check_process()?;
        self.workers.stop();
        self.lock.release(|was_open| {
            if was_open {
                let now_ms = self.clock.now_ms();
                self.usage.save(now_ms, || self.engine.approximate_len(now_ms));
            }
            self.engine.close()
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        match self.lock.check_process() {
            // Nobody is left to be told; `close` is there for those who want to know.
            Ok(()) => drop(self.close()),
            // The threads are the other process's, and so is everything else.
            Err(_) => self.workers.abandon(),
        }
    }
}

#[cfg(test)]
mod tests;
