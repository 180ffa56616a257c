//! The public interface: a [`Database`], opened by its [`Builder`]. This module owns the worker threads and the clock.

mod atomic;
mod builder;
mod bulk;
#[doc(hidden)]
pub mod changes;
mod clock;
mod closed;
mod codec;
#[doc(hidden)]
pub mod compressed;
mod destroy;
mod disk;
mod get_many;
mod latencies;
mod lock;
mod maintenance;
mod ordered;
mod place;
mod remove;
mod repair;
mod resources;
mod scan;
mod snapshot;
mod table;
mod traits;
mod truncate;
mod uniformity;
mod usage;
#[doc(hidden)]
pub mod usage_file;
mod verify;
mod workers;
mod write_options;

pub use builder::Builder;
pub use bulk::BulkLoader;
pub use changes::{ChangePosition, Changes};
pub use codec::Codec;
pub use ordered::{KeyIter, OrderedDatabase};
pub use repair::RepairOptions;
pub use resources::Resources;
pub use snapshot::{Iter, Snapshot};
pub use table::{Table, TableIter};
pub use write_options::WriteOptions;

use crate::batch::{
    BEFORE_ALL_EXPIRY, Batch, Durability, HashedWrite, NEVER, TimestampMs, Write, check_batch,
};
use crate::engine::{Engine, Found};
use crate::key::{Key, KeyHasher, RecordLayout};
use crate::stats::Shape;

use crate::error::{Error, Result};
use crate::names::MANIFEST_NAME;
use bytes::Bytes;
use changes::{Feed, InFlight};
use clock::Clock;
use latencies::{Latencies, Operation};
use lock::DirectoryLock;
use siltstone_device::Directory;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use truncate::{Remover, Reopening};
use uniformity::Uniformity;
use usage::{UsageCounters, WriteCounts};
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
    latencies: Option<Latencies>,
    shape: Shape,
    layout: RecordLayout,
    hasher: KeyHasher,
    lock: Arc<DirectoryLock>,
    /// The directory, as it was named.
    path: PathBuf,
    /// The directory, and those of its disks. Empty if all data is in memory.
    directories: Vec<Directory>,
    reopening: Reopening,
    remover: Remover,
    feed: Option<Arc<Feed>>,
    /// If the keys are hashes.
    uniformity: Option<Uniformity>,
}

impl Database {
    /// Returns a builder for a database in the directory `path`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// let database = siltstone::Database::builder(directory.path().join("db")).memory_budget(64 << 20).open()?;
    /// # Ok::<(), siltstone::Error>(())
    /// ```
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
    #[doc(alias = "create")]
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::builder(path).open()
    }

    /// Opens a database read-only: [`Builder::read_only`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// # database.put("key", "value")?;
    /// # database.close()?;
    /// let reader = siltstone::Database::open_read_only(directory.path().join("db"))?;
    /// assert!(reader.contains("key")?);
    /// assert!(reader.put("key", "other").is_err());
    /// # Ok::<(), siltstone::Error>(())
    /// ```
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
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("key", "value")?;
    /// assert_eq!(database.get("key")?.as_deref(), Some(&b"value"[..]));
    /// assert_eq!(database.get("other")?, None);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        Ok(self.get_found(key)?.map(|found| found.value))
    }

    /// Returns the value of a key with its expiry time.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("key", "value")?;
    /// let found = database.get_found("key")?.unwrap();
    /// assert_eq!((&found.value[..], found.expires_at()), (&b"value"[..], None));
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn get_found(&self, key: impl AsRef<[u8]>) -> Result<Option<Found>> {
        Found::read(|value| self.get_into(key, value))
    }

    /// Appends the value of a key to `value` and returns when it expires, or [`NEVER`](crate::batch::NEVER). Returns
    /// `None` if the key does not exist. `value` is unchanged then, and after an error.
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
        let _measured = self.inner.latencies.as_ref().map(|latencies| latencies.measure(Operation::Get));
        let start = value.len();
        let key = self.inner.key(key.as_ref())?;
        // The clock is read only for a record that expires.
        let expires_at_ms = self.inner.engine.get_into(key, BEFORE_ALL_EXPIRY, value)?;
        let found = expires_at_ms.filter(|expires_at_ms| !self.inner.clock.has_passed(*expires_at_ms));
        if found.is_none() {
            value.truncate(start);
        }
        self.inner.usage.count_gets(1, usize::from(found.is_none()));
        Ok(found)
    }

    /// Returns whether the key exists. Costs as much as a get.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("key", "value")?;
    /// assert!(database.contains("key")? && !database.contains("other")?);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias("contains_key", "exists"))]
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Sets the value of a key.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("key", "value")?;
    /// database.put("key", [1, 2, 3])?;
    /// assert_eq!(database.get("key")?.as_deref(), Some(&[1, 2, 3][..]));
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias("insert", "set", "upsert"))]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.apply(&[self.inner.put(key.as_ref(), value.as_ref(), NEVER)?], None)
    }

    /// Like [`put`](Database::put), with its own durability or expiry time.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// use siltstone::{Durability, WriteOptions};
    ///
    /// let options = WriteOptions::default().durability(Durability::Synced);
    /// database.put_with("order:1", "paid", options)?;
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias("insert_with_ttl", "put_with_ttl", "ttl"))]
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        let put = self.inner.put(key.as_ref(), value.as_ref(), options.expires_at_ms)?;
        self.apply(&[put], options.durability)
    }

    /// Removes a key, if it exists.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("key", "value")?;
    /// database.delete("key")?;
    /// assert!(!database.contains("key")?);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias = "erase")]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// Like [`delete`](Database::delete), with its own durability.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// use siltstone::{Durability, WriteOptions};
    ///
    /// database.delete_with("key", WriteOptions::default().durability(Durability::Synced))?;
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        options.check_without_expiry()?;
        self.apply(&[HashedWrite::delete(self.inner.key(key.as_ref())?)], options.durability)
    }

    /// Applies all writes of a batch or none.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// let mut batch = siltstone::Batch::new();
    /// batch.put("new", "value")?.delete("old")?;
    /// database.write(&batch)?;
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias("apply", "batch", "commit"))]
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.write_with(batch, WriteOptions::default())
    }

    /// Like [`write`](Database::write), with its own durability, and an expiry time for the puts of the batch that have
    /// none.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// use siltstone::{Batch, Durability, WriteOptions};
    ///
    /// let batch: Batch = [("a", "1"), ("b", "2")].into_iter().collect();
    /// database.write_with(&batch, WriteOptions::default().durability(Durability::Buffered))?;
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn write_with(&self, batch: &Batch, options: WriteOptions) -> Result<()> {
        batch.check()?;
        check_batch(batch.writes())?;
        let writes = batch.writes().map(|write| self.inner.hashed(options.expiring(write)));
        // All are checked before the first one is written.
        let writes = writes.collect::<Result<Vec<_>>>()?;
        if writes.is_empty() { Ok(()) } else { self.apply(&writes, options.durability) }
    }

    /// Applies writes with a durability, or with that of the database.
    fn apply(&self, writes: &[HashedWrite<'_>], durability: Option<Durability>) -> Result<()> {
        let inner = &*self.inner;
        let _measured = inner.latencies.as_ref().map(|latencies| latencies.measure(Operation::Write));
        let counts = WriteCounts::of(writes.iter().map(|write| write.write));
        // Before the lock of the directory, which a step takes as well: this thread may have to execute one.
        inner.or_removed(inner.workers.admit(&counts))?;
        let _locked = inner.lock.to_write()?;
        inner.write_locked(writes, &counts, durability)
    }

    /// Waits for running calls, stops background work, makes everything durable and unlocks the directory, even if
    /// there are other handles. Later calls return [`Error::Closed`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// let other_handle = database.clone();
    /// database.close()?;
    /// assert!(matches!(other_handle.get("key"), Err(siltstone::Error::Closed)));
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn close(&self) -> Result<()> {
        match self.inner.close() {
            // Another handle has closed it, and got the errors.
            Err(Error::Closed) => Ok(()),
            outcome => outcome,
        }
    }
}

impl Inner {
    /// Checks and hashes a key.
    fn key<'a>(&self, key: &'a [u8]) -> Result<Key<'a>> {
        self.layout.check_key(key)?;
        if self.shape.hashed_keys {
            self.hasher.check_key(key)?;
        }
        Ok(self.hasher.key(key))
    }

    /// Checks and hashes many keys.
    fn keys<'a, K: AsRef<[u8]>>(&self, keys: &'a [K]) -> Result<Vec<Key<'a>>> {
        // Allocated once: collecting results, of which one may be an error, grows the list step by step.
        let mut hashed = Vec::with_capacity(keys.len());
        for key in keys {
            hashed.push(self.key(key.as_ref())?);
        }
        Ok(hashed)
    }

    /// Checks a put and hashes its key.
    fn put<'a>(&self, key: &'a [u8], value: &'a [u8], expires_at_ms: TimestampMs) -> Result<HashedWrite<'a>> {
        let hashed = self.key(key)?;
        self.layout.check_value(value, expires_at_ms != NEVER)?;
        if let Some(uniformity) = &self.uniformity {
            uniformity.note(hashed.hash());
        }
        Ok(HashedWrite { key: hashed, write: Write::Put { key, value, expires_at_ms } })
    }

    /// Checks what a write of a checked key puts.
    fn check_value(&self, write: &Write<'_>) -> Result<()> {
        match write {
            Write::Put { value, expires_at_ms, .. } => {
                self.layout.check_value(value, *expires_at_ms != NEVER)
            }
            Write::Delete { .. } => Ok(()),
        }
    }

    /// Checks a write and hashes its key.
    fn hashed<'a>(&self, write: Write<'a>) -> Result<HashedWrite<'a>> {
        match write {
            Write::Put { key, value, expires_at_ms } => self.put(key, value, expires_at_ms),
            Write::Delete { key } => Ok(HashedWrite::delete(self.key(key)?)),
        }
    }

    /// Writes while the caller holds the lock of the directory.
    fn write_locked(
        &self,
        writes: &[HashedWrite<'_>],
        counts: &WriteCounts,
        durability: Option<Durability>,
    ) -> Result<()> {
        let durability = durability.unwrap_or(self.durability);
        // In a removed directory the sync would succeed, and the data be lost with the last open file.
        if matches!(durability, Durability::Synced) {
            self.check_present()?;
        }
        // The clock is a function: most engines do not need the time of a write.
        let write = || self.engine.write(writes, durability, &|| self.clock.now_ms());
        match &self.feed {
            None => write()?,
            Some(feed) => {
                let keys = writes.iter().map(|write| write.key.bytes());
                // Before the engine has the write: after a kill the feed has the keys of all writes that the engine
                // has.
                let in_flight = feed.append(keys, durability)?;
                self.end_in_feed(Some(in_flight), write())?;
            }
        }
        // Only now: `retain` takes records that it reads after the count for those that these writes have left.
        self.usage.count_writes(counts);
        Ok(())
    }

    /// Checks that the directories were not removed since they were opened.
    fn check_present(&self) -> Result<()> {
        Ok(self.directories.iter().try_for_each(|directory| directory.check_present(MANIFEST_NAME))?)
    }

    /// Returns the removal of a directory in place of the failure that it has caused: background work that has found
    /// its files missing has failed before the caller.
    fn or_removed(&self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(Error::Poisoned { .. }) => self.check_present().and(outcome),
            _ => outcome,
        }
    }

    /// Ends a write or a sync in the change feed. After a failure the next open may not find what followers have
    /// read, so it begins a new feed.
    fn end_in_feed(&self, in_flight: Option<InFlight<'_>>, outcome: Result<()>) -> Result<()> {
        match (&self.feed, in_flight, &outcome) {
            // An error that is no failure has written nothing. The keys become visible when `in_flight` is dropped,
            // without harm.
            (Some(feed), _, Err(_)) => feed.give_up_if_failed(&*self.engine),
            (_, Some(in_flight), Ok(())) => in_flight.succeed(),
            _ => {}
        }
        outcome
    }

    fn close(&self) -> Result<()> {
        // A forked process has no threads to stop, and must not unlock the directory.
        self.lock.check_process()?;
        // The threads work without the lock of the directory, so they end before it is released.
        self.workers.stop();
        self.remover.stop();
        self.lock.release(|was_open| {
            if was_open {
                let now_ms = self.clock.now_ms();
                // Before the engine is closed, because the keys are counted by reads.
                self.usage.save(now_ms, || self.engine.approximate_len(now_ms));
                event!(info, path = %self.path.display(), "closing");
            }
            // Before `close`: a closed engine does not say any more whether it has failed.
            let failed = matches!(self.engine.check_writable(), Err(Error::Poisoned { .. }));
            let closed = self.engine.close();
            match self.feed.as_deref().filter(|_| was_open) {
                Some(feed) if failed || closed.is_err() => feed.give_up(),
                // After the last write.
                Some(feed) => feed.close()?,
                None => {}
            }
            // Last: if the directory was removed meanwhile, all of this was written in vain, or has failed.
            let is_written = was_open && !self.lock.is_read_only();
            let present = if is_written { self.check_present() } else { Ok(()) };
            present.and(closed)
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        match self.lock.check_process() {
            // Errors are lost here; callers that need them call `close`.
            Ok(()) => drop(self.close()),
            // The threads and everything else belong to the other process.
            Err(_) => {
                self.workers.abandon();
                self.remover.abandon();
            }
        }
    }
}

#[cfg(test)]
mod tests;
