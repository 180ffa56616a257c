//! The budget of a cache for what is written to its device, in bytes per second.
//!
//! Puts are admitted with a probability that follows the bytes that were written: all of them, also those of
//! background work. So a record that is put again and again is admitted sooner or later, and one that is put once
//! mostly is not. CacheLib controls its writes in the same way (`DynamicRandomAP`); there the probability also depends
//! on the size of a record.

use crate::batch::{TimestampMs, has_passed};
use siltstone_device::sync::Mutex;
use siltstone_device::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The time between two changes of the probability.
const INTERVAL_MS: u64 = 1_000;
/// The time in which too many bytes, or too few, are made up for.
const HORIZON_S: f64 = 30.0;
/// What remains of the smoothed cost with each change of the probability.
const REMAINS: f64 = 0.9;
/// The least probability.
const PROBABILITY_MIN: f64 = 1.0 / 4096.0;
/// The probability 1.
const CERTAIN: u64 = 1 << 32;

/// A budget, and the probability that keeps it.
pub(in crate::engine) struct WriteBudget {
    bytes_per_s: f64,
    /// The probability of admission, of [`CERTAIN`].
    probability: AtomicU64,
    /// The number of puts so far, from which random numbers are made.
    draws: AtomicU64,
    /// When the probability changed last.
    adjusted_ms: AtomicU64,
    present: Mutex<Present>,
    /// The number of rejected calls.
    pub rejected: AtomicU64,
}

/// The state at the last change.
#[derive(Default)]
struct Present {
    at_ms: Option<TimestampMs>,
    written: u64,
    /// The bytes written beyond the budget.
    excess: f64,
    /// The bytes written, and the seconds times the probability in which they were, both smoothed.
    bytes: f64,
    admitting_s: f64,
}

impl WriteBudget {
    /// Makes a budget; `None` for 0 bytes.
    pub fn new(bytes_per_s: u64) -> Option<WriteBudget> {
        (bytes_per_s > 0).then(|| WriteBudget {
            bytes_per_s: bytes_per_s as f64,
            probability: AtomicU64::new(CERTAIN),
            draws: AtomicU64::new(0),
            adjusted_ms: AtomicU64::new(0),
            present: Mutex::new(Present::default()),
            rejected: AtomicU64::new(0),
        })
    }

    /// Returns whether a put is admitted. `written` returns the bytes that were written to the device so far.
    pub fn admits(&self, now_ms: TimestampMs, written: impl FnOnce() -> u64) -> bool {
        if has_passed(self.adjusted_ms.load(Relaxed), INTERVAL_MS, now_ms) {
            self.adjust(now_ms, written());
        }
        let is_admitted = random(self.draws.fetch_add(1, Relaxed)) < self.probability.load(Relaxed);
        self.rejected.fetch_add(u64::from(!is_admitted), Relaxed);
        is_admitted
    }

    fn adjust(&self, now_ms: TimestampMs, written: u64) {
        let mut present = self.present.lock();
        // Again under the lock: of several threads that came here, one changes the probability.
        if !has_passed(self.adjusted_ms.load(Relaxed), INTERVAL_MS, now_ms) {
            return;
        }
        self.adjusted_ms.store(now_ms, Relaxed);
        let before = std::mem::replace(&mut present.written, written);
        // If the clock was set back, the length of the interval is not known.
        let Some(since_ms) = present.at_ms.replace(now_ms).filter(|since_ms| *since_ms < now_ms) else {
            return;
        };
        let seconds = (now_ms - since_ms) as f64 / 1_000.0;
        let bytes = written.saturating_sub(before) as f64;
        let excess = present.excess + bytes - self.bytes_per_s * seconds;
        // What was not used is not saved for later.
        present.excess = excess.max(0.0);
        let wanted = (self.bytes_per_s - present.excess / HORIZON_S).max(0.0);
        let probability = self.probability.load(Relaxed) as f64 / CERTAIN as f64;
        present.bytes = REMAINS * present.bytes + bytes;
        present.admitting_s = REMAINS * present.admitting_s + probability * seconds;
        // What is written per second if every put is admitted.
        let demand = present.bytes / present.admitting_s.max(f64::MIN_POSITIVE);
        let probability = (wanted / demand.max(1.0)).clamp(PROBABILITY_MIN, 1.0);
        self.probability.store((probability * CERTAIN as f64) as u64, Relaxed);
    }
}

/// Returns a number below [`CERTAIN`] that looks random (SplitMix64).
fn random(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts of 100 bytes, one per millisecond. Returns the bytes per second of the second half.
    fn rate(bytes_per_s: u64, seconds: u64) -> f64 {
        let budget = WriteBudget::new(bytes_per_s).unwrap();
        let (mut written, mut half) = (0, 0);
        for ms in 0..seconds * 1_000 {
            if ms == seconds * 500 {
                half = written;
            }
            written += if budget.admits(ms, || written) { 100 } else { 5 };
        }
        (written - half) as f64 / (seconds as f64 / 2.0)
    }

    #[test]
    fn the_bytes_written_follow_the_budget_and_nothing_is_rejected_below_it() {
        for budget in [10_000, 20_000, 50_000, 80_000] {
            let rate = rate(budget, 200) / budget as f64;
            assert!((0.95..1.03).contains(&rate), "{budget}: {rate}");
        }
        assert_eq!(rate(100_000, 100), 100_000.0);
    }

    #[test]
    fn a_clock_that_is_set_back_changes_nothing_for_longer_than_an_interval() {
        let budget = WriteBudget::new(20_000).unwrap();
        let (mut written, mut before) = (0, 0);
        for ms in 0..100_000 {
            // Set back by an hour when it is half over.
            let now_ms = if ms < 50_000 { 7_200_000 + ms } else { 3_600_000 + ms };
            if ms == 50_000 {
                before = written;
            }
            written += if budget.admits(now_ms, || written) { 100 } else { 5 };
        }
        let rate = (written - before) as f64 / 50.0;
        assert!((0.95..1.1).contains(&(rate / 20_000.0)), "{rate}");
    }

    #[test]
    fn there_is_no_budget_of_no_bytes() {
        assert!(WriteBudget::new(0).is_none());
    }
}
