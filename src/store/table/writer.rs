//! Writes a store in hash order, and builds its index at the same time.

use super::index::{IndexKind, StoreIndex, StoreIndexBuilder, StoreIndexSettings};
use super::{BlockForm, OrderedTable};
use crate::error::Result;
use crate::key::RecordLayout;
use crate::store::StoreFilter;
use crate::store::block::{BLOCK_HEADER_BYTES, BlockBuilder};
use crate::store::file::StoreFileWriter;
use crate::store::merge::PlacedRecord;
use crate::store::record::RecordShape;
use crate::store::slots::{SLOT_CHECKSUM_BYTES, slot_checksum};
use siltstone_device::{Directory, Purpose};
use siltstone_index::perfect::{PerfectIndexBuilder, PerfectIndexSettings};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A record continues in the next block if more than one part in this many of the block would be unused otherwise.
pub const UNUSED_SHARE: usize = 32;

/// Slots get their own checksums if these take at most one part in this many of the space.
const CHECKED_SHARE: u32 = 64;

/// The size of a bucket of a block-perfect index, which a merge holds in memory twice, in pieces: the minimum, which
/// applies to small records, and the maximum.
pub const PIECES_PER_BUCKET_MIN: usize = 2;
pub const PIECES_PER_BUCKET_MAX: usize = 4;
/// The records of a bucket that the maximum should admit. Each bucket takes 11 bits of the index.
pub const BUCKET_RECORDS_MIN: usize = 64;
/// The maximum size of a bucket in bytes, unless a piece is larger.
pub const BUCKET_BYTES_MAX: usize = 256 << 10;

/// The records per block that a block-perfect index supports.
const RECORDS_PER_BLOCK: RangeInclusive<u32> = 2..=256;

/// The number of bytes by which the memory for a bucket grows.
const GROWTH_BYTES: usize = 4096;

/// The settings of a new store of any form.
#[derive(Debug, Clone)]
pub struct OrderedTableSettings {
    /// The tag of the store, a random number.
    pub tag: u64,
    /// The shape of the records.
    pub shape: RecordShape,
    /// The size of a block, in bytes.
    pub block_bytes: u32,
    /// The approximate number of records.
    pub expected_records: u64,
    /// The approximate bytes of keys and values.
    pub expected_bytes: u64,
    /// The purpose of the writes.
    pub purpose: Purpose,
    /// The size of writes to the file, in bytes.
    pub piece_bytes: usize,
}

/// The form of a new store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableForm {
    /// The form of the blocks.
    pub blocks: BlockForm,
    /// The index, if there is one. Tries require slots.
    pub index: Option<IndexKind>,
    /// Whether every block is filled with slots, so that any other index can be built over the same blocks later (ECT
    /// 3.1.6). Otherwise blocks are left partly empty where that saves lookups the reading of two blocks.
    pub fill_blocks: bool,
}

impl TableForm {
    /// Returns the best form for records of a layout with this index: slots if a block holds at least one record. Slots
    /// have no tombstones. They have checksums if the index locates slots, so that only the slot must be read, or if
    /// checksums take hardly any space.
    pub fn for_index(layout: &RecordLayout, block_bytes: u32, index: Option<IndexKind>) -> TableForm {
        let plain = BlockForm::Slots.slots_in(layout, block_bytes);
        let checked = BlockForm::CheckedSlots.slots_in(layout, block_bytes);
        let is_packed = matches!(index, Some(IndexKind::BlockPerfect | IndexKind::EntropyTrie));
        let is_cheap = checked.unwrap_or(0) * CHECKED_SHARE >= plain.unwrap_or(0) * (CHECKED_SHARE - 1);
        let blocks = match (plain, checked) {
            (_, Some(_)) if index.is_some_and(IndexKind::locates_slots) || (is_packed && is_cheap) => {
                BlockForm::CheckedSlots
            }
            (Some(_), _) => BlockForm::Slots,
            _ => BlockForm::Stream,
        };
        TableForm { blocks, index, fill_blocks: false }
    }

    /// Returns whether an index of this kind supports records of a layout.
    pub fn suits(index: IndexKind, layout: &RecordLayout, block_bytes: u32) -> bool {
        let form = Self::for_index(layout, block_bytes, Some(index)).blocks;
        match index {
            IndexKind::Fences => true,
            _ if form == BlockForm::Stream => false,
            IndexKind::BlockPerfect => {
                RECORDS_PER_BLOCK.contains(&slots_per_block(layout, form, block_bytes))
            }
            _ => !index.locates_slots() || form == BlockForm::CheckedSlots,
        }
    }
}

impl OrderedTableSettings {
    fn expected_blocks(&self, form: BlockForm) -> u64 {
        match form.slots_in(&self.shape.layout, self.block_bytes) {
            Some(slots_per_block) => self.expected_records.div_ceil(slots_per_block.into()),
            None => self.expected_bytes / (u64::from(self.block_bytes) - BLOCK_HEADER_BYTES as u64) + 1,
        }
    }
}

/// Returns the number of records in a full block of a form, if all have the same size; otherwise 1.
pub(crate) fn slots_per_block(layout: &RecordLayout, form: BlockForm, block_bytes: u32) -> u32 {
    form.slots_in(layout, block_bytes).unwrap_or(1)
}

/// Builds the index of a table while the table is written.
enum IndexBuilder {
    /// The table has no index.
    None,
    /// The records are in hash order.
    InOrder(Box<StoreIndexBuilder>),
    /// The index assigns the records of a bucket to blocks.
    Perfect { index: Box<PerfectIndexBuilder>, bucket: PendingBucket },
}

impl IndexBuilder {
    fn new(form: TableForm, settings: &OrderedTableSettings) -> Result<Self> {
        let slots_per_block = slots_per_block(&settings.shape.layout, form.blocks, settings.block_bytes);
        let expected_records = settings.expected_records;
        let Some(kind) = form.index else { return Ok(IndexBuilder::None) };
        if kind.is_perfect() {
            let slot_bytes = settings.shape.layout.slot_bytes(false).unwrap_or(1).max(1);
            let bucket_bytes_max = BUCKET_BYTES_MAX.max(settings.piece_bytes);
            let pieces = |count| count * settings.piece_bytes;
            let bucket_bytes = (BUCKET_RECORDS_MIN * slot_bytes)
                .clamp(pieces(PIECES_PER_BUCKET_MIN), pieces(PIECES_PER_BUCKET_MAX))
                .min(bucket_bytes_max);
            let bucket_records = (bucket_bytes / slot_bytes) as u32;
            let records_per_block = if kind.locates_slots() { 1 } else { slots_per_block };
            let settings = PerfectIndexSettings { expected_records, records_per_block, bucket_records };
            let index = Box::new(PerfectIndexBuilder::new(settings)?);
            return Ok(IndexBuilder::Perfect { index, bucket: PendingBucket::default() });
        }
        Ok(IndexBuilder::InOrder(Box::new(StoreIndexBuilder::new(&StoreIndexSettings {
            kind,
            slots_per_block,
            expected_records,
            expected_blocks: settings.expected_blocks(form.blocks),
        })?)))
    }

    /// Returns whether a lookup of either of two placements would read both blocks if a block ended between them.
    fn would_share(&self, placement: u64, next: u64) -> bool {
        match self {
            IndexBuilder::InOrder(index) => index.would_share(placement, next),
            IndexBuilder::Perfect { .. } | IndexBuilder::None => false,
        }
    }
}

/// The slots of one bucket of a perfect index, in the order in which they were added.
#[derive(Default)]
struct PendingBucket {
    /// The placement of the first one.
    first: u64,
    slots: Vec<u8>,
    /// The assigned block, or slot, of each; filled when the bucket is complete.
    blocks: Vec<u64>,
    order: Vec<u32>,
}

/// The blocks that are being filled.
struct Blocks {
    file: StoreFileWriter,
    block: BlockBuilder,
    store_tag: u64,
    /// The number of slots in a block, if each has a checksum.
    checked_per_block: Option<u64>,
}

impl Blocks {
    /// Writes the block and begins the next one.
    fn seal(&mut self) -> Result<()> {
        let file = &mut self.file;
        // The number is in the checksum of the block: it must be that of the block's place in the file.
        self.block.seal(file.next_block(), |block| file.append_block(block))
    }

    /// Writes the block unless it is empty.
    fn seal_last(&mut self) -> Result<()> {
        if self.block.is_empty() { Ok(()) } else { self.seal() }
    }

    /// Adds a slot to the block, or to the next one if it does not fit.
    fn place_slot(&mut self, slot: &[u8]) -> Result<()> {
        let checksum_bytes = if self.checked_per_block.is_some() { SLOT_CHECKSUM_BYTES } else { 0 };
        // A slot never spans blocks, because readers compute its place from its number.
        if slot.len() + checksum_bytes > self.block.room() {
            self.seal()?;
        }
        self.block.begin_record();
        let before = self.block.used() / (slot.len() + checksum_bytes).max(1);
        self.block.fill(slot);
        // The checksum covers the slot's number, so a slot at a wrong place is detected.
        if let Some(per_block) = self.checked_per_block {
            let number = self.file.next_block() * per_block + before as u64;
            self.block.fill(&slot_checksum(self.store_tag, number, slot));
        }
        Ok(())
    }
}

impl PendingBucket {
    /// Writes the slots to their blocks. The first block may already contain slots, and the last one is left open.
    fn place(&mut self, to: &mut Blocks) -> Result<()> {
        let slot_bytes = self.slots.len() / self.blocks.len().max(1);
        self.order.extend(0..self.blocks.len() as u32);
        let blocks = &self.blocks;
        // By block, or by slot: the order of the file.
        self.order.sort_by_key(|&slot| blocks.get(slot as usize));
        for &slot in &self.order {
            let at = slot as usize * slot_bytes;
            to.place_slot(self.slots.get(at..at + slot_bytes).unwrap_or_default())?;
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

/// Writes records in hash order to an [`OrderedTable`].
pub struct OrderedTableWriter {
    settings: OrderedTableSettings,
    form: TableForm,
    blocks: Blocks,
    index: IndexBuilder,
    group: Group,
    records: u64,
    deleted: u64,
    sealed: Sealed,
    /// What was sealed when a readable part was requested that was not written yet.
    wanted: Option<Sealed>,
}

/// The complete blocks at some moment.
#[derive(Clone, Copy, Default)]
struct Sealed {
    blocks: u64,
    /// They have all records of lower placements.
    placement: u64,
}

/// The readable part of a table that is being written.
pub struct ReadablePart {
    /// It has all records of lower placements than this.
    pub placement: u64,
    /// The table as far as it goes, with its index.
    pub table: OrderedTable,
}

/// Records of one cell of the fences, which should not be separated by the end of a block.
#[derive(Default)]
struct Group {
    bytes: Vec<u8>,
    /// The placement of each record, and its end in `bytes`.
    records: Vec<(u64, usize)>,
}

impl OrderedTableWriter {
    /// Starts a new file.
    pub fn create(
        directory: &Directory,
        name: &str,
        form: TableForm,
        settings: OrderedTableSettings,
    ) -> Result<Self> {
        let index = IndexBuilder::new(form, &settings)?;
        // No manifest names the file before it is complete and synced. After a crash the next open removes it.
        let file = StoreFileWriter::create(
            directory.create_over_retired(name, settings.expected_bytes)?,
            form.blocks as u8,
            settings.tag,
            settings.block_bytes,
            settings.purpose,
            settings.piece_bytes,
        )?;
        let (store_tag, block_bytes) = (settings.tag, settings.block_bytes as usize);
        // Checked slots have their own checksums. Their lookups read no block header.
        let is_checked = form.blocks.is_checked();
        let new_block = if is_checked { BlockBuilder::bare } else { BlockBuilder::new };
        let per_block = slots_per_block(&settings.shape.layout, form.blocks, settings.block_bytes);
        let checked_per_block = is_checked.then_some(per_block.into());
        let blocks = Blocks { file, block: new_block(store_tag, block_bytes), store_tag, checked_per_block };
        Ok(OrderedTableWriter {
            settings,
            form,
            blocks,
            index,
            group: Group::default(),
            records: 0,
            deleted: 0,
            sealed: Sealed::default(),
            wanted: None,
        })
    }

    /// Returns the records in the blocks that are complete, or were at the first call since it last returned any.
    /// `None` until these are written, and for tries, which have no index before the last record.
    pub fn readable_part(&mut self) -> Option<ReadablePart> {
        // Fixed at the first call: if it moved with each block, it would always be ahead of what is written.
        let Sealed { blocks, placement } = *self.wanted.get_or_insert(self.sealed);
        // They are complete, but still in the buffer of the file. A later call returns the same ones.
        if self.blocks.file.readable_blocks() < blocks {
            return None;
        }
        self.wanted = None;
        let OrderedTableSettings { shape, block_bytes, .. } = &self.settings;
        let (shape, form) = (*shape, self.form.blocks);
        let slots = form.slots_in(&shape.layout, *block_bytes);
        let index = match &self.index {
            IndexBuilder::None => None,
            IndexBuilder::InOrder(index) => index.so_far(),
            // Only finished buckets: the records of the current one have no blocks yet.
            IndexBuilder::Perfect { index, .. } => {
                Some(StoreIndex::perfect(index.finished_buckets(), slots.unwrap_or(1)))
            }
        }?;
        // For a stream an upper bound: the blocks that are not readable yet have some of these records.
        let records = slots.map_or(self.records, |slots| self.records.min(blocks * u64::from(slots)));
        let file = self.blocks.file.readable_part(blocks, records, self.deleted.min(records));
        let table = OrderedTable { index: Some(Arc::new(index)), ..OrderedTable::of(file, shape, form) };
        Some(ReadablePart { placement, table })
    }

    /// Notes that the open block has no record of a lower placement, if it has begun since the last record.
    fn note_sealed(&mut self, placement: u64) {
        let blocks = self.blocks.file.next_block();
        if blocks > self.sealed.blocks {
            self.sealed = Sealed { blocks, placement };
        }
    }

    /// Returns the number of records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Adds the next record in hash order.
    pub fn push(&mut self, entry: &PlacedRecord<'_>) -> Result<()> {
        self.records += 1;
        self.deleted += u64::from(entry.record.value.is_none());
        let placement = entry.hash.placement;
        // A perfect index assigns blocks only when a bucket is complete: its slots wait in memory.
        if let IndexBuilder::Perfect { index, bucket } = &mut self.index {
            let mut placed = None;
            // Before this record is added: the slots that wait in memory are those of the bucket before.
            if let Some(blocks) = index.push(placement)? {
                bucket.blocks.extend_from_slice(blocks);
                bucket.place(&mut self.blocks)?;
                placed = Some(bucket.first);
            }
            if bucket.slots.is_empty() {
                bucket.first = placement;
            }
            let slot_bytes = self.settings.shape.layout.slot_bytes(false).unwrap_or(0);
            // In steps, because doubling would take memory that the account of the merge does not expect.
            if bucket.slots.capacity() - bucket.slots.len() < slot_bytes {
                bucket.slots.reserve_exact(slot_bytes.max(GROWTH_BYTES));
            }
            self.settings.shape.layout.encode_slot(&entry.record, false, &mut bucket.slots);
            // After the bucket is placed: the blocks that it has completed also have the records before it.
            placed.into_iter().for_each(|placement| self.note_sealed(placement));
            return Ok(());
        }
        let form = self.form.blocks;
        let packed = form.is_checked() || (form == BlockForm::Slots && self.form.fill_blocks);
        // Records stay in one group while the end of a block between them would make their lookups read two blocks.
        let begins_group = match self.group.records.last() {
            Some(&(last, _)) => packed || !self.index.would_share(last, placement),
            None => false,
        };
        if begins_group {
            self.place_group()?;
        }
        let layout = &self.settings.shape.layout;
        match form {
            BlockForm::Stream => layout.encode_stream(&entry.record, 0, &mut self.group.bytes),
            _ => layout.encode_slot(&entry.record, form.has_flags(), &mut self.group.bytes),
        }
        self.group.records.push((placement, self.group.bytes.len()));
        Ok(())
    }

    fn place_group(&mut self) -> Result<()> {
        // Taken, because placing a record borrows the writer. Its memory is put back below.
        let group = std::mem::take(&mut self.group);
        let mut start = 0;
        let room = self.blocks.block.room();
        if group.bytes.len() > room {
            // A record continues in the next block only if the rest of this one is too large to waste.
            let may_straddle = self.form.blocks == BlockForm::Stream
                && room > self.settings.block_bytes as usize / UNUSED_SHARE;
            if !may_straddle && !self.blocks.block.is_empty() {
                self.blocks.seal()?;
            }
        }
        for &(placement, end) in &group.records {
            self.place_record(placement, &group.bytes[start..end])?;
            start = end;
        }
        self.group = group;
        self.group.bytes.clear();
        // The memory of a very large record is not kept until the end.
        self.group.bytes.shrink_to(self.settings.piece_bytes);
        self.group.records.clear();
        Ok(())
    }

    fn place_record(&mut self, placement: u64, mut record: &[u8]) -> Result<()> {
        let blocks = &mut self.blocks;
        let first = if self.form.blocks == BlockForm::Stream {
            // With no byte left here, the record begins in the next block.
            if blocks.block.room() == 0 {
                blocks.seal()?;
            }
            let first = blocks.file.next_block();
            blocks.block.begin_record();
            loop {
                let taken = blocks.block.fill(record);
                record = &record[taken..];
                if record.is_empty() {
                    break first;
                }
                blocks.seal()?;
            }
        } else {
            blocks.place_slot(record)?;
            blocks.file.next_block()
        };
        if let IndexBuilder::InOrder(index) = &mut self.index {
            // All blocks that have a byte of the record, so that one read fetches it.
            index.push(placement, first..blocks.file.next_block() + 1)?;
        }
        // The record itself does not count, because its last bytes may be in the open block.
        self.note_sealed(placement);
        Ok(())
    }

    /// Writes the rest, and saves index and filter. Does not sync.
    pub fn finish(mut self, filter: Option<StoreFilter>) -> Result<OrderedTable> {
        // The last group still waits for a record of another cell.
        self.place_group()?;
        let OrderedTableSettings { shape, block_bytes, .. } = self.settings;
        let form = self.form.blocks;
        let slots_per_block = slots_per_block(&shape.layout, form, block_bytes);
        let mut index = match self.index {
            IndexBuilder::None => None,
            IndexBuilder::InOrder(index) => Some(index.finish()?),
            IndexBuilder::Perfect { index, mut bucket } => {
                let (index, blocks) = index.finish();
                bucket.blocks = blocks;
                bucket.place(&mut self.blocks)?;
                Some(StoreIndex::perfect(index, slots_per_block))
            }
        };
        // Before the sections: they follow the last block, and the footer has the number of blocks.
        self.blocks.seal_last()?;
        let (index_kind, index_bytes) = index.as_mut().map_or((0, Vec::new()), StoreIndex::encode);
        let (filter_kind, filter_bytes) =
            filter.as_ref().map_or((0, Vec::new()), StoreFilter::encode_section);
        // The footer comes last. Without it the file cannot be opened.
        let file = self.blocks.file.finish(
            self.records,
            self.deleted,
            (index_kind, &index_bytes),
            (filter_kind, &filter_bytes),
        )?;
        let (index, filter) = match filter {
            // These tags locate the records, so they are no filter that may be dropped.
            Some(StoreFilter::Cuckoo(tags)) if form == BlockForm::CuckooSlots => {
                (Some(StoreIndex::of_tags(tags, slots_per_block)), None)
            }
            filter => (index, filter),
        };
        let (index, filter) = (index.map(Arc::new), filter.map(Arc::new));
        Ok(OrderedTable { index, filter, ..OrderedTable::of(file, shape, form) })
    }

    /// Ends a temporary store without an index, which only this process reads while it is open
    /// ([`StoreFileWriter::finish_temporary`]).
    pub fn finish_temporary(mut self) -> Result<OrderedTable> {
        self.place_group()?;
        self.blocks.seal_last()?;
        let file = self.blocks.file.finish_temporary(self.records, self.deleted)?;
        let (shape, form) = (self.settings.shape, self.form.blocks);
        Ok(OrderedTable::of(file, shape, form))
    }

    /// Returns the memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.blocks.file.heap_bytes()
            + self.blocks.block.heap_bytes()
            + self.group.bytes.capacity()
            + self.group.records.capacity() * size_of::<(u64, usize)>()
            + match &self.index {
                IndexBuilder::Perfect { bucket, .. } => bucket.heap_bytes(),
                IndexBuilder::InOrder(index) => index.heap_bytes(),
                IndexBuilder::None => 0,
            }
    }
}
