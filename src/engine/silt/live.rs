//! The live state of a SILT database, which its manifest keeps: the stores of each partition, and how far the log is
//! converted.

use crate::names::FileName;
use crate::store::log_format::POSITION_MAX;
use crate::store::manifest::{self, Header, LiveState};
use crate::store::table::{BlockForm, OrderedTable};
use siltstone_index::coding::Reader;
use std::collections::HashSet;

/// The manifest of a SILT database.
pub type Manifest = manifest::Manifest<LiveStores>;

/// The live stores of all partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveStores {
    /// The entry of each partition.
    pub partitions: Vec<PartitionEntry>,
}

/// The live state of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionEntry {
    /// All records of the partition before this position of the log are in stores.
    pub converted_to: u64,
    /// The stores, the oldest first, and the chain at any place.
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
    /// The chain of the columns of stores.
    Chain = 4,
}

impl Role {
    /// Returns the role of a HashStore.
    pub fn of(store: &OrderedTable) -> Role {
        if store.form() == BlockForm::CuckooSlots { Role::CuckooTable } else { Role::HashOrdered }
    }

    /// Returns the name of the file of a store with this number.
    pub fn file_name(self, number: u64) -> String {
        match self {
            Role::CuckooTable | Role::HashOrdered => FileName::HashStore(number).to_string(),
            Role::Sorted => FileName::SortedStore(number).to_string(),
            Role::Chain => FileName::Chain(number).to_string(),
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
    /// The added stores, which are the newest, except for a SortedStore.
    pub added: Vec<StoreEntry>,
}

impl LiveState for LiveStores {
    type Edit = Edit;

    fn empty(header: &Header) -> LiveStores {
        LiveStores { partitions: vec![PartitionEntry::default(); 1 << header.partitions_log2] }
    }

    fn apply(&mut self, edit: &Edit) -> Option<()> {
        let partition =
            self.partitions.get_mut(edit.partition as usize).filter(|_| edit.converted_to <= POSITION_MAX)?;
        if !edit.removed.is_empty() {
            let removed: HashSet<u64> = edit.removed.iter().copied().collect();
            let before = partition.stores.len();
            partition.stores.retain(|store| !removed.contains(&store.number));
            // Only live stores can be removed: else a commit before this one was lost.
            if before - partition.stores.len() != edit.removed.len() {
                return None;
            }
        }
        for store in &edit.added {
            match store.role {
                // The merged records are older than those of every HashStore that remains.
                Role::Sorted => partition.stores.insert(0, *store),
                _ => partition.stores.push(*store),
            }
        }
        // An edit that changes only stores has position 0.
        partition.converted_to = partition.converted_to.max(edit.converted_to);
        Some(())
    }

    fn encode(edit: &Edit, out: &mut Vec<u8>) {
        out.extend_from_slice(&edit.partition.to_le_bytes());
        out.extend_from_slice(&edit.converted_to.to_le_bytes());
        out.extend_from_slice(&(edit.removed.len() as u32).to_le_bytes());
        out.extend_from_slice(&(edit.added.len() as u32).to_le_bytes());
        for number in &edit.removed {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for store in &edit.added {
            out.extend_from_slice(&store.number.to_le_bytes());
            out.extend_from_slice(&store.tag.to_le_bytes());
            out.push(store.role as u8);
        }
    }

    fn decode(fields: &mut Reader<'_>) -> Option<Edit> {
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
                4 => Role::Chain,
                _ => return None,
            };
            edit.added.push(StoreEntry { number, tag, role });
        }
        Some(edit)
    }

    fn as_edits(&self) -> Vec<Edit> {
        let mut edits = Vec::new();
        for (partition, entry) in (0..).zip(&self.partitions) {
            let (sorted, hashed): (Vec<_>, Vec<_>) =
                entry.stores.iter().partition(|store| store.role == Role::Sorted);
            let added: Vec<StoreEntry> = sorted.into_iter().chain(hashed).collect();
            if entry.converted_to > 0 || !added.is_empty() {
                edits.push(Edit { partition, converted_to: entry.converted_to, removed: Vec::new(), added });
            }
        }
        edits
    }

    /// Positions never decrease, also when a manifest is rewritten.
    fn is_older_than(&self, other: &LiveStores) -> bool {
        let mut pairs = self.partitions.iter().zip(&other.partitions);
        pairs.any(|(own, other)| other.converted_to > own.converted_to)
    }

    fn highest_added(edit: &Edit) -> Option<u64> {
        edit.added.iter().map(|store| store.number).max()
    }
}

impl Manifest {
    /// Returns the live state of each partition.
    pub fn partitions(&self) -> &[PartitionEntry] {
        &self.state().partitions
    }

    /// Returns the position before which every partition has its records in stores.
    pub fn converted_to(&self) -> u64 {
        self.partitions().iter().map(|partition| partition.converted_to).min().unwrap_or(0)
    }

    /// Returns a position before which the whole log was synced: what is in a store was synced in the log before.
    pub fn log_durable(&self) -> u64 {
        let converted = self.partitions().iter().map(|partition| partition.converted_to).max();
        converted.unwrap_or(0).max(self.log_synced())
    }
}
