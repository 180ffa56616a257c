//! The view of a partition: its stores at one moment.
//!
//! A change never modifies a view, except for the index of the LogStore that takes records. It installs a new one, and
//! lookups that hold the old view continue with it.

use super::live::Role;
use crate::error::Result;
use crate::stats::{DegradedStore, StoreKind};
use crate::store::chain::Chain;
use crate::store::log_store::{FrozenLog, LogTables};
use crate::store::table::OrderedTable;
use siltstone_device::Purpose;
use siltstone_index::prefilter::Prefilter;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// The stores of a partition at one moment.
#[derive(Clone, Default)]
pub(super) struct View {
    /// The index of the LogStore that takes new records, which change it: only lookups of the present state search it.
    pub active: Arc<LogTables>,
    /// LogStores that are queued for conversion, the newest first.
    pub frozen: Vec<Arc<FrozenLog>>,
    /// HashStores with their numbers, the newest first.
    pub hash_stores: Vec<(u64, Arc<OrderedTable>)>,
    /// The SortedStore with its number.
    pub sorted: Option<(u64, Arc<OrderedTable>)>,
    /// What the merge in progress has merged so far.
    pub merged: Option<Merged>,
    /// The chain with its number: the columns of the oldest stores.
    pub chain: Option<(u64, Arc<Chain>)>,
    /// The prefilter of the chain, if it has one that is in memory.
    pub prefilter: Option<Arc<Prefilter>>,
}

/// A new chain of a partition.
pub(super) struct InstalledChain {
    pub number: u64,
    pub chain: Arc<Chain>,
    pub prefilter: Option<Arc<Prefilter>>,
}

/// The records that a merge has written so far. Lookups of lower placements use them in place of what is merged, whose
/// filters need no memory for these any more.
#[derive(Clone)]
pub(super) struct Merged {
    /// They are all records of lower placements.
    pub placement: u64,
    /// The SortedStore as far as it is written.
    pub sorted: Arc<OrderedTable>,
    /// How many HashStores are merged: the oldest.
    pub hash_stores: usize,
    /// Whether what is written was found to be damaged. Before the sync at the end of a merge nothing of it is durable:
    /// the device may lose it, and then what is merged is still there. All views of the merge share this.
    pub is_damaged: Arc<AtomicBool>,
}

impl View {
    /// Lets no lookup use what the merge in progress has written, from now on. Returns whether lookups of this
    /// placement did: then a search that found damage is repeated.
    #[cold]
    pub fn note_damage_of_merged(&self, placement: u64) -> bool {
        let merged = self.merged.as_ref().filter(|merged| placement < merged.placement);
        // Relaxed: a thread that does not see it yet finds the damage itself.
        merged.inspect(|merged| merged.is_damaged.store(true, Relaxed)).is_some()
    }

    /// Returns the records in HashStores, tombstones included.
    pub fn hash_records(&self) -> u64 {
        self.hash_stores.iter().map(|(_, store)| store.records()).sum()
    }

    /// Returns the records in the SortedStore.
    pub fn sorted_records(&self) -> u64 {
        self.sorted.as_ref().map_or(0, |(_, store)| store.records())
    }

    /// Returns how many stores are not in the chain: the newest ones.
    #[inline]
    pub fn unchained(&self) -> usize {
        let chained = self.chain.as_ref().map_or(0, |(_, chain)| chain.runs().len());
        (self.hash_stores.len() + usize::from(self.sorted.is_some())).saturating_sub(chained)
    }

    /// Returns a store of the chain by its age: 0 is the oldest.
    pub fn chained(&self, age: usize) -> Option<&Arc<OrderedTable>> {
        match &self.sorted {
            // The SortedStore is older than all HashStores.
            Some((_, store)) if age == 0 => Some(store),
            sorted => {
                let at = (self.hash_stores.len() + usize::from(sorted.is_some())).checked_sub(age + 1)?;
                self.hash_stores.get(at).map(|(_, store)| store)
            }
        }
    }

    /// Returns false only if no store of the chain has this placement. Reads nothing from the device.
    #[inline]
    pub fn may_be_chained(&self, placement: u64) -> bool {
        let may_contain = |prefilter: &Arc<Prefilter>| prefilter.may_contain(placement);
        self.chain.is_some() && self.prefilter.as_ref().is_none_or(may_contain)
    }

    /// Returns the stores to search for a key with this placement, the newest first.
    #[inline]
    pub fn searched(&self, placement: u64) -> impl Iterator<Item = &Arc<OrderedTable>> {
        // From this placement on the part may lack records, so the merged stores are searched as before.
        let is_used = |merged: &&Merged| placement < merged.placement && !merged.is_damaged.load(Relaxed);
        let merged = self.merged.as_ref().filter(is_used);
        let (merged_stores, last) = match merged {
            Some(merged) => (merged.hash_stores, Some(&merged.sorted)),
            None => (0, self.sorted.as_ref().map(|(_, store)| store)),
        };
        // The merged ones are the oldest: a HashStore that was added since the merge began is before them.
        let others = self.hash_stores.len().saturating_sub(merged_stores);
        self.hash_stores[..others].iter().map(|(_, store)| store).chain(last)
    }

    /// Returns the records in stores on flash.
    pub fn stored_records(&self) -> u64 {
        self.hash_records() + self.sorted_records()
    }

    /// Returns the records in LogStores that are queued for conversion.
    pub fn frozen_records(&self) -> u64 {
        self.frozen.iter().map(|frozen| u64::from(frozen.len())).sum()
    }

    /// Returns the bytes of the files of its stores.
    pub fn stored_bytes(&self) -> u64 {
        self.stores().map(|(.., store)| store.file().length()).sum()
    }

    /// Returns the bytes of all its files.
    pub fn disk_bytes(&self) -> u64 {
        self.stored_bytes() + self.chain.as_ref().map_or(0, |(_, chain)| chain.file().length())
    }
}

/// The parts of a store that may be on flash only, in the order of the reads that a byte of each saves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum PieceKind {
    HashIndex,
    SortedIndex,
    HashFilter,
    SortedFilter,
    Prefilter,
}

/// A part that was read back.
pub(super) enum LoadedPiece {
    /// A store that has it.
    Store(OrderedTable),
    Prefilter(Arc<Prefilter>),
}

impl PieceKind {
    fn is_index(self) -> bool {
        matches!(self, PieceKind::HashIndex | PieceKind::SortedIndex)
    }
}

/// A part of a store that may be on flash only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// The number of the store.
    pub store: u64,
    pub kind: PieceKind,
    /// Its memory if it is resident, or its length on flash, in bytes.
    pub bytes: u64,
    /// Whether it is in memory.
    pub resident: bool,
}

impl View {
    /// Returns the stores with number and role, the newest first.
    pub fn stores(&self) -> impl Iterator<Item = (u64, Role, &Arc<OrderedTable>)> {
        let hash_stores = self.hash_stores.iter().map(|(number, store)| (*number, Role::of(store), store));
        hash_stores.chain(self.sorted.iter().map(|(number, store)| (*number, Role::Sorted, store)))
    }

    /// Returns all parts that may be on flash only: of every store, except for those that the chain has; and the
    /// prefilter.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let prefilter =
            self.chain.iter().filter(|(_, chain)| chain.prefilter_bytes() > 0).map(|(number, chain)| {
                let held = self.prefilter.as_ref().map(|prefilter| prefilter.heap_bytes() as u64);
                let bytes = held.unwrap_or(chain.prefilter_bytes());
                Piece { store: *number, kind: PieceKind::Prefilter, bytes, resident: held.is_some() }
            });
        // The chain locates records without index or filter.
        let of_stores = self.stores().take(self.unchained()).flat_map(|(number, role, store)| {
            let (index_kind, filter_kind) = match role {
                Role::Sorted => (PieceKind::SortedIndex, PieceKind::SortedFilter),
                _ => (PieceKind::HashIndex, PieceKind::HashFilter),
            };
            let (saved_index, saved_filter) = store.saved_bytes();
            let saved_index = store.fences_bytes().unwrap_or(saved_index);
            let (held_index, held_filter) = store.droppable_bytes();
            let piece = |kind, resident, held, saved| {
                let bytes = if resident { held } else { saved };
                Piece { store: number, kind, bytes, resident }
            };
            let index = piece(index_kind, store.has_index(), held_index, saved_index);
            [index, piece(filter_kind, store.has_filter(), held_filter, saved_filter)]
        });
        of_stores.chain(prefilter)
    }

    /// Returns the view with one store replaced by the result of `change`; `None` if the view does not have the store.
    fn changed(&self, number: u64, change: impl FnOnce(&OrderedTable) -> OrderedTable) -> Option<View> {
        // By number: the caller took it from a view that may be older than this one.
        let (_, role, store) = self.stores().find(|(other, ..)| *other == number)?;
        let changed = Arc::new(change(store));
        let mut view = self.clone();
        if role == Role::Sorted {
            view.sorted = Some((number, changed));
        } else {
            let place = view.hash_stores.iter_mut().find(|(other, _)| *other == number)?;
            place.1 = changed;
        }
        Some(view)
    }

    /// Returns the view with this prefilter, if it has this chain.
    fn with_prefilter(&self, number: u64, prefilter: Option<Arc<Prefilter>>) -> Option<View> {
        // A newer chain has a prefilter of its own: with this one, records of its newest runs would be missed.
        let is_of_chain = self.chain.as_ref().is_some_and(|(other, _)| *other == number);
        is_of_chain.then(|| View { prefilter, ..self.clone() })
    }

    /// Returns the view without a part of one store.
    pub fn without(&self, number: u64, kind: PieceKind) -> Option<View> {
        if kind == PieceKind::Prefilter {
            return self.with_prefilter(number, None);
        }
        self.changed(number, |store| match kind.is_index() {
            true => store.without_index(),
            false => store.without_filter(),
        })
    }

    /// Reads a part of a store; `None` if the view does not have the store.
    pub fn load(&self, number: u64, kind: PieceKind) -> Option<Result<LoadedPiece>> {
        if kind == PieceKind::Prefilter {
            let (_, chain) = self.chain.as_ref().filter(|(other, _)| *other == number)?;
            let read = chain.read_prefilter(Purpose::Recover).transpose()?;
            return Some(read.map(|prefilter| LoadedPiece::Prefilter(Arc::new(prefilter))));
        }
        let (_, _, store) = self.stores().find(|(other, ..)| *other == number)?;
        let loaded = if kind.is_index() { store.with_index() } else { store.with_filter() };
        Some(loaded.map(LoadedPiece::Store))
    }

    /// Returns the view with a part of one store taken from `loaded`.
    pub fn with(&self, number: u64, kind: PieceKind, loaded: &LoadedPiece) -> Option<View> {
        match loaded {
            LoadedPiece::Prefilter(prefilter) => self.with_prefilter(number, Some(prefilter.clone())),
            LoadedPiece::Store(loaded) => self.changed(number, |store| match kind.is_index() {
                true => store.with_index_of(loaded),
                false => store.with_filter_of(loaded),
            }),
        }
    }

    /// Counts the structures of the stores in `kinds`.
    pub fn count_kinds(&self, kinds: &mut Vec<StoreKind>) {
        let stores = self.stores().map(|(_, role, store)| {
            let (index, filter) = store.kind_names();
            (if role == Role::Sorted { "sorted" } else { "hash" }, index, filter)
        });
        let chain = self.chain.iter().map(|_| ("chain", "columns", "columns"));
        for (store, index, filter) in stores.chain(chain) {
            let is_same =
                |kind: &&mut StoreKind| (kind.store, kind.index, kind.filter) == (store, index, filter);
            match kinds.iter_mut().find(is_same) {
                Some(kind) => kind.count += 1,
                None => kinds.push(StoreKind { store, index, filter, count: 1 }),
            }
        }
    }

    /// Returns the stores that have a part on flash that could be in memory, and the chain if it is damaged. While the
    /// database `is_opening`, parts that are not in memory yet are no loss.
    pub fn degraded(&self, is_opening: bool) -> impl Iterator<Item = DegradedStore> + '_ {
        let chain = self.chain.iter().filter_map(move |(number, chain)| {
            let file = Role::Chain.file_name(*number);
            let index_on_flash = chain.is_damaged();
            let is_missing = !is_opening && chain.prefilter_bytes() > 0 && self.prefilter.is_none();
            let filter_on_flash = index_on_flash || is_missing;
            filter_on_flash.then_some(DegradedStore { file, index_on_flash, filter_on_flash })
        });
        let in_memory = if is_opening { 0 } else { self.unchained() };
        let stores = self.stores().take(in_memory).filter_map(|(number, role, store)| {
            let (index_on_flash, filter_on_flash) = (!store.has_index(), !store.has_filter());
            let file = role.file_name(number);
            let degraded = DegradedStore { file, index_on_flash, filter_on_flash };
            (index_on_flash || filter_on_flash).then_some(degraded)
        });
        stores.chain(chain)
    }
}

/// A partition at one moment.
#[derive(Clone)]
pub(super) struct PartitionSnapshot {
    /// The LogStore that took records then.
    pub active: Arc<FrozenLog>,
    pub view: Arc<View>,
}

impl PartitionSnapshot {
    /// Returns the records in all stores, with those that newer ones hide.
    pub fn records(&self) -> u64 {
        u64::from(self.active.len()) + self.view.frozen_records() + self.view.stored_records()
    }
}
