//! Gets: from the record cache, or from the logs by the entries of the key's hash.

use super::indexed_logs::{IndexedLogs, RecordPlace, find};
use super::memory::Memory;
use crate::batch::{TimestampMs, has_expired};
use crate::cache::{RecordCache, Ticket, cache_hash};
use crate::engine::InMemory;
use crate::error::Result;
use crate::key::Key;
use crate::store::data_logs::{DataView, Unit};
use crate::store::record::RecordView;
use crate::store::unit_index::Candidates;
use bytes::Bytes;
use siltstone_device::{Purpose, with_scratch};
use siltstone_mica::HashedKey;
use std::sync::Arc;

/// The maximum number of keys that are looked up together: each may have a read in flight, with its own buffer. With a
/// memory budget, `store::read_batches` has fewer reads in flight.
const KEYS_PER_BATCH: usize = 128;

/// A value with its expiry time.
pub(crate) type FoundValue = (Bytes, TimestampMs);

/// What the logs have of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sought<T> {
    /// A record.
    Found(T),
    /// A tombstone, or a record that has expired: what a store below has is older.
    Gone,
    /// Nothing: a store below may have a record.
    Missing,
}

impl<T> Sought<T> {
    /// Returns the record, if there is one.
    pub fn found(self) -> Option<T> {
        match self {
            Sought::Found(found) => Some(found),
            Sought::Gone | Sought::Missing => None,
        }
    }
}

/// Looks keys up.
pub(crate) struct Reader {
    logs: Arc<IndexedLogs>,
    cache: Arc<RecordCache>,
    memory: Arc<Memory>,
}

/// A key of several that is not found yet.
pub(super) struct Wanted<'a> {
    /// Its number among the requested keys.
    pub number: usize,
    pub key: Key<'a>,
    pub units: Candidates,
    pub ticket: Ticket,
}

impl Reader {
    pub fn new(logs: &Arc<IndexedLogs>, cache: &Arc<RecordCache>, memory: &Arc<Memory>) -> Reader {
        Reader { logs: logs.clone(), cache: cache.clone(), memory: memory.clone() }
    }

    /// Appends the value of a key to `value`, and returns when it expires.
    #[inline]
    pub fn get_into(
        &self,
        key: Key<'_>,
        now_ms: TimestampMs,
        value: &mut Vec<u8>,
    ) -> Result<Option<TimestampMs>> {
        Ok(self.seek(key, now_ms, value)?.found())
    }

    /// Like [`get_into`](Self::get_into), and distinguishes a key without a record in the logs.
    #[inline]
    pub fn seek(
        &self,
        key: Key<'_>,
        now_ms: TimestampMs,
        value: &mut Vec<u8>,
    ) -> Result<Sought<TimestampMs>> {
        let start = value.len();
        match self.cache.get(cache_hash(key.hash()), key.bytes(), value) {
            // The cache has the newest record of the key, so nothing is looked up.
            Ok(expires_at_ms) if has_expired(expires_at_ms, now_ms) => {
                value.truncate(start);
                Ok(Sought::Gone)
            }
            Ok(expires_at_ms) => {
                self.logs.index.mark(key.hash().placement);
                Ok(Sought::Found(expires_at_ms))
            }
            // The ticket is from before the lookup: a write in between makes it void, and nothing old gets into the
            // cache.
            Err(ticket) => self.look_up(key, now_ms, ticket, value),
        }
    }

    /// Looks a key up in the record cache and in the index.
    pub fn look_in_memory(&self, key: Key<'_>, now_ms: TimestampMs, value: &mut Vec<u8>) -> Result<InMemory> {
        let start = value.len();
        match self.cache.get_at_first(cache_hash(key.hash()), key.bytes(), value) {
            Ok(expires_at_ms) if has_expired(expires_at_ms, now_ms) => {
                value.truncate(start);
                Ok(InMemory::Absent)
            }
            Ok(expires_at_ms) => {
                self.logs.index.mark(key.hash().placement);
                Ok(InMemory::Found(expires_at_ms))
            }
            Err(_) if self.may_contain(key) => Ok(InMemory::Unknown),
            Err(_) => Ok(InMemory::Absent),
        }
    }

    /// Looks a key up in the logs. Not inlined, so that a hit in the cache does not set up the memory for it.
    #[inline(never)]
    fn look_up(
        &self,
        key: Key<'_>,
        now_ms: TimestampMs,
        ticket: Ticket,
        value: &mut Vec<u8>,
    ) -> Result<Sought<TimestampMs>> {
        let (units, view) = self.logs.look(|index| index.candidates(key.hash().placement))?;
        if units.is_empty() {
            self.logs.count_lookup(false);
            return Ok(Sought::Missing);
        }
        self.logs.index.mark(key.hash().placement);
        self.memory.account_for_read_buffers();
        with_scratch(|buffer| {
            let span = find(&view, &units, key, Purpose::Get, buffer)?;
            let record = span.map(|span| span.view(buffer));
            self.logs.count_lookup(record.is_some_and(|record| !record.is_gone(now_ms)));
            let Some(record) = record else { return Ok(Sought::Missing) };
            Ok(self.found(&record, now_ms, ticket).map_or(Sought::Gone, |found| {
                value.reserve_exact(found.len());
                value.extend_from_slice(found);
                Sought::Found(record.expires_at_ms)
            }))
        })
    }

    /// Returns the value of a record that a lookup found, unless it is gone, and offers it to the cache.
    fn found<'r>(&self, record: &RecordView<'r>, now_ms: TimestampMs, ticket: Ticket) -> Option<&'r [u8]> {
        let value = record.value.filter(|_| !record.is_gone(now_ms))?;
        self.cache.insert(ticket, record.key, value, record.expires_at_ms);
        Some(value)
    }

    /// Returns false only if the key is certainly absent. Reads nothing from the device.
    pub fn may_contain(&self, key: Key<'_>) -> bool {
        // A record that has left a cache on flash may still be in the record cache.
        let may_be_cached = self.logs.settings.is_cache() && self.cache.is_enabled();
        may_be_cached || self.logs.index.may_contain(key.hash().placement)
    }

    /// Returns the values of several keys, in the order of the keys. The reads overlap.
    pub fn seek_many(&self, keys: &[Key<'_>], now_ms: TimestampMs) -> Result<Vec<Sought<FoundValue>>> {
        self.find_places(keys, now_ms, &mut |_, _| ())
    }

    /// Like [`seek_many`](Self::seek_many). Passes the place of each record that was read and has one of the keys to
    /// `place`, with the number of the key.
    pub fn find_places(
        &self,
        keys: &[Key<'_>],
        now_ms: TimestampMs,
        place: &mut dyn FnMut(usize, RecordPlace),
    ) -> Result<Vec<Sought<FoundValue>>> {
        let mut found = vec![Sought::Missing; keys.len()];
        let mut missed = Vec::new();
        let hashed: Vec<_> =
            keys.iter().map(|key| HashedKey { hash: cache_hash(key.hash()), bytes: key.bytes() }).collect();
        self.cache.get_many(&hashed, |number, cached| match cached {
            Ok((_, expires_at_ms)) if has_expired(expires_at_ms, now_ms) => found[number] = Sought::Gone,
            Ok((value, expires_at_ms)) => {
                self.logs.index.mark(keys[number].hash().placement);
                found[number] = Sought::Found((Bytes::from(value), expires_at_ms));
            }
            Err(ticket) => missed.push((number, ticket)),
        });
        for batch in missed.chunks(KEYS_PER_BATCH) {
            self.memory.make_place_for_batch();
            let hashes = batch.iter().map(|&(number, _)| keys[number].hash().placement);
            let hashes: Vec<u64> = hashes.collect();
            let (units, view) = self.logs.look(|index| {
                let lookups = index.look_up_for(Purpose::Get, &hashes)?;
                lookups.iter().map(|lookup| index.candidates_of(lookup)).collect::<Result<Vec<_>>>()
            })?;
            let wanted = batch.iter().zip(units);
            let wanted =
                wanted.map(|(&(number, ticket), units)| Wanted { number, key: keys[number], units, ticket });
            self.memory.account_for_read_buffers();
            let (asked, mut found_here) = (batch.len(), 0);
            find_many(Purpose::Get, &view, wanted.collect(), &mut |wanted, unit, record| {
                let segment = view.segment_of(unit);
                self.logs.index.mark(wanted.key.hash().placement);
                place(
                    wanted.number,
                    RecordPlace { unit, segment, bytes: self.logs.data.frame_bytes(record) },
                );
                let value = self.found(record, now_ms, wanted.ticket);
                found_here += usize::from(value.is_some());
                found[wanted.number] = value.map_or(Sought::Gone, |value| {
                    Sought::Found((Bytes::copy_from_slice(value), record.expires_at_ms))
                });
            })?;
            (0..asked).for_each(|number| self.logs.count_lookup(number < found_here));
        }
        Ok(found)
    }
}

/// Looks several keys up in a view, in rounds: each reads one record for every key that is not found yet, all of them
/// in flight together. Passes the records of the keys to `show`, with their units.
pub(super) fn find_many(
    purpose: Purpose,
    view: &DataView,
    mut wanted: Vec<Wanted<'_>>,
    show: &mut dyn FnMut(&Wanted<'_>, Unit, &RecordView<'_>),
) -> Result<()> {
    for round in 0.. {
        // The newest entries come first. An older one is read only if all newer ones are of other keys.
        wanted.retain(|wanted| wanted.units.len() > round);
        if wanted.is_empty() {
            break;
        }
        let units: Vec<Unit> = wanted.iter().map(|wanted| wanted.units[round]).collect();
        let mut is_found = vec![false; wanted.len()];
        view.read_many(purpose, &units, &mut |number, record| {
            if record.key == wanted[number].key.bytes() {
                is_found[number] = true;
                show(&wanted[number], units[number], record);
            }
            Ok(())
        })?;
        let mut is_found = is_found.into_iter();
        wanted.retain(|_| !is_found.next().unwrap_or(true));
    }
    Ok(())
}
