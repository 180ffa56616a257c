//! Saving an index: a store file with the pages of all shards, one shard after another. `docs/formats/saved_index.md`
//! has the diagrams.
//!
//! ```text
//! shard 0   captured after flush 7       | page | page | ...
//! shard 1   captured during flush 9      | page | page | ...      and 2 runs of its operations
//! ```
//!
//! 1. The save notes the end of the redo log. An open with this file reads redo from there on.
//! 2. A shard is captured when its turn comes, under its lock, with its state relative to the redo log. The state says
//!    which operations an open has to apply. Only the pages of one shard have to be copied if they change meanwhile.
//! 3. Steps write its pages. A shard on flash is merged with its changes in the same pass.
//! 4. If the shard is to be on flash, its entries are those of the new file from then on. So the memory of its changes
//!    is free long before the whole index is saved. The file is not committed yet: a crash leaves the file before and
//!    the redo log.
//! 5. After the last shard, the redo of all operations that the file has is synced, then the file.
//! 6. The manifest names the file. The redo before it is released.

use super::changes::{ShardChanges, merge};
use super::entries::Frozen;
use super::flash::{FlashPages, PagePlace, PagesReader, page_checksum};
use super::operations::{Lsn, SlotEntries};
use super::saved_file::{self, BLOCK_BYTES, SECTION_KIND, STORE_KIND, SavedIndex};
use super::{LogIndex, LogIndexSettings, Unit};
use crate::error::Result;
use crate::store::file::StoreFileWriter;
use siltstone_device::sync::atomic::Ordering;
use siltstone_device::{Directory, File, Purpose};
use siltstone_index::hash_pages::{Division, HashPage, HashPages, PageEntry};
use std::sync::Arc;

/// The bytes of a write and of a read.
pub const PIECE_BYTES: usize = 1 << 20;
/// The bytes of pages that a step encodes: in tests those of a page, so that changes come in between.
pub(super) const STEP_BYTES: usize = if cfg!(test) { 1 } else { 1 << 20 };

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
    settings: LogIndexSettings,
    writer: Option<StoreFileWriter>,
    /// The file, for reading.
    file: Arc<File>,
    /// The shard that is being written.
    shard: Option<ShardSave>,
    next_shard: usize,
    /// The last flush whose operations a shard may have.
    last_flush: u64,
    entries: u64,
    slots: SlotEntries,
    /// The bytes of pages that do not fill a block yet.
    block: Vec<u8>,
    /// The encoded directory.
    directory: Vec<u8>,
}

/// A shard that is being written.
struct ShardSave {
    number: usize,
    lsn: Lsn,
    source: Source,
    /// Whether the entries will be in memory.
    to_memory: bool,
    places: Vec<PagePlace>,
    entries: u64,
    /// The pages, if the entries will be in memory and were on flash.
    loaded: Vec<HashPage>,
}

/// Where the pages of a shard come from.
enum Source {
    Memory { pages: HashPages, next: usize },
    Flash(Box<Merging>),
}

/// Entries on flash that are merged with changes and divided into pages again.
pub(super) struct Merging {
    reader: PagesReader,
    changes: ShardChanges,
    division: Division,
    next: usize,
    /// Entries that are merged and not written.
    ready: Vec<(u64, Unit)>,
}

impl Merging {
    pub fn new(pages: &Arc<FlashPages>, changes: ShardChanges, piece_bytes: usize) -> Merging {
        let entries = pages.len().saturating_add_signed(changes.added());
        // As many pages as an index in memory has with these entries, so that a load can use them as they are.
        let division = Division::for_entries(pages.division().hash_bits(), entries);
        let reader = pages.read_from(0, Purpose::Index, piece_bytes);
        Merging { reader, changes, division, next: 0, ready: Vec::new() }
    }

    /// Returns the next page. Passes the hashes to `found` that got an entry and have several: the other entries of
    /// hashes with several were found when these got them.
    pub fn next_page(&mut self, found: &mut dyn FnMut(u64)) -> Result<Option<HashPage>> {
        let number = self.next;
        if number == self.division.pages() {
            return Ok(None);
        }
        let last = self.division.last_hash(number);
        while let Some(first) = self.reader.next_hash().filter(|first| *first <= last) {
            let entries = self.reader.next_entries()?.unwrap_or_default();
            // Up to the next page: hashes without an entry on flash may have changes, too.
            let read_to = self.reader.next_hash().map_or(u64::MAX, |next| next - 1);
            let changes = self.changes.from(first).take_while(|change| change.0 <= read_to);
            merge(entries.into_iter(), changes, &mut self.ready);
        }
        // The new pages have other borders: what was read may be of several of them.
        let count = self.ready.partition_point(|entry| entry.0 <= last);
        let page = &self.ready[..count];
        let inserted = self.changes.inserted_from(self.division.first_hash(number));
        let mut inserted: Vec<u64> = inserted.take_while(|hash| *hash <= last).collect();
        inserted.dedup();
        let has_several = |hash: &u64| {
            let first = page.partition_point(|entry| entry.0 < *hash);
            page.get(first + 1).is_some_and(|second| second.0 == *hash)
        };
        inserted.into_iter().filter(has_several).for_each(found);
        let tagged = |(hash, unit)| PageEntry { tag: self.division.home(hash).1, unit };
        let entries: Vec<PageEntry> = self.ready.drain(..count).map(tagged).collect();
        self.next += 1;
        Ok(Some(HashPage::of(self.division.tag_bits(number), &entries)))
    }

    /// Returns the memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let ready = self.ready.capacity() * size_of::<(u64, Unit)>();
        self.reader.heap_bytes() + self.changes.heap_bytes() + ready
    }
}

impl IndexSave {
    /// Begins a file.
    fn create(
        directory: &Directory,
        settings: &LogIndexSettings,
        saved: SavedIndex,
        piece_bytes: usize,
    ) -> Result<IndexSave> {
        let name = saved.file_name();
        let file = directory.create(&name, directory.access())?;
        let writer =
            StoreFileWriter::create(file, STORE_KIND, saved.tag, BLOCK_BYTES, Purpose::Index, piece_bytes)?;
        Ok(IndexSave {
            saved,
            settings: *settings,
            writer: Some(writer),
            // A handle for lookups, which stays valid after the file is removed.
            file: Arc::new(directory.open(&name, directory.access())?),
            shard: None,
            next_shard: 0,
            last_flush: 0,
            entries: 0,
            slots: SlotEntries::new(settings.slot_units),
            block: Vec::new(),
            directory: saved_file::encode_header(settings),
        })
    }

    /// Writes the rest of the file and syncs it, but not the directory. Returns its length; `None` if it was written
    /// before.
    fn finish(&mut self) -> Result<Option<u64>> {
        let Some(writer) = self.writer.take() else { return Ok(None) };
        saved_file::encode_slots(&self.slots, &mut self.directory);
        let section = (SECTION_KIND, &self.directory[..]);
        let file = writer.finish(self.entries, 0, section, (0, &[]))?;
        file.sync(Purpose::Index)?;
        Ok(Some(file.length()))
    }

    fn begin_shard(&mut self, source: Source, lsn: Lsn, to_memory: bool) {
        let (places, loaded) = (Vec::new(), Vec::new());
        let number = self.next_shard;
        self.shard = Some(ShardSave { number, lsn, source, to_memory, places, entries: 0, loaded });
        self.next_shard += 1;
    }

    /// Ends the shard that is written, if there is one, and returns it.
    fn end_shard(&mut self) -> Result<Option<ShardSave>> {
        let Some(written) = self.shard.take() else { return Ok(None) };
        // Whole blocks: lookups may read the shard next, and a buffered write must end at the file's alignment.
        self.append_blocks(true)?;
        // The shard may have a part of this flush. Redo must have all of it before the file counts.
        self.last_flush = self.last_flush.max(written.lsn.record);
        self.entries += written.entries;
        saved_file::encode_shard(written.lsn, written.entries, &written.places, &mut self.directory);
        Ok(Some(written))
    }

    /// Returns the memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let writer = self.writer.as_ref().map_or(0, StoreFileWriter::heap_bytes);
        let shard = self.shard.as_ref().map_or(0, |shard| {
            let places = shard.places.capacity() * size_of::<PagePlace>();
            let loaded: usize =
                shard.loaded.iter().map(|page| page.heap_bytes() + size_of::<HashPage>()).sum();
            let source = match &shard.source {
                Source::Memory { pages, .. } => size_of_val(pages.pages()),
                Source::Flash(merging) => merging.heap_bytes(),
            };
            places + loaded + source
        });
        writer + shard + self.block.capacity() + self.directory.capacity()
    }

    /// Appends the next page of the shard. Returns its bytes, or `None` if all are written.
    fn append_page(&mut self, found: &mut dyn FnMut(u64)) -> Result<Option<usize>> {
        let (Some(shard), Some(writer)) = (&mut self.shard, &mut self.writer) else { return Ok(None) };
        let mut merged = None;
        let page = match &mut shard.source {
            Source::Memory { pages, next } => {
                *next += 1;
                pages.pages().get(*next - 1).map(|page| &**page)
            }
            Source::Flash(merging) => {
                let whole = &mut |hash| found(self.settings.whole(shard.number, hash));
                merged = merging.next_page(whole)?;
                merged.as_ref()
            }
        };
        let Some(page) = page else { return Ok(None) };
        // The header takes a block, and `block` follows the blocks that were appended.
        let offset = (writer.next_block() + 1) * u64::from(BLOCK_BYTES) + self.block.len() as u64;
        let start = self.block.len();
        page.encode(&mut self.block);
        let encoded = &self.block[start..];
        let length = encoded.len();
        let crc = page_checksum(self.saved.tag, encoded);
        shard.places.push(PagePlace { offset, length: length as u32, crc });
        shard.entries += page.len() as u64;
        // As captured: an open adds what the operations after that change.
        page.units().for_each(|unit| self.slots.count(unit));
        if shard.to_memory {
            shard.loaded.extend(merged);
        }
        self.append_blocks(false)?;
        Ok(Some(length))
    }

    /// Appends the blocks that are filled, or all with zeros behind the last page.
    fn append_blocks(&mut self, all: bool) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if all {
            self.block.resize(self.block.len().next_multiple_of(BLOCK_BYTES as usize), 0);
        }
        let whole = self.block.len() - self.block.len() % BLOCK_BYTES as usize;
        let mut blocks = self.block[..whole].chunks(BLOCK_BYTES as usize);
        blocks.try_for_each(|block| writer.append_block(block))?;
        self.block.drain(..whole);
        Ok(())
    }
}

impl LogIndex {
    /// Begins to save the index to a new file. Waits for a flush.
    pub fn start_save(&self, number: u64, tag: u64) -> Result<IndexSave> {
        // Before the first shard is captured, so none needs an operation of a record before it.
        let (redo_from, _) = self.redo.next();
        let saved = SavedIndex { number, tag, redo_from };
        IndexSave::create(&self.directory, &self.settings, saved, self.piece_bytes())
    }

    /// Saves some pages, about 1 MiB. Passes the hashes to `found` that got an entry while others of the same hash were
    /// on flash. After an error the save is to be dropped.
    pub fn save_step(&self, save: &mut IndexSave, found: &mut dyn FnMut(u64)) -> Result<SaveStep> {
        let mut bytes = 0;
        while bytes < STEP_BYTES {
            match save.append_page(found)? {
                Some(length) => bytes += length,
                None => {
                    self.end_shard(save)?;
                    if save.next_shard == self.shards.len() {
                        return self.finish_save(save);
                    }
                    // Only now, so that changes copy the pages of one shard at a time.
                    self.begin_shard(save)?;
                }
            }
        }
        Ok(SaveStep::Continues)
    }

    /// Captures the next shard.
    fn begin_shard(&self, save: &mut IndexSave) -> Result<()> {
        let number = save.next_shard;
        let to_memory = number < self.memory_shards.load(Ordering::Relaxed);
        let mut shard = self.shards[number].write();
        let super::Shard { entries, pending } = &mut *shard;
        // Entries and state of one moment, so an open applies each operation once.
        let (frozen, lsn) = Arc::make_mut(entries).freeze(to_memory, || pending.cut())?;
        drop(shard);
        let source = match frozen {
            Frozen::Memory(pages) => Source::Memory { pages, next: 0 },
            Frozen::Flash(pages, changes) => {
                Source::Flash(Box::new(Merging::new(&pages, changes, self.piece_bytes())))
            }
        };
        save.begin_shard(source, lsn, to_memory);
        Ok(())
    }

    /// Ends the shard that is written. From now on its entries are where they are to be.
    fn end_shard(&self, save: &mut IndexSave) -> Result<()> {
        let Some(written) = save.end_shard()? else { return Ok(()) };
        let hash_bits = self.settings.shard_hash_bits();
        if written.to_memory {
            if matches!(written.source, Source::Flash(_)) {
                self.move_to_memory(written.number, HashPages::from_pages(hash_bits, written.loaded)?);
            }
            return Ok(());
        }
        // Lookups read the file from now on.
        if let Some(writer) = &mut save.writer {
            writer.write_buffered()?;
        }
        let (tag, entries) = (save.saved.tag, written.entries);
        let pages = FlashPages::new(&save.file, tag, hash_bits, entries, written.places);
        // Lookups and snapshots that hold the old pages keep the old file readable.
        Arc::make_mut(&mut self.shards[written.number].write().entries).move_to_flash(Arc::new(pages));
        Ok(())
    }

    fn finish_save(&self, save: &mut IndexSave) -> Result<SaveStep> {
        let (_, next) = self.redo.next();
        // A flush after the last capture is needed: shards may have a part of its operations, and it states what the
        // index covers.
        if next <= save.last_flush {
            return Ok(SaveStep::Flush);
        }
        // Redo first: an index with operations beyond the end of redo is refused by an open.
        self.sync_redo()?;
        if let Some(length) = save.finish()? {
            // The manifest may name the file only when its name is durable, too.
            self.directory.sync(Purpose::Index)?;
            self.saved_bytes.store(length, Ordering::Relaxed);
        }
        Ok(SaveStep::Written(save.saved))
    }

    /// Releases the part of the redo log that an open no longer reads, after a commit of the manifest that names
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
    let mut save = IndexSave::create(directory, settings, saved, PIECE_BYTES)?;
    for pages in shards {
        save.begin_shard(Source::Memory { pages: pages.clone(), next: 0 }, Lsn::default(), true);
        while save.append_page(&mut |_| ())?.is_some() {}
        save.end_shard()?;
    }
    save.finish().map(drop)
}
