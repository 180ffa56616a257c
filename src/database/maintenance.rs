//! What keeps a database in order, and what it says of itself: durability, background work, copies,
//! statistics.

use super::changes::Feed;
use super::latencies::{Latencies, Operation};
use super::{Database, builder};
use crate::engine::{Capabilities, Step};
use crate::error::{Error, Result};
use crate::stats::Stats;
use std::path::Path;

impl Database {
    /// Returns the approximate number of keys, with a standard error of at most 0.6 %, and less if most keys are in the
    /// last store. The number is exact after a [`compact`](Database::compact) without later writes, with at most 512
    /// records per partition (with FlashKey and FlashStore, at most 8,192 records in all), and in an engine that keeps
    /// all data in memory. [`len`](Database::len) is always exact. Expired keys may be counted until they are merged.
    ///
    /// Reads up to 32,768 records, or 512 of each partition, and at least some blocks of each store, which takes
    /// milliseconds. With FlashKey and FlashStore it reads some 8,192 records one by one, and up to 65,536 if much is
    /// deleted or overwritten. Takes as much memory as an iterator.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.bulk_load((0..1_000u32).map(|n| (n.to_be_bytes(), "value")))?;
    /// assert_eq!(database.approximate_len()?, 1_000);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias("approximate_count", "count"))]
    pub fn approximate_len(&self) -> Result<u64> {
        self.engine().approximate_len(self.inner.clock.now_ms())
    }

    /// Returns the number of keys. Exact, and reads all records, or all keys if the engine keeps their order: see
    /// [`approximate_len`](Database::approximate_len) for a number that costs milliseconds.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.bulk_load((0..1_000u32).map(|n| (n.to_be_bytes(), "value")))?;
    /// assert_eq!(database.len()?, 1_000);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias = "count")]
    pub fn len(&self) -> Result<u64> {
        match self.ordered() {
            Some(ordered) => ordered.range_keys(..)?.try_fold(0, |sum, key| key.map(|_| sum + 1)),
            None => self.count_keys(&mut |_| true),
        }
    }

    /// Returns whether there is no record. Exact. Reads some blocks at most, unless most records are deleted or have
    /// expired.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// assert!(database.is_empty()?);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        self.iter()?.next().transpose().map(|first| first.is_none())
    }

    /// Makes all earlier writes durable: they survive a power failure.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("key", "value")?;
    /// database.sync()?;
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias("flush", "fsync", "persist"))]
    pub fn sync(&self) -> Result<()> {
        let _measured = self.inner.latencies.as_ref().map(|latencies| latencies.measure(Operation::Sync));
        let _locked = self.inner.lock.to_write()?;
        // In a removed directory the sync would succeed, and the data be lost with the last open file.
        self.inner.check_present()?;
        // Before the engine's sync, which covers only the buffered writes that have returned by now.
        let in_flight = self.inner.feed.as_deref().map(Feed::begin_sync);
        self.inner.end_in_feed(in_flight, self.engine().sync())
    }

    /// Executes one bounded piece of background work. For databases without worker threads.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use siltstone::{Database, engine::Step};
    ///
    /// let database = Database::builder(directory.path().join("db")).background_threads(0).open()?;
    /// database.put("key", "value")?;
    /// while database.step()? == Step::Worked {}
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn step(&self) -> Result<Step> {
        // Also in a read-only database, whose steps load indexes and filters.
        let _locked = self.inner.lock.to_work()?;
        let outcome = self.engine().step(self.inner.clock.now_ms());
        // After a failure the next open may not find what followers have read.
        if let (Some(feed), Err(_)) = (&self.inner.feed, &outcome) {
            feed.give_up_if_failed(self.engine());
        }
        outcome
    }

    /// Blocks until there is no background work left.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("key", "value")?;
    /// database.settle()?;
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias = "wait_for_compaction")]
    pub fn settle(&self) -> Result<()> {
        self.inner.lock.check_process()?;
        self.inner.workers.settle()
    }

    /// Merges everything into the last store and returns when that is done.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("key", "old")?;
    /// database.put("key", "new")?;
    /// database.compact()?;
    /// assert_eq!(database.stats().records, 1);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias("compact_range", "major_compact"))]
    pub fn compact(&self) -> Result<()> {
        let locked = self.inner.lock.to_write()?;
        self.engine().request_compaction()?;
        // Without threads, `settle` executes steps, which take this lock.
        drop(locked);
        self.settle()
    }

    /// Writes a consistent copy to the directory `target`, which must be empty or not exist. Immutable files are
    /// hard-linked if the file system supports it. The copy is an independent database. Files that are not of the
    /// database are not copied. `target` must not be within the directory of the database, or of its disk.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("key", "value")?;
    /// database.checkpoint(directory.path().join("copy"))?;
    /// let copy = siltstone::Database::open(directory.path().join("copy"))?;
    /// assert!(copy.contains("key")?);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias("backup", "restore"))]
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<()> {
        let _locked = self.inner.lock.to_write()?;
        // Before the directory is created: a checkpoint that is refused leaves nothing.
        self.check_target(target.as_ref())?;
        let target = builder::create_empty_directory(target.as_ref())?;
        // Before the engine's files, whose manifest completes the copy.
        self.inner.usage.share_companions(&target)?;
        self.engine().checkpoint(&target)
    }

    /// Returns an error if a directory that is to be created is within a directory of the database.
    fn check_target(&self, target: &Path) -> Result<()> {
        for directory in &self.inner.directories {
            if directory.contains(target)? {
                let (target, own) = (target.display(), directory.path());
                let problem = format!(
                    "{target} is within the database in {}; use a directory outside of it",
                    own.display()
                );
                return Err(Error::Setting { name: "checkpoint", problem });
            }
        }
        Ok(())
    }

    /// Returns the contents, counters and costs of the database.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("key", "value")?;
    /// let stats = database.stats();
    /// assert_eq!((stats.writes, stats.user_bytes), (1, 8));
    /// println!("{stats}");
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias("disk_space", "metrics", "property"))]
    pub fn stats(&self) -> Stats {
        let mut stats = self.engine().stats();
        if let Some(uniformity) = &self.inner.uniformity {
            stats.details.push(("keys_clustered", f64::from(u8::from(uniformity.is_clustered()))));
        }
        (stats.delayed_writes, stats.delayed_ns) = self.inner.workers.delayed();
        stats.latencies = self.inner.latencies.as_ref().map_or_else(Vec::new, Latencies::all);
        stats.disk_bytes += self.inner.usage.file_bytes();
        if let Some(feed) = &self.inner.feed {
            stats.disk_bytes += feed.disk_bytes();
            stats.ram.add("change_feed", feed.heap_bytes() as u64);
            stats.settings.push(("change_feed", feed.bytes_max().to_string()));
        }
        stats.usage = self.inner.usage.until(self.inner.clock.now_ms());
        stats
    }

    /// Changes the [memory budget](crate::Builder::memory_budget), in bytes. `None` removes the limit and the record
    /// cache. Excess memory is freed at once, except for buffers in use; indexes and filters that fit again are loaded
    /// by background work.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.set_memory_budget(Some(64 << 20))?;
    /// database.set_memory_budget(None)?;
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) if the budget is too small; the error names the minimum.
    pub fn set_memory_budget(&self, bytes: Option<u64>) -> Result<()> {
        self.inner.lock.check_process()?;
        // Locked for the change too: what is kept is what the engine has.
        let mut kept = self.inner.reopening.memory_budget.lock();
        self.engine().set_memory_budget(bytes)?;
        *kept = bytes;
        drop(kept);
        // Background work loads what fits again.
        self.inner.workers.wake();
        Ok(())
    }

    /// Returns the least [memory budget](crate::Builder::memory_budget) of the database, in bytes: less is an error.
    /// With an engine in memory, which keeps what it has from its opening on, it is that.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.set_memory_budget(Some(database.memory_budget_min()))?;
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn memory_budget_min(&self) -> u64 {
        self.engine().memory_budget_min()
    }

    /// Resets the peak of the memory statistics.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.reset_ram_peak();
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn reset_ram_peak(&self) {
        self.engine().reset_ram_peak();
    }

    /// Returns the engine's optional features.
    #[doc(hidden)]
    pub fn capabilities(&self) -> Capabilities {
        self.engine().capabilities()
    }
}
