//! Limits how many bytes a kind of background job reads and writes per second (SILT 6.1).
//!
//! After each step the bytes that it has read and written are charged. The next step waits until they are paid at the
//! limited rate. So the bytes of any period are at most those of the rate, of [`BURST_US`], and of one step.
//!
//! Besides the automatic pace (`scheduler`), `convert_bytes_per_s` and `merge_bytes_per_s` limit what conversions and
//! merges read and write per second. A step is charged what it has moved, and the next step of that kind finds nothing
//! to do until it is paid. As work then falls behind, its pressure rises and delays writers: no put waits for longer
//! than the limited work takes, but all writers together become as slow as that work.

use crate::batch::{TimestampMs, has_passed};
use siltstone_device::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A rate that is not used can be used this much later, in microseconds: workers look for work every 50 ms.
const BURST_US: u64 = 100_000;

/// The rate of one kind of job. One thread at a time charges it.
pub(super) struct Rate {
    /// 0 for no limit.
    bytes_per_s: u64,
    charged_at_ms: AtomicU64,
    /// When all bytes are paid.
    paid_at_us: AtomicU64,
}

impl Rate {
    pub fn new(bytes_per_s: u64) -> Rate {
        Rate { bytes_per_s, charged_at_ms: AtomicU64::new(0), paid_at_us: AtomicU64::new(0) }
    }

    /// Returns whether a step may begin. A clock that was set back is not waited for.
    pub fn allows(&self, now_ms: TimestampMs) -> bool {
        let charged_at_ms = self.charged_at_ms.load(Relaxed);
        let wait_ms = self.paid_at_us.load(Relaxed).div_ceil(1000).saturating_sub(charged_at_ms);
        self.bytes_per_s == 0 || has_passed(charged_at_ms, wait_ms, now_ms)
    }

    /// Charges the bytes of a step.
    pub fn charge(&self, now_ms: TimestampMs, bytes: u64) {
        if self.bytes_per_s == 0 {
            return;
        }
        let now_us = now_ms.saturating_mul(1000);
        let was_set_back = now_ms < self.charged_at_ms.swap(now_ms, Relaxed);
        let paid_at_us = if was_set_back { 0 } else { self.paid_at_us.load(Relaxed) };
        let cost_us = u128::from(bytes) * 1_000_000 / u128::from(self.bytes_per_s);
        // Time that passed without work counts only up to the burst: a pause must not allow any number of bytes.
        let from_us = paid_at_us.max(now_us.saturating_sub(BURST_US));
        let until_us = from_us.saturating_add(u64::try_from(cost_us).unwrap_or(u64::MAX));
        self.paid_at_us.store(until_us, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes of steps of 1,000 bytes each, one attempt per millisecond.
    fn moved(rate: &Rate, times_ms: std::ops::Range<u64>) -> u64 {
        let mut bytes = 0;
        for now_ms in times_ms {
            while bytes < 1 << 30 && rate.allows(now_ms) {
                rate.charge(now_ms, 1_000);
                bytes += 1_000;
            }
        }
        bytes
    }

    #[test]
    fn the_bytes_of_a_period_are_those_of_the_rate_and_a_burst() {
        let rate = Rate::new(500_000);
        assert!((5_050_000..=5_052_000).contains(&moved(&rate, 1_000_000..1_010_000)));
        assert!((499_000..=501_000).contains(&moved(&rate, 1_010_000..1_011_000)));
        let after_a_pause = moved(&rate, 2_000_000..2_001_000);
        assert!((550_000..=552_000).contains(&after_a_pause), "{after_a_pause}");
    }

    #[test]
    fn without_a_limit_every_step_is_allowed() {
        assert_eq!(moved(&Rate::new(0), 5..6), (1 << 30) + 1_000 - (1 << 30) % 1_000);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_stop_the_work() {
        let rate = Rate::new(1_000);
        rate.charge(1_000_000_000, 5_000_000);
        assert!(!rate.allows(1_000_000_001));
        assert!(rate.allows(996_400_000));
        rate.charge(996_400_000, 1_000);
        assert!(rate.allows(996_401_000));
    }
}
