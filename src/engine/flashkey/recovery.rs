//! Creates a database, and opens it after a clean end or a crash. An open does this:
//!
//! 1. The manifest lists the finished segments, the saved index and the runs of keys. It is made durable first, because
//!    later steps remove files that it does not name.
//! 2. The saved index is opened, and the operations of redo are applied to it.
//! 3. The logs behind the finished segments are read. They were synced before the redo that covers them, so damage
//!    before that is an error. Torn ends behind it are cut off. Of finished segments only the headers are read.
//! 4. Files that the manifest does not name are removed, after all that it names were found.
//! 5. The records of the user log that redo does not cover are indexed as they were when they were put. Moved records
//!    that redo does not cover get no entries: the segments of their originals are only released after redo covers the
//!    copies.
//! 6. If keys are kept in order, the user log is also read from where their runs end.
//!
//! No other record is read. The next open after a crash in any of these steps does the same.

use super::background::{FLUSH_LOG_BYTES, Jobs};
use super::below::Below;
use super::commits::{Commits, saved_bytes};
use super::get::Reader;
use super::indexed_logs::{CLEAN, IndexedLogs};
use super::keys::recover_keys;
use super::live::{LiveLogs, Manifest};
use super::log_settings::LogSettings;
#[cfg(feature = "mistakes")]
use super::log_settings::Mistake;
use super::memory::{Memory, check_budget, memory_shards_at_opening};
use super::put::Writer;
use crate::cache::RecordCache;
use crate::error::{Error, Result};
use crate::health::Health;
use crate::key::{KeyHasher, RecordLayout};
use crate::names::{FileName, LogClass};
use crate::progress::Progress;
use crate::store::data_logs::{CLASSES, DataLogSettings, DataLogs, USER};
use crate::store::log::Log;
use crate::store::log_format::{self, FRAME_CRC_BYTES, LogFormat, SEGMENT_HEADER_BYTES};
use crate::store::manifest::{Header, KeptSettings};
use crate::store::ordered_keys::OrderedKeys;
use crate::store::unit_index::{IndexToOpen, LogIndex, LogIndexSettings, SlotEntries};
use crate::store::{files_of_engine, list_files};
use siltstone_device::{Access, AlignedBuffer, Directory, Purpose, random_number};
use std::sync::Arc;

/// A frame up to this length is a unit.
const UNIT_BYTES_MAX: usize = 128;
/// Longer frames have this many units, if these do not become too long. A tombstone takes at least one, and with twice
/// as many the index takes a bit more per key.
const UNITS: usize = 4;
/// A segment has at most this share of a capacity, or this many bytes if they are more: the segments that grow leave
/// most of the capacity to the others.
const SEGMENTS_OF_CAPACITY: u64 = 128;
const SEGMENT_BYTES_OF_CAPACITY_MIN: u64 = 64 << 10;
/// The units of records of variable sizes.
const VARIABLE_UNIT_BYTES: u32 = 16;

/// The parts of an open database.
pub(crate) struct Opened {
    pub logs: Arc<IndexedLogs>,
    pub cache: Arc<RecordCache>,
    pub memory: Arc<Memory>,
    pub commits: Arc<Commits>,
    pub jobs: Jobs,
    pub reader: Reader,
    pub writer: Writer,
    pub replayed_records: u64,
    pub lost_tail_bytes: u64,
}

/// Returns the unit of places of records, so that a record of a fixed size wastes less than a unit.
pub fn unit_bytes(layout: &RecordLayout) -> u32 {
    if layout.fixed.is_none() {
        return VARIABLE_UNIT_BYTES;
    }
    let frame_bytes = FRAME_CRC_BYTES + layout.stream_bytes_max();
    if frame_bytes <= UNIT_BYTES_MAX {
        return frame_bytes as u32;
    }
    let units = frame_bytes.div_ceil(log_format::UNIT_BYTES_MAX as usize).max(UNITS);
    frame_bytes.div_ceil(units) as u32
}

pub(super) fn data_settings(header: &Header, settings: &LogSettings) -> DataLogSettings {
    DataLogSettings {
        layout: header.layout,
        database_id: header.database_id,
        secret: header.secret,
        unit_bytes: unit_bytes(&header.layout),
        segment_bytes: settings.segment_bytes,
        moved: (CLASSES - 1) as u8,
    }
}

/// Returns the format of the redo log, whose records are of any size.
pub(super) fn redo_format(header: &Header) -> LogFormat {
    let layout = RecordLayout { fixed: None, expiring: false };
    LogFormat { layout, class: LogClass::Redo, unit_bytes: 1, ..header.log_format() }
}

pub(super) fn index_settings(header: &Header, settings: &LogSettings, slot_units: u64) -> LogIndexSettings {
    LogIndexSettings { hash_bits: settings.hash_bits, shards_log2: header.partitions_log2, slot_units }
}

/// Creates an empty database. The remains of an interrupted creation are removed.
pub(crate) fn create(
    directory: &Directory,
    header: &Header,
    settings: &LogSettings,
    kept: &KeptSettings,
) -> Result<()> {
    if is_half_created(directory)? {
        files_of_engine(directory)?.iter().try_for_each(|name| directory.remove(name))?;
    }
    DataLogs::create(directory, &data_settings(header, settings))?;
    // Before the manifest: without this log `is_half_created` takes a new manifest for damage, not for a creation.
    Log::begin(directory, &redo_format(header), 0)?;
    directory.sync(Purpose::Recover)?;
    // Last: without a manifest, a crash leaves the remains of a creation, which the next one removes.
    Manifest::replace(directory, header, LiveLogs::default(), kept, 0)
}

/// Returns whether the directory holds what is left of a creation that was interrupted, and nothing else: first
/// segments as long as their headers, or empty, and a manifest only after the redo log, which is made before it.
pub(crate) fn is_half_created(directory: &Directory) -> Result<bool> {
    let names = files_of_engine(directory)?;
    let (mut has_redo, mut has_manifest) = (false, false);
    for name in &names {
        match FileName::parse(name) {
            Some(FileName::Segment { class, base: 0 }) if class != LogClass::Changes => {
                let length = directory.open(name, Access::Buffered)?.length()?;
                if length != 0 && length != SEGMENT_HEADER_BYTES as u64 {
                    return Ok(false);
                }
                has_redo |= class == LogClass::Redo;
            }
            Some(FileName::NewManifest) => has_manifest = true,
            _ => return Ok(false),
        }
    }
    Ok(!names.is_empty() && (has_redo || !has_manifest))
}

/// Opens the database with this manifest. In a read-only directory nothing is changed: a torn end of a log is ignored
/// and not cut off.
///
/// # Errors
/// [`Error::Corrupt`] for all damage of the manifest, the saved index and the redo log, and of what was appended to the
/// logs since the redo. [`Error::Interrupted`] if `progress` returns false.
pub(crate) fn open(
    directory: Directory,
    mut manifest: Manifest,
    settings: LogSettings,
    to_keep: &KeptSettings,
    memory_budget: Option<u64>,
    below: Option<Arc<dyn Below>>,
    progress: &mut Progress<'_>,
) -> Result<Opened> {
    let header = *manifest.header();
    let is_read_only = directory.is_read_only();
    if !is_read_only {
        // A killed process may have left the last commit unsynced. What it has released is removed below.
        manifest.make_durable()?;
    }
    let live = manifest.state();
    let saved_bytes = live.index.map_or(Ok(0), |saved| saved_bytes(&directory, &saved))?;
    let data_settings = data_settings(&header, &settings);
    let health = Arc::new(Health::default());
    let shards = 1 << header.partitions_log2;
    let to_open = IndexToOpen {
        settings: index_settings(&header, &settings, data_settings.units_per_slot()),
        format: redo_format(&header),
        saved: live.index,
        redo_synced: live.redo_synced,
        memory_shards: memory_shards_at_opening(settings.index_in_memory, shards, memory_budget, saved_bytes),
        load_later_bytes: FLUSH_LOG_BYTES.min(settings.segment_bytes),
    };
    // The redo log is appended to in long pieces, which a mapping does not make cheaper.
    let redo_directory = directory.clone().map_appends(false);
    let (index, redone) = LogIndex::open(&redo_directory, &to_open, &health, progress)?;
    if let Some(budget) = memory_budget {
        check_budget(budget, index.shards(), index.len())?;
    }
    let covered = redone.covered;
    // The logs are synced before redo covers them, or runs of keys do. Before these positions damage is damage; behind
    // them it is a torn end, which is cut off with everything after it. So redo is read first.
    let mut synced = covered;
    let of_user = &mut synced[usize::from(USER)];
    *of_user = (*of_user).max(manifest.log_synced()).max(live.keys_flushed_to);
    let (data, recovered) = DataLogs::open(
        &directory,
        &data_settings,
        &live.finished,
        live.finished_to,
        synced,
        &health,
        progress,
    )?;
    if settings.capacity < u64::MAX {
        data.limit_segments((settings.capacity / SEGMENTS_OF_CAPACITY).max(SEGMENT_BYTES_OF_CAPACITY_MIN));
    }
    // Before files are removed and records are indexed: a log that has lost synced records must not get new ones.
    check_ends(&directory, &data, covered, live.keys_flushed_to)?;
    let keys = settings.ordered.then(|| OrderedKeys::open(&directory, &live.key_runs, memory_budget));
    let keys = keys.transpose()?;
    if !is_read_only {
        // After everything was read: a database that cannot be opened stays as it is but for torn ends.
        manifest.mirror()?;
        // Only now: as long as a file is missing, an apparent orphan may be what is left of it.
        remove_orphans(&directory, &manifest)?;
        manifest.keep(to_keep)?;
    }
    #[cfg(feature = "mistakes")]
    if settings.makes(Mistake::GoesOnAfterAFailure) {
        data.health().ignore_failures();
    }
    // Keys with equal hashes of this kind count as one key. Without the secret, a user cannot construct such keys.
    let secret = KeyHasher::Keyed([random_number()?, random_number()?]);
    let logs = IndexedLogs::new(directory, header, settings, data, index, keys, secret);
    let logs = Arc::new(logs.over(below));
    let cache = Arc::new(RecordCache::new(0));
    let commits = Arc::new(Commits::new(&logs, manifest, covered, saved_bytes));
    let writer = Writer::new(&logs, &cache, &commits);
    // After redo: a put finds the entries that its record replaces, which redo may have made.
    let replayed_records = replay(&logs, &writer, covered[usize::from(USER)])?;
    // After replay: without the runs, as a repair leaves a database, this reads all records by their entries.
    recover_keys(&logs, &commits)?;
    let mut slots = redone.slots;
    // Replay has changed entries. The counts of the saved index and of redo do not have these changes.
    logs.index.count_pending(&mut slots);
    account_for_entries(&logs, &slots);
    if logs.settings.recycling.is_some() {
        logs.index.keep_marks();
    }
    let memory = Arc::new(Memory::new(&logs, &cache, memory_budget));
    Ok(Opened {
        jobs: Jobs::new(&logs, &commits, &memory),
        reader: Reader::new(&logs, &cache, &memory),
        writer,
        replayed_records,
        lost_tail_bytes: recovered.lost_tail_bytes,
        logs,
        cache,
        memory,
        commits,
    })
}

/// Returns an error if a log ends before what redo covers, or before what the runs of keys have.
fn check_ends(
    directory: &Directory,
    data: &DataLogs,
    covered: [u64; CLASSES],
    keys_flushed_to: u64,
) -> Result<()> {
    let mut needed = covered;
    needed[usize::from(USER)] = needed[usize::from(USER)].max(keys_flushed_to);
    match (0..CLASSES).find(|class| needed[*class] > data.ends()[*class]) {
        None => Ok(()),
        Some(class) => Err(Error::Corrupt {
            file: directory.path().join("log"),
            offset: 0,
            expected: format!("a log of class {class} up to {}, which redo or keys cover", needed[class]),
            got: format!("its end at {}", data.ends()[class]),
        }),
    }
}

/// Removes files that a crash left: saved indexes and runs of keys that were not complete, or that were replaced.
fn remove_orphans(directory: &Directory, manifest: &Manifest) -> Result<()> {
    let state = manifest.state();
    let live = state.index.map(|saved| saved.number);
    for file in list_files(directory)? {
        let is_orphan = match file {
            FileName::NewManifest | FileName::NewMirror => true,
            FileName::SavedIndex(number) => live != Some(number),
            FileName::KeyRun(number) => state.key_runs.iter().all(|run| run.number != number),
            _ => false,
        };
        if is_orphan {
            directory.remove(&file.to_string())?;
        }
    }
    Ok(())
}

/// Indexes the records of the user log from `covered` on, as they were indexed when they were put. Returns how many
/// there are.
fn replay(logs: &IndexedLogs, writer: &Writer, covered: u64) -> Result<u64> {
    let mut replayed = 0;
    let mut buffer = AlignedBuffer::default();
    logs.data.scan(USER, covered, &mut |unit, record| {
        replayed += 1;
        writer.replay(unit, record, &mut buffer)
    })?;
    Ok(replayed)
}

/// Determines the live bytes and the dead bytes of each segment from the number of entries that point to it, exactly if
/// all records have one size.
fn account_for_entries(logs: &IndexedLogs, slots: &SlotEntries) {
    let mut live_bytes = 0;
    for segment in logs.data.view().segments() {
        let first = u64::from(segment.slot);
        let entries = slots.of(first..first + u64::from(segment.slots));
        // An overwritten record with an entry counts as live here, until the search has noted it.
        let share = (entries as f64 / segment.records.max(1) as f64).min(1.0);
        let live = (segment.bytes as f64 * share) as u64;
        live_bytes += live;
        if segment.class == CLEAN && logs.settings.has_below {
            logs.add_clean(entries);
        }
        logs.data.set_dead(segment.class, segment.base, segment.bytes - live);
    }
    logs.set_indexed_bytes(live_bytes);
    logs.average_frames(logs.index.len());
}
