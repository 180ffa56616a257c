//! The memory budget: which indexes and filters are in memory, and how large the record cache is (SILT 4, fail-graceful
//! indexing).
//!
//! ```text
//! budget = required memory                   LogStores' indexes, buffers, the peak of a conversion and of a merge, and
//!                                            of each further one that is in progress, 0.75 KiB per store
//!        + pieces that are also on flash     1. indexes of HashStores    2. indexes of SortedStores
//!                                            3. filters of HashStores    4. filters of SortedStores, 5. prefilters
//!        + record cache                      the rest
//! ```
//!
//! A further conversion or merge begins only if the budget has place for it besides all indexes and filters: it may
//! take memory from the record cache, but more reads by lookups would cost more than it gains.
//!
//! When the required memory grows, the cache shrinks and pieces are dropped, in the opposite order, before the memory
//! is taken; when it shrinks, pieces are read back, one per step. A database is opened with all pieces on flash, and
//! reads them back in the same way.
//!
//! Dropping a piece installs a view whose store lacks it, so lookups in progress keep the piece. Without its filter a
//! HashStore is read for every key. Without its fences or trie a store is searched by interpolation, in two to four
//! reads. Of a block-perfect index the *outline* stays in memory, 1 byte per 512 records. It gives the page of 1 KiB of
//! the index to read, which has a checksum of its own. `stats().degraded` lists these stores.
//!
//! The LogStores' indexes take at most an eighth of the budget, so with a small budget LogStores are small.

use super::configuration::Configuration;
use super::job_bytes::JobBytes;
use super::partition_settings::{budget_min, check_budget};
use super::partitions::Partitions;
use super::policy::piece_bytes;
use super::view::{Piece, PieceKind};
use crate::cache::{RecordCache, cache_hash};
use crate::engine::Step;
use crate::engine::jobs::KEY_STRIPES_BYTES;
use crate::error::Result;
use crate::stats::RamAccount;
use crate::store::log::Log;
use crate::store::read_batches::ReadBatches;
use crate::store::table::OrderedTable;
use siltstone_device::scratch_bytes;
use siltstone_device::sync::Mutex;
use siltstone_device::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::collections::HashSet;
use std::sync::Arc;

/// The value for no budget.
const UNLIMITED: u64 = u64::MAX;
/// The active LogStores' indexes take at most one part in this many of the budget.
const LOG_SHARE: u64 = 8;
/// The approximate memory of a slot of a LogStore's index, in bytes.
const SLOT_BYTES: u64 = 8;
/// The minimum number of slots of a LogStore, however small the budget.
const LOG_SLOTS_MIN: u64 = 64;
/// A transfer of background work, and the log's buffer, take at most one part in this many of the budget.
const TRANSFER_SHARE: u64 = 64;
const TRANSFER_BYTES_MIN: u64 = 4 << 10;
/// With direct I/O a stream has twice the buffers, one of them in flight, so they are smaller by this factor.
const BUFFERS_IN_FLIGHT: u64 = 2;
/// The cursors of the HashStores that are merged take at most one part in this many of the budget.
const HASH_CURSORS_SHARE: u64 = 4;
/// A cursor takes at most this many blocks: what was read, what it has not returned, and the block that follows.
const CURSOR_BLOCKS: u64 = 3;
/// As many HashStores of a partition can be merged with any budget.
const HASH_STORES_MIN: usize = 2;
/// The reads of `get_many` take at most one part in this many of the budget.
const BATCH_SHARE: u64 = 16;
/// A filter that is being built takes at most one part in this many of the budget.
const FILTER_SHARE: u64 = 4;
/// The parts of a batch of records of the log, each about as long: its frames, the piece that was read, and places.
const BATCH_PARTS: u64 = 3;
/// The memory per record of building a HashStore, in bytes: its hash, and its part of a filter that is being solved.
const CONVERT_BYTES_PER_RECORD: u64 = 32;
/// A piece in memory is larger than on flash by one part in this many.
const DECODED_SHARE: u64 = 16;
/// The copies of a prefilter that is being written: a list, its final form and its encoded form.
const PREFILTERS_IN_THE_MAKING: u64 = 3;
/// Memory for changes between two readings of the memory report, such as the buffers of new threads, in bytes.
const SLACK_BYTES: u64 = 32 << 10;
/// The memory of an open store besides its index and filter, in bytes: handle, name, entries in lists.
pub const STORE_BYTES: u64 = 768;
/// The memory of a partition besides its stores, in bytes: locks, lists, the state of its LogStore and of its jobs, and
/// of 16 partitions its share of what a database has once, such as counters.
pub const PARTITION_BYTES: u64 = 1632;

/// Returns the most memory of building a filter, in bytes: while it is saved, it is in memory twice.
fn filter_in_the_making_bytes(records: u64, bits: u8) -> u64 {
    records * u64::from(bits) / 4
}

/// Returns the maximum number of slots of a LogStore under a budget.
pub(super) fn log_slots_max(budget: Option<u64>, partitions: usize) -> u32 {
    let slots = budget.unwrap_or(UNLIMITED) / LOG_SHARE / SLOT_BYTES / partitions as u64;
    slots.clamp(LOG_SLOTS_MIN, 1 << 24) as u32
}

/// The budget, and the memory that is counted against it.
pub(super) struct MemoryBudget {
    configuration: Arc<Configuration>,
    partitions: Arc<Partitions>,
    log: Arc<Log>,
    cache: Arc<RecordCache>,
    budget: AtomicU64,
    /// Held while pieces are dropped or installed.
    change: Mutex<()>,
    /// Whether a piece that fits is on flash.
    has_missing: AtomicBool,
    /// Whether pieces that the open has left on flash are still to be read.
    is_opening: AtomicBool,
    /// Held while a piece is read back.
    loading: Mutex<()>,
    /// Pieces that could not be read; they stay on flash.
    unreadable: Mutex<HashSet<(u64, PieceKind)>>,
    /// The memory of all threads' read buffers that the last decision counted on, in bytes.
    read_bytes: AtomicUsize,
    /// The reads of `get_many` in progress.
    pub batches: ReadBatches,
    /// The memory of the conversions and of the merges in progress.
    pub conversions: JobBytes,
    pub merges: JobBytes,
    /// The memory of the chain that is being written, in bytes.
    pub chain_bytes: AtomicU64,
    /// The number of keys, about.
    keys: AtomicU64,
    /// The memory report at its peak.
    peak: Mutex<RamAccount>,
}

impl MemoryBudget {
    pub fn new(
        configuration: &Arc<Configuration>,
        partitions: &Arc<Partitions>,
        log: &Arc<Log>,
        cache: &Arc<RecordCache>,
        budget: Option<u64>,
    ) -> MemoryBudget {
        if budget.is_some() {
            cache.enable();
        }
        let memory = MemoryBudget {
            configuration: configuration.clone(),
            partitions: partitions.clone(),
            log: log.clone(),
            cache: cache.clone(),
            budget: AtomicU64::new(budget.unwrap_or(UNLIMITED)),
            change: Mutex::new(()),
            has_missing: AtomicBool::new(true),
            is_opening: AtomicBool::new(true),
            loading: Mutex::new(()),
            unreadable: Mutex::default(),
            read_bytes: AtomicUsize::new(0),
            batches: ReadBatches::default(),
            conversions: JobBytes::new(configuration.conversions_max()),
            merges: JobBytes::new(configuration.merges_max()),
            chain_bytes: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            peak: Mutex::default(),
        };
        memory.log.limit_buffer(memory.transfer_bytes_max());
        memory.batches.limit(memory.batch_bytes_max());
        memory
    }

    /// Returns the budget in bytes, if there is one.
    fn budget(&self) -> Option<u64> {
        Some(self.budget.load(Relaxed)).filter(|budget| *budget != UNLIMITED)
    }

    /// Changes the budget. Memory beyond it is given back at once, except buffers in use.
    pub fn set(&self, budget: Option<u64>) -> Result<()> {
        if let Some(budget) = budget {
            check_budget(budget, self.partitions.len(), self.configuration.header.block_bytes)?;
            // With all writers locked, no write is in progress that was not announced to the cache.
            self.partitions.with_all_writers(|| self.cache.enable());
        }
        self.budget.store(budget.unwrap_or(UNLIMITED), Relaxed);
        self.conversions.reset_peak();
        self.merges.reset_peak();
        // A larger budget may have space for pieces that were dropped.
        self.has_missing.store(true, Relaxed);
        // Tables cannot shrink: the next step freezes LogStores that are too large now.
        self.partitions.limit_log_slots(log_slots_max(budget, self.partitions.len()));
        self.log.limit_buffer(self.transfer_bytes_max());
        self.batches.limit(self.batch_bytes_max());
        self.rebalance(0);
        Ok(())
    }

    /// Returns the least budget, in bytes.
    pub fn min(&self) -> u64 {
        budget_min(self.partitions.len(), self.configuration.header.block_bytes)
    }

    /// Returns whether pieces should be read back.
    pub fn has_work(&self) -> bool {
        self.has_missing.load(Relaxed)
    }

    /// Returns whether the pieces that the open has left on flash are still to be read. A read-only database reads them
    /// with its first gets.
    pub fn is_opening(&self) -> bool {
        self.is_opening.load(Relaxed)
    }

    /// Returns the number of pieces that could not be read.
    pub fn unreadable(&self) -> usize {
        self.unreadable.lock().len()
    }

    /// Frees memory for the read buffers of new threads.
    #[inline]
    pub fn account_for_read_buffers(&self) {
        if self.budget().is_some() && scratch_bytes() > self.read_bytes.load(Relaxed) {
            self.rebalance(0);
        }
    }

    /// Sets the number of keys, which the size of transfers depends on.
    pub fn set_keys(&self, keys: u64) {
        self.keys.store(keys, Relaxed);
    }

    /// Returns the most bytes of a transfer, of the log's buffer, and of a batch of records of the log.
    pub fn transfer_bytes_max(&self) -> usize {
        let bytes = (self.budget.load(Relaxed) / TRANSFER_SHARE).max(TRANSFER_BYTES_MIN);
        bytes.try_into().unwrap_or(usize::MAX)
    }

    /// Returns the size of a transfer of background work, in bytes.
    pub fn transfer_bytes(&self) -> usize {
        let Configuration { settings, directory, .. } = &*self.configuration;
        let (keys, record_bytes) = (self.keys.load(Relaxed), self.partitions.record_bytes());
        let bytes = piece_bytes(settings, keys, record_bytes, directory.access());
        let shared = if directory.access().is_direct() { BUFFERS_IN_FLIGHT as usize } else { 1 };
        bytes.min((self.transfer_bytes_max() / shared).max(TRANSFER_BYTES_MIN as usize))
    }

    /// Returns the most memory of the reads of a `get_many`, in bytes, unless one needs more.
    fn batch_bytes_max(&self) -> u64 {
        self.budget.load(Relaxed) / BATCH_SHARE
    }

    /// Returns the maximum number of keys that are looked up together, if each has a buffer of this size.
    pub fn batch_keys_max(&self, buffer_bytes: usize) -> usize {
        let keys = self.batch_bytes_max() / buffer_bytes.max(1) as u64;
        keys.clamp(1, 1 << 16) as usize
    }

    /// Returns the current memory by component.
    pub fn account(&self) -> RamAccount {
        let mut ram = RamAccount::default();
        for partition in self.partitions.iter() {
            // Writers wait for the lock of the state, so the stores are added up without it.
            let (active_bytes, view) =
                partition.read(|state| (state.active.heap_bytes(), state.view.clone()));
            ram.add("log_index", active_bytes as u64);
            let frozen = view.frozen.iter().map(|frozen| frozen.heap_bytes() as u64).sum();
            ram.add("frozen_log_index", frozen);
            let hash_stores = || view.hash_stores.iter().map(|(_, store)| store);
            ram.add("hash_filter", hash_stores().map(|store| store.filter_bytes() as u64).sum());
            ram.add("hash_index", hash_stores().map(|store| store.index_bytes() as u64).sum());
            let of_sorted = |bytes: fn(&OrderedTable) -> usize| {
                view.sorted.as_ref().map_or(0, |(_, store)| bytes(store) as u64)
            };
            ram.add("sorted_index", of_sorted(OrderedTable::index_bytes));
            let merged = view.merged.as_ref().map_or(0, |merged| merged.sorted.index_bytes() as u64);
            ram.add("sorted_index", merged);
            ram.add("sorted_filter", of_sorted(OrderedTable::filter_bytes));
            if let Some((_, chain)) = &view.chain {
                ram.add("chain_directory", chain.heap_bytes() as u64);
            }
            if let Some(prefilter) = &view.prefilter {
                ram.add("prefilter", prefilter.heap_bytes() as u64);
            }
            let stores = view.hash_stores.len() + view.sorted.iter().len() + view.chain.iter().len();
            let stores = stores as u64;
            ram.add("stores", stores * STORE_BYTES + PARTITION_BYTES);
        }
        ram.add("locks", KEY_STRIPES_BYTES as u64);
        ram.add("log_buffer", self.log.heap_bytes() as u64);
        ram.add("convert_buffers", self.conversions.sum());
        ram.add("merge_buffers", self.merges.sum());
        if self.configuration.settings.chain.is_some() {
            ram.add("chain_buffers", self.chain_bytes.load(Relaxed));
        }
        ram.add("read_buffers", scratch_bytes() as u64 + self.batches.held_bytes());
        if self.cache.is_enabled() {
            ram.add("record_cache", self.cache.heap_bytes() as u64);
        }
        ram
    }

    /// Records the memory report if it is the highest so far. Returns its total, in bytes.
    fn note_peak(&self) -> u64 {
        let account = self.account();
        let total_bytes = account.total_bytes();
        let mut peak = self.peak.lock();
        if total_bytes > peak.total_bytes() {
            *peak = account;
        }
        total_bytes
    }

    /// Returns the memory report now and at its peak.
    pub fn accounts(&self) -> (RamAccount, RamAccount) {
        self.note_peak();
        let peak = self.peak.lock().clone();
        let now = self.account();
        // Threads that serve other databases may have enlarged their buffers since the peak was recorded.
        let peak = if now.total_bytes() > peak.total_bytes() { now.clone() } else { peak };
        (now, peak)
    }

    /// Resets the peak.
    pub fn reset_peak(&self) {
        *self.peak.lock() = self.account();
    }

    /// Records the peak, and drops pieces that exceed the budget.
    pub fn keep_within_budget(&self) {
        let total_bytes = self.note_peak();
        if self.budget().is_some_and(|budget| total_bytes > budget) {
            self.rebalance(0);
        }
    }

    /// Records the peak while the reads of `get_many` have their buffers, if these have a large part of their limit.
    pub fn note_batch(&self) {
        if self.budget().is_some() && self.batches.held_bytes() > self.batch_bytes_max() / 2 {
            self.keep_within_budget();
        }
    }

    /// Drops pieces to free this much memory, which is about to be allocated.
    pub fn make_room(&self, bytes: u64) {
        if let Some(budget) = self.budget()
            && self.account().total_bytes() + bytes > budget
        {
            self.rebalance(bytes);
        }
    }

    /// Returns the most HashStores that a partition may have so that the budget has place for the cursors of their
    /// merge, if there is a budget.
    pub fn hash_stores_max(&self) -> Option<usize> {
        let most = self.budget()? / HASH_CURSORS_SHARE / self.cursor_bytes();
        Some((most as usize).max(HASH_STORES_MIN))
    }

    /// Returns the memory of a cursor of a merge besides its part of a transfer, in bytes.
    fn cursor_bytes(&self) -> u64 {
        CURSOR_BLOCKS * u64::from(self.configuration.header.block_bytes) + self.partitions.record_bytes()
    }

    /// Returns whether the budget has place for a further conversion.
    pub fn has_place_for_conversion(&self) -> bool {
        self.has_place_for(|required| required.convert)
    }

    /// Returns whether the budget has place for a further merge.
    pub fn has_place_for_merge(&self) -> bool {
        self.has_place_for(|required| required.further_merge)
    }

    fn has_place_for(&self, job: impl Fn(&Required) -> u64) -> bool {
        self.budget().is_none_or(|budget| {
            let required = self.required();
            required.bytes + required.pieces + job(&required) <= budget
        })
    }

    /// Returns the memory that the engine requires now and at the peak of the work that it may start.
    fn required(&self) -> Required {
        let (converting, merging) = (self.conversions.sum(), self.merges.sum());
        let chaining = self.chain_bytes.load(Relaxed);
        let (mut pieces, mut sorted_bytes, mut stores, mut records) = (0, 0, 0, 0);
        let (mut all_pieces, mut filter_bytes) = (0, 0);
        let filter_bits = self.configuration.last_filter.bits();
        let (mut table_bytes, mut growth, mut prefilter_bytes, mut columns_bytes) = (0, 0, 0, 0);
        for partition in self.partitions.iter() {
            let view = partition.read(|state| {
                let full = state.active.heap_bytes_max() as u64;
                table_bytes = table_bytes.max(full);
                growth += full - state.active.heap_bytes() as u64;
                records = records.max(u64::from(state.active.slots()));
                state.view.clone()
            });
            for piece in view.pieces() {
                pieces += if piece.resident { piece.bytes } else { 0 };
                all_pieces += if piece.resident { piece.bytes } else { 2 * decoded_bytes(piece.bytes) };
            }
            let merged = view.stored_records();
            if self.may_build_filter(merged, filter_bits) {
                filter_bytes = filter_bytes.max(filter_in_the_making_bytes(merged, filter_bits));
            }
            sorted_bytes =
                sorted_bytes.max(view.sorted.as_ref().map_or(0, |(_, store)| store.saved_bytes().0));
            stores = stores.max(view.hash_stores.len() as u64);
            let prefilter = view.chain.as_ref().map_or(0, |(_, chain)| chain.prefilter_bytes());
            prefilter_bytes = prefilter_bytes.max(prefilter);
            // The job of the chain reads the columns of all runs that are not in it.
            let runs = view.stores().take(view.unchained()).map(|(.., store)| store);
            let columns = runs.filter(|store| store.fences_bytes().is_some()).map(|run| run.saved_bytes().0);
            columns_bytes = columns_bytes.max(columns.sum::<u64>());
        }
        let transfer = self.transfer_bytes() as u64;
        let block = u64::from(self.configuration.header.block_bytes);
        // With direct I/O each of the streams that a job reads or writes has a piece in flight.
        let (writing, merging_streams) = match self.configuration.directory.access().is_direct() {
            true => (1, 3),
            false => (0, 0),
        };
        let batch = match &self.configuration.settings.chain {
            Some(_) => BATCH_PARTS * self.transfer_bytes_max() as u64,
            None => 0,
        };
        let convert = records * CONVERT_BYTES_PER_RECORD + (3 + writing) * transfer + 2 * block + batch;
        let merge = (5 + merging_streams) * transfer
            + (stores + 4) * self.cursor_bytes()
            + 2 * sorted_bytes
            + PREFILTERS_IN_THE_MAKING * prefilter_bytes;
        let cached = if self.cache.is_enabled() { self.cache.heap_bytes() as u64 } else { 0 };
        // The account may have changed since the pieces were counted.
        let fixed =
            self.account().total_bytes().saturating_sub(pieces + cached + converting + merging + chaining);
        // Buffers that grow by less than this need no new decision.
        self.read_bytes.store(scratch_bytes() + SLACK_BYTES as usize / 2, Relaxed);
        // The next job may take as much as the largest one so far.
        let (convert, merge) = (self.conversions.of_one(convert), self.merges.of_one(merge));
        // It builds a filter, and freezes a LogStore, which another one follows.
        let further_merge = merge + filter_bytes + table_bytes;
        let bytes = fixed
            + SLACK_BYTES
            + growth
            + table_bytes
            + convert * (1 + self.conversions.further())
            + merge
            + further_merge * self.merges.further()
            + columns_bytes.max(chaining);
        Required { bytes, pieces: all_pieces, convert, further_merge }
    }

    /// Returns the bits per key of the filter of a partition's new SortedStore with this many records; 0 if it gets
    /// none. `replaced` are the bytes of the filter that it replaces.
    pub fn last_filter_bits(&self, records: u64, replaced: u64) -> u8 {
        let last_filter = &self.configuration.last_filter;
        let bits = last_filter.bits();
        let held = filter_in_the_making_bytes(records, bits) / 2;
        // One that was not asked for must not displace anything else than records of the cache.
        let has_place = || !last_filter.is_auto() || self.has_place_for(|_| held.saturating_sub(replaced));
        if self.may_build_filter(records, bits) && has_place() { bits } else { 0 }
    }

    fn may_build_filter(&self, records: u64, bits: u8) -> bool {
        filter_in_the_making_bytes(records, bits) <= self.budget.load(Relaxed) / FILTER_SHARE
    }

    /// Decides what is in memory when `extra` more bytes are about to be taken. Returns the piece to read back next, if
    /// there is a budget and a piece that fits.
    pub fn rebalance(&self, extra: u64) -> Option<(usize, Piece)> {
        let Some(budget) = self.budget() else {
            self.cache.resize(0, &|_| 0);
            return None;
        };
        // Two threads at a time would both count on the memory that is left.
        let _change = self.change.lock();
        let mut left = budget.saturating_sub(self.required().bytes + extra);
        let mut pieces = self.pieces();
        // Of one kind, resident pieces come first, so that no piece is dropped for another of its kind.
        pieces.sort_unstable_by_key(|(number, piece)| (piece.kind, !piece.resident, *number, piece.store));
        let unreadable = self.unreadable.lock().clone();
        let mut held = 0;
        let mut missing = None;
        let mut dropped = Vec::new();
        // In the order of usefulness: the first pieces get the memory.
        for (number, piece) in pieces {
            // While a piece is decoded, its bytes from flash are in memory too.
            let bytes = if piece.resident { piece.bytes } else { 2 * decoded_bytes(piece.bytes) };
            let fits = bytes <= left && held + bytes <= self.configuration.settings.resident_bytes_max;
            held += if fits { bytes } else { 0 };
            match (fits, piece.resident) {
                (true, true) => left -= bytes,
                (true, false) if !unreadable.contains(&(piece.store, piece.kind)) => {
                    // What all missing pieces need is kept from the cache, which would grow and shrink again.
                    missing = missing.or(Some((number, piece)));
                    left -= bytes;
                }
                (false, true) => dropped.push((number, piece)),
                (_, false) => {}
            }
        }
        let hash_of = |key: &[u8]| cache_hash(self.configuration.hasher.hash(key));
        // The cache gets what the pieces leave.
        self.cache.resize(left.try_into().unwrap_or(usize::MAX), &hash_of);
        for (number, piece) in dropped {
            // If the store was merged since the pieces were listed, the view lacks it, and this changes nothing.
            self.partitions.get(number).change_view(|view| view.without(piece.store, piece.kind));
            event!(warn, partition = number, store = piece.store, piece = ?piece.kind, "left memory for the budget");
        }
        self.has_missing.store(missing.is_some(), Relaxed);
        missing
    }

    /// Reads back one piece that fits.
    pub fn step_load(&self) -> Result<Step> {
        if !self.has_work() {
            return Ok(Step::Idle);
        }
        // A piece that is decoded takes its memory twice, so only one is read at a time.
        let Some(_loading) = self.loading.try_lock() else { return Ok(Step::Idle) };
        // With a budget, not just the first missing piece: one that does not fit would be dropped and read again
        // forever.
        let next = match self.budget() {
            Some(_) => self.rebalance(0),
            None => self.first_missing(),
        };
        let Some((number, piece)) = next else {
            self.has_missing.store(false, Relaxed);
            self.is_opening.store(false, Relaxed);
            return Ok(Step::Idle);
        };
        let partition = self.partitions.get(number);
        // The piece is read without a lock.
        let Some(loaded) = partition.view().load(piece.store, piece.kind) else { return Ok(Step::Worked) };
        match loaded {
            Ok(store) => {
                // The view may have changed during the read, so only the piece is taken from what was read.
                let _change = self.change.lock();
                partition.change_view(|view| view.with(piece.store, piece.kind, &store));
            }
            // The store is used without the piece; the next merge writes a new one.
            Err(_) => drop(self.unreadable.lock().insert((piece.store, piece.kind))),
        }
        self.note_peak();
        Ok(Step::Worked)
    }

    /// Returns the piece to read back next if there is no budget.
    fn first_missing(&self) -> Option<(usize, Piece)> {
        let unreadable = self.unreadable.lock().clone();
        let missing = self
            .pieces()
            .into_iter()
            .filter(|(_, piece)| !piece.resident && !unreadable.contains(&(piece.store, piece.kind)));
        missing.min_by_key(|(number, piece)| (piece.kind, *number, piece.store))
    }

    /// Returns the pieces of all partitions, with the numbers of these.
    fn pieces(&self) -> Vec<(usize, Piece)> {
        let mut pieces = Vec::new();
        for (number, partition) in self.partitions.iter().enumerate() {
            pieces.extend(partition.view().pieces().map(|piece| (number, piece)));
        }
        pieces
    }
}

/// The memory that the engine requires, in bytes.
struct Required {
    /// Now, and at the peak of the jobs in progress and of one more of each kind that has none.
    bytes: u64,
    /// Of all indexes and filters, also of those on flash.
    pieces: u64,
    /// Of a further conversion, and of a further merge.
    convert: u64,
    further_merge: u64,
}

fn decoded_bytes(saved: u64) -> u64 {
    saved + saved / DECODED_SHARE + 64
}
