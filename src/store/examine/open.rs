//! Opens a store of which any part may be damaged.

use super::pass::{Examined, StoreView};
use super::{Advance, Belonging, Visit, read_if_readable};
use crate::coding::Reader;
use crate::coding::checksum;
use crate::damage::{Damage, DamagedPart, KeyRange};
use crate::device::{AlignedBuffer, Directory, File};
use crate::index::filter::CuckooFilter;
use crate::store::StoreFilter;
use crate::store::block::Block;
use crate::store::cuckoo::CUCKOO_TABLE_KIND;
use crate::store::file::{
    FOOTER_BYTES, HEADER_BYTES, StoreFile, StoreFooter, encode_header, expected_tag, found_tag,
};
use crate::store::ordered::{BlockForm, OrderedTable, StoreIndex, slots_per_block};
use crate::store::record::RecordLayout;
use crate::store::slots::CheckedSlots;
use crate::{Error, Result};

/// The expected properties of a store.
#[derive(Debug, Clone)]
pub struct StoreToOpen<'a> {
    /// The name of its file.
    pub name: &'a str,
    /// Its tag.
    pub tag: u64,
    /// Its kind if both ends of the file are unreadable.
    pub kind: u8,
    /// Its block size in that case, in bytes.
    pub block_bytes: u32,
    /// The common properties of its records.
    pub belonging: Belonging,
}

/// A store with the parts that could be read.
pub struct OpenedStore {
    file: StoreFile,
    belonging: Belonging,
    index: Option<StoreIndex>,
    filter: Option<StoreFilter>,
    table: Option<CuckooFilter>,
    end_is_known: bool,
    damage: Vec<Damage>,
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
        let file = directory.open(wanted.name, directory.access())?;
        file.drop_cache();
        let length = file.length()?;
        let mut damage = Vec::new();
        let (footer, end_is_known) = match find_footer(&file, length, wanted.tag, &mut damage)? {
            Some(footer) => (footer, true),
            None => (guess_footer(&file, length, wanted)?, false),
        };
        if footer.tag != wanted.tag {
            return Ok(Err(lost_file(&file, length, expected_tag(wanted.tag), found_tag(footer.tag))));
        }
        if end_is_known {
            check_header(&file, length, &footer, &mut damage)?;
        }
        let path = file.path().to_owned();
        let file = match StoreFile::with_footer(file, footer, length) {
            Ok(file) => file,
            Err(error) => {
                let lost = vec![KeyRange::ALL];
                return Ok(Err(Damage { file: path, lost, ..Damage::of(&error, DamagedPart::File, length) }));
            }
        };
        let (index, filter, table) = load(&file, &wanted.belonging.shape.layout)?;
        let belonging = wanted.belonging;
        Ok(Ok(OpenedStore { file, belonging, index, filter, table, end_is_known, damage }))
    }

    /// Returns the number of bytes that an examination reads.
    pub fn bytes(&self) -> u64 {
        self.file.length()
    }

    /// Returns the number of records that the store states, including deletes.
    pub fn records(&self) -> u64 {
        self.file.footer().records
    }

    /// Reads everything, and calls `visit` with every intact record.
    ///
    /// # Errors
    /// Errors of reading and of `visit`; [`Error::Interrupted`] if `advance` returns false.
    pub fn examine(&self, advance: &mut Advance<'_>, visit: &mut Visit<'_>) -> Result<Examined> {
        let view = StoreView {
            file: &self.file,
            belonging: self.belonging,
            index: self.index.as_ref(),
            filter: self.filter.as_ref(),
            table: self.table.as_ref(),
            end_is_known: self.end_is_known,
            needs_index: true,
            checks_end: true,
        };
        let mut examined = view.examine(advance, visit)?;
        examined.damage.splice(0..0, self.damage.iter().cloned());
        if let Some(footer) = examined.damage.first_mut().filter(|_| !self.end_is_known) {
            // The last block found is not necessarily the last one of the store.
            footer.lost.push(self.belonging.range(examined.behind, u64::MAX));
        }
        Ok(examined)
    }
}

impl Belonging {
    /// Returns the range of keys of the partition whose placements within it are from `first` to `last`.
    pub fn range(&self, first: u64, last: u64) -> KeyRange {
        KeyRange::within_partition(self.partition, self.shape.placing.partitions_log2, first, last)
    }
}

fn lost_file(file: &File, length: u64, expected: impl Into<String>, got: impl Into<String>) -> Damage {
    let damage = Damage::new(file.path(), DamagedPart::File, 0, length).because(expected, got);
    Damage { lost: vec![KeyRange::ALL], ..damage }
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
            Err(error @ Error::Version { .. }) if has_right_checksum(bytes) => return Err(error),
            Err(error) => error,
        };
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
    let (mut kind, mut block_bytes) = (wanted.kind, wanted.block_bytes);
    if length >= HEADER_BYTES as u64
        && let Some(header) = read_if_readable(file, 0, HEADER_BYTES, &mut buffer)?
        && let Some(stated) = stated_in(header, wanted.tag)
    {
        (kind, block_bytes) = stated;
    }
    let each = u64::from(block_bytes).max(1);
    let layout = &wanted.belonging.shape.layout;
    let slot_bytes = match kind {
        CUCKOO_TABLE_KIND => layout.slot_bytes(true),
        kind if kind == BlockForm::CheckedSlots as u8 => layout.slot_bytes(false),
        _ => None,
    };
    let checked = slot_bytes.map(|slot_bytes| CheckedSlots {
        store_tag: wanted.tag,
        slot_bytes,
        block_bytes: block_bytes as usize,
        slots: u64::MAX,
    });
    let mut records = 0;
    for number in 0..(length / each).saturating_sub(1) {
        let bytes = read_if_readable(file, (number + 1) * each, block_bytes as usize, &mut buffer)?;
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
    (header == encode_header(kind, tag, block_bytes)).then_some((kind, block_bytes))
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

/// Reads all of an open store, with its saved index and filter, and calls `visit` with every intact record. Holds index
/// and filter in memory meanwhile.
///
/// # Errors
/// Errors of reading and of `visit`; [`Error::Interrupted`] if `advance` returns false.
pub fn examine_store(
    file: &StoreFile,
    belonging: Belonging,
    advance: &mut Advance<'_>,
    visit: &mut Visit<'_>,
) -> Result<Examined> {
    let (index, filter, table) = load(file, &belonging.shape.layout)?;
    let (index, filter, table) = (index.as_ref(), filter.as_ref(), table.as_ref());
    let view = StoreView {
        file,
        belonging,
        index,
        filter,
        table,
        end_is_known: true,
        needs_index: true,
        checks_end: true,
    };
    view.examine(advance, visit)
}

/// Reads all of an open table that may lack an index, such as a dictionary, and passes every intact record to `visit`.
/// `checks_end` says whether sections and the copy of the footer are checked: they cannot be while another process may
/// replace the index.
///
/// # Errors
/// Those of reading, and of `visit`; [`Error::Interrupted`] if `advance` returned `false`.
pub fn examine_table(
    table: &OrderedTable,
    checks_end: bool,
    advance: &mut Advance<'_>,
    visit: &mut Visit<'_>,
) -> Result<Examined> {
    // A table may have been opened without its index.
    let loaded = match table.index() {
        None if checks_end => load(table.file(), &table.shape().layout)?.0,
        _ => None,
    };
    let view = StoreView {
        file: table.file(),
        belonging: Belonging { shape: *table.shape(), partition: 0 },
        index: table.index().or(loaded.as_ref()),
        filter: table.filter(),
        table: None,
        end_is_known: true,
        needs_index: false,
        checks_end,
    };
    view.examine(advance, visit)
}

/// The structures that locate records, as far as they are readable. Unreadable ones are reported by the examination.
type Finders = (Option<StoreIndex>, Option<StoreFilter>, Option<CuckooFilter>);

fn load(file: &StoreFile, layout: &RecordLayout) -> Result<Finders> {
    let readable = |error: Error| match error {
        Error::Corrupt { .. } | Error::Version { .. } => Ok(()),
        Error::Io { source, .. } if source.raw_os_error() == Some(super::EIO) => Ok(()),
        other => Err(other),
    };
    if file.footer().kind == CUCKOO_TABLE_KIND {
        let table = match file.read_section(&file.footer().filter, crate::device::Purpose::Recover) {
            Ok(bytes) => CuckooFilter::decode(&bytes).ok(),
            Err(error) => readable(error).map(|()| None)?,
        };
        return Ok((None, None, table));
    }
    let Ok(form) = BlockForm::of(file, layout) else { return Ok((None, None, None)) };
    let slots = slots_per_block(layout, form, file.footer().block_bytes);
    let index = match StoreIndex::load(file, form, slots) {
        Ok(index) => index.map(|(index, _)| index),
        Err(error) => readable(error).map(|()| None)?,
    };
    let filter = match StoreFilter::load(file) {
        Ok(filter) => filter,
        Err(error) => readable(error).map(|()| None)?,
    };
    Ok((index, filter, None))
}
