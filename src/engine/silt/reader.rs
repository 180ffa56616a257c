//! Gets: from the record cache, or from the stores of the key's partition.

use super::configuration::Configuration;
use super::memory_budget::MemoryBudget;
use super::partition::Partitions;
use super::stores::{LookupContext, Stores};
use super::view::PartitionSnapshot;
use crate::Result;
use crate::batch::{NEVER, TimestampMs};
use crate::cache::{Cached, CachedRecord, RecordCache, Ticket, cache_hash};
use crate::device::{Purpose, with_scratch};
use crate::engine::Found;
use crate::key::{Key, KeyHash};
use crate::store::log::LogView;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Looks keys up.
pub(super) struct Reader {
    configuration: Arc<Configuration>,
    partitions: Arc<Partitions>,
    cache: Arc<RecordCache>,
    pub(super) memory: Arc<MemoryBudget>,
}

impl Reader {
    pub fn new(
        configuration: &Arc<Configuration>,
        partitions: &Arc<Partitions>,
        cache: &Arc<RecordCache>,
        memory: &Arc<MemoryBudget>,
    ) -> Reader {
        Reader {
            configuration: configuration.clone(),
            partitions: partitions.clone(),
            cache: cache.clone(),
            memory: memory.clone(),
        }
    }

    /// Returns the value of a key.
    #[inline]
    pub fn get(&self, key: Key<'_>, now_ms: TimestampMs) -> Result<Option<Found>> {
        let (partition, hash) = self.configuration.route(key);
        match self.look_up_cached(key, hash, now_ms) {
            Ok(found) => Ok(found),
            Err(ticket) => self.look_up(key, partition, hash, now_ms, ticket),
        }
    }

    /// Returns the value if the cache has the record, or else the permission to insert it.
    #[inline]
    fn look_up_cached(
        &self,
        key: Key<'_>,
        hash: KeyHash,
        now_ms: TimestampMs,
    ) -> std::result::Result<Option<Found>, Ticket> {
        match self.cache.get(cache_hash(hash), key.bytes()) {
            Cached::Hit(CachedRecord { value, expires_at_ms }) => {
                let is_gone = expires_at_ms != NEVER && expires_at_ms <= now_ms;
                Ok((!is_gone).then_some(Found { value, expires_at_ms }))
            }
            Cached::Miss(ticket) => Err(ticket),
        }
    }

    /// Looks a key up in the stores. Not inlined, so that a hit in the cache does not set up the memory for it.
    #[inline(never)]
    fn look_up(
        &self,
        key: Key<'_>,
        partition: usize,
        hash: KeyHash,
        now_ms: TimestampMs,
        ticket: Ticket,
    ) -> Result<Option<Found>> {
        self.memory.account_for_read_buffers();
        let stores = self.partitions.stores_of(partition, hash);
        let context = self.context(key.bytes(), hash, now_ms, ticket);
        with_scratch(|buffer| stores.look_up(&context, Purpose::Get, buffer))
    }

    /// Returns the value if the cache has the record, or else the stores to search.
    pub fn start<'a>(
        &'a self,
        key: Key<'a>,
        now_ms: TimestampMs,
    ) -> ControlFlow<Option<Found>, (LookupContext<'a>, Stores)> {
        let (partition, hash) = self.configuration.route(key);
        match self.look_up_cached(key, hash, now_ms) {
            Ok(found) => ControlFlow::Break(found),
            Err(ticket) => {
                self.memory.account_for_read_buffers();
                let stores = self.partitions.stores_of(partition, hash);
                ControlFlow::Continue((self.context(key.bytes(), hash, now_ms, ticket), stores))
            }
        }
    }

    /// Returns false only if the key is certainly absent. Reads nothing from the device.
    pub fn may_contain(&self, key: Key<'_>) -> bool {
        let (partition, hash) = self.configuration.route(key);
        self.partitions.stores_of(partition, hash).may_contain(hash)
    }

    /// Returns the size of a block on flash, in bytes.
    pub fn block_bytes(&self) -> usize {
        self.configuration.header.block_bytes as usize
    }

    fn context<'a>(
        &'a self,
        key: &'a [u8],
        hash: KeyHash,
        now_ms: TimestampMs,
        ticket: Ticket,
    ) -> LookupContext<'a> {
        LookupContext { key, hash, now_ms, cache: &self.cache, ticket }
    }

    /// Returns the stores to search for a key in a snapshot. The cache is not used: it has younger records than the
    /// snapshot.
    pub fn start_in_snapshot<'a>(
        &'a self,
        key: Key<'a>,
        now_ms: TimestampMs,
        partitions: &[PartitionSnapshot],
        log: &LogView,
    ) -> (LookupContext<'a>, Stores) {
        let (partition, hash) = self.configuration.route(key);
        let PartitionSnapshot { active, view } = &partitions[partition];
        let stores = Stores::new(active.candidates(hash), view.clone(), Some(log.clone()));
        (self.context(key.bytes(), hash, now_ms, Ticket::NONE), stores)
    }
}
