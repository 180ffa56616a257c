//! A saved index on flash: its directory, and its pages. `docs/formats/saved_index.md` has the diagrams.

use super::flash::{FlashPages, PagePlace};
use super::operations::{Lsn, SlotEntries};
use super::{LogIndexSettings, Unit};
use crate::damage::KeyRange;
use crate::error::{CorruptFile, Error, Result};
use crate::names::FileName;
use crate::store::file::StoreFile;
use siltstone_device::{Directory, File, Purpose};
use siltstone_index::coding::{DecodeError, Decoder};
use siltstone_index::hash_pages::{HashPage, HashPages};
use std::sync::Arc;

/// The kind of the store file, and of its index section.
pub(super) const STORE_KIND: u8 = 6;
pub(super) const SECTION_KIND: u8 = 5;
/// The bytes of a block, and of the header.
pub const BLOCK_BYTES: u32 = 4096;
/// The bytes of the directory for each shard, and for each page.
pub const SHARD_BYTES: usize = 24;
pub const PLACE_BYTES: usize = 8;
/// The most bytes of a page, as many as a value may have: it is read at once. Pages of uniform hashes have some
/// thousand.
const PAGE_BYTES_MAX: u32 = 256 << 20;
/// The bytes of a read of all pages.
const PIECE_BYTES: usize = 1 << 20;

const STRUCTURE: &str = "directory of a saved index";
const MAGIC: [u8; 4] = *b"SSSI";
const VERSION: u16 = 1;

/// A saved index, as a manifest names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedIndex {
    /// The number of the file.
    pub number: u64,
    /// The tag of the file.
    pub tag: u64,
    /// The position in the redo log from which on operations are applied to it. Everything before it was synced.
    pub redo_from: u64,
}

impl SavedIndex {
    /// Returns the name of the file.
    pub fn file_name(&self) -> String {
        FileName::SavedIndex(self.number).to_string()
    }
}

/// Returns the begin of the directory.
pub(super) fn encode_header(settings: &LogIndexSettings) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend([settings.shard_hash_bits() as u8, settings.shards_log2 as u8]);
    out
}

/// Appends the pages of a shard to the directory.
pub(super) fn encode_shard(lsn: Lsn, entries: u64, places: &[PagePlace], out: &mut Vec<u8>) {
    out.extend(lsn.record.to_le_bytes());
    out.extend(lsn.runs.to_le_bytes());
    out.extend((places.len() as u32).to_le_bytes());
    out.extend(entries.to_le_bytes());
    for place in places {
        out.extend(place.length.to_le_bytes());
        out.extend(place.crc.to_le_bytes());
    }
}

/// Appends the numbers of entries of all slots to the directory, which ends with them.
pub(super) fn encode_slots(slots: &SlotEntries, out: &mut Vec<u8>) {
    out.extend((slots.counts().count() as u32).to_le_bytes());
    for (slot, entries) in slots.counts() {
        out.extend(slot.to_le_bytes());
        out.extend(entries.to_le_bytes());
    }
}

/// The pages of a shard, and its state relative to the redo log.
pub(super) struct SavedShard {
    pub lsn: Lsn,
    pub pages: Arc<FlashPages>,
}

/// A saved index that is open for reading.
pub(super) struct SavedFile {
    file: StoreFile,
    settings: LogIndexSettings,
    pub shards: Vec<SavedShard>,
    pub slots: SlotEntries,
}

impl SavedFile {
    /// Opens the file and reads its directory.
    pub fn open(directory: &Directory, settings: LogIndexSettings, saved: &SavedIndex) -> Result<SavedFile> {
        let name = saved.file_name();
        let file = match StoreFile::open(directory, &name, saved.tag) {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::Corrupt {
                    file: directory.path_of(&name),
                    offset: 0,
                    expected: "the saved index that the manifest names".into(),
                    got: "no such file".into(),
                });
            }
            opened => opened?,
        };
        // A handle that shards keep: lookups need it after this is dropped.
        let pages_file = Arc::new(directory.open(&name, directory.access())?);
        let footer = file.footer();
        let (kind, section) = (footer.kind, footer.index.kind);
        if (kind, section) != (STORE_KIND, SECTION_KIND) {
            let got = format!("a store of kind {kind} with an index of kind {section}");
            return Err(file.file().corrupt(0, "a saved index", got));
        }
        let bytes = file.read_section(&footer.index, Purpose::Recover)?;
        // Cannot overflow: the open of the store file has checked that the blocks fit into it.
        let end = (footer.blocks + 1) * u64::from(footer.block_bytes);
        let at = StoreFile::section_offset(&footer.index);
        let (shards, slots) = decode_directory(&settings, end, &bytes)
            .map_err(|error| file.file().corrupt(at + error.offset as u64, error.expected, error.got))?;
        let shard = |(lsn, entries, places)| {
            let hash_bits = settings.shard_hash_bits();
            let pages = FlashPages::new(&pages_file, saved.tag, hash_bits, entries, places);
            SavedShard { lsn, pages: Arc::new(pages) }
        };
        let shards = shards.into_iter().map(shard).collect();
        Ok(SavedFile { file, settings, shards, slots })
    }

    /// Returns the length of the file, in bytes.
    pub fn length(&self) -> u64 {
        self.file.length()
    }

    /// Returns the shape of the index.
    pub fn settings(&self) -> &LogIndexSettings {
        &self.settings
    }

    /// Reads all pages of a shard.
    pub fn load(&self, shard: usize) -> Result<HashPages> {
        let SavedShard { pages, .. } = &self.shards[shard];
        let mut reader = pages.read_from(0, Purpose::Recover, PIECE_BYTES);
        let mut loaded = Vec::with_capacity(pages.places().len());
        while let Some((_, page)) = reader.next_page()? {
            loaded.push(Some(page));
        }
        self.shard_of_pages(pages, loaded)
    }

    /// Makes the shards of all pages, in the order of [`places`](SavedFile::places), each with its state. Pages that
    /// are `None` are left without entries.
    pub fn assemble(&self, pages: Vec<Option<HashPage>>) -> Result<Vec<(HashPages, Lsn)>> {
        let mut all = pages.into_iter();
        let shards = self.shards.iter().map(|SavedShard { lsn, pages }| {
            let own = all.by_ref().take(pages.places().len()).collect();
            Ok((self.shard_of_pages(pages, own)?, *lsn))
        });
        shards.collect()
    }

    /// Makes a shard of its pages.
    fn shard_of_pages(&self, places: &FlashPages, pages: Vec<Option<HashPage>>) -> Result<HashPages> {
        let is_whole = pages.iter().all(Option::is_some);
        let shard = HashPages::from_intact_pages(self.settings.shard_hash_bits(), pages)?;
        // Pages that are left out have their damage already, and the number cannot agree.
        if !is_whole || shard.len() == places.len() {
            return Ok(shard);
        }
        let at = places.places().first().map_or(0, |place| place.offset);
        let expected = format!("the {} entries of a shard", places.len());
        Err(self.device_file().corrupt(at, expected, shard.len().to_string()))
    }

    /// Returns the file.
    pub fn device_file(&self) -> &File {
        self.file.file()
    }

    /// Returns an error if the copy of the footer differs.
    pub fn check_copy(&self, purpose: Purpose) -> Result<()> {
        self.file.check_copy(purpose)
    }

    /// Returns the pages of each shard, by their numbers, each with the hashes that belong to it.
    pub fn places(&self) -> impl Iterator<Item = (KeyRange, &Arc<FlashPages>, usize)> {
        let settings = self.settings;
        self.shards.iter().enumerate().flat_map(move |(shard, SavedShard { pages, .. })| {
            (0..pages.places().len()).map(move |page| {
                let first = settings.whole(shard, pages.division().first_hash(page));
                // The bits that the index does not keep: keys with any of them are affected.
                let rest = (1u64 << (64 - settings.hash_bits)) - 1;
                let last = settings.whole(shard, pages.division().last_hash(page)) | rest;
                (KeyRange { first, last }, pages, page)
            })
        })
    }
}

/// A shard of a directory: its state, the number of its entries, and its pages.
type ShardPlaces = (Lsn, u64, Vec<PagePlace>);

/// Decodes the directory of a file whose blocks end at `end`.
fn decode_directory(
    settings: &LogIndexSettings,
    end: u64,
    bytes: &[u8],
) -> std::result::Result<(Vec<ShardPlaces>, SlotEntries), DecodeError> {
    let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
    let found: [u8; 2] = reader.array("bits of hashes and shards")?;
    let wanted = [settings.shard_hash_bits() as u8, settings.shards_log2 as u8];
    reader.check(2, found == wanted, || format!("{wanted:?} bits"), || format!("{found:?}"))?;
    let pages_max = settings.pages_max();
    let mut offset = u64::from(BLOCK_BYTES);
    let mut shards = Vec::with_capacity(settings.shards());
    for _ in 0..settings.shards() {
        let lsn = Lsn { record: reader.u64("the number of a flush")?, runs: reader.u32("a number of runs")? };
        let count = reader.u32("a number of pages")?;
        // The hashes are divided among as many pages. A damaged number must not become a long allocation.
        let is_possible = count > 0 && u64::from(count) <= pages_max;
        reader.check(4, is_possible, || format!("1 to {pages_max} pages"), || count.to_string())?;
        let entries = reader.u64("a number of entries")?;
        // A save divides as many entries into pages. No entry takes less than a bit.
        let is_possible = entries <= end * 8;
        reader.check(8, is_possible, || format!("entries of {end} bytes"), || entries.to_string())?;
        let mut places = Vec::new();
        for [a, b, c, d, crc @ ..] in reader.arrays::<8>(count.into(), "pages")? {
            let length = u32::from_le_bytes([*a, *b, *c, *d]);
            let limit = || format!("a page of at most {PAGE_BYTES_MAX} bytes");
            reader.check(0, length <= PAGE_BYTES_MAX, limit, || length.to_string())?;
            // No offset is stored, so pages cannot overlap.
            places.push(PagePlace { offset, length, crc: u32::from_le_bytes(*crc) });
            offset += u64::from(length);
        }
        offset = offset.next_multiple_of(BLOCK_BYTES.into());
        shards.push((lsn, entries, places));
    }
    // With this no page is beyond the blocks, as each begins where the one before ends.
    reader.check(0, offset == end, || format!("pages up to {end}"), || offset.to_string())?;
    let count = reader.u32("a number of slots")?;
    let mut slots = SlotEntries::new(settings.slot_units);
    let mut next = 0;
    for _ in 0..count {
        let (slot, entries) = (reader.u64("a slot")?, reader.u64("a number of entries")?);
        // Ascending, so that none counts twice.
        let is_possible = slot >= next && slot < Unit::MAX && entries <= end * 8;
        reader.check(16, is_possible, || format!("entries of a slot from {next} on"), || slot.to_string())?;
        slots.add(slot, entries as i64);
        next = slot + 1;
    }
    reader.end()?;
    Ok((shards, slots))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_too_long_to_be_read_at_once_is_refused() {
        let settings = LogIndexSettings { hash_bits: 30, shards_log2: 0, slot_units: 1 };
        let decoded = |length: u32| {
            let mut bytes = encode_header(&settings);
            encode_shard(Lsn::default(), 1, &[PagePlace { offset: 0, length, crc: 0 }], &mut bytes);
            encode_slots(&SlotEntries::new(1), &mut bytes);
            let end = u64::from(BLOCK_BYTES) + u64::from(length).next_multiple_of(BLOCK_BYTES.into());
            decode_directory(&settings, end, &bytes)
        };
        assert!(decoded(PAGE_BYTES_MAX).is_ok());
        assert!([PAGE_BYTES_MAX + 1, u32::MAX].iter().all(|length| decoded(*length).is_err()));
    }
}
