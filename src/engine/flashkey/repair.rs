//! Repairs a database that is not open, whatever part of it is damaged.
//!
//! Finished segments without damage stay. The live records of all others move to new segments, as cleaning moves them.
//! Where the index is known, its entries say which records are live; where it is damaged, the last version of each key
//! is found in all logs by an external sort.
//!
//! 1. All files are read, and nothing is changed if none is damaged.
//! 2. New files are written and synced. No manifest names them: after a crash the next open removes them.
//! 3. The damaged files are added to a folder as well, durably.
//! 4. The manifest is replaced, the one moment at which the repair takes effect.
//! 5. Files that the new manifest does not name are removed. After a crash the next open does it.
//!
//! ```text
//! damaged, unfinished segments  -> moved1-...     of the records with an entry, or the last ones of their keys
//! entries, and those found      -> saved index    with an empty redo log
//! damaged files                 -> damaged-0001/
//! new manifest (atomic rename)                    <- takes effect here
//! ```

use super::live::{LiveLogs, Manifest};
use super::survey::{SettingsOf, Survey};
use crate::damage::{DamagedPart, RepairReport};
use crate::engine::jobs::free_number;
use crate::error::{Error, Result};
use crate::key::{PartitionHasher, RecordLayout};
use crate::names::{FileName, LogClass, MANIFEST_NAME, MIRROR_NAME, SET_ASIDE};
use crate::progress::{Progress, ProgressCounter};
use crate::store::data_logs::{CLASSES, FinishedSegment, FoundSegment, SegmentsWriter, USER, Version};
use crate::store::examine::begin_after;
use crate::store::list_files;
use crate::store::merge::Cursor;
use crate::store::record::{RecordShape, RecordView};
use crate::store::sort::{Duplicates, ExternalSort, FAN_IN_MAX, SortSettings, SortedRecords};
use crate::store::unit_index::SavedIndex;
use siltstone_device::{Directory, Purpose, random_number};
use siltstone_index::coding::Reader;

/// The records of all logs are sorted in as many parts.
const SORTS: usize = CLASSES + 1;
/// The memory for sorting the records of all logs, in bytes.
const SORT_MEMORY_BYTES: usize = 32 << 20;
/// The class to which records move: as new ones, because their age is not known.
const MOVED: LogClass = LogClass::Moved(1);

/// Repairs a database that is not open. Changes nothing if nothing is damaged.
pub(crate) fn repair(
    directory: &Directory,
    settings_of: &SettingsOf<'_>,
    progress: &mut Progress<'_>,
) -> Result<RepairReport> {
    let (manifest, damage) = Manifest::open_or_mirror(directory)?;
    let settings = settings_of(manifest.settings())?;
    let mut counter = ProgressCounter::new(progress);
    let survey = Survey::take(directory, &manifest, damage, &settings, &mut counter)?;
    let mut report = RepairReport { found: survey.report.clone(), ..RepairReport::default() };
    if report.found.damage.is_empty() {
        return Ok(report);
    }
    if directory.is_read_only() {
        let refused = std::io::ErrorKind::ReadOnlyFilesystem.into();
        return Err(Error::io("repair", directory.path())(refused));
    }
    let mut repairing = Repairing { directory, survey, report: &mut report };
    let outcome = repairing.run(&mut counter);
    if outcome.is_err() {
        // No manifest names these files; if they cannot be removed, the next open removes them.
        report.new_files.iter().for_each(|name| drop(directory.remove(name)));
    }
    outcome.map(|()| report)
}

struct Repairing<'a> {
    directory: &'a Directory,
    survey: Survey<'a>,
    /// Also has the names of the files written so far.
    report: &'a mut RepairReport,
}

impl Repairing<'_> {
    fn run(&mut self, counter: &mut ProgressCounter<'_, '_>) -> Result<()> {
        let manifest = self.survey.manifest;
        let is_of_manifest = |part: DamagedPart| part == DamagedPart::Manifest;
        if self.report.found.damage.iter().all(|damage| is_of_manifest(damage.part)) {
            return self.replace(manifest.state().clone(), manifest.log_synced());
        }
        counter.total += counter.total;
        self.complete_index(counter)?;
        let live = self.write_new(counter)?;
        self.directory.sync(Purpose::Maintain)?;
        // The new files are durable, with their names, before the manifest has them.
        let synced = live.finished_to[usize::from(USER)];
        let segments = live.finished.iter().filter_map(name_of);
        let kept: Vec<String> = segments.chain(self.report.new_files.iter().cloned()).collect();
        self.replace(live, synced)?;
        // Only now: until the manifest was replaced, these files are the database.
        for file in list_files(self.directory)?.into_iter().filter(|file| file.is_of_logs()) {
            let name = file.to_string();
            if !kept.contains(&name) {
                self.directory.remove(&name)?;
            }
        }
        Ok(self.directory.sync(Purpose::Maintain)?)
    }

    /// Sets the damaged files aside, and replaces the manifest.
    fn replace(&mut self, live: LiveLogs, log_synced: u64) -> Result<()> {
        let (directory, manifest) = (self.directory, self.survey.manifest);
        let damaged = self.report.found.damage.iter().filter_map(|damage| damage.file.file_name());
        let damaged = damaged.map(|name| name.to_string_lossy().into_owned());
        let mut aside: Vec<String> = damaged.chain([MANIFEST_NAME, MIRROR_NAME].map(str::to_owned)).collect();
        let names = directory.list()?;
        aside.retain(|name| names.binary_search(name).is_ok());
        aside.sort_unstable();
        aside.dedup();
        // Adds them to the folder: until the manifest is replaced, their names stay as well.
        let folder = directory.set_aside(&aside.iter().map(String::as_str).collect::<Vec<_>>(), SET_ASIDE)?;
        self.report.set_aside = Some(directory.path_of(&folder));
        self.report.set_aside_files = aside;
        Manifest::replace(directory, manifest.header(), live, manifest.settings(), log_synced)
    }

    /// Makes an entry for each live record, and leaves none of those that are lost.
    fn complete_index(&mut self, counter: &mut ProgressCounter<'_, '_>) -> Result<()> {
        let Survey { manifest, index: examined, data_files, data, lost, has_below, .. } = &mut self.survey;
        let (covered, hasher) = (examined.covered[usize::from(USER)], manifest.header().hasher);
        // Tombstones hide records of a store below.
        let (index, unknown, has_below) = (&mut examined.index, &examined.unknown, *has_below);
        let is_unknown = |hash: u64| unknown.iter().any(|range| range.contains(hash));
        for (hash, unit) in lost.drain(..) {
            index.remove(hash, unit);
        }
        // As an open does it: what redo does not cover is indexed in the order in which it was written.
        let select = |segment: &FoundSegment| segment.class == USER && segment.end > covered;
        data_files.records(data, &select, &mut |_| true, &mut |found| {
            let hash = hasher.hash(found.record.key).placement;
            // An entry of a moved record that redo does not cover points to its original.
            let is_new = found.position >= covered && found.version.is_by_user && !is_unknown(hash);
            // A tombstone without an older entry hides nothing.
            let is_needed = found.record.value.is_some() || has_below || !index.candidates(hash).is_empty();
            if let Some(unit) = found.unit.filter(|_| is_new && is_needed) {
                index.insert(hash, unit);
            }
            Ok(())
        })?;
        if unknown.is_empty() {
            return Ok(());
        }
        let mut sorts = Vec::with_capacity(SORTS);
        // One per class, and one of what was moved to the log of the puts: there, the later record of a key is the
        // newer one.
        for _ in 0..SORTS {
            let layout = RecordLayout { fixed: None, expiring: false };
            let hasher = PartitionHasher { key_hasher: hasher, partitions_log2: 0 };
            let settings = SortSettings {
                shape: RecordShape { layout, hasher },
                memory_bytes: SORT_MEMORY_BYTES / SORTS,
                fan_in_max: FAN_IN_MAX / SORTS,
                duplicates: Duplicates::LastWins,
            };
            sorts.push(ExternalSort::new(self.directory.clone(), settings)?);
        }
        data_files.records(data, &|_| true, &mut |bytes| counter.advance(bytes), &mut |found| {
            let Some(unit) = found.unit.filter(|_| is_unknown(hasher.hash(found.record.key).placement))
            else {
                return Ok(());
            };
            let is_moved = !found.version.is_by_user;
            let sort =
                if is_moved && found.segment.class == USER { CLASSES } else { found.segment.class.into() };
            let Some(sort) = sorts.get_mut(sort) else { return Ok(()) };
            let value =
                VersionPlace { version: found.version, unit, is_tombstone: found.record.value.is_none() };
            let record = RecordView { key: found.record.key, value: Some(&value.encode()), expires_at_ms: 0 };
            sort.push(&record, &mut |_, _| true)
        })?;
        let sorted = sorts.into_iter().map(|sort| sort.finish(&mut |_, _| true));
        let mut last = LastVersions::new(sorted.collect::<Result<_>>()?)?;
        while let Some((hash, place)) = last.next()? {
            // Here no older record of the key gets an entry, so without a store below a tombstone hides nothing.
            if !place.is_tombstone || has_below {
                index.insert(hash, place.unit);
            }
        }
        Ok(())
    }

    /// Writes the live records of damaged and unfinished segments to new ones, and an index of everything. Returns
    /// what is live then.
    fn write_new(&mut self, counter: &mut ProgressCounter<'_, '_>) -> Result<LiveLogs> {
        let Survey { manifest, index_files, index: examined, data_files, data, segments, .. } =
            &mut self.survey;
        let is_damaged = |segment: &FinishedSegment| {
            let mut parts = data.damage.iter().filter(|part| part.class == segment.class);
            parts.any(|part| (segment.base..segment.end).contains(&part.positions.start))
        };
        let finished = &manifest.state().finished;
        let mut kept: Vec<_> = finished.iter().filter(|segment| !is_damaged(segment)).copied().collect();
        let is_kept = |segment: &FoundSegment| {
            segment.is_finished
                && kept.iter().any(|kept| (kept.class, kept.base) == (segment.class, segment.base))
        };
        // After all files of the old logs.
        let mut begins = data.files_end;
        for begin in &mut begins {
            *begin = begin_after(self.directory, *begin)?;
        }
        let redo_from = begin_after(self.directory, examined.files_end)?;
        let (hasher, index) = (manifest.header().hasher, &mut examined.index);
        let (base, order) = (begins[usize::from(MOVED.number())], begins[usize::from(USER)]);
        // With slots that no old segment has: the index has old and new units at once.
        let mut writer =
            SegmentsWriter::new(self.directory, data_files.settings, MOVED, segments, base, order);
        let kept_records = &mut self.report.kept_records;
        let moved = data_files.records(
            data,
            &|segment| !is_kept(segment),
            &mut |bytes| counter.advance(bytes),
            &mut |found| {
                let hash = hasher.hash(found.record.key).placement;
                if let Some(unit) = found.unit.filter(|unit| index.contains(hash, *unit)) {
                    let new = writer.push(&found.record)?;
                    index.replace(hash, unit, new);
                    *kept_records += 1;
                }
                Ok(())
            },
        );
        let names = &mut self.report.new_files;
        // `repair` removes these files: nothing will ever name them.
        if moved.is_err() {
            names.extend(writer.files());
        }
        moved?;
        let (new, finished_to) = writer.finish(begins, names)?;
        kept.extend(new);
        // In the order in which a manifest takes them.
        kept.sort_unstable_by_key(|segment| (segment.class, segment.base));
        // A number that no file has, also none that a crash has left.
        let numbers = list_files(self.directory)?.into_iter().filter_map(|file| match file {
            FileName::SavedIndex(number) => Some(number),
            _ => None,
        });
        let number = free_number(self.directory, manifest.next_number(), &numbers.collect())?;
        let saved = SavedIndex { number, tag: random_number()?, redo_from };
        names.extend([saved.file_name(), index_files.format.segment_name(redo_from)]);
        let redo_synced = index_files.write(saved, index, finished_to)?;
        // Without runs of keys: an open makes them again from the records.
        let index = Some(saved);
        Ok(LiveLogs { finished: kept, finished_to, index, redo_synced, ..LiveLogs::default() })
    }
}

fn name_of(segment: &FinishedSegment) -> Option<String> {
    let class = LogClass::from_number(segment.class)?;
    Some(FileName::Segment { class, base: segment.base }.to_string())
}

/// Where a version of a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct VersionPlace {
    version: Version,
    unit: u64,
    is_tombstone: bool,
}

impl VersionPlace {
    fn encode(&self) -> [u8; 18] {
        let mut bytes = [0; 18];
        bytes[..8].copy_from_slice(&self.version.position.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.unit.to_le_bytes());
        bytes[16] = self.version.is_by_user.into();
        bytes[17] = self.is_tombstone.into();
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<VersionPlace> {
        let mut fields = Reader::new(bytes);
        let (position, unit) = (fields.u64()?, fields.u64()?);
        let version = Version { position, is_by_user: fields.u8()? != 0 };
        Some(VersionPlace { version, unit, is_tombstone: fields.u8()? != 0 })
    }
}

/// The last version of each key, from parts of the records, which have the last one of each key in that part.
struct LastVersions {
    parts: Vec<SortedRecords>,
}

impl LastVersions {
    fn new(parts: Vec<SortedRecords>) -> Result<LastVersions> {
        let mut last = LastVersions { parts };
        last.parts.iter_mut().try_for_each(|records| records.advance().map(drop))?;
        Ok(last)
    }

    /// Returns the hash of the next key, and where its last version is.
    fn next(&mut self) -> Result<Option<(u64, VersionPlace)>> {
        let entries = self.parts.iter().filter_map(Cursor::entry);
        let Some(first) = entries.map(|entry| (entry.hash, entry.record.key)).min() else { return Ok(None) };
        let (hash, key) = (first.0, first.1.to_vec());
        let mut last: Option<VersionPlace> = None;
        for records in &mut self.parts {
            let Some(entry) = records.entry().filter(|entry| entry.hash == hash && entry.record.key == key)
            else {
                continue;
            };
            let place = entry.record.value.and_then(VersionPlace::decode);
            last = last.into_iter().chain(place).max_by_key(|place| place.version);
            records.advance()?;
        }
        Ok(last.map(|place| (hash.placement, place)))
    }
}
