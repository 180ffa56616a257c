//! Lookups of many keys at once: each round reads, for every key that is still open, the youngest store that may hold
//! it, and all these reads are under way together.

use super::Core;
use super::partition::{Lookup, Sought, Stores, known};
use crate::Result;
use crate::batch::TimestampMs;
use crate::device::{AlignedBuffer, Purpose, ReadRequest, read_batch, with_scratch};
use crate::engine::Found;
use crate::key::Key;
use crate::store::hash_store::HashStore;
use crate::store::ordered::{Located, OrderedTable, Span};
use crate::store::record::RecordView;
use crate::sync::atomic::AtomicU64;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// How many keys are looked up together: as many reads may be under way, each with a buffer.
const KEYS_PER_BATCH: usize = 128;

/// A key whose value is not yet known.
struct Open<'a> {
    /// Its place among the keys asked for.
    number: usize,
    sought: Sought<'a>,
    stores: Stores,
    /// How many of the stores, from the youngest HashStore on, are done with.
    next_store: usize,
}

/// What an open key waits for.
struct Awaited {
    store: Arc<OrderedTable>,
    span: Span,
}

/// The buffers of a batch, which count for the account as long as they are there.
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

impl Core {
    /// The values of many keys, in their order.
    pub(super) fn get_many(&self, keys: &[Key<'_>], now_ms: TimestampMs) -> Result<Vec<Option<Found>>> {
        self.look_up_many(keys, |key| self.open(key, now_ms))
    }

    /// The values of many keys, in their order; `open` says where to look for a key, or what is found there.
    pub(super) fn look_up_many<'a>(
        &self,
        keys: &[Key<'a>],
        open: impl Fn(Key<'a>) -> ControlFlow<Option<Found>, (Sought<'a>, Stores)>,
    ) -> Result<Vec<Option<Found>>> {
        let mut found = vec![None; keys.len()];
        let account = &self.residency.batch_bytes;
        let mut requests = Requests { requests: Vec::new(), held_bytes: 0, account };
        let buffer_bytes = 2 * self.shape.block_bytes as usize + size_of::<Open<'_>>();
        let keys_per_batch = KEYS_PER_BATCH.min(self.residency.batch_keys_max(buffer_bytes));
        for (chunk, keys) in keys.chunks(keys_per_batch).enumerate() {
            self.make_room((keys.len() * buffer_bytes) as u64);
            let mut unknown = Vec::with_capacity(keys.len());
            for (index, key) in keys.iter().enumerate() {
                let number = chunk * keys_per_batch + index;
                let (sought, stores) = match open(*key) {
                    ControlFlow::Break(value) => {
                        found[number] = value;
                        continue;
                    }
                    ControlFlow::Continue(place) => place,
                };
                match with_scratch(|buffer| stores.look_up_young(&sought, Purpose::Get, buffer))? {
                    Lookup::Known(value) => found[number] = value,
                    Lookup::Unknown => unknown.push(Open { number, sought, stores, next_store: 0 }),
                }
            }
            while !unknown.is_empty() {
                unknown = read_round(unknown, &mut requests.requests, &mut found)?;
                requests.count();
            }
        }
        Ok(found)
    }
}

/// Reads once for every open key; answers those that are open still.
fn read_round<'a>(
    open: Vec<Open<'a>>,
    requests: &mut Vec<ReadRequest>,
    found: &mut [Option<Found>],
) -> Result<Vec<Open<'a>>> {
    let mut waiting = Vec::with_capacity(open.len());
    for mut key in open {
        match key.await_next()? {
            Next::Read(awaited) => waiting.push((key, awaited)),
            Next::Known(value) => found[key.number] = value,
        }
    }
    requests.resize_with(requests.len().max(waiting.len()), || ReadRequest::new(0, 0));
    for ((_, awaited), request) in waiting.iter().zip(requests.iter_mut()) {
        let (offset, length) = awaited.store.extent_of(&awaited.span);
        request.aim(offset, length);
    }
    let files = waiting.iter().map(|(_, awaited)| awaited.store.file().file());
    let mut reads: Vec<_> = files.zip(requests.iter_mut()).collect();
    read_batch(Purpose::Get, &mut reads)?;
    let mut still_open = Vec::new();
    for ((key, awaited), request) in waiting.into_iter().zip(requests.iter_mut()) {
        let record = awaited.store.find(awaited.span, request.bytes_mut(), key.sought.key)?;
        match record.map(|record| known(&record, &key.sought)) {
            Some(Lookup::Known(value)) => found[key.number] = value,
            Some(Lookup::Unknown) | None => still_open.push(key),
        }
    }
    Ok(still_open)
}

/// What is known of a key in one store before it is read.
enum Seen {
    In(Awaited),
    Answered(Lookup),
}

enum Next {
    Read(Awaited),
    Known(Option<Found>),
}

impl Open<'_> {
    /// The next store that may hold the key, or its value if no store has to be read any more.
    fn await_next(&mut self) -> Result<Next> {
        loop {
            let number = self.next_store;
            self.next_store += 1;
            let view = self.stores.view();
            let hash_store = view.hash_stores.get(number);
            let store = match (hash_store, &view.sorted) {
                (Some((_, store)), _) => store,
                (None, Some((_, store))) if number == view.hash_stores.len() => {
                    &HashStore::Ordered(store.clone())
                }
                _ => return Ok(Next::Known(None)),
            };
            match with_scratch(|buffer| self.look_at(store, buffer))? {
                Seen::In(awaited) => return Ok(Next::Read(awaited)),
                Seen::Answered(Lookup::Known(value)) => return Ok(Next::Known(value)),
                Seen::Answered(Lookup::Unknown) => {}
            }
        }
    }

    /// Finds out where in a store the key may be, or looks it up at once if that is one and the same.
    fn look_at(&self, store: &HashStore, buffer: &mut AlignedBuffer) -> Result<Seen> {
        let query = self.sought.query(Purpose::Get);
        if let HashStore::Ordered(store) = store {
            match store.locate(&query, buffer)? {
                Located::Nowhere => return Ok(Seen::Answered(Lookup::Unknown)),
                Located::In(span) => return Ok(Seen::In(Awaited { store: store.clone(), span })),
                Located::Anywhere => {}
            }
        }
        let answer = |record: &RecordView<'_>| known(record, &self.sought);
        let found = store.look_up(&query, buffer, answer)?;
        Ok(Seen::Answered(found.unwrap_or(Lookup::Unknown)))
    }
}
