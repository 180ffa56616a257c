//! Access in the order of the keys, if the setting `ordered` is set.

use super::engine::FlashKey;
use crate::Result;
use crate::batch::TimestampMs;
use crate::compose::hashed_log::{LogSnapshot, RangeKeys, RangeRecords};
use crate::engine::{Direction, Engine, KeyBounds, Keys, Ordered, Record, Records};
use crate::store::ordered_keys::OrderedRange;

impl FlashKey {
    /// Returns the keys of a range, and the records of the same moment; `None` if no order is kept.
    fn snapshot_of_range(
        &self,
        (start, end): KeyBounds<'_>,
        direction: Direction,
        now_ms: TimestampMs,
    ) -> Result<Option<(LogSnapshot, OrderedRange)>> {
        self.check_open()?;
        let bounds = (start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec));
        let taken = LogSnapshot::take_ordered(&self.parts.logs, now_ms);
        Ok(taken.map(|(snapshot, keys)| (snapshot, keys.range(bounds, direction))))
    }
}

/// Records are read up to 128 together. Keys alone are read from the ordered set, and only records with an expiry time
/// are looked up.
impl Ordered for FlashKey {
    fn range(&self, bounds: KeyBounds<'_>, direction: Direction, now_ms: TimestampMs) -> Result<Records> {
        let taken = self.snapshot_of_range(bounds, direction, now_ms)?;
        let record = |(key, value, expires_at_ms)| Record { key, value, expires_at_ms };
        Ok(match taken {
            Some((snapshot, range)) => {
                Box::new(RangeRecords::new(snapshot, range).map(move |read| read.map(record)))
            }
            None => Box::new(std::iter::empty()),
        })
    }

    fn range_keys(&self, bounds: KeyBounds<'_>, direction: Direction, now_ms: TimestampMs) -> Result<Keys> {
        Ok(match self.snapshot_of_range(bounds, direction, now_ms)? {
            Some((snapshot, range)) => Box::new(RangeKeys::new(snapshot, range)),
            None => Box::new(std::iter::empty()),
        })
    }
}
