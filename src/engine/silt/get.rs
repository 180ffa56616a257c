//! Gets: from the record cache, or from the stores of the key's partition.

use super::parts::Parts;
use super::stores::{Lookup, LookupContext, Stores};
use super::view::PartitionSnapshot;
use crate::batch::{TimestampMs, has_expired};
use crate::cache::{Ticket, cache_hash};
use crate::engine::{Found, InMemory};
use crate::error::Result;
use crate::key::{Key, KeyHash, Route};
use crate::store::Query;
use crate::store::log::LogView;
use siltstone_device::{Purpose, with_scratch};

impl Parts {
    /// Returns the value of a key.
    pub fn get(&self, key: Key<'_>, now_ms: TimestampMs) -> Result<Option<Found>> {
        Found::read(|value| self.get_into(key, now_ms, value))
    }

    /// Appends the value of a key to `value`, and returns when it expires.
    #[inline]
    pub fn get_into(
        &self,
        key: Key<'_>,
        now_ms: TimestampMs,
        value: &mut Vec<u8>,
    ) -> Result<Option<TimestampMs>> {
        let route = self.configuration.hasher.route(key);
        let start = value.len();
        // A miss returns its ticket before the stores are read, so a write in between keeps the older record out.
        match self.cache.get(cache_hash(route.hash), key.bytes(), value) {
            Ok(expires_at_ms) if has_expired(expires_at_ms, now_ms) => {
                value.truncate(start);
                Ok(None)
            }
            Ok(expires_at_ms) => Ok(Some(expires_at_ms)),
            Err(ticket) => self.look_up(key, route, now_ms, ticket, value),
        }
    }

    /// Looks a key up in the record cache, the LogStores and the filters.
    pub fn look_in_memory(&self, key: Key<'_>, now_ms: TimestampMs, value: &mut Vec<u8>) -> Result<InMemory> {
        let route = self.configuration.hasher.route(key);
        let start = value.len();
        let ticket = match self.cache.get_at_first(cache_hash(route.hash), key.bytes(), value) {
            Ok(expires_at_ms) if has_expired(expires_at_ms, now_ms) => {
                value.truncate(start);
                return Ok(InMemory::Absent);
            }
            Ok(expires_at_ms) => return Ok(InMemory::Found(expires_at_ms)),
            Err(ticket) => ticket,
        };
        let stores = self.partitions.stores_of(route);
        let context = self.context(key.bytes(), route.hash, now_ms, ticket);
        match with_scratch(|buffer| stores.look_up_young(&context, buffer, value))? {
            Lookup::Found(expires_at_ms) => Ok(expires_at_ms.into()),
            Lookup::Absent if stores.may_contain(route.hash) => Ok(InMemory::Unknown),
            Lookup::Absent => Ok(InMemory::Absent),
        }
    }

    /// Looks a key up in the stores. Not inlined, so that a hit in the cache does not set up the memory for it.
    #[inline(never)]
    fn look_up(
        &self,
        key: Key<'_>,
        route: Route,
        now_ms: TimestampMs,
        ticket: Ticket,
        value: &mut Vec<u8>,
    ) -> Result<Option<TimestampMs>> {
        self.memory.account_for_read_buffers();
        let stores = self.partitions.stores_of(route);
        let context = self.context(key.bytes(), route.hash, now_ms, ticket);
        with_scratch(|buffer| stores.look_up(&context, buffer, value))
    }

    /// Returns false only if the key is certainly absent. Reads nothing from the device.
    pub fn may_contain(&self, key: Key<'_>) -> bool {
        let route = self.configuration.hasher.route(key);
        self.partitions.stores_of(route).may_contain(route.hash)
    }

    /// Returns the size of a block on flash, in bytes.
    pub fn block_bytes(&self) -> usize {
        self.configuration.header.block_bytes as usize
    }

    /// Returns the stores to search for a key that the cache does not have.
    pub fn start<'a>(
        &'a self,
        key: Key<'a>,
        now_ms: TimestampMs,
        ticket: Ticket,
    ) -> (LookupContext<'a>, Stores) {
        let route = self.configuration.hasher.route(key);
        let stores = self.partitions.stores_of(route);
        (self.context(key.bytes(), route.hash, now_ms, ticket), stores)
    }

    /// Returns the stores to search for a key in a snapshot. The cache is not used: it has newer records than the
    /// snapshot.
    pub fn start_in_snapshot<'a>(
        &'a self,
        key: Key<'a>,
        now_ms: TimestampMs,
        partitions: &[PartitionSnapshot],
        log: &LogView,
    ) -> (LookupContext<'a>, Stores) {
        let Route { partition, hash } = self.configuration.hasher.route(key);
        let PartitionSnapshot { active, view } = &partitions[partition];
        let stores =
            Stores { active: active.candidates(hash), view: view.clone().into(), log: Some(log.readable()) };
        (self.context(key.bytes(), hash, now_ms, Ticket::NONE), stores)
    }

    fn context<'a>(
        &'a self,
        key: &'a [u8],
        hash: KeyHash,
        now_ms: TimestampMs,
        ticket: Ticket,
    ) -> LookupContext<'a> {
        let query = Query { purpose: Purpose::Get, hash, key };
        LookupContext { query, now_ms, cache: &self.cache, ticket, log: &self.log }
    }
}
