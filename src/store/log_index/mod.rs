//! The index of a log that has the data: it maps the hash of each key to the exact place of its record, its *unit*.
//!
//! ```text
//! hash of a key   | 0 1 1 | 0 0 1 0 1 ... |         hash_bits are kept
//!                   shard   hash within the shard
//!
//! shard           hash pages                        read under a shared lock, changed under an exclusive one
//!                 operations                        that are not in the redo log yet
//! ```
//!
//! The index follows FlashKey V-A.1 in what it maps, and is [`hash_pages`](crate::index::hash_pages) in memory. Of
//! equal hashes the entry that was inserted last is the first, so the entries of one key are in the order of its
//! writes. Keys are not stored: a caller reads the records of all candidates and compares keys.
//!
//! Callers lock the *writers* of shards from before they append a record to a log until they have changed the index.
//! The locks in this module protect its memory only, for as long as one change takes.

mod candidates;
mod examine;
mod format;
mod opening;
mod operations;
mod redo;
mod saved;
mod snapshot;
#[cfg(test)]
mod tests;

pub use candidates::Candidates;
pub use examine::{ExaminedIndex, IndexToExamine};
pub use format::{CLASSES, Covered, REDO_HEADER_BYTES};
pub use opening::RecoveredIndex;
pub use operations::OPERATION_BYTES;
pub use redo::Flush;
pub use saved::{
    BLOCK_BYTES as SAVED_BLOCK_BYTES, IndexSave, PLACE_BYTES as SAVED_PAGE_BYTES,
    SHARD_BYTES as SAVED_SHARD_BYTES, SaveStep, SavedIndex,
};
pub use snapshot::{IndexRange, IndexSnapshot};

use crate::device::{Directory, in_parallel};
use crate::index::hash_pages::{HASH_BITS_MIN, HashPages, TAG_BITS_MAX};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock};
use crate::{Error, Result};
use operations::{Operation, Pending};
use redo::Redo;

/// The number of the place of a record, below 2^40.
pub type Unit = u64;

/// The maximum of [`LogIndexSettings::shards_log2`].
pub const SHARDS_LOG2_MAX: u32 = 12;

/// The shape of an index, which is fixed when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogIndexSettings {
    /// The number of bits of a hash that are kept, 18 to 41 more than `shards_log2`. A key that is not in an index of N
    /// entries has a candidate with a probability of N / 2^`hash_bits`.
    pub hash_bits: u32,
    /// The binary logarithm of the number of shards, at most 12.
    pub shards_log2: u32,
}

impl LogIndexSettings {
    /// Checks the limits.
    ///
    /// # Errors
    /// [`Error::Setting`] with the limit that is not kept.
    pub fn check(&self) -> Result<()> {
        let limits = HASH_BITS_MIN + self.shards_log2..=TAG_BITS_MAX + self.shards_log2;
        if self.shards_log2 > SHARDS_LOG2_MAX {
            let problem = format!("{} is more than {SHARDS_LOG2_MAX}", self.shards_log2);
            return Err(Error::Setting { name: "shards_log2", problem });
        }
        if !limits.contains(&self.hash_bits) {
            let (least, most) = limits.into_inner();
            let problem = format!("{} bits are not {least} to {most}", self.hash_bits);
            return Err(Error::Setting { name: "hash_bits", problem });
        }
        Ok(())
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        1 << self.shards_log2
    }

    /// Returns the shard of a hash.
    #[inline]
    pub fn shard_of(&self, hash: u64) -> usize {
        match self.shards_log2 {
            0 => 0,
            bits => (hash >> (64 - bits)) as usize,
        }
    }

    /// Returns the number of bits of a hash that a shard keeps.
    fn shard_hash_bits(&self) -> u32 {
        self.hash_bits - self.shards_log2
    }

    /// Returns the hash within its shard, of which only the kept bits are set.
    #[inline]
    fn within_shard(&self, hash: u64) -> u64 {
        let shift = 64 - self.shard_hash_bits();
        hash << self.shards_log2 >> shift << shift
    }

    /// Returns the hash of which `within` is the hash within `shard`.
    fn whole(&self, shard: usize, within: u64) -> u64 {
        match self.shards_log2 {
            0 => within,
            bits => (shard as u64) << (64 - bits) | within >> bits,
        }
    }
}

/// The entries of a part of the hashes.
struct Shard {
    pages: HashPages,
    pending: Pending,
}

/// The memory of a shard besides its pages and its operations, in bytes.
pub const SHARD_BYTES: usize = size_of::<RwLock<Shard>>();

/// The index. All methods can be called from any thread.
pub struct LogIndex {
    settings: LogIndexSettings,
    shards: Box<[RwLock<Shard>]>,
    redo: Redo,
    directory: Directory,
    /// The length of the last file to which the index was saved, in bytes.
    saved_bytes: AtomicU64,
}

impl LogIndex {
    /// Returns the shape of the index.
    pub fn settings(&self) -> LogIndexSettings {
        self.settings
    }

    /// Returns the shard of a hash, below [`shards`](LogIndex::shards).
    #[inline]
    pub fn shard_of(&self, hash: u64) -> usize {
        self.settings.shard_of(hash)
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Returns the units that the key with this hash may have, the one that was inserted last first.
    #[inline]
    pub fn candidates(&self, hash: u64) -> Candidates {
        let shard = self.shards[self.shard_of(hash)].read();
        shard.pages.candidates(self.settings.within_shard(hash)).collect()
    }

    /// Returns whether there is an entry of this hash and unit.
    pub fn contains(&self, hash: u64, unit: Unit) -> bool {
        let shard = self.shards[self.shard_of(hash)].read();
        shard.pages.candidates(self.settings.within_shard(hash)).any(|other| other == unit)
    }

    /// Inserts an entry before those of an equal hash.
    pub fn insert(&self, hash: u64, unit: Unit) {
        self.change(hash, |hash| Operation::insert(hash, unit));
    }

    /// Replaces the unit of the oldest entry of this hash and unit; its place among equal hashes stays. Returns whether
    /// there was one.
    pub fn replace(&self, hash: u64, from: Unit, to: Unit) -> bool {
        self.change(hash, |hash| Operation::replace(hash, from, to))
    }

    /// Removes the oldest entry of this hash and unit. Returns whether there was one.
    pub fn remove(&self, hash: u64, unit: Unit) -> bool {
        self.change(hash, |hash| Operation::remove(hash, unit))
    }

    /// Changes the shard of a hash, and keeps the operation for the redo log. Returns whether something changed.
    fn change(&self, hash: u64, operation: impl FnOnce(u64) -> Operation) -> bool {
        let operation = operation(self.settings.within_shard(hash));
        let mut shard = self.shards[self.shard_of(hash)].write();
        let is_changed = operation.apply(&mut shard.pages);
        if is_changed {
            shard.pending.push(operation);
        }
        is_changed
    }

    /// Returns the index as it is now. If the caller holds the writers of all shards, it has each batch completely or
    /// not at all. Takes 8 bytes per page, some 0.015 per entry, and a page for each page that changes while it is
    /// held.
    pub fn snapshot(&self) -> IndexSnapshot {
        let shards = self.shards.iter().map(|shard| shard.read().pages.clone()).collect();
        IndexSnapshot::new(self.settings, shards)
    }

    /// Returns entries in the order of their hashes, from those with the kept bits of `from` on: `limit` or, because
    /// equal hashes are not divided, some more, or all that are left.
    pub fn range(&self, from: u64, limit: usize) -> IndexRange {
        let each = |number: usize, range: &mut IndexRange| {
            range.extend(self.settings, number, &self.shards[number].read().pages, from, limit);
        };
        IndexRange::collect(self.settings, from, each)
    }

    /// Returns the number of entries that point to each slot of `slot_units` units, by the number of the slot. Reads
    /// all entries, on as many threads as there are processors.
    pub fn entries_per_slot(&self, slot_units: u64) -> Vec<u64> {
        let all: Mutex<Vec<u64>> = Mutex::new(Vec::new());
        in_parallel(self.len(), self.shards.iter(), |shard| {
            let mut counts: Vec<u64> = Vec::new();
            for unit in shard.read().pages.pages().iter().flat_map(|page| page.units()) {
                let slot = (unit / slot_units.max(1)) as usize;
                if counts.len() <= slot {
                    counts.resize(slot + 1, 0);
                }
                counts[slot] += 1;
            }
            let mut all = all.lock();
            let slots = all.len().max(counts.len());
            all.resize(slots, 0);
            all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        });
        std::mem::take(&mut all.lock())
    }

    /// Returns the number of entries.
    pub fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.read().pages.len()).sum()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the heap memory of all entries, in bytes. Takes the lock of each shard for a moment.
    pub fn heap_bytes(&self) -> usize {
        let shards: usize = self.shards.iter().map(|shard| shard.read().pages.heap_bytes()).sum();
        shards + size_of_val(&*self.shards)
    }

    /// Returns the heap memory of the operations that are not in the redo log, in bytes. Takes the lock of each shard
    /// for a moment.
    pub fn pending_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().pending.heap_bytes()).sum()
    }

    /// Returns the bytes of the saved index and of the redo log on flash.
    pub fn disk_bytes(&self) -> u64 {
        self.saved_bytes.load(Ordering::Relaxed) + self.redo.log.disk_bytes()
    }
}
