//! Changes of a shard, and those that are not in the redo log yet.

use super::Unit;
use siltstone_index::hash_pages::{Change, HashPages};
use std::collections::BTreeMap;

/// In place of a unit that an operation does not have.
const NONE: Unit = Unit::MAX;

/// The memory of an operation that is not in the redo log, in bytes.
pub const OPERATION_BYTES: usize = size_of::<Operation>();

/// A kind of change. Formats contain its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Insert = 0,
    Remove = 1,
    Replace = 2,
}

impl Kind {
    pub fn from_number(number: u64) -> Option<Kind> {
        [Kind::Insert, Kind::Remove, Kind::Replace].into_iter().find(|kind| *kind as u64 == number)
    }
}

/// A change of a shard. Its order matters only among the operations of one hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Operation {
    /// The hash within the shard. Only the kept bits are set.
    pub hash: u64,
    from: Unit,
    to: Unit,
}

impl Operation {
    pub fn insert(hash: u64, unit: Unit) -> Operation {
        Operation { hash, from: NONE, to: unit }
    }

    pub fn remove(hash: u64, unit: Unit) -> Operation {
        Operation { hash, from: unit, to: NONE }
    }

    pub fn replace(hash: u64, from: Unit, to: Unit) -> Operation {
        Operation { hash, from, to }
    }

    pub fn kind(&self) -> Kind {
        match (self.from, self.to) {
            (NONE, _) => Kind::Insert,
            (_, NONE) => Kind::Remove,
            _ => Kind::Replace,
        }
    }

    /// Returns the unit that is inserted or removed, and for a replacement the one that it replaces.
    pub fn units(&self) -> (Unit, Option<Unit>) {
        match self.kind() {
            Kind::Insert => (self.to, None),
            Kind::Remove => (self.from, None),
            Kind::Replace => (self.to, Some(self.from)),
        }
    }

    /// Returns the operation with these [`units`](Operation::units).
    pub fn new(kind: Kind, hash: u64, unit: Unit, replaced: Unit) -> Operation {
        match kind {
            Kind::Insert => Operation::insert(hash, unit),
            Kind::Remove => Operation::remove(hash, unit),
            Kind::Replace => Operation::replace(hash, replaced, unit),
        }
    }

    /// Changes the pages. Returns `false`, and changes nothing, if the entry to remove or replace does not exist.
    pub fn apply(&self, pages: &mut HashPages) -> bool {
        match self.kind() {
            Kind::Insert => pages.insert(self.hash, self.to),
            Kind::Remove => return pages.remove(self.hash, self.from),
            Kind::Replace => return pages.replace(self.hash, self.from, self.to),
        }
        true
    }
}

impl Change for Operation {
    #[inline]
    fn hash(&self) -> u64 {
        self.hash
    }

    #[inline]
    fn from(&self) -> Option<Unit> {
        Some(self.from).filter(|unit| *unit != NONE)
    }

    #[inline]
    fn to(&self) -> Option<Unit> {
        Some(self.to).filter(|unit| *unit != NONE)
    }
}

/// The number of entries that point to each slot of the logs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotEntries {
    /// The number of units of a slot.
    slot_units: u64,
    /// By the number of the slot. Of some of the operations they are negative.
    counts: BTreeMap<u64, i64>,
}

impl SlotEntries {
    pub(super) fn new(slot_units: u64) -> SlotEntries {
        SlotEntries { slot_units, counts: BTreeMap::new() }
    }

    /// Returns the number of entries that point to one of these slots.
    pub fn of(&self, slots: std::ops::Range<u64>) -> u64 {
        // Negative only if the counts from which operations subtract were not merged.
        self.counts.range(slots).map(|(_, entries)| (*entries).max(0) as u64).sum()
    }

    /// Returns the slots that have entries, with how many, in order.
    pub(super) fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.counts.iter().filter(|(_, entries)| **entries > 0);
        counts.map(|(slot, entries)| (*slot, *entries as u64))
    }

    /// Adds entries, or subtracts them.
    pub(super) fn add(&mut self, slot: u64, entries: i64) {
        // The first `Adjacent` of a list counts nothing, of slot 0.
        if entries == 0 {
            return;
        }
        let count = self.counts.entry(slot).or_default();
        *count = count.saturating_add(entries);
    }

    /// Counts an entry that points to a unit.
    pub(super) fn count(&mut self, unit: Unit) {
        self.add(unit / self.slot_units.max(1), 1);
    }

    /// Adds those of others.
    pub(super) fn merge(&mut self, others: &SlotEntries) {
        others.counts.iter().for_each(|(slot, entries)| self.add(*slot, *entries));
    }

    /// Executes an operation.
    pub(super) fn apply(&mut self, operation: &Operation) {
        self.apply_all(std::slice::from_ref(operation));
    }

    /// Executes operations: quickly if many adjacent ones are of one slot.
    pub(super) fn apply_all(&mut self, operations: &[Operation]) {
        // Two of them: added units are mostly at the end of a log, removed ones anywhere.
        let mut added = Adjacent::default();
        let mut removed = Adjacent::default();
        for operation in operations {
            if operation.to != NONE {
                added.count(operation.to, 1, self);
            }
            if operation.from != NONE {
                removed.count(operation.from, -1, self);
            }
        }
        self.add(added.slot, added.entries);
        self.add(removed.slot, removed.entries);
    }
}

/// Adjacent units of one slot.
#[derive(Default)]
struct Adjacent {
    slot: u64,
    units: std::ops::Range<u64>,
    entries: i64,
}

impl Adjacent {
    /// Counts a unit. Adds those before to `slots` if it is of another slot.
    fn count(&mut self, unit: Unit, entries: i64, slots: &mut SlotEntries) {
        if !self.units.contains(&unit) {
            slots.add(self.slot, self.entries);
            let slot_units = slots.slot_units.max(1);
            let slot = unit / slot_units;
            let first = slot * slot_units;
            *self = Adjacent { slot, units: first..first + slot_units, entries: 0 };
        }
        self.entries += entries;
    }
}

/// Operations of a shard in their order.
pub(super) type Run = Vec<Operation>;

/// The state of a shard relative to the redo log: it has the operations of all records before `record`, and of that one
/// the first `runs` of the shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lsn {
    pub record: u64,
    pub runs: u32,
}

/// The operations of a shard that are not in the redo log, in runs: a captured shard contains a run completely or not
/// at all.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// The number of the record to which they will belong.
    pub record: u64,
    runs: Vec<Run>,
    /// The last run is complete.
    is_cut: bool,
}

impl Pending {
    /// Makes an empty list for the record with this number.
    pub fn new(record: u64) -> Pending {
        Pending { record, ..Pending::default() }
    }

    pub fn push(&mut self, operation: Operation) {
        match self.runs.last_mut() {
            // A run that was cut is in a captured shard. An open leaves it out as a whole, so it must not grow.
            Some(run) if !self.is_cut => run.push(operation),
            _ => self.runs.push(vec![operation]),
        }
        self.is_cut = false;
    }

    /// Ends the present run. Returns the state of the shard.
    pub fn cut(&mut self) -> Lsn {
        // The next operation begins a run, which the captured shard does not have.
        self.is_cut = true;
        // Also without operations: then the shard has nothing of the next flush.
        Lsn { record: self.record, runs: self.runs.len() as u32 }
    }

    /// Returns the operations in their order.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.runs.iter().flatten()
    }

    /// Returns the runs; later operations belong to the next record.
    pub fn take(&mut self) -> Vec<Run> {
        // Also without operations, so that all shards have the number of the next flush.
        self.record += 1;
        std::mem::take(&mut self.runs)
    }

    pub fn heap_bytes(&self) -> usize {
        let runs: usize = self.runs.iter().map(|run| run.capacity() * size_of::<Operation>()).sum();
        runs + self.runs.capacity() * size_of::<Run>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_index::coding::mix;

    #[test]
    fn operations_that_are_counted_at_once_give_the_entries_of_each_slot() {
        let mut counted = SlotEntries::new(1_000);
        let mut wanted: BTreeMap<u64, i64> = BTreeMap::new();
        for list in 0..40u64 {
            let mut operations = Vec::new();
            for step in 0..30 {
                let random = mix(list << 8 | step);
                // Ascending, with some slots of several units.
                let (unit, from) = (step * 200 + random % 200, random >> 32 & 0x1fff);
                let operation = match random >> 20 & 3 {
                    0 => Operation::remove(0, from),
                    1 => Operation::replace(0, from, unit),
                    _ => Operation::insert(0, unit),
                };
                if operation.to != NONE {
                    *wanted.entry(operation.to / 1_000).or_default() += 1;
                }
                if operation.from != NONE {
                    *wanted.entry(operation.from / 1_000).or_default() -= 1;
                }
                operations.push(operation);
            }
            counted.apply_all(&operations);
        }
        wanted.retain(|_, entries| *entries != 0);
        counted.counts.retain(|_, entries| *entries != 0);
        assert_eq!(counted.counts, wanted);
    }
}
