//! Access in the order of the keys, for engines that keep it.

use super::{Database, Iter};
use crate::Result;
use crate::engine::{Direction, KeyBounds, Keys, Ordered};
use bytes::Bytes;
use std::ops::{Bound, RangeBounds};

/// Access to a database in the order of its keys: [`Database::ordered`].
#[derive(Clone, Copy)]
pub struct OrderedDatabase<'a> {
    database: &'a Database,
    ordered: &'a dyn Ordered,
    direction: Direction,
}

impl Database {
    /// Returns access in the order of the keys; `None` if the engine does not keep this order. SILT and MICA do not.
    pub fn ordered(&self) -> Option<OrderedDatabase<'_>> {
        let ordered = self.engine().ordered()?;
        Some(OrderedDatabase { database: self, ordered, direction: Direction::Ascending })
    }
}

impl OrderedDatabase<'_> {
    /// The same access, from the highest key to the lowest.
    pub fn descending(self) -> Self {
        OrderedDatabase { direction: Direction::Descending, ..self }
    }

    /// Returns the records whose keys are in a range, as they are at this moment. Keys are compared byte by byte.
    ///
    /// # Errors
    /// As [`Database::iter`].
    pub fn range<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Result<Iter> {
        self.range_within((keys.start_bound().cloned(), keys.end_bound().cloned()))
    }

    /// Returns the keys in a range, as they are at this moment. Reads no values, if the engine can do so.
    ///
    /// # Errors
    /// As [`Database::iter`].
    pub fn range_keys<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Result<KeyIter> {
        let bounds = (keys.start_bound().cloned(), keys.end_bound().cloned());
        let keys = self.ordered.range_keys(bounds, self.direction, self.database.inner.clock.now_ms())?;
        Ok(KeyIter { keys, _database: self.database.clone() })
    }

    /// Returns the records whose keys begin with `prefix`, as they are at this moment.
    ///
    /// # Errors
    /// As [`Database::iter`].
    pub fn prefix(&self, prefix: &[u8]) -> Result<Iter> {
        // The lowest key that is higher than all keys with the prefix: its last byte below 255 plus one.
        let end = prefix.iter().rposition(|byte| *byte < u8::MAX).map(|last| {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        });
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.range_within((Bound::Included(prefix), end))
    }

    fn range_within(&self, bounds: KeyBounds<'_>) -> Result<Iter> {
        let records = self.ordered.range(bounds, self.direction, self.database.inner.clock.now_ms())?;
        Ok(Iter { records, _database: self.database.clone() })
    }
}

/// Keys of a database in order, as they were at one moment.
pub struct KeyIter {
    keys: Keys,
    _database: Database,
}

impl Iterator for KeyIter {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        self.keys.next()
    }
}
