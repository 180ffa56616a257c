//! The owner of the memory budget: what of the indexes and filters is in memory, and how large the record cache is
//! (SILT 4, fail-graceful indexing).
//!
//! What the engine cannot do without comes first: the LogStores' indexes, the buffers of reads and of background work
//! at their height, a handle for each store. What is left of the budget goes to the pieces of the stores that may be
//! on flash as well, those first that save most reads for a byte, and the rest to the record cache. When what comes
//! first grows, pieces are dropped before the memory is taken, in the opposite order; when it shrinks they are read
//! back, one a step. An opened database has all of them on flash and goes on from there.
//!
//! A dropped piece is not missed by anybody: a lookup has a view with the store as it was. Without filters a HashStore
//! is read once for every key that is sought; without an index a store is searched, which costs some reads more, or one
//! in a store that is ordered by buckets.

use super::partition::{Piece, PieceKind};
use super::{Core, cache_hash};
use crate::device::scratch_bytes;
use crate::engine::Step;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::{Error, Result};
use std::collections::HashSet;

/// Stands for no bound.
const UNBOUNDED: u64 = u64::MAX;
/// The least budget, in bytes, and so much more for each partition.
const BUDGET_MIN: u64 = 256 << 10;
const BUDGET_MIN_PER_PARTITION: u64 = 4 << 10;
/// The share of the budget that goes to the indexes of the LogStores that take records, at the most.
const LOG_SHARE: u64 = 8;
/// A slot of a LogStore's index takes about so many bytes.
const SLOT_BYTES: u64 = 8;
/// The slots of a LogStore, at the least, however small the budget.
const LOG_SLOTS_MIN: u64 = 64;
/// The share of the budget that background work reads or writes in one piece, and that may wait in the log's buffer.
const PIECE_SHARE: u64 = 64;
const PIECE_BYTES_MIN: u64 = 4 << 10;
/// The share of the budget that the reads of a batch take.
const BATCH_SHARE: u64 = 16;
/// The share of the budget that a filter may take while it is being made.
const FILTER_SHARE: u64 = 4;
/// Building a HashStore takes so many bytes a record: its hash, and its part of a filter that is being solved.
const CONVERT_BYTES_PER_RECORD: u64 = 32;
/// The memory of a piece is a little more than its bytes on flash.
const DECODED_SHARE: u64 = 16;
/// Left to what changes between two looks at the account: buffers of threads that come.
const SLACK_BYTES: u64 = 32 << 10;

/// What is known of the budget and of what is in memory.
pub(super) struct Residency {
    budget: AtomicU64,
    /// Held while something is dropped or read back.
    change: Mutex<()>,
    /// Something is on flash for which there is room.
    waiting: AtomicBool,
    /// Held while a piece is read back.
    loading: Mutex<()>,
    /// Pieces that could not be read, which stay on flash.
    unreadable: Mutex<HashSet<(u64, PieceKind)>>,
    /// The memory of buffers for reads, when it was looked at last.
    read_bytes: AtomicUsize,
    /// The memory of the batches of reads under way.
    pub batch_bytes: AtomicU64,
    /// The height of what conversions and merges took since the budget was set.
    convert_peak: AtomicU64,
    merge_peak: AtomicU64,
}

impl Residency {
    pub fn new(budget: Option<u64>) -> Residency {
        Residency {
            budget: AtomicU64::new(budget.unwrap_or(UNBOUNDED)),
            change: Mutex::new(()),
            waiting: AtomicBool::new(true),
            loading: Mutex::new(()),
            unreadable: Mutex::default(),
            read_bytes: AtomicUsize::new(0),
            batch_bytes: AtomicU64::new(0),
            convert_peak: AtomicU64::new(0),
            merge_peak: AtomicU64::new(0),
        }
    }

    /// The budget in bytes, if there is one.
    pub fn budget(&self) -> Option<u64> {
        Some(self.budget.load(Relaxed)).filter(|budget| *budget != UNBOUNDED)
    }

    /// Whether something waits to be read back.
    pub fn has_work(&self) -> bool {
        self.waiting.load(Relaxed)
    }

    /// How many pieces could not be read back.
    pub fn unreadable(&self) -> usize {
        self.unreadable.lock().len()
    }

    /// Whether threads have taken more for their reads than was counted on.
    pub fn is_outgrown(&self) -> bool {
        self.budget().is_some() && scratch_bytes() > self.read_bytes.load(Relaxed)
    }

    /// The most slots of a partition's LogStore.
    pub fn log_slots_max(&self, partitions: usize) -> u32 {
        let slots = self.budget.load(Relaxed) / LOG_SHARE / SLOT_BYTES / partitions as u64;
        slots.clamp(LOG_SLOTS_MIN, 1 << 24) as u32
    }

    /// What background work reads or writes in one piece, at the most, in bytes.
    pub fn piece_bytes_max(&self) -> usize {
        (self.budget.load(Relaxed) / PIECE_SHARE).max(PIECE_BYTES_MIN).try_into().unwrap_or(usize::MAX)
    }

    /// Whether a filter that is being made, of so many bytes, is no more than a share of the budget.
    pub fn leaves_room_for(&self, bytes: u64) -> bool {
        bytes <= self.budget.load(Relaxed) / FILTER_SHARE
    }

    /// How many keys are looked up together, at the most, each with a buffer of so many bytes.
    pub fn batch_keys_max(&self, buffer_bytes: usize) -> usize {
        let keys = self.budget.load(Relaxed) / BATCH_SHARE / buffer_bytes.max(1) as u64;
        keys.clamp(1, 1 << 16) as usize
    }
}

/// An error if a budget is less than what the engine cannot do without.
pub(super) fn check_budget(budget: u64, partitions: usize) -> Result<()> {
    let least = BUDGET_MIN + BUDGET_MIN_PER_PARTITION * partitions as u64;
    if budget >= least {
        return Ok(());
    }
    let problem =
        format!("{budget} bytes are too few; a database of {partitions} partitions needs {least} or more");
    Err(Error::Setting { name: "memory_budget", problem })
}

impl Core {
    /// Changes the budget. What is too much is dropped at once, but for the buffers in use.
    pub(super) fn set_memory_budget(&self, budget: Option<u64>) -> Result<()> {
        if let Some(budget) = budget {
            check_budget(budget, self.partitions.len())?;
        }
        if budget.is_some() {
            // From now on writes announce themselves to the cache, and none that did not is under way.
            let _locked: Vec<_> = self.partitions.iter().map(|partition| partition.writer.lock()).collect();
            self.cache.enable();
        }
        self.residency.budget.store(budget.unwrap_or(UNBOUNDED), Relaxed);
        self.residency.convert_peak.store(0, Relaxed);
        self.residency.merge_peak.store(0, Relaxed);
        self.residency.waiting.store(true, Relaxed);
        self.apply_budget();
        self.rebalance(0);
        Ok(())
    }

    /// Makes what has a size of its own fit the budget.
    pub(super) fn apply_budget(&self) {
        self.log.limit_buffer(self.residency.piece_bytes_max());
    }

    /// The memory that the engine cannot do without, now and at the height of the work that it may begin.
    fn required_bytes(&self) -> u64 {
        let ram = self.ram();
        let of =
            |item: &str| ram.items().iter().find(|(name, _)| *name == item).map_or(0, |(_, bytes)| *bytes);
        let (converting, merging) = (of("convert_buffers"), of("merge_buffers"));
        self.residency.convert_peak.fetch_max(converting, Relaxed);
        self.residency.merge_peak.fetch_max(merging, Relaxed);
        let (mut pieces, mut sorted_bytes, mut stores, mut records) = (0, 0, 0, 0);
        let (mut table_bytes, mut growth) = (0, 0);
        for partition in &self.partitions {
            let view = {
                let state = partition.state.read();
                let whole = state.active.heap_bytes_max() as u64;
                table_bytes = table_bytes.max(whole);
                growth += whole - state.active.heap_bytes() as u64;
                records = records.max(u64::from(state.active.slots()));
                state.view.clone()
            };
            let held = view.pieces().filter(|piece| piece.resident).map(|piece| piece.bytes);
            pieces += held.sum::<u64>();
            sorted_bytes =
                sorted_bytes.max(view.sorted.as_ref().map_or(0, |(_, store)| store.saved_bytes().0));
            stores = stores.max(view.hash_stores.len() as u64);
        }
        let piece = self.piece_bytes() as u64;
        let block = u64::from(self.shape.block_bytes);
        let convert = records * CONVERT_BYTES_PER_RECORD + 3 * piece + 2 * block;
        let merge = 5 * piece + (stores + 4) * 3 * block + 2 * sorted_bytes;
        // Others may have changed something between the two looks.
        let droppable = pieces + of("record_cache") + converting + merging;
        let fixed = ram.total_bytes().saturating_sub(droppable);
        let scratch = scratch_bytes();
        self.residency.read_bytes.store(scratch + SLACK_BYTES as usize / 2, Relaxed);
        fixed
            + SLACK_BYTES
            + growth
            + table_bytes
            + convert.max(self.residency.convert_peak.load(Relaxed))
            + merge.max(self.residency.merge_peak.load(Relaxed))
    }

    /// Decides anew what is in memory. `extra` bytes are about to be taken. Answers what is to be read back next, if
    /// there is a budget and it has room for any of that.
    pub(super) fn rebalance(&self, extra: u64) -> Option<(usize, Piece)> {
        let Some(budget) = self.residency.budget() else {
            self.cache.resize(0, &|_| 0);
            return None;
        };
        let _change = self.residency.change.lock();
        let mut left = budget.saturating_sub(self.required_bytes() + extra);
        let mut pieces: Vec<(usize, Piece)> = Vec::new();
        for (number, partition) in self.partitions.iter().enumerate() {
            let view = partition.state.read().view.clone();
            pieces.extend(view.pieces().map(|piece| (number, piece)));
        }
        // What is there already stays, so that nothing goes to and fro.
        pieces.sort_unstable_by_key(|(number, piece)| (piece.kind, !piece.resident, *number, piece.store));
        let unreadable = self.residency.unreadable.lock().clone();
        let mut held = 0;
        let mut waiting = None;
        let mut dropped = Vec::new();
        for (number, piece) in pieces {
            // A piece is there twice while it is decoded.
            let bytes = if piece.resident { piece.bytes } else { 2 * decoded_bytes(piece.bytes) };
            let fits = bytes <= left && held + bytes <= self.settings.resident_bytes_max;
            held += if fits { bytes } else { 0 };
            match (fits, piece.resident) {
                (true, true) => left -= bytes,
                (true, false) if !unreadable.contains(&(piece.store, piece.kind)) => {
                    waiting = waiting.or(Some((number, piece)));
                    left -= bytes;
                }
                (false, true) => dropped.push((number, piece)),
                (_, false) => {}
            }
        }
        let hash_of = |key: &[u8]| cache_hash(self.place(self.placing.hasher.key(key)).1);
        self.cache.resize(left.try_into().unwrap_or(usize::MAX), &hash_of);
        for (number, piece) in dropped {
            let mut state = self.partitions[number].state.write();
            if let Some(view) = state.view.without(piece.store, piece.kind) {
                state.view = view.into();
            }
        }
        self.residency.waiting.store(waiting.is_some(), Relaxed);
        waiting
    }

    /// Makes room for memory that is about to be taken.
    pub(super) fn make_room(&self, bytes: u64) {
        if let Some(budget) = self.residency.budget()
            && self.ram().total_bytes() + bytes > budget
        {
            self.rebalance(bytes);
        }
    }

    /// Reads back one piece for which there is room.
    pub(super) fn step_load(&self) -> Result<Step> {
        if !self.residency.has_work() {
            return Ok(Step::Idle);
        }
        let Some(_loading) = self.residency.loading.try_lock() else { return Ok(Step::Idle) };
        // Not simply the first that is missing: one for which there is no room would be dropped again, and so for ever.
        let next = match self.residency.budget() {
            Some(_) => self.rebalance(0),
            None => self.first_missing(),
        };
        let Some((number, piece)) = next else {
            self.residency.waiting.store(false, Relaxed);
            return Ok(Step::Idle);
        };
        let view = self.partitions[number].state.read().view.clone();
        let Some(loaded) = view.load(piece.store, piece.kind) else { return Ok(Step::Worked) };
        match loaded {
            Ok(store) => {
                let _change = self.residency.change.lock();
                let mut state = self.partitions[number].state.write();
                if let Some(view) = state.view.with(piece.store, piece.kind, &store) {
                    state.view = view.into();
                }
            }
            // The store goes on as it is; the next merge writes the piece anew.
            Err(_) => drop(self.residency.unreadable.lock().insert((piece.store, piece.kind))),
        }
        self.note_ram_peak();
        Ok(Step::Worked)
    }

    /// What is to be read back next.
    fn first_missing(&self) -> Option<(usize, Piece)> {
        let unreadable = self.residency.unreadable.lock().clone();
        let missing = self.partitions.iter().enumerate().filter_map(|(number, partition)| {
            let view = partition.state.read().view.clone();
            let missing = view
                .pieces()
                .filter(|piece| !piece.resident && !unreadable.contains(&(piece.store, piece.kind)));
            missing.min_by_key(|piece| (piece.kind, piece.store)).map(|piece| (number, piece))
        });
        missing.min_by_key(|(number, piece)| (piece.kind, *number, piece.store))
    }

    /// Freezes LogStores that are larger than the budget has room for.
    pub(super) fn shrink_log_stores(&self) -> Result<()> {
        let slots_max = self.residency.log_slots_max(self.partitions.len());
        for (number, partition) in self.partitions.iter().enumerate() {
            let slots = partition.state.read().active.slots();
            if slots / 2 > slots_max {
                self.replace_early(number)?;
            }
        }
        Ok(())
    }
}

fn decoded_bytes(saved: u64) -> u64 {
    saved + saved / DECODED_SHARE + 64
}
