//! Access in the order of the keys, for engines that keep it.

use super::{Record, Records};
use crate::batch::TimestampMs;
use crate::error::Result;
use bytes::Bytes;
use std::ops::Bound;

pub use crate::key::Direction;

/// The first and the last key of a range.
pub type KeyBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Keys in the order of a range, each with its own outcome.
pub type Keys = Box<dyn Iterator<Item = Result<Bytes>> + Send>;

/// Records in the order of their keys, which are compared byte by byte.
pub trait Ordered: Send + Sync {
    /// Returns the records within the bounds as they are at this moment, or at that of the snapshot, the first `limit`
    /// of them. Later writes do not change them, and nothing in them expires. Bounds that no key can be within give no
    /// record.
    fn range(
        &self,
        bounds: KeyBounds<'_>,
        direction: Direction,
        limit: usize,
        now_ms: TimestampMs,
    ) -> Result<Records>;

    /// Returns the keys of these records. Default: the keys of [`range`](Ordered::range), which reads the values as
    /// well.
    fn range_keys(
        &self,
        bounds: KeyBounds<'_>,
        direction: Direction,
        limit: usize,
        now_ms: TimestampMs,
    ) -> Result<Keys> {
        let records = self.range(bounds, direction, limit, now_ms)?;
        Ok(Box::new(records.map(|record| record.map(|Record { key, .. }| key))))
    }
}
