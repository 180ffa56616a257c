//! The disk as the logs see it.

use crate::batch::{Durability, HashedWrite, TimestampMs};
use crate::compose::hashed_log::Below;
use crate::engine::Engine;
use crate::error::Result;
use crate::key::Key;
use std::sync::Arc;

/// The engine of the disk.
pub(super) struct DiskBelow(pub Arc<dyn Engine>);

impl Below for DiskBelow {
    fn may_contain(&self, key: Key<'_>) -> bool {
        // Also records that have expired: at the time 0 none has.
        self.0.may_contain(key, 0).unwrap_or(true)
    }

    fn contain(&self, keys: &[Key<'_>], now_ms: TimestampMs) -> Result<Vec<bool>> {
        let found = self.0.get_many(keys, now_ms)?;
        Ok(found.into_iter().map(|found| found.is_some()).collect())
    }

    fn write(&self, writes: &[HashedWrite<'_>], durability: Durability, now_ms: TimestampMs) -> Result<()> {
        self.0.write(writes, durability, &|| now_ms)
    }

    fn pressure(&self) -> f64 {
        self.0.background().pressure
    }
}
