//! A part of the cache under a lock of its own: a table of hashes over a list in the order of coming.

use super::CachedRecord;
use bytes::Bytes;

/// Keys that a write shuts out together, for as long as it lasts.
const STRIPES: usize = 64;
/// No entry.
const NONE: u32 = u32::MAX;
/// The table has at least so many places for each entry that there is room for, in halves.
const PLACES_PER_ENTRY_HALVES: usize = 3;
/// Memory is taken for so many entries at a time.
const CHUNK: usize = 32;
/// What the reference count of a record takes beside its bytes.
const SHARED_BYTES: usize = 24;

/// A record: the bytes of key and value, one behind the other.
struct Entry {
    hash: u64,
    expires_at_ms: u64,
    record: Bytes,
    key_length: u32,
    /// Towards the younger.
    newer: u32,
    /// Towards the older; of a free entry, the next one that is free.
    older: u32,
    visited: bool,
}

/// What is known of the writes to the keys of a stripe.
#[derive(Clone, Copy, Default)]
struct Stripe {
    /// Changes with every write that ends.
    version: u32,
    under_way: u32,
}

pub(super) struct Shard {
    /// Entries by their numbers, in pieces that stay where they are.
    chunks: Vec<Vec<Entry>>,
    /// The numbers of entries, each at the place of its hash or behind it; its length is 0 or a power of two.
    table: Box<[u32]>,
    len: usize,
    free: u32,
    newest: u32,
    oldest: u32,
    /// Where the search for one to evict goes on, or at the oldest.
    hand: u32,
    /// The bytes of all records.
    record_bytes: usize,
    stripes: [Stripe; STRIPES],
}

impl Default for Shard {
    fn default() -> Self {
        Shard {
            chunks: Vec::new(),
            table: Box::default(),
            len: 0,
            free: NONE,
            newest: NONE,
            oldest: NONE,
            hand: NONE,
            record_bytes: 0,
            stripes: [Stripe::default(); STRIPES],
        }
    }
}

/// Key and value in one piece of memory.
pub(super) fn pack(key: &[u8], value: &[u8]) -> Bytes {
    let mut record = Vec::with_capacity(key.len() + value.len());
    record.extend_from_slice(key);
    record.extend_from_slice(value);
    Bytes::from(record)
}

fn stripe_of(hash: u64) -> usize {
    (hash >> 48) as usize % STRIPES
}

fn table_bytes(entries: usize) -> usize {
    places_for(entries) * size_of::<u32>()
}

fn places_for(entries: usize) -> usize {
    if entries == 0 { 0 } else { (entries * PLACES_PER_ENTRY_HALVES / 2).next_power_of_two() }
}

impl Shard {
    /// What a record of so many bytes takes, without its part of the table.
    pub fn bytes_of(record_bytes: usize) -> usize {
        record_bytes + SHARED_BYTES + size_of::<Entry>()
    }

    /// The record of a key; without one, the version under which it can be put in, unless it is being written.
    pub fn get(&mut self, hash: u64, key: &[u8]) -> Result<CachedRecord, Option<u32>> {
        if let Some((_, number)) = self.find(hash, key) {
            let entry = self.entry_mut(number);
            entry.visited = true;
            let value = entry.record.slice(key.len()..);
            return Ok(CachedRecord { value, expires_at_ms: entry.expires_at_ms });
        }
        let stripe = self.stripes[stripe_of(hash)];
        Err((stripe.under_way == 0).then_some(stripe.version))
    }

    /// Whether what was read from the store since this version was given out is still what the store has.
    pub fn is_current(&self, hash: u64, version: u32) -> bool {
        let stripe = self.stripes[stripe_of(hash)];
        stripe.under_way == 0 && stripe.version == version
    }

    pub fn begin_write(&mut self, hash: u64, key: &[u8]) {
        self.stripes[stripe_of(hash)].under_way += 1;
        if let Some((place, number)) = self.find(hash, key) {
            self.remove(place, number);
        }
    }

    pub fn end_write(&mut self, hash: u64) {
        let stripe = &mut self.stripes[stripe_of(hash)];
        stripe.under_way -= 1;
        stripe.version = stripe.version.wrapping_add(1);
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn heap_bytes(&self) -> usize {
        self.record_bytes
            + self.chunks.len() * CHUNK * size_of::<Entry>()
            + self.chunks.capacity() * size_of::<Vec<Entry>>()
            + size_of_val(&*self.table)
    }

    fn try_entry(&self, number: u32) -> Option<&Entry> {
        self.chunks.get(number as usize / CHUNK)?.get(number as usize % CHUNK)
    }

    fn entry(&self, number: u32) -> &Entry {
        &self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    fn entry_mut(&mut self, number: u32) -> &mut Entry {
        &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    /// Whether another entry can be had without taking memory.
    fn has_entry(&self) -> bool {
        self.free != NONE || self.chunks.last().is_some_and(|chunk| chunk.len() < CHUNK)
    }

    /// Keeps an entry, if there is room; answers its number.
    fn keep(&mut self, entry: Entry) -> Option<u32> {
        if self.free != NONE {
            let number = self.free;
            self.free = self.entry(number).older;
            *self.entry_mut(number) = entry;
            return Some(number);
        }
        let before = (self.chunks.len().checked_sub(1)? * CHUNK) as u32;
        let chunk = self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK)?;
        chunk.push(entry);
        Some(before + chunk.len() as u32 - 1)
    }

    /// Puts a record in, and others out for it, so that no more than `capacity` bytes are held.
    pub fn insert(&mut self, hash: u64, record: Bytes, key_length: u32, expires_at_ms: u64, capacity: usize) {
        let key = record.get(..key_length as usize).unwrap_or_default();
        if let Some((place, number)) = self.find(hash, key) {
            self.remove(place, number);
        }
        let bytes = record.len() + SHARED_BYTES;
        while self.len > 0 && self.heap_bytes() + bytes > capacity {
            self.evict();
        }
        if !self.has_entry() && !self.grow(bytes, capacity) {
            self.evict();
        }
        if self.heap_bytes() + bytes > capacity {
            return;
        }
        let older = self.newest;
        let entry = Entry { hash, expires_at_ms, record, key_length, newer: NONE, older, visited: false };
        let Some(number) = self.keep(entry) else { return };
        self.record_bytes += bytes;
        self.len += 1;
        match older {
            NONE => self.oldest = number,
            older => self.entry_mut(older).newer = number,
        }
        self.newest = number;
        self.enter(number);
    }

    /// Takes memory for more entries, if there is enough for them and `bytes` more.
    fn grow(&mut self, bytes: usize, capacity: usize) -> bool {
        let entries = (self.chunks.len() + 1) * CHUNK;
        // While the table is built anew, the old one is there too.
        let table = if places_for(entries) == self.table.len() { 0 } else { table_bytes(entries) };
        let chunk = CHUNK * size_of::<Entry>() + 4 * size_of::<Vec<Entry>>();
        if self.heap_bytes() + chunk + table + bytes > capacity {
            return false;
        }
        if self.chunks.len() == self.chunks.capacity() {
            self.chunks.reserve_exact(4);
        }
        self.chunks.push(Vec::with_capacity(CHUNK));
        if table > 0 {
            self.rebuild_table(entries);
        }
        true
    }

    fn rebuild_table(&mut self, entries: usize) {
        self.table = vec![NONE; places_for(entries)].into();
        let mut number = self.oldest;
        while number != NONE {
            self.enter(number);
            number = self.entry(number).newer;
        }
    }

    /// Evicts until no more than `capacity` bytes are held, and gives back what is then not needed.
    pub fn shrink(&mut self, capacity: usize) {
        if self.heap_bytes() <= capacity {
            return;
        }
        let after = |shard: &Shard| {
            let chunks = shard.len.div_ceil(CHUNK);
            let chunk = CHUNK * size_of::<Entry>() + size_of::<Vec<Entry>>();
            shard.record_bytes + chunks * chunk + table_bytes(chunks * CHUNK)
        };
        while self.len > 0 && after(self) > capacity {
            self.evict();
        }
        let chunks = self.len.div_ceil(CHUNK);
        let old = Shard { stripes: self.stripes, chunks: Vec::with_capacity(chunks), ..Shard::default() };
        let mut old = std::mem::replace(self, old);
        let mut number = old.oldest;
        while number != NONE {
            let next = old.entry(number).newer;
            let entry = old.entry_mut(number);
            let record = std::mem::take(&mut entry.record);
            let (at, bytes) = (self.len as u32, record.len() + SHARED_BYTES);
            let kept = Entry {
                record,
                newer: if next == NONE { NONE } else { at + 1 },
                older: at.checked_sub(1).unwrap_or(NONE),
                ..*entry
            };
            if !self.has_entry() {
                self.chunks.push(Vec::with_capacity(CHUNK));
            }
            if self.keep(kept).is_none() {
                break;
            }
            (self.len, self.record_bytes, self.newest) = (self.len + 1, self.record_bytes + bytes, at);
            number = next;
        }
        self.oldest = if self.len == 0 { NONE } else { 0 };
        self.rebuild_table(self.chunks.len() * CHUNK);
    }

    /// Evicts the next one that the hand finds unvisited.
    fn evict(&mut self) {
        let mut number = if self.hand == NONE { self.oldest } else { self.hand };
        while number != NONE {
            let entry = self.entry_mut(number);
            if !entry.visited {
                let (hash, newer) = (entry.hash, entry.newer);
                let place = self.places(hash).find(|&place| self.table[place] == number);
                if let Some(place) = place {
                    self.remove(place, number);
                }
                self.hand = newer;
                return;
            }
            entry.visited = false;
            number = if entry.newer == NONE { self.oldest } else { entry.newer };
        }
    }

    /// The places at which an entry of this hash may be, from its own on: never none of them is empty.
    fn places(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let length = self.table.len();
        let first = if length == 0 { 0 } else { hash as usize & (length - 1) };
        (first..length).chain(0..first)
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<(usize, u32)> {
        for place in self.places(hash) {
            let number = self.table[place];
            let entry = self.try_entry(number)?;
            if entry.hash == hash && entry.record.get(..entry.key_length as usize) == Some(key) {
                return Some((place, number));
            }
        }
        None
    }

    fn enter(&mut self, number: u32) {
        let hash = self.entry(number).hash;
        if let Some(place) = self.places(hash).find(|&place| self.table[place] == NONE) {
            self.table[place] = number;
        }
    }

    fn remove(&mut self, place: usize, number: u32) {
        self.leave(place);
        let free = self.free;
        let entry = self.entry_mut(number);
        let (newer, older) = (entry.newer, entry.older);
        let record = std::mem::take(&mut entry.record);
        entry.older = free;
        self.free = number;
        self.len -= 1;
        self.record_bytes -= record.len() + SHARED_BYTES;
        match older {
            NONE => self.oldest = newer,
            older => self.entry_mut(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.entry_mut(newer).older = older,
        }
        if self.hand == number {
            self.hand = newer;
        }
    }

    /// Empties a place, and moves those behind it that would not be found any more.
    fn leave(&mut self, mut hole: usize) {
        let mask = self.table.len() - 1;
        let mut next = hole;
        loop {
            next = (next + 1) & mask;
            let Some(entry) = self.try_entry(self.table[next]) else { break };
            let home = entry.hash as usize & mask;
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                self.table[hole] = self.table[next];
                hole = next;
            }
        }
        self.table[hole] = NONE;
    }
}
