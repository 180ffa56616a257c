//! A lookup in the stores of a partition, from the youngest to the oldest (SILT 2).

use super::view::View;
use crate::Result;
use crate::batch::TimestampMs;
use crate::cache::{RecordCache, Ticket};
use crate::device::{AlignedBuffer, Purpose};
use crate::engine::Found;
use crate::key::KeyHash;
use crate::store::Query;
use crate::store::log::LogView;
use crate::store::log_store::LogCandidates;
use crate::store::record::RecordView;
use bytes::Bytes;
use std::sync::Arc;

/// What a store says about a key.
pub(super) enum Lookup {
    /// The store has no record of the key; older stores may have one.
    Absent,
    /// The store has the youngest record of the key: `None` if it is a tombstone or has expired.
    Found(Option<Found>),
}

/// A key and what its lookup needs in every store.
#[derive(Clone, Copy)]
pub(super) struct LookupContext<'a> {
    pub key: &'a [u8],
    pub hash: KeyHash,
    pub now_ms: TimestampMs,
    /// The cache that the record is inserted into, and the permission to do so.
    pub cache: &'a RecordCache,
    pub ticket: Ticket,
}

impl<'a> LookupContext<'a> {
    /// Returns the lookup of the key in one store.
    pub fn query(&self, purpose: Purpose) -> Query<'a> {
        Query { purpose, hash: self.hash, key: self.key }
    }

    /// Returns the result for a record of the key. Copies the value, and inserts the record into the cache.
    pub fn found(&self, record: &RecordView<'_>) -> Lookup {
        let value = record.value.filter(|_| !record.is_gone(self.now_ms));
        let expires_at_ms = record.expires_at_ms;
        if let Some(value) = value {
            self.cache.insert(self.ticket, self.key, value, expires_at_ms);
        }
        Lookup::Found(value.map(|value| Found { value: Bytes::copy_from_slice(value), expires_at_ms }))
    }
}

/// Looks a key up in the log, at the positions that an index has for it.
fn look_up_in_log(
    log: &LogView,
    candidates: &LogCandidates,
    context: &LookupContext<'_>,
    purpose: Purpose,
    buffer: &mut AlignedBuffer,
) -> Result<Lookup> {
    for candidate in candidates.iter() {
        let span = log.read(purpose, candidate.position, buffer)?;
        let record = span.view(buffer);
        // The index has tags only, so the record may be of another key.
        if record.key == context.key {
            return Ok(context.found(&record));
        }
    }
    Ok(Lookup::Absent)
}

/// The stores of a partition as one lookup sees them.
pub(super) struct Stores {
    /// Where the active LogStore may have the key.
    active: LogCandidates,
    view: Arc<View>,
    /// `None` if no LogStore has to be read.
    log: Option<LogView>,
}

impl Stores {
    pub fn new(active: LogCandidates, view: Arc<View>, log: Option<LogView>) -> Stores {
        Stores { active, view, log }
    }

    /// Returns the immutable stores.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns false only if the key is certainly absent. Reads nothing from the device.
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        let View { frozen, hash_stores, sorted } = &*self.view;
        !self.active.is_empty()
            || frozen.iter().any(|frozen| !frozen.candidates(hash).is_empty())
            || hash_stores.iter().any(|(_, store)| store.may_contain(hash))
            || sorted.as_ref().is_some_and(|(_, store)| store.may_contain(hash))
    }

    /// Looks the key up in the LogStores.
    pub fn look_up_young(
        &self,
        context: &LookupContext<'_>,
        purpose: Purpose,
        buffer: &mut AlignedBuffer,
    ) -> Result<Lookup> {
        let Some(log) = &self.log else { return Ok(Lookup::Absent) };
        let active = look_up_in_log(log, &self.active, context, purpose, buffer)?;
        if let Lookup::Found(_) = active {
            return Ok(active);
        }
        for frozen in &self.view.frozen {
            let candidates = frozen.candidates(context.hash);
            let found = look_up_in_log(log, &candidates, context, purpose, buffer)?;
            if let Lookup::Found(_) = found {
                return Ok(found);
            }
        }
        Ok(Lookup::Absent)
    }

    /// Looks the key up in all stores.
    pub fn look_up(
        &self,
        context: &LookupContext<'_>,
        purpose: Purpose,
        buffer: &mut AlignedBuffer,
    ) -> Result<Option<Found>> {
        if let Lookup::Found(found) = self.look_up_young(context, purpose, buffer)? {
            return Ok(found);
        }
        let query = context.query(purpose);
        let found = |record: &RecordView<'_>| context.found(record);
        for (_, store) in &self.view.hash_stores {
            if let Some(Lookup::Found(found)) = store.look_up(&query, buffer, found)? {
                return Ok(found);
            }
        }
        if let Some((_, store)) = &self.view.sorted
            && let Some(Lookup::Found(found)) = store.look_up(&query, buffer, found)?
        {
            return Ok(found);
        }
        Ok(None)
    }
}
