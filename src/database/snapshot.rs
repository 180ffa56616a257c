//! Snapshots: all records at one moment.

use super::Database;
use crate::Result;
use crate::engine::{self, Found, Record, Records};
use bytes::Bytes;
use std::sync::Arc;

/// All records of a database at one moment: reads from it see no later write, and nothing in it expires.
///
/// Cloning it copies nothing. It keeps the database open, as a handle does, and what it reads from: with SILT the files
/// of its stores stay on disk, their indexes and filters in memory beyond the
/// [memory budget](crate::Builder::memory_budget), and the part of the log that it needs; with MICA it is a copy of all
/// records.
#[derive(Clone)]
pub struct Snapshot {
    snapshot: Arc<dyn engine::Snapshot>,
    database: Database,
}

impl Database {
    /// All records as they are at this moment. With SILT nothing is copied, and writers wait for a moment; with MICA
    /// they wait until all records are copied.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// let database = siltstone::Database::builder(directory.path().join("db")).open()?;
    /// database.put("key", "before")?;
    /// let snapshot = database.snapshot()?;
    /// database.put("key", "after")?;
    /// assert_eq!(snapshot.get("key")?.as_deref(), Some(&b"before"[..]));
    /// assert_eq!(snapshot.iter().count(), 1);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed).
    pub fn snapshot(&self) -> Result<Snapshot> {
        let snapshot = self.engine().snapshot(self.inner.clock.now_ms())?;
        Ok(Snapshot { snapshot, database: self.clone() })
    }

    /// All records as they are at this moment, in the engine's own order: those of a [`snapshot`](Database::snapshot).
    pub fn iter(&self) -> Result<Iter> {
        Ok(self.snapshot()?.iter())
    }
}

impl Snapshot {
    /// The value that a key had. Costs as much as [`Database::get`], and never uses the record cache.
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        Ok(self.get_found(key)?.map(|found| found.value))
    }

    /// The value that a key had, with its expiry time.
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn get_found(&self, key: impl AsRef<[u8]>) -> Result<Option<Found>> {
        self.database.engine().check_open()?;
        let inner = &self.database.inner;
        let found = self.snapshot.get(inner.key(key.as_ref())?)?;
        inner.usage.count_gets(1, usize::from(found.is_none()));
        Ok(found)
    }

    /// The values that many keys had, in their order, with overlapping reads. All are of the same moment, which
    /// [`Database::get_many`] does not promise.
    ///
    /// # Errors
    /// As [`Database::get_many`].
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        self.database.engine().check_open()?;
        let inner = &self.database.inner;
        let found = self.snapshot.get_many(&inner.keys(keys)?)?;
        inner.usage.count_gets(found.len(), found.iter().filter(|found| found.is_none()).count());
        Ok(found.into_iter().map(|found| found.map(|found| found.value)).collect())
    }

    /// All records, in the engine's own order.
    pub fn iter(&self) -> Iter {
        Iter { records: self.snapshot.records(), _database: self.database.clone() }
    }
}

/// The records of a database at one moment.
pub struct Iter {
    pub(super) records: Records,
    pub(super) _database: Database,
}

impl Iterator for Iter {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.records.next()
    }
}
