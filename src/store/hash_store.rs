//! The HashStore (SILT 3.2): what a LogStore becomes, in one of two forms.
//!
//! [`CuckooTable`] is the paper's: the table on flash in the order of the filter, the filter copied from the LogStore's
//! tags. The other form is a [`OrderedTable`] behind a filter, that one or a smaller one, for records of any size.

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

/// An immutable store of some ten thousand records, of which there are several at a time.
#[derive(Clone)]
pub enum HashStore {
    /// The cuckoo table of the LogStore.
    Cuckoo(Arc<CuckooTable>),
    /// Hash order, behind a filter.
    Ordered(Arc<OrderedTable>),
}

impl HashStore {
    /// Shows the record of a key, which may say that the key was deleted, to `found`. One read if it is there, seldom
    /// one if not, as long as filter and index are in memory.
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

    /// The records in hash order, read `piece_bytes` at a time.
    pub fn cursor(&self, purpose: Purpose, piece_bytes: usize) -> Box<dyn Cursor> {
        match self {
            HashStore::Cuckoo(table) => Box::new(CuckooCursor::new(table.clone(), purpose)),
            HashStore::Ordered(store) => store.cursor(purpose, piece_bytes),
        }
    }

    /// The file, without what is in memory of the store.
    pub fn shared_file(&self) -> Arc<StoreFile> {
        match self {
            HashStore::Cuckoo(table) => table.shared_file(),
            HashStore::Ordered(store) => store.shared_file(),
        }
    }

    /// The file.
    pub fn file(&self) -> &StoreFile {
        match self {
            HashStore::Cuckoo(table) => table.file(),
            HashStore::Ordered(store) => store.file(),
        }
    }

    /// The number of records, deletes included.
    pub fn records(&self) -> u64 {
        self.file().footer().records
    }

    /// The memory of the filter, in bytes.
    pub fn filter_bytes(&self) -> usize {
        match self {
            HashStore::Cuckoo(table) => table.filter_bytes(),
            HashStore::Ordered(store) => store.filter_bytes(),
        }
    }

    /// The memory of the index, in bytes.
    pub fn index_bytes(&self) -> usize {
        match self {
            HashStore::Cuckoo(_) => 0,
            HashStore::Ordered(store) => store.index_bytes(),
        }
    }
}
