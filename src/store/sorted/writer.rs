//! Writing a store in hash order, and building its index on the way.

use super::index::{SortedIndexKind, StoreFilter, StoreIndex, StoreIndexBuilder, StoreIndexSettings};
use super::{Form, SortedStore};
use crate::Result;
use crate::device::{Directory, Purpose};
use crate::index::block_perfect::{BlockPerfectBuilder, BlockPerfectSettings};
use crate::store::block::{BLOCK_HEADER_BYTES, BlockBuilder};
use crate::store::file::{FilterKind, StoreFileWriter};
use crate::store::merge::Entry;
use crate::store::record::RecordLayout;
use std::sync::Arc;

/// A record goes over the end of a block rather than leave more than this share of the block unused.
const UNUSED_SHARE: usize = 32;

/// A bucket of a block-perfect index, which is held in memory, takes so many pieces at the most.
const PIECES_PER_BUCKET: usize = 4;

/// By how many bytes the memory for a bucket grows.
const GROWTH_BYTES: usize = 4096;

/// What a store is written with.
#[derive(Debug, Clone)]
pub struct SortedStoreSettings {
    /// The number of the store.
    pub number: u64,
    /// The shape of the records.
    pub layout: RecordLayout,
    /// How the records stand in blocks: [`SortedStoreSettings::form_for`] tells which forms can be.
    pub form: Form,
    /// The size of a block, in bytes.
    pub block_bytes: u32,
    /// The index; tries only for slots.
    pub index: SortedIndexKind,
    /// Whether every block is filled with slots whatever the index, so that there can be any other over the same blocks
    /// (ECT 3.1.6). Else blocks are left unfilled where that saves the lookups of an index the reading of two.
    pub packed: bool,
    /// About how many records will come.
    pub expected_records: u64,
    /// About how many bytes of keys and values will come.
    pub expected_bytes: u64,
    /// What the writing is for.
    pub purpose: Purpose,
    /// The file is written in pieces of this size, in bytes.
    pub piece_bytes: usize,
}

impl SortedStoreSettings {
    /// The form for records of a layout: slots where a block holds one or more of them, unless deletes must be kept.
    pub fn form_for(layout: &RecordLayout, block_bytes: u32, with_deletes: bool) -> Form {
        let payload_bytes = block_bytes as usize - BLOCK_HEADER_BYTES;
        match layout.slot_bytes(false) {
            Some(slot_bytes) if !with_deletes && slot_bytes <= payload_bytes => Form::Slots,
            _ => Form::Stream,
        }
    }

    fn expected_blocks(&self) -> u64 {
        match self.form {
            Form::Slots => {
                let slots_per_block = slots_per_block(&self.layout, self.form, self.block_bytes);
                self.expected_records.div_ceil(slots_per_block.into())
            }
            Form::Stream => {
                self.expected_bytes / (u64::from(self.block_bytes) - BLOCK_HEADER_BYTES as u64) + 1
            }
        }
    }
}

/// How many records of a form stand in a full block, if they take the same room; else 1.
pub(in crate::store) fn slots_per_block(layout: &RecordLayout, form: Form, block_bytes: u32) -> u32 {
    let payload_bytes = block_bytes.saturating_sub(BLOCK_HEADER_BYTES as u32);
    match (form, layout.slot_bytes(false)) {
        (Form::Slots, Some(slot_bytes)) => (payload_bytes / (slot_bytes as u32).max(1)).max(1),
        _ => 1,
    }
}

/// What finds a place for records and their places again.
enum IndexBuilder {
    /// The records stand in hash order.
    InOrder(Box<StoreIndexBuilder>),
    /// The index chooses the blocks of a bucket's records.
    BlockPerfect { index: Box<BlockPerfectBuilder>, bucket: Bucket },
}

impl IndexBuilder {
    fn new(settings: &SortedStoreSettings) -> Result<Self> {
        let slots_per_block = slots_per_block(&settings.layout, settings.form, settings.block_bytes);
        let expected_records = settings.expected_records;
        if settings.index == SortedIndexKind::BlockPerfect {
            let slot_bytes = settings.layout.slot_bytes(false).unwrap_or(1).max(1);
            let bucket_records = (PIECES_PER_BUCKET * settings.piece_bytes / slot_bytes) as u32;
            let records_per_block = slots_per_block;
            let settings = BlockPerfectSettings { expected_records, records_per_block, bucket_records };
            let index = Box::new(BlockPerfectBuilder::new(settings)?);
            return Ok(IndexBuilder::BlockPerfect { index, bucket: Bucket::default() });
        }
        Ok(IndexBuilder::InOrder(Box::new(StoreIndexBuilder::new(&StoreIndexSettings {
            kind: settings.index,
            slots_per_block,
            expected_records,
            expected_blocks: settings.expected_blocks(),
        })?)))
    }

    /// Whether a lookup of either of two placements would read both blocks, if a block ended between them.
    fn would_share(&self, placement: u64, next: u64) -> bool {
        match self {
            IndexBuilder::InOrder(index) => index.would_share(placement, next),
            IndexBuilder::BlockPerfect { .. } => false,
        }
    }
}

/// The slots of one bucket of a block-perfect index, in the order in which they came.
#[derive(Default)]
struct Bucket {
    slots: Vec<u8>,
    /// The block of each, once they are known.
    blocks: Vec<u64>,
    order: Vec<u32>,
}

impl Bucket {
    /// Writes the slots to their blocks. The first block may be begun already, and the last one is left to be filled.
    fn place(&mut self, block: &mut BlockBuilder, file: &mut StoreFileWriter) -> Result<()> {
        let slot_bytes = self.slots.len() / self.blocks.len().max(1);
        self.order.extend(0..self.blocks.len() as u32);
        let blocks = &self.blocks;
        self.order.sort_by_key(|&slot| blocks.get(slot as usize));
        for &slot in &self.order {
            let at = slot as usize * slot_bytes;
            let slot = self.slots.get(at..at + slot_bytes).unwrap_or_default();
            if slot.len() > block.room() {
                block.seal(file.next_block(), |block| file.append_block(block))?;
            }
            block.begin_record();
            block.fill(slot);
        }
        self.slots.clear();
        self.blocks.clear();
        self.order.clear();
        Ok(())
    }

    fn heap_bytes(&self) -> usize {
        self.slots.capacity() + self.blocks.capacity() * 8 + self.order.capacity() * 4
    }
}

/// Takes records in hash order and makes a [`SortedStore`] of them.
pub struct SortedStoreWriter {
    settings: SortedStoreSettings,
    file: StoreFileWriter,
    block: BlockBuilder,
    index: IndexBuilder,
    group: Group,
    records: u64,
    deleted: u64,
}

/// Records of one cell of the fences, which should not be parted by the end of a block.
#[derive(Default)]
struct Group {
    bytes: Vec<u8>,
    /// The placement of each record and where it ends in `bytes`.
    records: Vec<(u64, usize)>,
}

impl SortedStoreWriter {
    /// Starts a new file.
    pub fn create(directory: &Directory, name: &str, settings: SortedStoreSettings) -> Result<Self> {
        let index = IndexBuilder::new(&settings)?;
        let file = StoreFileWriter::create(
            directory,
            name,
            settings.form as u8,
            settings.number,
            settings.block_bytes,
            settings.purpose,
            settings.piece_bytes,
        )?;
        let block = BlockBuilder::new(settings.number, settings.block_bytes as usize);
        Ok(SortedStoreWriter {
            settings,
            file,
            block,
            index,
            group: Group::default(),
            records: 0,
            deleted: 0,
        })
    }

    /// The records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Adds the next record in hash order.
    pub fn push(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.records += 1;
        self.deleted += u64::from(entry.record.value.is_none());
        let placement = entry.hash.placement;
        if let IndexBuilder::BlockPerfect { index, bucket } = &mut self.index {
            if let Some(blocks) = index.push(placement)? {
                bucket.blocks.extend_from_slice(blocks);
                bucket.place(&mut self.block, &mut self.file)?;
            }
            let slot_bytes = self.settings.layout.slot_bytes(false).unwrap_or(0);
            if bucket.slots.capacity() - bucket.slots.len() < slot_bytes {
                bucket.slots.reserve_exact(slot_bytes.max(GROWTH_BYTES));
            }
            self.settings.layout.encode_slot(&entry.record, false, &mut bucket.slots);
            return Ok(());
        }
        let packed = self.settings.packed && self.settings.form == Form::Slots;
        let begins_group = match self.group.records.last() {
            Some(&(last, _)) => packed || !self.index.would_share(last, placement),
            None => false,
        };
        if begins_group {
            self.place_group()?;
        }
        match self.settings.form {
            Form::Slots => self.settings.layout.encode_slot(&entry.record, false, &mut self.group.bytes),
            Form::Stream => self.settings.layout.encode_stream(&entry.record, 0, &mut self.group.bytes),
        }
        self.group.records.push((placement, self.group.bytes.len()));
        Ok(())
    }

    fn place_group(&mut self) -> Result<()> {
        let group = std::mem::take(&mut self.group);
        let mut start = 0;
        if group.bytes.len() > self.block.room() {
            let room = self.block.room();
            let may_straddle = self.settings.form == Form::Stream
                && room > self.settings.block_bytes as usize / UNUSED_SHARE;
            if !may_straddle && !self.block.is_empty() {
                self.seal()?;
            }
        }
        for &(placement, end) in &group.records {
            let record = &group.bytes[start..end];
            if self.settings.form == Form::Slots && record.len() > self.block.room() {
                self.seal()?;
            }
            self.place_record(placement, record)?;
            start = end;
        }
        self.group = group;
        self.group.bytes.clear();
        self.group.bytes.shrink_to(self.settings.piece_bytes);
        self.group.records.clear();
        Ok(())
    }

    fn place_record(&mut self, placement: u64, mut record: &[u8]) -> Result<()> {
        if self.block.room() == 0 {
            self.seal()?;
        }
        let first = self.file.next_block();
        self.block.begin_record();
        loop {
            let taken = self.block.fill(record);
            record = &record[taken..];
            if record.is_empty() {
                break;
            }
            self.seal()?;
        }
        match &mut self.index {
            IndexBuilder::InOrder(index) => index.push(placement, first..self.file.next_block() + 1),
            IndexBuilder::BlockPerfect { .. } => Ok(()),
        }
    }

    fn seal(&mut self) -> Result<()> {
        let file = &mut self.file;
        self.block.seal(file.next_block(), |block| file.append_block(block))
    }

    /// Writes what is left, saves index and filter. Nothing is synced here.
    pub fn finish(mut self, filter: Option<StoreFilter>) -> Result<SortedStore> {
        self.place_group()?;
        let index = match self.index {
            IndexBuilder::InOrder(index) => index.finish()?,
            IndexBuilder::BlockPerfect { index, mut bucket } => {
                let (index, blocks) = index.finish();
                bucket.blocks = blocks;
                bucket.place(&mut self.block, &mut self.file)?;
                StoreIndex::BlockPerfect(index)
            }
        };
        if !self.block.is_empty() {
            let file = &mut self.file;
            self.block.seal(file.next_block(), |block| file.append_block(block))?;
        }
        let (index_kind, index_bytes, buckets) = index.encode();
        let (filter_kind, filter_bytes) =
            filter.as_ref().map_or((FilterKind::None, Vec::new()), StoreFilter::encode);
        let file = self.file.finish(
            self.records,
            self.deleted,
            (index_kind, &index_bytes),
            (filter_kind as u8, &filter_bytes),
        )?;
        let SortedStoreSettings { layout, form, .. } = self.settings;
        Ok(SortedStore {
            file: Arc::new(file),
            layout,
            form,
            index: Some(Arc::new(index)),
            filter: filter.map(Arc::new),
            buckets: buckets.map(Arc::new),
        })
    }

    /// Ends a store without an index that only this process reads, and as long as it has it open
    /// ([`StoreFileWriter::finish_temporary`]).
    pub fn finish_temporary(mut self) -> Result<SortedStore> {
        self.place_group()?;
        if !self.block.is_empty() {
            self.seal()?;
        }
        let file = self.file.finish_temporary(self.records, self.deleted)?;
        let SortedStoreSettings { layout, form, .. } = self.settings;
        Ok(SortedStore { file: Arc::new(file), layout, form, index: None, filter: None, buckets: None })
    }

    /// The memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.file.heap_bytes()
            + self.block.heap_bytes()
            + self.group.bytes.capacity()
            + self.group.records.capacity() * size_of::<(u64, usize)>()
            + match &self.index {
                IndexBuilder::BlockPerfect { bucket, .. } => bucket.heap_bytes(),
                IndexBuilder::InOrder(_) => 0,
            }
    }
}
