//! The index at one moment, and parts of it in the order of the hashes.

use super::{Candidates, LogIndexSettings, Unit};
use crate::index::hash_pages::HashPages;

/// The entries of an index at one moment, which later changes of the index leave as they are.
pub struct IndexSnapshot {
    settings: LogIndexSettings,
    shards: Vec<HashPages>,
}

impl IndexSnapshot {
    pub(super) fn new(settings: LogIndexSettings, shards: Vec<HashPages>) -> IndexSnapshot {
        IndexSnapshot { settings, shards }
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
    /// the hashes; of equal ones the youngest first.
    pub fn entries(&self) -> impl Iterator<Item = (u64, Unit)> {
        self.shards.iter().enumerate().flat_map(move |(number, pages)| {
            pages.entries().map(move |(hash, unit)| (self.settings.whole(number, hash), unit))
        })
    }

    /// Returns entries in the order of their hashes, as [`LogIndex::range`](super::LogIndex::range).
    pub fn range(&self, from: u64, limit: usize) -> IndexRange {
        let each = |number: usize, range: &mut IndexRange| {
            range.extend(self.settings, number, &self.shards[number], from, limit);
        };
        IndexRange::collect(self.settings, from, each)
    }

    /// Returns each hash that several entries have, with their units, the youngest first: entries of one key that are
    /// not confirmed yet, or of keys with equal hashes. Reads all entries.
    pub fn equal_hashes(&self) -> impl Iterator<Item = (u64, Candidates)> {
        let mut entries = self.entries().peekable();
        std::iter::from_fn(move || {
            loop {
                let (hash, unit) = entries.next()?;
                if entries.peek().is_some_and(|(next, _)| *next == hash) {
                    let rest = std::iter::from_fn(|| entries.next_if(|(next, _)| *next == hash));
                    let units = std::iter::once(unit).chain(rest.map(|(_, unit)| unit)).collect();
                    return Some((hash, units));
                }
            }
        })
    }
}

/// Entries in the order of their hashes.
#[derive(Debug, Default)]
pub struct IndexRange {
    /// The kept bits of each hash, as the first bits of a number, with the unit; of equal hashes the youngest first.
    pub entries: Vec<(u64, Unit)>,
    /// The hash with which the next range begins; `None` if all entries after `entries` are known to be none.
    pub next: Option<u64>,
}

impl IndexRange {
    /// Collects entries shard by shard, from that of `from` on, with `each`, until there are enough.
    pub(super) fn collect(
        settings: LogIndexSettings,
        from: u64,
        mut each: impl FnMut(usize, &mut IndexRange),
    ) -> IndexRange {
        let mut range = IndexRange::default();
        let mut shards = settings.shard_of(from)..settings.shards();
        while let (None, Some(number)) = (range.next, shards.next()) {
            each(number, &mut range);
        }
        range
    }

    /// Appends the entries of a shard from the hash `from` on, until there are `limit`.
    pub(super) fn extend(
        &mut self,
        settings: LogIndexSettings,
        number: usize,
        pages: &HashPages,
        from: u64,
        limit: usize,
    ) {
        let within = if number == settings.shard_of(from) { settings.within_shard(from) } else { 0 };
        for (hash, unit) in pages.entries_from(within) {
            let hash = settings.whole(number, hash);
            if self.entries.len() >= limit && self.entries.last().is_none_or(|last| last.0 != hash) {
                self.next = Some(hash);
                return;
            }
            self.entries.push((hash, unit));
        }
    }
}
