//! The reference model: a map in memory that knows which records must, and which may, be present after a crash.
//!
//! All writes form one sequence. While the database runs, a key has the value of its last write. After a crash the
//! database has the records that some prefix of the sequence leaves. The prefix contains every write that was
//! guaranteed to survive such a crash, and each batch completely or not at all. A write that returned an error may be
//! part of the sequence or not.
//!
//! ```text
//! sequence   a=1 (synced)   b=1 (written)   a=2 (buffered)   b=2 (failed)
//! possible after
//!   a kill         {a=1 b=1}   {a=2 b=1}   {a=2 b=2}
//!   a power loss   these, and {a=1}
//! ```

mod cache;

pub use cache::CacheReference;

use super::simulated::Crash;
use bytes::Bytes;
use siltstone::batch::{Durability, NEVER, TimestampMs, Write};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;

/// A value with its expiry time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The value.
    pub value: Bytes,
    /// When the value expires, or [`NEVER`].
    pub expires_at_ms: TimestampMs,
}

impl Cell {
    fn is_alive(&self, now_ms: TimestampMs) -> bool {
        self.expires_at_ms == NEVER || self.expires_at_ms > now_ms
    }
}

/// All records of a database, by key.
pub type Records = BTreeMap<Bytes, Cell>;

/// How a database ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was closed without an error: everything is durable.
    Closed,
    /// Its process ended.
    ProcessKilled,
    /// The power failed.
    PowerLost,
}

impl From<Crash> for Ending {
    fn from(crash: Crash) -> Ending {
        match crash {
            Crash::ProcessKilled => Ending::ProcessKilled,
            Crash::PowerLost(_) => Ending::PowerLost,
        }
    }
}

/// A broken guarantee: a message with the keys and their expected values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(String);

impl Violation {
    /// Returns a broken guarantee with this message.
    pub(crate) fn new(words: String) -> Violation {
        Violation(words)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

/// Writes that are present together or not at all.
#[derive(Debug, Clone)]
struct Entry {
    writes: Vec<(Bytes, Option<Cell>)>,
    /// Whether it was acknowledged. If not, it may be missing although later entries are present.
    certain: bool,
}

impl Entry {
    fn new(writes: &[Write<'_>], certain: bool) -> Entry {
        let writes = writes.iter().map(|write| match write {
            Write::Put { key, value, expires_at_ms } => {
                let value = Bytes::copy_from_slice(value);
                (Bytes::copy_from_slice(key), Some(Cell { value, expires_at_ms: *expires_at_ms }))
            }
            Write::Delete { key } => (Bytes::copy_from_slice(key), None),
        });
        Entry { writes: writes.collect(), certain }
    }

    fn apply(&self, records: &mut Records) {
        for (key, cell) in &self.writes {
            match cell {
                Some(cell) => drop(records.insert(key.clone(), cell.clone())),
                None => drop(records.remove(key)),
            }
        }
    }
}

/// The maximum number of writes in doubt at a time: all their combinations are tried.
pub const DOUBTS_MAX: usize = 8;

/// The maximum number of keys that a violation names.
const SHOWN_KEYS: usize = 5;

/// The reference model.
#[derive(Debug, Clone, Default)]
pub struct Reference {
    /// The records that the writes before `history` left: certainly durable.
    base: Records,
    history: Vec<Entry>,
    /// How many entries since the last power loss `base` contains.
    settled: usize,
    /// How many entries of `history` survive the process.
    written: usize,
    /// How many entries of `history` survive a power loss.
    synced: usize,
    /// The possible values of each key: its last write, and after it those in doubt.
    now: BTreeMap<Bytes, Vec<Option<Cell>>>,
}

impl Reference {
    /// Returns an empty database.
    pub fn new() -> Reference {
        Reference::default()
    }

    /// Adds writes that were acknowledged.
    pub fn acknowledged(&mut self, writes: &[Write<'_>], durability: Durability) {
        let entry = Entry::new(writes, true);
        self.see(&entry);
        self.history.push(entry);
        if durability >= Durability::Written {
            self.written = self.history.len();
        }
        if durability >= Durability::Synced {
            self.synced();
        }
    }

    /// Adds writes that returned an error, and may have taken effect nevertheless.
    ///
    /// # Panics
    /// If more than [`DOUBTS_MAX`] are in doubt: a restart resolves [`doubts`](Reference::doubts).
    pub fn attempted(&mut self, writes: &[Write<'_>]) {
        let entry = Entry::new(writes, false);
        self.see(&entry);
        self.history.push(entry);
        assert!(self.doubts() <= DOUBTS_MAX, "too many writes are in doubt");
    }

    /// Returns the number of entries of the sequence since the last power loss or closing.
    pub fn length(&self) -> usize {
        self.settled + self.history.len()
    }

    /// Records that the first `length` entries of the sequence survive a power loss: a sync of everything was
    /// called after they were acknowledged, and was acknowledged itself.
    pub fn synced_to(&mut self, length: usize) {
        let length = length.saturating_sub(self.settled);
        (self.written, self.synced) = (self.written.max(length), self.synced.max(length));
    }

    /// Returns the number of writes in doubt.
    pub fn doubts(&self) -> usize {
        self.doubtful().len()
    }

    /// Records that a sync of everything was acknowledged.
    pub fn synced(&mut self) {
        (self.written, self.synced) = (self.history.len(), self.history.len());
        let settled = self.history.iter().take_while(|entry| entry.certain).count();
        self.settle(settled);
    }

    /// Records that a sync of the device failed: the system may have dropped what was not durable, so only
    /// durable entries are guaranteed, even if only the process ends.
    pub fn sync_failed(&mut self) {
        self.written = self.synced;
    }

    /// Checks what a get returned.
    pub fn check(&self, key: &[u8], found: Option<&Cell>, now_ms: TimestampMs) -> Result<(), Violation> {
        let possible = self.possible_now(key, now_ms);
        if possible.contains(&found) {
            return Ok(());
        }
        Err(Violation(format!("key {} is {}, but should be {}", name(key), show(found), show_all(&possible))))
    }

    /// Checks what a get returned without the expiry time.
    pub fn check_value(
        &self,
        key: &[u8],
        found: Option<&Bytes>,
        now_ms: TimestampMs,
    ) -> Result<(), Violation> {
        let possible = self.possible_now(key, now_ms);
        if possible.iter().any(|cell| cell.map(|cell| &cell.value) == found) {
            return Ok(());
        }
        let length = found.map(|value| value.len());
        Err(Violation(format!(
            "key {} has {length:?} bytes, but should be {}",
            name(key),
            show_all(&possible)
        )))
    }

    /// Returns whether a get must find the key.
    pub fn is_present(&self, key: &[u8], now_ms: TimestampMs) -> bool {
        self.possible_now(key, now_ms).iter().all(Option::is_some)
    }

    /// Returns whether a get may return more than one value for the key.
    pub fn is_in_doubt(&self, key: &[u8]) -> bool {
        self.now.get(key).is_some_and(|cells| cells.len() > 1)
    }

    /// Returns how many keys there are at least and at most.
    pub fn keys(&self, now_ms: TimestampMs) -> RangeInclusive<u64> {
        let keys: BTreeSet<&Bytes> = self.base.keys().chain(self.now.keys()).collect();
        let possible = || keys.iter().map(|key| self.possible_now(key, now_ms));
        let certain = possible().filter(|cells| cells.iter().all(Option::is_some)).count() as u64;
        certain..=possible().filter(|cells| cells.iter().any(Option::is_some)).count() as u64
    }

    /// Checks that these may be all records.
    pub fn check_all(&self, found: &Records, now_ms: TimestampMs) -> Result<(), Violation> {
        let keys: BTreeSet<&Bytes> = self.now.keys().chain(found.keys()).collect();
        keys.into_iter().try_for_each(|key| self.check(key, found.get(key), now_ms))
    }

    /// Checks that these may be all records after the database was opened again, and continues from them. Returns how
    /// many entries of the sequence may be present, as [`length`](Reference::length) counts them.
    pub fn restarted(
        &mut self,
        ending: Ending,
        found: &Records,
        now_ms: TimestampMs,
    ) -> Result<RangeInclusive<usize>, Violation> {
        let promised = match ending {
            Ending::Closed => self.history.len(),
            Ending::ProcessKilled => self.written,
            Ending::PowerLost => self.synced,
        };
        let doubtful = self.doubtful();
        let (mut matches, mut shortest) = (Vec::new(), usize::MAX);
        for combination in 0..1u32 << doubtful.len() {
            let done =
                |at: usize| doubtful.binary_search(&at).map_or(true, |bit| combination >> bit & 1 == 1);
            if let Some(ends) = self.matching(promised, done, found, now_ms) {
                shortest = shortest.min(*ends.start());
                matches.push((*ends.end(), combination));
            }
        }
        let Some(end) = matches.iter().map(|(end, _)| *end).max() else {
            return Err(self.explain(promised, found, now_ms));
        };
        let possible = self.settled + shortest..=self.settled + end;
        match ending {
            Ending::ProcessKilled => self.go_on(end, &doubtful, &matches, found),
            // What survived the power loss is on the device, and survives the next one.
            Ending::Closed | Ending::PowerLost => {
                *self = Reference { base: found.clone(), ..Reference::default() };
            }
        }
        Ok(possible)
    }

    /// Returns the entries that may be missing.
    fn doubtful(&self) -> Vec<usize> {
        (0..self.history.len()).filter(|&at| !self.history[at].certain).collect()
    }

    fn see(&mut self, entry: &Entry) {
        for (key, cell) in &entry.writes {
            let base = &self.base;
            let possible = self.now.entry(key.clone()).or_insert_with(|| vec![base.get(key).cloned()]);
            if entry.certain {
                possible.clear();
            }
            possible.push(cell.clone());
        }
    }

    fn possible_now(&self, key: &[u8], now_ms: TimestampMs) -> Vec<Option<&Cell>> {
        let alive = |cell: &&Cell| cell.is_alive(now_ms);
        match self.now.get(key) {
            Some(cells) => cells.iter().map(|cell| cell.as_ref().filter(alive)).collect(),
            None => vec![self.base.get(key).filter(alive)],
        }
    }

    /// Makes the first `count` entries certainly durable.
    fn settle(&mut self, count: usize) {
        self.settled += count;
        for entry in self.history.drain(..count) {
            entry.apply(&mut self.base);
        }
        self.written = self.written.saturating_sub(count);
        self.synced = self.synced.saturating_sub(count);
    }

    /// Returns the lengths of the shortest and the longest prefix of the sequence, of at least `promised`
    /// entries, that leave these records. `done` says which entries are in the sequence.
    fn matching(
        &self,
        promised: usize,
        done: impl Fn(usize) -> bool,
        found: &Records,
        now_ms: TimestampMs,
    ) -> Option<RangeInclusive<usize>> {
        let mut records = self.base.clone();
        let differs = |records: &Records, key: &Bytes| {
            records.get(key).filter(|cell| cell.is_alive(now_ms)) != found.get(key)
        };
        let keys: BTreeSet<&Bytes> = records.keys().chain(found.keys()).collect();
        let mut differences = keys.into_iter().filter(|key| differs(&records, key)).count();
        let mut ends = None;
        for end in 0..=self.history.len() {
            if end >= promised && differences == 0 {
                ends = Some(ends.map_or(end, |ends: RangeInclusive<usize>| *ends.start())..=end);
            }
            let Some(entry) = self.history.get(end).filter(|_| done(end)) else { continue };
            let keys: BTreeSet<&Bytes> = entry.writes.iter().map(|(key, _)| key).collect();
            let before = keys.iter().filter(|key| differs(&records, key)).count();
            entry.apply(&mut records);
            differences = differences + keys.iter().filter(|key| differs(&records, key)).count() - before;
        }
        ends
    }

    /// Continues after the end of a process, with the sequence up to `end`. The records found show that some doubtful
    /// entries are present and others are not. The rest stay in doubt, because a later power loss can still show the
    /// difference.
    fn go_on(&mut self, end: usize, doubtful: &[usize], matches: &[(usize, u32)], found: &Records) {
        self.history.truncate(end);
        let mut missing = BTreeSet::new();
        for (bit, &at) in doubtful.iter().enumerate().filter(|(_, at)| **at < end) {
            let seen = |(length, combination): &(usize, u32)| *length > at && combination >> bit & 1 == 1;
            self.history[at].certain = matches.iter().all(seen);
            if !matches.iter().any(seen) {
                missing.insert(at);
            }
        }
        self.synced -= missing.range(..self.synced).count();
        for at in missing.into_iter().rev() {
            self.history.remove(at);
        }
        self.written = self.history.len();
        self.now = std::mem::take(&mut self.now)
            .into_keys()
            .map(|key| (key.clone(), vec![found.get(&key).cloned()]))
            .collect();
    }

    /// Returns the message for records that no prefix of the sequence leaves.
    fn explain(&self, promised: usize, found: &Records, now_ms: TimestampMs) -> Violation {
        let mut possible: BTreeMap<&Bytes, Vec<Option<&Cell>>> =
            self.base.iter().map(|(key, cell)| (key, vec![Some(cell)])).collect();
        for (at, entry) in self.history.iter().enumerate() {
            for (key, cell) in &entry.writes {
                let cells = possible.entry(key).or_insert_with(|| vec![None]);
                if at < promised && entry.certain {
                    cells.clear();
                }
                cells.push(cell.as_ref());
            }
        }
        let keys: BTreeSet<&Bytes> = possible.keys().copied().chain(found.keys()).collect();
        let mut wrong = Vec::new();
        for key in keys {
            let cells = possible.get(key).map_or(&[None][..], Vec::as_slice);
            let cells: Vec<_> = cells.iter().map(|cell| cell.filter(|cell| cell.is_alive(now_ms))).collect();
            if !cells.contains(&found.get(key)) {
                wrong.push(format!(
                    "key {} is {}, but should be {}",
                    name(key),
                    show(found.get(key)),
                    show_all(&cells)
                ));
            }
        }
        if wrong.is_empty() {
            return Violation(format!(
                "every key could be as it was found, but no moment from the {promised}th of {} writes on had all of \
                 them so: a batch was torn, or a later write survived an earlier one",
                self.history.len()
            ));
        }
        let more = wrong.len().saturating_sub(SHOWN_KEYS);
        wrong.truncate(SHOWN_KEYS);
        if more > 0 {
            wrong.push(format!("and {more} more keys"));
        }
        Violation(wrong.join("; "))
    }
}

fn name(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

fn show(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else { return "absent".to_owned() };
    let start = cell.value[..cell.value.len().min(8)].escape_ascii().to_string();
    format!("{} bytes beginning with \"{start}\", expiring at {} ms", cell.value.len(), cell.expires_at_ms)
}

fn show_all(cells: &[Option<&Cell>]) -> String {
    let mut shown: Vec<_> = cells.iter().map(|cell| show(*cell)).collect();
    shown.dedup();
    shown.join(" or ")
}

#[cfg(test)]
mod tests;
