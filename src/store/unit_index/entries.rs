//! The entries of a shard: in memory, or on flash with their changes in memory.
//!
//! ```text
//! in memory     hash pages
//! on flash      pages of a saved index + changes
//! being saved   pages of a saved index + changes that are being written + changes
//! ```
//!
//! FlashKey (Table VI) has a table on flash, and a put reads and writes a bucket of it. Here a put only adds a change,
//! and all shards are written one after another, sequentially, when the changes take 0.23 bytes of memory per entry. To
//! write single pages when their changes take as much would write as many bytes, in small pieces, and needs space
//! management for the pages that were replaced.

use super::changes::{ShardChanges, changed, merge};
use super::flash::FlashPages;
use super::operations::{Kind, Lsn, Operation};
use super::{Candidates, Unit};
use crate::error::Result;
use siltstone_device::Purpose;
use siltstone_index::hash_pages::HashPages;
use std::sync::Arc;

/// The bytes that a sequential read of entries on flash reads at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Where the entries are.
#[derive(Clone)]
enum Pages {
    Memory(HashPages),
    Flash(Arc<FlashPages>),
}

/// The entries of a shard. A clone is a snapshot; it takes 8 bytes per page in memory.
#[derive(Clone)]
pub(super) struct Entries {
    place: Pages,
    /// The changes before those, which are being written to flash, and the state of the shard with them.
    frozen: Option<(ShardChanges, Lsn)>,
    /// The changes since. `None` if the entries in memory are changed.
    changes: Option<ShardChanges>,
}

impl Entries {
    /// Entries in memory.
    pub fn in_memory(pages: HashPages) -> Entries {
        Entries { place: Pages::Memory(pages), frozen: None, changes: None }
    }

    /// Entries on flash.
    pub fn on_flash(pages: Arc<FlashPages>) -> Result<Entries> {
        let changes = Some(ShardChanges::new(pages.division().hash_bits())?);
        Ok(Entries { place: Pages::Flash(pages), frozen: None, changes })
    }

    /// Returns the pages in memory, if the entries are there.
    pub fn into_memory(self) -> Option<HashPages> {
        match self.place {
            // With changes the pages alone are an old state.
            Pages::Memory(pages) if self.changes.is_none() => Some(pages),
            _ => None,
        }
    }

    /// Returns the pages on flash, if the entries are there.
    pub fn flash(&self) -> Option<&Arc<FlashPages>> {
        match &self.place {
            Pages::Memory(_) => None,
            Pages::Flash(pages) => Some(pages),
        }
    }

    /// Executes a change. Returns `false`, and changes nothing, if the entry to remove or replace does not exist. Of
    /// entries on flash the caller knows that they exist, and may know that the hash has only this one.
    pub fn apply(&mut self, operation: &Operation, is_only: bool) -> bool {
        let Operation { hash, .. } = *operation;
        let (unit, replaced) = operation.units();
        match (&mut self.changes, &mut self.place) {
            (None, Pages::Memory(pages)) => return operation.apply(pages),
            // Cannot be: entries on flash have changes from the open, or from the `freeze` before the move.
            (None, Pages::Flash(_)) => return false,
            (Some(changes), _) => match operation.kind() {
                Kind::Insert => changes.insert(hash, unit),
                Kind::Remove => changes.remove(hash, unit),
                Kind::Replace => changes.replace(hash, replaced.unwrap_or_default(), unit, is_only),
            },
        }
        true
    }

    /// Executes changes as [`apply`](Entries::apply), those of one hash in their order. Returns `false` if an entry
    /// does not exist; some are executed then.
    pub fn apply_all(&mut self, operations: &[&[Operation]]) -> bool {
        match (&mut self.place, &mut self.changes) {
            (Pages::Memory(pages), None) => pages.apply_all(operations),
            (Pages::Flash(_), None) => false,
            (_, Some(changes)) => changes.apply_all(operations).is_ok(),
        }
    }

    fn layers(&self) -> impl Iterator<Item = &ShardChanges> {
        // The frozen ones first: the others are relative to the entries with these.
        self.frozen.iter().map(|(changes, _)| changes).chain(&self.changes)
    }

    /// Returns the units of a hash. `on_flash` are those that it has on flash, if the entries are there.
    #[inline]
    pub fn candidates(&self, hash: u64, on_flash: &[Unit]) -> Candidates {
        match &self.place {
            Pages::Memory(pages) if self.changes.is_none() => pages.candidates(hash).collect(),
            // A save to flash has begun: the pages stay as they were then.
            Pages::Memory(pages) => self.over(hash, pages.candidates(hash).collect()),
            Pages::Flash(_) => self.over(hash, on_flash.to_vec()),
        }
    }

    fn over(&self, hash: u64, mut units: Vec<Unit>) -> Candidates {
        for layer in self.layers() {
            let changes: Vec<u64> = layer.of(hash).collect();
            if !changes.is_empty() {
                units = changed(&units, &changes);
            }
        }
        units.into_iter().collect()
    }

    /// Gives the entries in memory marks.
    pub fn keep_marks(&mut self) {
        if let Pages::Memory(pages) = &mut self.place {
            pages.keep_marks();
        }
    }

    /// Marks the entry of this hash that was inserted last, if it is in memory.
    pub fn mark(&self, hash: u64) {
        if let Pages::Memory(pages) = &self.place {
            pages.mark(hash);
        }
    }

    /// Removes the mark of an entry. Returns whether it had one; entries on flash have none.
    pub fn take_mark(&self, hash: u64, unit: Unit) -> bool {
        match &self.place {
            Pages::Memory(pages) => pages.take_mark(hash, unit),
            Pages::Flash(_) => false,
        }
    }

    /// Returns whether a hash may have an entry, without a read.
    pub fn may_contain(&self, hash: u64) -> bool {
        // Every hash may be on flash. A change that removes an entry there does not say that it was the last.
        self.flash().is_some_and(|pages| pages.len() > 0) || !self.candidates(hash, &[]).is_empty()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> u64 {
        let len = match &self.place {
            Pages::Memory(pages) => pages.len(),
            Pages::Flash(pages) => pages.len(),
        };
        len.saturating_add_signed(self.layers().map(ShardChanges::added).sum())
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let bytes = match &self.place {
            Pages::Memory(pages) => pages.heap_bytes(),
            Pages::Flash(pages) => pages.heap_bytes(),
        };
        bytes + self.changes_bytes()
    }

    /// Returns the heap memory of the changes, in bytes.
    pub fn changes_bytes(&self) -> usize {
        self.layers().map(ShardChanges::heap_bytes).sum()
    }

    /// Passes the entries from those of `from` on to `visit`, in the order of the hashes, until it returns false. Of
    /// equal hashes the newest is the first. Entries on flash are read sequentially.
    pub fn visit(
        &self,
        from: u64,
        purpose: Purpose,
        visit: &mut dyn FnMut(u64, Unit) -> Result<bool>,
    ) -> Result<()> {
        let pages = match &self.place {
            Pages::Memory(pages) if self.changes.is_none() => {
                for (hash, unit) in pages.entries_from(from) {
                    if !visit(hash, unit)? {
                        return Ok(());
                    }
                }
                return Ok(());
            }
            Pages::Memory(pages) => {
                let entries = self.merged(pages.entries_from(from), from, u64::MAX);
                return visit_all(entries, visit).map(drop);
            }
            Pages::Flash(pages) => pages,
        };
        let division = pages.division();
        let shift = 64 - division.hash_bits();
        // The page of `from` may begin before it: `first` excludes its lower hashes.
        let mut reader = pages.read_from(division.home(from).0, purpose, PIECE_BYTES);
        let mut first = from >> shift << shift;
        while let Some(entries) = reader.next_entries()? {
            // Up to the next page: hashes without an entry on flash may have changes, too.
            let last = reader.next_hash().map_or(u64::MAX, |next| next - 1);
            let entries = entries.into_iter().filter(|entry| entry.0 >= first);
            if !visit_all(self.merged(entries, first, last), visit)? {
                return Ok(());
            }
            // Wraps only after the last page, and the reader has no further one then.
            first = last.wrapping_add(1);
        }
        Ok(())
    }

    /// Returns all entries of a range of hashes. `entries` are those of the range without the changes.
    fn merged(&self, entries: impl Iterator<Item = (u64, Unit)>, first: u64, last: u64) -> Vec<(u64, Unit)> {
        let mut merged: Vec<(u64, Unit)> = entries.collect();
        for layer in self.layers() {
            let below = std::mem::take(&mut merged);
            merge(below.into_iter(), layer.from(first).take_while(|change| change.0 <= last), &mut merged);
        }
        merged
    }

    /// Begins to write the entries: to memory or flash, where they will be. Returns what is to be written, and the
    /// state of the shard then: `lsn`, or one before it if an earlier attempt was given up.
    pub fn freeze(&mut self, to_memory: bool, lsn: impl FnOnce() -> Lsn) -> Result<(Frozen, Lsn)> {
        match &mut self.place {
            Pages::Memory(pages) => {
                // Changes are left if an earlier move to flash was given up.
                let layers = [self.frozen.take().map(|(changes, _)| changes), self.changes.take()];
                layers.iter().flatten().for_each(|changes| changes.apply_to(pages));
                // The pages in the file will not have what changes from now on.
                if !to_memory {
                    self.changes = Some(ShardChanges::new(pages.hash_bits())?);
                }
                // The clone shares its pages: a change copies the page first.
                Ok((Frozen::Memory(pages.clone()), lsn()))
            }
            Pages::Flash(pages) => {
                let empty = ShardChanges::new(pages.division().hash_bits())?;
                let (changes, lsn) = match &self.frozen {
                    // An earlier attempt was given up. Its changes are written now, and have the state of that time.
                    Some(frozen) => frozen.clone(),
                    None => (self.changes.replace(empty).unwrap_or(ShardChanges::new(18)?), lsn()),
                };
                // Kept until the new pages are in place: the old ones, which lookups read until then, lack these.
                self.frozen = Some((changes.clone(), lsn));
                Ok((Frozen::Flash(pages.clone(), changes), lsn))
            }
        }
    }

    /// From now on the entries are in these pages on flash, which have everything before [`freeze`](Entries::freeze).
    pub fn move_to_flash(&mut self, pages: Arc<FlashPages>) {
        // The changes since `freeze` stay: the new pages do not have them.
        (self.place, self.frozen) = (Pages::Flash(pages), None);
    }

    /// From now on the entries are in memory. `pages` has them as they were at [`freeze`](Entries::freeze).
    pub fn move_to_memory(&mut self, mut pages: HashPages) {
        // The pages have the frozen changes, and not those since.
        if let Some(changes) = self.changes.take() {
            changes.apply_to(&mut pages);
        }
        (self.place, self.frozen) = (Pages::Memory(pages), None);
    }
}

/// The entries of a shard at the moment from which on they are written.
pub(super) enum Frozen {
    Memory(HashPages),
    Flash(Arc<FlashPages>, ShardChanges),
}

fn visit_all(entries: Vec<(u64, Unit)>, visit: &mut dyn FnMut(u64, Unit) -> Result<bool>) -> Result<bool> {
    for (hash, unit) in entries {
        if !visit(hash, unit)? {
            return Ok(false);
        }
    }
    Ok(true)
}
