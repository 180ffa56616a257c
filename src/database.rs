//! The public interface: a [`Database`], opened by its [`Builder`]. This module owns the worker threads and the clock.

mod atomic;
mod builder;
mod bulk;
mod clock;
#[doc(hidden)]
pub mod compressed;
mod destroy;
mod disk;
mod latencies;
mod lock;
mod ordered;
mod place;
mod repair;
mod resources;
mod scan;
mod snapshot;
mod traits;
mod usage;
#[doc(hidden)]
pub mod usage_file;
mod workers;

pub use builder::Builder;
pub use bulk::BulkLoader;
pub use ordered::{KeyIter, OrderedDatabase};
pub use repair::RepairOptions;
pub use resources::Resources;
pub use snapshot::{Iter, Snapshot};

use crate::batch::{BEFORE_ALL_EXPIRY, Batch, Durability, HashedWrite, TimestampMs, Write};
use crate::damage::VerifyReport;
use crate::engine::{Capabilities, Engine, Found, Step};
use crate::key::{Key, KeyHasher, RecordLayout, check_value};
use crate::progress::Progress;
use crate::stats::{Shape, Stats};

use crate::error::{Error, Result};
use bytes::Bytes;
use clock::Clock;
use latencies::{Latencies, Operation};
use lock::DirectoryLock;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use usage::UsageCounters;
use workers::Workers;

/// A key-value store in a directory of its own.
///
/// Handles are cheap to clone and can be used from any thread. The database is closed when the last handle is dropped.
/// [`close`](Database::close) closes it at once, even if there are other handles, and returns errors.
///
/// The database remains usable if the process changes its working directory or the directory is renamed. Only the
/// process that opened the database may write: in a child made by `fork`, writes, syncs and background work return
/// [`Error::Forked`], and dropping a handle has no effect. Like all memory shared by threads, handles may be used in
/// such a child only if no other thread was using the database at the time of the fork.
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
    latencies: Latencies,
    shape: Shape,
    hasher: KeyHasher,
    lock: Arc<DirectoryLock>,
    /// The directory, as it was named.
    path: PathBuf,
}

/// The options of a write that differ from the database's defaults.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// What the write survives once it returns; the database's default if `None`.
    pub durability: Option<Durability>,
    /// The expiry time of the record, in milliseconds since the Unix epoch; 0 for never.
    pub expires_at_ms: TimestampMs,
}

impl WriteOptions {
    /// Sets the durability.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Sets the expiry time, in milliseconds since the Unix epoch.
    pub fn expires_at_ms(mut self, expires_at_ms: TimestampMs) -> Self {
        self.expires_at_ms = expires_at_ms;
        self
    }

    /// Sets the expiry time to this long after this call. A time that is too far away to be represented is the latest
    /// one.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// use siltstone::WriteOptions;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let options = WriteOptions::default().expires_in(Duration::from_secs(3600));
    /// database.put_with("session:9", "token", options)?;
    /// let found = database.get_found("session:9")?.unwrap();
    /// assert!(found.expires_at().unwrap() > SystemTime::now());
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn expires_in(self, time: Duration) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let then_ms = now.saturating_add(time).as_millis();
        self.expires_at_ms(then_ms.try_into().unwrap_or(TimestampMs::MAX))
    }
}

impl Database {
    /// Returns a builder for a database in the directory `path`.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    /// Opens the database in the directory `path` with the default settings, or those that it keeps. Creates it if it
    /// does not exist.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("db");
    /// let database = siltstone::Database::open(&path)?;
    /// assert_eq!(database.path(), path);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::builder(path).open()
    }

    /// Opens a database read-only: [`Builder::read_only`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Database> {
        Database::builder(path).read_only(true).open()
    }

    fn engine(&self) -> &dyn Engine {
        &*self.inner.engine
    }

    /// Returns the directory, as it was named when the database was opened.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns the value of a key. Takes one flash read, rarely more; none if the record is young enough to be in
    /// memory.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        Ok(self.get_found(key)?.map(|found| found.value))
    }

    /// Returns the value of a key with its expiry time.
    pub fn get_found(&self, key: impl AsRef<[u8]>) -> Result<Option<Found>> {
        Found::read(|value| self.get_into(key, value))
    }

    /// Appends the value of a key to `value` and returns when it expires, or [`NEVER`](crate::batch::NEVER); `None` if
    /// the key does not exist, and `value` is as before then, as
    /// after an error.
    ///
    /// Like [`get`](Database::get), but allocates nothing if `value` has the capacity.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::builder(directory.path().join("db")).open()?;
    /// database.put("key", "value")?;
    /// let mut value = Vec::new();
    /// assert!(database.get_into("key", &mut value)?.is_some());
    /// assert_eq!(value, b"value");
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<Option<TimestampMs>> {
        let _measured = self.inner.latencies.measure(Operation::Get);
        let start = value.len();
        let key = self.inner.key(key.as_ref())?;
        // The clock is read only for a record that expires.
        let expires_at_ms = self.engine().get_into(key, BEFORE_ALL_EXPIRY, value)?;
        let found = expires_at_ms.filter(|expires_at_ms| !self.inner.clock.has_passed(*expires_at_ms));
        if found.is_none() {
            value.truncate(start);
        }
        self.inner.usage.count_gets(1, usize::from(found.is_none()));
        Ok(found)
    }

    /// Returns whether the key exists. Costs as much as a get.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Returns the values of many keys, in their order, with overlapping reads.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        let _measured = self.inner.latencies.measure(Operation::GetMany);
        let keys = self.inner.keys(keys)?;
        let found = self.engine().get_many(&keys, self.inner.clock.now_ms())?;
        self.inner.usage.count_gets(found.len(), found.iter().filter(|found| found.is_none()).count());
        Ok(found.into_iter().map(|found| found.map(|found| found.value)).collect())
    }

    /// Returns for each of many keys whether it exists, in their order.
    pub fn contains_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        Ok(self.get_many(keys)?.into_iter().map(|found| found.is_some()).collect())
    }

    /// Sets the value of a key.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// Like [`put`](Database::put), with its own durability or expiry time.
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

    /// Removes a key, if it exists.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// Like [`delete`](Database::delete), with its own durability.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.apply(&[self.inner.hashed(Write::Delete { key: key.as_ref() })?], options)
    }

    /// Applies all writes of a batch or none.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.write_with(batch, WriteOptions::default())
    }

    /// Like [`write`](Database::write), with its own durability. The expiry times are the batch's.
    pub fn write_with(&self, batch: &Batch, options: WriteOptions) -> Result<()> {
        batch.check()?;
        let writes = batch.writes().map(|write| self.inner.hashed(write)).collect::<Result<Vec<_>>>()?;
        if writes.is_empty() { Ok(()) } else { self.apply(&writes, options) }
    }

    fn apply(&self, writes: &[HashedWrite<'_>], options: WriteOptions) -> Result<()> {
        let _measured = self.inner.latencies.measure(Operation::Write);
        let bytes = writes.iter().map(|write| write.write().user_bytes()).sum();
        self.inner.workers.admit(bytes)?;
        let locked = self.inner.lock.to_write()?;
        let durability = options.durability.unwrap_or(self.inner.durability);
        self.engine().write(writes, durability, &|| self.inner.clock.now_ms())?;
        drop(locked);
        self.inner.usage.count_writes(writes.iter().map(HashedWrite::write));
        Ok(())
    }

    /// Returns the approximate number of keys, with a standard error of at most 0.6 %, and less if most keys are in the
    /// last store. The number is exact if nothing was written since a [`compact`](Database::compact), if each partition
    /// has at most 512 records, and in an engine that keeps all data in memory; `iter()?.count()` is always exact.
    /// Expired keys may be counted until they are merged.
    ///
    /// Reads up to 32,768 records, or 512 of each partition, and at least some blocks of each store, which takes
    /// milliseconds. Takes as much memory as an iterator.
    pub fn approximate_len(&self) -> Result<u64> {
        self.engine().approximate_len(self.inner.clock.now_ms())
    }

    /// Makes all earlier writes durable: they survive a power failure.
    pub fn sync(&self) -> Result<()> {
        let _measured = self.inner.latencies.measure(Operation::Sync);
        let _locked = self.inner.lock.to_write()?;
        self.engine().sync()
    }

    /// Executes one bounded piece of background work. For databases without worker threads.
    pub fn step(&self) -> Result<Step> {
        let _locked = self.inner.lock.to_work()?;
        self.engine().step(self.inner.clock.now_ms())
    }

    /// Returns when there is no background work left.
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

    /// Writes a consistent copy to the directory `target`, which must be empty or not exist. Immutable files are
    /// hard-linked if the file system supports it. The copy is an independent database. Files that are not of the
    /// database are not copied.
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<()> {
        let _locked = self.inner.lock.to_write()?;
        let target = builder::create_empty_directory(target.as_ref())?;
        // Before the engine's files, whose manifest completes the copy.
        self.inner.usage.share_companions(&target)?;
        self.engine().checkpoint(&target)
    }

    /// Reads everything and reports damage. For a database that cannot be opened, use
    /// [`verify_closed`](Database::verify_closed); [`repair`](Database::repair) repairs it.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_with(&mut |_, _| true)
    }

    /// Like [`verify`](Database::verify). `progress` is called with the bytes read and the total, and returns whether
    /// to continue.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if `progress` returns false.
    pub fn verify_with(&self, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        self.engine().verify(progress)
    }

    /// Returns the contents, counters and costs of the database.
    pub fn stats(&self) -> Stats {
        let mut stats = self.engine().stats();
        (stats.delayed_writes, stats.delayed_ns) = self.inner.workers.delayed();
        stats.latencies = self.inner.latencies.all();
        stats.disk_bytes += self.inner.usage.file_bytes();
        stats.usage = self.inner.usage.until(self.inner.clock.now_ms());
        stats
    }

    /// Changes the [memory budget](Builder::memory_budget), in bytes. `None` removes the limit and the record cache.
    /// Excess memory is freed at once, except for buffers in use; indexes and filters that fit again are loaded by
    /// background work.
    ///
    /// # Errors
    /// [`Error::Setting`] if the budget is too small; the error names the minimum.
    pub fn set_memory_budget(&self, bytes: Option<u64>) -> Result<()> {
        self.inner.lock.check_process()?;
        self.engine().set_memory_budget(bytes)?;
        self.inner.workers.wake();
        Ok(())
    }

    /// Resets the peak of the memory statistics.
    pub fn reset_ram_peak(&self) {
        self.engine().reset_ram_peak();
    }

    /// Returns the engine's optional features.
    #[doc(hidden)]
    pub fn capabilities(&self) -> Capabilities {
        self.engine().capabilities()
    }

    /// Waits for running calls, stops background work, makes everything durable and unlocks the directory, even if
    /// there are other handles. Later calls return [`Error::Closed`].
    pub fn close(&self) -> Result<()> {
        match self.inner.close() {
            Err(Error::Closed) => Ok(()),
            outcome => outcome,
        }
    }
}

impl Inner {
    /// Checks and hashes a key.
    fn key<'a>(&self, key: &'a [u8]) -> Result<Key<'a>> {
        self.shape.check_key(key)?;
        Ok(self.hasher.key(key))
    }

    /// Checks and hashes many keys.
    fn keys<'a, K: AsRef<[u8]>>(&self, keys: &'a [K]) -> Result<Vec<Key<'a>>> {
        keys.iter().map(|key| self.key(key.as_ref())).collect()
    }

    /// Checks a write and hashes its key.
    fn hashed<'a>(&self, write: Write<'a>) -> Result<HashedWrite<'a>> {
        self.check(&write)?;
        Ok(HashedWrite::new(write, &self.hasher))
    }

    /// Checks a write against the limits and the record format.
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
                event!(info, path = %self.path.display(), "closing");
            }
            self.engine.close()
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        match self.lock.check_process() {
            // Errors are lost here; callers that need them call `close`.
            Ok(()) => drop(self.close()),
            // The threads and everything else belong to the other process.
            Err(_) => self.workers.abandon(),
        }
    }
}

#[cfg(test)]
mod tests;
