//! The number of keys, estimated from a sample: entries may be of tombstones, of records that have expired, and of
//! older records of their keys.
//!
//! Entries are in hash order, so those after some places are a random sample. More are read the more of them are not of
//! keys.

use super::groups::Groups;
use super::indexed_logs::IndexedLogs;
use crate::batch::TimestampMs;
use crate::error::Result;
use crate::key::Key;

/// The places from which on entries are read, as a binary logarithm, and how many of each at a time: fewer over a store
/// below, which is slow and has most keys.
const PLACES_LOG2: u32 = 4;
const ENTRIES_AT_ONCE: usize = 512;
const ENTRIES_AT_ONCE_OVER: usize = 64;
/// With this many entries or fewer, all are read.
const ALL_MAX: u64 = 8 << 10;
/// The most entries that are read, unless these are all.
const SAMPLED_MAX: u64 = 64 << 10;
/// The standard error of the number, as a share of it, at which no more is read.
const ERROR: f64 = 0.005;

/// The entries from a place on.
struct Part {
    next: u64,
    last: u64,
    is_complete: bool,
}

/// What was read: the number of entries, the keys that they add to the store below or take from it, and the sum of the
/// squares of what each key adds.
#[derive(Default)]
struct Sample {
    entries: u64,
    keys: i64,
    squares: u64,
}

impl Sample {
    /// Returns whether the error of the keys per entry is small enough, with `below` keys in the store below.
    fn is_precise(&self, all: u64, below: u64) -> bool {
        let (entries, mean) = (self.entries as f64, self.keys as f64 / self.entries.max(1) as f64);
        let variance = (self.squares as f64 / entries.max(1.0) - mean * mean).max(0.0);
        let keys = below as f64 + all as f64 * mean;
        all as f64 * (variance / entries.max(1.0)).sqrt() <= ERROR * keys
    }
}

/// Returns about how many keys the logs add to the store below, which has `below` keys; negative if they take more from
/// it. Reads 8,192 entries and their records, up to eight times as many if there is much garbage, or all if there are
/// fewer: the number is exact then.
pub(crate) fn count_keys(logs: &IndexedLogs, below: u64, now_ms: TimestampMs) -> Result<i64> {
    let part = |number: u64| {
        let next = number << (u64::BITS - PLACES_LOG2);
        Part { next, last: next | u64::MAX >> PLACES_LOG2, is_complete: false }
    };
    let mut parts: Vec<Part> = (0..1 << PLACES_LOG2).map(part).collect();
    let mut sample = Sample::default();
    while parts.iter().any(|part| !part.is_complete) {
        for part in parts.iter_mut().filter(|part| !part.is_complete) {
            read(logs, part, &mut sample, now_ms)?;
        }
        let all = logs.entries();
        let are_all = parts.iter().all(|part| part.is_complete);
        if !are_all && all > ALL_MAX && (sample.is_precise(all, below) || sample.entries >= SAMPLED_MAX) {
            let share = all as f64 / sample.entries.max(1) as f64;
            return Ok((sample.keys as f64 * share).round() as i64);
        }
    }
    Ok(sample.keys)
}

/// Reads the next entries of a part.
fn read(logs: &IndexedLogs, part: &mut Part, sample: &mut Sample, now_ms: TimestampMs) -> Result<()> {
    let entries = if logs.below.is_some() { ENTRIES_AT_ONCE_OVER } else { ENTRIES_AT_ONCE };
    let groups = Groups::read(logs, part.next, entries)?;
    let within = part.next..=part.last;
    // Equal hashes are not divided, so some entries may belong to the part before, which counts them.
    sample.entries += groups.hashes.iter().filter(|hash| within.contains(hash)).count() as u64;
    let records = groups.records.iter().filter(|(placement, _)| *placement <= part.last);
    let records: Vec<_> = records.map(|(_, record)| record).collect();
    let are_below = match &logs.below {
        None => vec![false; records.len()],
        Some(below) => {
            let keys: Vec<Key<'_>> = records.iter().map(|record| logs.hasher().key(&record.key)).collect();
            below.contain(&keys, now_ms)?
        }
    };
    for (record, is_below) in records.into_iter().zip(are_below) {
        let is_live = !record.view().is_gone(now_ms);
        sample.keys += i64::from(is_live) - i64::from(is_below);
        sample.squares += u64::from(is_live != is_below);
    }
    match groups.next.filter(|next| *next <= part.last) {
        Some(next) => part.next = next,
        None => part.is_complete = true,
    }
    Ok(())
}
