//! A server whose database is a copy of that of another server, and what it knows of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a server that follows another one says of it. The thread that copies writes it, and INFO reads it.
#[derive(Debug)]
pub struct FollowStatus {
    /// The other server's host and port.
    pub source: (String, u16),
    is_connected: AtomicBool,
    /// When the copy had all that the source had, in milliseconds since 1970; 0 for never.
    complete_at_ms: AtomicU64,
    keys: AtomicU64,
}

impl FollowStatus {
    /// Makes the status of a copy that has not begun.
    pub fn new(host: String, port: u16) -> FollowStatus {
        let (is_connected, complete_at_ms, keys) = Default::default();
        FollowStatus { source: (host, port), is_connected, complete_at_ms, keys }
    }

    /// Notes whether the source replies.
    pub fn set_connected(&self, is_connected: bool) {
        self.is_connected.store(is_connected, Relaxed);
    }

    /// Notes that the copy had all that the source had at a moment, in milliseconds since 1970.
    pub fn set_complete(&self, at_ms: u64) {
        self.complete_at_ms.store(at_ms, Relaxed);
    }

    /// Notes that keys were copied.
    pub fn add_keys(&self, keys: u64) {
        self.keys.fetch_add(keys, Relaxed);
    }

    /// Returns whether the source replies.
    pub fn is_connected(&self) -> bool {
        self.is_connected.load(Relaxed)
    }

    /// Returns the number of keys that were copied since the start.
    pub fn keys(&self) -> u64 {
        self.keys.load(Relaxed)
    }

    /// Returns for how long writes of the source may be missing, in milliseconds; `None` if the first copy is not
    /// complete.
    pub fn lag_ms(&self) -> Option<u64> {
        let complete_at_ms = Some(self.complete_at_ms.load(Relaxed)).filter(|at_ms| *at_ms > 0)?;
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        Some(now_ms.saturating_sub(complete_at_ms))
    }
}
