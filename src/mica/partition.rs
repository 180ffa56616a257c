//! Partitions, and who may do what to them in which mode (dissertation 5.3.1). The types hold the modes: what writes in
//! EREW and CREW is `&mut` of the only [`Partition`] with the state of writers, and a [`Reader`] exists in CREW only.

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

/// A partition, as its only owner has it unless `A` says otherwise: `A` is the access to the state of writers.
pub struct Partition<S: Space, M: Mode, A = OwnedState<<S as Space>::State>> {
    table: Arc<Table<S, M>>,
    state: A,
}

/// Reads a partition whose owner may be writing at the same time (CREW). Cheap to clone.
pub type Reader<S> = Partition<S, Crew, NoState>;

/// A partition that every thread reads and writes (CRCW), each with its own clone. Cheap to clone.
///
/// Writers of a store exclude each other only while they allocate or free memory. A writer of a cache locks the log
/// while it writes an item, because an append may overwrite any other item.
pub type Shared<S> = Partition<S, Crcw, SharedState<<S as Space>::State>>;

/// [`OwnedState`] cannot be cloned: a partition has one owner.
impl<S: Space, M: Mode, A: Clone> Clone for Partition<S, M, A> {
    fn clone(&self) -> Self {
        Partition { table: self.table.clone(), state: self.state.clone() }
    }
}

impl<S: Space, M: Mode, A> Partition<S, M, A> {
    /// Appends the value of a key to `to`, and returns what is known of it; `None` if it is absent or has expired. A
    /// read alone does not count for the policy of a cache: [`get_and_keep`](Partition::get_and_keep) does, or
    /// [`keep`](Partition::keep) where [`is_fading`](Partition::is_fading) returns true.
    #[inline]
    pub fn get(&self, key: HashedKey<'_>, now_ms: TimestampMs, to: &mut Vec<u8>) -> Option<Value> {
        self.table.get(key, now_ms, to)
    }

    /// The values of `count` keys, with their cache misses overlapped: `show` receives the number of each key, its
    /// value and what is known of it. As [`get`](Partition::get), this does not count for the policy of a cache.
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

    /// Whether the policy of a cache appends the item again once it was asked for.
    #[inline]
    pub fn is_fading(&self, value: Value) -> bool {
        self.table.is_fading(value)
    }

    /// The items, expired ones included. In a cache this reads the whole index, about 10 ns per bucket.
    pub fn len(&self) -> u64 {
        self.table.len()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Main buckets of the index.
    pub fn buckets(&self) -> u32 {
        self.table.buckets()
    }

    /// The spare buckets that are in no chain.
    pub fn free_spares(&self) -> u32 {
        self.table.free_spares()
    }

    /// The memory of the partition.
    pub fn account(&self) -> Account {
        self.table.account()
    }

    /// The bytes that are in huge pages now. Asks the operating system: takes milliseconds.
    pub fn huge_bytes(&self) -> u64 {
        self.table.pages().iter().map(|pages| pages.huge_bytes()).sum()
    }
}

impl<S: Space, M: Mode, A: StateAccess<State = S::State>> Partition<S, M, A> {
    /// [`get`](Partition::get), after which the item is young again as the cache's policy has it.
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

    /// Appends the item of a cache, found by a [`Reader`], again if the policy says so.
    #[inline]
    pub fn keep(&mut self, key: HashedKey<'_>, value: Value) {
        if S::LOSSY {
            self.table.reinsert(&mut self.state, key, value);
        }
    }

    /// Gives the key a value, in place of an older one.
    ///
    /// # Errors
    /// [`Full`] if it cannot be stored; the older value stays.
    #[inline]
    pub fn put(&mut self, key: HashedKey<'_>, value: &[u8], expires_at_ms: TimestampMs) -> Result<(), Full> {
        self.table.put(&mut self.state, key, value, expires_at_ms)
    }

    /// Removes the key; returns whether it was present.
    #[inline]
    pub fn remove(&mut self, key: HashedKey<'_>) -> bool {
        self.table.remove(&mut self.state, key)
    }

    /// Executes requests in their order, with their cache misses overlapped; `answer` receives the number of each
    /// request and its reply.
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

    /// Puts all records or none: what they need is there, or nothing changes. Of two to one key the later one holds. In
    /// a cache the older ones may be gone at once if all together are longer than the log.
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

    /// Lets a prepared item be found; its key is the one that it was prepared with.
    pub(crate) fn publish(&mut self, key: HashedKey<'_>, item: Prepared) -> Result<(), Full> {
        self.table.publish(&mut self.state, key, item)
    }

    /// Gives back what was prepared.
    pub(crate) fn abandon(&mut self, items: Vec<Prepared>) {
        items.into_iter().for_each(|item| self.table.abandon(&mut self.state, item));
    }

    /// Shows every item that is present and has not expired: its key, value and expiry time.
    pub fn for_each(&self, now_ms: TimestampMs, show: impl FnMut(&[u8], &[u8], TimestampMs)) {
        self.table.for_each(now_ms, show);
    }
}

impl<M: Mode> Partition<CircularLog, M> {
    /// The memory that it takes now, in bytes: of the log only what was written to, before it has gone round.
    pub fn touched_bytes(&self) -> u64 {
        self.table.account().index_bytes
            + self.state.0.touched_bytes()
            + size_of::<Table<CircularLog, M>>() as u64
    }

    /// Whether what comes next takes the place of something older.
    #[inline]
    pub fn has_gone_round(&self) -> bool {
        self.table.has_gone_round(&self.state.0)
    }

    /// Shows every item that is present, expired ones included, from the oldest on. Takes 8 bytes per item meanwhile.
    pub fn for_each_oldest_first(&self, show: impl FnMut(&[u8], &[u8], TimestampMs)) {
        self.table.for_each_oldest_first(show);
    }
}

impl<S: Space> Partition<S, Crew> {
    /// A reader, which may be used while the owner writes.
    pub fn reader(&self) -> Reader<S> {
        Partition { table: self.table.clone(), state: NoState }
    }
}

impl<S: Space> Partition<S, Crcw> {
    /// The partition for many writers.
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
