//! Opens a store that may be damaged in any part.

use super::{RecordScope, is_damage, read_if_readable};
use crate::damage::{Damage, DamagedPart, KeyRange};
use crate::error::{Error, Result};
use crate::store::StoreFilter;
use crate::store::block::{Block, is_block_size};
use crate::store::file::{
    FOOTER_BYTES, HEADER_BYTES, Section, StoreFile, StoreFooter, encode_header, expected_tag, found_tag,
};
use crate::store::slots::CheckedSlots;
use crate::store::table::{BlockForm, OrderedTable, StoreIndex, slots_per_block};
use siltstone_device::{AlignedBuffer, Directory, File};
use siltstone_index::coding::Reader;
use siltstone_index::coding::checksum;
use std::sync::Arc;

/// The expected properties of a store.
#[derive(Debug, Clone)]
pub struct StoreToOpen<'a> {
    /// The name of its file.
    pub name: &'a str,
    /// Its tag.
    pub tag: u64,
    /// The form of its blocks if both ends of the file are unreadable.
    pub form: BlockForm,
    /// Its block size in that case, in bytes.
    pub block_bytes: u32,
    /// The common properties of its records.
    pub scope: RecordScope,
}

/// A store with the parts that could be read.
pub struct OpenedStore {
    pub(super) file: Arc<StoreFile>,
    pub(super) scope: RecordScope,
    pub(super) index: Option<Arc<StoreIndex>>,
    pub(super) filter: Option<Arc<StoreFilter>>,
    /// Whether the footer is known, and with it the number of records and blocks.
    pub(super) end_is_known: bool,
    /// Whether the copy of the footer is checked.
    pub(super) checks_end: bool,
    /// The damage of everything except blocks.
    pub(super) damage: Vec<Damage>,
}

impl OpenedStore {
    /// Opens a store. Returns the damage if so much is damaged that nothing can be read.
    ///
    /// # Errors
    /// Read errors, except for bytes that the device has lost; [`Error::Version`] for an intact file of another
    /// version.
    pub fn open(
        directory: &Directory,
        wanted: &StoreToOpen<'_>,
    ) -> Result<std::result::Result<OpenedStore, Damage>> {
        let scope = wanted.scope;
        let lost = |damage: Damage| Ok(Err(Damage { lost: vec![scope.range(0, u64::MAX)], ..damage }));
        let file = match directory.open(wanted.name, directory.access()) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => {
                let damage = Damage::new(directory.path_of(wanted.name), DamagedPart::File, 0, 0);
                return lost(
                    damage.because("the file of a live store named by the manifest", "no such file"),
                );
            }
            Err(error) => return Err(error.into()),
        };
        // The page cache may hold bytes that never reached the device.
        file.drop_cache();
        let length = file.length()?;
        let mut damage = Vec::new();
        let (footer, end_is_known) = match find_footer(&file, length, wanted.tag, &mut damage)? {
            Some(footer) => (footer, true),
            None => (guess_footer(&file, length, wanted)?, false),
        };
        // However intact the file is, its records are not those of this store.
        if footer.tag != wanted.tag {
            let damage = Damage::new(file.path(), DamagedPart::File, 0, length);
            return lost(damage.because(expected_tag(wanted.tag), found_tag(footer.tag)));
        }
        // Else the footer was guessed, with the help of the header if that is intact.
        if end_is_known {
            check_header(&file, length, &footer, &mut damage)?;
        }
        let path = file.path().to_owned();
        let file = match StoreFile::with_footer(file, footer, length) {
            Ok(file) => Arc::new(file),
            Err(error) => {
                return lost(Damage { file: path, ..Damage::of(&error, DamagedPart::File, length) });
            }
        };
        let (index, filter) = (None, None);
        let mut store = OpenedStore { file, scope, index, filter, end_is_known, checks_end: true, damage };
        store.load_sections()?;
        Ok(Ok(store))
    }

    /// Returns an open store with its saved index and filter, which it reads and holds in memory. If another process
    /// may replace the index, the store is examined with those that are in memory, and its end is not checked: then
    /// `checks_end` is false.
    ///
    /// # Errors
    /// Errors of reading, except for bytes that the device has lost.
    pub fn of(table: &OrderedTable, partition: u64, checks_end: bool) -> Result<OpenedStore> {
        let mut store = OpenedStore {
            file: table.file().clone(),
            scope: RecordScope { shape: *table.shape(), partition },
            index: table.index().cloned(),
            filter: table.filter().cloned(),
            end_is_known: true,
            checks_end,
            damage: Vec::new(),
        };
        if checks_end {
            store.load_sections()?;
        }
        Ok(store)
    }

    /// Reads index and filter, and records those that are damaged.
    fn load_sections(&mut self) -> Result<()> {
        let layout = &self.scope.shape.layout;
        // Whatever contradicts the form is an error when the store is opened for reading.
        let Ok(form) = BlockForm::of(&self.file, layout) else { return Ok(()) };
        let footer = self.file.footer();
        let slots = slots_per_block(layout, form, footer.block_bytes);
        let (section, part) = StoreIndex::section_of(footer);
        let index = StoreIndex::load(&self.file, form, slots);
        self.index = intact(index, part, section, &mut self.damage)?.map(Arc::new);
        if StoreIndex::has_filter(footer) {
            let filter = StoreFilter::load(&self.file);
            self.filter =
                intact(filter, DamagedPart::Filter, &footer.filter, &mut self.damage)?.map(Arc::new);
        }
        Ok(())
    }

    /// Returns the number of bytes that an examination reads.
    pub fn bytes(&self) -> u64 {
        self.file.length()
    }
}

/// Returns what was read from a section. Records damage, and returns `None` then.
fn intact<T>(
    loaded: Result<Option<T>>,
    part: DamagedPart,
    section: &Section,
    damage: &mut Vec<Damage>,
) -> Result<Option<T>> {
    loaded.or_else(|error| {
        // Such as too little memory: it says nothing of the bytes, and a repair must not drop the section.
        if !is_damage(&error) {
            return Err(error);
        }
        let (offset, length) = (StoreFile::section_offset(section), section.length());
        damage.push(Damage { offset, ..Damage::of(&error, part, length) });
        Ok(None)
    })
}

impl RecordScope {
    /// Returns the range of keys of the partition whose placements within it are from `first` to `last`.
    pub fn range(&self, first: u64, last: u64) -> KeyRange {
        KeyRange::within_partition(self.partition, self.shape.hasher.partitions_log2, first, last)
    }
}

fn has_right_checksum(bytes: &[u8]) -> bool {
    bytes
        .split_last_chunk::<4>()
        .is_some_and(|(body, crc)| checksum::crc32c(body) == u32::from_le_bytes(*crc))
}

/// Returns the footer, or its copy if only that is intact.
fn find_footer(file: &File, length: u64, tag: u64, damage: &mut Vec<Damage>) -> Result<Option<StoreFooter>> {
    let mut buffer = AlignedBuffer::default();
    for copies in 1..=2 {
        let Some(at) = length.checked_sub(copies * FOOTER_BYTES as u64) else { break };
        let bytes = read_if_readable(file, at, FOOTER_BYTES, &mut buffer)?.unwrap_or_default();
        let error = match StoreFooter::decode(file, at, bytes) {
            Ok(footer) => return Ok(Some(footer)),
            // A later version, and no damage: a repair must leave the store as it is.
            Err(error @ Error::Version { .. }) if has_right_checksum(bytes) => return Err(error),
            Err(error) => error,
        };
        // Damage of the copy is found at the end of the pass.
        if copies == 1 {
            let found = Damage::of(&error, DamagedPart::StoreFooter, FOOTER_BYTES as u64);
            damage.push(Damage { offset: at, ..found });
        }
    }
    if damage.is_empty() {
        let found = Damage::new(file.path(), DamagedPart::StoreFooter, 0, length);
        damage.push(
            found.because(format!("the footer of the store with tag {tag:016x}"), format!("{length} bytes")),
        );
    }
    Ok(None)
}

/// Returns a footer that spans all intact blocks.
fn guess_footer(file: &File, length: u64, wanted: &StoreToOpen<'_>) -> Result<StoreFooter> {
    let (mut buffer, mut blocks) = (AlignedBuffer::default(), 0);
    let (mut kind, mut block_bytes) = (wanted.form as u8, wanted.block_bytes);
    if length >= HEADER_BYTES as u64
        && let Some(header) = read_if_readable(file, 0, HEADER_BYTES, &mut buffer)?
        && let Some(stated) = stated_in(header, wanted.tag)
    {
        (kind, block_bytes) = stated;
    }
    let each = u64::from(block_bytes).max(1);
    let form = BlockForm::from_kind(kind).filter(|form| form.is_checked());
    let checked = form.and_then(|form| form.slot_bytes(&wanted.scope.shape.layout)).map(|slot_bytes| {
        let block_bytes = block_bytes as usize;
        // The number of slots is not known, so none is beyond the last.
        CheckedSlots { store_tag: wanted.tag, slot_bytes, block_bytes, slots: u64::MAX }
    });
    let mut records = 0;
    for number in 0..(length / each).saturating_sub(1) {
        let bytes = read_if_readable(file, (number + 1) * each, block_bytes as usize, &mut buffer)?;
        // To the end of the file: intact blocks may follow any number of lost ones.
        let Some(bytes) = bytes else { continue };
        match &checked {
            Some(checked) => {
                let least = checked.least_in_block(file, number, bytes);
                if least > 0 {
                    (blocks, records) = (number + 1, number * checked.per_block() + least);
                }
            }
            None if Block::open(file, wanted.tag, number, bytes, true).is_ok() => blocks = number + 1,
            None => {}
        }
    }
    let mut footer = StoreFooter::guessed(kind, wanted.tag, block_bytes, blocks);
    footer.records = records;
    Ok(footer)
}

/// Returns the kind of a store and its block size from the header, if that is intact.
fn stated_in(header: &[u8], tag: u64) -> Option<(u8, u32)> {
    let mut fields = Reader::new(header);
    fields.bytes(12)?;
    let kind = fields.u8()?;
    fields.bytes(3)?;
    let block_bytes = fields.u32()?;
    // Equal to its own encoding, so checksum and tag are right. A forged size must not be divided by.
    let is_stated = header == encode_header(kind, tag, block_bytes) && is_block_size(block_bytes);
    is_stated.then_some((kind, block_bytes))
}

fn check_header(file: &File, length: u64, footer: &StoreFooter, damage: &mut Vec<Damage>) -> Result<()> {
    let mut buffer = AlignedBuffer::default();
    let wanted = HEADER_BYTES.min(length as usize);
    let header = read_if_readable(file, 0, wanted, &mut buffer)?.unwrap_or_default();
    if header != encode_header(footer.kind, footer.tag, footer.block_bytes) {
        let found = Damage::new(file.path(), DamagedPart::StoreHeader, 0, HEADER_BYTES as u64);
        damage.push(found.because("a header that agrees with the footer", "other bytes"));
    }
    Ok(())
}
