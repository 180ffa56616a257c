//! What all threads share of a partition, and what they read without the writers' state.

use super::buckets::{BUCKET_BYTES, BucketEntry, Buckets, Home, Locked, Mode, SearchResult};
use super::item::Item;
use super::{HashedKey, ItemLayout, Space};
use crate::TimestampMs;
use siltstone_device::Pages;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Longer values are validated before they are copied: a torn read can yield any length.
const TRUSTED_BYTES_MAX: usize = 256;
/// The maximum number of cache lines of an item that are prefetched. The processor itself prefetches further lines.
const FETCHED_LINES_MAX: usize = 16;

/// The buckets and the items of a partition.
pub struct Table<S, M> {
    pub(super) buckets: Buckets<Pages>,
    pub(super) space: S,
    pub(super) layout: ItemLayout,
    /// The number of items of a store.
    pub(super) items: AtomicU64,
    pub(super) mode: PhantomData<M>,
}

/// The metadata of a value that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// When the item expires, or [`NEVER`](crate::NEVER).
    pub expires_at_ms: TimestampMs,
    /// The offset of the item.
    pub(super) offset: u32,
}

/// The memory of a partition, in bytes, once all of it was touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// Buckets, main and spare.
    pub index_bytes: u64,
    /// Items, and the space for more.
    pub item_bytes: u64,
    /// The writers' state: lists and bitmap of free blocks.
    pub writer_bytes: u64,
}

impl Account {
    /// Returns the sum.
    pub fn total_bytes(&self) -> u64 {
        self.index_bytes + self.item_bytes + self.writer_bytes
    }
}

impl<S: Space, M: Mode> Table<S, M> {
    /// Returns the memory of the partition.
    pub fn account(&self) -> Account {
        Account {
            index_bytes: self.buckets.words().bytes(),
            item_bytes: self.space.pages().bytes(),
            writer_bytes: self.space.state_bytes(),
        }
    }

    /// Returns the number of bytes that are in huge pages now. Asks the operating system, which takes milliseconds.
    pub fn huge_bytes(&self) -> u64 {
        self.buckets.words().huge_bytes() + self.space.pages().huge_bytes()
    }

    /// Returns the number of items, including expired ones. In a cache this reads the complete index, about 10 ns per
    /// bucket.
    pub fn len(&self) -> u64 {
        if !S::LOSSY {
            return self.items.load(Relaxed);
        }
        let live = |bucket| self.buckets.count_in_main(bucket, |offset| self.space.is_live(offset));
        (0..self.buckets.main()).map(|bucket| live(bucket) as u64).sum()
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn entries(&self, bucket: u32) -> impl Iterator<Item = BucketEntry> {
        self.buckets.entries(self.buckets.home_of_bucket(bucket))
    }

    /// Prefetches the bucket of a hash.
    #[inline]
    pub fn fetch_bucket(&self, hash: u64) {
        self.buckets.words().prefetch(self.buckets.first_word(self.buckets.home(hash)));
    }

    /// Prefetches the items that may be the key's, up to `FETCHED_LINES_MAX` cache lines of each: `bytes` is the
    /// length of key and value, or as much of it as is known.
    #[inline]
    pub fn fetch_items(&self, hash: u64, bytes: usize) {
        const LINE_WORDS: usize = BUCKET_BYTES / 8;
        const WORDS_MAX: usize = FETCHED_LINES_MAX * LINE_WORDS;
        let words = match self.layout.fixed {
            Some((key_length, value_length)) => {
                (key_length + value_length).div_ceil(8) + usize::from(self.layout.expiring)
            }
            None => 1 + bytes.div_ceil(8),
        };
        // An item may begin within a line, so the last line is that of its last word.
        let further = words.clamp(1, WORDS_MAX) - 1;
        for offset in self.buckets.candidates(self.buckets.home(hash)) {
            let first = self.space.first_word(offset);
            for line in first / LINE_WORDS..=(first + further) / LINE_WORDS {
                self.space.pages().prefetch(line * LINE_WORDS);
            }
        }
    }

    #[inline]
    pub(super) fn item(&self, offset: u32) -> Option<Item<'_>> {
        if !self.space.is_live(offset) {
            return None;
        }
        // Up to the end of the memory, because the item itself says how long it is.
        self.layout.read(self.space.pages().get(self.space.first_word(offset)..)?)
    }

    /// Appends the value of a key to `to`, and returns the value's metadata; `None` if the key is absent or has
    /// expired. A read alone does not count for the policy of a cache:
    /// [`get_and_keep`](super::Partition::get_and_keep) does, or [`keep`](super::Partition::keep) if
    /// [`is_fading`](Table::is_fading) returns true.
    #[inline]
    pub fn get(&self, key: HashedKey<'_>, now_ms: TimestampMs, to: &mut Vec<u8>) -> Option<Value> {
        match self.attempt(key, now_ms, to) {
            Some(outcome) => outcome,
            None => self.get_again(key, now_ms, to),
        }
    }

    /// Repeats a get until no writer interferes. Not inlined, so that a get keeps nothing for it.
    #[cold]
    #[inline(never)]
    fn get_again(&self, key: HashedKey<'_>, now_ms: TimestampMs, to: &mut Vec<u8>) -> Option<Value> {
        loop {
            if let Some(outcome) = self.attempt(key, now_ms, to) {
                return outcome;
            }
        }
    }

    /// Returns `None`, and appends nothing, if a writer interfered.
    #[inline]
    fn attempt(&self, key: HashedKey<'_>, now_ms: TimestampMs, to: &mut Vec<u8>) -> Option<Option<Value>> {
        let home = self.buckets.home(key.hash);
        let header = self.buckets.header(home);
        let start = to.len();
        // The outcome is consistent if no writer was in the bucket, and, in a cache, if no append has overwritten the
        // item meanwhile: an append changes only the tail, not the version of the overwritten item's bucket.
        let seen = M::begin_read(header);
        if let Some(outcome) = self.try_get(home, seen, key.bytes, now_ms, to)
            && M::is_unchanged(header, seen)
            && (!M::CONCURRENT_READS || outcome.is_none_or(|value| self.space.is_live(value.offset)))
        {
            return Some(outcome);
        }
        // What a torn read has appended.
        to.truncate(start);
        None
    }

    /// Returns `None` if a writer interfered, which this finds only where it would matter.
    #[inline]
    fn try_get(
        &self,
        home: Home,
        seen: u64,
        key: &[u8],
        now_ms: TimestampMs,
        to: &mut Vec<u8>,
    ) -> Option<Option<Value>> {
        // A loop of its own, and not `Buckets::find`: an item that leaves a closure is copied through memory.
        for offset in self.buckets.candidates(home) {
            if let Some(item) = self.item(offset)
                && item.has_key(key)
            {
                return self.read(home, seen, (offset, &item), now_ms, to);
            }
        }
        if Buckets::<Pages>::is_chained(seen) {
            self.get_in_chain(home, seen, key, now_ms, to)
        } else {
            Some(None)
        }
    }

    /// Continues a get in the spare buckets. Not inlined, because most buckets have none.
    #[inline(never)]
    fn get_in_chain(
        &self,
        home: Home,
        seen: u64,
        key: &[u8],
        now_ms: TimestampMs,
        to: &mut Vec<u8>,
    ) -> Option<Option<Value>> {
        let mut found = None;
        let search = self.buckets.find_in_chain::<M>(home, seen, |offset| {
            found = self.item(offset).filter(|item| item.has_key(key));
            found.is_some()
        });
        match (search, found) {
            (SearchResult::Found(entry), Some(item)) => {
                self.read(home, seen, (entry.offset, &item), now_ms, to)
            }
            // Also if a writer interfered, which `attempt` finds by the version.
            _ => Some(None),
        }
    }

    /// Appends the value of an item, unless it has expired. Returns `None` if a writer interfered before a long value
    /// was copied.
    #[inline]
    fn read(
        &self,
        home: Home,
        seen: u64,
        (offset, item): (u32, &Item<'_>),
        now_ms: TimestampMs,
        to: &mut Vec<u8>,
    ) -> Option<Option<Value>> {
        // `attempt` compares the version for this outcome as well: a torn time changes nothing.
        if item.is_expired(now_ms) {
            return Some(None);
        }
        if M::CONCURRENT_READS
            && item.value_length > TRUSTED_BYTES_MAX
            && !(M::is_unchanged(self.buckets.header(home), seen) && self.space.is_live(offset))
        {
            return None;
        }
        item.value_into(to);
        Some(Some(Value { expires_at_ms: item.expires_at_ms, offset }))
    }

    /// Locks the bucket of a key for writing.
    #[inline]
    pub(super) fn lock(&self, hash: u64) -> Locked<'_, Pages, M> {
        self.buckets.lock(self.buckets.home(hash))
    }

    /// Finds the item of a key in its locked bucket.
    #[inline]
    pub(super) fn find_locked(
        &self,
        locked: &Locked<'_, Pages, M>,
        key: &[u8],
    ) -> Option<(BucketEntry, Item<'_>)> {
        let mut found = None;
        let entry = locked.find(|offset| {
            found = self.item(offset).filter(|item| item.has_key(key));
            found.is_some()
        });
        entry.zip(found)
    }

    #[inline]
    pub(super) fn words_at(&self, offset: u32) -> &[AtomicU64] {
        self.space.pages().get(self.space.first_word(offset)..).unwrap_or_default()
    }

    /// Returns whether the policy of a cache appends the item again after this use.
    #[inline]
    pub fn is_fading(&self, value: Value) -> bool {
        S::LOSSY && self.space.is_fading(value.offset)
    }

    /// Sweeps these buckets, modulo their number, of offsets that are not live. No bucket may be locked by this thread.
    #[inline]
    pub(super) fn sweep(&self, due: Range<u32>) {
        for bucket in due {
            self.buckets.sweep::<M>(bucket % self.buckets.main(), |offset| self.space.is_live(offset));
        }
    }

    /// Returns the main bucket of a hash. It ascends with the hash within a partition.
    pub fn bucket_of(&self, hash: u64) -> u32 {
        self.buckets.home(hash).bucket()
    }
}
