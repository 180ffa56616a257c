//! Reads of many keys in one call.

use super::Database;
use super::latencies::Operation;
use crate::engine::{Found, FoundRef, InMemory, Shown};
use crate::error::Result;
use bytes::Bytes;

impl Database {
    /// Returns the values of many keys, in their order, with overlapping reads.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("a", "1")?;
    /// database.put("b", "2")?;
    /// let values = database.get_many(&["b", "c", "a"])?;
    /// assert_eq!(values, [Some("2".into()), None, Some("1".into())]);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias = "multi_get")]
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        let mut values = vec![None; keys.len()];
        self.show_many(keys, |number, shown| values[number] = shown.map(|shown| shown.into_found().value))?;
        Ok(values)
    }

    /// Returns the values of many keys with their expiry times, in their order, with overlapping reads.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("a", "1")?;
    /// let found = database.get_many_found(&["a", "b"])?;
    /// assert_eq!(found[0].as_ref().unwrap().expires_at(), None);
    /// assert_eq!(found[1], None);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn get_many_found<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Found>>> {
        let mut all = vec![None; keys.len()];
        self.show_many(keys, |number, shown| all[number] = shown.map(Shown::into_found))?;
        Ok(all)
    }

    /// Looks up many keys, with overlapping reads, and passes the number of each key with what was found to `show`;
    /// `None` if the key does not exist. Each number is passed once, in any order. After an error, some may have been
    /// passed.
    ///
    /// Like [`get_many`](Database::get_many), but returns no values to be allocated: with the engine `mica` the call
    /// allocates memory for the hashes of the keys, and none per value. `show` may use the database.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("a", "1")?;
    /// database.put("b", "23")?;
    /// let mut lengths = [0; 3];
    /// database.get_many_with(&["b", "c", "a"], |number, found| {
    ///     lengths[number] = found.map_or(0, |found| found.value.len());
    /// })?;
    /// assert_eq!(lengths, [2, 0, 1]);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Database::get) of any of the keys. If a key is invalid, nothing is looked up.
    pub fn get_many_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut show: impl FnMut(usize, Option<FoundRef<'_>>),
    ) -> Result<()> {
        self.show_many(keys, |number, shown| {
            let found = shown.as_ref();
            show(
                number,
                found.map(|shown| FoundRef { value: &shown.value, expires_at_ms: shown.expires_at_ms }),
            );
        })
    }

    /// The first of two steps of a lookup that must not wait for flash: looks many keys up in memory. Passes the number
    /// of each key that is known there, with what was found, to `show`, and returns the numbers of the others, which
    /// [`get_many_with`](Database::get_many_with) looks up, in another thread for example. `show` may use the database.
    ///
    /// Known are the records of the record cache, those that SILT and BloomStore have in LogStores (some megabytes of
    /// the newest ones, which are read from the page cache), all of MICA, and keys that filters or an index in memory
    /// exclude. What is known at the first step may have changed at the second.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("new", "1")?;
    /// let keys = ["new", "old"];
    /// let mut found = [0; 2];
    /// let rest = database.get_many_in_memory(&keys, |number, value| found[number] = value.map_or(0, |_| 1))?;
    /// let others: Vec<&str> = rest.iter().map(|number| keys[*number]).collect();
    /// database.get_many_with(&others, |at, value| found[rest[at]] = value.map_or(0, |_| 1))?;
    /// assert_eq!(found, [1, 0]);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Database::get) of any of the keys. If a key is invalid, nothing is looked up.
    pub fn get_many_in_memory<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut show: impl FnMut(usize, Option<FoundRef<'_>>),
    ) -> Result<Vec<usize>> {
        let inner = &*self.inner;
        let (keys, now_ms) = (inner.keys(keys)?, inner.clock.now_ms());
        let (mut unknown, mut misses) = (Vec::new(), 0);
        let mut value = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            value.clear();
            match inner.engine.look_in_memory(*key, now_ms, &mut value)? {
                InMemory::Found(expires_at_ms) => {
                    show(number, Some(FoundRef { value: &value, expires_at_ms }));
                }
                InMemory::Absent => {
                    misses += 1;
                    show(number, None);
                }
                InMemory::Unknown => unknown.push(number),
            }
        }
        inner.usage.count_gets(keys.len() - unknown.len(), misses);
        Ok(unknown)
    }

    /// Returns for each of many keys whether it exists, in their order.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// database.put("a", "1")?;
    /// assert_eq!(database.contains_many(&["a", "b"])?, [true, false]);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias = "multi_contains")]
    pub fn contains_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut contained = vec![false; keys.len()];
        self.show_many(keys, |number, shown| contained[number] = shown.is_some())?;
        Ok(contained)
    }

    /// Looks up many keys, and counts them.
    fn show_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut show: impl FnMut(usize, Option<Shown<'_>>),
    ) -> Result<()> {
        let inner = &*self.inner;
        let _measured = inner.latencies.as_ref().map(|latencies| latencies.measure(Operation::GetMany));
        let keys = inner.keys(keys)?;
        let mut misses = 0;
        inner.engine.get_many(&keys, inner.clock.now_ms(), &mut |number, shown| {
            misses += usize::from(shown.is_none());
            show(number, shown);
        })?;
        inner.usage.count_gets(keys.len(), misses);
        Ok(())
    }
}
