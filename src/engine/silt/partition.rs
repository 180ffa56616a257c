//! A partition: one LogStore, several HashStores and a SortedStore over a disjoint share of the keys.

use crate::Result;
use crate::batch::TimestampMs;
use crate::device::{AlignedBuffer, Purpose};
use crate::engine::Found;
use crate::key::KeyHash;
use crate::store::hash::HashStore;
use crate::store::log::{FrozenLog, Log, LogCandidates, LogStore, LogView};
use crate::store::record::RecordView;
use crate::store::sorted::SortedStore;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// A share of the keys with its stores.
pub(super) struct Partition {
    /// Held from before a write is appended to the log until it stands in the index, so that both have the same order.
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
    pub sorted: Option<(u64, Arc<SortedStore>)>,
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
        self.frozen.iter().map(|frozen| u64::from(frozen.index().len())).sum()
    }

    /// The bytes of all its files.
    pub fn disk_bytes(&self) -> u64 {
        let sorted = self.sorted.iter().map(|(_, store)| store.file().length());
        self.hash_stores.iter().map(|(_, store)| store.file().length()).chain(sorted).sum()
    }
}

/// What a lookup found in some store.
pub(super) enum Lookup {
    /// Nothing: older stores have to be asked.
    Unknown,
    /// The youngest record of the key: a value, or none if it was deleted or expired.
    Known(Option<Found>),
}

pub(super) fn known(record: &RecordView<'_>, now_ms: TimestampMs) -> Lookup {
    let value = record.value.filter(|_| !record.is_gone(now_ms));
    Lookup::Known(
        value
            .map(|value| Found { value: Bytes::copy_from_slice(value), expires_at_ms: record.expires_at_ms }),
    )
}

/// Looks a key up in the log, at the places that an index named.
pub(super) fn look_up_in_log(
    log: &LogView,
    candidates: &LogCandidates,
    key: &[u8],
    purpose: Purpose,
    now_ms: TimestampMs,
    buffer: &mut AlignedBuffer,
) -> Result<Lookup> {
    for candidate in candidates.iter() {
        let record = log.read(purpose, candidate.position, buffer)?;
        if record.key == key {
            return Ok(known(&record, now_ms));
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
        let Sought { key, hash, now_ms } = *sought;
        let active = look_up_in_log(log, &self.active, key, purpose, now_ms, buffer)?;
        if let Lookup::Known(_) = active {
            return Ok(active);
        }
        for frozen in &self.view.frozen {
            let candidates = frozen.candidates(hash);
            let found = look_up_in_log(log, &candidates, key, purpose, now_ms, buffer)?;
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
        for (_, store) in &self.view.hash_stores {
            if let Some(record) = store.get(purpose, sought.hash, sought.key, buffer)?
                && let Lookup::Known(found) = known(&record, sought.now_ms)
            {
                return Ok(found);
            }
        }
        if let Some((_, store)) = &self.view.sorted
            && let Some(record) = store.get(purpose, sought.hash, sought.key, buffer)?
            && let Lookup::Known(found) = known(&record, sought.now_ms)
        {
            return Ok(found);
        }
        Ok(None)
    }
}
