//! The HashStore (SILT 3.2): what a LogStore is converted to, in one of two forms.
//!
//! [`CuckooTable`] is the paper's: records are on flash in the order of the filter's slots, and the filter is copied
//! from the LogStore's tags. The other form is an [`OrderedTable`] with a filter, the same or a smaller one, for
//! records of any size.

use crate::Result;
use crate::device::{AlignedBuffer, Purpose};
use crate::index::filter::Filter;
use crate::key::KeyHash;
use crate::store::Query;
use crate::store::cuckoo::{CuckooCursor, CuckooTable};
use crate::store::file::StoreFile;
use crate::store::merge::Cursor;
use crate::store::ordered::OrderedTable;
use crate::store::record::RecordView;
use std::sync::Arc;

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
