//! The on-flash cuckoo table: the records of a LogStore in the order of its slots.
//!
//! Each slot has its own checksum, so a get reads only the sectors that contain it.
//!
//! Deviation: empty slots are not written. The filter counts the taken slots before a slot, so the table is 100 % full
//! instead of 93 %; docs/formats/cuckoo_table.md draws it. The regions of the LogStore's index allow a merge in one
//! pass: a region holds one range of hashes, and is sorted in memory when it is read.
//!
//!  ```text
//!  LogStore's slots   a . b c . . d e . f      . = empty
//!  file               a b c d e f              record of slot s is at rank(s), the taken slots before s
//!  ```

use crate::device::{AlignedBuffer, Directory, Purpose};
use crate::index::filter::{CuckooFilter, Filter};
use crate::key::KeyHash;
use crate::store::Query;
use crate::store::block::BlockBuilder;
use crate::store::file::{StoreFile, StoreFileWriter, StoreFooter};
use crate::store::filter::SECTION_CUCKOO;
use crate::store::merge::{Cursor, Entry};
use crate::store::record::{RecordLayout, RecordShape, RecordView};
use crate::store::slots::{CheckedSlots, checked_slots_per_block, slot_checksum};
use crate::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// The store kind of a cuckoo table in the footer.
pub const CUCKOO_TABLE_KIND: u8 = 5;

/// The positions of records in the table's blocks.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Geometry {
    shape: RecordShape,
    pub slots_per_block: u64,
    /// The positions of the slots.
    pub checked: CheckedSlots,
}

impl Geometry {
    /// Returns the geometry of a table with this footer; `None` if a block cannot hold a record.
    pub fn new(shape: RecordShape, footer: &StoreFooter) -> Option<Geometry> {
        let slot_bytes = shape.layout.slot_bytes(true)?;
        let block_bytes = footer.block_bytes as usize;
        let (store_tag, slots) = (footer.tag, footer.records);
        let checked = CheckedSlots { store_tag, slot_bytes, block_bytes, slots };
        let slots_per_block = checked_slots_per_block(slot_bytes, block_bytes) as u64;
        (slots_per_block > 0).then_some(Geometry { shape, slots_per_block, checked })
    }

    fn blocks(&self, ranks: &Range<u64>) -> Range<u64> {
        ranks.start / self.slots_per_block..ranks.end.div_ceil(self.slots_per_block)
    }

    fn slot<'b>(&self, payload: &'b [u8], index: usize) -> Option<&'b [u8]> {
        let at = index * self.checked.stride();
        payload.get(at..at + self.checked.slot_bytes)
    }
}

/// A cuckoo table on flash with its filter in memory.
pub struct CuckooTable {
    file: Arc<StoreFile>,
    geometry: Geometry,
    filter: CuckooFilter,
}

impl CuckooTable {
    /// Returns whether such blocks can hold records of this layout: they must have a fixed size below a block's.
    pub fn suits(layout: &RecordLayout, block_bytes: u32) -> bool {
        let Some(slot_bytes) = layout.slot_bytes(true) else { return false };
        checked_slots_per_block(slot_bytes, block_bytes as usize) > 0
    }

    /// Opens a table and loads its filter.
    pub fn open(directory: &Directory, name: &str, tag: u64, shape: RecordShape) -> Result<CuckooTable> {
        let file = StoreFile::open(directory, name, tag)?;
        let footer = file.footer();
        let geometry = Geometry::new(shape, footer).filter(|_| footer.kind == CUCKOO_TABLE_KIND);
        let Some(geometry) = geometry else {
            let got = format!("a store of kind {}", footer.kind);
            return Err(file.file().corrupt(0, "a cuckoo table of the database's records", got));
        };
        let section = &footer.filter;
        let bytes = file.read_section(section, Purpose::Recover)?;
        let offset = StoreFile::section_offset(section);
        let filter = CuckooFilter::decode(&bytes).map_err(Error::decode(file.file().path(), offset))?;
        // A filter of other records would locate slots that do not exist.
        if filter.len() != footer.records || geometry.blocks(&(0..footer.records)).end != footer.blocks {
            let got = format!("{} blocks and {} tags", footer.blocks, filter.len());
            return Err(file.file().corrupt(
                offset,
                format!("blocks and tags of {} records", footer.records),
                got,
            ));
        }
        Ok(CuckooTable { file: Arc::new(file), geometry, filter })
    }

    /// Returns the file.
    pub fn file(&self) -> &StoreFile {
        &self.file
    }

    /// Returns a shared reference to the file, which may outlive the table.
    pub fn shared_file(&self) -> Arc<StoreFile> {
        self.file.clone()
    }

    /// Returns the filter.
    pub fn filter(&self) -> &CuckooFilter {
        &self.filter
    }

    /// Returns the memory of the filter, in bytes.
    pub fn filter_bytes(&self) -> usize {
        self.filter.heap_bytes()
    }

    /// Passes the record of a key to `found`, if the table contains it. Takes one read per slot with the key's tag, of
    /// the sectors that hold the slot: 1 + 2^-12 on average if the key is there, 2^-12 if not.
    pub fn look_up<T>(
        &self,
        query: &Query<'_>,
        buffer: &mut AlignedBuffer,
        mut found: impl FnMut(&RecordView<'_>) -> T,
    ) -> Result<Option<T>> {
        for candidate in self.filter.candidate_slots(query.hash.placement, query.hash.fingerprint) {
            let rank = u64::from(candidate.rank);
            let place = self.read(query.purpose, rank, buffer)?;
            let slot = buffer.get(place).unwrap_or_default();
            let record = self.geometry.shape.layout.decode_slot(slot, true);
            // An equal tag is no proof: other keys can have it.
            if let Some(record) = record
                && record.key == query.key
            {
                return Ok(Some(found(&record)));
            }
        }
        Ok(None)
    }

    /// Reads and verifies a slot, and returns its range in `buffer`.
    fn read(&self, purpose: Purpose, rank: u64, buffer: &mut AlignedBuffer) -> Result<Range<usize>> {
        let (file, checked) = (self.file.file(), &self.geometry.checked);
        let place = self.file.read_extent(purpose, checked.extent_of(&(rank..rank + 1)), buffer)?;
        if !file.skips_checksums_on_get() {
            checked.open(file, rank, buffer.get(place.clone()).unwrap_or_default())?;
        }
        Ok(place.start..place.start + checked.slot_bytes)
    }
}

/// Writes the records of a LogStore, in the order of its slots, to a [`CuckooTable`].
pub struct CuckooTableWriter {
    file: StoreFileWriter,
    shape: RecordShape,
    tag: u64,
    slots_per_block: u64,
    block: BlockBuilder,
    slot: Vec<u8>,
    records: u64,
    deleted: u64,
}

impl CuckooTableWriter {
    /// Starts a new file, written in pieces of `piece_bytes`.
    pub fn create(
        directory: &Directory,
        name: &str,
        tag: u64,
        shape: RecordShape,
        block_bytes: u32,
        purpose: Purpose,
        piece_bytes: usize,
    ) -> Result<Self> {
        if !CuckooTable::suits(&shape.layout, block_bytes) {
            return Err(Error::Setting {
                name: "hash_store",
                problem:
                    "a cuckoo table requires records of a fixed size, smaller than a block; leave this out"
                        .into(),
            });
        }
        let file = StoreFileWriter::create(
            directory,
            name,
            CUCKOO_TABLE_KIND,
            tag,
            block_bytes,
            purpose,
            piece_bytes,
        )?;
        let block = BlockBuilder::bare(tag, block_bytes as usize);
        let slot_bytes = shape.layout.slot_bytes(true).unwrap_or(1);
        let slots_per_block = checked_slots_per_block(slot_bytes, block_bytes as usize) as u64;
        let (slot, records, deleted) = (Vec::new(), 0, 0);
        Ok(CuckooTableWriter { file, shape, tag, slots_per_block, block, slot, records, deleted })
    }

    /// Adds the record of the next taken slot.
    pub fn push(&mut self, record: &RecordView<'_>) -> Result<()> {
        if self.records > 0 && self.records.is_multiple_of(self.slots_per_block) {
            self.seal()?;
        }
        self.slot.clear();
        self.shape.layout.encode_slot(record, true, &mut self.slot);
        self.block.fill(&self.slot);
        self.block.fill(&slot_checksum(self.tag, self.records, &self.slot));
        self.records += 1;
        self.deleted += u64::from(record.value.is_none());
        Ok(())
    }

    /// Returns the number of records pushed.
    pub fn records(&self) -> u64 {
        self.records
    }

    fn seal(&mut self) -> Result<()> {
        let file = &mut self.file;
        self.block.seal(file.next_block(), |block| file.append_block(block))
    }

    /// Writes the rest, and saves the filter. Does not sync.
    pub fn finish(mut self, filter: CuckooFilter) -> Result<CuckooTable> {
        if !self.block.is_empty() {
            self.seal()?;
        }
        let mut bytes = Vec::new();
        filter.encode(&mut bytes);
        let filter_section = (SECTION_CUCKOO, &bytes[..]);
        let file = self.file.finish(self.records, self.deleted, (0, &[]), filter_section)?;
        let geometry = Geometry::new(self.shape, file.footer()).ok_or_else(|| {
            file.file().corrupt(0, "a table of records that fit into its blocks", "larger records")
        })?;
        Ok(CuckooTable { file: Arc::new(file), geometry, filter })
    }

    /// Returns the memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.file.heap_bytes() + self.block.heap_bytes() + self.slot.capacity()
    }
}

/// The records of a [`CuckooTable`] in hash order, one region at a time.
pub struct CuckooCursor {
    table: Arc<CuckooTable>,
    purpose: Purpose,
    next_region: u32,
    buffer: AlignedBuffer,
    /// The slots of the region, concatenated without checksums and padding.
    region: Vec<u8>,
    /// The remaining records with their indexes in the region, in descending order.
    order: Vec<(KeyHash, u32)>,
    current: Option<(KeyHash, u32)>,
}

impl CuckooCursor {
    /// Creates a cursor before the first record.
    pub fn new(table: Arc<CuckooTable>, purpose: Purpose) -> Self {
        CuckooCursor {
            table,
            purpose,
            next_region: 0,
            buffer: AlignedBuffer::default(),
            region: Vec::new(),
            order: Vec::new(),
            current: None,
        }
    }

    fn load_region(&mut self) -> Result<()> {
        let table = &*self.table;
        let ranks = u64::from(table.filter.first_rank_of_region(self.next_region))
            ..u64::from(table.filter.first_rank_of_region(self.next_region + 1));
        self.next_region += 1;
        self.region.clear();
        let per_block = table.geometry.slots_per_block;
        // A region need not begin or end with a block: its first and last block may have slots of its neighbours.
        for number in table.geometry.blocks(&ranks) {
            let bytes = table.file.read_blocks(self.purpose, number..number + 1, &mut self.buffer)?;
            let block = table.geometry.checked.open_block(table.file.file(), number, bytes, true)?;
            let first = ranks.start.saturating_sub(number * per_block).min(per_block);
            let end = (ranks.end - (number * per_block).min(ranks.end)).min(per_block);
            for index in first..end {
                let slot = table.geometry.slot(block.payload, index as usize);
                self.region.extend_from_slice(slot.unwrap_or_default());
            }
        }
        for (index, slot) in self.region.chunks_exact(table.geometry.checked.slot_bytes).enumerate() {
            if let Some(record) = table.geometry.shape.layout.decode_slot(slot, true) {
                self.order.push((table.geometry.shape.placing.place(record.key), index as u32));
            }
        }
        let mut order = std::mem::take(&mut self.order);
        let key = |index: u32| self.view(index).map(|record| record.key);
        // In descending order, because records are taken from the end.
        order.sort_unstable_by(|one, two| two.0.cmp(&one.0).then_with(|| key(two.1).cmp(&key(one.1))));
        self.order = order;
        Ok(())
    }

    fn view(&self, index: u32) -> Option<RecordView<'_>> {
        let Geometry { shape, checked, .. } = &self.table.geometry;
        let (at, slot_bytes) = (index as usize * checked.slot_bytes, checked.slot_bytes);
        shape.layout.decode_slot(self.region.get(at..at + slot_bytes)?, true)
    }
}

impl Cursor for CuckooCursor {
    fn advance(&mut self) -> Result<bool> {
        while self.order.is_empty() && self.next_region < self.table.filter.settings().regions {
            self.load_region()?;
        }
        self.current = self.order.pop();
        Ok(self.current.is_some())
    }

    /// Moves to the region of the placement, which [`advance`](Cursor::advance) reads as a whole.
    fn seek(&mut self, placement: u64) -> Result<()> {
        self.next_region = self.table.filter.settings().region_of(placement);
        Ok(())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let (hash, index) = self.current?;
        Some(Entry { hash, record: self.view(index)? })
    }

    fn heap_bytes(&self) -> usize {
        self.buffer.heap_bytes()
            + self.region.capacity()
            + self.order.capacity() * size_of::<(KeyHash, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Access;
    use crate::device::memory::MemoryDirectory;
    use crate::index::partial_key_cuckoo::{CuckooSettings, PartialKeyCuckoo};
    use crate::key::{KeyHasher, Placing};
    use std::collections::BTreeMap;

    const LAYOUT: RecordLayout = RecordLayout { fixed: Some((8, 4)), expiring: false };
    const PLACING: Placing = Placing { hasher: KeyHasher::Keyed([1, 2]), partitions_log2: 1 };
    const SHAPE: RecordShape = RecordShape { layout: LAYOUT, placing: PLACING };

    fn key(number: u32) -> [u8; 8] {
        u64::from(number).to_le_bytes()
    }

    fn query(key: &[u8]) -> Query<'_> {
        Query { purpose: Purpose::Get, hash: PLACING.place(key), key }
    }

    fn build(directory: &Directory, count: u32) -> Arc<CuckooTable> {
        let settings = CuckooSettings { regions: 3, buckets_per_region_log2: 5, tag_bits: 15 };
        let mut index = PartialKeyCuckoo::new(settings, 32).unwrap();
        for number in 0..count {
            let hash = PLACING.place(&key(number));
            index.insert(hash.placement, hash.fingerprint, number).unwrap();
        }
        let mut writer =
            CuckooTableWriter::create(directory, "1", 1, SHAPE, 512, Purpose::Convert, 4096).unwrap();
        for region in 0..index.region_count() {
            for (_, _, number) in index.region_slots(region) {
                let (key, value) = (key(number), number.to_le_bytes());
                let value = (number % 5 != 0).then_some(&value[..]);
                writer.push(&RecordView { key: &key, value, expires_at_ms: 0 }).unwrap();
            }
        }
        Arc::new(writer.finish(CuckooFilter::from_index(&index)).unwrap())
    }

    #[test]
    fn every_record_and_every_delete_is_found_with_one_read() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        build(&directory, 300);
        let table = CuckooTable::open(&directory, "1", 1, SHAPE).unwrap();
        let mut buffer = AlignedBuffer::default();
        let before = directory.io().of(Purpose::Get).reads;
        for number in 0..300u32 {
            let value = number.to_le_bytes();
            let show = |record: &RecordView<'_>| record.value.map(<[u8]>::to_vec);
            let found = table.look_up(&query(&key(number)), &mut buffer, show).unwrap();
            assert_eq!(found, Some((number % 5 != 0).then_some(value.to_vec())));
        }
        assert!(directory.io().of(Purpose::Get).reads - before <= 302);
        for number in 300..1300 {
            assert_eq!(table.look_up(&query(&key(number)), &mut buffer, |_| ()).unwrap(), None);
        }
        assert!(directory.io().of(Purpose::Get).reads - before <= 305, "misses hardly read");
    }

    #[test]
    fn the_cursor_yields_all_records_in_hash_order() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        for count in [0, 1, 300] {
            let table = build(&directory, count);
            let expected: BTreeMap<KeyHash, u32> =
                (0..count).map(|number| (PLACING.place(&key(number)), number)).collect();
            let mut cursor = CuckooCursor::new(table, Purpose::Merge);
            for (hash, number) in expected {
                assert!(cursor.advance().unwrap());
                let entry = cursor.entry().unwrap();
                assert_eq!((entry.hash, entry.record.key), (hash, &key(number)[..]));
            }
            assert!(!cursor.advance().unwrap());
            directory.remove("1").unwrap();
        }
    }
}
