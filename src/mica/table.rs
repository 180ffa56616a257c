//! Get, put and delete on one partition: its buckets and the memory of its items.

use super::buckets::{BUCKET_BYTES, Buckets, Entry, Home, Locked, Mode, Search};
use super::circular_log::{CircularLog, Sweep};
use super::item::{Item, Record};
use super::settings::Parts;
use super::{Full, HashedKey, ItemShape, Space, StateAccess};
use crate::batch::TimestampMs;
use crate::device::Pages;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Longer values are validated before they are copied: a torn read can yield any length.
const TRUSTED_BYTES_MAX: usize = 256;

pub(super) struct Table<S, M> {
    buckets: Buckets<Pages>,
    space: S,
    shape: ItemShape,
    items: AtomicU64,
    mode: PhantomData<M>,
}

/// The metadata of a value that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// When the item expires, or [`NEVER`](crate::batch::NEVER).
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

/// An item that was written and that no lookup can find yet.
#[must_use]
pub(crate) struct Prepared {
    offset: u32,
    words: u32,
}

impl<S: Space, M: Mode> Table<S, M> {
    /// Makes an empty table, and the state of its writers.
    pub fn new(parts: Parts<S>) -> (Self, S::State) {
        let Parts { buckets, space, state, shape } = parts;
        (Table { buckets, space, shape, items: AtomicU64::new(0), mode: PhantomData }, state)
    }

    /// Gives a writer access to the state. It may then write to memory that another writer has released.
    #[inline]
    fn enter<A: StateAccess<State = S::State>>(access: &mut A) -> A::Guard<'_> {
        let state = access.access();
        M::before_reuse();
        state
    }

    pub fn pages(&self) -> [&Pages; 2] {
        [self.buckets.words(), self.space.pages()]
    }

    pub fn account(&self) -> Account {
        Account {
            index_bytes: self.buckets.words().bytes(),
            item_bytes: self.space.pages().bytes(),
            writer_bytes: self.space.state_bytes(),
        }
    }

    /// Returns the number of items. In a cache this reads the complete index, about 10 ns per bucket.
    pub fn len(&self) -> u64 {
        if !S::LOSSY {
            return self.items.load(Relaxed);
        }
        let live = |bucket| self.entries(bucket).filter(|entry| self.space.is_live(entry.offset)).count();
        (0..self.buckets.main()).map(|bucket| live(bucket) as u64).sum()
    }

    fn entries(&self, bucket: u32) -> impl Iterator<Item = Entry> {
        self.buckets.entries(self.buckets.home_of_bucket(bucket))
    }

    pub fn free_spares(&self) -> u32 {
        self.buckets.free_spares()
    }

    #[inline]
    pub fn fetch_bucket(&self, hash: u64) {
        self.buckets.words().prefetch(self.buckets.first_word(self.buckets.home(hash)));
    }

    /// Prefetches the items that may be the key's, up to two cache lines of each: `bytes` is the length of key and
    /// value, or as much of it as is known. The processor itself prefetches further lines.
    #[inline]
    pub fn fetch_items(&self, hash: u64, bytes: usize) {
        const LINE_WORDS: usize = BUCKET_BYTES / 8;
        let words = match self.shape.fixed {
            Some((key_length, value_length)) => {
                (key_length + value_length).div_ceil(8) as usize + usize::from(self.shape.expiring)
            }
            None => 1 + bytes.div_ceil(8),
        };
        let further = words.clamp(1, LINE_WORDS) - 1;
        let pages = self.space.pages();
        for offset in self.buckets.candidates(self.buckets.home(hash)) {
            let first = self.space.first_word(offset);
            pages.prefetch(first);
            if first % LINE_WORDS + further >= LINE_WORDS {
                pages.prefetch(first + further);
            }
        }
    }

    #[inline]
    fn item(&self, offset: u32) -> Option<Item<'_>> {
        if !self.space.is_live(offset) {
            return None;
        }
        self.shape.read(self.space.pages().get(self.space.first_word(offset)..)?)
    }

    /// Appends the value of a key to `to`.
    #[inline]
    pub fn get(&self, key: HashedKey<'_>, now_ms: TimestampMs, to: &mut Vec<u8>) -> Option<Value> {
        let home = self.buckets.home(key.hash);
        let header = self.buckets.header(home);
        let start = to.len();
        loop {
            // The outcome is consistent if no writer was in the bucket, and, in a cache, if no append has overwritten
            // the item meanwhile: an append changes only the tail, not the version of the overwritten item's bucket.
            let seen = M::begin_read(header);
            if let Some(outcome) = self.try_get(home, seen, key.bytes, now_ms, to)
                && M::is_unchanged(header, seen)
                && (!S::LOSSY
                    || !M::CONCURRENT_READS
                    || outcome.is_none_or(|value| self.space.is_live(value.offset)))
            {
                return outcome;
            }
            to.truncate(start);
        }
    }

    /// Returns `None` if a writer interfered.
    #[inline]
    fn try_get(
        &self,
        home: Home,
        seen: u64,
        key: &[u8],
        now_ms: TimestampMs,
        to: &mut Vec<u8>,
    ) -> Option<Option<Value>> {
        let mut found = None;
        let search = self.buckets.find::<M>(home, seen, |offset| {
            found = self.item(offset).filter(|item| item.has_key(key));
            found.is_some()
        });
        match (search, found) {
            (Search::Found(entry), Some(item)) => {
                if item.is_expired(now_ms) {
                    return Some(None);
                }
                if M::CONCURRENT_READS
                    && item.value_length > TRUSTED_BYTES_MAX
                    && !(M::is_unchanged(self.buckets.header(home), seen) && self.space.is_live(entry.offset))
                {
                    return None;
                }
                item.value_into(to);
                Some(Some(Value { expires_at_ms: item.expires_at_ms, offset: entry.offset }))
            }
            (Search::Changed, _) => None,
            _ => Some(None),
        }
    }

    #[inline]
    fn find_locked(&self, locked: &Locked<'_, M>, home: Home, key: &[u8]) -> Option<(Entry, Item<'_>)> {
        let mut found = None;
        let entry = self.buckets.find_locked(locked, home, |offset| {
            found = self.item(offset).filter(|item| item.has_key(key));
            found.is_some()
        });
        entry.zip(found)
    }

    #[inline]
    fn words_at(&self, offset: u32) -> &[AtomicU64] {
        self.space.pages().get(self.space.first_word(offset)..).unwrap_or_default()
    }

    /// Sets the value of a key, in place if it fits there.
    #[inline]
    pub fn put(
        &self,
        access: &mut impl StateAccess<State = S::State>,
        key: HashedKey<'_>,
        value: &[u8],
        expires_at_ms: TimestampMs,
    ) -> Result<(), Full> {
        let record = Record { key: key.bytes, value, expires_at_ms };
        if !self.shape.fits(&record) {
            return Err(Full::Shape);
        }
        let home = self.buckets.home(key.hash);
        let locked = self.buckets.lock::<M>(home);
        let due = self.put_locked(&locked, home, access, &record)?;
        drop(locked);
        self.sweep(due);
        Ok(())
    }

    #[inline]
    fn put_locked(
        &self,
        locked: &Locked<'_, M>,
        home: Home,
        access: &mut impl StateAccess<State = S::State>,
        record: &Record<'_>,
    ) -> Result<Range<u32>, Full> {
        let words = self.shape.words_of(record);
        let old = self.find_locked(locked, home, record.key).map(|(entry, item)| (entry, item.capacity));
        if let Some((entry, capacity)) = old
            && self.shape.may_stand_in(words, capacity)
            // A put is a use: where the policy counts uses, the item is appended again.
            && !self.space.is_fading(entry.offset)
        {
            // The items of a cache belong to the log, not to the bucket: other writers may overwrite them by appending.
            let _state = S::LOSSY.then(|| Self::enter(access));
            if self.space.is_live(entry.offset) {
                self.shape.write(self.words_at(entry.offset), capacity, record);
                return Ok(0..0);
            }
        }
        let (prepared, due) = self.prepare(access, record)?;
        self.publish_locked(locked, home, access, old, prepared)?;
        Ok(due)
    }

    /// Writes an item where no lookup can find it yet. Also returns the buckets that are due for a sweep.
    pub fn prepare(
        &self,
        access: &mut impl StateAccess<State = S::State>,
        record: &Record<'_>,
    ) -> Result<(Prepared, Range<u32>), Full> {
        if !self.shape.fits(record) {
            return Err(Full::Shape);
        }
        let words = self.shape.words_of(record);
        let mut state = Self::enter(access);
        let offset = self.space.reserve(&mut state, words)?;
        let due = self.space.due(&mut state);
        // In a cache the lock is held until the item is written, since another append could overwrite it. In a store
        // the allocated block belongs to this writer alone.
        let _state = S::LOSSY.then_some(state);
        self.shape.write(self.words_at(offset), words, record);
        Ok((Prepared { offset, words }, due))
    }

    /// Makes a prepared item visible, in place of the key's previous one. In a cache it may have been overwritten
    /// already.
    pub fn publish(
        &self,
        access: &mut impl StateAccess<State = S::State>,
        key: HashedKey<'_>,
        prepared: Prepared,
    ) -> Result<(), Full> {
        let home = self.buckets.home(key.hash);
        let locked = self.buckets.lock::<M>(home);
        let old = self.find_locked(&locked, home, key.bytes).map(|(entry, item)| (entry, item.capacity));
        self.publish_locked(&locked, home, access, old, prepared)
    }

    fn publish_locked(
        &self,
        locked: &Locked<'_, M>,
        home: Home,
        access: &mut impl StateAccess<State = S::State>,
        old: Option<(Entry, u32)>,
        prepared: Prepared,
    ) -> Result<(), Full> {
        match old {
            Some((entry, capacity)) => {
                self.buckets.replace(locked, entry, prepared.offset);
                if !S::LOSSY {
                    // After the entry is replaced, so that no entry ever refers to released memory.
                    self.space.release(&mut Self::enter(access), entry.offset, capacity);
                }
            }
            None if S::LOSSY => {
                let age = |offset| if self.space.is_live(offset) { self.space.age(offset) } else { u32::MAX };
                self.buckets.insert_lossy(locked, home, prepared.offset, age);
            }
            None => {
                if self.buckets.insert(locked, home, prepared.offset).is_err() {
                    // The index is full. No entry refers to the prepared item yet, so its memory can be released.
                    self.abandon(access, prepared);
                    return Err(Full::Index);
                }
                M::add(&self.items, 1);
            }
        }
        Ok(())
    }

    /// Releases a prepared item.
    pub fn abandon(&self, access: &mut impl StateAccess<State = S::State>, prepared: Prepared) {
        self.space.release(&mut Self::enter(access), prepared.offset, prepared.words);
    }

    /// Returns whether the policy of a cache appends the item again after this use.
    #[inline]
    pub fn is_fading(&self, value: Value) -> bool {
        S::LOSSY && self.space.is_fading(value.offset)
    }

    /// Appends an item of a cache again if its policy says so.
    pub fn reinsert(
        &self,
        access: &mut impl StateAccess<State = S::State>,
        key: HashedKey<'_>,
        value: Value,
    ) {
        if !self.space.is_fading(value.offset) {
            return;
        }
        let home = self.buckets.home(key.hash);
        let locked = self.buckets.lock::<M>(home);
        let mut state = Self::enter(access);
        // Looked up only now, under both locks: since the get the item may have been overwritten or moved.
        let Some((entry, item)) = self.find_locked(&locked, home, key.bytes) else { return };
        let Ok(offset) = self.space.reserve(&mut state, item.capacity) else { return };
        // Copies forward: if the new place overlaps the old one, it begins before it.
        let (from, to) = (self.words_at(entry.offset), self.words_at(offset));
        for (from, to) in from.iter().zip(to).take(item.capacity as usize) {
            to.store(from.load(Relaxed), Relaxed);
        }
        self.buckets.replace(&locked, entry, offset);
        let due = self.space.due(&mut state);
        drop(state);
        drop(locked);
        self.sweep(due);
    }

    /// Removes a key; returns whether it was present.
    pub fn remove(&self, access: &mut impl StateAccess<State = S::State>, key: HashedKey<'_>) -> bool {
        let home = self.buckets.home(key.hash);
        let locked = self.buckets.lock::<M>(home);
        let Some((entry, item)) = self.find_locked(&locked, home, key.bytes) else { return false };
        let capacity = item.capacity;
        self.buckets.remove(&locked, home, entry);
        if !S::LOSSY {
            M::add(&self.items, 1u64.wrapping_neg());
            self.space.release(&mut Self::enter(access), entry.offset, capacity);
        }
        true
    }

    /// Sweeps these buckets, modulo their number, of offsets that are not live. No bucket may be locked by this thread.
    pub fn sweep(&self, due: Range<u32>) {
        for bucket in due {
            self.buckets.sweep::<M>(bucket % self.buckets.main(), |offset| self.space.is_live(offset));
        }
    }

    /// Returns the maximum number of spare buckets that insertions of keys with these hashes take.
    pub fn spares_needed(&self, hashes: impl Iterator<Item = u64>) -> u32 {
        self.buckets.spares_needed(hashes)
    }

    /// Calls `show` with the key, value and expiry time of each item in a range of main buckets that has not expired.
    /// There must be no writer.
    pub fn for_each(
        &self,
        buckets: Range<u32>,
        now_ms: TimestampMs,
        mut show: impl FnMut(&[u8], &[u8], TimestampMs),
    ) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for bucket in buckets {
            let items = self.entries(bucket).filter_map(|entry| self.item(entry.offset));
            for item in items.filter(|item| !item.is_expired(now_ms)) {
                key.clear();
                value.clear();
                item.key_into(&mut key);
                item.value_into(&mut value);
                show(&key, &value, item.expires_at_ms);
            }
        }
    }

    /// Calls `show` with each item of a cache, including expired ones, from the oldest on. There must be no writer.
    pub fn for_each_oldest_first(&self, mut show: impl FnMut(&[u8], &[u8], TimestampMs)) {
        let entries = || (0..self.buckets.main()).flat_map(|bucket| self.entries(bucket));
        let live = || entries().map(|entry| entry.offset).filter(|offset| self.space.is_live(*offset));
        let mut offsets = Vec::with_capacity(live().count());
        offsets.extend(live().map(|offset| (self.space.age(offset), offset)));
        offsets.sort_unstable();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for item in offsets.iter().rev().filter_map(|(_, offset)| self.item(*offset)) {
            key.clear();
            value.clear();
            item.key_into(&mut key);
            item.value_into(&mut value);
            show(&key, &value, item.expires_at_ms);
        }
    }

    /// Removes the expired items of a range of main buckets, modulo their number; returns how many.
    pub fn collect(
        &self,
        access: &mut impl StateAccess<State = S::State>,
        range: Range<u32>,
        now_ms: TimestampMs,
    ) -> u64 {
        let mut removed = 0;
        for bucket in range {
            let home = self.buckets.home_of_bucket(bucket % self.buckets.main());
            let locked = self.buckets.lock::<M>(home);
            // A removal moves another entry of the chain into the hole, so the search starts again.
            loop {
                let mut items =
                    self.buckets.entries(home).filter_map(|entry| Some((entry, self.item(entry.offset)?)));
                let Some((entry, item)) = items.find(|(_, item)| item.is_expired(now_ms)) else {
                    break;
                };
                let capacity = item.capacity;
                self.buckets.remove(&locked, home, entry);
                if !S::LOSSY {
                    M::add(&self.items, 1u64.wrapping_neg());
                    self.space.release(&mut Self::enter(access), entry.offset, capacity);
                }
                removed += 1;
            }
        }
        removed
    }

    /// Returns the number of main buckets.
    pub fn buckets(&self) -> u32 {
        self.buckets.main()
    }

    /// Returns the main bucket of a hash. It ascends with the hash within a partition.
    pub fn bucket_of(&self, hash: u64) -> u32 {
        self.buckets.home(hash).bucket()
    }
}

impl<M: Mode> Table<CircularLog, M> {
    #[inline]
    pub fn has_gone_round(&self, sweep: &Sweep) -> bool {
        sweep.touched_words() >= self.space.words_max()
    }
}
