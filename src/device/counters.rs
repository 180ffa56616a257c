//! Counts of operations and bytes, by purpose: the second of the three accounts.

use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What an operation on the device is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// Answering a lookup.
    Get,
    /// Reading the log to see whether a key that is written stands in it already.
    Put,
    /// Appending to the log.
    Log,
    /// Making a HashStore of a LogStore.
    Convert,
    /// Merging HashStores into a SortedStore.
    Merge,
    /// Naming the live files.
    Manifest,
    /// Opening a database.
    Recover,
    /// Iterating over all records.
    Iterate,
    /// Checking, repairing, exporting, building dictionaries.
    Maintain,
}

impl Purpose {
    /// All purposes, in the order of their display.
    pub const ALL: [Purpose; 9] = [
        Purpose::Get,
        Purpose::Put,
        Purpose::Log,
        Purpose::Convert,
        Purpose::Merge,
        Purpose::Manifest,
        Purpose::Recover,
        Purpose::Iterate,
        Purpose::Maintain,
    ];

    /// The purpose's name, as it stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Get => "get",
            Purpose::Put => "put",
            Purpose::Log => "log",
            Purpose::Convert => "convert",
            Purpose::Merge => "merge",
            Purpose::Manifest => "manifest",
            Purpose::Recover => "recover",
            Purpose::Iterate => "iterate",
            Purpose::Maintain => "maintain",
        }
    }
}

#[derive(Default)]
struct Cell {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    write_bytes: AtomicU64,
    syncs: AtomicU64,
}

/// The running counts of a directory and all its files. Shared; counting costs two relaxed additions.
#[derive(Default)]
pub struct IoCounters {
    cells: [Cell; Purpose::ALL.len()],
}

impl IoCounters {
    pub(super) fn read(&self, purpose: Purpose, bytes: usize) {
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

    /// The counts of this moment.
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
        snapshot
    }
}

/// Operations and bytes for one purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoCount {
    /// Reads asked of the device.
    pub reads: u64,
    /// Bytes that they fetched, alignment included.
    pub read_bytes: u64,
    /// Writes asked of the device.
    pub writes: u64,
    /// Bytes that they carried, padding included.
    pub write_bytes: u64,
    /// Syncs of files and directories.
    pub syncs: u64,
}

/// The counts of one moment; the difference of two is what happened between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoSnapshot {
    counts: [IoCount; Purpose::ALL.len()],
}

impl IoSnapshot {
    /// What was done for one purpose.
    pub fn of(&self, purpose: Purpose) -> IoCount {
        self.counts[purpose as usize]
    }

    /// What was done for all purposes together.
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
