//! Snapshots: all records at one moment.

use super::Database;
use crate::engine::{self, Found, Record, Records};
use crate::error::Result;
use bytes::Bytes;
use std::sync::Arc;

/// All records of a database at one moment. Reads do not see later writes, and records in it do not expire.
///
/// A clone is cheap. A snapshot keeps the database open, like a handle, and keeps what it reads from. With SILT these
/// are the files of stores, a part of the log, and the stores' indexes and filters, in addition to the [memory
/// budget](crate::Builder::memory_budget). With MICA it is a copy of all records.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let database = siltstone::Database::open(directory.path().join("db"))?;
/// database.put("a", "1")?;
/// let snapshot = database.snapshot()?;
/// database.put("a", "2")?;
/// assert_eq!(snapshot.get_many(&["a", "b"])?, [Some("1".into()), None]);
/// assert_eq!(snapshot.get_found("a")?.unwrap().expires_at(), None);
/// assert_eq!(snapshot.iter().count(), 1);
/// # Ok::<(), siltstone::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    pub(super) snapshot: Arc<dyn engine::Snapshot>,
    pub(super) database: Database,
}

impl Database {
    /// Takes a snapshot of all records. With SILT nothing is copied, and writers wait only briefly; with MICA they wait
    /// until all records are copied.
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
    #[doc(alias("begin_read", "read_transaction"))]
    pub fn snapshot(&self) -> Result<Snapshot> {
        // The records are those that have not expired now, whenever they are read.
        let snapshot = self.engine().snapshot(self.inner.clock.now_ms())?;
        Ok(Snapshot { snapshot, database: self.clone() })
    }

    /// Returns an iterator over a [`snapshot`](Database::snapshot) of all records, in the engine's order.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("key", "value")?;
    /// for record in database.iter()? {
    ///     let record = record?;
    ///     assert_eq!((&record.key[..], &record.value[..]), (&b"key"[..], &b"value"[..]));
    /// }
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn iter(&self) -> Result<Iter> {
        Ok(self.snapshot()?.iter())
    }

    /// Returns an iterator over the records whose keys begin with `prefix`, at one moment.
    ///
    /// If the engine keeps the [order of the keys](Database::ordered), this reads only these records, in ascending
    /// order. Else it reads all records of the database.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.write(&[("user:1", "Ada"), ("user:2", "Bob"), ("zone:1", "north")].into_iter().collect())?;
    /// assert_eq!(database.prefix("user:")?.count(), 2);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias("prefix_iterator", "scan_prefix"))]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        let prefix = prefix.as_ref();
        if let Some(ordered) = self.ordered() {
            return ordered.prefix(prefix);
        }
        let prefix = prefix.to_vec();
        let Iter { records, database, .. } = self.iter()?;
        let records = records
            .filter(move |record| record.as_ref().map_or(true, |record| record.key.starts_with(&prefix)));
        Ok(Iter::new(Box::new(records), database))
    }
}

impl Snapshot {
    /// Returns the value of a key. Costs as much as [`Database::get`], and never uses the record cache.
    ///
    /// # Errors
    /// See [`Database::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        Ok(self.get_found(key)?.map(|found| found.value))
    }

    /// Returns the value of a key with its expiry time.
    ///
    /// # Errors
    /// See [`Database::get`].
    pub fn get_found(&self, key: impl AsRef<[u8]>) -> Result<Option<Found>> {
        // After `close` the files may belong to another handle.
        self.database.engine().check_open()?;
        let inner = &self.database.inner;
        let found = self.snapshot.get(inner.key(key.as_ref())?)?;
        inner.usage.count_gets(1, usize::from(found.is_none()));
        Ok(found)
    }

    /// Returns the values of many keys, in their order, with overlapping reads. All are of the same moment, which
    /// [`Database::get_many`] does not guarantee.
    ///
    /// # Errors
    /// See [`Database::get_many`].
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        // After `close` the files may belong to another handle.
        self.database.engine().check_open()?;
        let inner = &self.database.inner;
        let found = self.snapshot.get_many(&inner.keys(keys)?)?;
        inner.usage.count_gets(found.len(), found.iter().filter(|found| found.is_none()).count());
        Ok(found.into_iter().map(|found| found.map(|found| found.value)).collect())
    }

    /// Returns an iterator over all records, in the engine's order.
    pub fn iter(&self) -> Iter {
        // The clone keeps the database open as long as the iterator.
        Iter::new(self.snapshot.records(), self.database.clone())
    }
}

/// An iterator over the records of a database at one moment. After the database was closed it returns
/// [`Error::Closed`](crate::Error::Closed) once, and ends.
pub struct Iter {
    pub(super) records: Records,
    pub(super) database: Database,
    has_ended: bool,
}

impl Iter {
    pub(super) fn new(records: Records, database: Database) -> Iter {
        Iter { records, database, has_ended: false }
    }
}

impl Iterator for Iter {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        next_of(&mut self.records, &self.database, &mut self.has_ended)
    }
}

/// Returns the next item of an iterator over a database. The files that it reads may belong to another handle when the
/// database is closed, so it ends with an error then.
pub(super) fn next_of<T>(
    items: &mut dyn Iterator<Item = Result<T>>,
    database: &Database,
    has_ended: &mut bool,
) -> Option<Result<T>> {
    if *has_ended {
        return None;
    }
    match database.engine().check_open() {
        Ok(()) => items.next(),
        Err(error) => {
            *has_ended = true;
            Some(Err(error))
        }
    }
}
