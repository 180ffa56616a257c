//! The circular log of cache mode (dissertation 5.3.3, "Circular Log" and "Handling dangling pointers").
//!
//! Items are appended at the tail and overwrite the oldest ones; the index is not updated. Offsets are numbers of a
//! space that is many times longer than the log. An offset that is more than the length of the log before the tail
//! points to an overwritten item:
//!
//! ```text
//! wide space   0 ................... | live: log_words | tail ............ wide
//!              dangling                               next item; dangling offsets of the previous round
//! place of an offset in memory: offset modulo log_words
//! ```
//!
//! Offsets wrap around at the end of the wide space. Before an old offset would appear live again, all buckets must
//! have been swept: after each append, the log returns how many are due.
//!
//! Deviations: offsets have 32 bits and count words of 8 bytes, so the wide space has 32 GiB, where the prototype's has
//! 2^48 bytes; sweeps are accordingly more frequent (one bucket per KiB appended to a full partition, which is
//! negligible). The log's length may be any number of pages, because the wide space is a multiple of it. An item that
//! does not fit before the end, even with the pages mapped there a second time, starts at the beginning.

use super::{Full, Space};
use siltstone_device::Pages;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The first words of the log, which are mapped a second time after its end: an item of at most this length may extend
/// over the end.
const TWICE_WORDS: usize = 2048;
/// The maximum length of a log, in words: 16 GiB, half of the offsets.
pub(super) const LOG_WORDS_MAX: u64 = 1 << 31;
/// The unit of a log's length, in words: a page.
pub(super) const LOG_WORDS_MULTIPLE: u64 = 512;

/// Which items a full cache evicts. Gets and puts of an item are its uses. A put whose value does not fit in place
/// appends the item under every policy.
///
/// A thread that does not own the partition appends an item that it read only if no writer is in the partition at that
/// moment: the policy sees a sample of those gets. No thread of a database owns a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Eviction {
    /// The item that was inserted first.
    Fifo,
    /// The least recently used item: each use appends the item again, so a get costs a copy in the log.
    Lru,
    /// Approximately the least recently used item: a use appends the item again if it is in the older half of the log.
    #[default]
    ApproximateLru,
    /// A use appends the item again if it is in the oldest quarter of the log. Fewer items are in the log twice than
    /// with `ApproximateLru`, but rarely used items are evicted sooner.
    SecondChance,
}

impl Eviction {
    /// All policies.
    pub const ALL: [Eviction; 4] =
        [Eviction::Fifo, Eviction::Lru, Eviction::ApproximateLru, Eviction::SecondChance];

    /// Returns the name, as typed on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Eviction::Fifo => "fifo",
            Eviction::Lru => "lru",
            Eviction::ApproximateLru => "approximate_lru",
            Eviction::SecondChance => "second_chance",
        }
    }
}

/// A circular log.
pub struct CircularLog {
    pages: Pages,
    log_words: u32,
    /// The length of the wide space: a multiple of the log's length, at most 2^32.
    wide: u64,
    /// Where the next item begins, in the wide space.
    tail: AtomicU64,
    eviction: Eviction,
    /// The number of buckets that sweeps visit while the tail passes half of the dangling range.
    buckets: u64,
}

/// The progress of sweeps.
#[derive(Debug, Default)]
pub struct Sweep {
    /// Words appended, times buckets, that no sweep has covered yet.
    owed: u64,
    next_bucket: u32,
    /// The number of words of the log that were ever written.
    touched: u32,
}

impl CircularLog {
    /// Makes a log of `log_words`, at most 2^31 and complete pages, with offsets of `offset_bits`: 32, fewer in tests.
    pub fn new(log_words: u64, offset_bits: u32, buckets: u32, eviction: Eviction) -> crate::Result<Self> {
        let pages = Pages::circular(log_words as usize, TWICE_WORDS)?;
        // A multiple of the length, so an offset keeps its place in the log when the wide space wraps around.
        let wide = (1 << offset_bits) / log_words * log_words;
        let (log_words, buckets) = (log_words as u32, u64::from(buckets));
        Ok(CircularLog { pages, log_words, wide, tail: AtomicU64::new(0), eviction, buckets })
    }
}

impl Space for CircularLog {
    type State = Sweep;
    const LOSSY: bool = true;

    fn pages(&self) -> &Pages {
        &self.pages
    }

    #[inline]
    fn first_word(&self, offset: u32) -> usize {
        (offset % self.log_words) as usize
    }

    /// Returns the words appended after this offset. The offset points to no item if they are 0 or more than the log
    /// has.
    #[inline]
    fn age(&self, offset: u32) -> u32 {
        let (tail, offset) = (self.tail.load(Ordering::Relaxed), u64::from(offset));
        (if tail >= offset { tail - offset } else { tail + self.wide - offset }) as u32
    }

    #[inline]
    fn is_live(&self, offset: u32) -> bool {
        // An age of 0 is the tail, which has no item: less 1 it becomes the highest number.
        self.age(offset).wrapping_sub(1) < self.log_words
    }

    #[inline]
    fn is_fading(&self, offset: u32) -> bool {
        match self.eviction {
            Eviction::Fifo => false,
            Eviction::Lru => true,
            Eviction::ApproximateLru => self.age(offset) > self.log_words / 2,
            Eviction::SecondChance => self.age(offset) > self.log_words / 4 * 3,
        }
    }

    /// Moves the tail before the item is written, so a reader of the item that is overwritten detects it: its offset is
    /// no longer live.
    #[inline]
    fn reserve(&self, sweep: &mut Sweep, words: u32) -> Result<u32, Full> {
        if words > self.log_words {
            return Err(Full::Item);
        }
        // The caller has the state of the writers, so no other thread moves the tail.
        let tail = self.tail.load(Ordering::Relaxed);
        let first = self.first_word(tail as u32);
        // An item is contiguous. The rest of the log is skipped if the item does not fit there.
        let skipped =
            if first + words as usize > self.pages.len() { self.log_words as usize - first } else { 0 };
        let place = (tail + skipped as u64) % self.wide;
        self.tail.store((place + u64::from(words)) % self.wide, Ordering::Relaxed);
        // Orders the new tail before the words of the item, for the second look of a reader at the tail.
        fence(Ordering::Release);
        // What is skipped makes offsets dangle, too.
        sweep.owed += (u64::from(words) + skipped as u64) * self.buckets;
        let end = if skipped > 0 { self.log_words } else { (first as u32).saturating_add(words) };
        sweep.touched = sweep.touched.max(end.min(self.log_words));
        Ok(place as u32)
    }

    fn due(&self, sweep: &mut Sweep) -> Range<u32> {
        // A bucket is visited twice while an offset dangles, so one that was just passed is in time too.
        let span = (self.wide - u64::from(self.log_words)) / 2;
        let first = sweep.next_bucket;
        if sweep.owed < span {
            return first..first;
        }
        let count = (sweep.owed / span).min(self.buckets) as u32;
        // The span is not 0: the settings allow a log at most half of the offsets.
        sweep.owed %= span;
        sweep.next_bucket = ((u64::from(first) + u64::from(count)) % self.buckets) as u32;
        first..first + count
    }

    fn state_bytes(&self) -> u64 {
        size_of::<Sweep>() as u64
    }
}

impl Sweep {
    /// Returns the bytes of the log that were touched: all of it after the first round.
    pub(super) fn touched_bytes(&self) -> u64 {
        u64::from(self.touched) * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_live_until_the_log_has_gone_round_once() {
        let log = CircularLog::new(512, 12, 8, Eviction::Fifo).unwrap();
        let mut sweep = Sweep::default();
        let mut places = Vec::new();
        for _ in 0..5_000 {
            let place = log.reserve(&mut sweep, 4).unwrap();
            places.push(place);
            assert!(u64::from(place) < log.wide && log.first_word(place) + 4 <= log.pages.len());
            let recent = places.len().saturating_sub(128);
            assert!(places[recent..].iter().all(|place| log.is_live(*place)));
            assert!(recent == 0 || !log.is_live(places[recent - 1]));
        }
        assert_eq!(log.reserve(&mut sweep, 513), Err(Full::Item));
    }

    #[test]
    fn all_buckets_are_due_before_offsets_wrap_around() {
        for (bits, buckets) in [(10, 8), (12, 3), (16, 1000), (11, 50_000)] {
            let log = CircularLog::new(512, bits, buckets, Eviction::Fifo).unwrap();
            let mut sweep = Sweep::default();
            let (mut swept, mut appended) = (0u64, 0);
            while appended < log.wide - 512 {
                log.reserve(&mut sweep, 3).unwrap();
                appended += 3;
                swept += log.due(&mut sweep).len() as u64;
            }
            assert!(swept >= u64::from(buckets), "{bits} bits: {swept} of {buckets}");
        }
    }

    #[test]
    fn an_item_begins_where_the_last_one_ends_or_at_the_beginning_if_it_does_not_fit_before_the_end() {
        for (bits, buckets) in [(15, 10), (16, 5_000)] {
            let log = CircularLog::new(8192, bits, buckets, Eviction::Fifo).unwrap();
            let mut sweep = Sweep::default();
            let (mut end, mut swept, mut passed, mut starts) = (0u64, 0, 0, 0);
            for round in 0..2_000u32 {
                let words = 1 + round * 977 % 5_000;
                let place = u64::from(log.reserve(&mut sweep, words).unwrap());
                let first = log.first_word(place as u32);
                assert!(place < log.wide && first + words as usize <= log.pages.len());
                let skipped = (place + log.wide - end) % log.wide;
                if skipped > 0 {
                    assert!(first == 0 && 8192 - skipped + u64::from(words) > log.pages.len() as u64);
                    starts += 1;
                }
                passed += skipped + u64::from(words);
                end = (place + u64::from(words)) % log.wide;
                assert_eq!(log.age(place as u32), words);
                swept += log.due(&mut sweep).len() as u64;
            }
            assert!(starts > 50);
            // Each bucket is swept twice while the tail passes the offsets that dangle.
            let due = 2 * passed * u64::from(buckets) / (log.wide - 8192);
            assert!((due - 1..=due).contains(&swept), "{swept} of {due}");
        }
    }

    #[test]
    fn an_item_may_extend_over_the_end_as_far_as_the_log_is_mapped_twice_and_no_further() {
        for (second, place) in [(5_240, 5_000), (5_241, 8_192)] {
            let log = CircularLog::new(8192, 15, 1, Eviction::Fifo).unwrap();
            let mut sweep = Sweep::default();
            assert_eq!(log.pages.len(), 8192 + TWICE_WORDS);
            assert_eq!([5_000, second].map(|words| log.reserve(&mut sweep, words)), [Ok(0), Ok(place)]);
            assert_eq!(sweep.touched_bytes(), 8192 * 8);
        }
    }

    #[test]
    fn policies_have_the_names_that_are_typed() {
        let names = Eviction::ALL.map(Eviction::name);
        assert_eq!(names, ["fifo", "lru", "approximate_lru", "second_chance"]);
    }

    #[test]
    fn only_policies_that_look_at_the_age_reinsert() {
        for (eviction, young, old) in [
            (Eviction::Fifo, false, false),
            (Eviction::Lru, true, true),
            (Eviction::ApproximateLru, false, true),
            (Eviction::SecondChance, false, false),
        ] {
            let log = CircularLog::new(512, 32, 8, eviction).unwrap();
            let mut sweep = Sweep::default();
            let place = log.reserve(&mut sweep, 4).unwrap();
            assert_eq!(log.is_fading(place), young);
            // Half of the log, and three quarters of it: only what is older is in the oldest half or quarter.
            let limits = [("approximate_lru", 256), ("second_chance", 384)];
            for (_, limit) in limits.into_iter().filter(|(name, _)| *name == eviction.name()) {
                let log = CircularLog::new(512, 32, 8, eviction).unwrap();
                log.reserve(&mut sweep, limit).unwrap();
                assert!(!log.is_fading(0));
                log.reserve(&mut sweep, 1).unwrap();
                assert!(log.is_fading(0));
            }
            log.reserve(&mut sweep, 300).unwrap();
            assert_eq!(log.is_fading(place), old);
            log.reserve(&mut sweep, 100).unwrap();
            assert_eq!(log.is_fading(place), eviction != Eviction::Fifo);
        }
    }
}
