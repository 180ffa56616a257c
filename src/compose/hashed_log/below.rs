//! The store to which records leave.

use crate::batch::{Durability, HashedWrite, TimestampMs};
use crate::error::Result;
use crate::key::Key;

/// A store below the logs, which has older versions of the records: those that have left.
pub(crate) trait Below: Send + Sync {
    /// Returns false only if the store certainly has no record of the key. Reads nothing from a device.
    fn may_contain(&self, key: Key<'_>) -> bool;

    /// Returns of each key whether the store has a record, expired ones aside. Reads them.
    fn contain(&self, keys: &[Key<'_>], now_ms: TimestampMs) -> Result<Vec<bool>>;

    /// Applies the writes, the later ones of a key after the earlier ones. Returns when they have this durability.
    fn write(&self, writes: &[HashedWrite<'_>], durability: Durability, now_ms: TimestampMs) -> Result<()>;

    /// Returns how far the store is behind its writes: from 1 on, no record may leave.
    fn pressure(&self) -> f64;
}
