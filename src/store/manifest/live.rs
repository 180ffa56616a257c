//! The live state of a database: the stores of each partition, and how far the log is converted.

use crate::coding::Reader;
use crate::store::log::format::POSITION_MAX;
use crate::store::names::FileName;
use crate::store::ordered::OrderedTable;
use std::collections::HashSet;

/// The live state of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionEntry {
    /// All records of the partition before this position of the log are in stores.
    pub converted_to: u64,
    /// The stores, the oldest first.
    pub stores: Vec<StoreEntry>,
}

/// The role of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// A HashStore that is a cuckoo table.
    CuckooTable = 1,
    /// A HashStore in hash order.
    HashOrdered = 2,
    /// The SortedStore.
    Sorted = 3,
}

impl Role {
    /// Returns the role of a HashStore.
    pub fn of(store: &OrderedTable) -> Role {
        if store.is_cuckoo_table() { Role::CuckooTable } else { Role::HashOrdered }
    }

    /// Returns the name of the file of a store with this number.
    pub fn file_name(self, number: u64) -> String {
        match self {
            Role::CuckooTable | Role::HashOrdered => FileName::HashStore(number).to_string(),
            Role::Sorted => FileName::SortedStore(number).to_string(),
        }
    }
}

/// A live store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreEntry {
    /// Its number, which its file name contains.
    pub number: u64,
    /// A random tag that its file contains too. It distinguishes the file from one with the same name of another
    /// database, or of a copy of this one that was written to.
    pub tag: u64,
    /// Its role.
    pub role: Role,
}

impl StoreEntry {
    /// Returns the name of its file.
    pub fn file_name(&self) -> String {
        self.role.file_name(self.number)
    }
}

/// A change of the live state of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// The partition.
    pub partition: u32,
    /// All records of the partition before this position of the log are in stores.
    pub converted_to: u64,
    /// The numbers of the removed stores.
    pub removed: Vec<u64>,
    /// The added stores, which are the youngest, except for a SortedStore.
    pub added: Vec<StoreEntry>,
}

impl Edit {
    /// Appends the bytes of the edit.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.partition.to_le_bytes());
        out.extend_from_slice(&self.converted_to.to_le_bytes());
        out.extend_from_slice(&(self.removed.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.added.len() as u32).to_le_bytes());
        for number in &self.removed {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for store in &self.added {
            out.extend_from_slice(&store.number.to_le_bytes());
            out.extend_from_slice(&store.tag.to_le_bytes());
            out.push(store.role as u8);
        }
    }

    /// Decodes an edit.
    pub(super) fn decode(fields: &mut Reader<'_>) -> Option<Edit> {
        let mut edit = Edit { partition: fields.u32()?, converted_to: fields.u64()?, ..Edit::default() };
        let (removed, added) = (fields.u32()?, fields.u32()?);
        for _ in 0..removed {
            edit.removed.push(fields.u64()?);
        }
        for _ in 0..added {
            let (number, tag) = (fields.u64()?, fields.u64()?);
            let role = match fields.u8()? {
                1 => Role::CuckooTable,
                2 => Role::HashOrdered,
                3 => Role::Sorted,
                _ => return None,
            };
            edit.added.push(StoreEntry { number, tag, role });
        }
        Some(edit)
    }

    /// Returns the highest number of the stores that it adds.
    pub(super) fn highest_added(&self) -> Option<u64> {
        self.added.iter().map(|store| store.number).max()
    }
}

impl PartitionEntry {
    /// Applies an edit, or returns `None` if it is impossible in this state.
    pub(super) fn apply(&mut self, edit: &Edit) -> Option<()> {
        if edit.converted_to > POSITION_MAX {
            return None;
        }
        if !edit.removed.is_empty() {
            let removed: HashSet<u64> = edit.removed.iter().copied().collect();
            let before = self.stores.len();
            self.stores.retain(|store| !removed.contains(&store.number));
            if before - self.stores.len() != edit.removed.len() {
                return None;
            }
        }
        for store in &edit.added {
            match store.role {
                // The merged records are older than those of every HashStore that remains.
                Role::Sorted => self.stores.insert(0, *store),
                Role::CuckooTable | Role::HashOrdered => self.stores.push(*store),
            }
        }
        self.converted_to = self.converted_to.max(edit.converted_to);
        Some(())
    }

    /// Returns the edit that turns an empty entry into this one, that of partition `partition`; `None` if it is empty.
    pub(super) fn as_edit(&self, partition: u32) -> Option<Edit> {
        let PartitionEntry { converted_to, ref stores } = *self;
        let is_empty = converted_to == 0 && stores.is_empty();
        // Stores are added in their order, except that each SortedStore becomes the first one.
        let is_sorted = |store: &&StoreEntry| store.role == Role::Sorted;
        let (sorted, hashed): (Vec<_>, Vec<_>) = stores.iter().partition(is_sorted);
        let added = sorted.into_iter().chain(hashed).copied().collect();
        (!is_empty).then(|| Edit { partition, converted_to, removed: Vec::new(), added })
    }
}
