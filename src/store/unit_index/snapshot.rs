//! The index at one moment, and parts of it in the order of the hashes.

use super::entries::Entries;
use super::lookup::{Lookup, look_up};
use super::{Candidates, LogIndexSettings, Unit};
use crate::error::Result;
use crate::store::read_batches::ReadBatches;
use siltstone_device::Purpose;
use std::sync::Arc;

/// The entries of an index at one moment, which later changes leave as they are.
pub struct IndexSnapshot {
    settings: LogIndexSettings,
    shards: Vec<Arc<Entries>>,
    batches: Arc<ReadBatches>,
}

impl IndexSnapshot {
    pub(super) fn new(
        settings: LogIndexSettings,
        shards: Vec<Arc<Entries>>,
        batches: Arc<ReadBatches>,
    ) -> IndexSnapshot {
        IndexSnapshot { settings, shards, batches }
    }

    /// Returns for each of several hashes the units that its key may have, the one that was inserted last first. Costs
    /// reads for those whose entries are on flash, which overlap.
    pub fn candidates(&self, purpose: Purpose, hashes: &[u64]) -> Result<Vec<Candidates>> {
        // The pages of the snapshot: its changes are relative to these, and the index may have others by now.
        let flash_of = |shard: usize| self.shards[shard].flash().cloned();
        let (lookups, _) = look_up(purpose, self.settings, &self.batches, hashes, flash_of)?;
        let of = |lookup: &Lookup| {
            let hash = lookup.hash();
            let entries = &self.shards[self.settings.shard_of(hash)];
            entries.candidates(self.settings.within_shard(hash), lookup.units())
        };
        Ok(lookups.iter().map(of).collect())
    }

    /// Returns what is known of the entry of this hash and unit without a read.
    pub fn known(&self, hash: u64, unit: Unit) -> KnownEntry {
        let entries = &self.shards[self.settings.shard_of(hash)];
        // The page was not read. Changes alone do not say which entries it has.
        if entries.flash().is_some() {
            return KnownEntry::Unclear;
        }
        let units = entries.candidates(self.settings.within_shard(hash), &[]);
        match units.iter().position(|other| *other == unit) {
            Some(0) => KnownEntry::IsNewest,
            Some(_) => KnownEntry::Unclear,
            None => KnownEntry::IsMissing,
        }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.len()).sum()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Passes all entries to `visit`: the kept bits of each hash, as the first bits of a number, with the unit. In the
    /// order of the hashes; of equal ones the newest first. Those on flash are read.
    pub fn visit(&self, purpose: Purpose, visit: &mut dyn FnMut(u64, Unit) -> Result<()>) -> Result<()> {
        for (number, entries) in self.shards.iter().enumerate() {
            entries.visit(0, purpose, &mut |hash, unit| {
                visit(self.settings.whole(number, hash), unit).map(|()| true)
            })?;
        }
        Ok(())
    }

    /// Returns entries in the order of their hashes, as [`LogIndex::range`](super::LogIndex::range).
    pub fn range(&self, from: u64, limit: usize) -> Result<IndexRange> {
        let each = |number: usize, range: &mut IndexRange| {
            range.extend(self.settings, number, &self.shards[number], from, limit)
        };
        IndexRange::collect(self.settings, from, each)
    }
}

/// What is known of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownEntry {
    /// There is none.
    IsMissing,
    /// It was inserted after all others of its hash.
    IsNewest,
    /// There may be one, and newer ones of its hash.
    Unclear,
}

/// Entries in the order of their hashes.
#[derive(Debug, Default)]
pub struct IndexRange {
    /// The kept bits of each hash, as the first bits of a number, with the unit; of equal hashes the newest first.
    pub entries: Vec<(u64, Unit)>,
    /// The hash with which the next range begins; `None` if no entries follow.
    pub next: Option<u64>,
}

impl IndexRange {
    /// Collects entries shard by shard, from that of `from` on, with `each`, until there are enough.
    pub(super) fn collect(
        settings: LogIndexSettings,
        from: u64,
        mut each: impl FnMut(usize, &mut IndexRange) -> Result<()>,
    ) -> Result<IndexRange> {
        let mut range = IndexRange::default();
        let mut shards = settings.shard_of(from)..settings.shards();
        // `next` is set only if a shard has more: at its end the following shard is tried.
        while let (None, Some(number)) = (range.next, shards.next()) {
            each(number, &mut range)?;
        }
        Ok(range)
    }

    /// Appends the entries of a shard from the hash `from` on, until there are `limit`.
    pub(super) fn extend(
        &mut self,
        settings: LogIndexSettings,
        number: usize,
        entries: &Entries,
        from: u64,
        limit: usize,
    ) -> Result<()> {
        // All hashes of later shards are above `from`.
        let within = if number == settings.shard_of(from) { settings.within_shard(from) } else { 0 };
        entries.visit(within, Purpose::Index, &mut |hash, unit| {
            let hash = settings.whole(number, hash);
            // The next range begins at a hash, so entries of equal hashes must be in the same range.
            if self.entries.len() >= limit && self.entries.last().is_none_or(|last| last.0 != hash) {
                self.next = Some(hash);
                return Ok(false);
            }
            self.entries.push((hash, unit));
            Ok(true)
        })
    }
}
