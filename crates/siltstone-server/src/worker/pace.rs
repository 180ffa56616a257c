//! Whether the lookups of a database wait for its device.
//!
//! A lookup of keys whose blocks are in memory takes some microseconds, and the worker executes it itself: handing it
//! over would cost as much. One that waits for the device takes longer than a hundred. The worker measures each lookup:
//! after a slow one, helper threads execute the next ones, and the worker serves other connections meanwhile.

use crate::store::DATABASES;
use std::time::{Duration, Instant};

/// The time that a lookup takes besides that of its keys, if it waits for no device.
const LOOKUP_TIME: Duration = Duration::from_micros(50);
/// The time for each key, if it waits for no device.
const KEY_TIME: Duration = Duration::from_micros(10);

/// How long a lookup took.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    keys: usize,
    time: Duration,
}

impl Pace {
    /// Measures a lookup of this number of keys.
    pub fn measure<T>(keys: usize, lookup: impl FnOnce() -> T) -> (T, Pace) {
        let start = Instant::now();
        let result = lookup();
        (result, Pace { keys, time: start.elapsed() })
    }

    fn is_slow(self) -> bool {
        let keys = u32::try_from(self.keys).unwrap_or(u32::MAX);
        self.time > LOOKUP_TIME.saturating_add(KEY_TIME.saturating_mul(keys))
    }
}

/// Which databases wait for their device.
#[derive(Debug, Default)]
pub struct Paces {
    are_slow: [bool; DATABASES],
}

impl Paces {
    /// Notes how long a lookup took.
    pub fn note(&mut self, database: usize, pace: Pace) {
        if let Some(is_slow) = self.are_slow.get_mut(database) {
            *is_slow = pace.is_slow();
        }
    }

    /// Returns whether the last lookup has waited.
    pub fn is_slow(&self, database: usize) -> bool {
        self.are_slow.get(database).copied().unwrap_or(false)
    }
}
