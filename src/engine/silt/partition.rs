//! A partition: one LogStore, several HashStores and a SortedStore over a disjoint share of the keys.

use super::live::Role;
use super::snapshot::PartitionSnapshot;
use crate::Result;
use crate::batch::TimestampMs;
use crate::cache::{RecordCache, Ticket};
use crate::device::{AlignedBuffer, Purpose};
use crate::engine::Found;
use crate::key::KeyHash;
use crate::store::Query;
use crate::store::hash_store::HashStore;
use crate::store::log::{Log, LogView};
use crate::store::log_store::{FrozenLog, LogCandidates, LogStore};
use crate::store::ordered::OrderedTable;
use crate::store::record::RecordView;
use crate::sync::{Mutex, RwLock};
use bytes::Bytes;
use std::sync::Arc;

/// A share of the keys with its stores.
pub(super) struct Partition {
    /// Held from before a write is appended to the log until it stands in the index, so that both have the same order.
    /// What is done under it goes through [`Health::run`](crate::health::Health::run).
    pub writer: Mutex<()>,
    /// Locked for no longer than a change of the index or of the list of stores takes.
    pub state: RwLock<State>,
}

/// What a lookup goes through.
pub(super) struct State {
    /// The LogStore that takes new records.
    pub active: LogStore,
    /// It is frozen when it holds so many records, however full.
    pub freeze_at: u32,
    /// All other stores.
    pub view: Arc<View>,
}

/// The immutable stores of a partition at one moment.
#[derive(Clone, Default)]
pub(super) struct View {
    /// LogStores that wait to be converted, the youngest first.
    pub frozen: Vec<Arc<FrozenLog>>,
    /// HashStores with their numbers, the youngest first.
    pub hash_stores: Vec<(u64, HashStore)>,
    /// The SortedStore with its number.
    pub sorted: Option<(u64, Arc<OrderedTable>)>,
}

impl View {
    /// The records in HashStores, deletes included.
    pub fn hash_records(&self) -> u64 {
        self.hash_stores.iter().map(|(_, store)| store.records()).sum()
    }

    /// The records in the SortedStore.
    pub fn sorted_records(&self) -> u64 {
        self.sorted.as_ref().map_or(0, |(_, store)| store.records())
    }

    /// The records in LogStores that wait to be converted.
    pub fn frozen_records(&self) -> u64 {
        self.frozen.iter().map(|frozen| u64::from(frozen.len())).sum()
    }

    /// The bytes of all its files.
    pub fn disk_bytes(&self) -> u64 {
        let sorted = self.sorted.iter().map(|(_, store)| store.file().length());
        self.hash_stores.iter().map(|(_, store)| store.file().length()).chain(sorted).sum()
    }
}

/// Which part of a store may be on flash as well as in memory: those first that save most reads for a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum PieceKind {
    HashIndex,
    SortedIndex,
    HashFilter,
    SortedFilter,
}

impl PieceKind {
    fn is_index(self) -> bool {
        matches!(self, PieceKind::HashIndex | PieceKind::SortedIndex)
    }
}

/// A part of a store that may be on flash as well as in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// The number of the store.
    pub store: u64,
    pub kind: PieceKind,
    /// The memory that it takes, or its bytes on flash.
    pub bytes: u64,
    pub resident: bool,
}

impl View {
    /// The stores in hash order, each with its number and what it is.
    pub fn ordered_stores(&self) -> impl Iterator<Item = (u64, Role, &Arc<OrderedTable>)> {
        let hash_stores = self.hash_stores.iter().filter_map(|(number, store)| match store {
            HashStore::Ordered(store) => Some((*number, Role::HashOrdered, store)),
            HashStore::Cuckoo(_) => None,
        });
        hash_stores.chain(self.sorted.iter().map(|(number, store)| (*number, Role::Sorted, store)))
    }

    /// All parts that may be on flash.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        self.ordered_stores().flat_map(|(number, role, store)| {
            let (index_kind, filter_kind) = match role {
                Role::Sorted => (PieceKind::SortedIndex, PieceKind::SortedFilter),
                _ => (PieceKind::HashIndex, PieceKind::HashFilter),
            };
            let (saved_index, saved_filter) = store.saved_bytes();
            let index = Piece {
                store: number,
                kind: index_kind,
                bytes: if store.has_index() { store.droppable_index_bytes() } else { saved_index },
                resident: store.has_index(),
            };
            let filter = Piece {
                store: number,
                kind: filter_kind,
                bytes: if store.has_filter() { store.filter_bytes() as u64 } else { saved_filter },
                resident: store.has_filter(),
            };
            [index, filter]
        })
    }

    /// The same stores, one of them replaced by what `change` makes of it; `None` if it is gone.
    fn changed(&self, number: u64, change: impl FnOnce(&OrderedTable) -> OrderedTable) -> Option<View> {
        let (_, role, store) = self.ordered_stores().find(|(other, ..)| *other == number)?;
        let changed = Arc::new(change(store));
        let mut view = self.clone();
        if role == Role::Sorted {
            view.sorted = Some((number, changed));
        } else {
            let place = view.hash_stores.iter_mut().find(|(other, _)| *other == number)?;
            place.1 = HashStore::Ordered(changed);
        }
        Some(view)
    }

    /// The same stores, with a part of one left on flash.
    pub fn without(&self, number: u64, kind: PieceKind) -> Option<View> {
        self.changed(number, |store| match kind.is_index() {
            true => store.without_index(),
            false => store.without_filter(),
        })
    }

    /// A store with one more part in memory, read now; `None` if the store is gone.
    pub fn load(&self, number: u64, kind: PieceKind) -> Option<Result<OrderedTable>> {
        let (_, _, store) = self.ordered_stores().find(|(other, ..)| *other == number)?;
        Some(if kind.is_index() { store.with_index() } else { store.with_filter() })
    }

    /// The same stores, with a part of one as it is in `loaded`.
    pub fn with(&self, number: u64, kind: PieceKind, loaded: &OrderedTable) -> Option<View> {
        self.changed(number, |store| match kind.is_index() {
            true => store.with_index_of(loaded),
            false => store.with_filter_of(loaded),
        })
    }
}

/// What a lookup found in some store.
pub(super) enum Lookup {
    /// Nothing: older stores have to be asked.
    Unknown,
    /// The youngest record of the key: a value, or none if it was deleted or expired.
    Known(Option<Found>),
}

/// The answer that a record of the key gives. Its bytes are copied here, and into the cache if there is one.
pub(super) fn known(record: &RecordView<'_>, sought: &Sought<'_>) -> Lookup {
    let value = record.value.filter(|_| !record.is_gone(sought.now_ms));
    let expires_at_ms = record.expires_at_ms;
    if let Some(value) = value {
        sought.cache.insert(sought.ticket, sought.key, value, expires_at_ms);
    }
    Lookup::Known(value.map(|value| Found { value: Bytes::copy_from_slice(value), expires_at_ms }))
}

/// Looks a key up in the log, at the places that an index named.
pub(super) fn look_up_in_log(
    log: &LogView,
    candidates: &LogCandidates,
    sought: &Sought<'_>,
    purpose: Purpose,
    buffer: &mut AlignedBuffer,
) -> Result<Lookup> {
    for candidate in candidates.iter() {
        let record = log.read(purpose, candidate.position, buffer)?;
        if record.key == sought.key {
            return Ok(known(&record, sought));
        }
    }
    Ok(Lookup::Unknown)
}

/// A key as a lookup carries it.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    pub key: &'a [u8],
    pub hash: KeyHash,
    pub now_ms: TimestampMs,
    /// Where the record is kept, and the right to put it there.
    pub cache: &'a RecordCache,
    pub ticket: Ticket,
}

impl<'a> Sought<'a> {
    /// The lookup of the key in a store.
    pub fn query(&self, purpose: Purpose) -> Query<'a> {
        Query { purpose, hash: self.hash, key: self.key }
    }
}

/// The stores of a partition as one lookup sees them, from the youngest on.
pub(super) struct Stores {
    active: LogCandidates,
    view: Arc<View>,
    /// There only if the log has to be read.
    log: Option<LogView>,
}

impl Partition {
    /// The stores as they are now. The view of the log is taken while the state is locked, so that it holds whatever
    /// the state points to.
    pub fn stores(&self, log: &Arc<Log>, hash: KeyHash) -> Stores {
        let state = self.state.read();
        let active = state.active.candidates(hash);
        let view = state.view.clone();
        let log = (!active.is_empty() || !view.frozen.is_empty()).then(|| log.view());
        Stores { active, view, log }
    }
}

impl Stores {
    /// Returns false only if the key is certainly absent. Reads nothing from the device.
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        let View { frozen, hash_stores, sorted } = &*self.view;
        !self.active.is_empty()
            || frozen.iter().any(|frozen| !frozen.candidates(hash).is_empty())
            || hash_stores.iter().any(|(_, store)| store.may_contain(hash))
            || sorted.as_ref().is_some_and(|(_, store)| store.may_contain(hash))
    }

    /// The stores as they were in a snapshot, of which `log` is a part.
    pub fn of_snapshot(snapshot: &PartitionSnapshot, log: &LogView, hash: KeyHash) -> Stores {
        let (active, view) = (snapshot.active.candidates(hash), snapshot.view.clone());
        Stores { active, view, log: Some(log.clone()) }
    }

    /// The older stores.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Looks the key up in LogStores only.
    pub fn look_up_young(
        &self,
        sought: &Sought<'_>,
        purpose: Purpose,
        buffer: &mut AlignedBuffer,
    ) -> Result<Lookup> {
        let Some(log) = &self.log else { return Ok(Lookup::Unknown) };
        let active = look_up_in_log(log, &self.active, sought, purpose, buffer)?;
        if let Lookup::Known(_) = active {
            return Ok(active);
        }
        for frozen in &self.view.frozen {
            let candidates = frozen.candidates(sought.hash);
            let found = look_up_in_log(log, &candidates, sought, purpose, buffer)?;
            if let Lookup::Known(_) = found {
                return Ok(found);
            }
        }
        Ok(Lookup::Unknown)
    }

    /// Looks the key up in all stores.
    pub fn look_up(
        &self,
        sought: &Sought<'_>,
        purpose: Purpose,
        buffer: &mut AlignedBuffer,
    ) -> Result<Option<Found>> {
        if let Lookup::Known(found) = self.look_up_young(sought, purpose, buffer)? {
            return Ok(found);
        }
        let query = sought.query(purpose);
        let answer = |record: &RecordView<'_>| known(record, sought);
        for (_, store) in &self.view.hash_stores {
            let found = store.look_up(&query, buffer, answer)?;
            if let Some(Lookup::Known(found)) = found {
                return Ok(found);
            }
        }
        if let Some((_, store)) = &self.view.sorted
            && let Some(Lookup::Known(found)) = store.look_up(&query, buffer, answer)?
        {
            return Ok(found);
        }
        Ok(None)
    }
}
