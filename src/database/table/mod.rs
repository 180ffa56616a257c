//! Typed tables in one database.
//!
//! A key of a table is its name, a byte 0, and the bytes of the key. No name contains a byte 0, so no table has the
//! keys of another.
//!
//! ```text
//!   users\0  00 00 00 00 00 00 00 07   the key 7 of Table<u64, _> "users"
//! ```

use super::codec::Codec;
use super::ordered::prefix_end;
use super::{Database, Iter, WriteOptions};
use crate::batch::{Batch, NEVER};
use crate::engine::{Change, Record};
use crate::error::{Error, Result};
use std::any::type_name;
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// The longest name of a table, in bytes.
const NAME_LENGTH_MAX: usize = 255;

/// A table of a database, with keys of the type `K` and values of the type `V`: [`Database::table`].
///
/// All tables of a database share its files, its memory and its threads; a [`Batch`] can change several at once. A
/// table needs its name and one byte more per key, nothing in memory. The types are not recorded: a record that is
/// not of the table's types is an [`Error::TableType`] when it is read.
///
/// Handles are cheap to clone and can be used from any thread.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use siltstone::{Batch, Database, Table};
///
/// let database = Database::open(directory.path().join("db"))?;
/// let names: Table<u64, str> = database.table("names")?;
/// let visits: Table<u64, u32> = database.table("visits")?;
/// let mut batch = Batch::new();
/// names.put_in(&mut batch, &7, "Ada")?;
/// visits.put_in(&mut batch, &7, &1)?;
/// database.write(&batch)?;
/// visits.update(&7, |visits| Ok(Some(visits.unwrap_or(0) + 1)))?;
/// assert_eq!(names.get(&7)?.as_deref(), Some("Ada"));
/// assert_eq!(visits.get(&7)?, Some(2));
/// assert_eq!(names.get_many(&[8, 7])?, [None, Some("Ada".to_owned())]);
/// # Ok::<(), siltstone::Error>(())
/// ```
pub struct Table<K: ?Sized, V: ?Sized> {
    pub(super) database: Database,
    /// The name and a byte 0.
    prefix: Arc<[u8]>,
    types: PhantomData<fn(&K, &V)>,
}

impl Database {
    /// Returns a table by its name: 1 to 255 bytes, none of them 0. A table needs no creation: it has the records that
    /// were put into it. Keys that are put without a table must not begin with the name of one and a byte 0.
    ///
    /// # Errors
    /// [`Error::Setting`] if the name has another length or a byte 0, or if the keys of the database are hashes.
    #[doc(alias("column_family", "keyspace", "partition", "tree"))]
    pub fn table<K, V>(&self, name: &str) -> Result<Table<K, V>>
    where
        K: Codec + ?Sized,
        V: Codec + ?Sized,
    {
        let problem = if self.inner.shape.hashed_keys {
            "the keys of this database are hashes, which cannot begin with the name of a table; create a database without `hashed_keys`".to_owned()
        } else if name.contains('\0') {
            format!("the name {name:?} contains a byte 0; use another name")
        } else if !(1..=NAME_LENGTH_MAX).contains(&name.len()) {
            let length = name.len();
            format!("a name has {length} bytes, but must have 1 to {NAME_LENGTH_MAX}; use another name")
        } else {
            let prefix = [name.as_bytes(), &[0]].concat().into();
            return Ok(Table { database: self.clone(), prefix, types: PhantomData });
        };
        Err(Error::Setting { name: "table", problem })
    }
}

impl<K: ?Sized, V: ?Sized> Table<K, V> {
    /// Returns the name.
    pub fn name(&self) -> &str {
        self.prefix.split_last().and_then(|(_, name)| std::str::from_utf8(name).ok()).unwrap_or_default()
    }
}

impl<K: Codec + ?Sized, V: Codec + ?Sized> Table<K, V> {
    /// Returns the value of a key. Costs as much as [`Database::get`].
    ///
    /// # Errors
    /// [`Error::TableType`] if the value is not of the type `V`, and those of [`Database::get`].
    pub fn get(&self, key: &K) -> Result<Option<V::Owned>> {
        let key = self.key(key);
        let value = self.database.get(&key)?;
        value.map(|value| self.value(&key, &value)).transpose()
    }

    /// Returns the values of many keys, in their order, with overlapping reads.
    ///
    /// # Errors
    /// See [`get`](Table::get).
    pub fn get_many<Q: Borrow<K>>(&self, keys: &[Q]) -> Result<Vec<Option<V::Owned>>> {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| self.key(key.borrow())).collect();
        let values = self.database.get_many(&keys)?;
        let values = keys.iter().zip(values);
        values.map(|(key, value)| value.map(|value| self.value(key, &value)).transpose()).collect()
    }

    /// Returns whether the key exists. Costs as much as a get.
    ///
    /// # Errors
    /// See [`Database::get`].
    pub fn contains(&self, key: &K) -> Result<bool> {
        self.database.contains(self.key(key))
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// See [`Database::put`]. The name and its byte count as a part of the key.
    pub fn put(&self, key: &K, value: &V) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// Like [`put`](Table::put), with its own durability or expiry time.
    ///
    /// # Errors
    /// See [`put`](Table::put).
    pub fn put_with(&self, key: &K, value: &V, options: WriteOptions) -> Result<()> {
        self.database.put_with(self.key(key), encoded(value), options)
    }

    /// Appends a put to a batch, which [`Database::write`] applies.
    ///
    /// # Errors
    /// See [`Batch::put`].
    pub fn put_in(&self, batch: &mut Batch, key: &K, value: &V) -> Result<()> {
        batch.put(self.key(key), encoded(value)).map(drop)
    }

    /// Removes a key, if it exists.
    ///
    /// # Errors
    /// See [`Database::delete`].
    pub fn delete(&self, key: &K) -> Result<()> {
        self.database.delete(self.key(key))
    }

    /// Appends a delete to a batch, which [`Database::write`] applies.
    ///
    /// # Errors
    /// See [`Batch::delete`].
    pub fn delete_in(&self, batch: &mut Batch, key: &K) -> Result<()> {
        batch.delete(self.key(key)).map(drop)
    }

    /// Puts the record if the key is absent, and returns whether it did. Atomic.
    ///
    /// # Errors
    /// See [`Database::insert_if_absent`].
    pub fn insert_if_absent(&self, key: &K, value: &V) -> Result<bool> {
        self.database.insert_if_absent(self.key(key), encoded(value))
    }

    /// Changes the value of a key to what `change` returns for it: `None` is an absent key. Atomic. The expiry time of
    /// a record remains. If `change` returns an error, the record remains. `change` must not use the database, or it
    /// deadlocks.
    ///
    /// # Errors
    /// The error of `change`, [`Error::TableType`] if the value is not of the type `V`, and those of
    /// [`Database::update`].
    pub fn update(
        &self,
        key: &K,
        mut change: impl FnMut(Option<V::Owned>) -> Result<Option<V::Owned>>,
    ) -> Result<()> {
        let key = self.key(key);
        self.database.update(&key, |found| {
            // A value of another type ends the update, and the record stays.
            let value = found.map(|found| self.value(&key, &found.value)).transpose()?;
            let expires_at_ms = found.map_or(NEVER, |found| found.expires_at_ms);
            Ok(match change(value)? {
                Some(value) => Change::Put { value: encoded(value.borrow()).into(), expires_at_ms },
                None if found.is_some() => Change::Delete,
                None => Change::Keep,
            })
        })
    }

    /// Removes a key and returns its value. Atomic.
    ///
    /// # Errors
    /// See [`get`](Table::get); if the value is not of the type `V`, it is removed nevertheless.
    pub fn remove(&self, key: &K) -> Result<Option<V::Owned>> {
        let key = self.key(key);
        let value = self.database.remove(&key)?;
        value.map(|value| self.value(&key, &value)).transpose()
    }

    /// Returns an iterator over the table's records at one moment, in key order if the engine keeps it, otherwise in
    /// the engine's order. Without key order it reads the whole database.
    ///
    /// # Errors
    /// See [`Database::iter`].
    pub fn iter(&self) -> Result<TableIter<K, V>> {
        let records = match self.database.ordered() {
            Some(ordered) => ordered.prefix(&self.prefix)?,
            None => self.database.prefix(&*self.prefix)?,
        };
        Ok(TableIter { records, table: self.clone() })
    }

    /// Returns an iterator over the records with keys in a range, in the order of their bytes, at one moment.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use siltstone::{Database, FlashKeySettings, Table};
    ///
    /// let settings = FlashKeySettings::default().ordered(true);
    /// let database = Database::builder(directory.path().join("db")).engine(settings).open()?;
    /// let heights: Table<i64, str> = database.table("heights")?;
    /// for (height, place) in [(-430, "Dead Sea"), (8_849, "Everest"), (4_808, "Mont Blanc")] {
    ///     heights.put(&height, place)?;
    /// }
    /// let high: Vec<(i64, String)> = heights.range(&0..)?.collect::<siltstone::Result<_>>()?;
    /// assert_eq!(high, [(4_808, "Mont Blanc".to_owned()), (8_849, "Everest".to_owned())]);
    /// assert_eq!(heights.range_descending(..)?.next().transpose()?, Some((8_849, "Everest".to_owned())));
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the database does not keep the keys in order, and those of [`Database::iter`].
    pub fn range<'k>(&self, keys: impl RangeBounds<&'k K>) -> Result<TableIter<K, V>>
    where
        K: 'k,
    {
        self.range_within(&keys, false)
    }

    /// Like [`range`](Table::range), from the highest key to the lowest.
    ///
    /// # Errors
    /// See [`range`](Table::range).
    pub fn range_descending<'k>(&self, keys: impl RangeBounds<&'k K>) -> Result<TableIter<K, V>>
    where
        K: 'k,
    {
        self.range_within(&keys, true)
    }

    fn range_within<'k>(&self, keys: &impl RangeBounds<&'k K>, descending: bool) -> Result<TableIter<K, V>>
    where
        K: 'k,
    {
        let Some(ordered) = self.database.ordered() else {
            let engine = self.database.engine().name();
            return Err(Error::Unsupported { engine, operation: "ranges of keys without the order of keys" });
        };
        let ordered = if descending { ordered.descending() } else { ordered };
        // Bounds of the table: beyond them are the keys of others.
        let first = match keys.start_bound().map(|key| self.key(key)) {
            Bound::Unbounded => Bound::Included(self.prefix.to_vec()),
            bound => bound,
        };
        let last = match keys.end_bound().map(|key| self.key(key)) {
            // There is an end: the prefix ends with a byte 0.
            Bound::Unbounded => prefix_end(&self.prefix).map_or(Bound::Unbounded, Bound::Excluded),
            bound => bound,
        };
        let bounds = (first.as_ref().map(Vec::as_slice), last.as_ref().map(Vec::as_slice));
        Ok(TableIter { records: ordered.range(bounds)?, table: self.clone() })
    }

    /// Deletes all records of the table, and returns how many keys were deleted. Costs as much as
    /// [`Database::delete_prefix`].
    ///
    /// # Errors
    /// See [`Database::delete_prefix`].
    pub fn clear(&self) -> Result<u64> {
        self.database.delete_beginning_with(&self.prefix, WriteOptions::default(), &mut |_, _| true)
    }

    /// Returns the key of the database for a key of the table.
    fn key(&self, key: &K) -> Vec<u8> {
        let mut bytes = self.prefix.to_vec();
        key.encode(&mut bytes);
        bytes
    }

    fn value(&self, key: &[u8], value: &[u8]) -> Result<V::Owned> {
        V::decode(value).ok_or_else(|| self.type_error(key, "value", type_name::<V>()))
    }

    fn record(&self, record: &Record) -> Result<(K::Owned, V::Owned)> {
        let key = record.key.get(self.prefix.len()..).and_then(K::decode);
        let key = key.ok_or_else(|| self.type_error(&record.key, "key", type_name::<K>()))?;
        Ok((key, self.value(&record.key, &record.value)?))
    }

    fn type_error(&self, key: &[u8], part: &'static str, expected: &'static str) -> Error {
        let key = key.get(self.prefix.len()..).unwrap_or_default();
        // A key may have 64 KiB. Its beginning is enough in an error.
        let key = key[..key.len().min(64)].escape_ascii().to_string();
        Error::TableType { table: self.name().to_owned(), key, part, expected }
    }
}

impl<K: ?Sized, V: ?Sized> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Table { database: self.database.clone(), prefix: self.prefix.clone(), types: PhantomData }
    }
}

fn encoded<T: Codec + ?Sized>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    bytes
}

/// An iterator over the records of a table at one moment.
pub struct TableIter<K: ?Sized, V: ?Sized> {
    records: Iter,
    pub(super) table: Table<K, V>,
}

impl<K: Codec + ?Sized, V: Codec + ?Sized> Iterator for TableIter<K, V> {
    type Item = Result<(K::Owned, V::Owned)>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.records.next()?;
        Some(record.and_then(|record| self.table.record(&record)))
    }
}

#[cfg(test)]
mod tests;
