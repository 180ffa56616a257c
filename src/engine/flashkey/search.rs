//! Finds overwrites that were not noted: those from before an open, and those of keys whose older entries were on
//! flash.
//!
//! 1. A step reads the next entries in the order of their hashes, with a view of the same moment. No lock is held.
//! 2. All but the newest entry of a hash are collected, by segment.
//! 3. What was collected is noted when it is much, and at the end. The notes have no keys, so the records are compared
//!    when they are confirmed.
//!
//! Entries that change meanwhile do no harm: a put notes its own overwrite, and a note only leads to a comparison.

use super::indexed_logs::IndexedLogs;
use super::unconfirmed::SegmentId;
use crate::error::Result;
use crate::store::data_logs::{DataView, Unit};
use std::collections::BTreeMap;

/// The number of entries that a step searches.
const ENTRIES: usize = 16_384;

/// Records that newer ones probably replace, by segment. They are noted all at once, because each segment's notes are
/// searched for them.
#[derive(Default)]
pub(super) struct Found {
    numbers: BTreeMap<SegmentId, Vec<u32>>,
    count: u64,
}

impl Found {
    /// Adds all but the newest entry of a hash.
    fn add(&mut self, view: &DataView, units: impl Iterator<Item = Unit>) {
        for (id, number) in units.skip(1).filter_map(|unit| view.locate(unit)) {
            self.numbers.entry(id).or_default().push(number);
            self.count += 1;
        }
    }

    /// Adds all but the newest entries of these hashes.
    pub fn add_hashes(&mut self, logs: &IndexedLogs, hashes: &[u64]) -> Result<()> {
        if hashes.is_empty() {
            return Ok(());
        }
        // Of one moment, as in a search of the whole index.
        let (groups, view) = logs.look(|index| {
            let lookups = index.look_up(hashes)?;
            lookups.iter().map(|lookup| index.candidates_of(lookup)).collect::<Result<Vec<_>>>()
        })?;
        groups.iter().for_each(|units| self.add(&view, units.iter().copied()));
        Ok(())
    }

    /// Returns the number of records.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Notes the records that have no note.
    pub fn note(&mut self, logs: &IndexedLogs) {
        for (id, numbers) in std::mem::take(&mut self.numbers) {
            logs.unconfirmed.note_missing(id, numbers);
        }
        self.count = 0;
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.numbers.values().map(|numbers| numbers.capacity() * size_of::<u32>()).sum()
    }
}

/// A search of the whole index.
#[derive(Default)]
pub(super) struct IndexSearch {
    next: u64,
    found: Found,
}

impl IndexSearch {
    /// Searches the next entries. What was found is noted when it is `count_max`, or at the end. Returns the search
    /// unless it is complete.
    pub fn step(mut self, logs: &IndexedLogs, count_max: u64) -> Result<Option<IndexSearch>> {
        // Of one moment, so the view has the segment of each unit.
        let (range, view) = logs.look(|index| index.range(self.next, ENTRIES))?;
        for group in range.entries.chunk_by(|one, other| one.0 == other.0) {
            self.found.add(&view, group.iter().map(|entry| entry.1));
        }
        if range.next.is_none() || self.found.count() >= count_max {
            self.found.note(logs);
        }
        Ok(range.next.map(|next| IndexSearch { next, ..self }))
    }

    /// Returns the memory of the search, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.found.heap_bytes()
    }
}
