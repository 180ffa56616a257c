//! Lookups of many keys at once. Each round reads, for every key that was not found yet, the youngest store that may
//! have it; all reads of a round are in flight together.

use super::reader::Reader;
use super::stores::{Lookup, LookupContext, Stores};
use crate::Result;
use crate::batch::TimestampMs;
use crate::device::{AlignedBuffer, Purpose, ReadRequest, read_batch, with_scratch};
use crate::engine::Found;
use crate::key::Key;
use crate::store::ordered::{self, OrderedTable, Span};
use crate::store::record::RecordView;
use crate::sync::atomic::AtomicU64;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The maximum number of keys that are looked up together: each may have a read in flight, with its own buffer.
const KEYS_PER_BATCH: usize = 128;

/// A key that was not found yet.
struct PendingKey<'a> {
    /// Its number among the requested keys.
    number: usize,
    context: LookupContext<'a>,
    stores: Stores,
    /// The next store to search: the HashStores from the youngest on, then the SortedStore.
    next_store: usize,
}

/// The read of a store for a key.
struct PendingRead {
    store: Arc<OrderedTable>,
    span: Span,
}

/// The buffers of a batch, which are in the memory account until they are dropped.
struct Requests<'a> {
    requests: Vec<ReadRequest>,
    held_bytes: u64,
    account: &'a AtomicU64,
}

impl Requests<'_> {
    fn count(&mut self) {
        let held_bytes = self.requests.iter().map(|request| request.heap_bytes() as u64).sum();
        self.account.fetch_add(held_bytes, Relaxed);
        self.account.fetch_sub(std::mem::replace(&mut self.held_bytes, held_bytes), Relaxed);
    }
}

impl Drop for Requests<'_> {
    fn drop(&mut self) {
        self.account.fetch_sub(self.held_bytes, Relaxed);
    }
}

impl Reader {
    /// Returns the values of many keys, in the order of the keys.
    pub fn get_many(&self, keys: &[Key<'_>], now_ms: TimestampMs) -> Result<Vec<Option<Found>>> {
        self.look_up_many(keys, |key| self.start(key, now_ms))
    }

    /// Returns the values of many keys, in the order of the keys. `start` returns the value of a key or the stores to
    /// search.
    pub fn look_up_many<'a>(
        &self,
        keys: &[Key<'a>],
        start: impl Fn(Key<'a>) -> ControlFlow<Option<Found>, (LookupContext<'a>, Stores)>,
    ) -> Result<Vec<Option<Found>>> {
        let mut found = vec![None; keys.len()];
        let account = &self.memory.batch_bytes;
        let mut requests = Requests { requests: Vec::new(), held_bytes: 0, account };
        let buffer_bytes = 2 * self.block_bytes() + size_of::<PendingKey<'_>>();
        let keys_per_batch = KEYS_PER_BATCH.min(self.memory.batch_keys_max(buffer_bytes));
        for (chunk, keys) in keys.chunks(keys_per_batch).enumerate() {
            self.memory.make_room((keys.len() * buffer_bytes) as u64);
            let mut pending = Vec::with_capacity(keys.len());
            for (index, key) in keys.iter().enumerate() {
                let number = chunk * keys_per_batch + index;
                let (context, stores) = match start(*key) {
                    ControlFlow::Break(value) => {
                        found[number] = value;
                        continue;
                    }
                    ControlFlow::Continue(stores) => stores,
                };
                match with_scratch(|buffer| stores.look_up_young(&context, Purpose::Get, buffer))? {
                    Lookup::Found(value) => found[number] = value,
                    Lookup::Absent => pending.push(PendingKey { number, context, stores, next_store: 0 }),
                }
            }
            while !pending.is_empty() {
                pending = read_round(pending, &mut requests.requests, &mut found)?;
                requests.count();
            }
        }
        Ok(found)
    }
}

/// Reads one store for every pending key. Returns the keys that are still pending.
fn read_round<'a>(
    keys: Vec<PendingKey<'a>>,
    requests: &mut Vec<ReadRequest>,
    found: &mut [Option<Found>],
) -> Result<Vec<PendingKey<'a>>> {
    let mut reading = Vec::with_capacity(keys.len());
    for mut key in keys {
        match key.next_read()? {
            Next::Read(read) => reading.push((key, read)),
            Next::Done(value) => found[key.number] = value,
        }
    }
    requests.resize_with(requests.len().max(reading.len()), || ReadRequest::new(0, 0));
    for ((_, read), request) in reading.iter().zip(requests.iter_mut()) {
        let (offset, length) = read.store.extent_of(&read.span);
        request.aim(offset, length);
    }
    let files = reading.iter().map(|(_, read)| read.store.file().file());
    let mut reads: Vec<_> = files.zip(requests.iter_mut()).collect();
    read_batch(Purpose::Get, &mut reads)?;
    let mut pending = Vec::new();
    for ((key, read), request) in reading.into_iter().zip(requests.iter_mut()) {
        let record = read.store.find(read.span, request.bytes_mut(), key.context.key)?;
        match record.map(|record| key.context.found(&record)) {
            Some(Lookup::Found(value)) => found[key.number] = value,
            Some(Lookup::Absent) | None => pending.push(key),
        }
    }
    Ok(pending)
}

/// What a lookup of a key does next.
enum Next {
    Read(PendingRead),
    Done(Option<Found>),
}

/// What is known about a key in one store before the store is read.
enum Located {
    In(PendingRead),
    Searched(Lookup),
}

impl PendingKey<'_> {
    /// Returns the read of the next store that may have the key, or its value if no store has to be read any more.
    fn next_read(&mut self) -> Result<Next> {
        loop {
            let number = self.next_store;
            self.next_store += 1;
            let view = self.stores.view();
            let hash_store = view.hash_stores.get(number);
            let store = match (hash_store, &view.sorted) {
                (Some((_, store)), _) => store,
                (None, Some((_, store))) if number == view.hash_stores.len() => store,
                _ => return Ok(Next::Done(None)),
            };
            match with_scratch(|buffer| self.locate(store, buffer))? {
                Located::In(read) => return Ok(Next::Read(read)),
                Located::Searched(Lookup::Found(value)) => return Ok(Next::Done(value)),
                Located::Searched(Lookup::Absent) => {}
            }
        }
    }

    /// Finds the place of the key in a store. Where that takes reads anyway, looks the key up at once.
    fn locate(&self, store: &Arc<OrderedTable>, buffer: &mut AlignedBuffer) -> Result<Located> {
        let query = self.context.query(Purpose::Get);
        Ok(match store.locate(&query, buffer)? {
            ordered::Located::Nowhere => Located::Searched(Lookup::Absent),
            ordered::Located::In(span) => Located::In(PendingRead { store: store.clone(), span }),
            ordered::Located::Anywhere => {
                let found = |record: &RecordView<'_>| self.context.found(record);
                Located::Searched(store.look_up(&query, buffer, found)?.unwrap_or(Lookup::Absent))
            }
        })
    }
}
