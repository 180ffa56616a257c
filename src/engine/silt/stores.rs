//! A lookup in the stores of a partition, from the newest to the oldest (SILT 2).

use super::view::View;
use crate::batch::TimestampMs;
use crate::cache::{RecordCache, Ticket};
use crate::error::Result;
use crate::key::KeyHash;
use crate::store::Query;
use crate::store::chain::Chain;
use crate::store::examine::is_damage;
use crate::store::log::{Log, ReadableSegments};
use crate::store::log_store::LogCandidates;
use crate::store::record::RecordView;
use crate::store::table::Span;
use siltstone_device::AlignedBuffer;
use siltstone_device::sync::Reading;

/// What a store says about a key.
pub(super) enum Lookup {
    /// The store has no record of the key; older stores may have one.
    Absent,
    /// The store has the newest record of the key: its expiry time, or `None` if it is a tombstone or has expired.
    Found(Option<TimestampMs>),
}

/// A key and what its lookup needs in every store.
#[derive(Clone, Copy)]
pub(super) struct LookupContext<'a> {
    pub query: Query<'a>,
    pub now_ms: TimestampMs,
    /// The cache that the record is inserted into, and the permission to do so.
    pub cache: &'a RecordCache,
    pub ticket: Ticket,
    /// The log that LogStores point into.
    pub log: &'a Log,
}

impl LookupContext<'_> {
    /// Returns the result for a record of the key. Appends its value to `to`, and inserts the record into the cache.
    pub fn found(&self, record: &RecordView<'_>, to: &mut Vec<u8>) -> Lookup {
        let Some(value) = record.value.filter(|_| !record.is_gone(self.now_ms)) else {
            return Lookup::Found(None);
        };
        // Refused if a write to the key's stripe has begun since the ticket: the record may be older than the stores.
        self.cache.insert(self.ticket, self.query.key, value, record.expires_at_ms);
        to.reserve_exact(value.len());
        to.extend_from_slice(value);
        Lookup::Found(Some(record.expires_at_ms))
    }

    /// Looks the key up in the log, at the positions that an index has for it.
    fn look_up_in_log(
        &self,
        segments: &ReadableSegments,
        candidates: &LogCandidates,
        buffer: &mut AlignedBuffer,
        to: &mut Vec<u8>,
    ) -> Result<Lookup> {
        for candidate in candidates.iter() {
            let span = self.log.read(segments, self.query.purpose, candidate.position, buffer)?;
            let record = span.view(buffer);
            // The index has tags only, so the record may be of another key.
            if record.key == self.query.key {
                return Ok(self.found(&record, to));
            }
        }
        Ok(Lookup::Absent)
    }
}

/// The stores of a partition as one lookup sees them.
pub(super) struct Stores {
    /// Where the active LogStore may have the key.
    pub active: LogCandidates,
    /// The immutable stores.
    pub view: Reading<View>,
    /// `None` if no LogStore has to be read.
    pub log: Option<ReadableSegments>,
}

impl Stores {
    /// Returns false only if the key is certainly absent. Reads nothing from the device.
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        !self.active.is_empty()
            || self.view.frozen.iter().any(|frozen| !frozen.candidates(hash).is_empty())
            || self
                .view
                .searched(hash.placement)
                .take(self.view.unchained())
                .any(|store| store.may_contain(hash))
            || self.view.may_be_chained(hash.placement)
    }

    /// Looks the key up in the LogStores, and appends its value to `to`.
    pub fn look_up_young(
        &self,
        context: &LookupContext<'_>,
        buffer: &mut AlignedBuffer,
        to: &mut Vec<u8>,
    ) -> Result<Lookup> {
        let Some(log) = &self.log else { return Ok(Lookup::Absent) };
        let active = context.look_up_in_log(log, &self.active, buffer, to)?;
        if let Lookup::Found(_) = active {
            return Ok(active);
        }
        // The view has the newest first.
        for frozen in &self.view.frozen {
            let candidates = frozen.candidates(context.query.hash);
            let found = context.look_up_in_log(log, &candidates, buffer, to)?;
            if let Lookup::Found(_) = found {
                return Ok(found);
            }
        }
        Ok(Lookup::Absent)
    }

    /// Looks the key up in all stores. Appends its value to `to`, and returns when it expires.
    pub fn look_up(
        &self,
        context: &LookupContext<'_>,
        buffer: &mut AlignedBuffer,
        to: &mut Vec<u8>,
    ) -> Result<Option<TimestampMs>> {
        match self.look_up_once(context, buffer, to) {
            // The merge in progress may have lost what it wrote; what it merges is durable.
            Err(error)
                if is_damage(&error) && self.view.note_damage_of_merged(context.query.hash.placement) =>
            {
                self.look_up_once(context, buffer, to)
            }
            outcome => outcome,
        }
    }

    #[inline]
    fn look_up_once(
        &self,
        context: &LookupContext<'_>,
        buffer: &mut AlignedBuffer,
        to: &mut Vec<u8>,
    ) -> Result<Option<TimestampMs>> {
        if let Lookup::Found(found) = self.look_up_young(context, buffer, to)? {
            return Ok(found);
        }
        let mut found = |record: &RecordView<'_>| context.found(record, to);
        let unchained = self.view.unchained();
        // The chain has the oldest stores, so its page is read only after the newer ones were searched.
        for store in self.view.searched(context.query.hash.placement).take(unchained) {
            if let Some(Lookup::Found(found)) = store.look_up(&context.query, buffer, &mut found)? {
                return Ok(found);
            }
        }
        match &self.view.chain {
            Some((_, chain)) if self.view.may_be_chained(context.query.hash.placement) => {
                self.look_up_in_chain(chain, &context.query, buffer, &mut found)
            }
            _ => Ok(None),
        }
    }

    /// Looks the key up in the stores of the chain: reads a page, and the blocks that it names.
    fn look_up_in_chain(
        &self,
        chain: &Chain,
        query: &Query<'_>,
        buffer: &mut AlignedBuffer,
        found: &mut impl FnMut(&RecordView<'_>) -> Lookup,
    ) -> Result<Option<TimestampMs>> {
        let placement = query.hash.placement;
        match chain.look_up(placement, query.purpose, buffer) {
            Ok(places) => {
                for place in places {
                    // Chain and stores are of one view, so an age is the same run in both.
                    let Some(store) = self.view.chained(place.run) else { continue };
                    let span = Span::Blocks(place.blocks);
                    if let Some(Lookup::Found(found)) = store.look_up_in(span, query, buffer, found)? {
                        return Ok(found);
                    }
                }
            }
            // The records are all there; only what locates them is lost.
            Err(error) if is_damage(&error) => {
                chain.note_damage();
                for store in self.view.searched(placement).skip(self.view.unchained()) {
                    if let Some(Lookup::Found(found)) = store.look_up(query, buffer, &mut *found)? {
                        return Ok(found);
                    }
                }
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }
}
