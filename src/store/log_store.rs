//! The LogStore of one partition (SILT 3.1): an index in memory of records in the log.
//!
//! ```text
//! log        ... | a | b | x | a' | y | c ...      shared with other partitions (x, y)
//! index      tag of a -> a',  tag of b -> b,  tag of c -> c
//! ```
//!
//! Deviation: the index consists of up to four tables, each allocated when the previous one is full, so it takes little
//! more memory than its records need; the paper allocates everything at once, and half of that is empty on average. A
//! lookup searches all tables.
//!
//! The index stores a record's distance from the start of the LogStore in the log, in a configurable number of bits, at
//! most 32: a record further away goes to the next LogStore. A key that is written again keeps its slot if its older
//! record is still in the same LogStore; if it has two slots, the later position applies.

use crate::error::{Error, Result};
use crate::key::KeyHash;
use siltstone_index::partial_key_cuckoo::{CuckooFull, CuckooSettings, PartialKeyCuckoo, Slot};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU64, fence};

/// The maximum number of tables per LogStore.
pub const LOG_TABLES_MAX: usize = 4;

/// The maximum number of entries with the same tag and buckets in one table.
const CANDIDATES_A_TABLE: usize = 8;

/// More candidates of one key are rare: two records with the same tag in each of two tables.
const CANDIDATES_FEW: usize = 4;

/// The settings of a LogStore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStoreSettings {
    /// The shape of each table.
    pub table: CuckooSettings,
    /// The number of tables of a full LogStore, 1 to [`LOG_TABLES_MAX`].
    pub tables: usize,
    /// The binary logarithm of the bytes of log that positions cover, at most 32.
    pub position_bits: u8,
}

impl LogStoreSettings {
    /// Returns the number of slots of all tables.
    pub fn slots(&self) -> u32 {
        self.table.slots() * self.tables as u32
    }

    fn new_table(&self) -> Result<Arc<PartialKeyCuckoo>> {
        Ok(Arc::new(PartialKeyCuckoo::new(self.table, self.position_bits)?))
    }
}

/// The index of a LogStore, which lookups search without a lock. One thread changes entries at a time; what is found
/// meanwhile may be half changed, so a lookup has to notice that there was a change, and is repeated then.
#[derive(Default)]
pub struct LogTables {
    /// The tables, the last of which takes new entries.
    tables: Vec<Arc<PartialKeyCuckoo>>,
    /// The end of the log when the LogStore began: all its records are at or after it.
    start: AtomicU64,
}

impl LogTables {
    fn new(tables: Vec<Arc<PartialKeyCuckoo>>, start: u64) -> Arc<LogTables> {
        Arc::new(LogTables { tables, start: AtomicU64::new(start) })
    }

    /// Returns where the record of a key may be.
    #[inline]
    pub fn candidates(&self, hash: KeyHash) -> LogCandidates {
        candidates_of(&self.tables, self.start.load(Relaxed), hash)
    }
}

/// A LogStore that takes new records.
pub struct LogStore {
    settings: LogStoreSettings,
    /// Replaced when there is another table.
    tables: Arc<LogTables>,
}

/// A place in the index of a LogStore, valid until the next record is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSlot {
    table: u32,
    slot: Slot,
}

/// A place in the log that may have the record of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogCandidate {
    /// The slot of the index.
    pub slot: LogSlot,
    /// The position in the log.
    pub position: u64,
}

/// What an unused place of [`LogCandidates`] has.
const UNUSED: LogCandidate = LogCandidate { slot: LogSlot { table: 0, slot: 0 }, position: 0 };

/// The candidates of a key, the newest first.
#[derive(Debug, Clone)]
pub struct LogCandidates {
    /// The candidates, if they are few, and how many there are. Most lookups return none, and copying empty places
    /// would cost more than the search.
    few: [LogCandidate; CANDIDATES_FEW],
    len: usize,
    /// All candidates, if they are many.
    many: Vec<LogCandidate>,
}

impl LogCandidates {
    /// Returns whether there are none, that is, the key is not in the LogStore.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the candidates, the newest first.
    pub fn iter(&self) -> impl Iterator<Item = LogCandidate> + '_ {
        let few = self.few.iter().take(if self.many.is_empty() { self.len } else { 0 });
        few.chain(&self.many).copied()
    }

    fn push(&mut self, candidate: LogCandidate) {
        if let Some(place) = self.few.get_mut(self.len) {
            *place = candidate;
        } else {
            if self.many.is_empty() {
                // All of them from now on, so that `sort` orders one list.
                self.many.extend(self.few);
            }
            self.many.push(candidate);
        }
        self.len += 1;
    }

    fn sort(&mut self) {
        let place = |candidate: &LogCandidate| std::cmp::Reverse(candidate.position);
        self.few[..self.len.min(CANDIDATES_FEW)].sort_unstable_by_key(place);
        self.many.sort_unstable_by_key(place);
    }
}

fn candidates_of(tables: &[Arc<PartialKeyCuckoo>], start: u64, hash: KeyHash) -> LogCandidates {
    let mut found = LogCandidates { few: [UNUSED; CANDIDATES_FEW], len: 0, many: Vec::new() };
    for (table, index) in (0..).zip(tables).filter(|(_, index)| !index.is_empty()) {
        for candidate in index.candidates(hash.placement, hash.fingerprint).take(CANDIDATES_A_TABLE) {
            let slot = LogSlot { table, slot: candidate.slot };
            found.push(LogCandidate { slot, position: start + u64::from(candidate.position) });
        }
    }
    // The newest record of a key has the highest position, in any of the tables.
    if found.len > 1 {
        found.sort();
    }
    found
}

fn len_of(tables: &[Arc<PartialKeyCuckoo>]) -> u32 {
    tables.iter().map(|table| table.len()).sum()
}

fn heap_bytes_of(tables: &[Arc<PartialKeyCuckoo>]) -> usize {
    tables.iter().map(|table| table.heap_bytes()).sum()
}

impl LogStore {
    /// Makes an empty LogStore for the log from `start` on.
    pub fn new(settings: LogStoreSettings, start: u64) -> Result<LogStore> {
        if !(1..=LOG_TABLES_MAX).contains(&settings.tables) {
            let problem = format!("{} is out of range; use 1 to {LOG_TABLES_MAX}", settings.tables);
            return Err(Error::Setting { name: "tables of a LogStore", problem });
        }
        Ok(LogStore { settings, tables: LogTables::new(vec![settings.new_table()?], start) })
    }

    /// Returns whether the LogStore can hold a record at this position.
    pub fn reaches(&self, position: u64) -> bool {
        // A position before the start is not of this LogStore. It must not wrap to a distance.
        position
            .checked_sub(self.start())
            .is_some_and(|distance| distance >> self.settings.position_bits == 0)
    }

    /// Returns the binary logarithm of the bytes of log that positions cover.
    pub fn position_bits(&self) -> u8 {
        self.settings.position_bits
    }

    /// Returns the index, until there is another table.
    pub fn tables(&self) -> &Arc<LogTables> {
        &self.tables
    }

    /// Returns where the record of a key may be.
    pub fn candidates(&self, hash: KeyHash) -> LogCandidates {
        self.tables.candidates(hash)
    }

    /// Adds a record. Returns false, without a change, if the LogStore is full or does not reach this position: it
    /// should be frozen then. A table that a snapshot shares is copied before it is changed.
    pub fn insert(&mut self, hash: KeyHash, position: u64) -> Result<bool> {
        if !self.reaches(position) {
            return Ok(false);
        }
        // Fits: `reaches` allows at most 32 bits.
        let distance = (position - self.start()) as u32;
        let insert = |table: &PartialKeyCuckoo| -> std::result::Result<Slot, CuckooFull> {
            table.insert(hash.placement, hash.fingerprint, distance)
        };
        // Only the last one: the others were full. A failed insertion leaves a table unchanged.
        if insert(self.table_to_change(self.tables.tables.len() - 1)).is_ok() {
            return Ok(true);
        }
        if self.tables.tables.len() >= self.settings.tables {
            return Ok(false);
        }
        // Older tables stay as they are: if one has an older record of the key, the later position applies.
        let table = self.settings.new_table()?;
        let inserted = insert(&table).is_ok();
        let tables = self.tables.tables.iter().cloned().chain([table]).collect();
        self.tables = LogTables::new(tables, self.start());
        Ok(inserted)
    }

    /// Returns a table to change. One that a snapshot shares stays as it is: the LogStore continues with a copy.
    fn table_to_change(&mut self, number: usize) -> &PartialKeyCuckoo {
        let tables = &self.tables.tables;
        // Only the list counts, which lookups share as a whole. No snapshot is made meanwhile: the caller holds the
        // lock under which it would be.
        if Arc::strong_count(&tables[number]) > 1 {
            let mut tables = tables.clone();
            tables[number] = Arc::new(PartialKeyCuckoo::clone(&tables[number]));
            self.tables = LogTables::new(tables, self.start());
        }
        // What the last snapshot read is read before what follows.
        fence(Acquire);
        &self.tables.tables[number]
    }

    /// Makes the slot of a key refer to its newer record. Returns false, without a change, if the LogStore does not
    /// reach the position.
    pub fn replace(&mut self, slot: LogSlot, position: u64) -> bool {
        // Otherwise the record gets an entry in the next LogStore, which lookups search first.
        let reaches = self.reaches(position);
        if reaches && (slot.table as usize) < self.tables.tables.len() {
            let distance = (position - self.start()) as u32;
            // The slot was looked up under the same lock, so no insertion has moved its entry since.
            self.table_to_change(slot.table as usize).set_position(slot.slot, distance);
        }
        reaches
    }

    /// Returns the end of the log when the LogStore began.
    pub fn start(&self) -> u64 {
        self.tables.start.load(Relaxed)
    }

    /// Moves the start of the LogStore, which must be empty, to a later position.
    pub fn restart(&mut self, start: u64) {
        debug_assert!(self.is_empty(), "positions would change their meaning");
        // In place: the published index has the same tables, which would be copied if there were two lists of them.
        self.tables.start.store(start, Relaxed);
    }

    /// Returns the number of records.
    pub fn len(&self) -> u32 {
        len_of(&self.tables.tables)
    }

    /// Returns the number of slots of its index with all tables, used or not.
    pub fn slots(&self) -> u32 {
        self.settings.slots()
    }

    /// Returns whether the LogStore is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the present state of the LogStore, which later writes do not change. `end` is the end of the log.
    pub fn freeze(&self, end: u64) -> FrozenLog {
        // Shared: the next change of a table copies it first.
        FrozenLog { tables: self.tables.tables.clone(), start: self.start(), end }
    }

    /// Returns the memory of the index, in bytes.
    pub fn heap_bytes(&self) -> usize {
        heap_bytes_of(&self.tables.tables)
    }

    /// Returns the memory of the index with all tables, in bytes.
    pub fn heap_bytes_max(&self) -> usize {
        self.heap_bytes() / self.tables.tables.len().max(1) * self.settings.tables
    }
}

/// A LogStore that takes no more records and is queued for conversion.
#[derive(Clone)]
pub struct FrozenLog {
    tables: Vec<Arc<PartialKeyCuckoo>>,
    start: u64,
    end: u64,
}

impl FrozenLog {
    /// Returns where the record of a key may be.
    pub fn candidates(&self, hash: KeyHash) -> LogCandidates {
        candidates_of(&self.tables, self.start, hash)
    }

    /// Returns the tables of the index, at least one, all of the same shape.
    pub fn tables(&self) -> &[Arc<PartialKeyCuckoo>] {
        &self.tables
    }

    pub(super) fn settings(&self) -> CuckooSettings {
        self.tables.first().map(|table| table.settings()).unwrap_or_default()
    }

    /// Returns the number of records.
    pub fn len(&self) -> u32 {
        len_of(&self.tables)
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the end of the log when the LogStore began.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the end of the log when the LogStore was frozen: all its records precede it.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the position in the log of the record in a slot.
    pub fn position(&self, packed: u32) -> u64 {
        // The same start as when the position was packed: a LogStore with records never moves its start.
        self.start + u64::from(packed)
    }

    /// Returns the memory of the index, in bytes.
    pub fn heap_bytes(&self) -> usize {
        heap_bytes_of(&self.tables)
    }
}
