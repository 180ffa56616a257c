//! The engine: its parts composed, and the trait [`Engine`].

use super::bulk::SiltBulkLoad;
use super::checkpoint::checkpoint;
use super::commits::Commits;
use super::configuration::Configuration;
use super::count::{approximate_len, count_keys};
use super::live::Manifest;
use super::memory_budget::MemoryBudget;
use super::partition_settings::Mistake;
use super::partitions::Partitions;
use super::parts::Parts;
use super::put::Writer;
use super::scan::scan;
use super::scheduler::Scheduler;
use super::snapshot::SiltSnapshot;
use super::verify::verify;
use crate::batch::{Durability, HashedWrite, TimestampMs};
use crate::cache::RecordCache;
use crate::damage::VerifyReport;
use crate::engine::jobs::check_space;
use crate::engine::{
    Background, Backpressure, BulkLoad, Capabilities, Changing, Engine, GoOn, InMemory, Now, ScanLimit,
    ScanPage, Show, Snapshot, Step, show_all,
};
use crate::error::{Error, Result};
use crate::health::Health;
use crate::key::{Key, KeyHasher};
use crate::progress::Progress;
use crate::stats::{DegradedStore, Shape, Stats};
use crate::store::log::Log;
use siltstone_device::Directory;
use siltstone_device::sync::atomic::Ordering::Relaxed;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// An engine whose data is in partitions.
pub struct SiltEngine {
    pub(super) parts: Arc<Parts>,
    health: Arc<Health>,
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) writer: Writer,
    pub(super) replayed_records: u64,
    lost_tail_bytes: u64,
    is_read_only: bool,
}

impl SiltEngine {
    /// Returns an engine of partitions that were opened. The log is not yet replayed.
    pub(super) fn compose(
        configuration: Arc<Configuration>,
        log: Arc<Log>,
        partitions: Partitions,
        manifest: Manifest,
        memory_budget: Option<u64>,
        lost_tail_bytes: u64,
    ) -> SiltEngine {
        let partitions = Arc::new(partitions);
        let cache = Arc::new(RecordCache::new(0));
        let memory = MemoryBudget::new(&configuration, &partitions, &log, &cache, memory_budget);
        let commits = Commits::new(&configuration, &log, manifest);
        let (health, is_read_only) = (log.health().clone(), configuration.directory.is_read_only());
        let parts = Arc::new(Parts { configuration, log, partitions, cache, memory, commits });
        let scheduler = Arc::new(Scheduler::new(parts.clone()));
        let writer = Writer::new(&parts, &scheduler);
        SiltEngine { parts, health, scheduler, writer, replayed_records: 0, lost_tail_bytes, is_read_only }
    }

    /// Adds what only this engine counts.
    fn add_details(&self, stats: &mut Stats) {
        let on_flash = |is_on_flash: fn(&DegradedStore) -> bool| {
            stats.degraded.iter().filter(|store| is_on_flash(store)).count() as f64
        };
        let (indexes, filters) =
            (on_flash(|store| store.index_on_flash), on_flash(|store| store.filter_on_flash));
        let full = &self.parts.partitions.full_tables;
        let (records, slots) = (full.records.load(Relaxed) as f64, full.slots.load(Relaxed) as f64);
        let (hits, misses) = self.parts.cache.hits_and_misses();
        stats.details.extend([
            ("conversions", self.scheduler.conversions.load(Relaxed) as f64),
            ("merges", self.scheduler.merges.load(Relaxed) as f64),
            ("further_conversions", self.scheduler.further_conversions.load(Relaxed) as f64),
            ("further_merges", self.scheduler.further_merges.load(Relaxed) as f64),
            ("full_tables", full.tables.load(Relaxed) as f64),
            ("full_table_occupancy", if slots > 0.0 { records / slots } else { 0.0 }),
            ("reserve_bytes", self.parts.partitions.reserve_bytes() as f64),
            ("pressure", self.scheduler.background().pressure),
            ("indexes_on_flash", indexes),
            ("filters_on_flash", filters),
            ("filter_last_store_bits", f64::from(self.parts.configuration.last_filter.bits())),
            ("unreadable_sections", self.parts.memory.unreadable() as f64),
            ("record_cache_records", self.parts.cache.len() as f64),
            ("record_cache_hits", hits as f64),
            ("record_cache_misses", misses as f64),
        ]);
        if self.parts.configuration.settings.chain.is_some() {
            stats.details.push(("chains", self.scheduler.chains.load(Relaxed) as f64));
        }
        if let Some((open, max)) = self.parts.configuration.directory.open_files() {
            stats.details.extend([("open_files", open as f64), ("open_files_max", max as f64)]);
        }
    }
}

impl Engine for SiltEngine {
    fn name(&self) -> &'static str {
        self.parts.configuration.info.name
    }

    fn shape(&self) -> Shape {
        self.parts.configuration.header.shape()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { persistent: true, lossy: false }
    }

    fn hasher(&self) -> KeyHasher {
        self.parts.configuration.hasher.key_hasher
    }

    fn get_into(
        &self,
        key: Key<'_>,
        now_ms: TimestampMs,
        value: &mut Vec<u8>,
    ) -> Result<Option<TimestampMs>> {
        self.health.check_open()?;
        self.parts.get_into(key, now_ms, value)
    }

    fn get_many(&self, keys: &[Key<'_>], now_ms: TimestampMs, show: &mut Show<'_>) -> Result<()> {
        self.check_open()?;
        show_all(self.parts.get_many(keys, now_ms)?, show);
        Ok(())
    }

    fn look_in_memory(&self, key: Key<'_>, now_ms: TimestampMs, value: &mut Vec<u8>) -> Result<InMemory> {
        self.health.check_open()?;
        self.parts.look_in_memory(key, now_ms, value)
    }

    /// Decides by the tags of LogStores and by the filters that are in memory. A SortedStore without a filter may
    /// contain any key.
    fn may_contain(&self, key: Key<'_>, _now_ms: TimestampMs) -> Result<bool> {
        self.check_open()?;
        Ok(self.parts.may_contain(key))
    }

    fn write(&self, writes: &[HashedWrite<'_>], durability: Durability, _now_ms: &Now<'_>) -> Result<()> {
        if self.is_read_only { Err(Error::ReadOnly) } else { self.writer.write(writes, durability) }
    }

    fn update_many(
        &self,
        keys: &[Key<'_>],
        durability: Durability,
        now_ms: TimestampMs,
        change: &mut Changing<'_>,
    ) -> Result<()> {
        self.check_writable()?;
        self.writer.update_many(keys, durability, now_ms, change)
    }

    fn snapshot(&self, now_ms: TimestampMs) -> Result<Arc<dyn Snapshot>> {
        self.check_open()?;
        Ok(Arc::new(SiltSnapshot::take(&self.parts, now_ms)))
    }

    fn scan(
        &self,
        positions: RangeInclusive<u64>,
        limit: ScanLimit,
        now_ms: TimestampMs,
    ) -> Result<ScanPage> {
        self.check_open()?;
        scan(&self.parts, positions, limit, now_ms)
    }

    fn approximate_len(&self, now_ms: TimestampMs) -> Result<u64> {
        self.check_open()?;
        approximate_len(&self.parts.partitions, self.parts.configuration.hasher, now_ms)
    }

    fn count_keys(&self, now_ms: TimestampMs, go_on: &mut GoOn<'_>) -> Result<u64> {
        self.check_open()?;
        count_keys(&self.parts.partitions, self.parts.configuration.hasher, now_ms, go_on)
    }

    fn sync(&self) -> Result<()> {
        self.check_writable()?;
        self.writer.make_found_durable(Durability::Synced)?;
        self.parts.commits.state_synced_now_and_then(true)
    }

    fn step(&self, now_ms: TimestampMs) -> Result<Step> {
        if self.is_read_only {
            self.check_open()?;
            return self.parts.memory.step_load();
        }
        // After a failure no step may be tried again: what it left is not known.
        if self.check_writable().is_err() {
            return Ok(Step::Idle);
        }
        self.scheduler.step(now_ms)
    }

    fn background(&self) -> Background {
        let background = self.scheduler.background();
        // In a read-only directory, indexes and filters are read back.
        let may_step = matches!(self.check_writable(), Ok(()) | Err(Error::ReadOnly));
        Background {
            has_work: background.has_work && may_step,
            wants_thread: background.wants_thread && may_step,
            // Writers are refused then, and must not wait for work that is not done any more.
            pressure: if self.health.has_failed() { 0.0 } else { background.pressure },
            ..background
        }
    }

    fn backpressure(&self) -> Backpressure {
        self.scheduler.backpressure()
    }

    fn check_open(&self) -> Result<()> {
        self.health.check_open()
    }

    fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.is_read_only {
            return Err(Error::ReadOnly);
        }
        if self.parts.configuration.settings.makes(Mistake::ChecksOnlyUnderLocks) {
            return Ok(());
        }
        // Only early: what decides is the check under each lock (`Health::run`).
        self.health.check()
    }

    fn check_space(&self, bytes: u64, owed: u64) -> Result<u64> {
        let reserve = || self.parts.partitions.reserve_bytes().saturating_add(owed);
        check_space(&self.parts.configuration.directory, bytes, reserve)
    }

    fn poison(&self, cause: &str) {
        self.health.poison(cause);
    }

    fn set_memory_budget(&self, bytes: Option<u64>) -> Result<()> {
        self.check_open()?;
        self.parts.memory.set(bytes)
    }

    fn memory_budget_min(&self) -> u64 {
        self.parts.memory.min()
    }

    fn request_compaction(&self) -> Result<()> {
        self.check_writable()?;
        self.scheduler.request_compaction()
    }

    fn bulk_load(&self, memory_bytes: usize) -> Result<Option<Box<dyn BulkLoad + '_>>> {
        self.check_writable()?;
        Ok(Some(Box::new(SiltBulkLoad::begin(&self.writer, memory_bytes)?)))
    }

    fn checkpoint(&self, target: &Directory) -> Result<()> {
        self.check_writable()?;
        if self.parts.configuration.directory.shares_file_system(target) {
            // The log is copied.
            self.check_space(self.parts.log.end() - self.parts.log.start(), 0)?;
        }
        checkpoint(&self.parts, target)
    }

    fn verify(&self, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        self.check_open()?;
        verify(&self.parts, progress)
    }

    fn stats(&self) -> Stats {
        // One lock at a time: a checkpoint locks the commit queue and then writers, which update the peak.
        let manifest_bytes = self.parts.commits.look(Manifest::disk_bytes);
        let (ram, ram_peak) = self.parts.memory.accounts();
        let (writes, user_bytes) = self.writer.writes.sums();
        let mut stats = Stats {
            engine: self.parts.configuration.info.name,
            settings: self.parts.configuration.named_settings.clone(),
            shape: self.parts.configuration.header.shape(),
            writes,
            user_bytes,
            io: self.parts.configuration.directory.io(),
            ram,
            ram_peak,
            disk_bytes: self.parts.log.disk_bytes()
                + manifest_bytes
                + self.parts.configuration.directory.removed_bytes(),
            replayed_records: self.replayed_records,
            lost_tail_bytes: self.lost_tail_bytes,
            ..Stats::default()
        };
        let (mut hash_stores, mut hash_records, mut log_records, mut frozen) = (0, 0, 0, 0);
        for partition in self.parts.partitions.iter() {
            let (active, view) = partition.read(|state| (u64::from(state.active.len()), state.view.clone()));
            log_records += active + view.frozen_records();
            frozen += view.frozen.len();
            hash_stores += view.hash_stores.len();
            hash_records += view.hash_records();
            stats.merged_records += view.sorted_records();
            stats.disk_bytes += view.disk_bytes();
            view.count_kinds(&mut stats.stores);
            stats.degraded.extend(view.degraded(self.parts.memory.is_opening()));
        }
        stats.records = stats.merged_records + hash_records + log_records;
        stats.details = vec![
            ("partitions", self.parts.partitions.len() as f64),
            ("log_records", log_records as f64),
            ("log_stores_frozen", frozen as f64),
            ("hash_stores", hash_stores as f64),
            ("hash_records", hash_records as f64),
            ("sorted_records", stats.merged_records as f64),
        ];
        self.add_details(&mut stats);
        stats
    }

    fn reset_ram_peak(&self) {
        self.parts.memory.reset_peak();
    }

    fn close(&self) -> Result<()> {
        self.health.close()?;
        if self.is_read_only {
            return Ok(());
        }
        self.parts.commits.run(|queue| {
            // The next open then replays only what is in no store.
            queue.commit_pending()?;
            if !self.parts.log.is_synced() {
                self.parts.log.sync_to(self.parts.log.end())?;
            }
            // The file then ends with the last frame, and not with space that was reserved for more.
            self.parts.log.end_append()?;
            self.parts.configuration.directory.remove_retired()?;
            // Last, so that it states what was synced above.
            queue.state_synced()
        })
    }
}
