//! The LogStore of one partition (SILT 3.1): an index in memory over records in the log.
//!
//! The index keeps the low 32 bits of a record's position; the LogStore's own beginning gives the rest, since less than
//! 4 GiB of log may wait to be converted. A key that is written again takes over its slot, if the older record
//! is still in the same LogStore; should both ever stand in it, the one further behind in the log holds.

use super::LogView;
use crate::Result;
use crate::device::{AlignedBuffer, Purpose};
use crate::index::partial_key_cuckoo::{CuckooFull, CuckooSettings, PartialKeyCuckoo, Slot};
use crate::key::{KeyHash, Placing};
use crate::store::merge::{Cursor, Entry};
use crate::store::record::RecordSpan;
use std::sync::Arc;

/// A LogStore that takes new records.
pub struct LogStore {
    index: Arc<PartialKeyCuckoo>,
    /// The end of the log when the LogStore began: all its records stand at or behind it.
    start: u64,
}

/// A place in the log where the record of a key may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogCandidate {
    /// The slot of the index.
    pub slot: Slot,
    /// The position in the log.
    pub position: u64,
}

/// The candidates of a key, at most eight, the youngest first.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogCandidates {
    candidates: [Option<LogCandidate>; 8],
    len: usize,
}

impl LogCandidates {
    /// Whether there are none: the key is not in the LogStore.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The candidates, the youngest first.
    pub fn iter(&self) -> impl Iterator<Item = LogCandidate> + '_ {
        self.candidates[..self.len].iter().flatten().copied()
    }
}

fn candidates_of(index: &PartialKeyCuckoo, start: u64, hash: KeyHash) -> LogCandidates {
    let mut found = LogCandidates::default();
    for candidate in index.candidates(hash.placement, hash.fingerprint).take(8) {
        let position = unpack(start, candidate.position);
        found.candidates[found.len] = Some(LogCandidate { slot: candidate.slot, position });
        found.len += 1;
    }
    found.candidates[..found.len].sort_unstable_by_key(|candidate| {
        std::cmp::Reverse(candidate.map_or(0, |candidate| candidate.position))
    });
    found
}

fn unpack(start: u64, low: u32) -> u64 {
    start + u64::from(low.wrapping_sub(start as u32))
}

impl LogStore {
    /// An empty LogStore over the log from `start` on.
    pub fn new(settings: CuckooSettings, start: u64) -> Result<LogStore> {
        Ok(LogStore { index: Arc::new(PartialKeyCuckoo::new(settings)?), start })
    }

    /// Where the record of a key may stand.
    pub fn candidates(&self, hash: KeyHash) -> LogCandidates {
        candidates_of(&self.index, self.start, hash)
    }

    /// Adds a record. If the table is full nothing changes, and the LogStore is ready to be frozen. While a snapshot
    /// shares the index it is copied first.
    pub fn insert(&mut self, hash: KeyHash, position: u64) -> std::result::Result<(), CuckooFull> {
        let index = Arc::make_mut(&mut self.index);
        index.insert(hash.placement, hash.fingerprint, position as u32).map(drop)
    }

    /// Makes the slot of a key point to its newer record.
    pub fn replace(&mut self, slot: Slot, position: u64) {
        Arc::make_mut(&mut self.index).set_position(slot, position as u32);
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
        self.index.len()
    }

    /// The slots of its index, taken or not.
    pub fn slots(&self) -> u32 {
        self.index.slots()
    }

    /// Whether there is no record in it.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The LogStore as it is now; later writes are not seen in it. `end` is the end of the log.
    pub fn freeze(&self, end: u64) -> FrozenLog {
        FrozenLog { index: self.index.clone(), start: self.start, end }
    }

    /// The memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.index.heap_bytes()
    }
}

/// A LogStore that takes no more records and waits to be converted.
#[derive(Clone)]
pub struct FrozenLog {
    index: Arc<PartialKeyCuckoo>,
    start: u64,
    end: u64,
}

impl FrozenLog {
    /// Where the record of a key may stand.
    pub fn candidates(&self, hash: KeyHash) -> LogCandidates {
        candidates_of(&self.index, self.start, hash)
    }

    /// The index.
    pub fn index(&self) -> &PartialKeyCuckoo {
        &self.index
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
        unpack(self.start, packed)
    }

    /// The memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.index.heap_bytes()
    }
}

/// What a [`LogCursor`] keeps of a region's records, in bytes; the others it reads again.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// The records of a frozen LogStore in the order of their hashes. One region of the index at a time: its records are
/// read for their hashes and sorted. Large ones are then read again; the log's tail is hot in the page cache.
pub struct LogCursor {
    view: LogView,
    frozen: Arc<FrozenLog>,
    placing: Placing,
    purpose: Purpose,
    next_region: u32,
    /// The records of the region that are still to come, the next one at the end.
    order: Vec<Ordered>,
    /// Records of the region, as far as there is room.
    kept: Vec<u8>,
    kept_bytes_max: usize,
    buffer: AlignedBuffer,
    current: Option<(KeyHash, Current)>,
}

/// A record of the region: 16 bytes, since there are some thousand of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ordered {
    placement: u64,
    /// The position, as the index packs it.
    packed: u32,
    /// Where in `kept` its bytes begin, or [`NOT_KEPT`].
    kept_at: u32,
}

const NOT_KEPT: u32 = u32::MAX;

/// Where the current record is.
enum Current {
    Read(RecordSpan),
    Kept(RecordSpan),
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
            kept: Vec::new(),
            kept_bytes_max: KEPT_BYTES_MAX,
            buffer: AlignedBuffer::default(),
            current: None,
        }
    }

    /// The same cursor, which keeps no records in memory and reads all of them twice.
    pub fn lean(self) -> Self {
        LogCursor { kept_bytes_max: 0, ..self }
    }

    fn load_region(&mut self) -> Result<bool> {
        while self.order.is_empty() {
            if self.next_region == self.frozen.index.region_count() {
                return Ok(false);
            }
            self.kept.clear();
            let slots = self.frozen.index.settings().slots_per_region() as usize;
            self.order.reserve_exact(slots.min(self.frozen.index.len() as usize));
            for (_, _, packed) in self.frozen.index.region_slots(self.next_region) {
                let position = self.frozen.position(packed);
                let record = self.view.read(self.purpose, position, &mut self.buffer)?;
                let placement = self.placing.place(record.key).placement;
                let kept_at = self.view.layout().keep(&record, &mut self.kept, self.kept_bytes_max);
                self.order.push(Ordered { placement, packed, kept_at: kept_at.unwrap_or(NOT_KEPT) });
            }
            self.next_region += 1;
            self.order.sort_unstable_by(|one, two| two.cmp(one));
            self.order_equal_placements()?;
        }
        Ok(true)
    }

    /// Records of the same placement follow each other by their whole hashes, then by their keys, and those of the same
    /// key from the youngest on.
    fn order_equal_placements(&mut self) -> Result<()> {
        let mut start = 0;
        while start < self.order.len() {
            let placement = self.order[start].placement;
            let run = self.order[start..].iter().take_while(|ordered| ordered.placement == placement).count();
            if run > 1 {
                let mut keyed = Vec::with_capacity(run);
                for &ordered in &self.order[start..start + run] {
                    let position = self.frozen.position(ordered.packed);
                    let record = self.view.read(self.purpose, position, &mut self.buffer)?;
                    let fingerprint = self.placing.place(record.key).fingerprint;
                    keyed.push((fingerprint, record.key.to_vec(), std::cmp::Reverse(position), ordered));
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
        if self.order.is_empty() && !self.load_region()? {
            return Ok(false);
        }
        let Some(Ordered { packed, kept_at, .. }) = self.order.pop() else { return Ok(false) };
        let kept = self.kept.get(kept_at as usize..);
        let (current, record) = match kept.and_then(|bytes| self.view.layout().decode_stream(bytes).ok()) {
            Some((_, record, _)) => (Current::Kept(RecordSpan::within(&self.kept, &record)), record),
            None => {
                let position = self.frozen.position(packed);
                let span = self.view.read_span(self.purpose, position, &mut self.buffer)?;
                let record = span.view(&self.buffer);
                (Current::Read(span), record)
            }
        };
        self.current = Some((self.placing.place(record.key), current));
        Ok(true)
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let (hash, current) = self.current.as_ref()?;
        let record = match current {
            Current::Kept(span) => span.view(&self.kept),
            Current::Read(span) => span.view(&self.buffer),
        };
        Some(Entry { hash: *hash, record })
    }

    fn heap_bytes(&self) -> usize {
        self.order.capacity() * size_of::<Ordered>() + self.kept.capacity() + self.buffer.heap_bytes()
    }
}
