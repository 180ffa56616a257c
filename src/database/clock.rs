//! The clock of a database.

use crate::batch::{NEVER, TimestampMs, has_expired};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// The system's clock, or a clock that a simulation advances.
#[derive(Clone, Default)]
pub(super) enum Clock {
    #[default]
    System,
    Simulated(Arc<AtomicU64>),
}

impl Clock {
    /// Returns the current time.
    pub fn now_ms(&self) -> TimestampMs {
        match self {
            Clock::System => {
                // A clock before 1970 is at 0, where nothing has expired.
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
            }
            Clock::Simulated(now_ms) => now_ms.load(Relaxed),
        }
    }

    /// Returns whether a record with this expiry time has expired. Reads the clock only if it may have.
    #[inline]
    pub fn has_passed(&self, expires_at_ms: TimestampMs) -> bool {
        expires_at_ms != NEVER && has_expired(expires_at_ms, self.now_ms())
    }
}
