//! The memory account and its limit: the index and the buffers, and the record cache in what the budget leaves.

use super::clean::CLEANINGS_MAX;
use super::indexed_logs::IndexedLogs;
use super::unconfirmed::NOTE_BYTES;
use crate::cache::{RecordCache, cache_hash};
use crate::engine::jobs::KEY_STRIPES_BYTES;
use crate::error::{Error, Result};
use crate::stats::RamAccount;
use crate::store::ordered_keys::OrderedKeys;
use siltstone_device::scratch_bytes;
use siltstone_device::sync::Mutex;
use siltstone_device::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

/// The value for no budget.
const UNLIMITED: u64 = u64::MAX;
/// The smallest budget, in bytes, and the addition for each shard.
const BUDGET_MIN: u64 = 512 << 10;
const BUDGET_MIN_PER_SHARD: u64 = 4 << 10;
/// Memory for changes between two decisions, in bytes: at least, and as a share of the budget. Another decision is made
/// when what was written may have taken it.
const SLACK_BYTES_MIN: u64 = 32 << 10;
const SLACK_SHARE: u64 = 32;
/// Shards leave memory when less than this many times the memory for changes is left, and writes wait for them when one
/// part less is: a save needs the rest until they are on flash.
const MOVE_SLACKS: u64 = 3;
/// The most memory that a write takes besides its key, in bytes: an entry, a note, two operations, a key in order.
const WRITE_BYTES: u64 = 192;
/// A read or a write of background work, and a buffer of a log, take at most one part in this many of the budget.
const TRANSFER_SHARE: u64 = 128;
const TRANSFER_BYTES_MIN: u64 = 4 << 10;
/// The buffers of a batch of reads take at most one part in this many of the budget.
const BATCH_SHARE: u64 = 32;
/// The operations that are not in redo take at most this share of the budget.
const PENDING_SHARE: u64 = 64;

/// There is at most one unconfirmed overwrite for this many bytes of a budget: its note and the second entry of the
/// key take a twelfth of them. Writes wait when there are twice as many, and a confirmation takes as much again.
const BUDGET_PER_NOTE: u64 = 12 * (NOTE_BYTES as u64 + 6);

/// The memory of an entry on flash, in bytes: that of its changes, on average, and of the places of pages.
const FLASH_ENTRY_BYTES: f64 = 0.3;
/// Records leave if the index takes more than this share of the budget.
pub const INDEX_SHARE: f64 = 0.75;
/// A shard is moved to memory only if there is this much more than it needs.
const GROWTH: f64 = 1.15;

/// Returns an error for a budget that is less than the engine requires with all `entries` on flash.
pub(crate) fn check_budget(budget: u64, shards: usize, entries: u64) -> Result<()> {
    let least = budget_min(shards, entries);
    if budget >= least {
        return Ok(());
    }
    let problem = format!(
        "{budget} bytes are too few; a database of {shards} partitions and {entries} keys needs {least} or more, also \
         with its index on flash"
    );
    Err(Error::Setting { name: "memory_budget", problem })
}

fn budget_min(shards: usize, entries: u64) -> u64 {
    BUDGET_MIN + BUDGET_MIN_PER_SHARD * shards as u64 + (FLASH_ENTRY_BYTES * entries as f64) as u64
}

/// Returns how many shards are to be in memory: the share of the settings, or as many as `left` bytes hold besides what
/// the others take. `index_bytes` is what all would take.
fn memory_shards(share: f64, shards: usize, left: u64, index_bytes: f64, entries: u64) -> usize {
    let wanted = (share * shards as f64).round() as usize;
    if index_bytes * share <= left as f64 {
        return wanted;
    }
    let left = (left as f64 - FLASH_ENTRY_BYTES * entries as f64).max(0.0);
    wanted.min((left * shards as f64 / index_bytes.max(1.0)) as usize)
}

/// Returns how many shards an open reads to memory. `saved_bytes` is the length of the saved index.
pub(super) fn memory_shards_at_opening(
    share: f64,
    shards: usize,
    budget: Option<u64>,
    saved_bytes: u64,
) -> usize {
    let left = budget.map_or(u64::MAX, |budget| budget.saturating_sub(budget_min(shards, 0)));
    memory_shards(share, shards, left, GROWTH * saved_bytes as f64, saved_bytes / 5)
}

/// The budget, and the memory that is counted against it.
pub(crate) struct Memory {
    logs: Arc<IndexedLogs>,
    cache: Arc<RecordCache>,
    budget: AtomicU64,
    /// What writes may have taken since the last decision, in bytes.
    written_bytes: AtomicU64,
    /// The account without the record cache at the last decision, with the reserve for what comes, in bytes.
    wanted_bytes: AtomicU64,
    /// The memory of all threads' read buffers that the last decision counted on, in bytes.
    read_bytes: AtomicUsize,
    /// The most memory of batches of reads at once that lookups have asked for, in bytes.
    asked_batch_bytes: AtomicU64,
    /// The memory of a piece that is being cleaned, in bytes.
    pub(super) clean_bytes: [AtomicU64; CLEANINGS_MAX],
    /// The memory of a merge of keys, in bytes.
    pub(super) key_merge_bytes: AtomicU64,
    /// The memory of an index that is being saved, in bytes.
    pub(super) save_bytes: AtomicU64,
    /// The memory of overwrites that are being confirmed, and of a search for them, in bytes.
    pub(super) confirm_bytes: AtomicU64,
    pub(super) search_bytes: AtomicU64,
    /// The account at its peak.
    peak: Mutex<RamAccount>,
}

impl Memory {
    pub fn new(logs: &Arc<IndexedLogs>, cache: &Arc<RecordCache>, budget: Option<u64>) -> Memory {
        // At an open no write is in progress, so the cache misses no announcement.
        if budget.is_some() {
            cache.enable();
        }
        let memory = Memory {
            logs: logs.clone(),
            cache: cache.clone(),
            budget: AtomicU64::new(budget.unwrap_or(UNLIMITED)),
            written_bytes: AtomicU64::new(0),
            wanted_bytes: AtomicU64::new(0),
            read_bytes: AtomicUsize::new(0),
            asked_batch_bytes: AtomicU64::new(0),
            clean_bytes: Default::default(),
            key_merge_bytes: AtomicU64::new(0),
            save_bytes: AtomicU64::new(0),
            confirm_bytes: AtomicU64::new(0),
            search_bytes: AtomicU64::new(0),
            peak: Mutex::default(),
        };
        memory.limit_transfers();
        memory.keep_within_budget();
        memory
    }

    /// Lets background work read and write in pieces, and lookups read in batches, that fit the budget.
    fn limit_transfers(&self) {
        let bytes = self.transfer_bytes() as usize;
        self.logs.data.limit_buffer(bytes);
        self.logs.data.limit_reads(bytes);
        self.logs.index.limit_pieces(bytes);
        self.logs.data.read_batches().limit(self.batch_bytes_max());
        self.logs.index.read_batches().limit(self.batch_bytes_max());
    }

    /// Returns the most memory of a batch of reads.
    fn batch_bytes_max(&self) -> u64 {
        self.budget.load(Relaxed) / BATCH_SHARE
    }

    /// Returns the memory of the batches of reads in progress.
    fn batch_bytes(&self) -> u64 {
        self.logs.data.read_batches().held_bytes() + self.logs.index.read_batches().held_bytes()
    }

    /// Returns the memory that the record cache leaves for batches of reads: that of one, or of as many as there were
    /// at once.
    fn batch_reserve_bytes(&self) -> u64 {
        self.asked_batch_bytes.load(Relaxed).max(self.batch_bytes_max())
    }

    /// Returns the most bytes of a read or a write of background work.
    pub fn transfer_bytes(&self) -> u64 {
        let share = self.budget.load(Relaxed) / TRANSFER_SHARE;
        (share / TRANSFER_BYTES_MIN * TRANSFER_BYTES_MIN).max(TRANSFER_BYTES_MIN)
    }

    /// Returns the most memory of operations that are not in redo.
    pub fn pending_bytes_max(&self) -> u64 {
        self.budget.load(Relaxed) / PENDING_SHARE
    }

    fn slack_bytes(&self) -> u64 {
        (self.budget.load(Relaxed) / SLACK_SHARE).max(SLACK_BYTES_MIN)
    }

    /// Notes writes. Returns whether they may have taken what the last decision has left for them.
    #[inline]
    pub fn must_decide(&self, keys: u64, key_bytes: u64) -> bool {
        if self.budget.load(Relaxed) == UNLIMITED {
            return false;
        }
        let bytes = keys * WRITE_BYTES + key_bytes;
        // Several threads may pass the limit at once. Each then decides, which costs time and no more.
        self.written_bytes.fetch_add(bytes, Relaxed) + bytes >= self.slack_bytes()
    }

    /// Changes the budget; `None` removes it. The record cache takes what is left, if there is a budget.
    pub fn set(&self, budget: Option<u64>) -> Result<()> {
        if let Some(budget) = budget {
            check_budget(budget, self.logs.shards(), self.logs.entries())?;
            // No write may be between its announcement and its entry: the cache would not know of it.
            self.logs.with_all_writers(|| self.cache.enable());
        }
        self.budget.store(budget.unwrap_or(UNLIMITED), Relaxed);
        self.asked_batch_bytes.store(0, Relaxed);
        if let Some(keys) = &self.logs.keys {
            keys.set_budget(budget);
        }
        self.limit_transfers();
        self.keep_within_budget();
        Ok(())
    }

    /// Returns the least budget, in bytes.
    pub fn min(&self) -> u64 {
        budget_min(self.logs.shards(), self.logs.entries())
    }

    /// Gives the record cache what the budget leaves, and notes the peak.
    pub fn keep_within_budget(&self) {
        self.read_bytes.store(scratch_bytes(), Relaxed);
        // Before the account is taken: what is written meanwhile counts for the next decision, or twice.
        self.written_bytes.store(0, Relaxed);
        let budget = self.budget.load(Relaxed);
        let required = self.required().total_bytes();
        // A confirmation takes about as much again as the notes have.
        let confirmed = self.logs.unconfirmed.heap_bytes() as u64;
        let wanted = required + confirmed + MOVE_SLACKS * self.slack_bytes();
        self.wanted_bytes.store(wanted, Relaxed);
        // `required` has the index as it is: shards that are to leave memory do so with the next save.
        self.place_index(budget, wanted);
        if budget == UNLIMITED {
            self.cache.resize(0, &|_| 0);
        } else {
            let hasher = self.logs.hasher();
            // `required` has what batches hold now.
            let batches = self.batch_reserve_bytes().saturating_sub(self.batch_bytes());
            let left = budget.saturating_sub(required + batches + self.slack_bytes());
            self.cache.resize(left as usize, &|key| cache_hash(hasher.hash(key)));
        }
        self.account();
    }

    /// Returns how short memory is while shards leave it: 0 when they begin to, 1 when writes have to wait.
    pub fn shortage(&self) -> f64 {
        let budget = self.budget.load(Relaxed);
        if budget == UNLIMITED {
            return 0.0;
        }
        (self.wanted_bytes.load(Relaxed) as f64 - budget as f64) / self.slack_bytes() as f64
    }

    /// Decides how many shards of the index are to be in memory. The next save of the index moves them.
    fn place_index(&self, budget: u64, wanted: u64) {
        let index = &self.logs.index;
        let residency = index.residency();
        let (shards, share) = (self.logs.shards(), self.logs.settings.index_in_memory);
        let left = budget.saturating_sub(wanted.saturating_sub(residency.memory_bytes));
        let index_bytes = match residency.memory_shards {
            0 => GROWTH * index.saved_bytes() as f64,
            some => residency.shards_bytes as f64 * shards as f64 / some as f64,
        };
        let now = index.memory_shards();
        let fewer = memory_shards(share, shards, left, index_bytes, residency.entries);
        let more = memory_shards(share, shards, left, GROWTH * index_bytes, residency.entries);
        // Shards leave when memory is short, and come back only if some is left over: each move is a save of the index.
        let next = now.clamp(more.min(fewer), fewer);
        if next < now {
            event!(
                warn,
                from = now,
                to = next,
                of = shards,
                "parts of the index leave memory for the budget"
            );
        }
        index.set_memory_shards(next);
    }

    /// Returns how much memory the index may take before records leave, in bytes.
    pub fn index_bytes_max(&self) -> u64 {
        match (self.logs.settings.recycling, self.budget.load(Relaxed)) {
            (None, _) | (_, UNLIMITED) => u64::MAX,
            (Some(_), budget) => (INDEX_SHARE * budget as f64) as u64,
        }
    }

    /// Returns the maximum number of unconfirmed overwrites, of a database with this many entries.
    pub fn unconfirmed_max(&self, entries: u64) -> u64 {
        let wanted = (self.logs.settings.unconfirmed_max * entries as f64) as u64;
        wanted.min(self.notes_max())
    }

    /// Returns of how many unconfirmed overwrites the budget has place for the notes.
    pub fn notes_max(&self) -> u64 {
        match self.budget.load(Relaxed) {
            UNLIMITED => u64::MAX,
            budget => budget / BUDGET_PER_NOTE,
        }
    }

    /// Decides again if a thread has got a larger read buffer since the last time.
    #[inline]
    pub fn account_for_read_buffers(&self) {
        if self.budget.load(Relaxed) != UNLIMITED && scratch_bytes() > self.read_bytes.load(Relaxed) {
            self.keep_within_budget();
        }
    }

    /// Takes memory of the record cache for a batch of reads that begins, unless enough was left for it.
    #[inline]
    pub fn make_place_for_batch(&self) {
        if self.budget.load(Relaxed) == UNLIMITED {
            return;
        }
        let bytes = self.batch_bytes() + self.batch_bytes_max();
        if bytes > self.batch_reserve_bytes() {
            self.asked_batch_bytes.fetch_max(bytes, Relaxed);
            self.keep_within_budget();
        }
    }

    /// Returns the account without the record cache.
    fn required(&self) -> RamAccount {
        let mut account = RamAccount::default();
        account.add("index", self.logs.index.heap_bytes() as u64);
        account.add("log_buffers", (self.logs.data.heap_bytes() + self.logs.index.pending_bytes()) as u64);
        let keys = self.logs.keys.as_ref().map_or(0, OrderedKeys::heap_bytes);
        account.add("ordered_keys", keys as u64);
        account.add("key_merge_buffers", self.key_merge_bytes.load(Relaxed));
        account.add("unconfirmed", self.logs.unconfirmed.heap_bytes() as u64);
        account.add("left", self.logs.left.heap_bytes());
        let clean_bytes = self.clean_bytes.iter().map(|bytes| bytes.load(Relaxed)).sum();
        account.add("clean_buffers", clean_bytes);
        account.add("save_buffers", self.save_bytes.load(Relaxed));
        let confirm_bytes = self.confirm_bytes.load(Relaxed) + self.search_bytes.load(Relaxed);
        account.add("confirm_buffers", confirm_bytes);
        account.add("read_buffers", scratch_bytes() as u64 + self.batch_bytes());
        account.add("locks", (KEY_STRIPES_BYTES + self.logs.shards() * size_of::<Mutex<()>>()) as u64);
        account
    }

    /// Returns the account, and adds it to the peak.
    pub fn account(&self) -> RamAccount {
        let mut account = self.required();
        account.add("record_cache", self.cache.heap_bytes() as u64);
        // The batches since the last account have ended, but the rest was in memory at the same time. A lookup reads
        // of the index first and then of the logs.
        let index_bytes = self.logs.index.read_batches().take_highest_bytes();
        let highest_bytes = self.logs.data.read_batches().take_highest_bytes().max(index_bytes);
        let mut highest = account.clone();
        highest.add("read_buffers", highest_bytes.saturating_sub(self.batch_bytes()));
        let mut peak = self.peak.lock();
        if highest.total_bytes() > peak.total_bytes() {
            *peak = highest;
        }
        account
    }

    /// Returns the account at its peak.
    pub fn peak(&self) -> RamAccount {
        self.peak.lock().clone()
    }

    /// Begins a new peak.
    pub fn reset_peak(&self) {
        // The batches before are of the old peak.
        self.logs.data.read_batches().take_highest_bytes();
        self.logs.index.read_batches().take_highest_bytes();
        *self.peak.lock() = RamAccount::default();
        self.account();
    }
}
