//! The index of a data log: maps the hash of each key to the position ("unit") of its record.
//!
//! ```text
//! hash of a key   | 0 1 1 | 0 0 1 0 1 ... |         hash_bits are kept
//!                   shard   hash within the shard
//!
//! shard           hash pages                        read under a shared lock, changed under an exclusive one
//!                 operations                        that are not in the redo log yet
//! ```
//!
//! The index follows FlashKey V-A.1 in what it maps, and is [`hash_pages`](siltstone_index::hash_pages) in memory. Of
//! equal hashes the entry that was inserted last is the first, so the entries of one key are in the order of its
//! writes. Keys are not stored: a caller reads the records of all candidates and compares keys.
//!
//! Callers lock the *writers* of shards from before they append a record to a log until they have changed the index.
//! The locks in this module protect its memory only, for as long as one change takes.
//!
//! # The states of a shard
//!
//! ```text
//! state          in memory                                    on flash
//!
//! empty          a page without entries                       nothing
//!   |  insertions
//! in memory      pages, changed in place                      pages of the last save, which only an open reads
//!   |  a save
//! being saved    pages, or changes of the last file;          pages of the last save; the new file, up to here
//!   |            changes since the save began
//!   |-- the shard is to be in memory: "in memory" again, with the new file as the last save
//!   |-- the shard is to be on flash:
//! on flash       places of pages, changes since               the pages, which lookups read
//!   |  a load, after an open; otherwise a save
//! loading        places of pages, changes until and since,    the pages, which lookups read
//!   |            pages that were read
//!   '-- "in memory"
//! ```
//!
//! In each state, the redo log has the operations since the last save, up to the last flush. Those since the flush are
//! in memory; after a crash, the caller makes them again from the logs of data.
//!
//! | file | what it is about |
//! |---|---|
//! | `lookup` | A *lookup* is what flash has of a hash: it is read without a lock, and the changes are added under it |
//! | `candidates` | The *candidates* are the units of one hash, the newest first: one of them may be of the key |
//! | `known` | *Known* entries are those that an examination of files finds, all in memory; a repair changes them |
//! | `entries` | The *entries* of a shard are its pages with their changes, in any of these states |
//! | `operations` | An *operation* inserts, removes or replaces an entry; redo has the operations in their order |
//! | `changes` | *Changes* are what operations have done to entries on flash: at most two for each entry |

mod candidates;
mod changes;
mod entries;
mod examine;
mod flash;
mod format;
mod known;
mod loading;
mod lookup;
mod opening;
mod operations;
mod redo;
mod saved;
mod saved_file;
mod snapshot;
#[cfg(test)]
mod tests;

pub use candidates::Candidates;
pub use examine::{ExaminedIndex, IndexToExamine};
pub use flash::FLASH_PAGE_BYTES;
pub use format::{CLASSES, Covered, REDO_HEADER_BYTES};
pub use known::KnownEntries;
pub use loading::IndexLoad;
pub use lookup::Lookup;
pub use opening::{IndexToOpen, RecoveredIndex};
pub use operations::{OPERATION_BYTES, SlotEntries};
pub use redo::Flush;
pub use saved::{IndexSave, PIECE_BYTES as SAVE_PIECE_BYTES, SaveStep};
pub use saved_file::{
    BLOCK_BYTES as SAVED_BLOCK_BYTES, PLACE_BYTES as SAVED_PAGE_BYTES, SHARD_BYTES as SAVED_SHARD_BYTES,
    SavedIndex,
};
pub use snapshot::{IndexRange, IndexSnapshot, KnownEntry};

use crate::error::{Error, Result};
use crate::store::read_batches::ReadBatches;
use entries::Entries;
use operations::{Operation, Pending};
use redo::Redo;
use siltstone_device::Directory;
use siltstone_device::sync::RwLock;
use siltstone_device::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use siltstone_index::hash_pages::{Division, HASH_BITS_MIN, TAG_BITS_MAX};
use std::sync::Arc;

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
    /// The number of units of a slot of the logs, for which the entries are counted.
    pub slot_units: u64,
}

impl LogIndexSettings {
    /// Checks the limits.
    ///
    /// # Errors
    /// [`Error::Setting`] with the limit that is not kept.
    pub fn check(&self) -> Result<()> {
        // The pages of a shard keep the bits after those of its number, and limit these.
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
            // A shift by all 64 bits would overflow; so in `whole`.
            0 => 0,
            bits => (hash >> (64 - bits)) as usize,
        }
    }

    /// Returns the maximum number of pages of a shard.
    fn pages_max(&self) -> u64 {
        Division::for_entries(self.shard_hash_bits(), u64::MAX).pages() as u64
    }

    /// Returns the number of bits of a hash that a shard keeps.
    fn shard_hash_bits(&self) -> u32 {
        self.hash_bits - self.shards_log2
    }

    /// Returns the least number of bytes of an operation in the redo log: its hash, and one of its unit.
    fn operation_bytes_min(&self) -> usize {
        self.shard_hash_bits().div_ceil(8) as usize + 1
    }

    /// Returns the hash within its shard. Only the kept bits are set.
    #[inline]
    fn within_shard(&self, hash: u64) -> u64 {
        let shift = 64 - self.shard_hash_bits();
        // The bits that are not kept are cleared: redo and pages lose them, and would give another hash back.
        hash << self.shards_log2 >> shift << shift
    }

    /// Returns the hash whose hash within `shard` is `within`.
    fn whole(&self, shard: usize, within: u64) -> u64 {
        match self.shards_log2 {
            0 => within,
            bits => (shard as u64) << (64 - bits) | within >> bits,
        }
    }
}

/// The entries of a part of the hashes.
struct Shard {
    /// Snapshots share them until they change: then the list of pages is copied, and the pages that change.
    entries: Arc<Entries>,
    pending: Pending,
}

/// The memory of a shard besides its pages and its operations, in bytes.
pub const SHARD_BYTES: usize = size_of::<RwLock<Shard>>() + size_of::<Entries>();

/// The index. All methods can be called from any thread.
pub struct LogIndex {
    settings: LogIndexSettings,
    shards: Box<[RwLock<Shard>]>,
    redo: Redo,
    directory: Directory,
    /// The length of the last file to which the index was saved, in bytes.
    saved_bytes: AtomicU64,
    /// The first shards, as many as these, are to be in memory, the others on flash.
    memory_shards: AtomicUsize,
    /// The most bytes of a read or a write of a save.
    piece_bytes: AtomicUsize,
    /// An open left the shards before `load_end` on flash. Those from `next_load` on are not in memory yet.
    load_end: usize,
    next_load: AtomicUsize,
    /// The number of pages that lookups have read.
    page_reads: AtomicU64,
    /// The memory of batches of reads, which snapshots share.
    batches: Arc<ReadBatches>,
    /// Entries in memory have marks.
    keeps_marks: AtomicBool,
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

    /// Inserts an entry before those of an equal hash.
    pub fn insert(&self, hash: u64, unit: Unit) {
        self.change(hash, |hash| Operation::insert(hash, unit), |_| false);
    }

    /// Replaces the unit of the oldest entry of this hash and unit; its place among equal hashes stays. Returns whether
    /// there was one. If the entries are on flash, the caller knows that there is one, and only one.
    pub fn replace(&self, hash: u64, from: Unit, to: Unit) -> bool {
        self.change(hash, |hash| Operation::replace(hash, from, to), |_| false)
    }

    /// Like [`replace`](LogIndex::replace), with less memory if the hash has no other entry, which a lookup shows
    /// unless the index was saved after it.
    pub fn replace_found(&self, lookup: &Lookup, from: Unit, to: Unit) -> bool {
        // Called under the lock of the shard: a save may have replaced the pages of the lookup.
        let is_only = |entries: &Entries| lookup.is_only(entries, self.settings.within_shard(lookup.hash()));
        self.change(lookup.hash(), |hash| Operation::replace(hash, from, to), is_only)
    }

    /// Removes the oldest entry of this hash and unit. Returns whether there was one. If the entries are on flash, the
    /// caller knows that there is one, and only one.
    pub fn remove(&self, hash: u64, unit: Unit) -> bool {
        self.change(hash, |hash| Operation::remove(hash, unit), |_| false)
    }

    /// Changes the shard of a hash, and keeps the operation for the redo log. Returns whether something changed.
    fn change(
        &self,
        hash: u64,
        operation: impl FnOnce(u64) -> Operation,
        is_only: impl FnOnce(&Entries) -> bool,
    ) -> bool {
        let operation = operation(self.settings.within_shard(hash));
        // Entry and operation change under one lock: a capture of the shard has both or none.
        let mut shard = self.shards[self.shard_of(hash)].write();
        let is_only = is_only(&shard.entries);
        // If a snapshot shares the entries, this changes a copy.
        let is_changed = Arc::make_mut(&mut shard.entries).apply(&operation, is_only);
        if is_changed {
            shard.pending.push(operation);
        }
        is_changed
    }

    /// Gives each entry in memory a mark from now on, a bit that [`mark`](LogIndex::mark) sets. Marks are not saved.
    pub fn keep_marks(&self) {
        // First: a shard that a load puts into memory behind this loop gets marks by the load.
        self.keeps_marks.store(true, Ordering::Relaxed);
        self.shards.iter().for_each(|shard| Arc::make_mut(&mut shard.write().entries).keep_marks());
    }

    /// Marks the entry of this hash that was inserted last, if entries have marks and it is in memory.
    #[inline]
    pub fn mark(&self, hash: u64) {
        if self.keeps_marks.load(Ordering::Relaxed) {
            self.shards[self.shard_of(hash)].read().entries.mark(self.settings.within_shard(hash));
        }
    }

    /// Removes the mark of an entry. Returns whether it had one.
    pub fn take_mark(&self, hash: u64, unit: Unit) -> bool {
        self.shards[self.shard_of(hash)].read().entries.take_mark(self.settings.within_shard(hash), unit)
    }

    /// Returns the index as it is now. If the caller holds the writers of all shards, it has each batch completely or
    /// not at all. Takes 8 bytes per shard. While it is held, a shard that changes takes 8 bytes per page in memory,
    /// some 0.015 per entry, and each page that changes is copied. Files that it reads keep their space.
    pub fn snapshot(&self) -> IndexSnapshot {
        // One shard after another: only locked writers make this one moment.
        let shards = self.shards.iter().map(|shard| shard.read().entries.clone()).collect();
        IndexSnapshot::new(self.settings, shards, self.batches.clone())
    }

    /// Returns entries in the order of their hashes, from those with the kept bits of `from` on: `limit` or, because
    /// equal hashes are not divided, some more, or all that are left. Those on flash are read.
    pub fn range(&self, from: u64, limit: usize) -> Result<IndexRange> {
        let each = |number: usize, range: &mut IndexRange| {
            let shard = self.shards[number].read();
            if shard.entries.flash().is_none() {
                return range.extend(self.settings, number, &shard.entries, from, limit);
            }
            // The reads of a page need no lock: later changes leave this clone as it is.
            let entries = shard.entries.clone();
            drop(shard);
            range.extend(self.settings, number, &entries, from, limit)
        };
        IndexRange::collect(self.settings, from, each)
    }

    /// Returns the number of entries. Those of one key are several if a put does not know yet that the key has an entry
    /// on flash.
    pub fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.read().entries.len()).sum()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets how many shards are to be in memory, the first ones. The next save moves the entries.
    pub fn set_memory_shards(&self, shards: usize) {
        self.memory_shards.store(shards, Ordering::Relaxed);
    }

    /// Limits the bytes of a read or a write of a save. The default and maximum is 1 MiB.
    pub fn limit_pieces(&self, bytes: usize) {
        self.piece_bytes.store(bytes.min(SAVE_PIECE_BYTES), Ordering::Relaxed);
    }

    fn piece_bytes(&self) -> usize {
        self.piece_bytes.load(Ordering::Relaxed)
    }

    /// Returns how many shards are to be in memory.
    pub fn memory_shards(&self) -> usize {
        self.memory_shards.load(Ordering::Relaxed)
    }

    /// Returns where the entries are. Takes the lock of each shard for a moment.
    pub fn residency(&self) -> Residency {
        let mut residency = Residency::default();
        let to_memory = self.memory_shards();
        let to_load = self.to_load();
        residency.shards_to_load = to_load.len();
        for (number, shard) in self.shards.iter().enumerate() {
            let shard = shard.read();
            let bytes = shard.entries.heap_bytes() as u64;
            residency.memory_bytes += bytes;
            residency.entries += shard.entries.len();
            match shard.entries.flash() {
                Some(pages) => {
                    residency.pages_on_flash += pages.places().len() as u64;
                    // A load ends the changes of such a shard. They are no reason to save.
                    if !to_load.contains(&number) {
                        residency.changes_bytes += shard.entries.changes_bytes() as u64;
                        residency.is_moving |= number < to_memory;
                    }
                }
                None => {
                    residency.memory_shards += 1;
                    residency.shards_bytes += bytes;
                    residency.is_moving |= number >= to_memory;
                }
            }
        }
        residency
    }

    /// Returns the memory of batches of reads, and their limit.
    pub fn read_batches(&self) -> &ReadBatches {
        &self.batches
    }

    /// Returns the number of pages that lookups have read.
    pub fn page_reads(&self) -> u64 {
        self.page_reads.load(Ordering::Relaxed)
    }

    /// Returns the heap memory of all entries, in bytes. Takes the lock of each shard for a moment.
    pub fn heap_bytes(&self) -> usize {
        let shards: usize = self.shards.iter().map(|shard| shard.read().entries.heap_bytes()).sum();
        shards + size_of_val(&*self.shards)
    }

    /// Returns the heap memory of the operations that are not in the redo log, in bytes. Takes the lock of each shard
    /// for a moment.
    pub fn pending_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().pending.heap_bytes()).sum()
    }

    /// Returns the length of the last file to which the index was saved, in bytes.
    pub fn saved_bytes(&self) -> u64 {
        self.saved_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the saved index and of the redo log on flash.
    pub fn disk_bytes(&self) -> u64 {
        self.saved_bytes() + self.redo.log.disk_bytes()
    }
}

/// Where the entries of an index are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Residency {
    /// The number of shards in memory.
    pub memory_shards: usize,
    /// The number of pages of the others.
    pub pages_on_flash: u64,
    /// The number of the others that an open left on flash and that are still to be loaded.
    pub shards_to_load: usize,
    /// The number of entries.
    pub entries: u64,
    /// The heap memory of all, in bytes.
    pub memory_bytes: u64,
    /// That of the shards in memory.
    pub shards_bytes: u64,
    /// That of changes of entries on flash, without those of shards to load.
    pub changes_bytes: u64,
    /// A shard is not where it is to be, and a save has to move it.
    pub is_moving: bool,
}
