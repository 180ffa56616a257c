//! The smallest engine: all records in a map in memory, and a log of all writes in one file. `docs/ENGINES.md` adds it
//! step by step, and the suites of all engines run on it.
//!
//! ```text
//! put ──> frame appended to the file ──> map changed ──> synced, if the durability requires it
//! get ──> map
//! open ─> frames read from the beginning; the torn end is cut off
//! ```
//!
//! | file | contains |
//! |---|---|
//! | `mod` | the engine |
//! | `settings` | how it is created and opened |
//! | `file` | the bytes of its file |
//!
//! What it is bad at: everything is in memory, opening reads everything, a write during a snapshot copies the map once,
//! and a compaction writes everything again. It cannot distinguish damage from a torn end.

mod file;
mod settings;

pub use settings::{AppendLogSettings, INFO};

use bytes::Bytes;
use file::{Map, Value, apply, encode_frame};
use siltstone::batch::{Durability, HashedWrite, NEVER, TimestampMs};
use siltstone::engine::{
    Background, Capabilities, Change, Changing, Direction, Engine, Found, KeyBounds, Now, Ordered,
    PageBuilder, Record, Records, ScanLimit, ScanPage, Snapshot, Step,
};
use siltstone::health::Health;
use siltstone::key::{Key, KeyHasher};
use siltstone::names::MANIFEST_NAME;
use siltstone::stats::{RamAccount, Shape, Stats};
use siltstone::store::manifest::{FORMAT_VERSION, Header};
use siltstone::{Damage, DamagedPart, Error, Progress, Result, VerifyReport};
use siltstone_device::sync::{Mutex, RwLock};
use siltstone_device::{Access, Directory, File, Purpose};
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// The memory of a record besides its key and value, approximately, in bytes.
const RECORD_OVERHEAD_BYTES: u64 = 100;

/// The engine `append-log`.
pub struct AppendLog {
    directory: Directory,
    header: Header,
    /// Locked before `records`. Its holder may append and change the records.
    writer: Mutex<Writer>,
    /// Snapshots share the map; a write to a shared map copies it.
    records: RwLock<Arc<Map>>,
    health: Health,
    closed: AtomicBool,
    /// A compaction was requested and not yet executed.
    must_compact: AtomicBool,
    writes: AtomicU64,
    user_bytes: AtomicU64,
    replayed_writes: u64,
    torn_bytes: u64,
    ram_peak_bytes: AtomicU64,
}

struct Writer {
    file: File,
    /// The length of the file.
    end: u64,
    /// The bytes that are durable.
    synced: u64,
}

impl Writer {
    fn sync(&mut self) -> Result<()> {
        if self.synced < self.end {
            self.file.sync(Purpose::Log)?;
            self.synced = self.end;
        }
        Ok(())
    }
}

/// Returns the record, unless it has expired.
fn live((key, value): (&Bytes, &Value), now_ms: TimestampMs) -> Option<Record> {
    let Value { bytes, expires_at_ms } = value;
    let is_live = *expires_at_ms == NEVER || now_ms < *expires_at_ms;
    is_live.then(|| Record { key: key.clone(), value: bytes.clone(), expires_at_ms: *expires_at_ms })
}

fn find(records: &Map, key: &[u8], now_ms: TimestampMs) -> Option<Found> {
    let Record { value, expires_at_ms, .. } = live(records.get_key_value(key)?, now_ms)?;
    Some(Found { value, expires_at_ms })
}

impl AppendLog {
    fn create(directory: Directory, header: Header) -> Result<AppendLog> {
        let (file, end) = file::replace(&directory, &header, &Map::new())?;
        Ok(AppendLog::new(directory, header, Writer { file, end, synced: end }, file::Contents::default()))
    }

    fn open(directory: Directory, header: Header, progress: &mut Progress<'_>) -> Result<AppendLog> {
        let file = directory.open(MANIFEST_NAME, Access::Buffered)?;
        // The cache may show what a failed sync did not write.
        file.drop_cache();
        let contents = file::read(&file, Purpose::Recover, progress)?;
        if !directory.is_read_only() {
            if !contents.torn.is_empty() {
                // A bit that flips during a read looks like a torn end.
                file.confirm(contents.end, &contents.torn)?;
                file.truncate(contents.end)?;
            }
            file::remove_unfinished(&directory)?;
            // What was found is durable before anything depends on it, also after a kill.
            file.sync(Purpose::Recover)?;
            directory.sync(Purpose::Recover)?;
        }
        let writer = Writer { file, end: contents.end, synced: contents.end };
        Ok(AppendLog::new(directory, header, writer, contents))
    }

    fn new(directory: Directory, header: Header, writer: Writer, contents: file::Contents) -> AppendLog {
        AppendLog {
            directory,
            header,
            writer: Mutex::new(writer),
            records: RwLock::new(Arc::new(contents.records)),
            health: Health::default(),
            closed: AtomicBool::new(false),
            must_compact: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            user_bytes: AtomicU64::new(0),
            replayed_writes: contents.writes,
            torn_bytes: contents.torn.len() as u64,
            ram_peak_bytes: AtomicU64::new(0),
        }
    }

    /// Returns whether the file has no frames.
    fn is_unused(&self) -> bool {
        self.replayed_writes == 0 && self.torn_bytes == 0
    }

    fn records(&self) -> Result<Arc<Map>> {
        self.check_open()?;
        Ok(self.records.read().clone())
    }

    /// Writes while the writer is locked.
    fn append(&self, writer: &mut Writer, writes: &[HashedWrite<'_>], durability: Durability) -> Result<()> {
        self.check_writable()?;
        // A failure is recorded before the lock is released, and refuses all later work under it.
        self.health.run(|| {
            if !writes.is_empty() {
                let frame = encode_frame(writes.iter().map(|write| write.write));
                writer.file.write(Purpose::Log, writer.end, &frame)?;
                writer.end += frame.len() as u64;
                self.writes.fetch_add(writes.len() as u64, SeqCst);
                let user_bytes = writes.iter().map(|write| write.write.user_bytes() as u64).sum();
                self.user_bytes.fetch_add(user_bytes, SeqCst);
                let mut records = self.records.write();
                let records = Arc::make_mut(&mut records);
                writes.iter().for_each(|write| apply(&write.write, records));
            }
            if durability == Durability::Synced { writer.sync() } else { Ok(()) }
        })
    }

    fn ram_bytes(&self) -> u64 {
        let bytes =
            |(key, value): (&Bytes, &Value)| (key.len() + value.bytes.len()) as u64 + RECORD_OVERHEAD_BYTES;
        size_of::<AppendLog>() as u64 + self.records.read().iter().map(bytes).sum::<u64>()
    }
}

impl Engine for AppendLog {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn shape(&self) -> Shape {
        let mut shape = Shape::default();
        shape.fixed = self.header.layout.fixed;
        shape.hashed_keys = self.header.hasher == KeyHasher::Identity;
        shape.expiring = self.header.layout.expiring;
        shape.partitions = 1;
        shape.format_version = FORMAT_VERSION;
        shape
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.persistent = true;
        capabilities
    }

    fn hasher(&self) -> KeyHasher {
        self.header.hasher
    }

    fn get_into(
        &self,
        key: Key<'_>,
        now_ms: TimestampMs,
        value: &mut Vec<u8>,
    ) -> Result<Option<TimestampMs>> {
        self.check_open()?;
        let found = find(&self.records.read(), key.bytes(), now_ms);
        Ok(found.map(|found| {
            value.extend_from_slice(&found.value);
            found.expires_at_ms
        }))
    }

    fn may_contain(&self, key: Key<'_>, now_ms: TimestampMs) -> Result<bool> {
        Ok(self.get(key, now_ms)?.is_some())
    }

    fn write(&self, writes: &[HashedWrite<'_>], durability: Durability, _now_ms: &Now<'_>) -> Result<()> {
        self.append(&mut self.writer.lock(), writes, durability)
    }

    fn update_many(
        &self,
        keys: &[Key<'_>],
        durability: Durability,
        now_ms: TimestampMs,
        change: &mut Changing<'_>,
    ) -> Result<()> {
        let mut writer = self.writer.lock();
        self.check_writable()?;
        let records = self.records()?;
        let found: Vec<_> = keys.iter().map(|key| find(&records, key.bytes(), now_ms)).collect();
        // Otherwise the write below would copy the map.
        drop(records);
        let mut changes = vec![Change::Keep; keys.len()];
        change(&found, &mut changes)?;
        let writes: Vec<_> =
            keys.iter().zip(&changes).filter_map(|(key, change)| change.to_write(*key)).collect();
        self.append(&mut writer, &writes, durability)
    }

    fn snapshot(&self, now_ms: TimestampMs) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(LogSnapshot { records: self.records()?, now_ms }))
    }

    fn scan(
        &self,
        positions: RangeInclusive<u64>,
        limit: ScanLimit,
        now_ms: TimestampMs,
    ) -> Result<ScanPage> {
        let records = self.records()?;
        let position = |record: &Record| self.header.hasher.hash(&record.key).placement;
        let live = records.iter().filter_map(|record| live(record, now_ms));
        let placed = live.map(|record| (position(&record), record));
        let mut placed: Vec<_> = placed.filter(|(position, _)| positions.contains(position)).collect();
        placed.sort_by(|(one, a), (other, b)| (one, &a.key).cmp(&(other, &b.key)));
        let mut page = PageBuilder::new(limit);
        let _ = placed.into_iter().all(|(position, record)| page.push(position, || record));
        Ok(page.finish(None))
    }

    fn ordered(&self) -> Option<&dyn Ordered> {
        Some(self)
    }

    fn approximate_len(&self, now_ms: TimestampMs) -> Result<u64> {
        Ok(self.records()?.iter().filter_map(|record| live(record, now_ms)).count() as u64)
    }

    fn sync(&self) -> Result<()> {
        self.append(&mut self.writer.lock(), &[], Durability::Synced)
    }

    fn step(&self, _now_ms: TimestampMs) -> Result<Step> {
        let mut writer = self.writer.lock();
        if !self.background().has_work || !self.must_compact.swap(false, SeqCst) {
            return Ok(Step::Idle);
        }
        self.health.run(|| {
            let (file, end) = file::replace(&self.directory, &self.header, &self.records.read())?;
            *writer = Writer { file, end, synced: end };
            Ok(Step::Worked)
        })
    }

    fn background(&self) -> Background {
        let mut background = Background::default();
        background.has_work = self.must_compact.load(SeqCst) && self.check_writable().is_ok();
        background.wants_thread = background.has_work;
        background
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }

    fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.directory.is_read_only() { Err(Error::ReadOnly) } else { self.health.check() }
    }

    fn poison(&self, cause: &str) {
        self.health.poison(cause);
    }

    fn request_compaction(&self) -> Result<()> {
        self.check_writable()?;
        self.must_compact.store(true, SeqCst);
        Ok(())
    }

    fn checkpoint(&self, target: &Directory) -> Result<()> {
        self.check_writable()?;
        let records = self.records()?;
        file::replace(target, &self.header, &records).map(drop)
    }

    fn verify(&self, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        self.check_open()?;
        let writer = self.writer.lock();
        let contents = file::read(&writer.file, Purpose::Maintain, progress)?;
        let mut report = VerifyReport::default();
        report.checked_bytes = contents.end;
        report.checked_records = contents.writes;
        if contents.end < writer.end {
            writer.file.confirm(contents.end, &contents.torn)?;
            let lost = writer.end - contents.end;
            let damage = Damage::new(writer.file.path(), DamagedPart::LogFrames, contents.end, lost);
            report.damage.push(damage.because("a frame", "other bytes"));
        }
        Ok(report)
    }

    fn memory_budget_min(&self) -> u64 {
        self.ram_bytes()
    }

    fn stats(&self) -> Stats {
        let records = self.records.read().len() as u64;
        let ram_bytes = self.ram_bytes();
        let peak_bytes = self.ram_peak_bytes.fetch_max(ram_bytes, SeqCst).max(ram_bytes);
        let mut stats = Stats::default();
        stats.engine = INFO.name;
        stats.shape = self.shape();
        (stats.records, stats.merged_records) = (records, records);
        stats.writes = self.writes.load(SeqCst);
        stats.user_bytes = self.user_bytes.load(SeqCst);
        stats.io = self.directory.io();
        for (account, bytes) in [(&mut stats.ram, ram_bytes), (&mut stats.ram_peak, peak_bytes)] {
            RamAccount::add(account, "records", bytes);
        }
        stats.disk_bytes = self.writer.lock().end;
        stats.replayed_records = self.replayed_writes;
        stats.lost_tail_bytes = self.torn_bytes;
        stats
    }

    fn reset_ram_peak(&self) {
        self.ram_peak_bytes.store(self.ram_bytes(), SeqCst);
    }

    fn close(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        if self.closed.swap(true, SeqCst) {
            return Err(Error::Closed);
        }
        if self.directory.is_read_only() {
            return Ok(());
        }
        self.health.run(|| writer.sync())
    }
}

impl Ordered for AppendLog {
    fn range(
        &self,
        (start, end): KeyBounds<'_>,
        direction: Direction,
        limit: usize,
        now_ms: TimestampMs,
    ) -> Result<Records> {
        let is_empty = match (start, end) {
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (
                Bound::Included(start) | Bound::Excluded(start),
                Bound::Included(end) | Bound::Excluded(end),
            ) => start >= end,
            _ => false,
        };
        if is_empty {
            return Ok(Box::new(std::iter::empty()));
        }
        let records = self.records()?;
        let live = records.range::<[u8], _>((start, end)).filter_map(|record| live(record, now_ms));
        let mut records: Vec<Record> = live.collect();
        if direction == Direction::Descending {
            records.reverse();
        }
        records.truncate(limit);
        Ok(Box::new(records.into_iter().map(Ok)))
    }
}

/// The map at one moment.
struct LogSnapshot {
    records: Arc<Map>,
    now_ms: TimestampMs,
}

impl Snapshot for LogSnapshot {
    fn get(&self, key: Key<'_>) -> Result<Option<Found>> {
        Ok(find(&self.records, key.bytes(), self.now_ms))
    }

    fn records(&self) -> Records {
        let live = self.records.iter().filter_map(|record| live(record, self.now_ms));
        let records: Vec<Record> = live.collect();
        Box::new(records.into_iter().map(Ok))
    }
}
