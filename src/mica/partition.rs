//! Partitions, and who may do what to them in which mode (dissertation 5.3.1). The borrow checker holds the modes: a
//! writer is `&mut` in EREW and CREW, and readers beside it are there in CREW alone.

use super::buckets::{Crcw, Crew};
use super::item::Record;
use super::table::{Account, Prepared, Table, Value};
use super::{Full, HashedKey, Mode, Reply, Request, Space};
use crate::batch::TimestampMs;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// A partition in the hands of its owner.
pub struct Partition<S: Space, M: Mode> {
    table: Arc<Table<S, M>>,
    state: S::State,
}

/// Reads a partition whose owner may be writing at the same time (CREW). Cheap to clone.
pub struct Reader<S: Space> {
    table: Arc<Table<S, Crew>>,
}

/// A partition that anybody reads and writes (CRCW). Cheap to clone.
///
/// Writers of a store meet only for the moment in which a place is found or given back. Those of a cache hold its log
/// while they write an item, since whatever is appended may overwrite any other.
pub struct Shared<S: Space> {
    table: Arc<Table<S, Crcw>>,
    state: Arc<Mutex<S::State>>,
}

impl<S: Space> Clone for Reader<S> {
    fn clone(&self) -> Self {
        Reader { table: self.table.clone() }
    }
}

impl<S: Space> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Shared { table: self.table.clone(), state: self.state.clone() }
    }
}

impl<S: Space, M: Mode> Partition<S, M> {
    pub(super) fn new(table: Table<S, M>, state: S::State) -> Self {
        Partition { table: Arc::new(table), state }
    }

    /// Appends the value of a key to `to`, and answers its expiry time; `None` if it is not there or has expired.
    /// Whether an item of a cache is young does not change: [`get_and_keep`](Partition::get_and_keep) does that.
    #[inline]
    pub fn get(&self, key: HashedKey<'_>, now_ms: TimestampMs, to: &mut Vec<u8>) -> Option<TimestampMs> {
        self.table.get(key, now_ms, to).map(|value| value.expires_at_ms)
    }

    /// [`get`](Partition::get), after which the item is young again as the cache's policy has it.
    #[inline]
    pub fn get_and_keep(
        &mut self,
        key: HashedKey<'_>,
        now_ms: TimestampMs,
        to: &mut Vec<u8>,
    ) -> Option<TimestampMs> {
        let value = self.table.get(key, now_ms, to)?;
        self.keep(key, value);
        Some(value.expires_at_ms)
    }

    /// Appends the item of a cache, found by a [`Reader`], again if the policy says so.
    #[inline]
    pub fn keep(&mut self, key: HashedKey<'_>, value: Value) {
        if S::LOSSY {
            self.table.reinsert(&mut &mut self.state, key, value);
        }
    }

    /// The values of `count` keys, with their misses overlapped: `show` is given the number of each, and its value and
    /// expiry time if it is there.
    #[inline]
    pub fn get_many<'a>(
        &self,
        count: usize,
        key: impl Fn(usize) -> HashedKey<'a>,
        now_ms: TimestampMs,
        mut show: impl FnMut(usize, Option<(&[u8], TimestampMs)>),
    ) {
        self.table.get_many(count, key, now_ms, |at, found| {
            show(at, found.map(|(bytes, value)| (bytes, value.expires_at_ms)));
        });
    }

    /// Gives the key a value, in place of an older one.
    ///
    /// # Errors
    /// [`Full`] if it cannot be stored; the older value stays.
    #[inline]
    pub fn put(&mut self, key: HashedKey<'_>, value: &[u8], expires_at_ms: TimestampMs) -> Result<(), Full> {
        self.table.put(&mut &mut self.state, key, value, expires_at_ms)
    }

    /// Removes the key; answers whether it was there.
    #[inline]
    pub fn remove(&mut self, key: HashedKey<'_>) -> bool {
        self.table.remove(&mut &mut self.state, key)
    }

    /// Carries out requests in their order, with their misses overlapped; `answer` is given the number of each and what
    /// came of it.
    #[inline]
    pub fn execute(
        &mut self,
        requests: &[Request<'_>],
        now_ms: TimestampMs,
        answer: impl FnMut(usize, Reply<'_>),
    ) {
        self.table.execute(&mut &mut self.state, requests, now_ms, answer);
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
            match self.table.prepare(&mut &mut self.state, &record) {
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
        self.table.publish(&mut &mut self.state, key, item)
    }

    /// Gives back what was prepared.
    pub(crate) fn abandon(&mut self, items: Vec<Prepared>) {
        items.into_iter().for_each(|item| self.table.abandon(&mut &mut self.state, item));
    }

    /// Removes the expired items of a range of buckets, modulo their number ([`buckets`](Partition::buckets)); answers
    /// how many.
    pub fn collect(&mut self, buckets: Range<u32>, now_ms: TimestampMs) -> u64 {
        self.table.collect(&mut &mut self.state, buckets, now_ms)
    }

    /// Main buckets of the index.
    pub fn buckets(&self) -> u32 {
        self.table.buckets()
    }

    /// Shows every item that is there and has not expired: its key, value and expiry time.
    pub fn for_each(&self, now_ms: TimestampMs, show: impl FnMut(&[u8], &[u8], TimestampMs)) {
        self.table.for_each(now_ms, show);
    }

    /// The items, expired ones included. For a cache it goes through the index, some 10 ns a bucket.
    pub fn len(&self) -> u64 {
        self.table.len()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The spare buckets that are in no chain.
    pub fn free_spares(&self) -> u32 {
        self.table.free_spares()
    }

    /// The memory of the partition.
    pub fn account(&self) -> Account {
        self.table.account(&self.state)
    }

    /// Bytes that stand in huge pages now. Asks the system: takes milliseconds.
    pub fn huge_bytes(&self) -> u64 {
        self.table.pages().iter().map(|pages| pages.huge_bytes()).sum()
    }

    /// What only the writer knows: free words of a store, the sweep of a cache.
    pub fn state(&self) -> &S::State {
        &self.state
    }
}

impl<M: Mode> Partition<super::CircularLog, M> {
    /// The memory that it takes now, in bytes: of the log only what was written to, before it has gone round.
    pub fn touched_bytes(&self) -> u64 {
        self.table.account(&self.state).index_bytes
            + self.state.touched_bytes()
            + size_of::<Table<super::CircularLog, M>>() as u64
    }

    /// Whether what comes next takes the place of something older.
    #[inline]
    pub fn has_gone_round(&self) -> bool {
        self.table.has_gone_round(&self.state)
    }

    /// Shows every item that is there, expired ones included, from the oldest on. Takes 8 bytes an item meanwhile.
    pub fn for_each_oldest_first(&self, show: impl FnMut(&[u8], &[u8], TimestampMs)) {
        self.table.for_each_oldest_first(show);
    }
}

impl<S: Space> Partition<S, Crew> {
    /// One that reads beside the owner.
    pub fn reader(&self) -> Reader<S> {
        Reader { table: self.table.clone() }
    }
}

impl<S: Space> Partition<S, Crcw> {
    /// The partition, for all.
    pub fn share(self) -> Shared<S> {
        Shared { table: self.table, state: Arc::new(Mutex::new(self.state)) }
    }
}

impl<S: Space> Reader<S> {
    /// Appends the value of a key to `to`, and returns what is known of it; `None` if it is absent or has expired. A
    /// read alone does not count for the policy of a cache: where [`is_fading`](Reader::is_fading) returns true, the
    /// owner has to [`keep`](Partition::keep) the item.
    #[inline]
    pub fn get(&self, key: HashedKey<'_>, now_ms: TimestampMs, to: &mut Vec<u8>) -> Option<Value> {
        self.table.get(key, now_ms, to)
    }

    /// The values of `count` keys, with their misses overlapped: `show` is given the number of each, its value and what
    /// is known of it. Items that are fading are for the caller to [`keep`](Partition::keep).
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
}

impl<S: Space> Shared<S> {
    /// Appends the value of a key to `to`, and answers its expiry time; `None` if it is not there or has expired.
    #[inline]
    pub fn get(&self, key: HashedKey<'_>, now_ms: TimestampMs, to: &mut Vec<u8>) -> Option<TimestampMs> {
        self.table.get(key, now_ms, to).map(|value| value.expires_at_ms)
    }

    /// [`get`](Shared::get), after which the item is young again as the cache's policy has it.
    #[inline]
    pub fn get_and_keep(
        &self,
        key: HashedKey<'_>,
        now_ms: TimestampMs,
        to: &mut Vec<u8>,
    ) -> Option<TimestampMs> {
        let value = self.table.get(key, now_ms, to)?;
        if S::LOSSY {
            self.table.reinsert(&mut &*self.state, key, value);
        }
        Some(value.expires_at_ms)
    }

    /// Gives the key a value, in place of an older one.
    ///
    /// # Errors
    /// [`Full`] if it cannot be stored; the older value stays.
    #[inline]
    pub fn put(&self, key: HashedKey<'_>, value: &[u8], expires_at_ms: TimestampMs) -> Result<(), Full> {
        self.table.put(&mut &*self.state, key, value, expires_at_ms)
    }

    /// Removes the key; answers whether it was there.
    #[inline]
    pub fn remove(&self, key: HashedKey<'_>) -> bool {
        self.table.remove(&mut &*self.state, key)
    }

    /// Carries out requests in their order, as [`Partition::execute`].
    #[inline]
    pub fn execute(
        &self,
        requests: &[Request<'_>],
        now_ms: TimestampMs,
        answer: impl FnMut(usize, Reply<'_>),
    ) {
        self.table.execute(&mut &*self.state, requests, now_ms, answer);
    }

    /// Removes the expired items of a range of buckets, as [`Partition::collect`].
    pub fn collect(&self, buckets: Range<u32>, now_ms: TimestampMs) -> u64 {
        self.table.collect(&mut &*self.state, buckets, now_ms)
    }

    /// Main buckets of the index.
    pub fn buckets(&self) -> u32 {
        self.table.buckets()
    }

    /// The items, expired ones included. For a cache it goes through the index, some 10 ns a bucket.
    pub fn len(&self) -> u64 {
        self.table.len()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory of the partition.
    pub fn account(&self) -> Account {
        self.table.account(&self.state.lock())
    }

    /// Bytes that stand in huge pages now. Asks the system: takes milliseconds.
    pub fn huge_bytes(&self) -> u64 {
        self.table.pages().iter().map(|pages| pages.huge_bytes()).sum()
    }
}

impl Shared<super::SegregatedFits> {
    /// The words that no item has.
    pub fn free_words(&self) -> u64 {
        self.state.lock().free_words()
    }
}
