//! Changes of a shard whose entries are on flash: a few bytes in memory each, until the shard is written again.
//!
//! ```text
//! of one hash, on flash    8  5  2                the newest first
//! changes                  inserted 9 | moved to 7, moved from 5 | removed 2
//! together                 9  8  7
//! ```
//!
//! Changes are entries of [`HashPages`], whose units have three bits more for the kind. A change of something that is
//! only in the changes replaces it there, so they are never more than what they change. Most hashes have one entry on
//! flash; if it is moved or removed after a move, the change does not say which one it was.

use super::Unit;
use super::operations::{Kind, Operation};
use crate::error::Result;
use siltstone_index::hash_pages::{HashPages, MARK_BITS};

/// A kind of change, in the low bits of a unit.
const INSERTED: u64 = 0;
const REMOVED: u64 = 1;
/// Precedes the one that it was moved from.
const MOVED_TO: u64 = 2;
const MOVED_FROM: u64 = 3;
/// The only entry on flash that no other change names was moved to this unit, or was removed after it was moved. At
/// most one of a hash is of these two kinds.
const ONLY_MOVED: u64 = 4;
const ONLY_REMOVED: u64 = 5;

fn marked(kind: u64, unit: Unit) -> u64 {
    unit << MARK_BITS | kind
}

fn kind(change: u64) -> u64 {
    change & ((1 << MARK_BITS) - 1)
}

fn unit(change: u64) -> Unit {
    change >> MARK_BITS
}

/// The changes of one hash, the last one first.
trait ChangesOfHash {
    /// Adds a change before the others.
    fn push(&mut self, change: u64);
    /// Removes the oldest change like this one. Returns whether there was one.
    fn take(&mut self, change: u64) -> bool;
    /// Replaces the oldest change like this one. Returns whether there was one.
    fn swap(&mut self, change: u64, by: u64) -> bool;
    /// Returns the unit of the change after the first one like this, if there is one.
    fn after(&self, change: u64) -> Option<Unit>;

    fn note_insert(&mut self, unit: Unit) {
        self.push(marked(INSERTED, unit));
    }

    fn note_remove(&mut self, unit: Unit) {
        let is_known =
            self.take(marked(INSERTED, unit)) || self.swap(marked(ONLY_MOVED, unit), marked(ONLY_REMOVED, 0));
        // An insertion since is undone. A move of the only entry becomes its removal: the unit on flash is not known.
        if is_known {
            return;
        }
        // Flash has the entry under the unit from which it was moved.
        if let Some(from) = self.after(marked(MOVED_TO, unit)) {
            self.take(marked(MOVED_TO, unit));
            self.swap(marked(MOVED_FROM, from), marked(REMOVED, from));
        } else {
            self.push(marked(REMOVED, unit));
        }
    }

    fn note_replace(&mut self, from: Unit, to: Unit, is_only: bool) {
        // What was inserted or moved since gets the new unit: one change per entry remains.
        let mut is_known = |kind| self.swap(marked(kind, from), marked(kind, to));
        if is_known(INSERTED) || is_known(MOVED_TO) || is_known(ONLY_MOVED) {
            return;
        }
        if is_only {
            self.push(marked(ONLY_MOVED, to));
        } else {
            // In this order, the new unit is right before the one on flash: `changed` finds it there.
            self.push(marked(MOVED_FROM, from));
            self.push(marked(MOVED_TO, to));
        }
    }
}

/// The changes of a hash in the pages of all.
struct OfHash<'a> {
    pages: &'a mut HashPages,
    hash: u64,
}

impl ChangesOfHash for OfHash<'_> {
    fn push(&mut self, change: u64) {
        self.pages.insert(self.hash, change);
    }

    fn take(&mut self, change: u64) -> bool {
        self.pages.remove(self.hash, change)
    }

    fn swap(&mut self, change: u64, by: u64) -> bool {
        self.pages.replace(self.hash, change, by)
    }

    fn after(&self, change: u64) -> Option<Unit> {
        let mut changes = self.pages.candidates(self.hash);
        changes.find(|other| *other == change)?;
        changes.next().map(unit)
    }
}

impl ChangesOfHash for Vec<u64> {
    fn push(&mut self, change: u64) {
        self.insert(0, change);
    }

    fn take(&mut self, change: u64) -> bool {
        // The oldest, as `HashPages::remove`: changes noted one by one and all at once must be the same.
        self.iter().rposition(|other| *other == change).map(|at| self.remove(at)).is_some()
    }

    fn swap(&mut self, change: u64, by: u64) -> bool {
        self.iter_mut().rev().find(|other| **other == change).map(|found| *found = by).is_some()
    }

    fn after(&self, change: u64) -> Option<Unit> {
        let at = self.iter().position(|other| *other == change)?;
        self.get(at + 1).copied().map(unit)
    }
}

/// The changes of all hashes of a shard since it was written.
#[derive(Debug, Clone)]
pub(super) struct ShardChanges {
    pages: HashPages,
    /// The number of entries that were inserted, less those that were removed.
    added: i64,
}

impl ShardChanges {
    /// Makes an empty list for hashes of `hash_bits`, which an index may have.
    pub fn new(hash_bits: u32) -> Result<ShardChanges> {
        Ok(ShardChanges { pages: HashPages::new(hash_bits)?, added: 0 })
    }

    /// Notes an insertion.
    pub fn insert(&mut self, hash: u64, unit: Unit) {
        OfHash { pages: &mut self.pages, hash }.note_insert(unit);
        self.added += 1;
    }

    /// Notes that an entry, which exists, was removed.
    pub fn remove(&mut self, hash: u64, unit: Unit) {
        OfHash { pages: &mut self.pages, hash }.note_remove(unit);
        self.added -= 1;
    }

    /// Notes that the unit of an entry, which exists, was replaced. If `is_only`, its hash has no other entry now.
    pub fn replace(&mut self, hash: u64, from: Unit, to: Unit, is_only: bool) {
        OfHash { pages: &mut self.pages, hash }.note_replace(from, to, is_only);
    }

    /// Notes operations on entries that exist; those of one hash in their order, that of the lists and in these. Writes
    /// all changes again, which costs less than to insert them one by one if these are not many more.
    pub fn apply_all(&mut self, operations: &[&[Operation]]) -> Result<()> {
        let mut added = 0;
        self.pages.rewrite(operations, &mut |changes: &mut Vec<u64>, operation: &Operation| {
            let (unit, replaced) = operation.units();
            match operation.kind() {
                Kind::Insert => {
                    changes.note_insert(unit);
                    added += 1;
                }
                Kind::Remove => {
                    changes.note_remove(unit);
                    added -= 1;
                }
                // Whether the hash has only this entry is not known without a read.
                Kind::Replace => changes.note_replace(replaced.unwrap_or_default(), unit, false),
            }
        })?;
        // After the pages: if they cannot be written again, the count still fits them.
        self.added += added;
        Ok(())
    }

    /// Returns the changes of a hash.
    pub fn of(&self, hash: u64) -> impl Iterator<Item = u64> {
        self.pages.candidates(hash)
    }

    /// Returns all changes with the kept bits of their hashes, from those of `hash` on, in the order of the hashes.
    pub fn from(&self, hash: u64) -> impl Iterator<Item = (u64, u64)> {
        self.pages.entries_from(hash)
    }

    /// Returns the hashes that got an entry, from that of `hash` on and in their order.
    pub fn inserted_from(&self, hash: u64) -> impl Iterator<Item = u64> {
        self.from(hash).filter(|(_, change)| kind(*change) == INSERTED).map(|(hash, _)| hash)
    }

    /// Returns by how many entries there are more than on flash.
    pub fn added(&self) -> i64 {
        self.added
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.pages.heap_bytes()
    }

    /// Changes the entries of a whole shard.
    pub fn apply_to(&self, entries: &mut HashPages) {
        let changes: Vec<(u64, u64)> = self.pages.entries().collect();
        for group in changes.chunk_by(|one, other| one.0 == other.0) {
            let hash = group[0].0;
            // All entries of the hash are written again, because the order among them may change.
            let units: Vec<Unit> = entries.candidates(hash).collect();
            let of_hash: Vec<u64> = group.iter().map(|(_, change)| *change).collect();
            for unit in &units {
                entries.remove(hash, *unit);
            }
            // The oldest first.
            for unit in changed(&units, &of_hash).into_iter().rev() {
                entries.insert(hash, unit);
            }
        }
    }
}

/// Returns the units of a hash after these changes. `on_flash` are those that it has on flash.
pub(super) fn changed(on_flash: &[Unit], changes: &[u64]) -> Vec<Unit> {
    let inserted = changes.iter().filter(|change| kind(**change) == INSERTED).map(|change| unit(*change));
    let only = changes.iter().find(|change| matches!(kind(**change), ONLY_MOVED | ONLY_REMOVED));
    let kept = on_flash.iter().filter_map(|old| {
        let at = changes
            .iter()
            .position(|change| *change == marked(REMOVED, *old) || *change == marked(MOVED_FROM, *old));
        match (at, only) {
            (None, None) => Some(*old),
            // No other change names this entry, so it is the one of `only`.
            (None, Some(only)) => (kind(*only) == ONLY_MOVED).then(|| unit(*only)),
            (Some(at), _) if kind(changes[at]) == REMOVED => None,
            // `note_replace` has put `MOVED_TO` there, and both only change together.
            (Some(at), _) => at.checked_sub(1).map(|to| unit(changes[to])),
        }
    });
    // What was inserted since is newer than all entries on flash.
    inserted.chain(kept).collect()
}

/// Merges entries, in the order of their hashes, with the changes of the same hashes. Appends the result to `merged`.
pub(super) fn merge(
    entries: impl Iterator<Item = (u64, Unit)>,
    changes: impl Iterator<Item = (u64, u64)>,
    merged: &mut Vec<(u64, Unit)>,
) {
    let mut entries = entries.peekable();
    let mut changes = changes.peekable();
    let (mut units, mut of_hash) = (Vec::new(), Vec::new());
    while let Some((hash, _)) = changes.peek().copied() {
        // Hashes without a change, which need no list of their own.
        while let Some(entry) = entries.next_if(|entry| entry.0 < hash) {
            merged.push(entry);
        }
        units.clear();
        of_hash.clear();
        units.extend(std::iter::from_fn(|| entries.next_if(|entry| entry.0 == hash)).map(|entry| entry.1));
        of_hash.extend(std::iter::from_fn(|| changes.next_if(|change| change.0 == hash)).map(|each| each.1));
        merged.extend(changed(&units, &of_hash).into_iter().map(|unit| (hash, unit)));
    }
    merged.extend(entries);
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_index::coding::mix;

    /// Random changes of a map and of the entries that it had before, in two layers, whose hashes are few.
    #[test]
    fn entries_with_changes_are_those_of_an_index_that_was_changed() {
        for seed in 0..20u64 {
            let mut number = seed << 40;
            let mut random = || {
                number += 1;
                mix(number)
            };
            let mut wanted = HashPages::new(20).unwrap();
            let mut layers = [ShardChanges::new(20).unwrap(), ShardChanges::new(20).unwrap()];
            // The operations of the second layer, without what is known of them.
            let mut operations = Vec::new();
            let mut base = wanted.clone();
            for step in 0..600u64 {
                let hash = mix(random() % 40) >> 44 << 44;
                let units: Vec<Unit> = wanted.candidates(hash).collect();
                let chosen = units.get(random() as usize % units.len().max(1)).copied();
                // Also units that an entry of the same hash had before.
                let unit = random() % 900 + if step % 2 == 0 { 1 << 39 } else { 0 };
                if units.contains(&unit) {
                    continue;
                }
                let layer = (step / 200).checked_sub(1).map(|layer| &mut layers[layer as usize]);
                let mut operate = |operation| operations.extend((step >= 400).then_some(operation));
                match (random() % 4, chosen) {
                    (0, Some(from)) => {
                        wanted.replace(hash, from, unit);
                        operate(Operation::replace(hash, from, unit));
                        if let Some(layer) = layer {
                            layer.replace(hash, from, unit, units.len() == 1 && random() % 2 == 0);
                        }
                    }
                    (1, Some(from)) => {
                        wanted.remove(hash, from);
                        operate(Operation::remove(hash, from));
                        if let Some(layer) = layer {
                            layer.remove(hash, from);
                        }
                    }
                    _ => {
                        wanted.insert(hash, unit);
                        operate(Operation::insert(hash, unit));
                        if let Some(layer) = layer {
                            layer.insert(hash, unit);
                        }
                    }
                }
                if step < 200 {
                    base = wanted.clone();
                }
            }
            let added: i64 = layers.iter().map(ShardChanges::added).sum();
            assert_eq!(base.len() as i64 + added, wanted.len() as i64);
            let (mut first, mut both) = (Vec::new(), Vec::new());
            merge(base.entries(), layers[0].from(0), &mut first);
            merge(first.iter().copied(), layers[1].from(0), &mut both);
            assert!(wanted.entries().eq(both.iter().copied()), "seed {seed}");
            let mut at_once = ShardChanges::new(20).unwrap();
            let (few, many) = operations.split_at(7);
            at_once.apply_all(&[few]).unwrap();
            at_once.apply_all(&[&many[..90], &[], &many[90..]]).unwrap();
            assert_eq!(at_once.added(), layers[1].added());
            let mut same = Vec::new();
            merge(first.iter().copied(), at_once.from(0), &mut same);
            assert_eq!(same, both, "seed {seed}");
            for (hash, _) in both {
                let on_flash: Vec<Unit> = base.candidates(hash).collect();
                let first = changed(&on_flash, &layers[0].of(hash).collect::<Vec<_>>());
                let second = changed(&first, &layers[1].of(hash).collect::<Vec<_>>());
                assert!(wanted.candidates(hash).eq(second), "seed {seed}");
            }
            layers.iter().for_each(|layer| layer.apply_to(&mut base));
            assert!(wanted.entries().eq(base.entries()), "seed {seed}");
        }
    }
}
