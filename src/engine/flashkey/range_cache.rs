//! Records of ranges from the record cache, which has the present records, whereas a range has those of its moment.
//!
//! A key whose entries are the same at both moments was not written in between: units are not used again as long as no
//! segment was started or released. The entries are compared after the lookup in the cache, so a record that the cache
//! had then is that of the range, and what is read for the range may be inserted.

use super::get::{FoundValue, Wanted, find_many};
use super::indexed_logs::IndexedLogs;
use super::snapshot::LogSnapshot;
use crate::batch::has_expired;
use crate::cache::{RecordCache, Ticket, cache_hash};
use crate::error::Result;
use crate::key::Key;
use bytes::Bytes;
use siltstone_device::Purpose;
use siltstone_mica::HashedKey;
use std::sync::{Arc, Weak};

/// The record cache and the present index. A range that outlives the database does without.
#[derive(Clone)]
pub(crate) struct RangeCache {
    logs: Weak<IndexedLogs>,
    cache: Weak<RecordCache>,
}

impl RangeCache {
    pub fn new(logs: &Arc<IndexedLogs>, cache: &Arc<RecordCache>) -> RangeCache {
        RangeCache { logs: Arc::downgrade(logs), cache: Arc::downgrade(cache) }
    }

    /// Returns the values that several keys had in the snapshot. The reads overlap.
    pub fn get_many(&self, snapshot: &LogSnapshot, keys: &[Key<'_>]) -> Result<Vec<Option<FoundValue>>> {
        match (self.logs.upgrade(), self.cache.upgrade()) {
            (Some(logs), Some(cache)) if cache.is_enabled() => look_up(&logs, &cache, snapshot, keys),
            _ => snapshot.get_many(keys),
        }
    }
}

fn look_up(
    logs: &IndexedLogs,
    cache: &RecordCache,
    snapshot: &LogSnapshot,
    keys: &[Key<'_>],
) -> Result<Vec<Option<FoundValue>>> {
    let hashed: Vec<_> =
        keys.iter().map(|key| HashedKey { hash: cache_hash(key.hash()), bytes: key.bytes() }).collect();
    let mut cached = vec![Err(Ticket::NONE); keys.len()];
    // In this order: cache, present entries, list of segments. What is equal to the snapshot after the lookup in the
    // cache was equal during it.
    cache.get_many(&hashed, |number, found| cached[number] = found);
    let hashes: Vec<u64> = keys.iter().map(|key| key.hash().placement).collect();
    let present: Vec<_> = hashes.iter().map(|hash| logs.index.known_candidates(*hash)).collect();
    let is_current = logs.data.is_current(&snapshot.view);
    let candidates = snapshot.index.candidates(Purpose::Get, &hashes)?;
    let mut found = vec![None; keys.len()];
    let mut wanted = Vec::with_capacity(keys.len());
    let rows = cached.into_iter().zip(present).zip(candidates).zip(keys).enumerate();
    for (number, (((cached, (now, are_all)), units), key)) in rows {
        let is_same = is_current && are_all && *now == *units;
        match cached {
            Ok((value, expires_at_ms)) if is_same => {
                let is_live = !has_expired(expires_at_ms, snapshot.now_ms);
                found[number] = is_live.then(|| (Bytes::from(value), expires_at_ms));
            }
            cached => {
                let ticket = cached.err().filter(|_| is_same).unwrap_or(Ticket::NONE);
                wanted.push(Wanted { number, key: *key, units, ticket });
            }
        }
    }
    find_many(Purpose::Get, &snapshot.view, wanted, &mut |wanted, _, record| {
        let Some(value) = record.value.filter(|_| !record.is_gone(snapshot.now_ms)) else { return };
        cache.insert(wanted.ticket, record.key, value, record.expires_at_ms);
        found[wanted.number] = Some((Bytes::copy_from_slice(value), record.expires_at_ms));
    })?;
    Ok(found)
}
