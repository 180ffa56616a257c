//! The record cache: records in memory, found by the hash of their keys, within a given number of bytes.
//!
//! A cache must never return what its store would no longer return. A read that misses takes a [`Ticket`] before it
//! reads the store. It may insert what it found only if no write to its *stripe*, a share of the keys, has begun or
//! ended since. A write holds a [`WriteGuard`] from before it changes the store until the store returns
//! what was written; in between, the record of its key is not in the cache.
//!
//! ```text
//! reader   miss, ticket of version 7 ---- read store: old value ---------------- insert: refused, version is 8
//! writer        begin_write: removes the record -- store changes -- end_write: version 8
//! ```
//!
//! So every hit is a value that the store returned, or would have returned, at some moment during the lookup.
//!
//! Records are stored as in MICA's cache mode (Li et al., "MICA", NSDI 2014; dissertation 5.3.3;
//! [`siltstone_mica`]): in circular logs with lossy indexes. A hit in the oldest quarter of a log appends the record
//! again. A full log admits a record only on its second miss. When the cache shrinks by more than a sixteenth or grows
//! by more than an eighth, the logs are copied into new ones, one after the other.

mod shard;

use crate::batch::TimestampMs;
use crate::key::KeyHash;
use shard::{HashOf, SHARD_BYTES_MIN, Shard};
use siltstone_device::Striped;
use siltstone_device::sync::Mutex;
use siltstone_device::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use siltstone_mica::HashedKey;
use std::sync::OnceLock;

/// The maximum number of keys whose items are fetched together.
const KEYS_PER_BATCH: usize = 64;
/// The number of shards: up to as many threads can write to the cache at the same time. Lookups do not wait.
const SHARDS: usize = 16;
/// The minimum size; a smaller cache keeps nothing.
const BYTES_MIN: usize = SHARDS * SHARD_BYTES_MIN * 16 / 15 + SHARDS;
/// The share of the capacity that is left unused when logs are made, so that small changes of the capacity need no new
/// logs. They are rebuilt when the capacity shrinks by more than this share, or grows by more than twice this share.
const SLACK_SHARE: usize = 16;

/// The permission to insert what is read from the store after this moment.
#[derive(Debug, Clone, Copy)]
pub struct Ticket {
    hash: u64,
    /// `None` if nothing may be inserted.
    version: Option<u32>,
}

impl Ticket {
    /// A ticket that permits nothing: for reads of a past state, whose records may have been replaced.
    pub const NONE: Ticket = Ticket { hash: 0, version: None };
}

/// A cache of records. A new record replaces approximately the least recently used ones; occasionally a newer one, if
/// too many keys fall in one bucket of an index. Once the cache is full, a record is admitted only on its second miss.
pub struct RecordCache {
    /// None before the cache is [enabled](Self::enable).
    shards: OnceLock<Box<[Shard]>>,
    /// The capacity of all shards together, in bytes.
    capacity: AtomicUsize,
    /// The size that the logs were made for, together.
    log_bytes: Mutex<usize>,
    /// Hits and misses.
    lookups: Striped<2>,
}

/// Returns the number of a key's shard. Shards, stripes and buckets are chosen by different bits of the hash.
#[inline]
fn shard_of(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

/// Returns the hash by which the record of a key is cached.
#[inline]
pub fn cache_hash(hash: KeyHash) -> u64 {
    let both = (hash.placement ^ hash.fingerprint.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    both ^ both >> 32
}

impl RecordCache {
    /// Makes a cache of this many bytes, which include all of its memory. Memory is allocated with the first record.
    /// Less than 137 KiB keeps nothing.
    pub fn new(bytes: usize) -> Self {
        let cache = RecordCache {
            shards: OnceLock::new(),
            capacity: AtomicUsize::new(0),
            log_bytes: Mutex::new(0),
            lookups: Striped::default(),
        };
        if bytes > 0 {
            cache.enable();
        }
        cache.resize(bytes, &|_| 0);
        cache
    }

    /// Allows the cache to have a size. No write may be in progress: the cache does not know writes that were announced
    /// before.
    pub fn enable(&self) {
        // Once: guards of writes refer to the shards, so these are never replaced.
        self.shards.get_or_init(|| (0..SHARDS).map(|_| Shard::default()).collect());
    }

    /// Returns whether writes have to be announced.
    pub fn is_enabled(&self) -> bool {
        self.shards.get().is_some()
    }

    fn shards(&self) -> &[Shard] {
        self.shards.get().map_or(&[], |shards| shards)
    }

    fn shard(&self, hash: u64) -> Option<&Shard> {
        self.shards().get(shard_of(hash))
    }

    /// Appends the value of a key to `value`, and returns when it expires, which the caller checks. Without a record
    /// it returns the permission to insert what the store returns. `hash` may be any hash that depends on the key
    /// alone.
    #[inline]
    pub fn get(&self, hash: u64, key: &[u8], value: &mut Vec<u8>) -> Result<TimestampMs, Ticket> {
        let Some(shard) = self.open_shard(hash) else { return Err(Ticket { hash, version: None }) };
        let found = shard.get(hash, key, value).map_err(|version| Ticket { hash, version });
        self.lookups.add([found.is_ok().into(), found.is_err().into()]);
        found
    }

    /// Like [`get`](Self::get), of a lookup that is repeated if memory does not know the key: counts hits only.
    pub fn get_at_first(&self, hash: u64, key: &[u8], value: &mut Vec<u8>) -> Result<TimestampMs, Ticket> {
        let Some(shard) = self.open_shard(hash) else { return Err(Ticket { hash, version: None }) };
        let found = shard.get(hash, key, value).map_err(|version| Ticket { hash, version });
        self.lookups.add([found.is_ok().into(), 0]);
        found
    }

    /// Returns the shard of a hash, if the cache may have records.
    #[inline]
    fn open_shard(&self, hash: u64) -> Option<&Shard> {
        // Relaxed: the capacity that decides is that of the shard, under the writer's lock.
        self.shard(hash).filter(|_| self.capacity.load(Relaxed) > 0)
    }

    /// Looks up many keys, each as [`get`](Self::get) does: `show` receives the number of a key with its value and
    /// expiry time, or its ticket. The misses of the processor's caches overlap: of a batch, first all buckets are
    /// fetched, then all items.
    pub fn get_many(
        &self,
        keys: &[HashedKey<'_>],
        mut show: impl FnMut(usize, Result<(Vec<u8>, TimestampMs), Ticket>),
    ) {
        if self.capacity.load(Relaxed) == 0 {
            let no_ticket = |key: &HashedKey<'_>| Ticket { hash: key.hash, version: None };
            keys.iter().enumerate().for_each(|(number, key)| show(number, Err(no_ticket(key))));
            return;
        }
        for (number, batch) in keys.chunks(KEYS_PER_BATCH).enumerate() {
            let shards = || batch.iter().filter_map(|key| Some((self.shard(key.hash)?, key)));
            shards().for_each(|(shard, key)| shard.fetch_bucket(key.hash));
            shards().for_each(|(shard, key)| shard.fetch_item(key.hash));
            let mut hits = 0;
            for (at, (shard, key)) in shards().enumerate() {
                let mut value = Vec::new();
                // A writer that has removed an item since it was fetched makes it a miss.
                let found = shard.get(key.hash, key.bytes, &mut value);
                hits += u64::from(found.is_ok());
                let ticket = |version| Ticket { hash: key.hash, version };
                show(number * KEYS_PER_BATCH + at, found.map(|at_ms| (value, at_ms)).map_err(ticket));
            }
            self.lookups.add([hits, batch.len() as u64 - hits]);
        }
    }

    /// Inserts what the store returned to the read that holds the ticket. Does nothing if a write to the key's stripe
    /// has begun or ended since. A full cache also needs a second recent miss of the key. A record of more than a
    /// quarter of a shard, a 64th of the cache, is never inserted.
    pub fn insert(&self, ticket: Ticket, key: &[u8], value: &[u8], expires_at_ms: u64) {
        // Without the lock, so that a record that is too large costs little.
        let capacity = self.capacity.load(Relaxed) / SHARDS;
        let fits = Shard::fits(key.len() + value.len(), capacity);
        let (Some(version), Some(shard)) = (ticket.version.filter(|_| fits), self.shard(ticket.hash)) else {
            return;
        };
        shard.insert_missed(version, ticket.hash, key, value, expires_at_ms);
    }

    /// Puts a record that the store does not have, or removes the record if there is no value. A full cache admits it
    /// too. The caller excludes other writes to the key.
    pub fn put(&self, hash: u64, key: &[u8], value: Option<&[u8]>, expires_at_ms: u64) {
        if let Some(shard) = self.shard(hash) {
            shard.put(hash, key, value, expires_at_ms);
        }
    }

    /// Announces a write to a key, and removes its record. Must be held until the store returns what was written.
    pub fn write(&self, hash: u64, key: &[u8]) -> WriteGuard<'_> {
        let shard = self.shard(hash);
        if let Some(shard) = shard {
            // Before the store changes: from here on, no read of this stripe that began earlier may insert.
            shard.begin_write(hash, key);
        }
        WriteGuard { shard, hash }
    }

    /// Announces a write to any number of keys, and removes all records. Must be held until the store returns what was
    /// written.
    pub fn write_all(&self) -> WriteAllGuard<'_> {
        let shards = self.shards();
        // A read may still insert into a shard that follows. Its announcement, which is next, removes that too.
        shards.iter().for_each(Shard::begin_write_all);
        WriteAllGuard { cache: self, is_announced: !shards.is_empty() }
    }

    /// Changes the capacity. If the logs have to be rebuilt, the records of all shards but one are copied, one shard
    /// after the other. So the cache never takes more memory than before or after. A shard is locked while it is
    /// copied.
    /// `hash_of` returns the hash that keys are looked up by.
    pub fn resize(&self, bytes: usize, hash_of: HashOf<'_>) {
        let bytes = if bytes < BYTES_MIN || !self.is_enabled() { 0 } else { bytes };
        // Held until all shards have the new size, since two threads may change it.
        let mut log_bytes = self.log_bytes.lock();
        self.capacity.store(bytes, Relaxed);
        let share = *log_bytes / (SLACK_SHARE - 1);
        if (*log_bytes..=*log_bytes + 3 * share).contains(&bytes) {
            return;
        }
        *log_bytes = bytes - bytes / SLACK_SHARE;
        for (number, shard) in self.shards().iter().enumerate() {
            // The first shard starts empty: its memory is what the copies of the others may use.
            let hash_of = (number > 0).then_some(hash_of);
            shard.resize(*log_bytes / SHARDS, hash_of);
        }
    }

    /// Returns the capacity in bytes.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.capacity.load(Relaxed)
    }

    /// Returns the memory of the cache, in bytes. An evicted value that a reader still holds is not included.
    pub fn heap_bytes(&self) -> usize {
        let shards: usize = self.shards().iter().map(|shard| shard.heap_bytes()).sum();
        shards + size_of_val(self.shards())
    }

    /// Returns the number of records. Reads the complete index: about 10 ns per 5 records.
    pub fn len(&self) -> usize {
        self.shards().iter().map(|shard| shard.len()).sum()
    }

    /// Returns whether there are no records.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the numbers of hits and misses. Lookups of a cache without capacity count as neither.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        let [hits, misses] = self.lookups.sums();
        (hits, misses)
    }
}

/// A write in progress. While it is held, and for reads that began before it ended, the key's record is not inserted.
#[must_use]
pub struct WriteGuard<'a> {
    shard: Option<&'a Shard>,
    hash: u64,
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        if let Some(shard) = self.shard {
            // The version changes only now, so tickets from before the write stay void after it.
            shard.end_write(self.hash);
        }
    }
}

/// A write to any number of keys in progress.
#[must_use]
pub struct WriteAllGuard<'a> {
    cache: &'a RecordCache,
    is_announced: bool,
}

impl Drop for WriteAllGuard<'_> {
    fn drop(&mut self) {
        // If the cache was enabled in the meantime, it may have what was replaced.
        self.cache.shards().iter().for_each(|shard| shard.end_write_all(self.is_announced));
    }
}

#[cfg(test)]
mod tests;
