//! Lookups of many keys at once: each round reads, for every key that is still open, the youngest store that may hold
//! it, and all these reads are under way together.

use super::Core;
use super::partition::{Lookup, Sought, Stores, known};
use crate::Result;
use crate::batch::TimestampMs;
use crate::device::{Purpose, ReadRequest, read_batch, with_scratch};
use crate::engine::Found;
use crate::store::hash::HashStore;
use crate::store::sorted::SortedStore;
use std::ops::Range;
use std::sync::Arc;

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
    store: Arc<SortedStore>,
    blocks: Range<u64>,
}

impl Core {
    /// The values of many keys, in their order.
    pub(super) fn get_many(&self, keys: &[&[u8]], now_ms: TimestampMs) -> Result<Vec<Option<Found>>> {
        let mut found = vec![None; keys.len()];
        let mut requests: Vec<ReadRequest> = Vec::new();
        for (chunk, keys) in keys.chunks(KEYS_PER_BATCH).enumerate() {
            let mut open = Vec::with_capacity(keys.len());
            for (index, key) in keys.iter().enumerate() {
                let (partition, hash) = self.place(key);
                let stores = self.partitions[partition].stores(&self.log, hash);
                let (number, sought) = (chunk * KEYS_PER_BATCH + index, Sought { key, hash, now_ms });
                match with_scratch(|buffer| stores.look_up_young(&sought, Purpose::Get, buffer))? {
                    Lookup::Known(value) => found[number] = value,
                    Lookup::Unknown => open.push(Open { number, sought, stores, next_store: 0 }),
                }
            }
            while !open.is_empty() {
                open = read_round(open, &mut requests, &mut found)?;
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
        let (offset, length) = awaited.store.file().place_of(&awaited.blocks);
        request.aim(offset, length);
    }
    let files = waiting.iter().map(|(_, awaited)| awaited.store.file().file());
    let mut reads: Vec<_> = files.zip(requests.iter_mut()).collect();
    read_batch(Purpose::Get, &mut reads)?;
    let mut still_open = Vec::new();
    for ((key, awaited), request) in waiting.into_iter().zip(requests.iter_mut()) {
        let record = awaited.store.find(awaited.blocks, request.bytes_mut(), key.sought.key)?;
        match record.map(|record| known(&record, key.sought.now_ms)) {
            Some(Lookup::Known(value)) => found[key.number] = value,
            Some(Lookup::Unknown) | None => still_open.push(key),
        }
    }
    Ok(still_open)
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
            let store = match view.hash_stores.get(number) {
                Some((_, HashStore::Ordered(store))) => store,
                Some((_, table @ HashStore::Cuckoo(_))) => {
                    let Sought { key, hash, now_ms } = self.sought;
                    let lookup = with_scratch(|buffer| -> Result<Lookup> {
                        let record = table.get(Purpose::Get, hash, key, buffer)?;
                        Ok(record.map_or(Lookup::Unknown, |record| known(&record, now_ms)))
                    })?;
                    match lookup {
                        Lookup::Known(value) => return Ok(Next::Known(value)),
                        Lookup::Unknown => continue,
                    }
                }
                None => match &view.sorted {
                    Some((_, store)) if number == view.hash_stores.len() => store,
                    _ => return Ok(Next::Known(None)),
                },
            };
            if let Some(blocks) = store.blocks_for(self.sought.hash) {
                return Ok(Next::Read(Awaited { store: store.clone(), blocks }));
            }
        }
    }
}
