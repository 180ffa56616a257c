//! The trait [`Engine`] over the parts of FlashKey. FlashStore builds on it.

use super::scan::scan;
use super::write_budget::WriteBudget;
use super::{Counts, FoundValue, LogSnapshot, Opened, RecordPlace, Sought};
use crate::batch::{Durability, HashedWrite, TimestampMs};
use crate::damage::VerifyReport;
use crate::engine::EngineInfo;
use crate::engine::{
    Background, Backpressure, Capabilities, Change, Changing, Engine, Found, InMemory, Now, Ordered, Record,
    Records, ScanLimit, ScanPage, Show, Snapshot, Step, show_all,
};
use crate::error::{Error, Result};
use crate::key::{Key, KeyHasher};
use crate::progress::Progress;
use crate::stats::{Shape, Stats};
use crate::store::manifest::KeptSettings;
use siltstone_device::Directory;
use siltstone_device::sync::atomic::Ordering::Relaxed;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// An engine whose data is in logs.
pub(in crate::engine) struct FlashKeyEngine {
    pub info: &'static EngineInfo,
    /// The settings by name.
    pub settings: Vec<(&'static str, String)>,
    pub parts: Opened,
    /// What may be written to the device, of a cache.
    pub budget: Option<WriteBudget>,
}

impl FlashKeyEngine {
    /// [`Engine::update_many`], which passes what the logs have to `look_below`. That adds what is missing.
    pub fn update_with(
        &self,
        keys: &[Key<'_>],
        durability: Durability,
        now_ms: TimestampMs,
        change: &mut Changing<'_>,
        look_below: &LookBelow<'_>,
    ) -> Result<()> {
        self.check_writable()?;
        self.note_writes(keys.iter().copied());
        let writer = &self.parts.writer;
        let hashes = keys.iter().map(|key| key.hash());
        let end = writer.with_keys(hashes, || self.change(keys, durability, now_ms, change, look_below))?;
        // Everything that was found is before the writes in the log, so it is as durable as they are.
        writer.make_durable(durability, end)
    }

    /// Notes writes of these keys. With a memory budget, lets background work and the record cache follow them now and
    /// then, also if no step runs.
    fn note_writes<'k>(&self, keys: impl ExactSizeIterator<Item = Key<'k>>) {
        let count = keys.len() as u64;
        if self.parts.memory.must_decide(count, keys.map(|key| key.bytes().len() as u64).sum()) {
            self.parts.jobs.refresh_rest();
        }
    }

    /// [`Engine::checkpoint`] of a copy that keeps these settings instead of other values.
    pub fn checkpoint_with(&self, target: &Directory, settings: &KeptSettings) -> Result<()> {
        self.check_writable()?;
        if self.parts.logs.directory.shares_file_system(target) {
            self.check_space(self.parts.logs.bytes_to_copy(&self.parts.commits), 0)?;
        }
        super::checkpoint(&self.parts.logs, &self.parts.commits, target, settings)
    }

    pub fn is_read_only(&self) -> bool {
        self.parts.logs.directory.is_read_only()
    }

    /// Reads the values of keys whose stripes are held, and writes the changes that `change` sets. Returns the end of
    /// the log after them, or `None` if there are none.
    fn change(
        &self,
        keys: &[Key<'_>],
        durability: Durability,
        now_ms: TimestampMs,
        change: &mut Changing<'_>,
        look_below: &LookBelow<'_>,
    ) -> Result<Option<u64>> {
        let mut places = vec![None; keys.len()];
        let place = &mut |number: usize, place| places[number] = Some(place);
        let mut sought = self.parts.reader.find_places(keys, now_ms, place)?;
        // Still with the stripes held: what the store below has must be from before any other write to these keys.
        look_below(&mut sought)?;
        let found = to_found(sought);
        let mut changes = vec![Change::Keep; keys.len()];
        change(&found, &mut changes)?;
        let writes = keys.iter().zip(&changes).zip(places);
        let (writes, places): (Vec<_>, Vec<Option<RecordPlace>>) =
            writes.filter_map(|((key, change), place)| Some((change.to_write(*key)?, place))).unzip();
        if writes.is_empty() { Ok(None) } else { self.parts.writer.append(&writes, &places, durability) }
    }
}

/// Adds what a store below the logs has of the keys that these do not have.
pub(super) type LookBelow<'a> = dyn Fn(&mut [Sought<FoundValue>]) -> Result<()> + 'a;

/// Returns what was found, for users.
pub(in crate::engine) fn to_found(sought: Vec<Sought<FoundValue>>) -> Vec<Option<Found>> {
    let to_found = |(value, expires_at_ms)| Found { value, expires_at_ms };
    sought.into_iter().map(|sought| sought.found().map(to_found)).collect()
}

impl Engine for FlashKeyEngine {
    fn name(&self) -> &'static str {
        self.info.name
    }

    fn shape(&self) -> Shape {
        self.parts.logs.header.shape()
    }

    fn capabilities(&self) -> Capabilities {
        let settings = &self.parts.logs.settings;
        Capabilities { persistent: true, lossy: settings.is_cache() }
    }

    fn hasher(&self) -> KeyHasher {
        self.parts.logs.hasher()
    }

    fn get_into(
        &self,
        key: Key<'_>,
        now_ms: TimestampMs,
        value: &mut Vec<u8>,
    ) -> Result<Option<TimestampMs>> {
        self.check_open()?;
        self.parts.reader.get_into(key, now_ms, value)
    }

    fn get_many(&self, keys: &[Key<'_>], now_ms: TimestampMs, show: &mut Show<'_>) -> Result<()> {
        self.check_open()?;
        show_all(to_found(self.parts.reader.seek_many(keys, now_ms)?), show);
        Ok(())
    }

    fn look_in_memory(&self, key: Key<'_>, now_ms: TimestampMs, value: &mut Vec<u8>) -> Result<InMemory> {
        self.check_open()?;
        self.parts.reader.look_in_memory(key, now_ms, value)
    }

    fn may_contain(&self, key: Key<'_>, _now_ms: TimestampMs) -> Result<bool> {
        self.check_open()?;
        Ok(self.parts.reader.may_contain(key))
    }

    fn write(&self, writes: &[HashedWrite<'_>], durability: Durability, now_ms: &Now<'_>) -> Result<()> {
        self.check_writable()?;
        self.note_writes(writes.iter().map(|write| write.key));
        let written = || self.parts.logs.directory.io().total().write_bytes;
        match &self.budget {
            // An older record must not be found.
            Some(budget) if !budget.admits(now_ms(), written) => {
                self.parts.writer.write_to_cache(writes, durability)
            }
            _ => self.parts.writer.write(writes, durability),
        }
    }

    fn update_many(
        &self,
        keys: &[Key<'_>],
        durability: Durability,
        now_ms: TimestampMs,
        change: &mut Changing<'_>,
    ) -> Result<()> {
        self.update_with(keys, durability, now_ms, change, &|_| Ok(()))
    }

    fn snapshot(&self, now_ms: TimestampMs) -> Result<Arc<dyn Snapshot>> {
        self.check_open()?;
        Ok(match self.ordered_snapshot(now_ms)? {
            Some(snapshot) => Arc::new(snapshot),
            None => Arc::new(LogSnapshot::take(&self.parts.logs, now_ms)?),
        })
    }

    fn scan(
        &self,
        positions: RangeInclusive<u64>,
        limit: ScanLimit,
        now_ms: TimestampMs,
    ) -> Result<ScanPage> {
        self.check_open()?;
        scan(&self.parts.logs, positions, limit, now_ms)
    }

    fn ordered(&self) -> Option<&dyn Ordered> {
        self.parts.logs.settings.ordered.then_some(self)
    }

    fn approximate_len(&self, now_ms: TimestampMs) -> Result<u64> {
        self.check_open()?;
        Ok(super::count_keys(&self.parts.logs, 0, now_ms)?.max(0) as u64)
    }

    fn sync(&self) -> Result<()> {
        self.check_writable()?;
        self.parts.writer.make_found_durable(Durability::Synced)?;
        // So that an open finds out if this end of the log is missing.
        self.parts.commits.state_synced_now_and_then(true)
    }

    fn step(&self, now_ms: TimestampMs) -> Result<Step> {
        let has_worked = if self.is_read_only() {
            self.check_open()?;
            self.parts.jobs.load_work().is_pending && self.parts.jobs.step_load()?
        } else {
            self.check_writable().is_ok() && self.parts.jobs.step(now_ms)?
        };
        Ok(if has_worked { Step::Worked } else { Step::Idle })
    }

    fn background(&self) -> Background {
        let work = match self.is_read_only() {
            true if self.check_open().is_ok() => self.parts.jobs.load_work(),
            false if self.check_writable().is_ok() => self.parts.jobs.work(),
            _ => return Background::default(),
        };
        Background {
            has_work: work.is_pending,
            wants_thread: work.wants_thread,
            pressure: work.pressure,
            ..Background::default()
        }
    }

    fn backpressure(&self) -> Backpressure {
        let work = self.parts.jobs.work();
        Backpressure { pressure: work.pressure, wants_thread: work.wants_thread }
    }

    fn check_open(&self) -> Result<()> {
        self.parts.logs.health().check_open()
    }

    fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        self.parts.logs.health().check()
    }

    fn check_space(&self, bytes: u64, owed: u64) -> Result<u64> {
        self.parts.logs.check_space(bytes, owed)
    }

    fn poison(&self, cause: &str) {
        self.parts.logs.health().poison(cause);
    }

    fn set_memory_budget(&self, bytes: Option<u64>) -> Result<()> {
        self.check_open()?;
        self.parts.memory.set(bytes)?;
        self.parts.jobs.refresh();
        Ok(())
    }

    fn memory_budget_min(&self) -> u64 {
        self.parts.memory.min()
    }

    fn request_compaction(&self) -> Result<()> {
        self.check_writable()?;
        self.parts.jobs.request_compaction()
    }

    fn checkpoint(&self, target: &Directory) -> Result<()> {
        self.checkpoint_with(target, &KeptSettings::new())
    }

    fn verify(&self, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        self.check_open()?;
        super::verify(&self.parts.logs, &self.parts.commits, progress)
    }

    fn stats(&self) -> Stats {
        let Opened { logs, cache, memory, commits, jobs, writer, .. } = &self.parts;
        let (writes, user_bytes) = writer.writes.sums();
        let mut stats = Stats {
            engine: self.info.name,
            settings: self.settings.clone(),
            shape: logs.header.shape(),
            records: logs.entries(),
            merged_records: logs.probable_keys(),
            writes,
            user_bytes,
            io: logs.directory.io(),
            ram: memory.account(),
            ram_peak: memory.peak(),
            disk_bytes: logs.disk_bytes() + commits.disk_bytes() + logs.directory.unfreed_bytes(),
            replayed_records: self.parts.replayed_records,
            lost_tail_bytes: self.parts.lost_tail_bytes,
            ..Stats::default()
        };
        let (hits, misses) = cache.hits_and_misses();
        let (index, ended) = (logs.residency(), jobs.ended());
        stats.details = vec![
            ("partitions", logs.shards() as f64),
            ("log_bytes", logs.data_bytes() as f64),
            ("live_bytes", logs.live_bytes() as f64),
            ("reserve_bytes", logs.reserve_bytes() as f64),
            ("unconfirmed", logs.unconfirmed() as f64),
            ("clean_records", logs.clean() as f64),
            ("index_shards_in_memory", index.memory_shards as f64),
            ("index_shards_to_load", index.shards_to_load as f64),
            ("index_pages_on_flash", index.pages_on_flash as f64),
            ("index_changes_bytes", index.changes_bytes as f64),
            ("index_page_reads", logs.index_page_reads() as f64),
            ("cleanings", ended.cleaned as f64),
            ("confirmed", ended.confirmed as f64),
            ("confirmed_segments", ended.confirmed_segments as f64),
            ("saves", ended.saves as f64),
            ("key_merges", ended.key_merges as f64),
            ("key_runs", logs.key_runs().0 as f64),
            ("keys_in_runs", logs.key_runs().1 as f64),
            ("deleted_keys_passed", logs.deleted_keys_passed() as f64),
            ("pressure", jobs.work().pressure),
            ("record_cache_records", cache.len() as f64),
            ("record_cache_hits", hits as f64),
            ("record_cache_misses", misses as f64),
        ];
        if logs.settings.recycling.is_some() {
            let Counts { found, missing, promoted, left } = &logs.counts;
            let rejected = self.budget.as_ref().map_or(0, |budget| budget.rejected.load(Relaxed));
            stats.details.extend([
                ("flash_hits", found.load(Relaxed) as f64),
                ("flash_misses", missing.load(Relaxed) as f64),
                ("promoted", promoted.load(Relaxed) as f64),
                ("left", left.load(Relaxed) as f64),
                ("rejected", rejected as f64),
            ]);
        }
        stats
    }

    fn reset_ram_peak(&self) {
        self.parts.memory.reset_peak();
    }

    fn close(&self) -> Result<()> {
        let Opened { logs, commits, .. } = &self.parts;
        // First: writes that still wait for a writer are refused, and the flush finds the last ones in the index.
        logs.health().close()?;
        if self.is_read_only() {
            return Ok(());
        }
        commits.run(|ledger| ledger.close())
    }
}

impl Snapshot for LogSnapshot {
    fn get(&self, key: Key<'_>) -> Result<Option<Found>> {
        Found::read(|value| self.get_into(key, value))
    }

    fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Found>>> {
        Ok(to_found(self.seek_many(keys)?))
    }

    /// Returns all records, segment by segment, in the order in which they were appended.
    fn records(&self) -> Records {
        let record = |(key, value, expires_at_ms)| Record { key, value, expires_at_ms };
        Box::new(LogSnapshot::records(self).map(move |read| read.map(record)))
    }
}
