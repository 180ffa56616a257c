//! How long commands take, and how many requests a turn has.
//!
//! What is measured is the time of the execution that a request was part of: from its begin until all of its replies
//! are there. Requests that are executed together, such as all reads of a turn, have the same time, which is that of
//! all of them. The time on the network, and in queues before the execution, is not a part of it.
//!
//! ```text
//! turn    GET a, GET b, INCR c, PING        4 requests
//! lookup  GET a, GET b       30 us          get: 2 x 30 us
//! update  INCR c             12 us          incr: 1 x 12 us
//! ```
//!
//! Each worker has counters of its own, which are added when they are read. So they are updated without a lock, and
//! once for several requests of the same command. A histogram has powers of two as bounds, which are those that Redis
//! shows by LATENCY HISTOGRAM.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The number of bounds of a histogram.
const BOUNDS: usize = 24;

/// The first bound of times, in nanoseconds. The last one is 8.6 seconds.
const FIRST_BOUND_NS: u64 = 1024;

/// The numbers of values by size.
#[derive(Debug)]
struct Histogram {
    /// By their bounds; those above the last bound are the last number.
    counts: [AtomicU64; BOUNDS + 1],
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: [const { AtomicU64::new(0) }; BOUNDS + 1], sum: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Adds a value several times. A value is counted at the first bound that it is not above.
    fn add(&self, value: u64, first_bound: u64, times: u64) {
        let above = value.saturating_sub(1) / first_bound;
        let at = (u64::BITS - above.leading_zeros()) as usize;
        self.counts[at.min(BOUNDS)].fetch_add(times, Relaxed);
        self.sum.fetch_add(value.saturating_mul(times), Relaxed);
    }

    fn reset(&self) {
        self.counts.iter().chain([&self.sum]).for_each(|counter| counter.store(0, Relaxed));
    }
}

/// A histogram that was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Distribution {
    /// Bounds, and the number of values up to each.
    pub cumulative: Vec<(u64, u64)>,
    /// The number of values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
}

impl Distribution {
    fn of<'a>(histograms: impl Iterator<Item = &'a Histogram>, first_bound: u64) -> Distribution {
        let (mut counts, mut sum) = ([0; BOUNDS + 1], 0);
        for histogram in histograms {
            let all = counts.iter_mut().zip(&histogram.counts);
            all.for_each(|(count, counter)| *count += counter.load(Relaxed));
            sum += histogram.sum.load(Relaxed);
        }
        let mut count = 0;
        let cumulative = counts[..BOUNDS].iter().enumerate().map(|(at, number)| {
            count += number;
            (first_bound << at, count)
        });
        let cumulative = cumulative.collect();
        Distribution { cumulative, count: count + counts[BOUNDS], sum }
    }
}

/// The counters of a worker.
#[derive(Debug)]
struct Shard {
    /// By the numbers of the commands.
    commands: Vec<Histogram>,
    turns: Histogram,
}

/// The counters of all workers.
#[derive(Debug)]
pub struct Measures {
    shards: Vec<Shard>,
}

/// The commands of an execution. Equal ones that follow each other take no memory.
#[derive(Debug, Default)]
pub struct Tally {
    last: Option<(usize, u64)>,
    others: Vec<(usize, u64)>,
}

impl Tally {
    /// Adds a request, by the number of its command.
    pub fn add(&mut self, command: usize) {
        match &mut self.last {
            Some((last, times)) if *last == command => *times += 1,
            last => self.others.extend(last.replace((command, 1))),
        }
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.others.iter().chain(&self.last).map(|(_, times)| times).sum()
    }
}

impl Measures {
    /// Makes the counters for these numbers of workers and commands.
    pub fn new(workers: usize, commands: usize) -> Measures {
        let shard = |_| Shard {
            commands: (0..commands).map(|_| Histogram::default()).collect(),
            turns: Histogram::default(),
        };
        Measures { shards: (0..workers).map(shard).collect() }
    }

    /// Notes how long requests took that were executed together.
    pub fn note(&self, worker: usize, tally: &Tally, time: Duration) {
        let Some(shard) = self.shards.get(worker) else { return };
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        for (command, times) in tally.others.iter().chain(&tally.last) {
            if let Some(histogram) = shard.commands.get(*command) {
                histogram.add(time_ns, FIRST_BOUND_NS, *times);
            }
        }
    }

    /// Notes how many requests a turn had. One without requests does not count.
    pub fn note_turn(&self, worker: usize, requests: usize) {
        if let Some(shard) = self.shards.get(worker).filter(|_| requests > 0) {
            shard.turns.add(requests as u64, 1, 1);
        }
    }

    /// Returns the times of a command, in nanoseconds.
    pub fn times_ns(&self, command: usize) -> Distribution {
        let of_command = self.shards.iter().filter_map(|shard| shard.commands.get(command));
        Distribution::of(of_command, FIRST_BOUND_NS)
    }

    /// Returns the numbers of requests of the turns.
    pub fn turns(&self) -> Distribution {
        Distribution::of(self.shards.iter().map(|shard| &shard.turns), 1)
    }

    /// Sets the times of all commands to none.
    pub fn reset(&self) {
        for shard in &self.shards {
            shard.commands.iter().for_each(Histogram::reset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_at_the_first_bound_that_they_are_not_above() {
        let measures = Measures::new(2, 3);
        let mut tally = Tally::default();
        [1, 1, 2, 1].into_iter().for_each(|command| tally.add(command));
        assert_eq!(tally.requests(), 4);
        for (worker, time_ns) in [(0, 1024), (1, 1025), (0, 2048), (1, 2049)] {
            measures.note(worker, &tally, Duration::from_nanos(time_ns));
        }
        measures.note(0, &tally, Duration::from_secs(100));
        let found = measures.times_ns(1);
        assert_eq!(found.cumulative[..4], [(1024, 3), (2048, 9), (4096, 12), (8192, 12)]);
        assert_eq!(found.cumulative.last(), Some(&(1024 << 23, 12)));
        assert_eq!((found.count, measures.times_ns(2).count, measures.times_ns(0).count), (15, 5, 0));
        measures.reset();
        assert_eq!(measures.times_ns(1).count, 0);
    }

    #[test]
    fn turns_are_counted_by_their_numbers_of_requests() {
        let measures = Measures::new(1, 0);
        [0, 1, 2, 3, 500].into_iter().for_each(|requests| measures.note_turn(0, requests));
        let turns = measures.turns();
        assert_eq!(turns.cumulative[..4], [(1, 1), (2, 2), (4, 3), (8, 3)]);
        assert_eq!((turns.count, turns.sum), (4, 506));
    }
}
