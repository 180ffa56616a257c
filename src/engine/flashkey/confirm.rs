//! Confirms overwrites: keeps the entry of the newest record of each key and removes the older entries.
//!
//! A [`Confirming`] does this for a segment that is not cleaned soon:
//!
//! 1. It holds the segment, so that this is not released, and takes its [notes](super::unconfirmed).
//! 2. A step reads older records that have notes, without a lock: in long pieces, or record by record if there are few.
//! 3. If a note has the key of the record that was read, a newer record of this key was put: the older one is dead. If
//!    a note has another key or none, the records of all entries of the hash are read and compared.
//! 4. With the writer of the shard locked, the step removes the entries that are still there. If an entry that was
//!    compared has changed since, the oldest one gets a note, and the hash is compared again later.
//!
//! Cleaning does the same with all overwrites of a segment, as it reads all of its records. Nothing is lost in a crash:
//! an entry whose removal is not durable comes back, and an open notes it again.
//!
//! Keys are compared by a hash of 64 bits with a secret of this open. Two different keys whose hashes in the index are
//! equal are taken for one with a probability of 2^-64.

use super::indexed_logs::IndexedLogs;
use super::log_settings::Mistake;
use super::policy::is_read_as_a_whole;
use super::unconfirmed::{NewerKey, Overwrite, SegmentId};
use crate::error::Result;
use crate::store::data_logs::{DataView, Frames, SegmentInfo, Unit};
use crate::store::record::RecordView;
use crate::store::unit_index::{Candidates, Lookup};
use siltstone_device::Purpose;
use std::collections::{HashMap, HashSet};

/// The bytes of a segment that a step reads, and the number of records if it reads them one by one.
const PIECE_BYTES: u64 = 1 << 20;
const READS_PER_STEP: usize = 128;

/// What is known of an entry's record.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Compared {
    pub unit: Unit,
    /// The secret hash of its key.
    pub key: u64,
    pub is_tombstone: bool,
    /// The length of its frame.
    pub bytes: u32,
}

/// A record of an entry that has older or newer ones of its hash, and the hash.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfHash {
    pub hash: u64,
    pub record: Compared,
}

impl OfHash {
    pub fn new(logs: &IndexedLogs, hash: u64, unit: Unit, record: &RecordView<'_>, bytes: u32) -> OfHash {
        let (key, is_tombstone) = (logs.secret_hash(record.key), record.value.is_none());
        OfHash { hash, record: Compared { unit, key, is_tombstone, bytes } }
    }
}

/// What the notes say of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    /// A newer record of the key was put.
    pub is_dead: bool,
    /// The other records of its hash have to be read.
    pub must_compare: bool,
}

/// Returns what the notes say of a record with this key.
pub(super) fn verdict(key: u64, notes: impl IntoIterator<Item = NewerKey>) -> Verdict {
    let mut verdict = Verdict { is_dead: false, must_compare: false };
    for note in notes {
        let is_equal = note == NewerKey::Known(key);
        verdict.is_dead |= is_equal;
        // A later record of this key may be noted at another entry of the hash.
        verdict.must_compare |= !is_equal;
    }
    verdict
}

/// Returns the notes of the unit with this number: `notes` are in the order of the numbers, and the first `passed` are
/// of those before. Moves `passed` after them.
pub(super) fn notes_of<'a>(notes: &'a [Overwrite], passed: &mut usize, number: u32) -> &'a [Overwrite] {
    *passed += notes[*passed..].iter().take_while(|note| note.number() < number).count();
    let start = *passed;
    *passed += notes[start..].iter().take_while(|note| note.number() == number).count();
    &notes[start..*passed]
}

/// Removes the entries of records of a segment that are dead, if they still exist. Returns how many did.
pub(super) fn remove_dead(logs: &IndexedLogs, id: SegmentId, mut dead: Vec<OfHash>) -> Result<u64> {
    let index = &logs.index;
    dead.sort_by_key(|dead| index.shard_of(dead.hash));
    let hashes: Vec<u64> = dead.iter().map(|dead| dead.hash).collect();
    // Pages on flash are read here, before a writer is locked.
    let lookups = index.look_up(&hashes)?;
    let dead: Vec<(OfHash, Lookup)> = dead.into_iter().zip(lookups).collect();
    let mut removed = 0;
    for shard in dead.chunk_by(|one, other| index.shard_of(one.0.hash) == index.shard_of(other.0.hash)) {
        let remove = || {
            let view = logs.data.view();
            for (OfHash { hash, record }, lookup) in shard {
                let units = index.candidates_of(lookup)?;
                let rank = units.iter().position(|unit| *unit == record.unit);
                // If the segment was released, its place may be that of another one.
                let Some(rank) = rank.filter(|_| view.segment_of(record.unit) == Some(id)) else { continue };
                let keeps_older = logs.settings.makes(Mistake::KeepsTheOlder) && rank > 0;
                let gone = if keeps_older { units[rank - 1] } else { record.unit };
                index.remove(*hash, gone);
                logs.add_dead(gone, record.bytes);
                removed += 1;
            }
            Ok(())
        };
        logs.with_writers(shard.iter().take(1).map(|dead| dead.0.hash), || logs.health().run(remove))?;
    }
    Ok(removed)
}

/// Reads the other records of the entries of these hashes, and leaves the newest entry of each key. Returns the
/// number of entries that were removed.
pub(super) fn compare(logs: &IndexedLogs, known: &[OfHash]) -> Result<u64> {
    if known.is_empty() {
        return Ok(0);
    }
    let hashes: Vec<u64> = known.iter().map(|known| known.hash).collect();
    // Entries and view are of one moment: the view can read the records although segments are released meanwhile.
    let (groups, view) = logs.look(|index| {
        let lookups = index.look_up(&hashes)?.into_iter();
        let groups = lookups.map(|lookup| Ok((index.candidates_of(&lookup)?, lookup)));
        groups.collect::<Result<Vec<(Candidates, Lookup)>>>()
    })?;
    let known: HashMap<Unit, Compared> =
        known.iter().map(|known| (known.record.unit, known.record)).collect();
    // Several known records may be of one hash. Of a hash with one entry, only a tombstone can be removed.
    let mut seen = HashSet::new();
    let is_tombstone = |unit: &Unit| known.get(unit).is_some_and(|record| record.is_tombstone);
    let must_compare = |units: &Candidates| units.len() > 1 || units.iter().any(is_tombstone);
    let groups: Vec<_> =
        groups.into_iter().filter(|(units, _)| must_compare(units) && seen.insert(units[0])).collect();
    let mut records: Vec<Compared> = Vec::with_capacity(2 * groups.len());
    let mut unread: Vec<usize> = Vec::with_capacity(groups.len());
    for unit in groups.iter().flat_map(|(units, _)| units.iter()) {
        let record = known.get(unit).copied().unwrap_or_else(|| {
            unread.push(records.len());
            Compared { unit: *unit, ..Compared::default() }
        });
        records.push(record);
    }
    let units: Vec<Unit> = unread.iter().map(|number| records[*number].unit).collect();
    view.read_many(Purpose::Collect, &units, &mut |number, record| {
        let compared = &mut records[unread[number]];
        compared.bytes = logs.data.frame_bytes(record);
        (compared.key, compared.is_tombstone) = (logs.secret_hash(record.key), record.value.is_none());
        Ok(())
    })?;
    let (mut records, mut removed) = (records.into_iter(), Vec::new());
    for (units, lookup) in groups {
        let group = records.by_ref().take(units.len()).collect();
        keep_newest(logs, &lookup, &view, group, &mut removed)?;
    }
    // With their notes, their bytes would count as dead twice.
    logs.unconfirmed.forget_units(removed.iter().filter_map(|unit| view.locate(*unit)).collect());
    Ok(removed.len() as u64)
}

/// Locks the writer of the shard, and removes the entries of records that a newer one replaces, and of tombstones
/// without an older record. `group` has records of this hash that were read in `view`, the newest first. If entries
/// have changed since, this is noted, and they are compared again. Appends the removed ones to `removed`.
fn keep_newest(
    logs: &IndexedLogs,
    lookup: &Lookup,
    view: &DataView,
    mut group: Vec<Compared>,
    removed: &mut Vec<Unit>,
) -> Result<()> {
    let remove = || {
        let now = logs.data.view();
        // The place of a segment that was released may be that of another one.
        let before = group.len();
        group.retain(|record| now.segment_of(record.unit) == view.segment_of(record.unit));
        let has_moved = group.len() < before;
        let has_moved = remove_replaced(logs, lookup, &group, has_moved, removed)?;
        let units = logs.index.candidates_of(lookup)?;
        // This note makes a later job compare all entries of the hash.
        if let Some(oldest) = units.last().filter(|_| has_moved && units.len() > 1) {
            logs.note_overwrite(&now, *oldest, NewerKey::Unknown);
        }
        Ok(())
    };
    logs.with_writers(std::iter::once(lookup.hash()), || logs.health().run(remove))
}

/// Appends the entries that it removes to `removed`. Returns whether others have changed.
fn remove_replaced(
    logs: &IndexedLogs,
    lookup: &Lookup,
    group: &[Compared],
    mut has_moved: bool,
    removed: &mut Vec<Unit>,
) -> Result<bool> {
    let hash = lookup.hash();
    let rank = |units: &Candidates, unit: Unit| units.iter().position(|other| *other == unit);
    for (number, older) in group.iter().enumerate() {
        let Some(newer) = group[..number].iter().find(|newer| newer.key == older.key) else { continue };
        let units = logs.index.candidates_of(lookup)?;
        match (rank(&units, newer.unit), rank(&units, older.unit)) {
            (Some(young), Some(old)) if young < old => {
                let keeps_older = logs.settings.makes(Mistake::KeepsTheOlder);
                let gone = if keeps_older { newer } else { older };
                logs.index.remove(hash, gone.unit);
                logs.add_dead(gone.unit, gone.bytes);
                removed.push(gone.unit);
            }
            // It was removed, or moved by a cleaning, which compares it itself or takes its notes along.
            (_, None) => {}
            // The newer one was moved or replaced since. Without its entry, the older one may be the only one of the
            // key.
            _ => has_moved = true,
        }
    }
    // A tombstone hides what the store below has, so it goes only when it leaves.
    if logs.settings.has_below {
        return Ok(has_moved);
    }
    // Without an older entry that may be of its key, a tombstone hides nothing.
    // The oldest first: without it, a newer tombstone of the same key may be the oldest.
    for (number, tombstone) in group.iter().enumerate().filter(|(_, record)| record.is_tombstone).rev() {
        let is_other = |unit: &Unit| {
            let mut older = group[number + 1..].iter();
            older.any(|older| older.unit == *unit && older.key != tombstone.key)
        };
        let units = logs.index.candidates_of(lookup)?;
        // An older entry that was not read, or has moved since, may be of its key.
        if let Some(rank) = rank(&units, tombstone.unit)
            && units[rank + 1..].iter().all(is_other)
        {
            logs.index.remove(hash, tombstone.unit);
            logs.add_dead(tombstone.unit, tombstone.bytes);
            removed.push(tombstone.unit);
        }
    }
    Ok(has_moved)
}

/// A segment whose overwrites are confirmed. No view is kept between steps: it would keep the space of all segments
/// that are released meanwhile.
pub(super) struct Confirming {
    id: SegmentId,
    first_unit: Unit,
    /// In the order of the units. The first ones are passed.
    notes: Vec<Overwrite>,
    passed: usize,
    /// The segment, if it is read as a whole.
    frames: Option<Frames>,
}

impl Confirming {
    /// Begins with a finished segment, which this job holds.
    pub fn begin(logs: &IndexedLogs, segment: &SegmentInfo) -> Confirming {
        let id = (segment.class, segment.base);
        let mut notes = Vec::new();
        logs.unconfirmed.take(id, &mut notes);
        notes.sort_unstable_by_key(Overwrite::number);
        let is_whole = is_read_as_a_whole(notes.len() as u64, segment.bytes);
        let frames = is_whole.then(|| logs.data.view().frames(segment.class, segment.base, Purpose::Collect));
        let first_unit = logs.first_unit(segment);
        Confirming { id, first_unit, notes, passed: 0, frames }
    }

    /// Confirms the next ones, of at most this many bytes of a segment that is read as a whole. Returns the number of
    /// entries that were removed, and whether the job is complete.
    pub fn step(&mut self, logs: &IndexedLogs, bytes_max: u64) -> Result<(u64, bool)> {
        let start = self.passed;
        let (mut dead, mut unclear) = (Vec::new(), Vec::new());
        for (record, notes) in self.read(logs, bytes_max.min(PIECE_BYTES))? {
            let verdict = verdict(record.record.key, notes.iter().map(Overwrite::key));
            if verdict.is_dead {
                dead.push(record);
            }
            if verdict.must_compare {
                unclear.push(record);
            }
        }
        let removed = compare(logs, &unclear)? + remove_dead(logs, self.id, dead)?;
        // Also notes of records that have no entry any more.
        logs.unconfirmed.resolve(self.id, (self.passed - start) as u64);
        let is_complete = self.passed == self.notes.len();
        if is_complete {
            // Notes made since the job began are left for another one.
            logs.unconfirmed.end_hold(self.id);
        }
        Ok((removed, is_complete))
    }

    /// Reads the next records that have notes.
    fn read(&mut self, logs: &IndexedLogs, piece_bytes: u64) -> Result<Vec<(OfHash, &[Overwrite])>> {
        let Confirming { first_unit, notes, passed, frames, .. } = self;
        let notes: &[Overwrite] = notes;
        let of_hash = |unit: Unit, record: &RecordView<'_>, bytes: u32| {
            OfHash::new(logs, logs.hasher().hash(record.key).placement, unit, record, bytes)
        };
        let mut read = Vec::new();
        if let Some(frames) = frames {
            let start = frames.position();
            while let Some(number) = notes.get(*passed).map(Overwrite::number)
                && frames.position() < start + piece_bytes
            {
                let of_unit = notes_of(notes, passed, number);
                let unit = *first_unit + u64::from(number);
                frames.record_at(number, &mut |record, bytes| {
                    read.push((of_hash(unit, record, bytes), of_unit));
                    Ok(())
                })?;
            }
            return Ok(read);
        }
        let mut wanted = Vec::with_capacity(READS_PER_STEP);
        while let Some(number) = notes.get(*passed).map(Overwrite::number)
            && wanted.len() < READS_PER_STEP
        {
            wanted.push((*first_unit + u64::from(number), notes_of(notes, passed, number)));
        }
        let units: Vec<Unit> = wanted.iter().map(|(unit, _)| *unit).collect();
        // The job holds the segment, so it is in each later view.
        logs.data.view().read_many(Purpose::Collect, &units, &mut |number, record| {
            let (unit, of_unit) = wanted[number];
            read.push((of_hash(unit, record, logs.data.frame_bytes(record)), of_unit));
            Ok(())
        })?;
        Ok(read)
    }

    /// Returns the memory of the job, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let frames = self.frames.as_ref().map_or(0, Frames::heap_bytes);
        frames + self.notes.capacity() * size_of::<Overwrite>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_dead_if_a_note_has_its_key_and_compared_if_one_has_not() {
        let (key, other) = (NewerKey::Known(7), NewerKey::Known(8));
        for (notes, is_dead, must_compare) in [
            (vec![], false, false),
            (vec![key, key], true, false),
            (vec![other], false, true),
            (vec![NewerKey::Unknown], false, true),
            (vec![other, key], true, true),
        ] {
            assert_eq!(verdict(7, notes), Verdict { is_dead, must_compare });
        }
    }
}
