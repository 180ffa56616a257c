//! The store to which records leave.

use crate::batch::{Durability, HashedWrite, TimestampMs};
use crate::error::Result;
use crate::key::Key;

/// A store below the logs, which has older versions of the records: those that have left.
pub(crate) trait Below: Send + Sync {
    /// Returns false only if the store certainly has no record of the key. Reads nothing from a device.
    fn may_contain(&self, key: Key<'_>) -> bool;

    /// Notes durably that records of the user log before this position will be written. So logs that end before it are
    /// recognized as an older copy.
    fn expect(&self, position: u64) -> Result<()>;

    /// Returns for each key whether the store has a record that has not expired. Reads the records.
    fn contain(&self, keys: &[Key<'_>], now_ms: TimestampMs) -> Result<Vec<bool>>;

    /// Applies the writes, the later ones of a key after the earlier ones. Returns when they have this durability.
    fn write(&self, writes: &[HashedWrite<'_>], durability: Durability, now_ms: TimestampMs) -> Result<()>;

    /// Returns a number that is higher than before if anything was written since. The store keeps it durably. A store
    /// with a lower number is an older copy, and lacks some of what was written.
    fn confirm(&self) -> Result<u64>;

    /// Returns how far the store is behind its writes: from 1 on, no record may leave.
    fn pressure(&self) -> f64;
}
