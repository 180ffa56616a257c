//! Access in key order, for engines that keep it.

use super::snapshot::next_of;
use super::{Database, Iter, Snapshot};
use crate::engine::{Direction, KeyBounds, Keys, Ordered};
use crate::error::Result;
use bytes::Bytes;
use std::ops::{Bound, RangeBounds};

/// Access to a database, or to a [`Snapshot`], in key order: [`Database::ordered`] and [`Snapshot::ordered`].
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use siltstone::{Database, FlashKeySettings};
///
/// let settings = FlashKeySettings::default().ordered(true);
/// let database = Database::builder(directory.path().join("db")).engine(settings).open()?;
/// for user in ["user:1", "user:2", "user:3", "zone:1"] {
///     database.put(user, "value")?;
/// }
/// let ordered = database.ordered().expect("the engine keeps the keys in order");
/// let keys = |keys: siltstone::KeyIter| keys.collect::<siltstone::Result<Vec<_>>>();
/// assert_eq!(keys(ordered.prefix_keys(b"user:")?)?, ["user:1", "user:2", "user:3"]);
/// assert_eq!(keys(ordered.range_keys(&b"user:2"[..]..&b"zone:1"[..])?)?, ["user:2", "user:3"]);
/// assert_eq!(keys(ordered.descending().limit(1).range_keys(..)?)?, ["zone:1"]);
/// assert_eq!(ordered.prefix(b"user:")?.count(), 3);
/// assert_eq!(ordered.range(&b"zone"[..]..)?.count(), 1);
/// # Ok::<(), siltstone::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct OrderedDatabase<'a> {
    pub(super) database: &'a Database,
    ordered: &'a dyn Ordered,
    direction: Direction,
    limit: usize,
}

impl Database {
    /// Returns access in key order; `None` if the engine does not keep this order. FlashKey keeps it if the database
    /// was created with its setting `ordered`. SILT and MICA do not.
    #[doc(alias("range", "seek"))]
    pub fn ordered(&self) -> Option<OrderedDatabase<'_>> {
        let ordered = self.engine().ordered()?;
        Some(OrderedDatabase { database: self, ordered, direction: Direction::Ascending, limit: usize::MAX })
    }
}

impl Snapshot {
    /// Returns access to the records of the snapshot in key order; `None` as for [`Database::ordered`]. All its ranges
    /// are of the moment of the snapshot, whereas each range of a database is of its own.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let settings = siltstone::FlashKeySettings::default().ordered(true);
    /// # let database = siltstone::Database::builder(directory.path().join("db")).engine(settings).open()?;
    /// database.write(&[("b", "1"), ("a", "2")].into_iter().collect())?;
    /// let snapshot = database.snapshot()?;
    /// database.put("c", "3")?;
    /// let ordered = snapshot.ordered().expect("the engine keeps the keys in order");
    /// let keys = |range: siltstone::KeyIter| range.collect::<siltstone::Result<Vec<_>>>();
    /// assert_eq!(keys(ordered.range_keys(..)?)?, ["a", "b"]);
    /// assert_eq!(keys(ordered.descending().range_keys(..&b"b"[..])?)?, ["a"]);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn ordered(&self) -> Option<OrderedDatabase<'_>> {
        let (database, ordered) = (&self.database, self.snapshot.ordered()?);
        Some(OrderedDatabase { database, ordered, direction: Direction::Ascending, limit: usize::MAX })
    }
}

impl OrderedDatabase<'_> {
    /// Reverses the order: from the highest key to the lowest.
    pub fn descending(self) -> Self {
        OrderedDatabase { direction: Direction::Descending, ..self }
    }

    /// Limits the number of records or keys of a range. The first records of a range with a limit are read together, up
    /// to 128, which is faster than to end an iterator early: it does not know how many records it is to read.
    pub fn limit(self, records: usize) -> Self {
        OrderedDatabase { limit: records, ..self }
    }

    /// Returns the records whose keys are in a range, as they are at this moment or were at that of the snapshot. Keys
    /// are compared byte by byte.
    ///
    /// # Errors
    /// See [`Database::iter`].
    pub fn range<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Result<Iter> {
        self.range_within((keys.start_bound().cloned(), keys.end_bound().cloned()))
    }

    /// Returns the keys in a range. Reads no values if the engine can avoid it.
    ///
    /// # Errors
    /// See [`Database::iter`].
    pub fn range_keys<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Result<KeyIter> {
        self.keys_within((keys.start_bound().cloned(), keys.end_bound().cloned()))
    }

    /// Returns the records whose keys begin with `prefix`.
    ///
    /// # Errors
    /// See [`Database::iter`].
    pub fn prefix(&self, prefix: &[u8]) -> Result<Iter> {
        let end = prefix_end(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.range_within((Bound::Included(prefix), end))
    }

    /// Returns the keys that begin with `prefix`. Reads no values if the engine can avoid it.
    ///
    /// # Errors
    /// See [`Database::iter`].
    pub fn prefix_keys(&self, prefix: &[u8]) -> Result<KeyIter> {
        self.prefix_keys_after(prefix, None)
    }

    /// Returns those after a key, if one is given.
    pub(super) fn prefix_keys_after(&self, prefix: &[u8], after: Option<&[u8]>) -> Result<KeyIter> {
        let end = prefix_end(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        // After the key, not from it on: it would be found a second time if it is still there.
        self.keys_within((after.map_or(Bound::Included(prefix), Bound::Excluded), end))
    }

    fn keys_within(&self, bounds: KeyBounds<'_>) -> Result<KeyIter> {
        let now_ms = self.database.inner.clock.now_ms();
        let keys = self.ordered.range_keys(bounds, self.direction, self.limit, now_ms)?;
        Ok(KeyIter { keys, database: self.database.clone(), has_ended: false })
    }

    fn range_within(&self, bounds: KeyBounds<'_>) -> Result<Iter> {
        let now_ms = self.database.inner.clock.now_ms();
        let records = self.ordered.range(bounds, self.direction, self.limit, now_ms)?;
        Ok(Iter::new(records, self.database.clone()))
    }
}

/// Returns the lowest key above all keys with a prefix, if there is one: the last byte below 255 is incremented, and
/// the bytes after it are cut off.
pub(super) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// An iterator over keys of a database in order, at one moment.
pub struct KeyIter {
    keys: Keys,
    pub(super) database: Database,
    has_ended: bool,
}

impl Iterator for KeyIter {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        next_of(&mut self.keys, &self.database, &mut self.has_ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_with_a_prefix_are_those_below_its_end() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut bytes = |length: usize| -> Vec<u8> {
            (0..random.usize(..=length)).map(|_| [0, 1, 0xfe, 0xff][random.usize(..4)]).collect()
        };
        for _ in 0..20_000 {
            let (prefix, key) = (bytes(3), bytes(5));
            let is_below = prefix_end(&prefix).is_none_or(|end| key < end);
            assert_eq!(key >= prefix && is_below, key.starts_with(&prefix), "{prefix:?}, {key:?}");
        }
    }
}
