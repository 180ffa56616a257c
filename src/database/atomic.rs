//! Operations that read and write in one atomic step.

use super::latencies::Operation;
use super::usage::WriteCounts;
use super::{Database, WriteOptions};
use crate::batch::{Durability, NEVER, Write, check_batch};
use crate::engine::{Change, Changing, Found};
use crate::error::{Error, Result};
use crate::key::Key;
use bytes::Bytes;
use std::collections::HashSet;

impl Database {
    /// Puts the record if the key is absent, and returns whether it did. Atomic. If the key is present, its record is
    /// as durable as the database's default when this returns; with [`Durability::Synced`](crate::Durability::Synced)
    /// that may need a sync.
    ///
    /// For a value that is computed only if the key is absent, see [`try_update`](Database::try_update).
    ///
    /// # Errors
    /// See [`put`](Database::put); the same errors occur if the key is present.
    #[doc(alias("insert_unique", "put_if_absent"))]
    pub fn insert_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.insert_if_absent_with(key, value, WriteOptions::default())
    }

    /// Like [`insert_if_absent`](Database::insert_if_absent), with its own durability or expiry time. A record that is
    /// present keeps its expiry time.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// let database = siltstone::Database::open(directory.path().join("db"))?;
    /// use std::time::Duration;
    ///
    /// let for_a_week = siltstone::WriteOptions::default().expires_in(Duration::from_secs(7 * 24 * 3600));
    /// assert!(database.insert_if_absent_with("seen", "", for_a_week)?);
    /// assert!(!database.insert_if_absent_with("seen", "", for_a_week)?);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`put`](Database::put); the same errors occur if the key is present.
    pub fn insert_if_absent_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<bool> {
        let (key, value) = (self.inner.key(key.as_ref())?, value.as_ref());
        // Also if the key is present: whether a record is refused must not depend on the data.
        self.inner.layout.check_value(value, options.expires_at_ms != NEVER)?;
        let mut inserts = false;
        self.update_key(key, options, |found| {
            inserts = found.is_none();
            Ok(if inserts { put(value, NEVER) } else { Change::Keep })
        })?;
        Ok(inserts)
    }

    /// Puts the records whose keys are absent, all in one atomic step, and returns for each whether it was put. Of two
    /// records with the same key, the first one wins. Reads overlap as in [`get_many`](Database::get_many).
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// let database = siltstone::Database::builder(directory.path().join("db")).open()?;
    /// database.put("a", "1")?;
    /// assert_eq!(database.insert_many_if_absent(&[("a", "2"), ("b", "2")])?, [false, true]);
    /// assert_eq!(database.get("a")?.as_deref(), Some(&b"1"[..]));
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`transact`](Database::transact); the errors of records that are refused occur also if their keys are
    /// present.
    pub fn insert_many_if_absent<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        records: &[(K, V)],
    ) -> Result<Vec<bool>> {
        self.insert_many_if_absent_with(records, WriteOptions::default())
    }

    /// Like [`insert_many_if_absent`](Database::insert_many_if_absent), with its own durability or expiry time.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// let database = siltstone::Database::open(directory.path().join("db"))?;
    /// let options = siltstone::WriteOptions::default().expires_at_ms(4_102_444_800_000);
    /// assert_eq!(database.insert_many_if_absent_with(&[("a", "1"), ("a", "2")], options)?, [true, false]);
    /// assert_eq!(database.get_found("a")?.unwrap().expires_at_ms, 4_102_444_800_000);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn insert_many_if_absent_with<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        records: &[(K, V)],
        options: WriteOptions,
    ) -> Result<Vec<bool>> {
        let writes = || {
            records.iter().map(|(key, value)| Write::Put {
                key: key.as_ref(),
                value: value.as_ref(),
                expires_at_ms: options.expires_at_ms,
            })
        };
        let keys = records.iter().map(|(key, _)| self.inner.key(key.as_ref()));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        // All of them, as above: whether a record is refused must not depend on the data.
        for (_, value) in records {
            self.inner.layout.check_value(value.as_ref(), options.expires_at_ms != NEVER)?;
        }
        check_batch(writes())?;
        let mut inserted = vec![false; records.len()];
        self.apply_changes(&keys, options, &mut |found, changes| {
            let mut seen = HashSet::new();
            for (at, (key, value)) in records.iter().enumerate() {
                // A second record of a key stays `Keep`: of two changes of a key the later one would win.
                inserted[at] = found[at].is_none() && seen.insert(key.as_ref());
                if inserted[at] {
                    changes[at] = put(value.as_ref(), NEVER);
                }
            }
            Ok(())
        })?;
        Ok(inserted)
    }

    /// Replaces the value of a key if it is `expected`, and returns whether it did. `None` means an absent key, for
    /// both arguments. Atomic. The new record never expires. Values are byte strings, `Some(b"text")`, or slices,
    /// `Some(text.as_bytes())`: with all types that [`put`](Database::put) takes, a `None` would have no type.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// let database = siltstone::Database::builder(directory.path().join("db")).open()?;
    /// assert!(database.compare_and_swap("key", None, Some(b"1"))?);
    /// assert!(!database.compare_and_swap("key", Some(b"7"), Some(b"8"))?);
    /// assert!(database.compare_and_swap("key", Some(b"1"), None)?);
    /// assert!(!database.contains("key")?);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`put`](Database::put).
    // A trait for `Option<&[u8]>`, `Option<&str>` and others, by value or by `Into`, has several types for a `None`
    // without one: rustc refuses the call (E0283), and no default of a type parameter applies to a method.
    #[doc(alias("cas", "compare_exchange", "swap"))]
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.compare_and_swap_with(key, expected, new, WriteOptions::default())
    }

    /// Like [`compare_and_swap`](Database::compare_and_swap), with its own durability or an expiry time of the new
    /// record. To keep the time of the record that is there, use [`update`](Database::update).
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// let database = siltstone::Database::open(directory.path().join("db"))?;
    /// let options = siltstone::WriteOptions::default().expires_at_ms(4_102_444_800_000);
    /// assert!(database.compare_and_swap_with("lease", None, Some(b"mine"), options)?);
    /// assert_eq!(database.get_found("lease")?.unwrap().expires_at_ms, 4_102_444_800_000);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`put_with`](Database::put_with); [`Error::Setting`](crate::Error::Setting) for an expiry time without a new
    /// value.
    pub fn compare_and_swap_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: WriteOptions,
    ) -> Result<bool> {
        if new.is_none() {
            options.check_without_expiry()?;
        }
        let mut swapped = false;
        self.update_with(key, options, |found| {
            swapped = found.map(|found| &found.value[..]) == expected;
            Ok(match new {
                _ if !swapped => Change::Keep,
                Some(value) => put(value, NEVER),
                None => Change::Delete,
            })
        })?;
        Ok(swapped)
    }

    /// Removes the key and returns its value. Atomic. Costs a [`get`](Database::get) more than
    /// [`delete`](Database::delete), and writes nothing if the key is absent.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// let database = siltstone::Database::builder(directory.path().join("db")).open()?;
    /// database.put("key", "value")?;
    /// assert_eq!(database.remove("key")?.as_deref(), Some(&b"value"[..]));
    /// assert_eq!(database.remove("key")?, None);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`delete`](Database::delete).
    #[doc(alias("fetch_remove", "take"))]
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let mut removed = None;
        self.update(key, |found| {
            removed = found.map(|found| found.value.clone());
            Ok(if removed.is_some() { Change::Delete } else { Change::Keep })
        })?;
        Ok(removed)
    }

    /// Calls `change` with the value of the key and applies the change that it returns. No other write to the key
    /// happens in between. When it returns, the result is as durable as configured, even if `change` returned
    /// [`Change::Keep`]. `change` must not use the database, or it deadlocks.
    #[doc(alias("fetch_and_update", "fetch_update", "merge"))]
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&Found>) -> Result<Change>,
    ) -> Result<()> {
        self.update_with(key, WriteOptions::default(), change)
    }

    /// Like [`update`](Database::update), with its own durability, and an expiry time for a put whose expiry time is
    /// [`NEVER`](crate::NEVER).
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// use siltstone::{Change, Durability, WriteOptions};
    ///
    /// let synced = WriteOptions::default().durability(Durability::Synced);
    /// database.update_with("lock", synced, |found| match found {
    ///     Some(_) => Ok(Change::Keep),
    ///     None => Ok(Change::Put { value: "mine".into(), expires_at_ms: siltstone::NEVER }),
    /// })?;
    /// assert!(database.contains("lock")?);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn update_with(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
        change: impl FnMut(Option<&Found>) -> Result<Change>,
    ) -> Result<()> {
        self.update_key(self.inner.key(key.as_ref())?, options, change)
    }

    /// Like [`update_with`](Database::update_with), for a key that was checked and hashed.
    fn update_key(
        &self,
        key: Key<'_>,
        options: WriteOptions,
        mut change: impl FnMut(Option<&Found>) -> Result<Change>,
    ) -> Result<()> {
        self.apply_changes(&[key], options, &mut |found, changes| {
            for (found, to) in found.iter().zip(changes) {
                *to = change(found.as_ref())?;
            }
            Ok(())
        })
    }

    /// Like [`update`](Database::update), with the caller's error type, and a result that `change` returns along with
    /// the change. If `change` fails, nothing is changed and its error is returned.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use siltstone::{Change, Database, batch::NEVER};
    /// let database = Database::builder(directory.path().join("db")).open()?;
    /// // Returns the number before it was incremented.
    /// let increment = || {
    ///     database.try_update("count", |found| -> Result<(Change, u64), Box<dyn std::error::Error>> {
    ///         let count = match found {
    ///             Some(found) => std::str::from_utf8(&found.value)?.parse()?,
    ///             None => 0,
    ///         };
    ///         let value = (count + 1).to_string().into();
    ///         Ok((Change::Put { value, expires_at_ms: NEVER }, count))
    ///     })
    /// };
    /// assert_eq!((increment().unwrap(), increment().unwrap()), (0, 1));
    /// database.put("count", "many")?;
    /// assert!(increment().is_err_and(|error| error.is::<std::num::ParseIntError>()));
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `change` returns, or the error of [`put`](Database::put).
    pub fn try_update<T, E: From<Error>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnOnce(Option<&Found>) -> std::result::Result<(Change, T), E>,
    ) -> std::result::Result<T, E> {
        let (mut change, mut outcome) = (Some(change), None);
        let updated = self.update(key, |found| {
            // The function is gone after the first call, so a second one would have to keep the record.
            let Some(change) = change.take() else { return Ok(Change::Keep) };
            match change(found) {
                Ok((change, result)) => {
                    outcome = Some(Ok(result));
                    Ok(change)
                }
                Err(error) => {
                    outcome = Some(Err(error));
                    // Ends the update. The caller receives its own error.
                    Err(Error::Interrupted)
                }
            }
        });
        match (updated, outcome) {
            // The caller's own error first: `updated` has only the `Interrupted` in its place.
            (_, Some(Err(error))) => Err(error),
            (Err(error), _) => Err(error.into()),
            (Ok(()), Some(Ok(result))) => Ok(result),
            (Ok(()), None) => Err(Error::Interrupted.into()),
        }
    }

    /// Runs a transaction over a known set of keys: calls `change` with their values, in the order of `keys`, and
    /// applies the changes that it sets, either all or none. All changes are initially [`Change::Keep`]. No other write
    /// to these keys happens in between. If a key occurs twice, the later change wins.
    ///
    /// When it returns, all changes are as durable as the database's default, and so are the values that were read and
    /// kept. `change` must not use the database, or it deadlocks. Writes to the partitions of the keys wait until it
    /// returns. That includes the reads before it: about one flash read per key, overlapping.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use siltstone::{Change, Database, batch::NEVER};
    /// let database = Database::builder(directory.path().join("db")).open()?;
    /// database.put("from", [5])?;
    /// // Moves two coins.
    /// database.transact(&["from", "to"], |found, changes| {
    ///     for ((found, change), coins) in found.iter().zip(changes).zip([-2i8, 2]) {
    ///         let had = found.as_ref().map_or(0, |found| found.value[0]);
    ///         let value = vec![had.wrapping_add_signed(coins)].into();
    ///         *change = Change::Put { value, expires_at_ms: NEVER };
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(database.get_many(&["from", "to"])?, [Some(vec![3].into()), Some(vec![2].into())]);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `change`; nothing has changed then. Otherwise see [`write`](Database::write).
    #[doc(alias("begin", "begin_write", "transaction"))]
    pub fn transact<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        change: impl FnMut(&[Option<Found>], &mut [Change]) -> Result<()>,
    ) -> Result<()> {
        self.transact_with(keys, WriteOptions::default(), change)
    }

    /// Like [`transact`](Database::transact), with its own durability, and an expiry time for puts whose expiry time is
    /// [`NEVER`](crate::NEVER).
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// use siltstone::{Change, Durability, WriteOptions};
    ///
    /// database.put("from", "all")?;
    /// let synced = WriteOptions::default().durability(Durability::Synced);
    /// database.transact_with(&["from", "to"], synced, |found, changes| {
    ///     if let Some(found) = &found[0] {
    ///         changes[1] = Change::Put { value: found.value.clone(), expires_at_ms: found.expires_at_ms };
    ///         changes[0] = Change::Delete;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(database.contains_many(&["from", "to"])?, [false, true]);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn transact_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: WriteOptions,
        mut change: impl FnMut(&[Option<Found>], &mut [Change]) -> Result<()>,
    ) -> Result<()> {
        self.apply_changes(&self.inner.keys(keys)?, options, &mut change)
    }

    fn apply_changes(
        &self,
        keys: &[Key<'_>],
        options: WriteOptions,
        change: &mut Changing<'_>,
    ) -> Result<()> {
        let inner = &self.inner;
        let _measured = inner.latencies.as_ref().map(|latencies| latencies.measure(Operation::Update));
        // Before the lock of the directory, which a step takes as well: this thread may have to execute one.
        inner.or_removed(inner.workers.delay(keys.iter().map(|key| key.bytes().len() as u64).sum()))?;
        match inner.workers.wait_for_space(keys.len() as u64) {
            // Unless it only deletes, which is allowed.
            Ok(()) | Err(Error::NoSpace { .. }) => {}
            Err(error) => return Err(error),
        }
        let locked = inner.lock.to_write()?;
        let durability = options.durability.unwrap_or(inner.durability);
        // In a removed directory the sync would succeed, and the data be lost with the last open file.
        if durability == Durability::Synced {
            inner.check_present()?;
        }
        // Outside of the closure: the keys stay hidden until the engine has the writes.
        let (mut in_flight, mut counts) = (None, WriteCounts::NONE);
        let updated =
            // The time is from before the locks: a record that expires while this call waits still counts.
            self.engine().update_many(keys, durability, inner.clock.now_ms(), &mut |found, changes| {
                change(found, changes)?;
                // Before the check, which refuses an expiry time where records have none.
                for change in &mut *changes {
                    if let Change::Put { expires_at_ms, .. } = change {
                        options.expire(expires_at_ms);
                    }
                }
                let writes = || {
                    let changes = keys.iter().zip(&*changes);
                    changes.filter_map(|(key, change)| change.to_write(*key))
                };
                // Before the engine writes: `change` may set anything, and an error here leaves all records
                // as they are.
                writes().try_for_each(|write| inner.check_value(&write.write))?;
                check_batch(writes().map(|write| write.write))?;
                let changed = WriteCounts::of(writes().map(|write| write.write));
                // Only here it is known what is put. Deletes need no free space.
                if changed.puts > 0 {
                    inner.workers.check_space(changed.put_bytes())?;
                }
                if let Some(uniformity) = &inner.uniformity {
                    let puts = writes().filter(|write| matches!(write.write, Write::Put { .. }));
                    puts.for_each(|write| uniformity.note(write.key.hash()));
                }
                // Here, while the engine holds the stripes of the keys: the feed and the engine have the
                // writes to a key in the same order.
                if let Some(feed) = &inner.feed {
                    let keys: Vec<&[u8]> = writes().map(|write| write.key.bytes()).collect();
                    in_flight = Some(feed.append(keys.into_iter(), durability)?);
                }
                // Counted as lookups, also if no record changes.
                inner.usage.count_gets(found.len(), found.iter().filter(|found| found.is_none()).count());
                counts = changed;
                Ok(())
            });
        // Under the lock: `close` takes it before it closes the feed.
        inner.end_in_feed(in_flight, updated)?;
        // Only now: `retain` takes records that it reads after the count for those that these writes have left.
        inner.usage.count_writes(&counts);
        drop(locked);
        Ok(())
    }
}

fn put(value: &[u8], expires_at_ms: u64) -> Change {
    Change::Put { value: Bytes::copy_from_slice(value), expires_at_ms }
}
