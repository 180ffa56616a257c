//! The HashStore (SILT 3.2): what a LogStore is converted to. All that differs between its formats is in this file.
//!
//! | format | records on flash | filter |
//! |---|---|---|
//! | [`Ribbon`](HashStoreFormat::Ribbon) | an [`OrderedTable`] with fences, records of any size | a ribbon filter |
//! | [`CopiedTags`](HashStoreFormat::CopiedTags) | the same | the tags of the LogStore |
//! | [`CuckooTable`](HashStoreFormat::CuckooTable), the paper's | in the order of the LogStore's slots | the same |

use crate::device::{AlignedBuffer, Directory, Purpose};
use crate::index::filter::{CuckooFilter, Filter, RibbonBuilder};
use crate::index::partial_key_cuckoo::PartialKeyCuckoo;
use crate::key::KeyHash;
use crate::store::Query;
use crate::store::cuckoo::{CuckooCursor, CuckooTable, CuckooTableWriter};
use crate::store::file::StoreFile;
use crate::store::merge::{Cursor, Entry};
use crate::store::ordered::{BlockForm, IndexKind, OrderedTable, OrderedTableSettings, OrderedTableWriter};
use crate::store::record::{RecordShape, RecordView};
use crate::{Error, Result};
use std::sync::Arc;

/// The maximum size of a copied tag, in bits.
const TAG_BITS_MAX: u64 = 16;

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
}

impl HashStoreFormat {
    /// Returns whether the filter is copied from the LogStore, whose index then must be one table.
    pub fn copies_tags(self) -> bool {
        !matches!(self, HashStoreFormat::Ribbon(_))
    }

    /// Returns whether records are written in the order of the LogStore's slots, not of their hashes.
    pub fn is_in_slot_order(self) -> bool {
        self == HashStoreFormat::CuckooTable
    }
}

/// What a HashStore is written with.
#[derive(Debug, Clone)]
pub struct HashStoreSettings {
    /// The format.
    pub format: HashStoreFormat,
    /// The tag of the store, drawn at random.
    pub tag: u64,
    /// The shape of the records.
    pub shape: RecordShape,
    /// The size of a block, in bytes.
    pub block_bytes: u32,
    /// The approximate number of records.
    pub expected_records: u64,
    /// The approximate number of bytes of keys and values.
    pub expected_bytes: u64,
    /// What the writes are for.
    pub purpose: Purpose,
    /// The file is written in pieces of this size, in bytes.
    pub piece_bytes: usize,
}

/// Writes a [`HashStore`].
pub struct HashStoreWriter {
    table: TableWriter,
    /// The size of the finished filter, in bytes.
    filter_bytes: usize,
}

enum TableWriter {
    Cuckoo(Box<CuckooTableWriter>),
    /// With the filter, unless tags are copied.
    Ordered(Box<OrderedTableWriter>, Option<Box<RibbonBuilder>>),
}

impl HashStoreWriter {
    /// Creates the file.
    pub fn create(directory: &Directory, name: &str, settings: &HashStoreSettings) -> Result<Self> {
        let HashStoreSettings { format, tag, shape, block_bytes, .. } = *settings;
        let HashStoreSettings { expected_records, expected_bytes, purpose, piece_bytes, .. } = *settings;
        let table = || OrderedTableSettings {
            tag,
            shape,
            form: HASH_ORDER_FORM,
            block_bytes,
            index: Some(IndexKind::Fences),
            fill_blocks: false,
            expected_records,
            expected_bytes,
            purpose,
            piece_bytes,
        };
        let ordered = |filter| -> Result<TableWriter> {
            let writer = OrderedTableWriter::create(directory, name, table())?;
            Ok(TableWriter::Ordered(Box::new(writer), filter))
        };
        let (table, filter_bits) = match format {
            HashStoreFormat::CuckooTable => {
                let writer = CuckooTableWriter::create(
                    directory,
                    name,
                    tag,
                    shape,
                    block_bytes,
                    purpose,
                    piece_bytes,
                )?;
                (TableWriter::Cuckoo(Box::new(writer)), TAG_BITS_MAX)
            }
            HashStoreFormat::CopiedTags => (ordered(None)?, TAG_BITS_MAX),
            HashStoreFormat::Ribbon(bits) => {
                (ordered(Some(Box::new(RibbonBuilder::new(expected_records, bits)?)))?, u64::from(bits))
            }
        };
        Ok(HashStoreWriter { table, filter_bytes: (expected_records * filter_bits / 8) as usize })
    }

    /// Adds the next record, in the order of the format.
    pub fn push(&mut self, entry: &Entry<'_>) -> Result<()> {
        match &mut self.table {
            TableWriter::Cuckoo(writer) => writer.push(&entry.record),
            TableWriter::Ordered(writer, filter) => {
                if let Some(filter) = filter {
                    filter.push(entry.hash.placement, entry.hash.fingerprint)?;
                }
                writer.push(entry)
            }
        }
    }

    /// Returns the number of records pushed.
    pub fn records(&self) -> u64 {
        match &self.table {
            TableWriter::Cuckoo(writer) => writer.records(),
            TableWriter::Ordered(writer, _) => writer.records(),
        }
    }

    /// Writes the rest of the file, without syncing it. `tables` is the index of the LogStore, from which a format
    /// with copied tags takes them.
    pub fn finish(self, tables: &[Arc<PartialKeyCuckoo>]) -> Result<HashStore> {
        let tags = || match tables {
            [table] => Ok(CuckooFilter::from_index(table)),
            tables => {
                let problem =
                    format!("{} tables cannot be copied into one filter; use 1 table", tables.len());
                Err(Error::Setting { name: "tables of a LogStore", problem })
            }
        };
        Ok(match self.table {
            TableWriter::Cuckoo(writer) => HashStore::Cuckoo(Arc::new(writer.finish(tags()?)?)),
            TableWriter::Ordered(writer, filter) => {
                let filter = match filter {
                    Some(filter) => filter.finish().into(),
                    None => tags()?.into(),
                };
                HashStore::Ordered(Arc::new(writer.finish(Some(filter))?))
            }
        })
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match &self.table {
            TableWriter::Cuckoo(writer) => writer.heap_bytes(),
            TableWriter::Ordered(writer, filter) => {
                writer.heap_bytes() + filter.as_ref().map_or(0, |filter| filter.heap_bytes())
            }
        }
    }

    /// Returns the heap memory that [`finish`](Self::finish) takes in addition: the filter, decoded and encoded.
    pub fn finish_bytes(&self) -> usize {
        2 * self.filter_bytes
    }
}

/// An immutable store of about ten thousand records; a partition has several.
#[derive(Clone)]
pub enum HashStore {
    /// The cuckoo table of the LogStore.
    Cuckoo(Arc<CuckooTable>),
    /// A table in hash order with a filter.
    Ordered(Arc<OrderedTable>),
}

impl HashStore {
    /// Passes the record of a key, possibly a tombstone, to `found`. Takes one read if the key exists and rarely one if
    /// not, while filter and index are in memory.
    pub fn look_up<T>(
        &self,
        query: &Query<'_>,
        buffer: &mut AlignedBuffer,
        found: impl FnMut(&RecordView<'_>) -> T,
    ) -> Result<Option<T>> {
        match self {
            HashStore::Cuckoo(table) => table.look_up(query, buffer, found),
            HashStore::Ordered(store) => store.look_up(query, buffer, found),
        }
    }

    /// Returns false only if the key is certainly absent. Reads nothing.
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        match self {
            HashStore::Cuckoo(table) => table.filter().may_contain(hash.placement, hash.fingerprint),
            HashStore::Ordered(store) => store.may_contain(hash),
        }
    }

    /// Returns a cursor over the records in hash order that reads `piece_bytes` at a time.
    pub fn cursor(&self, purpose: Purpose, piece_bytes: usize) -> Box<dyn Cursor> {
        match self {
            HashStore::Cuckoo(table) => Box::new(CuckooCursor::new(table.clone(), purpose)),
            HashStore::Ordered(store) => store.cursor(purpose, piece_bytes),
        }
    }

    /// Returns the file without the store's filter and index.
    pub fn shared_file(&self) -> Arc<StoreFile> {
        match self {
            HashStore::Cuckoo(table) => table.shared_file(),
            HashStore::Ordered(store) => store.shared_file(),
        }
    }

    /// Returns the file.
    pub fn file(&self) -> &StoreFile {
        match self {
            HashStore::Cuckoo(table) => table.file(),
            HashStore::Ordered(store) => store.file(),
        }
    }

    /// Returns the number of records, including tombstones.
    pub fn records(&self) -> u64 {
        self.file().footer().records
    }

    /// Returns the memory of the filter, in bytes.
    pub fn filter_bytes(&self) -> usize {
        match self {
            HashStore::Cuckoo(table) => table.filter_bytes(),
            HashStore::Ordered(store) => store.filter_bytes(),
        }
    }

    /// Returns the memory of the index, in bytes.
    pub fn index_bytes(&self) -> usize {
        match self {
            HashStore::Cuckoo(_) => 0,
            HashStore::Ordered(store) => store.index_bytes(),
        }
    }
}
