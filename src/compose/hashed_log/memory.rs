//! The memory account and its limit: the index and the buffers, and the record cache in what the budget leaves.

use super::indexed_logs::IndexedLogs;
use crate::cache::{RecordCache, cache_hash};
use crate::compose::KEY_STRIPES_BYTES;
use crate::device::scratch_bytes;
use crate::stats::RamAccount;
use crate::store::ordered_keys::OrderedKeys;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::{Error, Result};
use std::sync::Arc;

/// The value for no budget.
const UNLIMITED: u64 = u64::MAX;
/// The smallest budget, in bytes, and the addition for each shard.
const BUDGET_MIN: u64 = 256 << 10;
const BUDGET_MIN_PER_SHARD: u64 = 4 << 10;
/// Memory for changes between two decisions, in bytes.
const SLACK_BYTES: u64 = 32 << 10;

/// Returns an error for a budget that is less than the engine requires.
pub(crate) fn check_budget(budget: u64, shards: usize) -> Result<()> {
    let least = BUDGET_MIN + BUDGET_MIN_PER_SHARD * shards as u64;
    if budget >= least {
        return Ok(());
    }
    let problem =
        format!("{budget} bytes are too few; a database of {shards} partitions needs {least} or more");
    Err(Error::Setting { name: "memory_budget", problem })
}

/// The budget, and the memory that is counted against it.
pub(crate) struct Memory {
    logs: Arc<IndexedLogs>,
    cache: Arc<RecordCache>,
    budget: AtomicU64,
    /// The memory of all threads' read buffers that the last decision counted on, in bytes.
    read_bytes: AtomicUsize,
    /// The memory of a piece that is being cleaned, in bytes.
    pub(super) clean_bytes: AtomicU64,
    /// The memory of a merge of keys, in bytes.
    pub(super) key_merge_bytes: AtomicU64,
    /// The memory of a sweep, in bytes.
    pub(super) sweep_bytes: AtomicU64,
    /// The account at its peak.
    peak: Mutex<RamAccount>,
}

impl Memory {
    pub fn new(logs: &Arc<IndexedLogs>, cache: &Arc<RecordCache>, budget: Option<u64>) -> Memory {
        if budget.is_some() {
            cache.enable();
        }
        let memory = Memory {
            logs: logs.clone(),
            cache: cache.clone(),
            budget: AtomicU64::new(budget.unwrap_or(UNLIMITED)),
            read_bytes: AtomicUsize::new(0),
            clean_bytes: AtomicU64::new(0),
            key_merge_bytes: AtomicU64::new(0),
            sweep_bytes: AtomicU64::new(0),
            peak: Mutex::default(),
        };
        memory.keep_within_budget();
        memory
    }

    /// Changes the budget; `None` removes it. The record cache takes what is left, if there is a budget.
    pub fn set(&self, budget: Option<u64>) -> Result<()> {
        if let Some(budget) = budget {
            check_budget(budget, self.logs.shards())?;
            self.logs.with_all_writers(|| self.cache.enable());
        }
        self.budget.store(budget.unwrap_or(UNLIMITED), Relaxed);
        if let Some(keys) = &self.logs.keys {
            keys.set_budget(budget);
        }
        self.keep_within_budget();
        Ok(())
    }

    /// Gives the record cache what the budget leaves, and notes the peak.
    pub fn keep_within_budget(&self) {
        self.read_bytes.store(scratch_bytes(), Relaxed);
        let budget = self.budget.load(Relaxed);
        if budget == UNLIMITED {
            self.cache.resize(0, &|_| 0);
        } else {
            let required = self.required().total_bytes() + SLACK_BYTES;
            let hasher = self.logs.hasher();
            self.cache.resize(budget.saturating_sub(required) as usize, &|key| cache_hash(hasher.hash(key)));
        }
        self.account();
    }

    /// Decides again if a thread has got a larger read buffer since the last time.
    #[inline]
    pub fn account_for_read_buffers(&self) {
        if self.budget.load(Relaxed) != UNLIMITED && scratch_bytes() > self.read_bytes.load(Relaxed) {
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
        account.add("confirm_queue", self.logs.pairs.heap_bytes() as u64);
        account.add("clean_buffers", self.clean_bytes.load(Relaxed));
        account.add("sweep", self.sweep_bytes.load(Relaxed));
        account.add("read_buffers", scratch_bytes() as u64);
        account.add("locks", (KEY_STRIPES_BYTES + self.logs.shards() * size_of::<Mutex<()>>()) as u64);
        account
    }

    /// Returns the account, and adds it to the peak.
    pub fn account(&self) -> RamAccount {
        let mut account = self.required();
        account.add("record_cache", self.cache.heap_bytes() as u64);
        let mut peak = self.peak.lock();
        if account.total_bytes() > peak.total_bytes() {
            peak.clone_from(&account);
        }
        account
    }

    /// Returns the account at its peak.
    pub fn peak(&self) -> RamAccount {
        self.peak.lock().clone()
    }

    /// Begins a new peak.
    pub fn reset_peak(&self) {
        *self.peak.lock() = RamAccount::default();
        self.account();
    }
}
