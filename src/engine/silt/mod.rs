//! SILT (SOSP 2011; dissertation, chapter 2): LogStores, HashStores and SortedStores composed into the store that needs
//! the least memory a key at one flash read a lookup.
//!
//! | file | paper |
//! |---|---|
//! | `partition`, `batch` | 2: lookups go through the stores from the youngest on; partitioning |
//! | `write` | 3.1: a write goes to the log and its index |
//! | `convert` | 3.2: a full LogStore becomes a HashStore |
//! | `merge` | 3.3: HashStores are merged into the SortedStore |
//! | `policy` | 5, dissertation 2.4: when, and how large (d, H, P) |
//! | `scan` | pages of records in hash order |
//! | `count` | how many keys there are, from a sample |
//! | `residency` | 4: fail-graceful indexing; the memory budget |
//! | `open` | 4: crash tolerance; what the paper leaves open is done by the log's durability levels |
//!
//! Deviations: all partitions share one log; merges are triggered by a bound over all partitions (see `policy`);
//! a partition's LogStores are merged directly when it is merged anyway.

mod account;
mod batch;
mod convert;
#[doc(hidden)]
pub mod costs;
mod count;
mod create;
mod family;
mod jobs;
mod ledger;
#[doc(hidden)]
pub mod live;
mod merge;
mod open;
mod partition;
mod policy;
mod repair;
mod reshape;
mod residency;
mod scan;
mod settings;
mod snapshot;
mod verify;
mod write;

#[cfg(test)]
mod tests;

pub use crate::store::FilterKind;
pub use crate::store::ordered::IndexKind;
pub(in crate::engine) use family::INFO;
#[doc(hidden)]
pub use settings::Mistake;
pub use settings::{HashStoreKind, SiltSettings};

use crate::batch::{Durability, HashedWrite, NEVER, TimestampMs};
use crate::cache::{Cached, CachedRecord, RecordCache, Ticket};
use crate::damage::VerifyReport;
use crate::device::{AlignedBuffer, Directory, Purpose, with_scratch};
use crate::engine::{Background, Capabilities, Changing, Engine, Found, ScanLimit, ScanPage, Snapshot, Step};
use crate::health::{FailStop, Health};
use crate::key::{Key, KeyHash, KeyHasher, Placing};
use crate::progress::Progress;
use crate::stats::{RamAccount, Stats};
use crate::store::log::Log;
use crate::store::manifest::Header;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::{Error, Result};
use jobs::Jobs;
use ledger::Ledger;
use partition::{Partition, Sought, Stores};
use residency::Residency;
use snapshot::SiltSnapshot;
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;

/// The SILT engine.
pub struct Silt {
    core: Arc<Core>,
}

/// What all parts of the engine share.
struct Core {
    directory: Directory,
    settings: SiltSettings,
    shape: Header,
    placing: Placing,
    log: Arc<Log>,
    partitions: Vec<Partition>,
    ledger: FailStop<Ledger>,
    next_store_number: AtomicU64,
    /// How many conversions are not yet in the manifest.
    pending_commits: AtomicU64,
    /// Up to where the log is synced as the manifest states it.
    log_stated: AtomicU64,
    /// About how many keys there are.
    keys: AtomicU64,
    jobs: Jobs,
    residency: Residency,
    /// Enabled from the first memory budget on.
    cache: RecordCache,
    counters: Counters,
    ram_peak: Mutex<RamAccount>,
    /// The log's too. It says which lock orders failures and acknowledgements.
    health: Arc<Health>,
    closed: AtomicBool,
}

#[derive(Default)]
struct Counters {
    writes: AtomicU64,
    user_bytes: AtomicU64,
    replayed_records: u64,
    lost_tail_bytes: u64,
    conversions: AtomicU64,
    merges: AtomicU64,
    /// Tables that were frozen because they were full, the records in them and their slots.
    full_tables: AtomicU64,
    full_table_records: AtomicU64,
    full_table_slots: AtomicU64,
}

impl Core {
    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.directory.is_read_only() {
            return Err(Error::ReadOnly);
        }
        if self.settings.makes(Mistake::ChecksOnlyUnderLocks) {
            return Ok(());
        }
        self.health.check()
    }

    /// Whether background work may go on: with a directory that may only be read this is reading alone.
    fn may_step(&self) -> bool {
        matches!(self.check_writable(), Ok(()) | Err(Error::ReadOnly))
    }

    /// A number for a new store.
    fn take_number(&self) -> u64 {
        self.next_store_number.fetch_add(1, Ordering::Relaxed)
    }

    /// The partition of a key and its hash there.
    fn place(&self, key: Key<'_>) -> (usize, KeyHash) {
        let bits = self.placing.partitions_log2;
        (key.hash().partition(bits), key.hash().within_partition(bits))
    }

    fn get(
        &self,
        key: Key<'_>,
        now_ms: TimestampMs,
        purpose: Purpose,
        buffer: &mut AlignedBuffer,
    ) -> Result<Option<Found>> {
        match self.open(key, now_ms) {
            ControlFlow::Break(found) => Ok(found),
            ControlFlow::Continue((sought, stores)) => stores.look_up(&sought, purpose, buffer),
        }
    }

    /// What the cache answers; if it does not, where to look.
    fn open<'a>(
        &'a self,
        key: Key<'a>,
        now_ms: TimestampMs,
    ) -> ControlFlow<Option<Found>, (Sought<'a>, Stores)> {
        let (partition, hash) = self.place(key);
        match self.look_up_cached(key.bytes(), hash, now_ms) {
            Ok(found) => ControlFlow::Break(found),
            Err(ticket) => {
                let stores = self.partitions[partition].stores(&self.log, hash);
                ControlFlow::Continue((self.sought(key.bytes(), hash, now_ms, ticket), stores))
            }
        }
    }

    /// What the cache answers; if it does not, the right to put the record there.
    fn look_up_cached(
        &self,
        key: &[u8],
        hash: KeyHash,
        now_ms: TimestampMs,
    ) -> std::result::Result<Option<Found>, Ticket> {
        match self.cache.get(cache_hash(hash), key) {
            Cached::Hit(CachedRecord { value, expires_at_ms }) => {
                let is_gone = expires_at_ms != NEVER && expires_at_ms <= now_ms;
                Ok((!is_gone).then_some(Found { value, expires_at_ms }))
            }
            Cached::Miss(ticket) => {
                if self.residency.is_outgrown() {
                    self.rebalance(0);
                }
                Err(ticket)
            }
        }
    }

    fn sought<'a>(&'a self, key: &'a [u8], hash: KeyHash, now_ms: TimestampMs, ticket: Ticket) -> Sought<'a> {
        Sought { key, hash, now_ms, cache: &self.cache, ticket }
    }
}

/// The hash by which a record is cached.
fn cache_hash(hash: KeyHash) -> u64 {
    let both = (hash.placement ^ hash.fingerprint.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    both ^ both >> 32
}

impl Engine for Silt {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn shape(&self) -> crate::stats::Shape {
        self.core.shape()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { persistent: true, lossy: false }
    }

    fn hasher(&self) -> KeyHasher {
        self.core.placing.hasher
    }

    fn get(&self, key: Key<'_>, now_ms: TimestampMs) -> Result<Option<Found>> {
        self.core.check_open()?;
        with_scratch(|buffer| self.core.get(key, now_ms, Purpose::Get, buffer))
    }

    fn get_many(&self, keys: &[Key<'_>], now_ms: TimestampMs) -> Result<Vec<Option<Found>>> {
        self.core.check_open()?;
        self.core.get_many(keys, now_ms)
    }

    /// By the tags of LogStores and by the filters that are in memory. A last store without a filter may contain any
    /// key.
    fn may_contain(&self, key: Key<'_>, _now_ms: TimestampMs) -> Result<bool> {
        self.core.check_open()?;
        let (partition, hash) = self.core.place(key);
        Ok(self.core.partitions[partition].stores(&self.core.log, hash).may_contain(hash))
    }

    fn write(&self, writes: &[HashedWrite<'_>], durability: Durability, _now_ms: TimestampMs) -> Result<()> {
        self.core.check_writable()?;
        self.core.write(writes, durability)
    }

    fn update_many(
        &self,
        keys: &[Key<'_>],
        durability: Durability,
        now_ms: TimestampMs,
        change: &mut Changing<'_>,
    ) -> Result<()> {
        self.core.check_writable()?;
        self.core.update_many(keys, durability, now_ms, change)
    }

    /// Takes the locks of all writers for a moment and copies nothing. While the snapshot is held, the first change of
    /// a LogStore's index copies that index.
    fn snapshot(&self, now_ms: TimestampMs) -> Result<Arc<dyn Snapshot>> {
        self.core.check_open()?;
        Ok(Arc::new(SiltSnapshot::take(&self.core, now_ms)))
    }

    fn scan(
        &self,
        positions: RangeInclusive<u64>,
        limit: ScanLimit,
        now_ms: TimestampMs,
    ) -> Result<ScanPage> {
        self.core.check_open()?;
        self.core.scan(positions, limit, now_ms)
    }

    fn approximate_len(&self, now_ms: TimestampMs) -> Result<u64> {
        self.core.check_open()?;
        self.core.approximate_len(now_ms)
    }

    fn sync(&self) -> Result<()> {
        self.core.check_writable()?;
        self.core.make_found_durable(Durability::Synced)?;
        self.core.state_synced_now_and_then(true)
    }

    fn step(&self, now_ms: TimestampMs) -> Result<Step> {
        if self.core.directory.is_read_only() {
            self.core.check_open()?;
            return self.core.step_load();
        }
        if self.core.check_writable().is_err() {
            return Ok(Step::Idle);
        }
        self.core.step(now_ms)
    }

    fn background(&self) -> Background {
        let Core { jobs, residency, health, .. } = &*self.core;
        let (may_step, loads) = (self.core.may_step(), residency.has_work());
        Background {
            has_work: (jobs.has_work() || loads) && may_step,
            wants_thread: (jobs.want_thread() || loads) && may_step,
            pressure: if health.has_failed() { 0.0 } else { jobs.pressure() },
            lead: jobs.lead(),
        }
    }

    fn check_open(&self) -> Result<()> {
        self.core.check_open()
    }

    fn check_writable(&self) -> Result<()> {
        self.core.check_writable()
    }

    fn poison(&self, cause: &str) {
        self.core.health.poison(cause);
    }

    fn set_memory_budget(&self, bytes: Option<u64>) -> Result<()> {
        self.core.check_open()?;
        self.core.set_memory_budget(bytes)
    }

    fn request_compaction(&self) -> Result<()> {
        self.core.check_writable()?;
        self.core.request_compaction()
    }

    fn checkpoint(&self, target: &Directory) -> Result<()> {
        self.core.check_writable()?;
        self.core.checkpoint(target)
    }

    fn verify(&self, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        self.core.check_open()?;
        self.core.verify(progress)
    }

    fn stats(&self) -> Stats {
        self.core.stats()
    }

    fn reset_ram_peak(&self) {
        *self.core.ram_peak.lock() = self.core.ram();
    }

    fn close(&self) -> Result<()> {
        let closed_before = self.core.closed.swap(true, Ordering::AcqRel);
        self.core.health.check()?;
        if closed_before {
            return Err(Error::Closed);
        }
        if self.core.directory.is_read_only() {
            return Ok(());
        }
        self.core.ledger.run(|ledger| {
            self.core.commit_pending(ledger)?;
            if !self.core.log.is_synced() {
                self.core.log.sync_to(self.core.log.end())?;
            }
            self.core.state_synced(ledger)
        })
    }
}
