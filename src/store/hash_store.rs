//! The HashStore (SILT 3.2): what a LogStore is converted to. All that differs between its formats is in this file.
//!
//! | format | records on flash | filter |
//! |---|---|---|
//! | [`Ribbon`](HashStoreFormat::Ribbon) | in hash order with fences, records of any size | a ribbon filter |
//! | [`CopiedTags`](HashStoreFormat::CopiedTags) | the same | the tags of the LogStore |
//! | [`Run`](HashStoreFormat::Run), of BloomStore | the same, with columns for a chain | a ribbon filter |
//! | [`CuckooTable`](HashStoreFormat::CuckooTable), the paper's | in the order of the LogStore's slots | the same |
//!
//! Each is an [`OrderedTable`]. Deviation: a cuckoo table has no empty slots. Its tags count the taken slots before a
//! slot, so the table is 100 % full instead of 93 %; docs/formats/cuckoo_table.md draws it. The regions of the
//! LogStore's index allow a merge in one pass: a region holds one range of hashes, and is sorted in memory when it is
//! read.
//!
//!  ```text
//!  LogStore's slots   a . b c . . d e . f      . = empty
//!  file               a b c d e f              record of slot s is at rank(s), the taken slots before s
//!  ```

use crate::key::RecordLayout;
use crate::store::StoreFilter;
use crate::store::log_cursor::LogCursor;
use crate::store::merge::PlacedRecord;
use crate::store::table::{
    BlockForm, IndexKind, OrderedTable, OrderedTableSettings, OrderedTableWriter, TableForm,
};
use siltstone_device::Directory;
use siltstone_index::filter::{CuckooFilter, RibbonBuilder};
use siltstone_index::partial_key_cuckoo::PartialKeyCuckoo;
use siltstone_index::run_columns::RunColumnsSettings;

use crate::error::{Error, Result};
use std::sync::Arc;

/// The maximum size of a copied tag, in bits.
const TAG_BITS_MAX: u64 = 16;
/// The maximum number of bits per record of the filter of a run that is in no chain: with 10, twelve such runs cost
/// 0.012 false reads per missing key. The columns have more bits, because a chain has more runs.
pub const RUN_FILTER_BITS_MAX: u8 = 10;

/// The form of HashStores in hash order: the only form with tombstones.
pub const HASH_ORDER_FORM: BlockForm = BlockForm::Stream;

/// The format of new HashStores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashStoreFormat {
    /// The cuckoo table of the LogStore: the paper's. Records of a fixed size, smaller than a block.
    CuckooTable,
    /// A table in hash order whose filter is a copy of the LogStore's tags.
    CopiedTags,
    /// A table in hash order with a ribbon filter of this number of bits.
    Ribbon(u8),
    /// A run of a chain: in hash order, with columns in place of fences. Until the chain has the columns, its filter of
    /// at most [`RUN_FILTER_BITS_MAX`] bits is in memory.
    Run(RunColumnsSettings),
}

impl HashStoreFormat {
    /// Returns the records of a LogStore in the order of the format; for a run in batches of up to this many bytes of
    /// the log, which `partitions` share.
    pub fn order(self, cursor: LogCursor, partitions: usize, batch_bytes: usize) -> LogCursor {
        match self {
            HashStoreFormat::CuckooTable => cursor.in_slot_order(),
            HashStoreFormat::CopiedTags | HashStoreFormat::Ribbon(_) => cursor,
            HashStoreFormat::Run(_) => cursor.in_batches(partitions, batch_bytes),
        }
    }

    /// Returns the form of the table.
    fn form(self) -> TableForm {
        let (blocks, index) = match self {
            HashStoreFormat::CuckooTable => (BlockForm::CuckooSlots, None),
            HashStoreFormat::CopiedTags | HashStoreFormat::Ribbon(_) => {
                (HASH_ORDER_FORM, Some(IndexKind::Fences))
            }
            HashStoreFormat::Run(columns) => (HASH_ORDER_FORM, Some(IndexKind::Columns(columns))),
        };
        TableForm { blocks, index, fill_blocks: false }
    }

    /// Returns whether blocks can hold records of this layout: for a cuckoo table, they must have a fixed size below a
    /// block's.
    pub fn suits(self, layout: &RecordLayout, block_bytes: u32) -> bool {
        // In hash order any record fits, because it may continue in the next block.
        self != HashStoreFormat::CuckooTable || BlockForm::CuckooSlots.slots_in(layout, block_bytes).is_some()
    }
}

/// Writes a HashStore: an immutable store of about ten thousand records. A partition has several.
pub struct HashStoreWriter {
    writer: OrderedTableWriter,
    /// `None` if the filter is copied from the LogStore.
    filter: Option<Box<RibbonBuilder>>,
    /// The size of the finished filter, in bytes.
    filter_bytes: usize,
}

impl HashStoreWriter {
    /// Creates the file.
    pub fn create(
        directory: &Directory,
        name: &str,
        format: HashStoreFormat,
        settings: OrderedTableSettings,
    ) -> Result<Self> {
        let expected_records = settings.expected_records;
        // Before the file is created, so that a refused format leaves nothing.
        if !format.suits(&settings.shape.layout, settings.block_bytes) {
            let problem =
                "a cuckoo table requires records of a fixed size, smaller than a block; leave this out";
            return Err(Error::Setting { name: "hash_store", problem: problem.into() });
        }
        let writer = OrderedTableWriter::create(directory, name, format.form(), settings)?;
        let ribbon_bits = match format {
            HashStoreFormat::CuckooTable | HashStoreFormat::CopiedTags => None,
            HashStoreFormat::Ribbon(bits) => Some(bits),
            HashStoreFormat::Run(columns) => Some(columns.filter_bits.min(RUN_FILTER_BITS_MAX)),
        };
        let filter = ribbon_bits.map(|bits| RibbonBuilder::new(expected_records, bits)).transpose()?;
        // For the memory account, before the filter exists: a copied tag counts as 16 bits.
        let filter_bytes = (expected_records * ribbon_bits.map_or(TAG_BITS_MAX, u64::from) / 8) as usize;
        Ok(HashStoreWriter { writer, filter: filter.map(Box::new), filter_bytes })
    }

    /// Adds the next record, in the order of the format.
    pub fn push(&mut self, entry: &PlacedRecord<'_>) -> Result<()> {
        // Tombstones are in the filter too: a lookup must find them before older records.
        if let Some(filter) = &mut self.filter {
            filter.push(entry.hash.placement, entry.hash.fingerprint)?;
        }
        self.writer.push(entry)
    }

    /// Writes the rest of the file, without syncing it. `tables` is the index of the LogStore, from which a format
    /// with copied tags takes them.
    pub fn finish(self, tables: &[Arc<PartialKeyCuckoo>]) -> Result<OrderedTable> {
        let filter = match (self.filter, tables) {
            (Some(filter), _) => StoreFilter::from(filter.finish()),
            // Ranks count the slots of one table, so the records of a cuckoo table have one order only.
            (None, [table]) => CuckooFilter::from_index(table).into(),
            (None, tables) => {
                let problem =
                    format!("{} tables cannot be copied into one filter; use 1 table", tables.len());
                return Err(Error::Setting { name: "tables of a LogStore", problem });
            }
        };
        // The file has the columns. Until a chain has them, lookups use filter and fences.
        // Not synced: until the commit of the conversion, the log has these records.
        Ok(self.writer.finish(Some(filter))?.without_columns())
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.writer.heap_bytes() + self.filter.as_ref().map_or(0, |filter| filter.heap_bytes())
    }

    /// Returns the heap memory that [`finish`](Self::finish) takes in addition: the filter, decoded and encoded.
    pub fn finish_bytes(&self) -> usize {
        2 * self.filter_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{KeyHash, KeyHasher, PartitionHasher};
    use crate::store::Query;
    use crate::store::record::{RecordShape, RecordView};
    use siltstone_device::memory::MemoryDirectory;
    use siltstone_device::{Access, AlignedBuffer, Purpose};
    use siltstone_index::partial_key_cuckoo::CuckooSettings;
    use std::collections::BTreeMap;

    const LAYOUT: RecordLayout = RecordLayout { fixed: Some((8, 4)), expiring: false };
    const HASHER: PartitionHasher =
        PartitionHasher { key_hasher: KeyHasher::Keyed([1, 2]), partitions_log2: 1 };
    const SHAPE: RecordShape = RecordShape { layout: LAYOUT, hasher: HASHER };

    fn key(number: u32) -> [u8; 8] {
        u64::from(number).to_le_bytes()
    }

    fn value(number: u32) -> Option<Vec<u8>> {
        (!number.is_multiple_of(5)).then(|| number.to_le_bytes().to_vec())
    }

    /// Writes a cuckoo table of the records with the numbers below `count`.
    fn build(directory: &Directory, count: u32) -> OrderedTable {
        let settings = CuckooSettings { regions: 3, buckets_per_region_log2: 5, tag_bits: 15 };
        let index = PartialKeyCuckoo::new(settings, 32).unwrap();
        for number in 0..count {
            let hash = HASHER.hash(&key(number));
            index.insert(hash.placement, hash.fingerprint, number).unwrap();
        }
        let settings = OrderedTableSettings {
            tag: 1,
            shape: SHAPE,
            block_bytes: 512,
            expected_records: count.into(),
            expected_bytes: 0,
            purpose: Purpose::Convert,
            piece_bytes: 4096,
        };
        let mut writer =
            HashStoreWriter::create(directory, "1", HashStoreFormat::CuckooTable, settings).unwrap();
        for (_, _, number) in (0..3).flat_map(|region| index.region_slots(region)) {
            let (key, value) = (key(number), value(number));
            let record = RecordView { key: &key, value: value.as_deref(), expires_at_ms: 0 };
            writer.push(&PlacedRecord { hash: HASHER.hash(&key), record }).unwrap();
        }
        writer.finish(&[Arc::new(index)]).unwrap()
    }

    #[test]
    fn every_record_and_every_delete_of_a_cuckoo_table_is_found_with_one_read() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        build(&directory, 300);
        let table = OrderedTable::open_on_flash(&directory, "1", 1, SHAPE).unwrap();
        let mut buffer = AlignedBuffer::default();
        let mut look_up = |number| {
            let key = key(number);
            let query = Query { purpose: Purpose::Get, hash: HASHER.hash(&key), key: &key };
            table.look_up(&query, &mut buffer, |record| record.value.map(<[u8]>::to_vec)).unwrap()
        };
        (0..300).for_each(|number| assert_eq!(look_up(number), Some(value(number))));
        assert!(directory.io().of(Purpose::Get).reads <= 302);
        (300..1300).for_each(|number| assert_eq!(look_up(number), None));
        assert!(directory.io().of(Purpose::Get).reads <= 305, "misses hardly read");
    }

    #[test]
    fn the_cursor_of_a_cuckoo_table_yields_all_records_in_hash_order_also_from_a_placement_on() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        for count in [0, 1, 300] {
            let table = build(&directory, count);
            let expected: BTreeMap<KeyHash, u32> =
                (0..count).map(|number| (HASHER.hash(&key(number)), number)).collect();
            for from in [0, 1 << 62, 1 << 63, u64::MAX] {
                let first = KeyHash { placement: from, fingerprint: 0 };
                let mut cursor = table.cursor(Purpose::Merge, 1024);
                cursor.seek(from).unwrap();
                let mut expected = expected.range(first..);
                while cursor.advance().unwrap() {
                    let entry = cursor.entry().unwrap();
                    if entry.hash < first {
                        continue;
                    }
                    let (hash, number) = expected.next().unwrap();
                    assert_eq!((entry.hash, entry.record.key), (*hash, &key(*number)[..]));
                    assert_eq!(entry.record.value.map(<[u8]>::to_vec), value(*number));
                }
                assert_eq!(expected.next(), None);
            }
            directory.remove("1").unwrap();
        }
    }
}
