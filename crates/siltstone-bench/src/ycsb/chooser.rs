//! Chooses the record of a request: YCSB's request distributions, and the counter of records that they depend on.

use super::zipfian::{ScrambledZipfian, ZIPFIAN_CONSTANT, Zipfian};
use crate::named;
use crate::random::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The distribution of requests over the records (YCSB's `requestdistribution`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// A few popular records, spread over all.
    Zipfian,
    /// The most recently inserted records are the most popular.
    Latest,
    /// All loaded records are equally popular.
    Uniform,
}

impl Distribution {
    /// All of them.
    pub const ALL: [Distribution; 3] = [Distribution::Zipfian, Distribution::Latest, Distribution::Uniform];

    /// Returns YCSB's name.
    pub fn name(self) -> &'static str {
        match self {
            Distribution::Zipfian => "zipfian",
            Distribution::Latest => "latest",
            Distribution::Uniform => "uniform",
        }
    }
}

named!(Distribution);

impl fmt::Display for Distribution {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// Chooses the numbers of records.
#[derive(Debug, Clone)]
pub enum Chooser {
    /// Among this many loaded records.
    Uniform(u64),
    /// Among the loaded records and twice the number of expected inserts, so that inserts do not change which records
    /// are popular. A record that does not exist yet is drawn again.
    Zipfian(ScrambledZipfian),
    /// By age.
    Latest(Zipfian),
}

impl Chooser {
    /// Creates a chooser for `records` loaded records (at least 1) and the expected number of `inserts`.
    /// [`Distribution::Latest`] takes about 10 ns per record.
    pub fn new(distribution: Distribution, records: u64, inserts: u64) -> Chooser {
        match distribution {
            Distribution::Uniform => Chooser::Uniform(records),
            Distribution::Zipfian => {
                let expected = inserts.saturating_mul(2);
                Chooser::Zipfian(ScrambledZipfian::new(records.saturating_add(expected).saturating_add(1)))
            }
            Distribution::Latest => {
                Chooser::Latest(Zipfian::new(records.saturating_sub(1), ZIPFIAN_CONSTANT))
            }
        }
    }

    /// Chooses a record up to `last`, the last existing one.
    pub fn choose(&mut self, last: u64, random: &mut Rng) -> u64 {
        loop {
            let number = match self {
                Chooser::Uniform(records) => random.u64(..*records),
                Chooser::Zipfian(scrambled) => scrambled.number(random.f64()),
                Chooser::Latest(zipfian) => latest(zipfian, last, random.f64()),
            };
            if number <= last {
                return number;
            }
        }
    }
}

/// As in YCSB, the last number itself is the number of ranks, so record 0 is never requested.
fn latest(zipfian: &mut Zipfian, last: u64, uniform: f64) -> u64 {
    zipfian.grow(last);
    last.saturating_sub(zipfian.rank(uniform))
}

/// Assigns numbers to new records, and tracks up to which number all records exist.
#[derive(Debug)]
pub struct Inserts {
    next: AtomicU64,
    last: AtomicU64,
    /// Records that were inserted before one with a lower number.
    early: Mutex<BinaryHeap<Reverse<u64>>>,
}

impl Inserts {
    /// Starts after `records` (at least 1) loaded records.
    pub fn new(records: u64) -> Inserts {
        Inserts {
            next: records.into(),
            last: AtomicU64::new(records.saturating_sub(1)),
            early: Mutex::default(),
        }
    }

    /// Returns the number of a record to insert.
    pub fn begin(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Marks the record as inserted.
    pub fn end(&self, number: u64) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.push(Reverse(number));
        let mut last = self.last.load(Ordering::Relaxed);
        while early.peek() == Some(&Reverse(last + 1)) {
            early.pop();
            last += 1;
        }
        // A reader that sees this number must find the record.
        self.last.store(last, Ordering::Release);
    }

    /// Returns the last record up to which all are known to exist.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    #[test]
    fn latest_draws_are_those_of_ycsb_during_inserts() {
        // What YCSB 0.17.0's `SkewedLatestGenerator` drew after 1000 records, with 50 inserts between the draws.
        let drawn = [
            (999, 0.22225171027495005, 997),
            (1049, 0.20390199951276822, 1047),
            (1099, 0.47029348092870527, 1080),
            (1149, 0.8712323963086444, 711),
            (1199, 0.4570617318186968, 1180),
            (1249, 0.4768045498147868, 1226),
            (1299, 0.31543955257892553, 1292),
            (1349, 0.34231032082118906, 1340),
            (1399, 0.5998276269671493, 1330),
            (1449, 0.7076862362967948, 1286),
        ];
        let Chooser::Latest(mut zipfian) = Chooser::new(Distribution::Latest, 1000, 0) else { panic!() };
        for (last, uniform, number) in drawn {
            assert_eq!(latest(&mut zipfian, last, uniform), number, "{last}, {uniform}");
        }
    }

    #[test]
    fn every_distribution_chooses_only_existing_records() {
        for distribution in Distribution::ALL {
            for records in [1, 2, 3, 100] {
                let mut chooser = Chooser::new(distribution, records, 50);
                let mut random = random::stream(records, 1);
                for last in (records - 1..records + 20).flat_map(|last| [last; 50]) {
                    assert!(chooser.choose(last, &mut random) <= last, "{distribution} of {records}");
                }
            }
        }
    }

    #[test]
    fn uniform_requests_are_even_and_only_for_loaded_records() {
        let mut chooser = Chooser::new(Distribution::Uniform, 10, 10);
        let (mut random, mut counts) = (random::stream(1, 1), [0; 10]);
        (0..100_000).for_each(|_| counts[chooser.choose(19, &mut random) as usize] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_latest_request_goes_by_age() {
        let mut chooser = Chooser::new(Distribution::Latest, 1000, 0);
        let (mut random, mut counts) = (random::stream(1, 1), [0u64; 1000]);
        let draws = 1_000_000;
        (0..draws).for_each(|_| counts[chooser.choose(999, &mut random) as usize] += 1);
        let weight = |rank: usize| (rank as f64 + 1.0).powf(-ZIPFIAN_CONSTANT);
        let sum: f64 = (0..999).map(weight).sum();
        for ages in [0..1, 1..2, 2..30, 30..200, 200..999] {
            let got: u64 = ages.clone().map(|age| counts[999 - age]).sum();
            let expected = draws as f64 * ages.clone().map(weight).sum::<f64>() / sum;
            assert!((got as f64 / expected - 1.0).abs() < 0.05, "{ages:?}: {got} for {expected}");
        }
        assert_eq!(counts[0], 0, "as in YCSB");
    }

    #[test]
    fn a_record_counts_when_all_before_it_exist() {
        let inserts = Inserts::new(10);
        let numbers = [inserts.begin(), inserts.begin(), inserts.begin()];
        assert_eq!((numbers, inserts.last()), ([10, 11, 12], 9));
        inserts.end(12);
        inserts.end(11);
        assert_eq!(inserts.last(), 9);
        inserts.end(10);
        assert_eq!(inserts.last(), 12);
    }
}
