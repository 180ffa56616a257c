//! When the expired items of a partition are removed.

use crate::TimestampMs;

/// The minimum time between two collections.
const INTERVAL_MS: u64 = 1_000;

/// Limits how often the expired items of a full partition are removed: the search reads the complete index.
#[derive(Debug, Default)]
pub(super) struct CollectionTimer {
    last_ms: Option<TimestampMs>,
}

impl CollectionTimer {
    /// Returns whether expired items may be removed now. If so, the next collection is at least a second later.
    pub fn is_due(&mut self, now_ms: TimestampMs) -> bool {
        // A clock that was set back says nothing of the time since, and a full partition must not wait for it.
        let has_passed = |last_ms| now_ms < last_ms || now_ms - last_ms >= INTERVAL_MS;
        let is_due = self.last_ms.is_none_or(has_passed);
        if is_due {
            self.last_ms = Some(now_ms);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_are_a_second_apart() {
        let mut timer = CollectionTimer::default();
        let due = [5, 5, 6, 1_004, 1_005, 2_000, 2_005].map(|now_ms| timer.is_due(now_ms));
        assert_eq!(due, [true, false, false, false, true, false, true]);
    }

    #[test]
    fn after_the_clock_was_set_back_collections_continue() {
        let mut timer = CollectionTimer::default();
        let due = [1_000_000, 5_000, 5_999, 6_000].map(|now_ms| timer.is_due(now_ms));
        assert_eq!(due, [true, true, false, true]);
    }
}
