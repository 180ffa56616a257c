//! Examines the files of an index, for verify and repair.
//!
//! The logs of data have everything that an index has, so it can be built again from them. But only the index says that
//! the record of a deleted key is not live, once the tombstone was removed. So damage of an index loses no record, and
//! deleted or older values of the affected keys may come back.
//!
//! 1. All pages of the saved index are read. The hashes of damaged ones are unknown.
//! 2. The redo log is examined as by an open. If it is damaged, all hashes are unknown: the lost operations may have
//!    changed any entry.
//! 3. Otherwise its operations are applied, except those on unknown hashes, whose entries may be missing.

use super::format::{Covered, RedoHeader};
use super::known::KnownEntries;
use super::opening::{OpenedShard, Refused, Replay, empty};
use super::saved::write_whole;
use super::saved_file::{SavedFile, SavedIndex};
use super::{LogIndex, LogIndexSettings};
use crate::damage::{Damage, DamagedPart, KeyRange};
use crate::error::{CorruptFile, Error, Result};
use crate::store::examine::{Advance, ExaminedLog, LogToExamine, Unreadable, is_damage, read_if_readable};
use crate::store::file::FOOTER_BYTES;
use crate::store::log::Log;
use crate::store::log_format::{LogFormat, SEGMENT_HEADER_BYTES};
use crate::store::record::RecordView;
use siltstone_device::{AlignedBuffer, Directory, Purpose};
use siltstone_index::hash_pages::HashPage;

/// The files of an index that is not open.
pub struct IndexToExamine<'a> {
    /// The directory with the files.
    pub directory: &'a Directory,
    /// The shape of the index.
    pub settings: LogIndexSettings,
    /// The parameters of the bytes of the redo log.
    pub format: LogFormat,
    /// The saved index that the manifest names.
    pub saved: Option<SavedIndex>,
    /// The redo log is known to be synced up to this position.
    pub redo_synced: u64,
}

/// The state of the files of an index.
pub struct ExaminedIndex {
    /// The damage, with the keys whose older or deleted values may come back.
    pub damage: Vec<Damage>,
    /// The entries that are known, and those that follow from the redo log.
    pub index: KnownEntries,
    /// The hashes whose entries are not known because of the damage.
    pub unknown: Vec<KeyRange>,
    /// The index has all records of the logs of data before these positions, and nothing of those after them. All 0 if
    /// no entries are known.
    pub covered: Covered,
    /// The bytes at the end of the redo log that were being written during a crash.
    pub torn_bytes: u64,
    /// The end of the redo log.
    pub redo_end: u64,
    /// A position after everything that any file of the redo log could contain.
    pub files_end: u64,
}

impl ExaminedIndex {
    /// Takes all entries for unknown.
    pub fn forget(&mut self) {
        self.unknown = vec![KeyRange::ALL];
        self.covered = Covered::default();
        self.index.clear();
    }
}

impl IndexToExamine<'_> {
    /// Reads the saved index and the redo log into memory, and changes nothing.
    ///
    /// # Errors
    /// Errors of reading, except for data that the device has lost; [`Error::Interrupted`] if `advance` returned
    /// `false`.
    pub fn examine(&self, advance: &mut Advance<'_>) -> Result<ExaminedIndex> {
        let (mut damage, mut shards) = (Vec::new(), Some(empty(self.settings)?));
        if let Some(saved) = &self.saved {
            let mut pages = Vec::new();
            let file;
            (file, damage) =
                examine_saved(self.directory, self.settings, saved, advance, &mut |page| pages.push(page))?;
            shards = match file.map(|file| file.assemble(pages)) {
                Some(Ok(shards)) => {
                    // Damaged pages have no entries here, and no operation on their hashes, `unknown`, is applied.
                    let opened = |(pages, lsn)| OpenedShard::in_memory(pages, lsn, &self.settings);
                    Some(shards.into_iter().map(opened).collect())
                }
                Some(Err(error)) => {
                    damage.push(of_keys(KeyRange::ALL, Damage::of(&error, DamagedPart::Index, 0)));
                    None
                }
                None => None,
            };
        }
        let from = self.saved.map_or(0, |saved| saved.redo_from);
        // The redo before a saved index was synced before the manifest named it.
        let durable = self.redo_synced.max(from);
        // `from` may be within a segment: a flush may come between the new segment and the begin of a save.
        let log = LogToExamine { format: self.format, from, durable, begins_durably: false };
        let redo = log.examine(self.directory, Unreadable::IsDamage, advance)?;
        let unknown = KeyRange::united(damage.iter().flat_map(|damage| damage.lost.clone()).collect());
        let shards = shards.map_or_else(|| empty(self.settings), Ok)?;
        let mut replay = Replay::new(self.settings, shards, unknown.clone());
        // Operations after a gap may be on entries that are lost in it, so none is applied.
        if redo.damage.is_empty() && unknown != [KeyRange::ALL] {
            let refused = self.replay(&log, &redo, &mut replay, advance)?;
            damage.extend(refused);
        }
        let (torn_bytes, redo_end, files_end) = (redo.torn_bytes, redo.end, redo.files_end);
        damage.extend(of_redo(redo));
        let unknown = KeyRange::united(damage.iter().flat_map(|damage| damage.lost.clone()).collect());
        // Entries that remain may have been removed or replaced by what is lost, so none is kept.
        let is_lost = unknown == [KeyRange::ALL];
        let (covered, shards) = if is_lost {
            (Covered::default(), empty(self.settings)?)
        } else {
            (replay.covered(), replay.shards)
        };
        // None is left out: all shards were made in memory.
        let shards = shards.into_iter().filter_map(|shard| shard.entries.into_memory()).collect();
        let index = KnownEntries::new(self.settings, shards);
        Ok(ExaminedIndex { damage, index, unknown, covered, torn_bytes, redo_end, files_end })
    }

    /// Applies the operations of an intact redo log. Returns the damage if its records do not follow from the saved
    /// index.
    fn replay(
        &self,
        log: &LogToExamine,
        redo: &ExaminedLog,
        replay: &mut Replay,
        advance: &mut Advance<'_>,
    ) -> Result<Option<Damage>> {
        let mut refused = None;
        log.records(self.directory, redo.end, advance, &mut |position, record| {
            // Later records follow from the refused one, so none of them is applied.
            if refused.is_none() {
                refused = replay.record(position, record.value.unwrap_or_default()).err();
            }
            Ok(())
        })?;
        // The last operations are applied only by `finish`, which may refuse them.
        let refused = refused.map_or_else(|| replay.finish(redo.end).err(), Some);
        Ok(refused.map(|Refused { position, expected, got }| {
            let bases = redo.segments.iter().map(|segment| segment.base);
            let base = bases.filter(|&base| base <= position).max().unwrap_or(0);
            let path = self.directory.path_of(&self.format.segment_name(base));
            let offset = position.saturating_sub(base) + SEGMENT_HEADER_BYTES as u64;
            let found = Damage::new(path, DamagedPart::Records, offset, 0);
            of_keys(KeyRange::ALL, found.because(expected, got))
        }))
    }

    /// Returns the damage of an index whose bytes are intact, but whose entries are in part `got`.
    pub fn inconsistent(&self, got: &str) -> Damage {
        let name = self.saved.map_or(self.format.segment_name(0), |saved| saved.file_name());
        let damage = Damage::new(self.directory.path_of(&name), DamagedPart::Index, 0, 0);
        damage.because("the units of records of the logs", got)
    }

    /// Writes the files of an index with these entries, which covers the logs of data up to `covered`, and syncs them:
    /// the saved index `saved`, and a redo log that begins at its `redo_from`. Returns the end of that log. They are
    /// durable once the directory is synced.
    pub fn write(&self, saved: SavedIndex, index: &KnownEntries, covered: Covered) -> Result<u64> {
        // A flush without operations: it states what the index covers.
        let redo = RedoHeader { number: 0, covered }.records(&self.settings, Vec::new());
        let key = 0u64.to_le_bytes();
        let records = redo.iter().map(|value| RecordView { key: &key, value: Some(value), expires_at_ms: 0 });
        let end = Log::begin_with(self.directory, &self.format, saved.redo_from, records)?;
        // In any order: neither file counts before a manifest names the saved index.
        write_whole(self.directory, &self.settings, saved, index.shards())?;
        Ok(end)
    }
}

impl LogIndex {
    /// Reads the files of an open index: the saved index that the manifest names, and the redo log. The file of the
    /// saved index must not be removed before it is opened, which is done first.
    ///
    /// # Errors
    /// See [`IndexToExamine::examine`].
    pub fn examine(&self, saved: Option<SavedIndex>, advance: &mut Advance<'_>) -> Result<Vec<Damage>> {
        let mut damage = match &saved {
            Some(saved) => examine_saved(&self.directory, self.settings, saved, advance, &mut |_| ())?.1,
            None => Vec::new(),
        };
        let from = saved.map_or(0, |saved| saved.redo_from);
        damage.extend(of_redo(self.redo.log.examine(from, advance)?));
        Ok(damage)
    }
}

fn of_redo(redo: ExaminedLog) -> impl Iterator<Item = Damage> {
    redo.damage.into_iter().map(|(_, damage)| of_keys(KeyRange::ALL, damage))
}

fn of_keys(range: KeyRange, damage: Damage) -> Damage {
    Damage { lost: vec![range], may_be_older: true, ..damage }
}

/// Reads all pages of a saved index, and passes each to `visit`: `None` if it is damaged. Returns the file, unless it
/// cannot be opened.
fn examine_saved(
    directory: &Directory,
    settings: LogIndexSettings,
    saved: &SavedIndex,
    advance: &mut Advance<'_>,
    visit: &mut dyn FnMut(Option<HashPage>),
) -> Result<(Option<SavedFile>, Vec<Damage>)> {
    let file = match SavedFile::open(directory, settings, saved) {
        Ok(file) => file,
        Err(error) if is_damage(&error) => {
            let path = directory.path_of(&saved.file_name());
            let found = Damage::of(&error, DamagedPart::File, 0);
            return Ok((None, vec![of_keys(KeyRange::ALL, Damage { file: path, ..found })]));
        }
        Err(error) => return Err(error),
    };
    let mut damage = Vec::new();
    let mut buffer = AlignedBuffer::default();
    for (range, pages, number) in file.places() {
        let place = pages.places()[number];
        let length = u64::from(place.length);
        let bytes = read_if_readable(file.device_file(), place.offset, length as usize, &mut buffer)?;
        let page = match bytes {
            Some(bytes) => pages.decode(number, bytes),
            None => {
                let (expected, got) = ("a page that can be read", "an error of the device");
                Err(file.device_file().corrupt(place.offset, expected, got))
            }
        };
        match page {
            Ok(page) => visit(Some(page)),
            Err(error) => {
                damage.push(of_keys(range, Damage::of(&error, DamagedPart::Index, length)));
                // In its place: the other pages keep their numbers.
                visit(None);
            }
        }
        if !advance(length) {
            return Err(Error::Interrupted);
        }
    }
    match file.check_copy(Purpose::Maintain) {
        Err(error) if is_damage(&error) => {
            // Without keys: as long as the footer is intact, nothing depends on its copy.
            damage.push(Damage::of(&error, DamagedPart::StoreFooter, FOOTER_BYTES as u64));
        }
        checked => checked?,
    }
    Ok((Some(file), damage))
}
