//! Examines the files of an index, for verify and repair.
//!
//! The logs of data have everything that an index has, so it can be built again from them. But only the index says that
//! the record of a deleted key is not live, once the tombstone was removed. So damage of an index loses no record, and
//! deleted or older values of the affected keys may come back.

use super::format::decode;
use super::saved::{SavedFile, SavedIndex};
use super::{LogIndex, LogIndexSettings};
use crate::damage::{Damage, DamagedPart, KeyRange};
use crate::device::{AlignedBuffer, Directory, Purpose};
use crate::store::examine::{
    Advance, ExaminedLog, LogToExamine, Unreadable, is_damage, is_missing, read_if_readable,
};
use crate::store::file::FOOTER_BYTES;
use crate::store::log::format::{LogFormat, SEGMENT_HEADER_BYTES};
use crate::{Error, Result};

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
}

/// The state of the files of an index.
#[derive(Debug, Default)]
pub struct ExaminedIndex {
    /// The damage, with the keys whose older or deleted values may come back.
    pub damage: Vec<Damage>,
    /// The bytes at the end of the redo log that were being written during a crash.
    pub torn_bytes: u64,
    /// The end of the redo log.
    pub redo_end: u64,
}

impl IndexToExamine<'_> {
    /// Reads the saved index and the redo log, and changes nothing.
    ///
    /// # Errors
    /// Errors of reading, except for data that the device has lost; [`Error::Interrupted`] if `advance` returned
    /// `false`.
    pub fn examine(&self, advance: &mut Advance<'_>) -> Result<ExaminedIndex> {
        let mut damage = match &self.saved {
            Some(saved) => examine_saved(self.directory, self.settings, saved, advance)?,
            None => Vec::new(),
        };
        let from = self.saved.map_or(0, |saved| saved.redo_from);
        let log = LogToExamine { format: self.format, from, durable: from, begins_durably: false };
        let redo = log.examine(self.directory, Unreadable::IsDamage, advance)?;
        let mut refused = None;
        log.records(self.directory, redo.end, advance, &mut |position, record| {
            let value = record.value.unwrap_or_default();
            if let Err(error) = decode(&self.settings, value, &mut |_, _, _, _| ()) {
                refused.get_or_insert((position, error));
            }
            Ok(())
        })?;
        if let Some((position, error)) = refused {
            let bases = redo.segments.iter().map(|segment| segment.base);
            let base = bases.filter(|&base| base <= position).max().unwrap_or(0);
            let path = self.directory.path_of(&self.format.segment_name(base));
            let offset = position - base + SEGMENT_HEADER_BYTES as u64;
            let found = Damage::new(path, DamagedPart::Records, offset, 0);
            damage.push(of_keys(KeyRange::ALL, found.because(error.expected, error.got)));
        }
        let (torn_bytes, redo_end) = (redo.torn_bytes, redo.end);
        damage.extend(of_redo(redo));
        Ok(ExaminedIndex { damage, torn_bytes, redo_end })
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
            Some(saved) => examine_saved(&self.directory, self.settings, saved, advance)?,
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

/// Reads all pages of a saved index.
fn examine_saved(
    directory: &Directory,
    settings: LogIndexSettings,
    saved: &SavedIndex,
    advance: &mut Advance<'_>,
) -> Result<Vec<Damage>> {
    let file = match SavedFile::open(directory, settings, saved) {
        Ok(file) => file,
        Err(error) if is_damage(&error) || is_missing(&error) => {
            let path = directory.path_of(&saved.file_name());
            let found = Damage::of(&error, DamagedPart::File, 0);
            return Ok(vec![of_keys(KeyRange::ALL, Damage { file: path, ..found })]);
        }
        Err(error) => return Err(error),
    };
    let mut damage = Vec::new();
    let mut buffer = AlignedBuffer::default();
    for (range, place) in file.places() {
        let bytes = read_if_readable(file.device_file(), place.file_offset(), place.length, &mut buffer)?;
        let page = match bytes {
            Some(bytes) => file.page(&place, bytes).map(drop),
            None => {
                let (expected, got) = ("a page that can be read", "an error of the device");
                Err(file.device_file().corrupt(place.file_offset(), expected, got))
            }
        };
        if let Err(error) = page {
            damage.push(of_keys(range, Damage::of(&error, DamagedPart::Index, place.length as u64)));
        }
        if !advance(place.length as u64) {
            return Err(Error::Interrupted);
        }
    }
    match file.check_copy(Purpose::Maintain) {
        Err(error) if is_damage(&error) => {
            damage.push(Damage::of(&error, DamagedPart::StoreFooter, FOOTER_BYTES as u64));
        }
        checked => checked?,
    }
    Ok(damage)
}
