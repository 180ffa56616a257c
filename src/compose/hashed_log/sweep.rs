//! Sweeping: all pairs of the index are compared. Small records are read in the order of the segments, since that costs
//! less than a read of each; larger ones are confirmed one by one.
//!
//! ```text
//! collect    entries of equal hashes      segment 0: 7 93 201    segment 1: 4 18    ...    numbers of units
//! read       segment after segment        each gets the secret hash of its whole key
//! resolve    entries of equal hashes      equal hashes of keys: only the youngest remains
//! ```
//!
//! What was moved while it was read is left for the next sweep: an entry is resolved only if its record is still where
//! it was read.

use super::confirm::{Compared, compare, keep_youngest};
use super::indexed_logs::IndexedLogs;
use super::pairs::Pair;
use crate::Result;
use crate::device::Purpose;
use crate::store::data_logs::{DataView, Frames, Unit};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Records of more bytes than this, on average, are confirmed one by one.
pub const READ_BYTES_MAX: u64 = 512;
/// The number of entries that a step searches, and that it searches if it confirms.
const ENTRIES: usize = 16_384;
const CONFIRMED_ENTRIES: usize = 2_048;
/// The bytes of a segment that a step reads.
const PIECE_BYTES: u64 = 1 << 20;
/// The table of collected entries takes at most this share of the index, or this many bytes if that is more. The
/// entries that it has no space for are the next part of the sweep.
pub const TABLE_SHARE: usize = 4;
pub const TABLE_BYTES_MIN: usize = 64 << 10;

/// The segments with collected records, by class and base; each in the order of the units after it was read.
type Table = BTreeMap<(u8, u64), Vec<Doubtful>>;

/// A record whose key may be that of another entry.
struct Doubtful {
    /// The number of its unit in the segment.
    number: u32,
    /// The length of its frame, in bytes, and whether it is a tombstone; 0 bytes until it was read.
    bytes: u32,
    is_tombstone: bool,
    key_hash: u64,
}

/// A sweep of the whole index, part by part.
pub(super) struct Sweep {
    work: Work,
    table: Table,
    /// The first hash of the present part, and that after it, once it is known.
    from: u64,
    to: Option<u64>,
    /// The number of records in the table, and of those that were found again.
    collected: u64,
    found: u64,
    /// The number of pairs that were left out when the sweep began, and of the entries it has removed.
    left_out: u64,
    removed: u64,
}

enum Work {
    Search { next: u64 },
    Confirm { next: u64 },
    Collect { next: u64 },
    Read { last: Bound<(u8, u64)>, segment: Option<Box<Reading>> },
    Resolve { next: u64 },
}

/// A segment that is being read.
struct Reading {
    id: (u8, u64),
    frames: Frames,
    /// How many of its records were read.
    done: usize,
}

impl Sweep {
    pub fn begin(logs: &IndexedLogs) -> Sweep {
        let is_large = logs.live_bytes() > READ_BYTES_MAX * logs.entries();
        Sweep {
            work: if is_large { Work::Confirm { next: 0 } } else { Work::Collect { next: 0 } },
            table: Table::new(),
            from: 0,
            to: None,
            collected: 0,
            found: 0,
            left_out: logs.pairs.left_out(),
            removed: 0,
        }
    }

    /// Begins a search for all pairs, which are queued or counted, after an opening.
    pub fn search(logs: &IndexedLogs) -> Sweep {
        Sweep { work: Work::Search { next: 0 }, left_out: 0, ..Sweep::begin(logs) }
    }

    /// Returns whether this is a search.
    pub fn is_search(&self) -> bool {
        matches!(self.work, Work::Search { .. })
    }

    /// Returns the memory of the sweep, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let frames = match &self.work {
            Work::Read { segment: Some(reading), .. } => reading.frames.heap_bytes(),
            _ => 0,
        };
        let each = |records: &Vec<Doubtful>| records.capacity() * size_of::<Doubtful>() + 64;
        frames + self.table.values().map(each).sum::<usize>()
    }

    /// Executes one piece. Returns the sweep unless it is complete, and the number of entries that were removed.
    pub fn step(mut self, logs: &IndexedLogs) -> Result<(Option<Sweep>, u64)> {
        let before = self.removed;
        let next = match std::mem::replace(&mut self.work, Work::Collect { next: 0 }) {
            Work::Search { next } => search(logs, next)?,
            Work::Confirm { next } => self.confirm(logs, next)?,
            Work::Collect { next } => Some(self.collect(logs, next)?),
            Work::Read { last, segment } => Some(self.read(logs, last, segment)?),
            Work::Resolve { next } => self.resolve(logs, next)?,
        };
        let removed = self.removed - before;
        logs.pairs.resolve(removed);
        let Some(work) = next else {
            // Of all others one of the entries has gone in another way, except those that moved.
            logs.pairs.resolve(self.left_out.saturating_sub(self.removed));
            return Ok((None, removed));
        };
        self.work = work;
        Ok((Some(self), removed))
    }

    fn confirm(&mut self, logs: &IndexedLogs, next: u64) -> Result<Option<Work>> {
        let range = logs.index.range(next, CONFIRMED_ENTRIES)?;
        let groups = range.entries.chunk_by(|one, other| one.0 == other.0);
        let pairs: Vec<Pair> =
            groups.filter(|group| group.len() > 1).map(|group| Pair::of(group[0].0)).collect();
        self.removed += compare(logs, &pairs)?;
        Ok(range.next.map(|next| Work::Confirm { next }))
    }

    /// Collects the entries of equal hashes from `next` on.
    fn collect(&mut self, logs: &IndexedLogs, next: u64) -> Result<Work> {
        let table_bytes = (logs.index.heap_bytes() / TABLE_SHARE).max(TABLE_BYTES_MIN);
        let (range, view) = logs.look(|index| index.range(next, ENTRIES))?;
        for group in range.entries.chunk_by(|one, other| one.0 == other.0).filter(|group| group.len() > 1) {
            for (id, number) in group.iter().filter_map(|(_, unit)| view.locate(*unit)) {
                let records = self.table.entry(id).or_default();
                if records.len() == records.capacity() {
                    records.reserve_exact(records.len() / 8 + 16);
                }
                records.push(Doubtful { number, bytes: 0, is_tombstone: false, key_hash: 0 });
                self.collected += 1;
            }
        }
        let is_full = self.collected as usize * size_of::<Doubtful>() >= table_bytes;
        match range.next {
            Some(next) if !is_full => return Ok(Work::Collect { next }),
            next => self.to = next,
        }
        Ok(Work::Read { last: Bound::Unbounded, segment: None })
    }

    /// Reads the next piece of the segments.
    fn read(
        &mut self,
        logs: &IndexedLogs,
        last: Bound<(u8, u64)>,
        segment: Option<Box<Reading>>,
    ) -> Result<Work> {
        let mut reading = match segment {
            Some(reading) => reading,
            None => {
                let Some((id, records)) = self.table.range_mut((last, Bound::Unbounded)).next() else {
                    return Ok(Work::Resolve { next: self.from });
                };
                records.sort_unstable_by_key(|record| record.number);
                // It has no records if it was released.
                let frames = logs.data.view().frames(id.0, id.1, Purpose::Collect);
                Box::new(Reading { id: *id, frames, done: 0 })
            }
        };
        let records = self.table.get_mut(&reading.id).map_or(&mut [][..], |records| &mut records[..]);
        let start = reading.frames.position();
        while reading.frames.position() < start + PIECE_BYTES
            && let Some(doubtful) = records.get_mut(reading.done)
        {
            reading.frames.record_at(doubtful.number, &mut |record, bytes| {
                (doubtful.bytes, doubtful.is_tombstone) = (bytes, record.value.is_none());
                doubtful.key_hash = logs.secret_hash(record.key);
                Ok(())
            })?;
            reading.done += 1;
        }
        let is_complete = reading.done == records.len();
        Ok(match is_complete {
            true => Work::Read { last: Bound::Excluded(reading.id), segment: None },
            false => Work::Read { last, segment: Some(reading) },
        })
    }

    /// Removes what the collected records show to be replaced, from the hash `next` on.
    fn resolve(&mut self, logs: &IndexedLogs, next: u64) -> Result<Option<Work>> {
        let (range, view) = logs.look(|index| index.range(next, ENTRIES))?;
        let is_of_part = |hash: u64| self.to.is_none_or(|to| hash < to);
        let groups = range.entries.chunk_by(|one, other| one.0 == other.0);
        let groups: Vec<_> =
            groups.filter(|group| group.len() > 1).take_while(|group| is_of_part(group[0].0)).collect();
        let hashes: Vec<u64> = groups.iter().map(|group| group[0].0).collect();
        for (group, lookup) in groups.into_iter().zip(logs.index.look_up(&hashes)?) {
            let compared: Vec<_> =
                group.iter().filter_map(|(_, unit)| compared(&self.table, &view, *unit)).collect();
            self.found += compared.len() as u64;
            if compared.len() > 1 {
                self.removed += keep_youngest(logs, &lookup, &view, compared)?;
            }
        }
        if let Some(next) = range.next.filter(|next| is_of_part(*next)) {
            return Ok(Some(Work::Resolve { next }));
        }
        logs.pairs.leave_out(self.collected.saturating_sub(self.found));
        (self.collected, self.found) = (0, 0);
        self.table.clear();
        let Some(next) = self.to.take() else { return Ok(None) };
        self.from = next;
        Ok(Some(Work::Collect { next }))
    }
}

/// Queues the hashes of several entries from `next` on.
fn search(logs: &IndexedLogs, next: u64) -> Result<Option<Work>> {
    let range = logs.index.range(next, ENTRIES)?;
    for group in range.entries.chunk_by(|one, other| one.0 == other.0).filter(|group| group.len() > 1) {
        logs.pairs.push(group[0].0);
    }
    Ok(range.next.map(|next| Work::Search { next }))
}

/// Returns what was read of the record of an entry, if it is still where it was.
fn compared(table: &Table, view: &DataView, unit: Unit) -> Option<Compared> {
    let (id, number) = view.locate(unit)?;
    let records = table.get(&id)?;
    let at = records.binary_search_by_key(&number, |record| record.number).ok()?;
    let Doubtful { bytes, is_tombstone, key_hash, .. } = records[at];
    (bytes > 0).then_some(Compared { unit, key: key_hash, is_tombstone, bytes })
}
