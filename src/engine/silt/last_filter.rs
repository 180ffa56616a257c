//! How many bits the filter of a new SortedStore has. Without one, a lookup of a missing key reads the SortedStore.
//!
//! A number that was set is used. `auto` follows what the database is used for: it counts lookups and those of missing
//! keys, over windows of 4,096 lookups or more.
//!
//! ```text
//! share of missing keys      0 ---------- 3 % ---------- 10 % ---------- 100 %
//! the next merges build            none        as before       8 bits
//! ```
//!
//! A filter that saves few reads is not worth 8.4 bits of memory per key, which is several times what everything else
//! takes. The two limits keep merges from building and leaving out filters in turn. The counts of earlier opens are the
//! first window, so that a database which is opened again continues as it was.

use crate::engine::Lookups;
use siltstone_device::sync::Mutex;

/// The bits of a filter per key if `auto` builds one: 255 of 256 lookups of missing keys then read nothing.
const AUTO_BITS: u8 = 8;
/// The lookups of a window, at least.
const WINDOW: u64 = 4_096;
/// Filters are built when one lookup in this many, or more, is of a missing key.
const BUILD_SHARE: u64 = 10;
/// Filters are left out again when less than one lookup in this many is of a missing key.
const LEAVE_OUT_SHARE: u64 = 33;

/// Decides on the filters of new SortedStores.
pub(super) struct LastFilter {
    /// The bits that were set; `None` for `auto`.
    set: Option<u8>,
    lookups: Lookups,
    window: Mutex<Window>,
}

/// The counts at the beginning of a window, and what the window before has decided.
#[derive(Default)]
struct Window {
    gets: u64,
    misses: u64,
    pays: bool,
}

impl LastFilter {
    /// Decides by the setting, or for `None` by these counters.
    pub fn new(set: Option<u8>, lookups: Lookups) -> LastFilter {
        LastFilter { set, lookups, window: Mutex::default() }
    }

    /// Returns whether the number of bits is not set, so that a filter is built only where its memory is left over.
    pub fn is_auto(&self) -> bool {
        self.set.is_none()
    }

    /// Returns the bits per key of the filters that merges build now; 0 for none.
    pub fn bits(&self) -> u8 {
        if let Some(bits) = self.set {
            return bits;
        }
        let (gets, misses) = self.lookups.sum();
        let mut window = self.window.lock();
        let (new, missed) = (gets.saturating_sub(window.gets), misses.saturating_sub(window.misses));
        if new >= WINDOW {
            let share = if window.pays { LEAVE_OUT_SHARE } else { BUILD_SHARE };
            *window = Window { gets, misses, pays: missed.saturating_mul(share) >= new };
        }
        if window.pays { AUTO_BITS } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_follows_the_share_of_missing_keys_with_two_limits() {
        let lookups = Lookups::default();
        let filter = LastFilter::new(None, lookups.clone());
        let after = |gets, misses| {
            lookups.count(gets, misses);
            filter.bits()
        };
        // Too few to say anything, then too small a share, then enough, less, and hardly any.
        let bits = [
            after(4_000, 4_000),
            after(40_000, 0),
            after(10_000, 1_100),
            after(10_000, 400),
            after(10_000, 200),
        ];
        assert_eq!(bits, [0, 0, AUTO_BITS, AUTO_BITS, 0]);
        assert_eq!(after(10_000, 400), 0);
    }

    #[test]
    fn auto_continues_with_the_counts_of_earlier_opens() {
        let lookups = Lookups::default();
        let filter = LastFilter::new(None, lookups.clone());
        lookups.count(1_000_000, 500_000);
        assert_eq!(filter.bits(), AUTO_BITS);
    }

    #[test]
    fn a_number_that_is_set_does_not_depend_on_lookups() {
        let lookups = Lookups::default();
        lookups.count(100_000, 100_000);
        assert_eq!([0, 12].map(|bits| LastFilter::new(Some(bits), lookups.clone()).bits()), [0, 12]);
    }
}
