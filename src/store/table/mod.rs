//! The SortedStore (SILT 3.3): records in hash order on flash, located with a compact index and one read.
//!
//! Blocks have one of three forms, described in docs/formats/sorted_store.md: *slots*, for records of a fixed size
//! below a block's; *checked slots*, which can be read and verified separately; and *stream* for all other records,
//! which may continue in the next blocks. The blocks of such a record are read together.
//!
//!  ```text
//!  slots          | s s s s |  s s s s |      checksum per block
//!  checked slots  | sc sc sc | sc sc sc |     checksum c per slot
//!  stream         | r rr rrr r|rr r rrr |     a record may span blocks
//!  ```
//!
//! With a filter the same structure is a HashStore ([`hash_store`](super::hash_store)), since a stream can contain
//! deletes. The paper's on-flash cuckoo table is the same structure too: checked slots with flags, in the order of the
//! slots of a LogStore, whose tags locate them. Its records are ordered between regions of the LogStore only, as those
//! of a table with a perfect index are between buckets.
//!
//! Deviations: the order is that of a 64-bit hash and not of the key, because users' keys are not hashes. Records of
//! any size need no second location for what does not fit a slot (the paper's inlining, section 4), because the index
//! locates blocks and not slots.

mod bucket_cursor;
mod cursor;
mod form;
mod index;
mod search;
mod writer;

use bucket_cursor::BucketCursor;
pub use cursor::FREED_PAYLOAD_MAX;
pub(crate) use cursor::OrderedCursor;
pub use form::BlockForm;
use index::blocks_of;
pub use index::{IndexKind, StoreIndex, StoreIndexBuilder, StoreIndexSettings};
use search::{TableSearch, find_ahead};
pub(crate) use writer::slots_per_block;
pub use writer::{
    BUCKET_BYTES_MAX, BUCKET_RECORDS_MIN, OrderedTableSettings, OrderedTableWriter, PIECES_PER_BUCKET_MAX,
    PIECES_PER_BUCKET_MIN, ReadablePart, TableForm, UNUSED_SHARE,
};

use super::Query;
use super::block::{BLOCK_HEADER_BYTES, Block};
use super::file::StoreFile;
use super::filter::{FilterKind, StoreFilter};
use super::merge::Cursor;
use super::record::{RecordProblem, RecordShape, RecordView};
use super::slots::CheckedSlots;
use crate::error::{CorruptFile, Result};
use crate::key::KeyHash;
use siltstone_device::{AlignedBuffer, Directory, Purpose};
use std::ops::Range;
use std::sync::Arc;

/// The most bytes of a span that are read at once, if no record is longer.
const SPAN_BYTES: usize = 1 << 20;

/// An immutable store of records in hash order. Its index and its filter are saved in the file, so either may be left
/// on flash. Handles of the same store with different parts in memory share the file and the common parts.
#[derive(Clone)]
pub struct OrderedTable {
    file: Arc<StoreFile>,
    shape: RecordShape,
    form: BlockForm,
    /// The positions of the slots, if each has a checksum.
    checked: Option<Box<CheckedSlots>>,
    /// `None` if all of the index is on flash, or if it does not exist.
    index: Option<Arc<StoreIndex>>,
    /// `None` if the filter is on flash or does not exist.
    filter: Option<Arc<StoreFilter>>,
}

/// The possible location of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// The record does not exist.
    Nowhere,
    /// In this span.
    In(Span),
    /// In one of several places: the index is not in memory, or several slots have the key's tag.
    Anywhere,
}

/// A part of a store that is read at once to look for a record. Numbers count from 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Span {
    /// Whole blocks.
    Blocks(Range<u64>),
    /// Slots with checksums: only the sectors that contain them are read.
    Slots(Range<u64>),
}

impl Span {
    /// Orders spans by position.
    pub fn order(&self) -> (u64, u64) {
        let (Span::Blocks(range) | Span::Slots(range)) = self;
        (range.start, range.end)
    }
}

impl OrderedTable {
    /// Opens a store and loads its index and filter.
    pub fn open(directory: &Directory, name: &str, tag: u64, shape: RecordShape) -> Result<OrderedTable> {
        OrderedTable::open_on_flash(directory, name, tag, shape)?.with_index()?.with_filter()
    }

    /// Opens a store and leaves index and filter on flash. Takes two or three reads, whatever its size.
    pub fn open_on_flash(
        directory: &Directory,
        name: &str,
        tag: u64,
        shape: RecordShape,
    ) -> Result<OrderedTable> {
        let file = StoreFile::open(directory, name, tag)?;
        // Engines write no others.
        if StoreIndex::section_of(file.footer()).0.kind == 0 {
            return Err(file.file().corrupt(file.length(), "a store with an index", "no index"));
        }
        OrderedTable::in_file(file, shape, false)
    }

    /// Returns the store in an open file, with its index if `with_index`. Without an index every lookup needs a search.
    pub fn in_file(file: StoreFile, shape: RecordShape, with_index: bool) -> Result<OrderedTable> {
        let form = BlockForm::of(&file, &shape.layout)?;
        StoreFilter::check_kind(&file)?;
        let mut store = OrderedTable::of(file, shape, form);
        store.index = StoreIndex::load_resident(&store.file, store.slots_per_block())?.map(Arc::new);
        if with_index { store.with_index() } else { Ok(store) }
    }

    /// Returns the store with nothing in memory.
    fn of(file: StoreFile, shape: RecordShape, form: BlockForm) -> OrderedTable {
        let checked = form.checked(&file, &shape.layout).map(Box::new);
        OrderedTable { file: Arc::new(file), shape, form, checked, index: None, filter: None }
    }

    fn slots_per_block(&self) -> u32 {
        slots_per_block(&self.shape.layout, self.form, self.file.footer().block_bytes)
    }

    /// Returns the same store with its index in memory; reads and verifies it unless it is already there. Decoding
    /// takes as much memory again for a moment.
    pub fn with_index(&self) -> Result<OrderedTable> {
        if self.has_index() {
            return Ok(self.clone());
        }
        let index = StoreIndex::load(&self.file, self.form, self.slots_per_block())?;
        Ok(OrderedTable { index: index.map(Arc::new), ..self.clone() })
    }

    /// Returns the same store with its index on flash, except for what lookups need in any case.
    pub fn without_index(&self) -> OrderedTable {
        OrderedTable { index: self.index.as_ref().and_then(StoreIndex::resident), ..self.clone() }
    }

    /// Returns the same store with its filter in memory, if it has one; otherwise like
    /// [`with_index`](Self::with_index).
    pub fn with_filter(&self) -> Result<OrderedTable> {
        if self.has_filter() {
            return Ok(self.clone());
        }
        let filter = StoreFilter::load(&self.file)?;
        Ok(OrderedTable { filter: filter.map(Arc::new), ..self.clone() })
    }

    /// Returns the same store with its filter on flash.
    pub fn without_filter(&self) -> OrderedTable {
        OrderedTable { filter: None, ..self.clone() }
    }

    /// Returns the same store without most of the filter's memory for keys of lower placements: it may contain every
    /// such key.
    pub fn without_filter_before(&self, placement: u64) -> OrderedTable {
        // Filters that cannot be cut stay whole: they are correct for all placements.
        let part = self.filter.as_ref().and_then(|filter| filter.without_before(placement));
        OrderedTable { filter: part.map(Arc::new).or_else(|| self.filter.clone()), ..self.clone() }
    }

    /// Returns the same store with the index that `other`, another handle of it, has in memory.
    pub fn with_index_of(&self, other: &OrderedTable) -> OrderedTable {
        OrderedTable { index: other.index.clone(), ..self.clone() }
    }

    /// Returns the same store with the filter that `other`, another handle of it, has in memory.
    pub fn with_filter_of(&self, other: &OrderedTable) -> OrderedTable {
        OrderedTable { filter: other.filter.clone(), ..self.clone() }
    }

    /// Returns whether all of its index is in memory, or it has none.
    pub fn has_index(&self) -> bool {
        self.index.as_ref().is_some_and(|index| index.is_whole()) || self.file.footer().index.kind == 0
    }

    /// Returns the names of the kinds of its saved index and filter. Pruned and dense tries have the same name.
    pub fn kind_names(&self) -> (&'static str, &'static str) {
        let footer = self.file.footer();
        let index = StoreIndex::name_in(footer, self.form.is_checked());
        let filter = FilterKind::of_section(footer.filter.kind);
        (index, filter.map_or("none", FilterKind::name))
    }

    /// Returns whether its filter is in memory, or it has none.
    pub fn has_filter(&self) -> bool {
        self.filter.is_some() || !StoreIndex::has_filter(self.file.footer())
    }

    /// Returns whether records are ordered between buckets only. Such a store cannot be searched without a part of its
    /// index.
    pub fn is_in_buckets(&self) -> bool {
        StoreIndex::is_in_buckets(self.file.footer())
    }

    /// Returns the records in hash order, read `piece_bytes` at a time.
    pub fn cursor(&self, purpose: Purpose, piece_bytes: usize) -> Box<dyn Cursor> {
        match self.is_in_buckets() {
            true => Box::new(BucketCursor::new(self, purpose, piece_bytes)),
            false => Box::new(OrderedCursor::new(self, purpose, piece_bytes)),
        }
    }

    /// Returns the file, which may outlive the table.
    pub fn file(&self) -> &Arc<StoreFile> {
        &self.file
    }

    /// Returns the shape of the records.
    pub fn shape(&self) -> &RecordShape {
        &self.shape
    }

    /// Returns the form of the blocks.
    pub fn form(&self) -> BlockForm {
        self.form
    }

    /// Returns the index, or the part of it that is in memory.
    pub fn index(&self) -> Option<&Arc<StoreIndex>> {
        self.index.as_ref()
    }

    /// Returns the filter, if it is in memory.
    pub fn filter(&self) -> Option<&Arc<StoreFilter>> {
        self.filter.as_ref()
    }

    /// Returns the settings for another index over these blocks.
    pub fn index_settings(&self, kind: IndexKind) -> StoreIndexSettings {
        let footer = self.file.footer();
        StoreIndexSettings {
            kind,
            slots_per_block: self.slots_per_block(),
            expected_records: footer.records,
            expected_blocks: footer.blocks,
        }
    }

    /// Returns the number of records, including deletes.
    pub fn records(&self) -> u64 {
        self.file.footer().records
    }

    /// Returns the memory of the index, in bytes; of the resident part if the index is on flash.
    pub fn index_bytes(&self) -> usize {
        self.index.as_ref().map_or(0, |index| index.heap_bytes())
    }

    /// Returns the memory of the filter, in bytes, or of tags.
    pub fn filter_bytes(&self) -> usize {
        let tags = self.index.as_ref().map_or(0, |index| index.tags_bytes());
        tags + self.filter.as_ref().map_or(0, |filter| filter.heap_bytes())
    }

    /// Returns the memory that dropping index and filter would free, in bytes.
    pub fn droppable_bytes(&self) -> (u64, u64) {
        let resident = self.index.as_ref().and_then(StoreIndex::resident);
        let kept = resident.map_or(0, |index| index.heap_bytes());
        let filter = self.filter.as_ref().map_or(0, |filter| filter.heap_bytes());
        ((self.index_bytes() - kept) as u64, filter as u64)
    }

    /// Returns the approximate memory that index and filter would take in addition to their resident parts, in bytes.
    pub fn saved_bytes(&self) -> (u64, u64) {
        let footer = self.file.footer();
        let outline = self.index.as_ref().map_or(0, |index| index.outline_bytes()) as u64;
        (footer.index.length.saturating_sub(outline), footer.filter.length)
    }

    /// Returns the blocks that contain any part of a span.
    pub fn blocks_of(&self, span: &Span) -> Range<u64> {
        match span {
            Span::Blocks(blocks) => blocks.clone(),
            Span::Slots(slots) => blocks_of(slots.clone(), self.slots_per_block().into()),
        }
    }

    /// Returns the span to read for the units that an index returns.
    #[inline]
    fn span(&self, units: Range<u64>, index: &StoreIndex) -> Option<Span> {
        if index.by_slot && self.checked.is_some() {
            // Limited to the file: of perfect indexes and fences, an open does not compare the counts with the footer.
            let slots = units.start..units.end.min(self.records());
            return (slots.start < slots.end).then_some(Span::Slots(slots));
        }
        let blocks = blocks_of(units, index.units_per_block);
        let blocks = blocks.start..blocks.end.min(self.file.footer().blocks);
        (blocks.start < blocks.end).then_some(Span::Blocks(blocks))
    }

    /// Returns the position of a span in the file: offset and length in bytes.
    #[inline]
    pub fn extent_of(&self, span: &Span) -> (u64, usize) {
        match (span, &self.checked) {
            (Span::Slots(slots), Some(checked)) => checked.extent_of(slots),
            _ => self.file.extent_of(&self.blocks_of(span)),
        }
    }

    /// Returns whether a span is too long to be read at once: several long records share a place in the index, or the
    /// index is damaged and may lead to any blocks. [`look_up`](Self::look_up) then reads it in pieces.
    pub fn is_long(&self, span: &Span) -> bool {
        self.extent_of(span).1 > self.span_bytes_max()
    }

    fn span_bytes_max(&self) -> usize {
        // The longest record, with the blocks in which it begins and ends.
        let record = self.shape.layout.stream_bytes_max() + 2 * self.file.footer().block_bytes as usize;
        record.max(SPAN_BYTES)
    }

    /// Returns where the record of a key may be. If only a part of the index is in memory, this reads a piece of the
    /// rest through `buffer`; otherwise it reads nothing.
    #[inline]
    pub fn locate(&self, query: &Query<'_>, buffer: &mut AlignedBuffer) -> Result<Located> {
        // First, since the filter is in memory: a perfect index on flash takes a read.
        if self.filter.as_ref().is_some_and(|filter| !filter.may_contain(query.hash)) {
            return Ok(Located::Nowhere);
        }
        let Some(index) = &self.index else { return Ok(Located::Anywhere) };
        let Some(units) = index.locate(&self.file, query, buffer)? else { return Ok(Located::Anywhere) };
        Ok(self.span(units, index).map_or(Located::Nowhere, Located::In))
    }

    /// Calls `found` with the record of a key, if it exists, wherever index and filter are. Takes at most one read if
    /// both are in memory, one more for buckets with the index on flash, and otherwise a few.
    pub fn look_up<T>(
        &self,
        query: &Query<'_>,
        buffer: &mut AlignedBuffer,
        mut found: impl FnMut(&RecordView<'_>) -> T,
    ) -> Result<Option<T>> {
        match (self.locate(query, buffer)?, &self.index) {
            (Located::Nowhere, _) => Ok(None),
            (Located::In(span), _) => self.look_up_in(span, query, buffer, &mut found),
            (Located::Anywhere, None) => TableSearch { table: self, query: *query }.run(found),
            (Located::Anywhere, Some(index)) => index
                .slots_with_tag(query.hash)
                .find_map(|slot| {
                    self.look_up_in(Span::Slots(slot..slot + 1), query, buffer, &mut found).transpose()
                })
                .transpose(),
        }
    }

    /// Reads a span, and calls `found` with the record of the key, if it is there.
    pub fn look_up_in<T>(
        &self,
        span: Span,
        query: &Query<'_>,
        buffer: &mut AlignedBuffer,
        found: &mut impl FnMut(&RecordView<'_>) -> T,
    ) -> Result<Option<T>> {
        let extent = self.extent_of(&span);
        if extent.1 > self.span_bytes_max() {
            return self.look_up_in_pieces(span, query, buffer, found);
        }
        let read = self.file.read_extent(query.purpose, extent, buffer)?;
        let bytes = buffer.get_mut(read).unwrap_or_default();
        Ok(self.find(span, bytes, query.key)?.map(|record| found(&record)))
    }

    /// Looks for the record of the key in a span that is too long to be read at once.
    #[cold]
    fn look_up_in_pieces<T>(
        &self,
        span: Span,
        query: &Query<'_>,
        buffer: &mut AlignedBuffer,
        found: &mut impl FnMut(&RecordView<'_>) -> T,
    ) -> Result<Option<T>> {
        let Range { mut start, end } = self.blocks_of(&span);
        if self.form == BlockForm::Stream {
            let cursor = OrderedCursor::new(self, query.purpose, SPAN_BYTES).begin_at(start);
            return find_ahead(cursor, query, end, found);
        }
        // No slot is in two blocks.
        let blocks = (SPAN_BYTES / self.file.footer().block_bytes as usize).max(1) as u64;
        while start < end {
            let piece = start..end.min(start.saturating_add(blocks));
            start = piece.end;
            if let Some(value) = self.look_up_in(Span::Blocks(piece), query, buffer, found)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Returns a block such that all records from a placement on begin in it or in later blocks: the last such block,
    /// or one shortly before it. The records must be ordered throughout. Reads nothing if the index is in memory and no
    /// trie, else a handful of blocks.
    fn first_block_from(&self, purpose: Purpose, placement: u64) -> Result<u64> {
        if placement == 0 {
            return Ok(0);
        }
        // No index locates by the fingerprint.
        let hash = KeyHash { placement, fingerprint: 0 };
        match self.index().and_then(|index| index.first_block_from(placement)) {
            Some(block) => Ok(block),
            None => TableSearch { table: self, query: Query { purpose, hash, key: &[] } }.first_block(),
        }
    }

    /// Returns false only if the key is certainly absent. Reads nothing.
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        self.records() > 0
            && self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash))
            && self.index.as_ref().is_none_or(|index| index.may_contain(hash))
    }

    /// Finds the record of a key in `bytes`, which were read from `span`. Verifies them, and joins a record that spans
    /// blocks.
    pub fn find<'b>(&self, span: Span, bytes: &'b mut [u8], key: &[u8]) -> Result<Option<RecordView<'b>>> {
        let block_bytes = self.file.footer().block_bytes as usize;
        if let Some(checked) = &self.checked {
            return self.find_checked(checked, span, bytes, key);
        }
        let blocks = self.blocks_of(&span);
        if self.form == BlockForm::Stream {
            let stream = self.gather(blocks.start, bytes, block_bytes)?;
            let bytes: &'b [u8] = bytes;
            return Ok(self.find_in_stream(bytes.get(stream).unwrap_or_default(), key));
        }
        let bytes: &'b [u8] = bytes;
        for (number, block) in (blocks.start..).zip(bytes.chunks_exact(block_bytes)) {
            let block = self.block(number, block, self.verifies_gets())?;
            if let Some(record) = self.find_slot(block.payload, key) {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Like [`find`](Self::find), for slots with checksums. The slot of the key must be intact; if no slot has the key,
    /// all must be.
    fn find_checked<'b>(
        &self,
        checked: &CheckedSlots,
        span: Span,
        bytes: &'b [u8],
        key: &[u8],
    ) -> Result<Option<RecordView<'b>>> {
        let (slots, start) = match span {
            Span::Blocks(blocks) => {
                (checked.in_blocks(&blocks), blocks.start * self.file.footer().block_bytes as u64)
            }
            Span::Slots(slots) => (slots.clone(), checked.offset_of(slots.start)),
        };
        let slot_at = |number: u64| {
            let at = (checked.offset_of(number) - start) as usize;
            bytes.get(at..at + checked.stride()).unwrap_or_default()
        };
        let file = self.file.file();
        for number in slots.clone() {
            let slot = slot_at(number);
            let content = slot.get(..checked.slot_bytes).unwrap_or_default();
            let record = self.shape.layout.decode_slot(content, self.form.has_flags());
            let Some(record) = record.filter(|record| record.key == key) else { continue };
            if self.verifies_gets() {
                checked.open(file, number, slot)?;
            }
            return Ok(Some(record));
        }
        if self.verifies_gets() {
            // A damaged slot may be that of the key: only intact slots prove that it is absent.
            slots.clone().try_for_each(|number| checked.open(file, number, slot_at(number)).map(drop))?;
        }
        Ok(None)
    }

    /// Returns whether lookups verify checksums.
    fn verifies_gets(&self) -> bool {
        !self.file.file().skips_checksums_on_get()
    }

    /// Returns the contents of a block. `verify` says whether checksums are computed.
    pub fn block<'b>(&self, number: u64, bytes: &'b [u8], verify: bool) -> Result<Block<'b>> {
        match &self.checked {
            Some(checked) => checked.open_block(self.file.file(), number, bytes, verify),
            None => Block::open(self.file.file(), self.file.footer().tag, number, bytes, verify),
        }
    }

    /// Decodes the first record in the payload of blocks, and returns its length there.
    #[inline]
    pub fn decode<'b>(
        &self,
        payload: &'b [u8],
    ) -> std::result::Result<(RecordView<'b>, usize), RecordProblem> {
        let RecordShape { layout, .. } = &self.shape;
        let Some(slot_bytes) = self.form.slot_bytes(layout) else {
            return layout.decode_stream(payload).map(|(_, record, taken)| (record, taken));
        };
        let stride = self.checked.as_ref().map_or(slot_bytes, |checked| checked.stride());
        // With the checksum behind it, which `block` has verified.
        let slot = payload.get(..stride).ok_or(RecordProblem::Short(stride))?;
        let record = slot.get(..slot_bytes).and_then(|slot| layout.decode_slot(slot, self.form.has_flags()));
        Ok((record.ok_or(RecordProblem::Malformed("a record of the store's size"))?, stride))
    }

    fn find_slot<'b>(&self, payload: &'b [u8], key: &[u8]) -> Option<RecordView<'b>> {
        let slot_bytes = self.shape.layout.slot_bytes(false)?;
        let (key_length, value_length) =
            self.shape.layout.fixed.filter(|(length, _)| *length == key.len())?;
        let key_at = slot_bytes - key_length - value_length;
        let mut slots = payload.chunks_exact(slot_bytes);
        let slot = slots.find(|slot| slot.get(key_at..key_at + key_length) == Some(key))?;
        self.shape.layout.decode_slot(slot, false)
    }

    /// Moves the payloads of all blocks together, and returns their range, beginning with the first record.
    fn gather(&self, first: u64, bytes: &mut [u8], block_bytes: usize) -> Result<Range<usize>> {
        let (mut start, mut end) = (None, 0);
        for at in (0..bytes.len() / block_bytes).map(|index| index * block_bytes) {
            let number = first + (at / block_bytes) as u64;
            let block = self.block(number, &bytes[at..at + block_bytes], self.verifies_gets())?;
            let payload_at = at + BLOCK_HEADER_BYTES;
            let payload = payload_at..payload_at + block.payload.len();
            match (start, block.first_record) {
                (Some(_), _) => {
                    let length = payload.len();
                    // Payloads move towards the start over headers, so no byte is overwritten before it has moved.
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
        // If no record begins in the blocks, the range is empty.
        Ok(start.unwrap_or(0)..end)
    }

    fn find_in_stream<'b>(&self, mut stream: &'b [u8], key: &[u8]) -> Option<RecordView<'b>> {
        // The last record may continue in a block that was not read; then it is not the one looked for.
        while let Ok((_, record, taken)) = self.shape.layout.decode_stream(stream) {
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
