//! Partitions, and the rights of threads in each mode (dissertation 5.3.1). The types enforce the modes: a write in
//! EREW and CREW needs `&mut` of the only [`Partition`] with the writers' state, and a [`Reader`] exists in CREW only.

use super::buckets::{Crcw, Crew};
use super::item::Record;
use super::settings::Parts;
use super::table::{Account, Prepared, Table, Value};
use super::{
    CircularLog, Full, HashedKey, Mode, NoState, OwnedState, Reply, Request, SharedState, Space, StateAccess,
};
use crate::batch::TimestampMs;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// A partition, by default as its only owner accesses it: `A` is the access to the writers' state.
pub struct Partition<S: Space, M: Mode, A = OwnedState<<S as Space>::State>> {
    table: Arc<Table<S, M>>,
    state: A,
}

/// Reads a partition whose owner may be writing at the same time (CREW). Cheap to clone.
pub type Reader<S> = Partition<S, Crew, NoState>;

/// A partition that every thread reads and writes (CRCW), each through its own clone. Cheap to clone.
///
/// Writers of a store exclude each other only while they allocate or release memory. A writer of a cache locks the log
/// while it writes an item, because an append may overwrite any other item.
pub type Shared<S> = Partition<S, Crcw, SharedState<<S as Space>::State>>;

/// [`OwnedState`] cannot be cloned: a partition has one owner.
impl<S: Space, M: Mode, A: Clone> Clone for Partition<S, M, A> {
    fn clone(&self) -> Self {
        Partition { table: self.table.clone(), state: self.state.clone() }
    }
}

impl<S: Space, M: Mode, A> Partition<S, M, A> {
    /// Appends the value of a key to `to`, and returns the value's metadata; `None` if the key is absent or has
    /// expired. A read alone does not count for the policy of a cache: [`get_and_keep`](Partition::get_and_keep) does,
    /// or [`keep`](Partition::keep) if [`is_fading`](Partition::is_fading) returns true.
    #[inline]
    pub fn get(&self, key: HashedKey<'_>, now_ms: TimestampMs, to: &mut Vec<u8>) -> Option<Value> {
        self.table.get(key, now_ms, to)
    }

    /// Looks up `count` keys, with their cache misses overlapped: `show` receives the number of each key, its value and
    /// the value's metadata. As [`get`](Partition::get), this does not count for the policy of a cache.
    #[inline]
    pub fn get_many<'a>(
        &self,
        count: usize,
        key: impl Fn(usize) -> HashedKey<'a>,
        now_ms: TimestampMs,
        show: impl FnMut(usize, Option<(&[u8], Value)>),
    ) {
        self.table.get_many(count, key, now_ms, show);
    }

    /// Returns whether the policy of a cache appends the item again after this use.
    #[inline]
    pub fn is_fading(&self, value: Value) -> bool {
        self.table.is_fading(value)
    }

    /// Returns the number of items, including expired ones. In a cache this reads the complete index, about 10 ns per
    /// bucket.
    pub fn len(&self) -> u64 {
        self.table.len()
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of main buckets of the index.
    pub fn buckets(&self) -> u32 {
        self.table.buckets()
    }

    /// Returns the number of spare buckets that are in no chain.
    pub fn free_spares(&self) -> u32 {
        self.table.free_spares()
    }

    /// Returns the memory of the partition.
    pub fn account(&self) -> Account {
        self.table.account()
    }

    /// Returns the number of bytes that are in huge pages now. Asks the operating system, which takes milliseconds.
    pub fn huge_bytes(&self) -> u64 {
        self.table.pages().iter().map(|pages| pages.huge_bytes()).sum()
    }
}

impl<S: Space, M: Mode, A: StateAccess<State = S::State>> Partition<S, M, A> {
    /// Like [`get`](Partition::get), and counts as a use for the policy of a cache.
    #[inline]
    pub fn get_and_keep(
        &mut self,
        key: HashedKey<'_>,
        now_ms: TimestampMs,
        to: &mut Vec<u8>,
    ) -> Option<Value> {
        let value = self.table.get(key, now_ms, to)?;
        self.keep(key, value);
        Some(value)
    }

    /// Counts a use of an item that was found by a [`Reader`]: appends it again if the policy of the cache says so.
    #[inline]
    pub fn keep(&mut self, key: HashedKey<'_>, value: Value) {
        if S::LOSSY {
            self.table.reinsert(&mut self.state, key, value);
        }
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`Full`] if it cannot be stored; the previous value remains.
    #[inline]
    pub fn put(&mut self, key: HashedKey<'_>, value: &[u8], expires_at_ms: TimestampMs) -> Result<(), Full> {
        self.table.put(&mut self.state, key, value, expires_at_ms)
    }

    /// Removes a key; returns whether it was present.
    #[inline]
    pub fn remove(&mut self, key: HashedKey<'_>) -> bool {
        self.table.remove(&mut self.state, key)
    }

    /// Executes requests in their order, with their cache misses overlapped; `answer` receives the number and the reply
    /// of each request.
    #[inline]
    pub fn execute(
        &mut self,
        requests: &[Request<'_>],
        now_ms: TimestampMs,
        answer: impl FnMut(usize, Reply<'_>),
    ) {
        self.table.execute(&mut self.state, requests, now_ms, answer);
    }

    /// Removes the expired items of a range of buckets, modulo their number ([`buckets`](Partition::buckets)); returns
    /// how many.
    pub fn collect(&mut self, buckets: Range<u32>, now_ms: TimestampMs) -> u64 {
        self.table.collect(&mut self.state, buckets, now_ms)
    }
}

impl<S: Space, M: Mode> Partition<S, M> {
    pub(super) fn new(parts: Parts<S>) -> Self {
        let (table, state) = Table::new(parts);
        Partition { table: Arc::new(table), state: OwnedState(state) }
    }

    /// Prepares all records for [`publish`](Self::publish), or none: allocates and writes them. If two have the same
    /// key, the later one applies. In a cache the first ones may be overwritten at once if all together are longer than
    /// the log.
    ///
    /// # Errors
    /// [`Full`] if not all can be stored.
    pub(crate) fn prepare(
        &mut self,
        records: &[(HashedKey<'_>, &[u8], TimestampMs)],
    ) -> Result<Vec<Prepared>, Full> {
        let needed = || self.table.spares_needed(records.iter().map(|(key, ..)| key.hash));
        if !S::LOSSY && needed() > self.table.free_spares() {
            return Err(Full::Index);
        }
        let mut items = Vec::with_capacity(records.len());
        for (key, value, expires_at_ms) in records {
            let record = Record { key: key.bytes, value, expires_at_ms: *expires_at_ms };
            match self.table.prepare(&mut self.state, &record) {
                Ok((prepared, due)) => {
                    self.table.sweep(due);
                    items.push(prepared);
                }
                Err(full) => {
                    self.abandon(items);
                    return Err(full);
                }
            }
        }
        Ok(items)
    }

    /// Makes a prepared item visible; `key` must be the one that it was prepared with.
    pub(crate) fn publish(&mut self, key: HashedKey<'_>, item: Prepared) -> Result<(), Full> {
        self.table.publish(&mut self.state, key, item)
    }

    /// Releases prepared items.
    pub(crate) fn abandon(&mut self, items: Vec<Prepared>) {
        items.into_iter().for_each(|item| self.table.abandon(&mut self.state, item));
    }

    /// Calls `show` with the key, value and expiry time of each item that has not expired.
    pub fn for_each(&self, now_ms: TimestampMs, show: impl FnMut(&[u8], &[u8], TimestampMs)) {
        self.table.for_each(0..self.table.buckets(), now_ms, show);
    }

    /// Shows every item of a main bucket that is present and has not expired.
    pub(crate) fn for_each_in_bucket(
        &self,
        bucket: u32,
        now_ms: TimestampMs,
        show: impl FnMut(&[u8], &[u8], TimestampMs),
    ) {
        self.table.for_each(bucket..bucket + 1, now_ms, show);
    }

    /// Returns the main bucket of a hash. Within a partition it ascends with the hash.
    pub(crate) fn bucket_of(&self, hash: u64) -> u32 {
        self.table.bucket_of(hash)
    }
}

impl<M: Mode> Partition<CircularLog, M> {
    /// Returns the memory in use, in bytes. In the first round of the log, this includes only the part that was
    /// written.
    pub fn touched_bytes(&self) -> u64 {
        self.table.account().index_bytes
            + self.state.0.touched_bytes()
            + size_of::<Table<CircularLog, M>>() as u64
    }

    /// Returns whether the next item overwrites older ones.
    #[inline]
    pub fn has_gone_round(&self) -> bool {
        self.table.has_gone_round(&self.state.0)
    }

    /// Calls `show` with each item, including expired ones, from the oldest on. Takes 8 bytes of memory per item.
    pub fn for_each_oldest_first(&self, show: impl FnMut(&[u8], &[u8], TimestampMs)) {
        self.table.for_each_oldest_first(show);
    }
}

impl<S: Space> Partition<S, Crew> {
    /// Returns a reader, which may be used while the owner writes.
    pub fn reader(&self) -> Reader<S> {
        Partition { table: self.table.clone(), state: NoState }
    }
}

impl<S: Space> Partition<S, Crcw> {
    /// Returns the partition for many writers.
    pub fn share(self) -> Shared<S> {
        let OwnedState(state) = self.state;
        Partition { table: self.table, state: SharedState(Arc::new(Mutex::new(state))) }
    }
}

impl<S: Space> Reader<S> {
    /// Executes gets, as the owner's [`execute`](Partition::execute). The reply to a put or a delete is
    /// [`Reply::ReadOnly`].
    #[inline]
    pub fn execute(
        &self,
        requests: &[Request<'_>],
        now_ms: TimestampMs,
        answer: impl FnMut(usize, Reply<'_>),
    ) {
        self.table.execute_gets(requests, now_ms, answer);
    }
}

#[cfg(test)]
impl<M: Mode> Partition<super::SegregatedFits, M> {
    pub(super) fn free_words(&self) -> u64 {
        self.state.0.free_words()
    }
}

#[cfg(test)]
impl Shared<super::SegregatedFits> {
    pub(super) fn free_words(&self) -> u64 {
        self.state.0.lock().free_words()
    }
}
