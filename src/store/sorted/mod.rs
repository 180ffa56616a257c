//! The SortedStore (SILT 3.3): records in hash order on flash, found by a compact index with one read.
//!
//! Two forms of blocks, of which docs/formats/sorted_store.md tells more: *slots*, for records of one size that is
//! smaller than a block, and *stream*, for all others; there a record may go on in the next blocks, which are then read
//! together. The same structure behind a filter is the hash-ordered form of a HashStore, since it can hold deletes too.
//!
//! Deviations: the order is that of a 64-bit hash and not of the key, since users' keys are no hashes; records of any
//! size need no second place for what does not fit a slot (the paper's inlining, section 4), since the index finds
//! blocks and not slots.

mod cursor;
mod index;
mod writer;

pub use cursor::SortedCursor;
pub use index::{SortedIndexKind, StoreFilter, StoreIndex, StoreIndexBuilder, StoreIndexSettings};
use writer::slots_per_block;
pub use writer::{SortedStoreSettings, SortedStoreWriter};

use super::block::{BLOCK_HEADER_BYTES, Block};
use super::file::StoreFile;
use super::record::{RecordLayout, RecordView};
use crate::Result;
use crate::device::{AlignedBuffer, Directory, Purpose};
use crate::key::KeyHash;
use std::ops::Range;

/// How records stand in the blocks of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// One after the other, over the ends of blocks where that saves room.
    Stream = 1,
    /// A whole number of records of one size in each block.
    Slots = 2,
}

impl Form {
    fn of(file: &StoreFile, layout: &RecordLayout) -> Result<Form> {
        let block_bytes = file.footer().block_bytes as usize;
        let slot_fits = |bytes: usize| (1..=block_bytes - BLOCK_HEADER_BYTES).contains(&bytes);
        match file.footer().kind {
            kind if kind == Form::Stream as u8 => Ok(Form::Stream),
            kind if kind == Form::Slots as u8 && layout.slot_bytes(false).is_some_and(slot_fits) => {
                Ok(Form::Slots)
            }
            kind => Err(file.file().corrupt(0, "a sorted store", format!("a store of kind {kind}"))),
        }
    }
}

/// An immutable store of records in hash order.
pub struct SortedStore {
    file: StoreFile,
    layout: RecordLayout,
    form: Form,
    index: StoreIndex,
    filter: Option<StoreFilter>,
}

impl SortedStore {
    /// Opens a store and reads its index and filter back.
    pub fn open(directory: &Directory, name: &str, number: u64, layout: RecordLayout) -> Result<SortedStore> {
        let file = StoreFile::open(directory, name, number)?;
        if file.footer().index.kind == 0 {
            return Err(file.file().corrupt(file.length(), "a store with an index", "one without"));
        }
        let filter = StoreFilter::load(&file)?;
        Ok(SortedStore { filter, ..SortedStore::in_file(file, layout, true)? })
    }

    /// The store in a file that is open already, with its index if `with_index` says so: without one every block has to
    /// be looked through, or searched.
    pub fn in_file(file: StoreFile, layout: RecordLayout, with_index: bool) -> Result<SortedStore> {
        let form = Form::of(&file, &layout)?;
        let index = if with_index {
            StoreIndex::load(&file, form, slots_per_block(&layout, form, file.footer().block_bytes))?
        } else {
            StoreIndex::Absent
        };
        Ok(SortedStore { file, layout, form, index, filter: None })
    }

    /// The file.
    pub fn file(&self) -> &StoreFile {
        &self.file
    }

    /// The shape of its records.
    pub fn layout(&self) -> &RecordLayout {
        &self.layout
    }

    /// How its records stand in blocks.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The index.
    pub fn index(&self) -> &StoreIndex {
        &self.index
    }

    /// What an index over these blocks is built with.
    pub fn index_settings(&self, kind: SortedIndexKind) -> StoreIndexSettings {
        let footer = self.file.footer();
        StoreIndexSettings {
            kind,
            slots_per_block: slots_per_block(&self.layout, self.form, footer.block_bytes),
            expected_records: footer.records,
            expected_blocks: footer.blocks,
        }
    }

    /// The number of records, deletes included.
    pub fn records(&self) -> u64 {
        self.file.footer().records
    }

    /// The memory of the index, in bytes.
    pub fn index_bytes(&self) -> usize {
        self.index.heap_bytes()
    }

    /// The memory of the filter, in bytes.
    pub fn filter_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, StoreFilter::heap_bytes)
    }

    /// The blocks to read for a key; `None` if the filter tells that it is not there. They count from 0.
    #[inline]
    pub fn blocks_for(&self, hash: KeyHash) -> Option<Range<u64>> {
        if let Some(filter) = &self.filter
            && !filter.may_contain(hash)
        {
            return None;
        }
        let blocks = self.index.locate(hash);
        let end = blocks.end.min(self.file.footer().blocks);
        (blocks.start < end).then_some(blocks.start..end)
    }

    /// The record of a key, with one read unless the filter saves it.
    pub fn get<'b>(
        &self,
        purpose: Purpose,
        hash: KeyHash,
        key: &[u8],
        buffer: &'b mut AlignedBuffer,
    ) -> Result<Option<RecordView<'b>>> {
        let Some(blocks) = self.blocks_for(hash) else { return Ok(None) };
        let place = self.file.place_blocks(purpose, blocks.clone(), buffer)?;
        let bytes = buffer.get_mut(place).unwrap_or_default();
        self.find(blocks, bytes, key)
    }

    /// The record of a key in `bytes`, which were read from `blocks`. They are checked, and moved together where a
    /// record goes over the end of a block.
    pub fn find<'b>(
        &self,
        blocks: Range<u64>,
        bytes: &'b mut [u8],
        key: &[u8],
    ) -> Result<Option<RecordView<'b>>> {
        let block_bytes = self.file.footer().block_bytes as usize;
        match self.form {
            Form::Slots => {
                let bytes: &'b [u8] = bytes;
                for (number, block) in (blocks.start..).zip(bytes.chunks_exact(block_bytes)) {
                    let block = self.block(number, block)?;
                    if let Some(record) = self.find_slot(block.payload, key) {
                        return Ok(Some(record));
                    }
                }
                Ok(None)
            }
            Form::Stream => {
                let stream = self.gather(blocks.start, bytes, block_bytes)?;
                let bytes: &'b [u8] = bytes;
                Ok(self.find_in_stream(bytes.get(stream).unwrap_or_default(), key))
            }
        }
    }

    fn block<'b>(&self, number: u64, bytes: &'b [u8]) -> Result<Block<'b>> {
        Block::open(self.file.file(), self.file.footer().number, number, bytes)
    }

    fn find_slot<'b>(&self, payload: &'b [u8], key: &[u8]) -> Option<RecordView<'b>> {
        let slot_bytes = self.layout.slot_bytes(false)?;
        let (key_length, value_length) = self.layout.fixed.filter(|(length, _)| *length == key.len())?;
        let key_at = slot_bytes - key_length - value_length;
        let mut slots = payload.chunks_exact(slot_bytes);
        let slot = slots.find(|slot| slot.get(key_at..key_at + key_length) == Some(key))?;
        self.layout.decode_slot(slot, false)
    }

    /// Moves the payloads of all blocks together; answers where they stand, from the first record on.
    fn gather(&self, first: u64, bytes: &mut [u8], block_bytes: usize) -> Result<Range<usize>> {
        let (mut start, mut end) = (None, 0);
        for at in (0..bytes.len() / block_bytes).map(|index| index * block_bytes) {
            let number = first + (at / block_bytes) as u64;
            let block = self.block(number, &bytes[at..at + block_bytes])?;
            let payload_at = at + block_bytes - (block_bytes - BLOCK_HEADER_BYTES);
            let payload = payload_at..payload_at + block.payload.len();
            match (start, block.first_record) {
                (Some(_), _) => {
                    let length = payload.len();
                    bytes.copy_within(payload, end);
                    end += length;
                }
                (None, Some(first_record)) => {
                    start = Some(payload.start + first_record);
                    end = payload.end;
                }
                (None, None) => {}
            }
        }
        Ok(start.unwrap_or(0)..end)
    }

    fn find_in_stream<'b>(&self, mut stream: &'b [u8], key: &[u8]) -> Option<RecordView<'b>> {
        // The last record may go on in a block that was not read: then it is not the one looked for.
        while let Ok((_, record, taken)) = self.layout.decode_stream(stream) {
            if record.key == key {
                return Some(record);
            }
            stream = &stream[taken..];
        }
        None
    }
}

#[cfg(test)]
mod tests;
