//! Counters of operations and bytes by purpose: the I/O account.

use super::striped::Striped;
use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The purpose of a device operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// A lookup.
    Get,
    /// Reading the log to find out whether it has a record of the key that is written.
    Put,
    /// Appending to the log.
    Log,
    /// Making a HashStore of a LogStore.
    Convert,
    /// Merging HashStores into a SortedStore.
    Merge,
    /// Moving records together to free the space of dead ones, and finding the dead ones.
    Collect,
    /// Writing the changes of an index, and saving it.
    Index,
    /// Recording the live files in the manifest.
    Manifest,
    /// Opening a database.
    Recover,
    /// Iterating over records.
    Iterate,
    /// Verifying, repairing, exporting, building dictionaries.
    Maintain,
}

impl Purpose {
    /// All purposes, in display order.
    #[doc(hidden)]
    pub const ALL: [Purpose; 11] = [
        Purpose::Get,
        Purpose::Put,
        Purpose::Log,
        Purpose::Convert,
        Purpose::Merge,
        Purpose::Collect,
        Purpose::Index,
        Purpose::Manifest,
        Purpose::Recover,
        Purpose::Iterate,
        Purpose::Maintain,
    ];

    /// Returns the name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Get => "get",
            Purpose::Put => "put",
            Purpose::Log => "log",
            Purpose::Convert => "convert",
            Purpose::Merge => "merge",
            Purpose::Collect => "collect",
            Purpose::Index => "index",
            Purpose::Manifest => "manifest",
            Purpose::Recover => "recover",
            Purpose::Iterate => "iterate",
            Purpose::Maintain => "maintain",
        }
    }
}

/// In a cache line of its own: threads that work for different purposes do not wait for each other.
#[derive(Default)]
#[repr(align(64))]
struct Cell {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    write_bytes: AtomicU64,
    syncs: AtomicU64,
}

/// The counters of a directory and all its files, which share them. Counting an operation costs two relaxed additions.
#[derive(Default)]
pub struct IoCounters {
    cells: [Cell; Purpose::ALL.len()],
    /// The reads of gets, and their bytes: many threads get at the same time.
    gets: Striped<2>,
}

impl IoCounters {
    pub(super) fn read(&self, purpose: Purpose, bytes: usize) {
        if purpose == Purpose::Get {
            return self.gets.add([1, bytes as u64]);
        }
        let cell = &self.cells[purpose as usize];
        cell.reads.fetch_add(1, Relaxed);
        cell.read_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn write(&self, purpose: Purpose, bytes: usize) {
        let cell = &self.cells[purpose as usize];
        cell.writes.fetch_add(1, Relaxed);
        cell.write_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn sync(&self, purpose: Purpose) {
        self.cells[purpose as usize].syncs.fetch_add(1, Relaxed);
    }

    /// Returns the number of reads of gets.
    pub(super) fn gets(&self) -> u64 {
        self.gets.sums()[0]
    }

    /// Returns the present counts.
    pub fn snapshot(&self) -> IoSnapshot {
        let mut snapshot = IoSnapshot::default();
        for (count, cell) in snapshot.counts.iter_mut().zip(&self.cells) {
            *count = IoCount {
                reads: cell.reads.load(Relaxed),
                read_bytes: cell.read_bytes.load(Relaxed),
                writes: cell.writes.load(Relaxed),
                write_bytes: cell.write_bytes.load(Relaxed),
                syncs: cell.syncs.load(Relaxed),
            };
        }
        let [reads, read_bytes] = self.gets.sums();
        let gets = &mut snapshot.counts[Purpose::Get as usize];
        (gets.reads, gets.read_bytes) = (reads, read_bytes);
        snapshot
    }
}

/// Gets count as ended after this many checks without one.
const CHECKS_WITHOUT_GETS: u32 = 64;

/// Finds out whether gets read from a directory, for work that leaves them the drive.
#[derive(Default)]
pub(super) struct RecentGets {
    /// The number of reads of gets at the last check.
    gets: u64,
    /// The number of further checks after which gets count as ended, if none reads in the meantime.
    checks_left: u32,
}

impl RecentGets {
    /// Returns whether a get has read since one of the last checks.
    pub fn check(&mut self, counters: &IoCounters) -> bool {
        let gets = counters.gets();
        self.checks_left = match std::mem::replace(&mut self.gets, gets) == gets {
            true => self.checks_left.saturating_sub(1),
            false => CHECKS_WITHOUT_GETS,
        };
        self.checks_left > 0
    }
}

/// Operations and bytes of one purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoCount {
    /// The number of reads.
    pub reads: u64,
    /// The bytes read, including those read for alignment.
    pub read_bytes: u64,
    /// The number of writes.
    pub writes: u64,
    /// The bytes written, including padding.
    pub write_bytes: u64,
    /// The number of syncs of files and directories.
    pub syncs: u64,
}

/// The counts at one moment. The difference of two snapshots is what happened between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoSnapshot {
    counts: [IoCount; Purpose::ALL.len()],
}

impl IoSnapshot {
    /// Returns the counts of one purpose.
    pub fn of(&self, purpose: Purpose) -> IoCount {
        self.counts[purpose as usize]
    }

    /// Returns the sum over all purposes.
    pub fn total(&self) -> IoCount {
        self.counts.iter().fold(IoCount::default(), |sum, count| IoCount {
            reads: sum.reads + count.reads,
            read_bytes: sum.read_bytes + count.read_bytes,
            writes: sum.writes + count.writes,
            write_bytes: sum.write_bytes + count.write_bytes,
            syncs: sum.syncs + count.syncs,
        })
    }
}

impl Sub for IoSnapshot {
    type Output = IoSnapshot;

    fn sub(self, earlier: IoSnapshot) -> IoSnapshot {
        let mut difference = IoSnapshot::default();
        for (at, count) in difference.counts.iter_mut().enumerate() {
            let (now, then) = (self.counts[at], earlier.counts[at]);
            *count = IoCount {
                reads: now.reads.saturating_sub(then.reads),
                read_bytes: now.read_bytes.saturating_sub(then.read_bytes),
                writes: now.writes.saturating_sub(then.writes),
                write_bytes: now.write_bytes.saturating_sub(then.write_bytes),
                syncs: now.syncs.saturating_sub(then.syncs),
            };
        }
        difference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_has_its_counts_and_two_snapshots_differ_by_what_happened_between_them() {
        let counters = IoCounters::default();
        let add = |times: usize| {
            for (number, purpose) in Purpose::ALL.into_iter().enumerate() {
                assert_eq!(purpose as usize, number);
                for _ in 0..times {
                    counters.read(purpose, 10 + number);
                    counters.write(purpose, 100 + number);
                    counters.write(purpose, 0);
                    counters.sync(purpose);
                }
            }
        };
        let count = |times: u64, number: u64| IoCount {
            reads: times,
            read_bytes: times * (10 + number),
            writes: 2 * times,
            write_bytes: times * (100 + number),
            syncs: times,
        };
        add(1);
        let before = counters.snapshot();
        add(3);
        let after = counters.snapshot();
        for (number, purpose) in (0..).zip(Purpose::ALL) {
            assert_eq!(after.of(purpose), count(4, number), "{}", purpose.name());
            assert_eq!((after - before).of(purpose), count(3, number));
        }
        let sums = IoCount { reads: 44, read_bytes: 660, writes: 88, write_bytes: 4_620, syncs: 44 };
        assert_eq!(after.total(), sums);
    }

    #[test]
    fn gets_count_as_ended_some_checks_after_the_last_one() {
        let (counters, mut gets) = (IoCounters::default(), RecentGets::default());
        assert!(!gets.check(&counters));
        counters.read(Purpose::Merge, 1);
        assert!(!gets.check(&counters), "it was no get");
        for _ in 0..2 {
            counters.read(Purpose::Get, 1);
            assert!((0..CHECKS_WITHOUT_GETS).all(|_| gets.check(&counters)));
            assert!(!gets.check(&counters) && !gets.check(&counters));
        }
    }

    #[test]
    fn purposes_have_different_names() {
        let names: std::collections::BTreeSet<_> = Purpose::ALL.map(Purpose::name).into();
        assert_eq!((names.len(), names.first()), (Purpose::ALL.len(), Some(&"collect")));
    }
}
