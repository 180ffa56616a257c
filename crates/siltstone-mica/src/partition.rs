//! Partitions, and the rights of threads in each mode (dissertation 5.3.1). The types enforce the modes: a write in
//! EREW and CREW needs `&mut` of the only [`Partition`] with the writers' state, and a [`Reader`] exists in CREW only.

use super::buckets::{BucketEntry, Buckets, Crcw, Crew, Locked};
use super::item::{Item, Record};
use super::table::{Table, Value};
use super::{
    CircularLog, CollectionTimer, Full, HashedKey, ItemLayout, Mode, OwnedState, Space, StateAccess,
    WriterState,
};
use crate::TimestampMs;
use siltstone_device::Pages;
use siltstone_device::sync::Mutex;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The parts of a partition, in any mode.
pub(super) struct Parts<S: Space> {
    pub buckets: Buckets<Pages>,
    pub space: S,
    pub state: S::State,
    pub layout: ItemLayout,
}

/// A partition, by default as its only owner accesses it: `A` is the access to the writers' state. It has the methods
/// of [`Table`] besides its own.
pub struct Partition<S: Space, M: Mode, A = OwnedState<WriterState<S>>> {
    pub(super) table: Arc<Table<S, M>>,
    state: A,
}

/// Reads a partition whose owner may be writing at the same time (CREW). Cheap to clone.
pub type Reader<S> = Arc<Table<S, Crew>>;

/// A partition that every thread reads and writes (CRCW), each through its own clone. Cheap to clone.
///
/// Writers of a store exclude each other only while they allocate or release memory. A writer of a cache locks the log
/// while it writes an item, because an append may overwrite any other item.
pub type Shared<S> = Partition<S, Crcw, Arc<Mutex<WriterState<S>>>>;

/// An item that was written and that no lookup can find yet.
#[must_use]
pub struct Prepared {
    offset: u32,
    words: u32,
}

/// [`OwnedState`] cannot be cloned: a partition has one owner.
impl<S: Space, M: Mode, A: Clone> Clone for Partition<S, M, A> {
    fn clone(&self) -> Self {
        Partition { table: self.table.clone(), state: self.state.clone() }
    }
}

impl<S: Space, M: Mode, A> Deref for Partition<S, M, A> {
    type Target = Table<S, M>;

    #[inline]
    fn deref(&self) -> &Table<S, M> {
        &self.table
    }
}

impl<S: Space, M: Mode> Partition<S, M> {
    pub(super) fn new(parts: Parts<S>) -> Self {
        let Parts { buckets, space, state, layout } = parts;
        let table = Table { buckets, space, layout, items: AtomicU64::new(0), mode: PhantomData };
        let state = WriterState { space: state, timer: CollectionTimer::default() };
        Partition { table: Arc::new(table), state: OwnedState(state) }
    }

    /// Calls `show` with the key, value and expiry time of each item that has not expired.
    pub fn for_each(&self, now_ms: TimestampMs, mut show: impl FnMut(&[u8], &[u8], TimestampMs)) {
        (0..self.buckets.main()).for_each(|bucket| self.for_each_in_bucket(bucket, now_ms, &mut show));
    }

    /// Shows every item of a main bucket that is present and has not expired.
    pub fn for_each_in_bucket(
        &self,
        bucket: u32,
        now_ms: TimestampMs,
        show: impl FnMut(&[u8], &[u8], TimestampMs),
    ) {
        let items = self.entries(bucket).filter_map(|entry| self.item(entry.offset));
        Item::show_all(items.filter(|item| !item.is_expired(now_ms)), show);
    }
}

impl<M: Mode> Partition<CircularLog, M> {
    /// Returns the memory in use, in bytes. In the first round of the log, this includes only the part that was
    /// written.
    pub fn touched_bytes(&self) -> u64 {
        let log_bytes = self.state.0.space.touched_bytes();
        self.account().index_bytes + log_bytes + size_of::<Table<CircularLog, M>>() as u64
    }

    /// Returns whether the next item overwrites older ones.
    #[inline]
    pub fn has_gone_round(&self) -> bool {
        self.state.0.space.touched_bytes() >= self.space.pages().bytes()
    }

    /// Calls `show` with each item, including expired ones, from the oldest on. Takes 8 bytes of memory per item.
    pub fn for_each_oldest_first(&self, show: impl FnMut(&[u8], &[u8], TimestampMs)) {
        let entries = || (0..self.buckets.main()).flat_map(|bucket| self.entries(bucket));
        let live = || entries().map(|entry| entry.offset).filter(|offset| self.space.is_live(*offset));
        let mut offsets = Vec::with_capacity(live().count());
        offsets.extend(live().map(|offset| (self.space.age(offset), offset)));
        offsets.sort_unstable();
        Item::show_all(offsets.iter().rev().filter_map(|(_, offset)| self.item(*offset)), show);
    }
}

impl<S: Space> Partition<S, Crew> {
    /// Returns a reader, which may be used while the owner writes.
    pub fn reader(&self) -> Reader<S> {
        self.table.clone()
    }
}

impl<S: Space> Partition<S, Crcw> {
    /// Returns the partition for many writers.
    pub fn share(self) -> Shared<S> {
        Partition { table: self.table, state: Arc::new(Mutex::new(self.state.0)) }
    }
}

impl<S: Space, M: Mode, A: StateAccess<WriterState<S>>> Partition<S, M, A> {
    /// Like [`get`](Table::get), and counts as a use for the policy of a cache.
    #[inline]
    pub fn get_and_keep(
        &mut self,
        key: HashedKey<'_>,
        now_ms: TimestampMs,
        to: &mut Vec<u8>,
    ) -> Option<Value> {
        let value = self.get(key, now_ms, to)?;
        self.keep(key, value);
        Some(value)
    }

    /// Counts a use of an item that was found by a [`Reader`]: appends it again if the policy of the cache says so.
    #[inline]
    pub fn keep(&mut self, key: HashedKey<'_>, value: Value) {
        if self.is_fading(value) {
            self.append_again(key);
        }
    }

    fn append_again(&mut self, key: HashedKey<'_>) {
        let Partition { table, state } = self;
        let locked = table.lock(key.hash);
        // After the bucket, as in `put`: all writers take both in this order.
        let mut state = Self::enter(state);
        // Looked up only now, under both locks: since the get the item may have been overwritten or moved.
        let Some((entry, item)) = table.find_locked(&locked, key.bytes) else { return };
        // With its slack, so that the item may still grow in place.
        let Ok(offset) = table.space.reserve(&mut state.space, item.capacity) else { return };
        // Copies forward: if the new place overlaps the old one, it begins before it.
        let (from, to) = (table.words_at(entry.offset), table.words_at(offset));
        for (from, to) in from.iter().zip(to).take(item.capacity as usize) {
            to.store(from.load(Relaxed), Relaxed);
        }
        locked.replace(entry, offset);
        let due = table.space.due(&mut state.space);
        drop(state);
        // Before the sweep, which locks buckets, perhaps this one.
        drop(locked);
        table.sweep(due);
    }

    /// Sets the value of a key, in place if it fits there.
    ///
    /// # Errors
    /// [`Full`] if it cannot be stored; the previous value remains.
    #[inline]
    pub fn put(&mut self, key: HashedKey<'_>, value: &[u8], expires_at_ms: TimestampMs) -> Result<(), Full> {
        let Partition { table, state } = self;
        let record = Record { key: key.bytes, value, expires_at_ms };
        if !table.layout.fits(&record) {
            return Err(Full::Shape);
        }
        let words = table.layout.words_of(&record);
        let locked = table.lock(key.hash);
        let old = table.find_locked(&locked, key.bytes).map(|(entry, item)| (entry, item.capacity));
        if let Some((entry, capacity)) = old
            && table.layout.may_stand_in(words, capacity)
            // A put is a use: where the policy counts uses, the item is appended again.
            && !table.space.is_fading(entry.offset)
        {
            // The items of a cache belong to the log, not to the bucket: other writers may overwrite them by appending.
            let _state = S::LOSSY.then(|| Self::enter(state));
            // Live under the lock: it was not overwritten when its capacity was read either, as the tail only moves on.
            if table.space.is_live(entry.offset) {
                table.layout.write(table.words_at(entry.offset), capacity, &record);
                return Ok(());
            }
        }
        let (prepared, due) = Self::write(table, state, &record)?;
        Self::publish_locked(table, state, &locked, old, prepared)?;
        // Before the sweep, which locks buckets, perhaps this one.
        drop(locked);
        table.sweep(due);
        Ok(())
    }

    /// Removes a key; returns whether it was present.
    pub fn remove(&mut self, key: HashedKey<'_>) -> bool {
        let Partition { table, state } = self;
        let locked = table.lock(key.hash);
        let Some((entry, item)) = table.find_locked(&locked, key.bytes) else { return false };
        Self::remove_locked(table, state, &locked, entry, item.capacity);
        true
    }

    /// Does `work`. If the memory is full, removes the expired items, unless this was done less than a second ago, and
    /// does the work once more if there were any.
    ///
    /// # Errors
    /// Those of `work`.
    #[inline]
    pub fn with_room<T>(
        &mut self,
        now_ms: TimestampMs,
        mut work: impl FnMut(&mut Self) -> Result<T, Full>,
    ) -> Result<T, Full> {
        match work(self) {
            Err(full @ (Full::Memory | Full::Index)) => self.collect_and_repeat(now_ms, full, work),
            outcome => outcome,
        }
    }

    /// Not inlined, so that there is one copy of `work` where requests are executed.
    #[cold]
    #[inline(never)]
    fn collect_and_repeat<T>(
        &mut self,
        now_ms: TimestampMs,
        full: Full,
        mut work: impl FnMut(&mut Self) -> Result<T, Full>,
    ) -> Result<T, Full> {
        // The access ends with this statement: `collect` accesses the state for each item.
        let is_due = self.state.access().timer.is_due(now_ms);
        if is_due && self.collect(now_ms) > 0 { work(self) } else { Err(full) }
    }

    /// Removes all expired items; returns how many. Reads the complete index.
    pub fn collect(&mut self, now_ms: TimestampMs) -> u64 {
        let Partition { table, state } = self;
        let mut removed = 0;
        for bucket in 0..table.buckets.main() {
            let locked = table.buckets.lock::<M>(table.buckets.home_of_bucket(bucket));
            // A removal moves another entry of the chain into the hole, so the search starts again.
            loop {
                let mut items = locked.entries().filter_map(|entry| Some((entry, table.item(entry.offset)?)));
                let Some((entry, item)) = items.find(|(_, item)| item.is_expired(now_ms)) else { break };
                Self::remove_locked(table, state, &locked, entry, item.capacity);
                removed += 1;
            }
        }
        removed
    }

    /// Returns whether insertions of new keys with these hashes find space in the index.
    ///
    /// # Errors
    /// [`Full::Index`] if they may not.
    pub fn check_index(&self, hashes: &[u64]) -> Result<(), Full> {
        let suffices = S::LOSSY || self.buckets.spares_needed(hashes) <= self.buckets.free_spares();
        if suffices { Ok(()) } else { Err(Full::Index) }
    }

    /// Allocates and writes an item for [`publish`](Self::publish) or [`abandon`](Self::abandon). In a cache it may be
    /// overwritten before that, if more items are prepared than the log holds.
    ///
    /// # Errors
    /// [`Full`] if it cannot be stored.
    pub fn prepare(
        &mut self,
        key: HashedKey<'_>,
        value: &[u8],
        expires_at_ms: TimestampMs,
    ) -> Result<Prepared, Full> {
        let record = Record { key: key.bytes, value, expires_at_ms };
        let (prepared, due) = Self::write(&self.table, &mut self.state, &record)?;
        self.sweep(due);
        Ok(prepared)
    }

    /// Makes a prepared item visible, in place of the key's previous one; `key` must be the one that it was prepared
    /// with.
    pub fn publish(&mut self, key: HashedKey<'_>, item: Prepared) -> Result<(), Full> {
        let Partition { table, state } = self;
        let locked = table.lock(key.hash);
        let old = table.find_locked(&locked, key.bytes).map(|(entry, item)| (entry, item.capacity));
        Self::publish_locked(table, state, &locked, old, item)
    }

    /// Releases a prepared item.
    pub fn abandon(&mut self, item: Prepared) {
        Self::release(&self.table, &mut self.state, item.offset, item.words);
    }

    /// Gives a writer access to the state. It may then write to memory that another writer has released.
    #[inline]
    fn enter(state: &mut A) -> A::Guard<'_> {
        let state = state.access();
        M::before_reuse();
        state
    }

    /// Writes an item where no lookup can find it yet. Also returns the buckets that are due for a sweep.
    #[inline]
    fn write(
        table: &Table<S, M>,
        state: &mut A,
        record: &Record<'_>,
    ) -> Result<(Prepared, Range<u32>), Full> {
        if !table.layout.fits(record) {
            return Err(Full::Shape);
        }
        let words = table.layout.words_of(record);
        let mut state = Self::enter(state);
        let offset = table.space.reserve(&mut state.space, words)?;
        let due = table.space.due(&mut state.space);
        // In a cache the lock is held until the item is written, since another append could overwrite it. In a store
        // the allocated block belongs to this writer alone.
        let _state = S::LOSSY.then_some(state);
        table.layout.write(table.words_at(offset), words, record);
        Ok((Prepared { offset, words }, due))
    }

    /// Makes a prepared item visible, in place of the key's previous one. In a cache it may have been overwritten
    /// already.
    fn publish_locked(
        table: &Table<S, M>,
        state: &mut A,
        locked: &Locked<'_, Pages, M>,
        old: Option<(BucketEntry, u32)>,
        item: Prepared,
    ) -> Result<(), Full> {
        let space = &table.space;
        match old {
            Some((entry, capacity)) => {
                locked.replace(entry, item.offset);
                // After the entry is replaced, so that no entry ever refers to released memory.
                Self::release(table, state, entry.offset, capacity);
            }
            None if S::LOSSY => {
                // An entry that dangles is replaced first.
                let age = |offset| if space.is_live(offset) { space.age(offset) } else { u32::MAX };
                locked.insert_lossy(item.offset, age);
            }
            None => {
                if locked.insert(item.offset).is_err() {
                    // The index is full. No entry refers to the prepared item yet, so its memory can be released.
                    Self::release(table, state, item.offset, item.words);
                    return Err(Full::Index);
                }
                M::add(&table.items, 1);
            }
        }
        Ok(())
    }

    fn remove_locked(
        table: &Table<S, M>,
        state: &mut A,
        locked: &Locked<'_, Pages, M>,
        entry: BucketEntry,
        capacity: u32,
    ) {
        locked.remove(entry);
        // A cache keeps no count, because its log overwrites items without their buckets.
        if !S::LOSSY {
            M::add(&table.items, 1u64.wrapping_neg());
        }
        // After the entry is removed, so that no entry ever refers to released memory.
        Self::release(table, state, entry.offset, capacity);
    }

    /// Releases the memory of an item of a store. In a cache the log overwrites it in time.
    #[inline]
    fn release(table: &Table<S, M>, state: &mut A, offset: u32, words: u32) {
        if !S::LOSSY {
            table.space.release(&mut Self::enter(state).space, offset, words);
        }
    }
}

#[cfg(test)]
impl<M: Mode, A: StateAccess<WriterState<super::SegregatedFits>>> Partition<super::SegregatedFits, M, A> {
    pub(super) fn free_words(&mut self) -> u64 {
        self.state.access().space.free_words()
    }
}
