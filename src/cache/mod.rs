//! Whole records in memory, by the hash of their keys, in a given number of bytes.
//!
//! A cache stands in front of a store and must never answer what the store no longer would. So a read that misses
//! takes a [`Ticket`] before it goes to the store, and may put in what it found there only if no write to a key of the
//! same *stripe* has begun or ended since. A write holds a [`WriteGuard`] from before it changes the store until the
//! store answers what was written; in between the record of its key is not in the cache. Whatever the threads do, an
//! answer is then one that the store gave, or would have given, at some moment between question and answer.

mod shard;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use bytes::Bytes;
use shard::Shard;
use std::sync::OnceLock;

/// How many threads may be at work at a time, at the best.
const SHARDS: usize = 16;
/// A record takes no more than this share of a shard's memory.
const RECORD_SHARE: usize = 4;
/// A cache of fewer bytes is as good as none.
const BYTES_MIN: usize = 64 << 10;

/// A value with its expiry time, in milliseconds since the Unix epoch, or 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedRecord {
    /// The value. Cloning it copies no bytes.
    pub value: Bytes,
    /// When it ceases to be.
    pub expires_at_ms: u64,
}

/// What a lookup found.
#[derive(Debug)]
pub enum Cached {
    /// The record.
    Hit(CachedRecord),
    /// Nothing; with it what the store finds may be put in.
    Miss(Ticket),
}

/// The right to put in what the store is asked for after this moment.
#[derive(Debug, Clone, Copy)]
pub struct Ticket {
    hash: u64,
    /// `None` if nothing can be put in.
    version: Option<u32>,
}

/// A cache of records. Evicts by SIEVE (Zhang and others, NSDI 2024): from the oldest on those that were not asked for
/// since the hand passed them last.
pub struct RecordCache {
    /// None before the cache is [enabled](Self::enable).
    shards: OnceLock<Box<[Mutex<Shard>]>>,
    /// All that the shards may hold together, in bytes.
    capacity: AtomicUsize,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl RecordCache {
    /// A cache of so many bytes, all of its memory included; none of it is taken before there is something to keep.
    /// With less than 64 KiB nothing is kept.
    pub fn new(bytes: usize) -> Self {
        let cache = RecordCache {
            shards: OnceLock::new(),
            capacity: AtomicUsize::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        };
        if bytes > 0 {
            cache.enable();
        }
        cache.resize(bytes);
        cache
    }

    /// Lets the cache have a size from now on. No write may be under way: those that were announced before are not
    /// known to it.
    pub fn enable(&self) {
        self.shards.get_or_init(|| (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect());
    }

    /// Whether writes have to be announced.
    pub fn is_enabled(&self) -> bool {
        self.shards.get().is_some()
    }

    fn shards(&self) -> &[Mutex<Shard>] {
        self.shards.get().map_or(&[], |shards| shards)
    }

    fn shard(&self, hash: u64) -> Option<&Mutex<Shard>> {
        // Shards, stripes and buckets each take other bits of the hash.
        self.shards().get((hash >> 32) as usize % SHARDS)
    }

    /// The record of a key, if it is there. `hash` is any hash of the key that depends on nothing else.
    #[inline]
    pub fn get(&self, hash: u64, key: &[u8]) -> Cached {
        let shard = self.shard(hash).filter(|_| self.capacity.load(Relaxed) > 0);
        let Some(shard) = shard else { return Cached::Miss(Ticket { hash, version: None }) };
        let outcome = shard.lock().get(hash, key);
        match outcome {
            Ok(record) => {
                self.hits.fetch_add(1, Relaxed);
                Cached::Hit(record)
            }
            Err(version) => {
                self.misses.fetch_add(1, Relaxed);
                Cached::Miss(Ticket { hash, version })
            }
        }
    }

    /// Keeps what the store answered to the read that holds the ticket, if nobody has written to the key meanwhile.
    /// Others may be evicted for it. Answers the record for its own use, so that its bytes are copied but once.
    pub fn insert(&self, ticket: Ticket, key: &[u8], value: &[u8], expires_at_ms: u64) -> Bytes {
        let capacity = self.capacity.load(Relaxed) / SHARDS;
        let fits = Shard::bytes_of(key.len() + value.len()) <= capacity / RECORD_SHARE;
        let (Some(version), Some(shard)) = (ticket.version.filter(|_| fits), self.shard(ticket.hash)) else {
            return Bytes::copy_from_slice(value);
        };
        let record = shard::pack(key, value);
        let value = record.slice(key.len()..);
        let mut shard = shard.lock();
        if shard.is_current(ticket.hash, version) {
            // As it is now: another thread may have made the cache smaller since.
            let capacity = self.capacity.load(Relaxed) / SHARDS;
            shard.insert(ticket.hash, record, key.len() as u32, expires_at_ms, capacity);
        }
        value
    }

    /// Announces a write to a key, to be held until the store answers what was written.
    pub fn write(&self, hash: u64, key: &[u8]) -> WriteGuard<'_> {
        let shard = self.shard(hash);
        if let Some(shard) = shard {
            shard.lock().begin_write(hash, key);
        }
        WriteGuard { shard, hash }
    }

    /// Changes the number of bytes, evicting what is too much at once.
    pub fn resize(&self, bytes: usize) {
        let bytes = if bytes < BYTES_MIN || !self.is_enabled() { 0 } else { bytes };
        if self.capacity.swap(bytes, Relaxed) > bytes {
            for shard in self.shards() {
                shard.lock().shrink(bytes / SHARDS);
            }
        }
    }

    /// The most bytes that it may hold now.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.capacity.load(Relaxed)
    }

    /// The memory held, in bytes. Values that readers still have are theirs once they are evicted.
    pub fn heap_bytes(&self) -> usize {
        let shards: usize = self.shards().iter().map(|shard| shard.lock().heap_bytes()).sum();
        shards + size_of_val(self.shards())
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.shards().iter().map(|shard| shard.lock().len()).sum()
    }

    /// Whether there are none.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many lookups found their record, and how many did not, while there was room for any.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Relaxed), self.misses.load(Relaxed))
    }
}

/// A write under way. While it is held, and for reads that began before its end, the key's record stays out.
#[must_use]
pub struct WriteGuard<'a> {
    shard: Option<&'a Mutex<Shard>>,
    hash: u64,
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        if let Some(shard) = self.shard {
            shard.lock().end_write(self.hash);
        }
    }
}

#[cfg(test)]
mod tests;
