//! The trait [`Engine`] over the logs on flash and the disk below them.
//!
//! What flash has of a key is newer. A lookup asks flash first: a record is on the disk before it leaves flash, so it
//! is found in one of them. Only records that leave change the disk; a snapshot of both is taken while none leaves.

use super::admission::Admission;
use super::below::DiskBelow;
use super::claim::{self, CLAIM_BYTES, Claim};
use super::records::{TieredSnapshot, add_missing, scan};
use super::settings::DISK_ID;
use crate::batch::{Durability, HashedWrite, TimestampMs};
use crate::damage::VerifyReport;
use crate::engine::flashkey::{FlashKeyEngine, to_found};
use crate::engine::flashkey::{FoundValue, LogSnapshot, Sought, count_keys};
use crate::engine::settings::{OpenDisk, budget_of_both, budget_of_disk};
use crate::engine::{
    Background, Backpressure, Capabilities, Changing, Engine, Found, InMemory, Now, ScanLimit, ScanPage,
    Show, Snapshot, Step, collect_many, show_all,
};
use crate::error::{Error, Result};
use crate::key::{Key, KeyHasher};
use crate::progress::Progress;
use crate::stats::{RamAccount, Shape, Stats};
use crate::store::manifest::Header;
use crate::store::record::RecordView;
use siltstone_device::Directory;
use siltstone_device::sync::Mutex;
use siltstone_device::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The name of the disk's directory in a checkpoint.
const DISK_OF_CHECKPOINT: &str = "disk";
/// Nothing is put to flash for reads when flash is this far behind its writes. Writers are slowed down before that: if
/// they write as fast as they can, records that are read would otherwise never come to flash.
const PRESSURE_MAX: f64 = 0.95;

/// A database on flash with a disk.
pub(super) struct Tiered {
    pub logs: FlashKeyEngine,
    pub disk: OpenDisk,
    pub below: Arc<DiskBelow>,
    /// Whether records that were found on the disk are put to flash, and which.
    pub caches_reads: bool,
    pub admission: Admission,
    /// The number of records that were found on the disk.
    pub disk_hits: AtomicU64,
    /// A compaction was requested, and the disk's follows when that of flash has ended.
    pub compacts_disk: AtomicBool,
    /// The budget of the disk.
    pub disk_budget: Mutex<Option<u64>>,
}

impl Tiered {
    /// Puts a record that was found on the disk to flash, if it is admitted. `ticket` was taken before flash was asked.
    /// After a failure, the next write fails.
    fn promote(&self, key: Key<'_>, value: &[u8], expires_at_ms: TimestampMs, ticket: u64) {
        let parts = &self.logs.parts;
        let is_allowed = self.caches_reads
            && self.logs.check_writable().is_ok()
            && parts.jobs.work().pressure < PRESSURE_MAX
            && (key.bytes().len() + value.len()) as u64 <= parts.logs.settings.segment_bytes / 4;
        // Also without a promotion, this notes the miss.
        let is_second = self.admission.is_second(key.hash());
        if is_allowed && (is_second || parts.jobs.has_space()) {
            let record = RecordView { key: key.bytes(), value: Some(value), expires_at_ms };
            let _ = parts.writer.promote(key, &record, ticket);
        }
    }

    /// Adds what the disk has of the keys that flash does not have.
    fn look_on_disk(
        &self,
        keys: &[Key<'_>],
        sought: &mut [Sought<FoundValue>],
        now_ms: TimestampMs,
        ticket: Option<u64>,
    ) -> Result<()> {
        add_missing(keys, sought, |missing| {
            let found = collect_many(&*self.disk.engine, missing, now_ms)?;
            self.disk_hits.fetch_add(found.iter().flatten().count() as u64, Relaxed);
            if let Some(ticket) = ticket {
                for (key, found) in missing.iter().zip(&found) {
                    if let Some(Found { value, expires_at_ms }) = found {
                        self.promote(*key, value, *expires_at_ms, ticket);
                    }
                }
            }
            Ok(found)
        })
    }
}

/// Adds the items of both.
fn add_ram(to: &mut RamAccount, other: &RamAccount) {
    other.items().iter().for_each(|(item, bytes)| to.add(item, *bytes));
}

impl Engine for Tiered {
    fn name(&self) -> &'static str {
        self.logs.name()
    }

    fn shape(&self) -> Shape {
        self.logs.shape()
    }

    fn capabilities(&self) -> Capabilities {
        self.logs.capabilities()
    }

    fn hasher(&self) -> KeyHasher {
        self.logs.hasher()
    }

    fn get_into(
        &self,
        key: Key<'_>,
        now_ms: TimestampMs,
        value: &mut Vec<u8>,
    ) -> Result<Option<TimestampMs>> {
        self.check_open()?;
        // Before flash is asked: a record that is put after this makes the promotion void.
        let ticket = self.logs.parts.writer.ticket();
        match self.logs.parts.reader.seek(key, now_ms, value)? {
            Sought::Found(expires_at_ms) => Ok(Some(expires_at_ms)),
            Sought::Gone => Ok(None),
            Sought::Missing => {
                let start = value.len();
                let found = self.disk.engine.get_into(key, now_ms, value)?;
                if let Some(expires_at_ms) = found {
                    self.disk_hits.fetch_add(1, Relaxed);
                    self.promote(key, &value[start..], expires_at_ms, ticket);
                }
                Ok(found)
            }
        }
    }

    fn get_many(&self, keys: &[Key<'_>], now_ms: TimestampMs, show: &mut Show<'_>) -> Result<()> {
        self.check_open()?;
        let ticket = self.logs.parts.writer.ticket();
        let mut sought = self.logs.parts.reader.seek_many(keys, now_ms)?;
        self.look_on_disk(keys, &mut sought, now_ms, Some(ticket))?;
        show_all(to_found(sought), show);
        Ok(())
    }

    fn look_in_memory(&self, key: Key<'_>, now_ms: TimestampMs, value: &mut Vec<u8>) -> Result<InMemory> {
        self.check_open()?;
        match self.logs.look_in_memory(key, now_ms, value)? {
            // The disk may have it. An expired record in the cache is the newest one, which costs a read here.
            InMemory::Absent => Ok(InMemory::Unknown),
            outcome => Ok(outcome),
        }
    }

    fn may_contain(&self, key: Key<'_>, now_ms: TimestampMs) -> Result<bool> {
        // Flash first: a record that leaves in between is on the disk before it is not on flash.
        Ok(self.logs.may_contain(key, now_ms)? || self.disk.engine.may_contain(key, now_ms)?)
    }

    fn write(&self, writes: &[HashedWrite<'_>], durability: Durability, now_ms: &Now<'_>) -> Result<()> {
        // Nothing can leave to a disk that has failed, and flash would only fill up.
        self.disk.engine.check_writable()?;
        self.logs.write(writes, durability, now_ms)
    }

    fn update_many(
        &self,
        keys: &[Key<'_>],
        durability: Durability,
        now_ms: TimestampMs,
        change: &mut Changing<'_>,
    ) -> Result<()> {
        self.disk.engine.check_writable()?;
        self.logs.update_with(keys, durability, now_ms, change, &|sought| {
            // Without a promotion: most of these keys are written next.
            self.look_on_disk(keys, sought, now_ms, None)
        })
    }

    fn snapshot(&self, now_ms: TimestampMs) -> Result<Arc<dyn Snapshot>> {
        self.check_open()?;
        let logs = &self.logs.parts.logs;
        // Nothing leaves between the two snapshots: that of the disk would have records newer than those of flash.
        let _held = logs.hold_leaving();
        let flash = LogSnapshot::take(logs, now_ms)?;
        Ok(Arc::new(TieredSnapshot { flash, disk: self.disk.engine.snapshot(now_ms)? }))
    }

    fn scan(
        &self,
        positions: RangeInclusive<u64>,
        limit: ScanLimit,
        now_ms: TimestampMs,
    ) -> Result<ScanPage> {
        self.check_open()?;
        scan(&self.logs.parts.logs, &*self.disk.engine, positions, limit, now_ms)
    }

    fn approximate_len(&self, now_ms: TimestampMs) -> Result<u64> {
        self.check_open()?;
        // Keys of both count once.
        let of_disk = self.disk.engine.approximate_len(now_ms)?;
        let added = count_keys(&self.logs.parts.logs, of_disk, now_ms)?;
        Ok(of_disk.saturating_add_signed(added))
    }

    fn sync(&self) -> Result<()> {
        // What has left is durable on the disk.
        self.disk.engine.check_writable()?;
        self.logs.sync()
    }

    fn step(&self, now_ms: TimestampMs) -> Result<Step> {
        if self.logs.step(now_ms)? == Step::Worked || self.disk.engine.step(now_ms)? == Step::Worked {
            return Ok(Step::Worked);
        }
        // Flash first: its compaction lets records leave, which are then compacted on the disk.
        let is_next = self.compacts_disk.load(Relaxed) && !self.logs.parts.jobs.is_compacting();
        // The flag is swapped: of several threads that come here, one requests it.
        if is_next && self.check_writable().is_ok() && self.compacts_disk.swap(false, Relaxed) {
            self.disk.engine.request_compaction()?;
            return Ok(Step::Worked);
        }
        Ok(Step::Idle)
    }

    fn background(&self) -> Background {
        // After a failure of the disk, nothing can leave. A read-only disk reads indexes and filters back.
        if !matches!(self.check_writable(), Ok(()) | Err(Error::ReadOnly)) {
            return Background::default();
        }
        let (flash, disk) = (self.logs.background(), self.disk.engine.background());
        let compacts_disk = self.compacts_disk.load(Relaxed) && self.check_writable().is_ok();
        Background {
            has_work: flash.has_work || disk.has_work || compacts_disk,
            wants_thread: flash.wants_thread || disk.wants_thread || compacts_disk,
            is_limited: disk.is_limited && !flash.has_work,
            // Writers wait for the disk only when flash is full.
            pressure: flash.pressure,
            slack: if flash.has_work { flash.slack } else { disk.slack },
        }
    }

    fn backpressure(&self) -> Backpressure {
        let (flash, disk) = (self.logs.backpressure(), self.disk.engine.backpressure());
        let compacts_disk = self.compacts_disk.load(Relaxed);
        // As above, the pressure is that of flash.
        Backpressure { wants_thread: flash.wants_thread || disk.wants_thread || compacts_disk, ..flash }
    }

    fn check_open(&self) -> Result<()> {
        self.logs.check_open()
    }

    fn check_writable(&self) -> Result<()> {
        self.logs.check_writable()?;
        self.disk.engine.check_writable()
    }

    /// What is on flash alone still has to get to the disk.
    fn check_space(&self, bytes: u64, owed: u64) -> Result<u64> {
        let of_flash = self.logs.check_space(bytes, owed)?;
        let of_disk = self.disk.engine.check_space(bytes, owed + self.logs.parts.logs.dirty_bytes())?;
        Ok(of_flash.min(of_disk))
    }

    fn poison(&self, cause: &str) {
        self.logs.poison(cause);
        self.disk.engine.poison(cause);
    }

    fn set_memory_budget(&self, bytes: Option<u64>) -> Result<()> {
        self.check_open()?;
        let mut present = self.disk_budget.lock();
        let of_disk = bytes.map(budget_of_disk);
        self.disk.engine.set_memory_budget(of_disk)?;
        let own = bytes.map(|bytes| bytes - budget_of_disk(bytes));
        // Both get their part, or none changes.
        if let Err(error) = self.logs.set_memory_budget(own) {
            self.disk.engine.set_memory_budget(*present)?;
            return Err(error);
        }
        *present = of_disk;
        Ok(())
    }

    fn memory_budget_min(&self) -> u64 {
        budget_of_both(self.logs.memory_budget_min(), self.disk.engine.memory_budget_min())
    }

    fn request_compaction(&self) -> Result<()> {
        self.check_writable()?;
        self.logs.request_compaction()?;
        // After the request: `step` acts on the flag once flash is not compacting.
        self.compacts_disk.store(true, Relaxed);
        Ok(())
    }

    fn checkpoint(&self, target: &Directory) -> Result<()> {
        self.check_writable()?;
        // Nothing leaves between the two copies, so they are of one moment.
        let _held = self.logs.parts.logs.hold_leaving();
        let disk = target.other(DISK_OF_CHECKPOINT.as_ref(), true)?;
        self.disk.engine.checkpoint(&disk)?;
        let kept = [("disk", DISK_OF_CHECKPOINT.to_owned()), (DISK_ID, id_of(&disk)?)];
        let kept = kept.map(|(name, value)| (name.to_owned(), value)).into();
        self.logs.checkpoint_with(target, &kept)?;
        // After the copy of flash: its flush may have raised the number that the manifest keeps, which the claim must
        // reach.
        match Header::read(target)? {
            Some(owner) => Claim { owner, ..self.below.claim() }.write(&disk),
            None => Err(Error::NotFound { path: target.path() }),
        }
    }

    fn verify(&self, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        let mut flash_bytes = 0;
        let mut report = self.logs.verify(&mut |done, all| {
            flash_bytes = all;
            progress(done, all)
        })?;
        let of_disk =
            self.disk.engine.verify(&mut |done, all| progress(flash_bytes + done, flash_bytes + all))?;
        report.add(of_disk);
        let parts = &self.logs.parts;
        let logs = &parts.logs;
        let claim =
            parts.commits.look(|manifest| claim::examine(&logs.directory, &self.disk.directory, manifest))?;
        report.damage.extend(claim);
        Ok(report)
    }

    fn stats(&self) -> Stats {
        let (mut stats, disk) = (self.logs.stats(), self.disk.engine.stats());
        stats.records = stats.records.saturating_sub(self.logs.parts.logs.clean()) + disk.records;
        stats.merged_records += disk.merged_records;
        add_ram(&mut stats.ram, &disk.ram);
        stats.ram.add("admission", self.admission.heap_bytes());
        add_ram(&mut stats.ram_peak, &disk.ram_peak);
        stats.ram_peak.add("admission", self.admission.heap_bytes());
        stats.disk_bytes += disk.disk_bytes + CLAIM_BYTES;
        stats.replayed_records += disk.replayed_records;
        stats.lost_tail_bytes += disk.lost_tail_bytes;
        stats.stores = disk.stores;
        stats.degraded = disk.degraded;
        let io = disk.io.total();
        stats.details.extend([
            ("disk_hits", self.disk_hits.load(Relaxed) as f64),
            ("disk_records", disk.records as f64),
            ("disk_bytes", disk.disk_bytes as f64),
            ("disk_writes", disk.writes as f64),
            ("disk_user_bytes", disk.user_bytes as f64),
            ("disk_read_operations", io.reads as f64),
            ("disk_read_bytes", io.read_bytes as f64),
            ("disk_write_operations", io.writes as f64),
            ("disk_write_bytes", io.write_bytes as f64),
        ]);
        stats
    }

    fn reset_ram_peak(&self) {
        self.logs.reset_ram_peak();
        self.disk.engine.reset_ram_peak();
    }

    fn close(&self) -> Result<()> {
        // Flash first: its last flush confirms what has left, and writes the claim of the disk.
        let closed = self.logs.close();
        // The argument is evaluated in any case, so the disk is closed also if flash has failed.
        closed.and(self.disk.engine.close())
    }
}

/// Returns the id of the database in a directory, as a text.
pub(super) fn id_of(directory: &Directory) -> Result<String> {
    match Header::read(directory)? {
        Some(header) => Ok(format!("{:016x}", header.database_id)),
        None => Err(Error::NotFound { path: directory.path() }),
    }
}
