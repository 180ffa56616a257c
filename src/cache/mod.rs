//! Whole records in memory, by the hash of their keys, in a given number of bytes.
//!
//! A cache stands in front of a store and must never answer what the store no longer would. So a read that misses
//! takes a [`Ticket`] before it goes to the store, and may put in what it found there only if no write to a key of the
//! same *stripe* has begun or ended since. A write holds a [`WriteGuard`] from before it changes the store until the
//! store answers what was written; in between the record of its key is not in the cache. Whatever the threads do, an
//! answer is then one that the store gave, or would have given, at some moment between question and answer.
//!
//! The records stand as in MICA's cache mode (dissertation 5.3.3; [`mica`](crate::mica)): in circular
//! logs, found by lossy indexes; what is asked for in the oldest quarter of a log is appended anew.

mod shard;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use bytes::Bytes;
use shard::{HashOf, SHARD_BYTES_MIN, Shard};
use std::sync::OnceLock;

/// How many threads may be at work at a time, at the best.
const SHARDS: usize = 16;
/// A cache of fewer bytes is as good as none.
const BYTES_MIN: usize = SHARDS * SHARD_BYTES_MIN * 16 / 15 + SHARDS;
/// This share of the cache is left free when the logs are made, so that they need not be made anew for every change of
/// its size: not before it shrinks by more than that, or grows by more than twice that.
const SLACK_SHARE: usize = 16;

/// A value with its expiry time, in milliseconds since the Unix epoch, or 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedRecord {
    /// The value, a copy of its own.
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

impl Ticket {
    /// The right to nothing: for reads of a past moment, whose records may have been replaced.
    pub const NONE: Ticket = Ticket { hash: 0, version: None };
}

/// A cache of records. What is new takes the place of what was put in or asked for longest ago, nearly; now and then,
/// where too many keys come to one bucket of an index, of a record somewhat younger. Once it is full, a record comes in
/// when it is missed a second time.
pub struct RecordCache {
    /// None before the cache is [enabled](Self::enable).
    shards: OnceLock<Box<[Mutex<Shard>]>>,
    /// All that the shards may hold together, in bytes.
    capacity: AtomicUsize,
    /// For how many bytes the logs are made, together.
    log_bytes: Mutex<usize>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl RecordCache {
    /// A cache of so many bytes, all of its memory included; none of it is taken before there is something to keep.
    /// With less than 137 KiB nothing is kept.
    pub fn new(bytes: usize) -> Self {
        let cache = RecordCache {
            shards: OnceLock::new(),
            capacity: AtomicUsize::new(0),
            log_bytes: Mutex::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        };
        if bytes > 0 {
            cache.enable();
        }
        cache.resize(bytes, &|_| 0);
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

    /// Keeps what the store answered to the read that holds the ticket, if nobody has written to the key meanwhile,
    /// and if there is room or it was missed before not long ago; then others are evicted for it. A record of more
    /// than a quarter of a shard's memory, a 64th of all, is not kept.
    pub fn insert(&self, ticket: Ticket, key: &[u8], value: &[u8], expires_at_ms: u64) {
        let capacity = self.capacity.load(Relaxed) / SHARDS;
        let fits = Shard::fits(key.len() + value.len(), capacity);
        let (Some(version), Some(shard)) = (ticket.version.filter(|_| fits), self.shard(ticket.hash)) else {
            return;
        };
        let mut shard = shard.lock();
        if shard.is_current(ticket.hash, version) {
            shard.insert(ticket.hash, key, value, expires_at_ms);
        }
    }

    /// Announces a write to a key, to be held until the store answers what was written.
    pub fn write(&self, hash: u64, key: &[u8]) -> WriteGuard<'_> {
        let shard = self.shard(hash);
        if let Some(shard) = shard {
            shard.lock().begin_write(hash, key);
        }
        WriteGuard { shard, hash }
    }

    /// Changes the number of bytes. If the logs have to be made anew, all but one come along, one after the other, so
    /// that never more is held than before or afterwards; each is locked for as long as it takes to copy it. `hash_of`
    /// is the hash by which keys are asked for.
    pub fn resize(&self, bytes: usize, hash_of: HashOf<'_>) {
        let bytes = if bytes < BYTES_MIN || !self.is_enabled() { 0 } else { bytes };
        let mut log_bytes = self.log_bytes.lock();
        self.capacity.store(bytes, Relaxed);
        let share = *log_bytes / (SLACK_SHARE - 1);
        if (*log_bytes..=*log_bytes + 3 * share).contains(&bytes) {
            return;
        }
        *log_bytes = bytes - bytes / SLACK_SHARE;
        for (number, shard) in self.shards().iter().enumerate() {
            let hash_of = (number > 0).then_some(hash_of);
            shard.lock().resize(*log_bytes / SHARDS, hash_of);
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

    /// How many records there are. Goes through the index: some 10 ns for each 5 records.
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
