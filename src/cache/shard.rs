//! A shard of the cache with its own lock: MICA's circular log and lossy index, and the state of writes.
//!
//! The lock gives its holder exclusive access, so the partition needs no synchronization (EREW), and a lookup may
//! append what it found. The index is made for the mean length of the records; if the true mean differs by more than a
//! factor of two, the log starts again, empty, with a new index.
//!
//! Deviation: a full log admits a record only if it is missed again within as many misses as the log holds records.
//! This keeps more of the hot set, and avoids copying when the hit rate is near zero.

use crate::batch::{BEFORE_ALL_EXPIRY, TimestampMs};
use siltstone_mica::{CacheSettings, CircularLog, Erew, Eviction, HashedKey, ItemLayout, Partition, Value};

/// The groups of keys that a write excludes together.
const STRIPES: usize = 64;
/// The unit of memory.
const PAGE_BYTES: usize = 4096;
/// The minimum memory of a shard: a page of the index and one of the log.
pub(super) const SHARD_BYTES_MIN: usize = 2 * PAGE_BYTES;
/// The bytes of a bucket of the index.
const BUCKET_BYTES: usize = 64;
/// A record takes at most this share of a shard's memory.
const RECORD_SHARE: usize = 4;
/// The mean length is checked after this share of the log was written, if there were this many records.
const MEAN_SHARE: u64 = 16;
const MEAN_RECORDS_MIN: u64 = 64;
/// The approximate overhead of an item besides its key and value.
const ITEM_BYTES: usize = 24;
/// From this mean length on, in bytes, all lines of an item are fetched before it is read.
const LONG_BYTES: u64 = 48;
/// The factor by which the index may be too small or too large.
const MEAN_FACTOR: u64 = 2;

/// The hash of a key.
pub(super) type HashOf<'a> = &'a dyn Fn(&[u8]) -> u64;

/// The state of the writes to the keys of a stripe.
#[derive(Clone, Copy, Default)]
struct Stripe {
    /// Changes when a write ends.
    version: u32,
    under_way: u32,
}

pub(super) struct Shard {
    /// None before the first record.
    log: Option<Log>,
    /// The capacity, in bytes; 0 keeps nothing.
    capacity: usize,
    stripes: [Stripe; STRIPES],
    hits: u64,
    misses: u64,
}

/// A log of one size, with an index for records of one mean length.
struct Log {
    items: Partition<CircularLog, Erew>,
    /// The mean length, in bytes, that the index was made for.
    mean_bytes: u64,
    log_bytes: u64,
    /// Hashes of keys that were recently missed and not admitted, 16 bits each, in a direct-mapped table.
    missed: Box<[u16]>,
    /// The records inserted recently, and their bytes, for the mean length.
    records: u64,
    record_bytes: u64,
    unseen_bytes: u64,
}

impl Default for Shard {
    fn default() -> Self {
        Shard { log: None, capacity: 0, stripes: [Stripe::default(); STRIPES], hits: 0, misses: 0 }
    }
}

fn stripe_of(hash: u64) -> usize {
    (hash >> 48) as usize % STRIPES
}

impl Shard {
    /// Returns whether a shard of `capacity` bytes keeps records of this size.
    pub fn fits(record_bytes: usize, capacity: usize) -> bool {
        record_bytes <= capacity.saturating_sub(PAGE_BYTES) / RECORD_SHARE
    }

    /// Appends the value of a key to `value`, and returns when it expires; on a miss, the version under which it may be
    /// inserted, or `None` while its stripe is being written.
    pub fn get(&mut self, hash: u64, key: &[u8], value: &mut Vec<u8>) -> Result<TimestampMs, Option<u32>> {
        let key = HashedKey { hash, bytes: key };
        if let Some(log) = &mut self.log
            && let Some(found) = log.get(key, value)
        {
            self.hits += 1;
            return Ok(found.expires_at_ms);
        }
        self.misses += 1;
        let stripe = self.stripes[stripe_of(hash)];
        Err((stripe.under_way == 0).then_some(stripe.version))
    }

    /// Prefetches the bucket of a key.
    pub fn fetch_bucket(&self, hash: u64) {
        if let Some(log) = &self.log {
            log.items.fetch_bucket(hash);
        }
    }

    /// Prefetches the item of a key, as far as an item of mean length reaches.
    pub fn fetch_item(&self, hash: u64) {
        if let Some(log) = &self.log {
            log.items.fetch_items(hash, log.mean_bytes as usize);
        }
    }

    /// Returns how many lookups found their record, and how many did not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// Returns whether no write to the stripe has begun or ended since this version was returned.
    pub fn is_current(&self, hash: u64, version: u32) -> bool {
        let stripe = self.stripes[stripe_of(hash)];
        stripe.under_way == 0 && stripe.version == version
    }

    pub fn begin_write(&mut self, hash: u64, key: &[u8]) {
        // While a write is in progress, `get` returns no version, and versions returned before are not current: the
        // store may have either state.
        self.stripes[stripe_of(hash)].under_way += 1;
        if let Some(log) = &mut self.log {
            log.items.remove(HashedKey { hash, bytes: key });
        }
    }

    pub fn end_write(&mut self, hash: u64) {
        let stripe = &mut self.stripes[stripe_of(hash)];
        // The guard of this write has counted it, so this is never negative.
        stripe.under_way -= 1;
        // A ticket would match by chance only after 2^32 writes to its stripe.
        stripe.version = stripe.version.wrapping_add(1);
    }

    /// Begins a write to all keys.
    pub fn begin_write_all(&mut self) {
        self.stripes.iter_mut().for_each(|stripe| stripe.under_way += 1);
        // All records, because the keys of the write are unknown.
        self.log = None;
    }

    pub fn end_write_all(&mut self) {
        for stripe in &mut self.stripes {
            stripe.under_way -= 1;
            stripe.version = stripe.version.wrapping_add(1);
        }
    }

    /// Reads the complete index.
    pub fn len(&self) -> usize {
        self.log.as_ref().map_or(0, |log| log.items.len() as usize)
    }

    pub fn heap_bytes(&self) -> usize {
        self.log.as_ref().map_or(0, |log| log.items.touched_bytes() as usize + size_of_val(&*log.missed))
    }

    /// Inserts a record, over the oldest ones. `is_missed` is whether it was looked up, and not put: it may have to be
    /// missed once more then.
    pub fn insert(&mut self, hash: u64, key: &[u8], value: &[u8], expires_at_ms: u64, is_missed: bool) {
        let bytes = key.len() + value.len();
        // The capacity now: another thread may have reduced it since the caller's check.
        if !Shard::fits(bytes, self.capacity) {
            return;
        }
        if let Some(mean_bytes) = self.log.as_mut().and_then(Log::better_mean) {
            // Drops the old log first, so that there are never two.
            self.log = None;
            self.log = Log::new(self.capacity, mean_bytes);
        }
        if self.log.is_none() {
            self.log = Log::new(self.capacity, bytes as u64);
        }
        if let Some(log) = &mut self.log
            && (!is_missed || log.admits(hash))
        {
            log.insert(HashedKey { hash, bytes: key }, value, expires_at_ms);
        }
    }

    /// Changes the capacity. With `hash_of`, records are copied, the newest ones if not all fit; both logs exist
    /// meanwhile. Without it, records are dropped.
    pub fn resize(&mut self, capacity: usize, hash_of: Option<HashOf<'_>>) {
        self.capacity = capacity;
        // Taken in any case: without `hash_of` its memory is free at once.
        let (Some(old), Some(hash_of)) = (self.log.take(), hash_of) else { return };
        let Some(mut log) = Log::new(capacity, old.mean_seen().unwrap_or(old.mean_bytes)) else { return };
        old.items.for_each_oldest_first(|key, value, expires_at_ms| {
            if Shard::fits(key.len() + value.len(), capacity) {
                log.insert(HashedKey { hash: hash_of(key), bytes: key }, value, expires_at_ms);
            }
        });
        self.log = Some(log);
    }
}

impl Log {
    /// Returns `None` if the capacity is too small or the system refuses the memory.
    fn new(capacity: usize, mean_bytes: u64) -> Option<Log> {
        if capacity < SHARD_BYTES_MIN {
            return None;
        }
        let missed = capacity / (mean_bytes as usize + ITEM_BYTES);
        let capacity = capacity - missed * size_of::<u16>();
        let guess = CacheSettings::for_memory(ItemLayout::default(), capacity as u64, mean_bytes as usize);
        let index_bytes_max = capacity / 2 / PAGE_BYTES * PAGE_BYTES;
        let index_bytes = (guess.buckets as usize * BUCKET_BYTES).next_multiple_of(PAGE_BYTES);
        let index_bytes = index_bytes.min(index_bytes_max);
        let log_bytes = ((capacity - index_bytes) / PAGE_BYTES * PAGE_BYTES) as u64;
        let buckets = (index_bytes / BUCKET_BYTES) as u32;
        let items =
            CacheSettings { buckets, log_bytes, eviction: Eviction::SecondChance, ..guess }.open().ok()?;
        let missed = vec![0; missed].into();
        Some(Log { items, mean_bytes, log_bytes, missed, records: 0, record_bytes: 0, unseen_bytes: 0 })
    }

    #[inline]
    fn get(&mut self, key: HashedKey<'_>, value: &mut Vec<u8>) -> Option<Value> {
        if self.mean_bytes >= LONG_BYTES {
            // Otherwise the copy would wait for one group of lines after the other.
            self.items.fetch_items(key.hash, self.mean_bytes as usize);
        }
        // The caller checks expiry.
        self.items.get_and_keep(key, BEFORE_ALL_EXPIRY, value)
    }

    /// Returns whether a record is admitted: every record until the log is full; then one that is missed again before
    /// as many other misses as the table has entries.
    fn admits(&mut self, hash: u64) -> bool {
        if !self.items.has_gone_round() {
            return true;
        }
        let place = (((hash >> 32) * self.missed.len() as u64) >> 32) as usize;
        let Some(missed) = self.missed.get_mut(place) else { return true };
        let mark = (hash as u16).max(1);
        let again = *missed == mark;
        *missed = if again { 0 } else { mark };
        again
    }

    fn insert(&mut self, key: HashedKey<'_>, value: &[u8], expires_at_ms: u64) {
        let bytes = (key.bytes.len() + value.len()) as u64;
        self.records += 1;
        self.record_bytes += bytes;
        self.unseen_bytes += bytes;
        if self.items.put(key, value, expires_at_ms).is_err() {
            // A put that fails leaves the previous value, which is outdated.
            self.items.remove(key);
        }
    }

    fn mean_seen(&self) -> Option<u64> {
        (self.records >= MEAN_RECORDS_MIN).then(|| self.record_bytes / self.records)
    }

    /// Returns the mean length that the index should be made for, if it differs too much. Checked from time to time.
    fn better_mean(&mut self) -> Option<u64> {
        if self.unseen_bytes < self.log_bytes / MEAN_SHARE {
            return None;
        }
        let seen = self.mean_seen()?;
        self.unseen_bytes = 0;
        if self.record_bytes > self.log_bytes {
            // So that older records count less.
            (self.records, self.record_bytes) = (self.records / 2, self.record_bytes / 2);
        }
        // Including the header of an item.
        let (seen_item, made_item) = (seen + 16, self.mean_bytes + 16);
        let is_other = seen_item * MEAN_FACTOR < made_item || made_item * MEAN_FACTOR < seen_item;
        is_other.then_some(seen)
    }
}
