//! Records in the order of their keys: the keys from the ordered set, their records from the logs, both of one moment.

use super::get::FoundValue;
use super::range_cache::RangeCache;
use super::snapshot::LogSnapshot;
use crate::batch::TimestampMs;
use crate::error::Result;
use crate::store::ordered_keys::OrderedRange;
use bytes::Bytes;
use std::collections::VecDeque;

/// The records that are read together at first, and at most: each time twice as many as before. With a limit as many
/// as are left, from the first time on.
const AHEAD_MIN: usize = 16;
const AHEAD_MAX: usize = 128;

/// Keys that are read ahead.
struct Ahead {
    snapshot: LogSnapshot,
    cache: RangeCache,
    range: OrderedRange,
    count: usize,
    /// The records or keys that are still to be returned.
    left: usize,
    has_more: bool,
    /// Each key, with whether its record has an expiry time.
    keys: Vec<(Vec<u8>, bool)>,
}

impl Ahead {
    fn new(snapshot: LogSnapshot, cache: RangeCache, range: OrderedRange, limit: usize) -> Ahead {
        let count = if limit < usize::MAX { AHEAD_MAX } else { AHEAD_MIN };
        Ahead { snapshot, cache, range, count, left: limit, has_more: true, keys: Vec::new() }
    }

    /// Reads the next keys.
    fn read(&mut self) -> Result<()> {
        self.keys.clear();
        self.has_more = self.range.read(self.count.min(self.left), &mut self.keys)?;
        self.count = (2 * self.count).min(AHEAD_MAX);
        Ok(())
    }

    /// Returns the values of those keys for which `is_wanted` returns true. The reads overlap.
    fn values(&self, is_wanted: impl Fn(bool) -> bool) -> Result<Vec<Option<FoundValue>>> {
        let wanted = self.keys.iter().filter(|(_, is_expiring)| is_wanted(*is_expiring));
        let keys: Vec<_> = wanted.map(|(key, _)| self.snapshot.hasher().key(key)).collect();
        if keys.is_empty() { Ok(Vec::new()) } else { self.cache.get_many(&self.snapshot, &keys) }
    }
}

/// The records of a range of keys. Ends after the first error.
pub(crate) struct RangeRecords {
    ahead: Ahead,
    ready: VecDeque<(Bytes, FoundValue)>,
}

impl RangeRecords {
    /// `range` is of the moment of the snapshot.
    pub fn new(snapshot: LogSnapshot, cache: RangeCache, range: OrderedRange, limit: usize) -> RangeRecords {
        RangeRecords { ahead: Ahead::new(snapshot, cache, range, limit), ready: VecDeque::new() }
    }

    fn read(&mut self) -> Result<()> {
        self.ahead.read()?;
        let values = self.ahead.values(|_| true)?;
        let keys = self.ahead.keys.drain(..).map(|(key, _)| Bytes::from(key));
        self.ready.extend(keys.zip(values).filter_map(|(key, value)| Some((key, value?))));
        Ok(())
    }
}

impl Iterator for RangeRecords {
    type Item = Result<(Bytes, Bytes, TimestampMs)>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && self.ahead.has_more && self.ahead.left > 0 {
            if let Err(error) = self.read() {
                // The keys of the failed read were passed, so going on would leave a gap.
                self.ahead.has_more = false;
                return Some(Err(error));
            }
        }
        let (key, (value, expires_at_ms)) = self.ready.pop_front()?;
        self.ahead.left -= 1;
        Some(Ok((key, value, expires_at_ms)))
    }
}

/// The keys of a range. Only records with an expiry time are read. Ends after the first error.
pub(crate) struct RangeKeys {
    ahead: Ahead,
    ready: VecDeque<Bytes>,
}

impl RangeKeys {
    /// `range` is of the moment of the snapshot.
    pub fn new(snapshot: LogSnapshot, cache: RangeCache, range: OrderedRange, limit: usize) -> RangeKeys {
        RangeKeys { ahead: Ahead::new(snapshot, cache, range, limit), ready: VecDeque::new() }
    }

    fn read(&mut self) -> Result<()> {
        self.ahead.read()?;
        let mut expiring = self.ahead.values(|is_expiring| is_expiring)?.into_iter();
        for (key, is_expiring) in self.ahead.keys.drain(..) {
            if !is_expiring || expiring.next().flatten().is_some() {
                self.ready.push_back(Bytes::from(key));
            }
        }
        Ok(())
    }
}

impl Iterator for RangeKeys {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && self.ahead.has_more && self.ahead.left > 0 {
            if let Err(error) = self.read() {
                // The keys of the failed read were passed, so going on would leave a gap.
                self.ahead.has_more = false;
                return Some(Err(error));
            }
        }
        let key = self.ready.pop_front()?;
        self.ahead.left -= 1;
        Some(Ok(key))
    }
}
