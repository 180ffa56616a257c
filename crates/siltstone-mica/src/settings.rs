//! The sizes of a partition's parts.

use super::buckets::{BUCKET_BYTES, Buckets, PARTITION_BITS_MAX};
use super::circular_log::{LOG_WORDS_MAX, LOG_WORDS_MULTIPLE};
use super::partition::Parts;
use super::partition_handle::{AnySpace, Handle, open_handles};
use super::segregated_fits::SPACE_WORDS_MAX;
use super::{AccessMode, CircularLog, Eviction, Handles, ItemLayout, Mode, Partition, SegregatedFits, Sweep};
use crate::{Error, Result};
use siltstone_device::Pages;

/// Items per main bucket of a store: with a tenth of spare buckets, the index rarely fills before the memory does.
const STORE_LOAD: f64 = 6.2;
/// Items per bucket of a cache: fewer than 1 of 100 is evicted early by another of its bucket.
const CACHE_LOAD: f64 = 5.0;
/// Spare buckets per main bucket.
const SPARE_SHARE: f64 = 0.1;

/// The settings of a partition in store mode: nothing is evicted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoreSettings {
    /// What the items have in common.
    pub layout: ItemLayout,
    /// The memory for items, in bytes, up to 32 GiB.
    pub item_bytes: u64,
    /// The number of main buckets of the index.
    pub buckets: u32,
    /// The number of spare buckets, which are chained to full ones.
    pub spare_buckets: u32,
    /// The number of high bits that are equal in all hashes of the partition, at most 16.
    pub partition_bits: u32,
}

/// The settings of a partition in cache mode: new items evict the oldest, or the least recently used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheSettings {
    /// What the items have in common.
    pub layout: ItemLayout,
    /// The length of the log, in bytes, up to 16 GiB; rounded up to a multiple of 4 KiB.
    pub log_bytes: u64,
    /// The number of buckets of the index.
    pub buckets: u32,
    /// Which items are evicted.
    pub eviction: Eviction,
    /// The number of high bits that are equal in all hashes of the partition, at most 16.
    pub partition_bits: u32,
    /// The width of offsets: 32, less in tests.
    #[doc(hidden)]
    pub offset_bits: u32,
}

/// Returns the number of buckets for this many items.
fn buckets_for(items: f64, load: f64) -> u32 {
    // So few that the numbers of all buckets, with the spare ones, have 32 bits.
    (items / load).ceil().clamp(1.0, f64::from(u32::MAX / 4)) as u32
}

/// Returns the bytes of an item, without its share of the index.
fn item_bytes(layout: ItemLayout, key_length: usize, value_length: usize) -> u64 {
    u64::from(layout.words(key_length, value_length, false)) * 8
}

impl StoreSettings {
    /// Returns settings for exactly this many items of these sizes.
    pub fn for_items(layout: ItemLayout, items: u64, key_length: usize, value_length: usize) -> Self {
        // The allocator has no block of fewer than two words.
        let bytes = items * item_bytes(layout, key_length, value_length).max(16);
        StoreSettings::with(layout, bytes, items as f64)
    }

    /// Returns settings for the items that fit in `memory_bytes`, including the index, if keys and values have
    /// `record_bytes` on average.
    pub fn for_memory(layout: ItemLayout, memory_bytes: u64, record_bytes: usize) -> Self {
        let item = item_bytes(layout, record_bytes, 0).max(16) as f64;
        // The bitmap of free blocks has a 64th of the bytes of the items.
        let with_bitmap = item * (1.0 + 1.0 / 64.0);
        let index = BUCKET_BYTES as f64 * (1.0 + SPARE_SHARE) / STORE_LOAD;
        let items = memory_bytes as f64 / (with_bitmap + index);
        StoreSettings::with(layout, (items * item) as u64, items)
    }

    fn with(layout: ItemLayout, item_bytes: u64, items: f64) -> Self {
        let buckets = buckets_for(items, STORE_LOAD);
        // A tenth, and four standard deviations of the number of full buckets.
        let spare = f64::from(buckets) * SPARE_SHARE + 1.3 * f64::from(buckets).sqrt() + 2.0;
        StoreSettings { layout, item_bytes, buckets, spare_buckets: spare as u32, partition_bits: 0 }
    }

    /// Opens an empty partition in mode `M`. The system provides its memory as it is first touched.
    ///
    /// # Errors
    /// [`Error::Setting`] for sizes outside their limits; [`Error::Memory`] if the system refuses the memory.
    pub fn open<M: Mode>(&self) -> Result<Partition<SegregatedFits, M>> {
        Ok(Partition::new(self.parts()?))
    }

    /// Opens empty partitions in mode `mode`, 2^`partition_bits` of them, and returns the handles of each of `threads`
    /// threads. Partition n belongs to thread n modulo `threads`.
    ///
    /// # Errors
    /// See [`open`](Self::open); [`Error::Setting`] if `threads` is 0.
    pub fn open_handles(&self, mode: AccessMode, threads: usize) -> Result<Vec<Handles>> {
        let handle = |store| Handle(AnySpace::Store(store));
        open_handles(mode, threads, self.partition_bits, || self.parts(), handle)
    }

    fn parts(&self) -> Result<Parts<SegregatedFits>> {
        let words = self.item_bytes.div_ceil(8);
        if !(2..=SPACE_WORDS_MAX).contains(&words) {
            return Err(setting("item_bytes", self.item_bytes, "16 bytes to 32 GiB for each partition"));
        }
        let (space, state) = SegregatedFits::new(words)?;
        let buckets = buckets(self.buckets, self.spare_buckets, self.partition_bits)?;
        Ok(Parts { buckets, space, state, layout: self.layout })
    }
}

impl CacheSettings {
    /// Returns settings for this many items of these sizes.
    pub fn for_items(layout: ItemLayout, items: u64, key_length: usize, value_length: usize) -> Self {
        CacheSettings::with(layout, items * item_bytes(layout, key_length, value_length), items as f64)
    }

    /// Returns settings for the items that fit in `memory_bytes`, including the index, if keys and values have
    /// `record_bytes` on average.
    pub fn for_memory(layout: ItemLayout, memory_bytes: u64, record_bytes: usize) -> Self {
        let item = item_bytes(layout, record_bytes, 0) as f64;
        let items = memory_bytes as f64 / (item + BUCKET_BYTES as f64 / CACHE_LOAD);
        let mut settings = CacheSettings::with(layout, 0, items);
        let index_bytes = u64::from(settings.buckets) * BUCKET_BYTES as u64;
        let page = LOG_WORDS_MULTIPLE * 8;
        // Rounded down, so that log and index stay within the memory.
        settings.log_bytes = (memory_bytes.saturating_sub(index_bytes) / page * page).max(page);
        settings
    }

    fn with(layout: ItemLayout, log_bytes: u64, items: f64) -> Self {
        CacheSettings {
            layout,
            log_bytes,
            buckets: buckets_for(items, CACHE_LOAD),
            eviction: Eviction::default(),
            partition_bits: 0,
            offset_bits: 32,
        }
    }

    /// Opens an empty partition in mode `M`. The system provides its memory as it is first touched.
    ///
    /// # Errors
    /// [`Error::Setting`] for sizes outside their limits; [`Error::Memory`] if the system refuses the memory.
    pub fn open<M: Mode>(&self) -> Result<Partition<CircularLog, M>> {
        Ok(Partition::new(self.parts()?))
    }

    /// Opens empty partitions in mode `mode`, 2^`partition_bits` of them, and returns the handles of each of `threads`
    /// threads. Partition n belongs to thread n modulo `threads`.
    ///
    /// # Errors
    /// See [`open`](Self::open); [`Error::Setting`] if `threads` is 0.
    pub fn open_handles(&self, mode: AccessMode, threads: usize) -> Result<Vec<Handles>> {
        let handle = |cache| Handle(AnySpace::Cache(cache));
        open_handles(mode, threads, self.partition_bits, || self.parts(), handle)
    }

    fn parts(&self) -> Result<Parts<CircularLog>> {
        let words = self.log_bytes.div_ceil(8).next_multiple_of(LOG_WORDS_MULTIPLE);
        // At least as many offsets dangle as are live: sweeps take place while the tail passes the others.
        let words_max = LOG_WORDS_MAX.min(1 << self.offset_bits.clamp(1, 32) >> 1);
        if !(LOG_WORDS_MULTIPLE..=words_max).contains(&words) {
            return Err(setting("log_bytes", self.log_bytes, "4 KiB to 16 GiB for each partition"));
        }
        let buckets = buckets(self.buckets, 0, self.partition_bits)?;
        let space = CircularLog::new(words, self.offset_bits, self.buckets, self.eviction)?;
        Ok(Parts { buckets, space, state: Sweep::default(), layout: self.layout })
    }
}

fn buckets(main: u32, spare: u32, partition_bits: u32) -> Result<Buckets<Pages>> {
    // Buckets have numbers of 32 bits, the spare ones after the main ones.
    if main == 0 || main.checked_add(spare).is_none() {
        return Err(setting("buckets", main.into(), "1 to 2^32 - 1, spare ones included"));
    }
    if partition_bits > PARTITION_BITS_MAX {
        return Err(setting("partition_bits", partition_bits.into(), "at most 16"));
    }
    let pages = Pages::new(Buckets::<Pages>::words_for(main, spare))?;
    Ok(Buckets::new(pages, main, spare, partition_bits))
}

fn setting(name: &'static str, got: u64, limit: &str) -> Error {
    Error::Setting { name, problem: format!("{got} is out of range; use {limit}") }
}
