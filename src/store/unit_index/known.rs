//! The entries that an examination of the files of an index finds, in memory. A repair changes them.

use super::{Candidates, LogIndexSettings, Unit};
use siltstone_index::hash_pages::HashPages;

/// Entries of an index that is not open.
pub struct KnownEntries {
    settings: LogIndexSettings,
    shards: Vec<HashPages>,
}

impl KnownEntries {
    pub(super) fn new(settings: LogIndexSettings, shards: Vec<HashPages>) -> KnownEntries {
        KnownEntries { settings, shards }
    }

    /// Returns the units that the key with this hash may have, the one that was inserted last first.
    pub fn candidates(&self, hash: u64) -> Candidates {
        self.shards[self.settings.shard_of(hash)].candidates(self.settings.within_shard(hash)).collect()
    }

    /// Returns whether there is an entry of this hash and unit.
    pub fn contains(&self, hash: u64, unit: Unit) -> bool {
        let shard = &self.shards[self.settings.shard_of(hash)];
        shard.candidates(self.settings.within_shard(hash)).any(|other| other == unit)
    }

    /// Inserts an entry before those of an equal hash.
    pub fn insert(&mut self, hash: u64, unit: Unit) {
        self.shards[self.settings.shard_of(hash)].insert(self.settings.within_shard(hash), unit);
    }

    /// Replaces the unit of an entry; its place among equal hashes stays. Returns whether there was one.
    pub fn replace(&mut self, hash: u64, from: Unit, to: Unit) -> bool {
        self.shards[self.settings.shard_of(hash)].replace(self.settings.within_shard(hash), from, to)
    }

    /// Removes an entry. Returns whether there was one.
    pub fn remove(&mut self, hash: u64, unit: Unit) -> bool {
        self.shards[self.settings.shard_of(hash)].remove(self.settings.within_shard(hash), unit)
    }

    /// Removes all entries.
    pub(super) fn clear(&mut self) {
        for shard in &mut self.shards {
            // Always so: the shard was made with as many bits.
            if let Ok(empty) = HashPages::new(shard.hash_bits()) {
                *shard = empty;
            }
        }
    }

    /// Returns the pages of each shard.
    pub(super) fn shards(&self) -> &[HashPages] {
        &self.shards
    }

    /// Returns the number of entries.
    pub fn len(&self) -> u64 {
        self.shards.iter().map(HashPages::len).sum()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all entries: the kept bits of each hash, as the first bits of a number, with the unit. In the order of
    /// the hashes; of equal ones the newest first.
    pub fn entries(&self) -> impl Iterator<Item = (u64, Unit)> {
        // The number of a shard is the first bits of its hashes, so all are in order.
        self.shards.iter().enumerate().flat_map(move |(number, pages)| {
            pages.entries().map(move |(hash, unit)| (self.settings.whole(number, hash), unit))
        })
    }
}
