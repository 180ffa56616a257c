//! The LogStore of one partition (SILT 3.1): an index in memory over records in the log.
//!
//! Deviation: the index is a few tables, each begun when the one before it is full, so that hardly more memory is held
//! than its records need; the paper takes all of it at once, of which half is empty on average. A lookup asks all of
//! them.
//!
//! The index keeps a record's distance from the LogStore's own beginning in the log, in as many bits as were thought to
//! be enough, at most 32: what stands further behind goes into the next LogStore. A key that is written again takes
//! over its slot, if the older record is still in the same LogStore; should both ever stand in it, the one further
//! behind in the log holds.

use crate::device::{AlignedBuffer, Purpose};
use crate::index::partial_key_cuckoo::{CuckooFull, CuckooSettings, PartialKeyCuckoo, Slot};
use crate::key::{KeyHash, Placing};
use crate::store::log::LogView;
use crate::store::merge::{Cursor, Entry};
use crate::store::record::RecordSpan;
use crate::{Error, Result};
use std::sync::Arc;

/// The most tables that a LogStore may have.
pub const LOG_TABLES_MAX: usize = 4;

/// Of one key or of its like, the most that a table can hold.
const CANDIDATES_A_TABLE: usize = 8;

/// What a LogStore is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStoreSettings {
    /// The shape of each table.
    pub table: CuckooSettings,
    /// How many tables there are when it is full, 1 to [`LOG_TABLES_MAX`].
    pub tables: usize,
    /// The binary logarithm of the bytes of log that it reaches over, at most 32.
    pub position_bits: u8,
}

impl LogStoreSettings {
    /// The slots of all its tables.
    pub fn slots(&self) -> u32 {
        self.table.slots() * self.tables as u32
    }

    fn new_table(&self) -> Result<Arc<PartialKeyCuckoo>> {
        Ok(Arc::new(PartialKeyCuckoo::new(self.table, self.position_bits)?))
    }
}

/// A LogStore that takes new records.
pub struct LogStore {
    settings: LogStoreSettings,
    tables: Vec<Arc<PartialKeyCuckoo>>,
    /// The end of the log when the LogStore began: all its records stand at or behind it.
    start: u64,
}

/// A place in the index of a LogStore, until the next record is added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogSlot {
    table: u32,
    slot: Slot,
}

/// A place in the log where the record of a key may stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogCandidate {
    /// The slot of the index.
    pub slot: LogSlot,
    /// The position in the log.
    pub position: u64,
}

/// The candidates of a key, the youngest first.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogCandidates {
    candidates: [LogCandidate; LOG_TABLES_MAX * CANDIDATES_A_TABLE],
    len: usize,
}

impl LogCandidates {
    /// Whether there are none: the key is not in the LogStore.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The candidates, the youngest first.
    pub fn iter(&self) -> impl Iterator<Item = LogCandidate> + '_ {
        self.candidates[..self.len].iter().copied()
    }
}

fn candidates_of(tables: &[Arc<PartialKeyCuckoo>], start: u64, hash: KeyHash) -> LogCandidates {
    let mut found = LogCandidates::default();
    for (table, index) in (0..).zip(tables).filter(|(_, index)| !index.is_empty()) {
        for candidate in index.candidates(hash.placement, hash.fingerprint).take(CANDIDATES_A_TABLE) {
            let slot = LogSlot { table, slot: candidate.slot };
            found.candidates[found.len] =
                LogCandidate { slot, position: start + u64::from(candidate.position) };
            found.len += 1;
        }
    }
    found.candidates[..found.len].sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.position));
    found
}

fn len_of(tables: &[Arc<PartialKeyCuckoo>]) -> u32 {
    tables.iter().map(|table| table.len()).sum()
}

fn heap_bytes_of(tables: &[Arc<PartialKeyCuckoo>]) -> usize {
    tables.iter().map(|table| table.heap_bytes()).sum()
}

impl LogStore {
    /// An empty LogStore over the log from `start` on.
    pub fn new(settings: LogStoreSettings, start: u64) -> Result<LogStore> {
        if !(1..=LOG_TABLES_MAX).contains(&settings.tables) {
            let problem = format!("{} is out of range; use 1 to {LOG_TABLES_MAX}", settings.tables);
            return Err(Error::Setting { name: "tables of a LogStore", problem });
        }
        Ok(LogStore { settings, tables: vec![settings.new_table()?], start })
    }

    /// Whether a record at this position can be in it.
    pub fn reaches(&self, position: u64) -> bool {
        position.checked_sub(self.start).is_some_and(|distance| distance >> self.settings.position_bits == 0)
    }

    /// The binary logarithm of the bytes of log that it reaches over.
    pub fn position_bits(&self) -> u8 {
        self.settings.position_bits
    }

    /// Where the record of a key may stand.
    pub fn candidates(&self, hash: KeyHash) -> LogCandidates {
        candidates_of(&self.tables, self.start, hash)
    }

    /// Adds a record. Answers false, and changes nothing, if it is full or does not reach so far: then it is ready to
    /// be frozen. While a snapshot shares a table that changes it is copied first.
    pub fn insert(&mut self, hash: KeyHash, position: u64) -> Result<bool> {
        if !self.reaches(position) {
            return Ok(false);
        }
        let distance = (position - self.start) as u32;
        let insert = |table: &mut Arc<PartialKeyCuckoo>| -> std::result::Result<Slot, CuckooFull> {
            Arc::make_mut(table).insert(hash.placement, hash.fingerprint, distance)
        };
        if self.tables.last_mut().is_some_and(|table| insert(table).is_ok()) {
            return Ok(true);
        }
        if self.tables.len() >= self.settings.tables {
            return Ok(false);
        }
        let mut table = self.settings.new_table()?;
        let inserted = insert(&mut table).is_ok();
        self.tables.push(table);
        Ok(inserted)
    }

    /// Makes the slot of a key point to its newer record. Answers false, and does nothing, if it does not reach so far.
    pub fn replace(&mut self, slot: LogSlot, position: u64) -> bool {
        let reaches = self.reaches(position);
        if reaches && let Some(table) = self.tables.get_mut(slot.table as usize) {
            Arc::make_mut(table).set_position(slot.slot, (position - self.start) as u32);
        }
        reaches
    }

    /// The end of the log when the LogStore began.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Lets the LogStore, which must be empty, begin at a later position.
    pub fn restart(&mut self, start: u64) {
        debug_assert!(self.is_empty(), "positions would change their meaning");
        self.start = start;
    }

    /// The number of records.
    pub fn len(&self) -> u32 {
        len_of(&self.tables)
    }

    /// The slots of its index when all tables are there, taken or not.
    pub fn slots(&self) -> u32 {
        self.settings.slots()
    }

    /// Whether there is no record in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The LogStore as it is now; later writes are not seen in it. `end` is the end of the log.
    pub fn freeze(&self, end: u64) -> FrozenLog {
        FrozenLog { tables: self.tables.clone(), start: self.start, end }
    }

    /// The memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        heap_bytes_of(&self.tables)
    }

    /// The memory that it holds when all tables are there, in bytes.
    pub fn heap_bytes_max(&self) -> usize {
        self.heap_bytes() / self.tables.len().max(1) * self.settings.tables
    }
}

/// A LogStore that takes no more records and waits to be converted.
#[derive(Clone)]
pub struct FrozenLog {
    tables: Vec<Arc<PartialKeyCuckoo>>,
    start: u64,
    end: u64,
}

impl FrozenLog {
    /// Where the record of a key may stand.
    pub fn candidates(&self, hash: KeyHash) -> LogCandidates {
        candidates_of(&self.tables, self.start, hash)
    }

    /// The tables of its index, at least one, all of the same shape.
    pub fn tables(&self) -> &[Arc<PartialKeyCuckoo>] {
        &self.tables
    }

    fn settings(&self) -> CuckooSettings {
        self.tables.first().map(|table| table.settings()).unwrap_or_default()
    }

    /// The number of records.
    pub fn len(&self) -> u32 {
        len_of(&self.tables)
    }

    /// Whether there is no record in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The end of the log when the LogStore began.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The end of the log when it was frozen: all its records stand before it.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The position in the log of what a slot holds.
    pub fn position(&self, packed: u32) -> u64 {
        self.start + u64::from(packed)
    }

    /// The memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        heap_bytes_of(&self.tables)
    }
}

/// The records of a frozen LogStore in the order of their hashes. One region of the index at a time: its tags ascend
/// with the hashes, so that each record is read once, when its turn comes; only where tags are alike the keys are
/// looked at first. The log's tail is hot in the page cache.
pub struct LogCursor {
    view: LogView,
    frozen: Arc<FrozenLog>,
    placing: Placing,
    purpose: Purpose,
    next_region: u32,
    /// The records of the region that are still to come, the next one at the end.
    order: Vec<Ordered>,
    buffer: AlignedBuffer,
    current: Option<(KeyHash, RecordSpan)>,
}

/// A record of the region: 8 bytes, since there are some thousand of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ordered {
    tag: u16,
    /// The position, as the index packs it.
    packed: u32,
}

impl LogCursor {
    /// A cursor before the first record.
    pub fn new(view: LogView, frozen: Arc<FrozenLog>, placing: Placing, purpose: Purpose) -> Self {
        LogCursor {
            view,
            frozen,
            placing,
            purpose,
            next_region: 0,
            order: Vec::new(),
            buffer: AlignedBuffer::default(),
            current: None,
        }
    }

    /// Loads the next region that has records, of the first one only those from a tag on.
    fn load_region(&mut self, mut first_tag: u16) -> Result<bool> {
        let frozen = self.frozen.clone();
        while self.order.is_empty() {
            if frozen.tables.iter().all(|table| self.next_region >= table.region_count()) {
                return Ok(false);
            }
            let slots: u32 = frozen.tables.iter().map(|table| table.settings().slots_per_region()).sum();
            self.order.reserve_exact(slots.min(frozen.len()) as usize);
            let slots = frozen.tables.iter().flat_map(|table| table.region_slots(self.next_region));
            let ordered = slots.map(|(_, tag, packed)| Ordered { tag, packed });
            self.order.extend(ordered.filter(|ordered| ordered.tag >= first_tag));
            (self.next_region, first_tag) = (self.next_region + 1, 0);
            self.order.sort_unstable_by(|one, two| two.cmp(one));
            self.order_equal_tags()?;
        }
        Ok(true)
    }

    /// Records of the same tag follow each other by their hashes, then by their keys, and those of the same key from
    /// the youngest on.
    fn order_equal_tags(&mut self) -> Result<()> {
        let mut start = 0;
        while start < self.order.len() {
            let tag = self.order[start].tag;
            let run = self.order[start..].iter().take_while(|ordered| ordered.tag == tag).count();
            if run > 1 {
                let mut keyed = Vec::with_capacity(run);
                for &ordered in &self.order[start..start + run] {
                    let position = self.frozen.position(ordered.packed);
                    let record = self.view.read(self.purpose, position, &mut self.buffer)?;
                    let hash = self.placing.place(record.key);
                    keyed.push((hash, record.key.to_vec(), std::cmp::Reverse(position), ordered));
                }
                keyed.sort_unstable_by(|one, two| two.cmp(one));
                for (slot, (.., ordered)) in self.order[start..].iter_mut().zip(keyed) {
                    *slot = ordered;
                }
            }
            start += run;
        }
        Ok(())
    }
}

impl Cursor for LogCursor {
    fn advance(&mut self) -> Result<bool> {
        self.current = None;
        if self.order.is_empty() && !self.load_region(0)? {
            return Ok(false);
        }
        let Some(Ordered { packed, .. }) = self.order.pop() else { return Ok(false) };
        let span = self.view.read_span(self.purpose, self.frozen.position(packed), &mut self.buffer)?;
        let hash = self.placing.place(span.view(&self.buffer).key);
        self.current = Some((hash, span));
        Ok(true)
    }

    /// Reads at most the records whose tags are alike.
    fn seek(&mut self, placement: u64) -> Result<()> {
        let settings = self.frozen.settings();
        self.next_region = settings.region_of(placement);
        self.load_region(settings.tag_of(placement)).map(drop)
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let (hash, span) = self.current.as_ref()?;
        Some(Entry { hash: *hash, record: span.view(&self.buffer) })
    }

    fn heap_bytes(&self) -> usize {
        self.order.capacity() * size_of::<Ordered>() + self.buffer.heap_bytes()
    }
}
