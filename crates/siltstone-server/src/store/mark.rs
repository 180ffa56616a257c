//! What memcached's commands store besides a value.
//!
//! A *version* changes with each store, also of an equal value, and never comes back: versions are counted up from the
//! time, in nanoseconds, at which the process has drawn the first one. So they stay below 2^63 until the year 2262.
//! They repeat only if the clock of the machine is set back before a restart.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// The mark of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The number that the client has stored with the value.
    pub flags: u32,
    /// The version of the value.
    pub version: u64,
    /// A client has invalidated the value, which is returned until another one is stored.
    pub is_stale: bool,
    /// A client was asked to store another value.
    pub is_claimed: bool,
}

static NEXT_VERSION: LazyLock<AtomicU64> = LazyLock::new(|| {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    AtomicU64::new(since.as_nanos() as u64)
});

impl Mark {
    /// Makes the mark of a value that is stored now: with a new version.
    pub fn new(flags: u32) -> Mark {
        Mark { flags, ..Mark::of_version(NEXT_VERSION.fetch_add(1, Relaxed)) }
    }

    /// Makes a mark of this version, without flags.
    pub fn of_version(version: u64) -> Mark {
        Mark { flags: 0, version, is_stale: false, is_claimed: false }
    }

    /// Returns the mark with a new version.
    pub fn renewed(self) -> Mark {
        Mark { version: Mark::new(0).version, ..self }
    }

    /// Returns whether the mark says no more than its version.
    pub fn is_plain(self) -> bool {
        self == Mark::of_version(self.version)
    }
}
