//! The saved index: a store file with the pages of all shards, one shard after another. `docs/formats/saved_index.md`
//! has the diagrams.
//!
//! ```text
//! shard 0   captured after flush 7       | page | page | ...
//! shard 1   captured during flush 9      | page | page | ...      and 2 runs of its operations
//! ```
//!
//! Each shard is captured when its turn comes, so only the pages of one shard have to be copied if they change while
//! the index is saved. Its state relative to the redo log says which operations an opening has to apply.

use super::operations::{Lsn, OpenedShard};
use super::{LogIndex, LogIndexSettings};
use crate::coding::checksum::{crc32c, crc32c_append};
use crate::coding::{DecodeError, Decoder};
use crate::damage::KeyRange;
use crate::device::{Directory, File, Purpose, ReadAhead};
use crate::index::hash_pages::{HashPage, HashPages};
use crate::progress::Progress;
use crate::store::file::{StoreFile, StoreFileWriter};
use crate::store::names::FileName;
use crate::sync::atomic::Ordering;
use crate::{Error, Result};

/// The kind of the store file, and of its index section.
const STORE_KIND: u8 = 6;
const SECTION_KIND: u8 = 5;
/// The bytes of a block, and of the header.
pub const BLOCK_BYTES: u32 = 4096;
/// The bytes of the directory for each shard, and for each page.
pub const SHARD_BYTES: usize = 16;
pub const PLACE_BYTES: usize = 8;
/// The bytes of a write and of a read.
const PIECE_BYTES: usize = 1 << 20;
/// The bytes of pages that a step encodes: in tests those of a page, so that changes come in between.
const STEP_BYTES: usize = if cfg!(test) { 1 } else { 1 << 20 };

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

/// What a step of saving has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveStep {
    /// Another step is needed.
    Continues,
    /// All shards are written, but the redo log lacks operations that they contain. A whole [`Flush`](super::Flush) is
    /// needed, then another step.
    Flush,
    /// The file is written and synced. It can be committed, then [`LogIndex::saved`] is called.
    Written(SavedIndex),
}

/// An index that is being saved. If it is dropped, an incomplete file is left.
pub struct IndexSave {
    saved: SavedIndex,
    writer: Option<StoreFileWriter>,
    /// The shard that is being written, and the number of its pages that are written.
    shard: Option<(HashPages, usize)>,
    next_shard: usize,
    /// The last flush of which a shard may have operations.
    last_flush: u64,
    entries: u64,
    /// The bytes of pages that do not fill a block yet.
    block: Vec<u8>,
    /// The encoded directory.
    directory: Vec<u8>,
}

impl IndexSave {
    /// Begins a file.
    fn create(directory: &Directory, settings: &LogIndexSettings, saved: SavedIndex) -> Result<IndexSave> {
        let file = directory.create(&saved.file_name(), directory.access())?;
        let writer =
            StoreFileWriter::create(file, STORE_KIND, saved.tag, BLOCK_BYTES, Purpose::Index, PIECE_BYTES)?;
        let mut directory = Vec::new();
        directory.extend(MAGIC);
        directory.extend(VERSION.to_le_bytes());
        directory.extend([settings.shard_hash_bits() as u8, settings.shards_log2 as u8]);
        Ok(IndexSave {
            saved,
            writer: Some(writer),
            shard: None,
            next_shard: 0,
            last_flush: 0,
            entries: 0,
            block: Vec::new(),
            directory,
        })
    }

    /// Writes the rest of the file and syncs it, but not the directory. Returns its length; `None` if it was written
    /// before.
    fn finish(&mut self) -> Result<Option<u64>> {
        let Some(mut writer) = self.writer.take() else { return Ok(None) };
        self.block.resize(self.block.len().next_multiple_of(BLOCK_BYTES as usize), 0);
        self.block.chunks(BLOCK_BYTES as usize).try_for_each(|block| writer.append_block(block))?;
        let section = (SECTION_KIND, &self.directory[..]);
        let file = writer.finish(self.entries, 0, section, (0, &[]))?;
        file.sync(Purpose::Index)?;
        Ok(Some(file.length()))
    }

    /// Returns the memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let writer = self.writer.as_ref().map_or(0, StoreFileWriter::heap_bytes);
        let shard = self.shard.as_ref().map_or(0, |(pages, _)| size_of_val(pages.pages()));
        writer + shard + self.block.capacity() + self.directory.capacity()
    }

    fn begin_shard(&mut self, pages: HashPages, lsn: Lsn) {
        self.directory.extend(lsn.record.to_le_bytes());
        self.directory.extend(lsn.runs.to_le_bytes());
        self.directory.extend((pages.pages().len() as u32).to_le_bytes());
        self.last_flush = self.last_flush.max(lsn.record);
        self.entries += pages.len();
        self.shard = Some((pages, 0));
        self.next_shard += 1;
    }

    /// Appends the next page of the shard. Returns its bytes, or `None` if all are written.
    fn append_page(&mut self) -> Result<Option<usize>> {
        let (Some((pages, next)), Some(writer)) = (&mut self.shard, &mut self.writer) else {
            return Ok(None);
        };
        let Some(page) = pages.pages().get(*next) else {
            self.shard = None;
            return Ok(None);
        };
        *next += 1;
        let start = self.block.len();
        page.encode(&mut self.block);
        let encoded = &self.block[start..];
        let length = encoded.len();
        self.directory.extend((length as u32).to_le_bytes());
        self.directory.extend(page_checksum(self.saved.tag, encoded).to_le_bytes());
        let whole = self.block.len() - self.block.len() % BLOCK_BYTES as usize;
        let mut blocks = self.block[..whole].chunks(BLOCK_BYTES as usize);
        blocks.try_for_each(|block| writer.append_block(block))?;
        self.block.drain(..whole);
        Ok(Some(length))
    }
}

fn page_checksum(tag: u64, encoded: &[u8]) -> u32 {
    crc32c_append(crc32c(&tag.to_le_bytes()), encoded)
}

impl LogIndex {
    /// Begins to save the index to a new file. Waits for a flush.
    pub fn start_save(&self, number: u64, tag: u64) -> Result<IndexSave> {
        let (redo_from, _) = self.redo.next();
        IndexSave::create(&self.directory, &self.settings, SavedIndex { number, tag, redo_from })
    }

    /// Saves some pages, about 1 MiB. After an error the save is to be dropped.
    pub fn save_step(&self, save: &mut IndexSave) -> Result<SaveStep> {
        let mut bytes = 0;
        while bytes < STEP_BYTES {
            match save.append_page()? {
                Some(length) => bytes += length,
                None if save.next_shard < self.shards.len() => {
                    let mut shard = self.shards[save.next_shard].write();
                    let (pages, lsn) = (shard.pages.clone(), shard.pending.cut());
                    drop(shard);
                    save.begin_shard(pages, lsn);
                }
                None => return self.finish_save(save),
            }
        }
        Ok(SaveStep::Continues)
    }

    fn finish_save(&self, save: &mut IndexSave) -> Result<SaveStep> {
        let (_, next) = self.redo.next();
        if next <= save.last_flush {
            return Ok(SaveStep::Flush);
        }
        // An index may be durable only after the operations that follow it.
        self.sync_redo()?;
        if let Some(length) = save.finish()? {
            self.directory.sync(Purpose::Index)?;
            self.saved_bytes.store(length, Ordering::Relaxed);
        }
        Ok(SaveStep::Written(save.saved))
    }

    /// Releases the part of the redo log that an opening no longer reads, after a commit of the manifest that names
    /// this index.
    pub fn saved(&self, saved: &SavedIndex) -> Result<()> {
        self.redo.from.store(saved.redo_from, Ordering::Release);
        self.redo.log.release_before(saved.redo_from)
    }
}

/// Writes an index that no operation of a redo log has changed to a file, and syncs it.
pub(super) fn write_whole(
    directory: &Directory,
    settings: &LogIndexSettings,
    saved: SavedIndex,
    shards: &[HashPages],
) -> Result<()> {
    let mut save = IndexSave::create(directory, settings, saved)?;
    for pages in shards {
        save.begin_shard(pages.clone(), Lsn::default());
        while save.append_page()?.is_some() {}
    }
    save.finish().map(drop)
}

/// A page in the file: where it begins, after the first block, its length in bytes, and its checksum.
#[derive(Debug, Clone, Copy)]
pub(super) struct PagePlace {
    offset: u64,
    pub length: usize,
    crc: u32,
}

impl PagePlace {
    /// Returns the offset in the file, in bytes.
    pub fn file_offset(&self) -> u64 {
        self.offset + u64::from(BLOCK_BYTES)
    }
}

/// A saved index that is open for reading.
pub(super) struct SavedFile {
    file: StoreFile,
    settings: LogIndexSettings,
    shards: Vec<(Lsn, Vec<PagePlace>)>,
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
        let footer = file.footer();
        let (kind, section) = (footer.kind, footer.index.kind);
        if (kind, section) != (STORE_KIND, SECTION_KIND) {
            let got = format!("a store of kind {kind} with an index of kind {section}");
            return Err(file.file().corrupt(0, "a saved index", got));
        }
        let bytes = file.read_section(&footer.index, Purpose::Recover)?;
        let pages_bytes = footer.blocks * u64::from(footer.block_bytes);
        let at = StoreFile::section_offset(&footer.index);
        let shards = decode_directory(&settings, pages_bytes, &bytes)
            .map_err(|error| file.file().corrupt(at + error.offset as u64, error.expected, error.got))?;
        Ok(SavedFile { file, settings, shards })
    }

    /// Returns the length of the file, in bytes.
    pub fn length(&self) -> u64 {
        self.file.length()
    }

    /// Reads all pages.
    pub fn load(&self, progress: &mut Progress<'_>) -> Result<Vec<OpenedShard>> {
        let mut pages = Vec::new();
        let mut reader = ReadAhead::new(Purpose::Recover, PIECE_BYTES, BLOCK_BYTES as usize);
        let (mut bytes, mut bytes_at, mut block) = (Vec::new(), 0, 0);
        let mut shards = Vec::with_capacity(self.shards.len());
        for (lsn, places) in &self.shards {
            for place in places {
                let mut start = (place.offset - bytes_at) as usize;
                if bytes.len() < start + place.length {
                    bytes.drain(..start);
                    (bytes_at, start) = (place.offset, 0);
                    let needed = place.length - bytes.len();
                    block = self.file.read_blocks_ahead(&mut reader, block, needed, |_, piece| {
                        bytes.extend_from_slice(piece);
                        Ok(())
                    })?;
                    if !progress(block * u64::from(BLOCK_BYTES), self.length()) {
                        return Err(Error::Interrupted);
                    }
                }
                pages.push(self.page(place, bytes.get(start..start + place.length).unwrap_or_default())?);
            }
            let loaded = HashPages::from_pages(self.settings.shard_hash_bits(), std::mem::take(&mut pages));
            let loaded = loaded.map_err(|error| {
                let at = places.first().map_or(0, |place| place.offset);
                self.file.file().corrupt(at, "the pages of a shard", error.to_string())
            })?;
            shards.push(OpenedShard::new(loaded, *lsn));
        }
        Ok(shards)
    }

    /// Makes the shards of all pages, in the order of [`places`](SavedFile::places). Those that are `None` are left
    /// without entries.
    pub fn assemble(&self, pages: Vec<Option<HashPage>>) -> Result<Vec<OpenedShard>> {
        let hash_bits = self.settings.shard_hash_bits();
        let mut pages = pages.into_iter();
        let shards = self.shards.iter().map(|(lsn, places)| {
            let own = pages.by_ref().take(places.len()).collect();
            let pages = HashPages::from_intact_pages(hash_bits, own).map_err(|error| {
                let at = places.first().map_or(0, PagePlace::file_offset);
                self.file.file().corrupt(at, "the pages of a shard", error.to_string())
            })?;
            Ok(OpenedShard::new(pages, *lsn))
        });
        shards.collect()
    }

    /// Returns the file.
    pub fn device_file(&self) -> &File {
        self.file.file()
    }

    /// Returns an error if the copy of the footer differs.
    pub fn check_copy(&self, purpose: Purpose) -> Result<()> {
        self.file.check_copy(purpose)
    }

    /// Returns the places of all pages, each with the hashes that belong to it.
    pub fn places(&self) -> impl Iterator<Item = (KeyRange, PagePlace)> {
        let pages = self.shards.iter().enumerate().flat_map(move |(shard, (_, places))| {
            let first = move |page| self.settings.whole(shard, first_hash(places.len(), page));
            places.iter().enumerate().map(move |(page, place)| (first(page), *place))
        });
        let mut pages = pages.peekable();
        std::iter::from_fn(move || {
            let (first, place) = pages.next()?;
            let last = pages.peek().map_or(u64::MAX, |(next, _)| next.saturating_sub(1));
            Some((KeyRange { first, last }, place))
        })
    }

    /// Decodes a page.
    pub fn page(&self, place: &PagePlace, bytes: &[u8]) -> Result<HashPage> {
        let (at, file) = (place.file_offset(), self.file.file());
        if page_checksum(self.file.footer().tag, bytes) != place.crc {
            return Err(file.corrupt(at, "a page with a correct checksum", "other bytes"));
        }
        HashPage::decode(bytes).map_err(|error| file.corrupt(at, error.expected, error.got))
    }
}

/// Returns the lowest hash of a page of a shard with this number of pages.
fn first_hash(pages: usize, page: usize) -> u64 {
    let level = pages.max(1).ilog2();
    let split = pages - (1 << level).min(pages);
    let (number, bits) = if page < 2 * split { (page, level + 1) } else { (page - split, level) };
    (number as u64).checked_shl(64 - bits).unwrap_or(0)
}

/// Decodes the directory of a file whose blocks have `pages_bytes`.
fn decode_directory(
    settings: &LogIndexSettings,
    pages_bytes: u64,
    bytes: &[u8],
) -> std::result::Result<Vec<(Lsn, Vec<PagePlace>)>, DecodeError> {
    let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
    let found: [u8; 2] = reader.array("bits of hashes and shards")?;
    let wanted = [settings.shard_hash_bits() as u8, settings.shards_log2 as u8];
    reader.check(2, found == wanted, || format!("{wanted:?} bits"), || format!("{found:?}"))?;
    let mut offset = 0;
    let mut shards = Vec::with_capacity(settings.shards());
    for _ in 0..settings.shards() {
        let lsn = Lsn { record: reader.u64("the number of a flush")?, runs: reader.u32("a number of runs")? };
        let count = reader.u32("a number of pages")?;
        let mut places = Vec::new();
        for [a, b, c, d, crc @ ..] in reader.arrays::<8>(count.into(), "pages")? {
            let length = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
            places.push(PagePlace { offset, length, crc: u32::from_le_bytes(*crc) });
            offset += length as u64;
        }
        shards.push((lsn, places));
    }
    let is_whole = offset.next_multiple_of(BLOCK_BYTES.into()) == pages_bytes;
    reader.check(0, is_whole, || format!("pages of {pages_bytes} bytes"), || format!("{offset} bytes"))?;
    reader.end()?;
    Ok(shards)
}
