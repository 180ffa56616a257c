//! Lookups of many keys at once. Each round reads, for every key that was not found yet, the newest store that may
//! have it; all reads of a round are in flight together.

use super::memory_budget::MemoryBudget;
use super::parts::Parts;
use super::stores::{Lookup, LookupContext, Stores};
use super::view::View;
use crate::batch::{TimestampMs, has_expired};
use crate::cache::{Ticket, cache_hash};
use crate::engine::Found;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::store::StoreFile;
use crate::store::chain::{Chain, RunBlocks};
use crate::store::examine::is_damage;
use crate::store::read_batches::ReadBuffers;
use crate::store::record::RecordView;
use crate::store::table::{Located, OrderedTable, Span};
use bytes::Bytes;
use siltstone_device::{AlignedBuffer, Purpose, ReadRequest, with_scratch};
use siltstone_mica::HashedKey;
use std::sync::Arc;

/// The maximum number of keys that are looked up together: each may have a read in flight, with its own buffer.
const KEYS_PER_BATCH: usize = 128;

/// A key that was not found yet.
struct PendingKey<'a> {
    /// Its number among the requested keys.
    number: usize,
    context: LookupContext<'a>,
    /// The stores to search. Counted, because a thread can hold only few that are not.
    view: Arc<View>,
    /// The next store to search: the HashStores from the newest on, then the SortedStore.
    next_store: usize,
    /// What is known of the stores of the chain.
    chained: Chained,
}

/// What a lookup knows of the stores of the chain.
enum Chained {
    /// The page is not read yet.
    Unread,
    /// The places that are not searched yet.
    At(std::vec::IntoIter<RunBlocks>),
    /// The page is damaged, so the stores are searched one by one.
    Lost,
}

/// The read of a store, or of a page of the chain, for a key.
enum PendingRead {
    Store { store: Arc<OrderedTable>, span: Span },
    Page(Arc<Chain>),
}

impl PendingRead {
    fn file(&self) -> &StoreFile {
        match self {
            PendingRead::Store { store, .. } => store.file(),
            PendingRead::Page(chain) => chain.file(),
        }
    }

    /// Returns the position in the file: offset and length in bytes.
    fn extent(&self, placement: u64) -> (u64, usize) {
        match self {
            PendingRead::Store { store, span } => store.extent_of(span),
            PendingRead::Page(chain) => chain.extent_of(placement),
        }
    }
}

impl Parts {
    /// Returns the values of many keys, in the order of the keys.
    pub fn get_many(&self, keys: &[Key<'_>], now_ms: TimestampMs) -> Result<Vec<Option<Found>>> {
        let mut found = vec![None; keys.len()];
        let mut missed = Vec::new();
        let cache_hash = |key: &Key<'_>| cache_hash(self.configuration.hasher.route(*key).hash);
        let hashed: Vec<_> =
            keys.iter().map(|key| HashedKey { hash: cache_hash(key), bytes: key.bytes() }).collect();
        self.cache.get_many(&hashed, |number, cached| match cached {
            Ok((_, expires_at_ms)) if has_expired(expires_at_ms, now_ms) => {}
            Ok((value, expires_at_ms)) => {
                found[number] = Some(Found { value: Bytes::from(value), expires_at_ms });
            }
            Err(ticket) => missed.push((number, ticket)),
        });
        let start = |&(number, ticket): &(usize, Ticket)| {
            let (context, stores) = self.start(keys[number], now_ms, ticket);
            (number, context, stores)
        };
        self.look_up_many(&missed, start, &mut found)?;
        Ok(found)
    }

    /// Looks up many keys in the stores, and sets their values in `found`. `start` returns the number of a key there,
    /// and the stores to search.
    pub fn look_up_many<'a, K>(
        &self,
        keys: &[K],
        start: impl Fn(&K) -> (usize, LookupContext<'a>, Stores),
        found: &mut [Option<Found>],
    ) -> Result<()> {
        self.memory.account_for_read_buffers();
        let mut buffers = self.memory.batches.begin();
        let buffer_bytes = 2 * self.block_bytes() + size_of::<PendingKey<'_>>();
        let keys_per_batch = KEYS_PER_BATCH.min(self.memory.batch_keys_max(buffer_bytes));
        for keys in keys.chunks(keys_per_batch) {
            match self.look_up_batch(keys, &start, &mut buffers, found) {
                // A merge in progress may have lost what it wrote; what it merges is durable.
                Err(error) if is_damage(&error) && note_damage_of_merged(keys.iter().map(&start)) => {
                    self.look_up_batch(keys, &start, &mut buffers, found)?;
                }
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Looks up as many keys as have reads in flight at once.
    fn look_up_batch<'a, K>(
        &self,
        keys: &[K],
        start: impl Fn(&K) -> (usize, LookupContext<'a>, Stores),
        buffers: &mut ReadBuffers<'_>,
        found: &mut [Option<Found>],
    ) -> Result<()> {
        let mut pending = Vec::with_capacity(keys.len());
        for key in keys {
            // After the ticket of the key was taken, as in a single get: a write in between keeps the record out of
            // the cache.
            let (number, context, stores) = start(key);
            let mut value = Vec::new();
            match with_scratch(|buffer| stores.look_up_young(&context, buffer, &mut value))? {
                Lookup::Found(expires_at_ms) => found[number] = to_found(value, expires_at_ms),
                Lookup::Absent => pending.push(PendingKey {
                    number,
                    context,
                    view: stores.view.to_arc(),
                    next_store: 0,
                    chained: Chained::Unread,
                }),
            }
        }
        while !pending.is_empty() {
            pending = read_round(pending, &self.memory, buffers, found)?;
        }
        Ok(())
    }
}

/// Lets no lookup use what merges in progress have written of these keys' partitions. Returns whether any did.
#[cold]
fn note_damage_of_merged<'a>(keys: impl Iterator<Item = (usize, LookupContext<'a>, Stores)>) -> bool {
    // All of them, and not only up to the first one.
    let noted = |(_, context, stores): (usize, LookupContext<'_>, Stores)| {
        stores.view.note_damage_of_merged(context.query.hash.placement)
    };
    keys.map(noted).fold(false, |any, noted| any | noted)
}

/// Reads one store for every pending key. Returns the keys that are still pending.
fn read_round<'a>(
    keys: Vec<PendingKey<'a>>,
    memory: &MemoryBudget,
    buffers: &mut ReadBuffers<'_>,
    found: &mut [Option<Found>],
) -> Result<Vec<PendingKey<'a>>> {
    let mut reading = Vec::with_capacity(keys.len());
    for mut key in keys {
        match key.next_read()? {
            Next::Read(read) => reading.push((key, read)),
            Next::Done(value) => found[key.number] = value,
        }
    }
    let aimed = reading.iter().map(|(key, read)| {
        let (offset, length) = read.extent(key.context.query.hash.placement);
        ReadRequest { file: read.file().file(), offset, length }
    });
    let requests: Vec<_> = aimed.collect();
    let mut is_found = vec![false; requests.len()];
    let mut chained = Vec::new();
    memory.make_room(buffers.wanted_bytes(&requests));
    buffers.read(Purpose::Get, &requests, |number, bytes| {
        let (key, read) = &reading[number];
        match key.take(read, bytes.map_err(Error::from))? {
            Taken::Found(value) => {
                found[key.number] = value;
                is_found[number] = true;
            }
            Taken::Places(places) => chained.push((number, places)),
            Taken::Nothing => {}
        }
        Ok::<_, Error>(())
    })?;
    drop(requests);
    memory.note_batch();
    for (number, places) in chained {
        reading[number].0.chained = places;
    }
    let pending = reading.into_iter().zip(is_found).filter(|(_, is_found)| !is_found);
    Ok(pending.map(|((key, _), _)| key).collect())
}

fn to_found(value: Vec<u8>, expires_at_ms: Option<TimestampMs>) -> Option<Found> {
    expires_at_ms.map(|expires_at_ms| Found { value: Bytes::from(value), expires_at_ms })
}

/// What a read had of a key.
enum Taken {
    /// The result of the lookup.
    Found(Option<Found>),
    /// Where the chain has the key.
    Places(Chained),
    Nothing,
}

/// What a lookup of a key does next.
enum Next {
    Read(PendingRead),
    Done(Option<Found>),
}

impl PendingKey<'_> {
    /// Takes what was read.
    fn take(&self, read: &PendingRead, bytes: Result<&mut [u8]>) -> Result<Taken> {
        let query = &self.context.query;
        match read {
            PendingRead::Store { store, span } => {
                let mut value = Vec::new();
                let record = store.find(span.clone(), bytes?, query.key)?;
                match record.map(|record| self.context.found(&record, &mut value)) {
                    Some(Lookup::Found(expires_at_ms)) => Ok(Taken::Found(to_found(value, expires_at_ms))),
                    // A false positive: the next round continues with the older stores.
                    Some(Lookup::Absent) | None => Ok(Taken::Nothing),
                }
            }
            // A page that the device has lost has no bytes, which is damage too.
            PendingRead::Page(chain) => {
                match bytes.and_then(|bytes| chain.places(query.hash.placement, bytes)) {
                    Ok(places) => Ok(Taken::Places(Chained::At(places.into_iter()))),
                    Err(error) if is_damage(&error) => {
                        // No record is lost with a chain: the stores are searched without it.
                        chain.note_damage();
                        Ok(Taken::Places(Chained::Lost))
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Returns the read of the chain's page, or of the next place that it has named; `None` if there is no chain, if it
    /// is damaged, or if newer stores are not searched yet.
    fn next_in_chain(&mut self) -> Result<Option<Next>> {
        let view = &self.view;
        let chain = view.chain.as_ref().filter(|_| self.next_store >= view.unchained());
        let Some((_, chain)) = chain else { return Ok(None) };
        loop {
            let place = match &mut self.chained {
                Chained::Unread if !view.may_be_chained(self.context.query.hash.placement) => None,
                Chained::Unread => return Ok(Some(Next::Read(PendingRead::Page(chain.clone())))),
                Chained::At(places) => places.next(),
                Chained::Lost => return Ok(None),
            };
            let Some(RunBlocks { run, blocks }) = place else { return Ok(Some(Next::Done(None))) };
            let Some(store) = view.chained(run) else { continue };
            let span = Span::Blocks(blocks);
            if !store.is_long(&span) {
                return Ok(Some(Next::Read(PendingRead::Store { store: store.clone(), span })));
            }
            if let Some(next) = with_scratch(|buffer| self.look_up_now(store, buffer))? {
                return Ok(Some(next));
            }
        }
    }

    /// Returns the read of the next store that may have the key, or its value if no store has to be read any more.
    fn next_read(&mut self) -> Result<Next> {
        loop {
            if let Some(next) = self.next_in_chain()? {
                return Ok(next);
            }
            let number = self.next_store;
            self.next_store += 1;
            let placement = self.context.query.hash.placement;
            let Some(store) = self.view.searched(placement).nth(number) else {
                return Ok(Next::Done(None));
            };
            // Older stores wait for the next round: if this one has the key, they need no read.
            if let Some(next) = with_scratch(|buffer| self.locate(store, buffer))? {
                return Ok(next);
            }
        }
    }

    /// Returns the read of the key's place in a store. Where that takes reads anyway, looks the key up at once. `None`
    /// if the store does not have the key.
    fn locate(&self, store: &Arc<OrderedTable>, buffer: &mut AlignedBuffer) -> Result<Option<Next>> {
        match store.locate(&self.context.query, buffer)? {
            Located::Nowhere => Ok(None),
            Located::In(span) if !store.is_long(&span) => {
                Ok(Some(Next::Read(PendingRead::Store { store: store.clone(), span })))
            }
            Located::In(_) | Located::Anywhere => self.look_up_now(store, buffer),
        }
    }

    /// Looks the key up in a store. `None` if the store does not have it.
    fn look_up_now(&self, store: &OrderedTable, buffer: &mut AlignedBuffer) -> Result<Option<Next>> {
        let mut value = Vec::new();
        let found = |record: &RecordView<'_>| self.context.found(record, &mut value);
        match store.look_up(&self.context.query, buffer, found)? {
            Some(Lookup::Found(expires_at_ms)) => Ok(Some(Next::Done(to_found(value, expires_at_ms)))),
            Some(Lookup::Absent) | None => Ok(None),
        }
    }
}
