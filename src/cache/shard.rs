//! A shard of the cache: MICA's circular log and lossy index, and the state of writes.
//!
//! Lookups take no lock: one thread at a time writes the log, and any number read it meanwhile (CREW). Only a hit that
//! has to be appended again takes the writer's lock. The log is made for the mean length of the records; if the true
//! mean differs by more than a factor of two, it starts again, empty, with a new index.
//!
//! Deviation: a full log admits a record only if it is missed again within as many misses as the log holds records.
//! This keeps more of the hot set, and avoids copying when the hit rate is near zero.

use crate::batch::{BEFORE_ALL_EXPIRY, TimestampMs};
use siltstone_device::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use siltstone_device::sync::{Mutex, Published};
use siltstone_mica::{CacheSettings, CircularLog, Crew, Eviction, HashedKey, ItemLayout, Partition, Reader};
use std::array::from_fn;
use std::sync::Arc;

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

/// The writes to the keys of a stripe: in the lower half how many are under way, in the upper half a version, which
/// changes when one ends.
#[derive(Default)]
struct Stripe(AtomicU64);

const VERSION_SHIFT: u32 = u32::BITS;

impl Stripe {
    /// Returns the version; `None` while a write is under way.
    fn version(&self) -> Option<u32> {
        // Pairs with `end`: with its version, the store is read as that write has left it.
        let state = self.0.load(Acquire);
        (state as u32 == 0).then_some((state >> VERSION_SHIFT) as u32)
    }

    /// Begins a write. The caller holds the writer's lock.
    fn begin(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
    }

    /// Ends a write that was begun. The caller holds the writer's lock.
    fn end(&self) {
        // A ticket would match by chance only after 2^32 writes to its stripe.
        self.0.store((self.0.load(Relaxed) - 1).wrapping_add(1 << VERSION_SHIFT), Release);
    }
}

/// A share of the cached records.
pub(super) struct Shard {
    /// What lookups read: the log of the writer.
    readable: Published<Option<ReadableLog>>,
    stripes: [Stripe; STRIPES],
    writer: Mutex<Writer>,
}

/// A log for lookups.
struct ReadableLog {
    items: Reader<CircularLog>,
    /// The mean length, in bytes, that the index was made for.
    mean_bytes: u64,
}

/// What only one thread at a time uses.
#[derive(Default)]
struct Writer {
    /// None before the first record.
    log: Option<Log>,
    /// The capacity, in bytes; 0 keeps nothing.
    capacity: usize,
}

/// A log of one size, with an index for records of one mean length.
struct Log {
    items: Partition<CircularLog, Crew>,
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
        Shard {
            readable: Published::new(Arc::new(None)),
            stripes: from_fn(|_| Stripe::default()),
            writer: Mutex::default(),
        }
    }
}

impl Shard {
    /// Returns whether a shard of `capacity` bytes keeps records of this size.
    pub fn fits(record_bytes: usize, capacity: usize) -> bool {
        record_bytes <= capacity.saturating_sub(PAGE_BYTES) / RECORD_SHARE
    }

    fn stripe(&self, hash: u64) -> &Stripe {
        &self.stripes[(hash >> 48) as usize % STRIPES]
    }

    /// Appends the value of a key to `value`, and returns when it expires; on a miss, the version under which it may be
    /// inserted, or `None` while its stripe is being written.
    #[inline]
    pub fn get(&self, hash: u64, key: &[u8], value: &mut Vec<u8>) -> Result<TimestampMs, Option<u32>> {
        let key = HashedKey { hash, bytes: key };
        if let Some(log) = &*self.readable.read() {
            if log.mean_bytes >= LONG_BYTES {
                // Otherwise the copy would wait for one group of lines after the other.
                log.items.fetch_items(hash, log.mean_bytes as usize);
            }
            // The caller checks expiry.
            if let Some(found) = log.items.get(key, BEFORE_ALL_EXPIRY, value) {
                if log.items.is_fading(found) {
                    self.keep(key);
                }
                return Ok(found.expires_at_ms);
            }
        }
        // Only after the log: a record that it had was removed by a write that is under way now, or has ended.
        Err(self.stripe(hash).version())
    }

    /// Appends a record again that was found in the oldest part of the log.
    #[cold]
    fn keep(&self, key: HashedKey<'_>) {
        if let Some(log) = &mut self.writer.lock().log {
            // Looked up again: there may be another log, or none of the record in it.
            log.items.get_and_keep(key, BEFORE_ALL_EXPIRY, &mut Vec::new());
        }
    }

    /// Prefetches the bucket of a key.
    pub fn fetch_bucket(&self, hash: u64) {
        if let Some(log) = &*self.readable.read() {
            log.items.fetch_bucket(hash);
        }
    }

    /// Prefetches the item of a key, as far as an item of mean length reaches.
    pub fn fetch_item(&self, hash: u64) {
        if let Some(log) = &*self.readable.read() {
            log.items.fetch_items(hash, log.mean_bytes as usize);
        }
    }

    /// Begins a write to a key, and removes its record.
    pub fn begin_write(&self, hash: u64, key: &[u8]) {
        self.begin_write_locked(&mut self.writer.lock(), hash, key);
    }

    fn begin_write_locked(&self, writer: &mut Writer, hash: u64, key: &[u8]) {
        // While a write is in progress, `get` returns no version, and versions returned before are not current: the
        // store may have either state.
        self.stripe(hash).begin();
        if let Some(log) = &mut writer.log {
            log.items.remove(HashedKey { hash, bytes: key });
        }
    }

    /// Ends a write that was begun.
    pub fn end_write(&self, hash: u64) {
        let _writer = self.writer.lock();
        self.stripe(hash).end();
    }

    /// Begins a write to all keys.
    pub fn begin_write_all(&self) {
        let mut writer = self.writer.lock();
        self.stripes.iter().for_each(Stripe::begin);
        // All records, because the keys of the write are unknown.
        self.set_log(&mut writer, None);
    }

    /// Ends a write to all keys. Begins it first unless it `is_begun`.
    pub fn end_write_all(&self, is_begun: bool) {
        if !is_begun {
            self.begin_write_all();
        }
        let _writer = self.writer.lock();
        self.stripes.iter().for_each(Stripe::end);
    }

    /// Puts a record or removes it, in place of any that readers have found before.
    pub fn put(&self, hash: u64, key: &[u8], value: Option<&[u8]>, expires_at_ms: u64) {
        let mut writer = self.writer.lock();
        // As a write: what readers with an earlier ticket have found is refused from here on.
        self.begin_write_locked(&mut writer, hash, key);
        if let Some(value) = value {
            self.insert(&mut writer, hash, key, value, expires_at_ms, false);
        }
        // Under the same lock as the insertion: no thread finds the write in progress.
        self.stripe(hash).end();
    }

    /// Inserts a record that a lookup did not find, unless a write to its stripe has begun or ended since `version` was
    /// returned.
    pub fn insert_missed(&self, version: u32, hash: u64, key: &[u8], value: &[u8], expires_at_ms: u64) {
        let mut writer = self.writer.lock();
        // A write since then makes the record outdated. Checked under the lock, under which writes begin and end.
        if self.stripe(hash).version() == Some(version) {
            self.insert(&mut writer, hash, key, value, expires_at_ms, true);
        }
    }

    /// Inserts a record, over the oldest ones. `is_missed` is whether it was looked up, and not put: it may have to be
    /// missed once more then.
    fn insert(
        &self,
        writer: &mut Writer,
        hash: u64,
        key: &[u8],
        value: &[u8],
        expires_at_ms: u64,
        is_missed: bool,
    ) {
        let bytes = key.len() + value.len();
        // The capacity now: another thread may have reduced it since the caller's check.
        if !Shard::fits(bytes, writer.capacity) {
            return;
        }
        if let Some(mean_bytes) = writer.log.as_mut().and_then(Log::better_mean) {
            // Drops the old log first, so that there are never two.
            self.set_log(writer, None);
            self.set_log(writer, Log::new(writer.capacity, mean_bytes));
        }
        if writer.log.is_none() {
            self.set_log(writer, Log::new(writer.capacity, bytes as u64));
        }
        if let Some(log) = &mut writer.log
            && (!is_missed || log.admits(hash))
        {
            log.insert(HashedKey { hash, bytes: key }, value, expires_at_ms);
        }
    }

    /// Replaces the log, and shows it to lookups.
    fn set_log(&self, writer: &mut Writer, log: Option<Log>) {
        let readable =
            log.as_ref().map(|log| ReadableLog { items: log.items.reader(), mean_bytes: log.mean_bytes });
        self.readable.publish(Arc::new(readable));
        writer.log = log;
    }

    /// Reads the complete index.
    pub fn len(&self) -> usize {
        self.writer.lock().log.as_ref().map_or(0, |log| log.items.len() as usize)
    }

    pub fn heap_bytes(&self) -> usize {
        let writer = self.writer.lock();
        writer.log.as_ref().map_or(0, |log| log.items.touched_bytes() as usize + size_of_val(&*log.missed))
    }

    /// Changes the capacity. With `hash_of`, records are copied, the newest ones if not all fit; both logs exist
    /// meanwhile. Without it, records are dropped.
    pub fn resize(&self, capacity: usize, hash_of: Option<HashOf<'_>>) {
        let mut writer = self.writer.lock();
        writer.capacity = capacity;
        let old = writer.log.take();
        // Lookups find records in the old log until there is the new one.
        let copy = hash_of.zip(old.as_ref()).and_then(|(hash_of, old)| old.copy(capacity, hash_of));
        self.set_log(&mut writer, copy);
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

    /// Returns a log for another capacity, with the same records, or the newest ones if not all fit.
    fn copy(&self, capacity: usize, hash_of: HashOf<'_>) -> Option<Log> {
        let mut log = Log::new(capacity, self.mean_seen().unwrap_or(self.mean_bytes))?;
        self.items.for_each_oldest_first(|key, value, expires_at_ms| {
            if Shard::fits(key.len() + value.len(), capacity) {
                log.insert(HashedKey { hash: hash_of(key), bytes: key }, value, expires_at_ms);
            }
        });
        Some(log)
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
