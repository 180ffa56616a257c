//! Opens an index: applies the operations of the redo log to the saved index, or to an empty one.
//!
//! 1. The directory of the saved index is read, and the pages of the shards that are to be in memory now.
//! 2. The redo log is read from the position of the saved index on. Its torn end is cut off.
//! 3. Records are decoded, by several threads. Operations that the pages of their shard already have are left out.
//! 4. The operations of each shard are applied in their order, the shards by several threads.
//! 5. The redo log must reach the last flush that a shard contains: this was synced before the saved index was
//!    committed.
//!
//! The logs of data are not read. What redo does not cover is indexed by the caller, and is not in redo until a flush.

use super::entries::Entries;
use super::format::{Covered, RedoHeader, decode};
use super::operations::{Lsn, Operation, Pending, SlotEntries};
use super::redo::{Redo, SEGMENT_BYTES};
use super::saved_file::{SavedFile, SavedIndex};
use super::{LogIndex, LogIndexSettings, Shard};
use crate::damage::KeyRange;
use crate::error::{Error, Result};
use crate::health::Health;
use crate::progress::Progress;
use crate::store::log::{Log, LogSettings, Recovered};
use crate::store::log_format::LogFormat;
use siltstone_device::sync::RwLock;
use siltstone_device::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use siltstone_device::{Directory, in_parallel};
use siltstone_index::hash_pages::HashPages;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool as StdAtomicBool, Ordering};

/// The bytes of records that are decoded together, by several threads.
const RECORDS_BYTES: usize = if cfg!(test) { 1 << 8 } else { 8 << 20 };
/// The number of operations that are applied together: this, or this share of the entries if that is more. They take 24
/// bytes each, and cost the less the more there are for a page.
const OPERATIONS_AT_ONCE: usize = if cfg!(test) { 1 << 8 } else { 1 << 20 };
const SHARE_AT_ONCE: usize = 4;
/// No redo log has as many flushes: the number after that of a flush does not overflow.
const FLUSHES_MAX: u64 = 1 << 60;
/// The number of shards that are read together. In between, an open can be interrupted.
const SHARDS_AT_ONCE: usize = 8;

/// An index that is to be opened.
#[derive(Debug, Clone, Copy)]
pub struct IndexToOpen {
    /// The shape of the index.
    pub settings: LogIndexSettings,
    /// The parameters of the bytes of the redo log.
    pub format: LogFormat,
    /// The saved index that the manifest names.
    pub saved: Option<SavedIndex>,
    /// The redo log is known to be synced up to this position.
    pub redo_synced: u64,
    /// The number of shards that are to be in memory, the first ones. The others are on flash, unless nothing is saved.
    pub memory_shards: usize,
    /// They are loaded after the open, if a saved index is as long as this or longer, in bytes.
    pub load_later_bytes: u64,
}

/// What an opened index contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveredIndex {
    /// The index has all records of the logs of data before these positions, and nothing of those after them.
    pub covered: Covered,
    /// The number of operations that were applied.
    pub operations: u64,
    /// The end of the redo log.
    pub redo: Recovered,
    /// The entries of each slot.
    pub slots: SlotEntries,
}

/// A shard without locks, and the state from which operations are applied to it.
pub(super) struct OpenedShard {
    pub entries: Entries,
    pub lsn: Lsn,
    /// What the operations have changed of the entries of each slot.
    slots: SlotEntries,
}

impl OpenedShard {
    pub fn in_memory(pages: HashPages, lsn: Lsn, settings: &LogIndexSettings) -> OpenedShard {
        OpenedShard::new(Entries::in_memory(pages), lsn, settings)
    }

    fn new(entries: Entries, lsn: Lsn, settings: &LogIndexSettings) -> OpenedShard {
        OpenedShard { entries, lsn, slots: SlotEntries::new(settings.slot_units) }
    }

    /// Applies operations. Returns `false` if an entry that one removes or replaces does not exist.
    fn apply(&mut self, operations: &[&[Operation]]) -> bool {
        operations.iter().for_each(|operations| self.slots.apply_all(operations));
        self.entries.apply_all(operations)
    }
}

/// A record, and after its decoding what it has of shards that need it.
struct RedoRecord {
    position: u64,
    value: Vec<u8>,
    decoded: std::result::Result<Decoded, Refused>,
}

/// The operations of a record.
#[derive(Default)]
struct Decoded {
    header: Option<RedoHeader>,
    operations: Vec<Operation>,
    /// The shards of the operations, each with where its operations end.
    ends: Vec<(usize, usize)>,
}

impl Decoded {
    fn of(record: &RedoRecord, replay: &Replay) -> std::result::Result<Decoded, Refused> {
        let Replay { shards, unknown, settings, .. } = replay;
        // By the bytes that are there, and not by a number in them, which may be damaged.
        let mut operations = Vec::with_capacity(record.value.len() / settings.operation_bytes_min());
        let mut ends: Vec<(usize, usize)> = Vec::new();
        let mut visit = |header: RedoHeader, number: usize, run, operation: Operation| {
            let lsn = shards[number].lsn;
            let is_unknown =
                || unknown.iter().any(|range| range.contains(settings.whole(number, operation.hash)));
            // The saved pages of the shard have this run: a second time it would not find the entries.
            if (header.number, run) < (lsn.record, lsn.runs) || is_unknown() {
                return;
            }
            operations.push(operation);
            match ends.last_mut() {
                // All operations of a shard are adjacent in a record, so this is one range per shard.
                Some((last, end)) if *last == number => *end += 1,
                _ => ends.push((number, operations.len())),
            }
        };
        let header = decode(settings, &record.value, &mut visit)
            .map_err(|error| Refused::new(record.position, error.expected, error.got))?;
        Ok(Decoded { header: Some(header), operations, ends })
    }

    /// Passes the operations of each shard to `visit`.
    fn shards<'d>(&'d self, mut visit: impl FnMut(usize, &'d [Operation])) {
        let mut start = 0;
        for (shard, end) in &self.ends {
            visit(*shard, &self.operations[start..*end]);
            start = *end;
        }
    }
}

/// What a redo log has instead of what follows from the saved index and the records before.
#[derive(Debug)]
pub(super) struct Refused {
    pub position: u64,
    pub expected: String,
    pub got: String,
}

impl Refused {
    fn new(position: u64, expected: impl Into<String>, got: impl Into<String>) -> Refused {
        Refused { position, expected: expected.into(), got: got.into() }
    }
}

/// The course of reading the redo log.
pub(super) struct Replay {
    settings: LogIndexSettings,
    pub shards: Vec<OpenedShard>,
    /// The hashes whose entries are unknown, because pages are damaged. Their operations are left out.
    unknown: Vec<KeyRange>,
    /// The last record.
    last: Option<RedoHeader>,
    /// Records that are not decoded yet, and their bytes.
    records: Vec<RedoRecord>,
    record_bytes: usize,
    /// Those whose operations are not applied yet, and the number of these.
    waiting: Vec<Decoded>,
    waiting_count: usize,
    operations: u64,
}

impl Replay {
    pub fn new(settings: LogIndexSettings, shards: Vec<OpenedShard>, unknown: Vec<KeyRange>) -> Replay {
        Replay {
            settings,
            shards,
            unknown,
            last: None,
            records: Vec::new(),
            record_bytes: 0,
            waiting: Vec::new(),
            waiting_count: 0,
            operations: 0,
        }
    }

    /// Returns what the index covers after the last record, once all records are applied.
    pub fn covered(&self) -> Covered {
        self.last.map_or(Covered::default(), |last| last.covered)
    }

    /// Takes the next record. It, or one before it, may be refused now or later.
    pub fn record(&mut self, position: u64, value: &[u8]) -> std::result::Result<(), Refused> {
        let decoded = Ok(Decoded::default());
        self.records.push(RedoRecord { position, value: value.to_vec(), decoded });
        self.record_bytes += value.len();
        if self.record_bytes < RECORDS_BYTES { Ok(()) } else { self.decode() }
    }

    /// Decodes the records, and applies their operations if these are many.
    fn decode(&mut self) -> std::result::Result<(), Refused> {
        let mut records = std::mem::take(&mut self.records);
        let entries = std::mem::take(&mut self.record_bytes) / self.settings.operation_bytes_min();
        // In any order: what is left out depends on the saved states, which a replay does not change.
        in_parallel(entries as u64, records.iter_mut(), |record| record.decoded = Decoded::of(record, self));
        // In the order of the log again: operations of one hash depend on it.
        for RedoRecord { position, decoded, .. } in records {
            let decoded = decoded?;
            if let Some(header) = decoded.header {
                self.follow(position, header)?;
            }
            self.waiting_count += decoded.operations.len();
            self.operations += decoded.operations.len() as u64;
            self.waiting.push(decoded);
            let entries: u64 = self.shards.iter().map(|shard| shard.entries.len()).sum();
            if self.waiting_count >= OPERATIONS_AT_ONCE.max(entries as usize / SHARE_AT_ONCE) {
                self.apply(position)?;
            }
        }
        Ok(())
    }

    /// Checks that a record is of the flush of the last one, or of the next flush, and that the first one leaves out
    /// nothing that a shard needs.
    fn follow(&mut self, position: u64, header: RedoHeader) -> std::result::Result<(), Refused> {
        let least = self.shards.iter().map(|shard| shard.lsn.record).min().unwrap_or(0);
        let allowed = match self.last {
            // The same number again: a long flush has several records.
            Some(last) => last.number..=(last.number + 1).min(FLUSHES_MAX),
            // An earlier one is no gap: the save noted its begin in redo before it captured a shard.
            None => 0..=least.min(FLUSHES_MAX),
        };
        // A gap would leave out operations, and the index would still look complete.
        if !allowed.contains(&header.number) {
            let expected = format!("flush {} or one before it", allowed.end());
            return Err(Refused::new(position, expected, format!("flush {}", header.number)));
        }
        self.last = Some(header);
        Ok(())
    }

    /// Applies the operations that wait.
    fn apply(&mut self, position: u64) -> std::result::Result<(), Refused> {
        let waiting = std::mem::take(&mut self.waiting);
        // Within a shard the order of the records stays. Shards do not depend on each other.
        let mut of_shards: Vec<Vec<&[Operation]>> = self.shards.iter().map(|_| Vec::new()).collect();
        waiting.iter().for_each(|decoded| decoded.shards(|shard, run| of_shards[shard].push(run)));
        let is_applied = StdAtomicBool::new(true);
        let apply = |(shard, operations): (&mut OpenedShard, Vec<&[Operation]>)| {
            is_applied.fetch_and(shard.apply(&operations), Ordering::Relaxed);
        };
        let count = std::mem::take(&mut self.waiting_count);
        in_parallel(count as u64, self.shards.iter_mut().zip(of_shards), apply);
        // Relaxed is enough: all threads have ended.
        match is_applied.into_inner() {
            true => Ok(()),
            false => Err(Refused::new(position, "operations on entries of the index", "others")),
        }
    }

    /// Checks that the redo log has the flushes that the saved shards contain in part.
    pub fn finish(&mut self, end: u64) -> std::result::Result<u64, Refused> {
        self.decode()?;
        self.apply(end)?;
        let next = self.last.map_or(0, |last| last.number + 1);
        // They were synced before the manifest named the saved index, so their absence is damage and no torn end.
        match self.shards.iter().find(|shard| shard.lsn > Lsn { record: next, runs: 0 }) {
            None => Ok(next),
            Some(shard) => {
                let expected = format!("flush {}, which the saved index contains", shard.lsn.record);
                Err(Refused::new(end, expected, format!("the end after {next} flushes")))
            }
        }
    }
}

impl LogIndex {
    /// Makes an empty index with an empty redo log. All logs of a database have one health.
    ///
    /// # Errors
    /// [`Error::Setting`] for settings outside their limits, and errors of the device.
    pub fn create(
        directory: &Directory,
        settings: LogIndexSettings,
        format: &LogFormat,
        health: &Arc<Health>,
    ) -> Result<LogIndex> {
        let shards = empty(settings)?;
        let log = Log::create_in(directory, *format, SEGMENT_BYTES, 0, health)?;
        Ok(LogIndex::assemble(directory, settings, shards, Redo::new(log.into(), 0, 0), 0))
    }

    /// Opens the index whose redo log was [begun](Log::begin) in a directory, from the saved index that the manifest
    /// names, if there is one. Of the saved index it reads the entries of the shards that are to be in memory, unless
    /// they are [loaded](LogIndex::start_load) later. In a read-only directory nothing is changed.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if anything of this that was synced is damaged or missing; also those of
    /// [`create`](LogIndex::create).
    pub fn open(
        directory: &Directory,
        to_open: &IndexToOpen,
        health: &Arc<Health>,
        progress: &mut Progress<'_>,
    ) -> Result<(LogIndex, RecoveredIndex)> {
        let IndexToOpen { settings, format, saved, redo_synced, memory_shards, load_later_bytes } = *to_open;
        settings.check()?;
        // Before the log is opened, which cuts off its torn end and removes segments: if the saved index is
        // missing or damaged, everything stays as it is.
        let file = saved.map(|saved| SavedFile::open(directory, settings, &saved)).transpose()?;
        let loads_later = file.as_ref().is_some_and(|file| file.length() >= load_later_bytes);
        let shards = match &file {
            Some(file) => load(file, if loads_later { 0 } else { memory_shards }, progress)?,
            None => empty(settings)?,
        };
        let from = saved.map_or(0, |saved| saved.redo_from);
        // The manifest names a saved index only after the redo before it is synced.
        let durable = redo_synced.max(from);
        let log_settings = LogSettings { format, segment_bytes: SEGMENT_BYTES, from, durable };
        let (log, redo) = Log::open_in(directory, &log_settings, health, progress)?;
        let corrupt = |refused: Refused| log.corrupt(refused.position, refused.expected, refused.got);
        let mut replay = Replay::new(settings, shards, Vec::new());
        log.scan(from, progress, &mut |position, record| {
            replay.record(position, record.value.unwrap_or_default()).map_err(corrupt)
        })?;
        let next = replay.finish(redo.end).map_err(corrupt)?;
        // After `finish`, which has applied the last record: what it covers is in the shards.
        let covered = replay.covered();
        let Replay { shards, operations, .. } = replay;
        let slots = file.as_ref().map(|file| file.slots.clone());
        let mut slots = slots.unwrap_or_else(|| SlotEntries::new(settings.slot_units));
        // The file has the counts of the captured shards, so exactly what was applied to them is added.
        shards.iter().for_each(|shard| slots.merge(&shard.slots));
        let recovered = RecoveredIndex { covered, operations, redo, slots };
        let redo = Redo::new(log, next, from);
        let saved_bytes = file.map_or(0, |file| file.length());
        let mut index = LogIndex::assemble(directory, settings, shards, redo, saved_bytes);
        index.set_memory_shards(memory_shards);
        index.load_end = if loads_later { memory_shards } else { 0 };
        Ok((index, recovered))
    }

    /// Adds the changes since the open that are not in the redo log to the entries of each slot.
    pub fn count_pending(&self, slots: &mut SlotEntries) {
        for shard in &self.shards {
            shard.read().pending.operations().for_each(|operation| slots.apply(operation));
        }
    }

    fn assemble(
        directory: &Directory,
        settings: LogIndexSettings,
        shards: Vec<OpenedShard>,
        redo: Redo,
        saved_bytes: u64,
    ) -> LogIndex {
        // All shards begin in the same flush: a capture states its number.
        let (_, next) = redo.next();
        let shard = |OpenedShard { entries, .. }| {
            RwLock::new(Shard { entries: Arc::new(entries), pending: Pending::new(next) })
        };
        LogIndex {
            settings,
            shards: shards.into_iter().map(shard).collect(),
            redo,
            directory: directory.clone(),
            saved_bytes: AtomicU64::new(saved_bytes),
            memory_shards: AtomicUsize::new(settings.shards()),
            piece_bytes: AtomicUsize::new(super::SAVE_PIECE_BYTES),
            load_end: 0,
            next_load: AtomicUsize::new(0),
            page_reads: AtomicU64::new(0),
            batches: Arc::default(),
            keeps_marks: AtomicBool::new(false),
        }
    }
}

pub(super) fn empty(settings: LogIndexSettings) -> Result<Vec<OpenedShard>> {
    settings.check()?;
    let pages = HashPages::new(settings.shard_hash_bits())?;
    let shard = |_| OpenedShard::in_memory(pages.clone(), Lsn::default(), &settings);
    Ok((0..settings.shards()).map(shard).collect())
}

/// Reads the entries of the shards that are to be in memory, several shards at once.
fn load(file: &SavedFile, memory_shards: usize, progress: &mut Progress<'_>) -> Result<Vec<OpenedShard>> {
    let mut opened = Vec::with_capacity(file.shards.len());
    for (chunk, shards) in file.shards.chunks(SHARDS_AT_ONCE).enumerate() {
        let first = chunk * SHARDS_AT_ONCE;
        let mut loaded: Vec<Result<Option<HashPages>>> = shards.iter().map(|_| Ok(None)).collect();
        // Empty from `memory_shards` on: these shards stay on flash.
        let to_load = (first..memory_shards).zip(&mut loaded);
        let entries = shards.iter().map(|shard| shard.pages.len()).sum();
        in_parallel(entries, to_load, |(number, loaded)| *loaded = file.load(number).map(Some));
        for (shard, loaded) in shards.iter().zip(loaded) {
            let entries = match loaded? {
                Some(pages) => Entries::in_memory(pages),
                None => Entries::on_flash(shard.pages.clone())?,
            };
            opened.push(OpenedShard::new(entries, shard.lsn, file.settings()));
        }
        let end = shards.iter().map(|shard| shard.pages.end()).max().unwrap_or(0);
        if !progress(end, file.length()) {
            return Err(Error::Interrupted);
        }
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_with_the_last_number_is_refused() {
        let settings = LogIndexSettings { hash_bits: 30, shards_log2: 0, slot_units: 1 };
        for (number, is_possible) in
            [(7, true), (FLUSHES_MAX, true), (FLUSHES_MAX + 1, false), (u64::MAX, false)]
        {
            let mut shards = empty(settings).unwrap();
            shards[0].lsn.record = number;
            let mut replay = Replay::new(settings, shards, Vec::new());
            let header = RedoHeader { number, covered: Covered::default() };
            for record in header.records(&settings, Vec::new()) {
                replay.record(0, &record).unwrap();
            }
            let next = replay.finish(100).ok();
            assert_eq!(next, is_possible.then(|| number + 1));
        }
    }
}
