//! Unconfirmed overwrites: records whose hash a newer record has as well, probably because both have the same key.
//!
//! ```text
//! segment 0   7 (key 52..) 201 (key e0..) 93 (unknown)     numbers of units, each with the key of the newer record
//! segment 1   4 (key 17..) ...
//! ```
//!
//! Before a put inserts its entry, under the writer's lock, it notes the older record in that record's segment. The
//! note stays valid: a record with this key was put after the one at this unit. So a job that reads the older record,
//! as cleaning does, needs no other read to know whether it is dead. Only if the keys differ, or the key was not known,
//! the records of all entries of the hash are compared.
//!
//! Notes are not durable. After an open, a search of the index notes the entries of equal hashes again. A note that is
//! missing costs no more than a comparison when the segment is cleaned.

use siltstone_device::sync::Mutex;
use siltstone_device::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::collections::BTreeMap;

/// The memory of a note, in bytes.
pub const NOTE_BYTES: usize = size_of::<Overwrite>();
/// The notes of a segment grow by this share, and by this many.
const GROWTH: usize = 8;
const GROWTH_MIN: usize = 4;

/// Class and base of a segment.
pub(super) type SegmentId = (u8, u64);

/// The key of the newer record of an overwrite, as a secret hash of this open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewerKey {
    Known(u64),
    /// It was not at hand, or the newer record is a tombstone, which has to be found as well.
    Unknown,
}

// A key with this hash counts as unknown, which costs a comparison.
const UNKNOWN: u64 = 0;

/// A record that a newer one probably replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overwrite {
    /// The number of the unit of the older record in its segment.
    number: u32,
    /// The secret hash of the key of the newer record, low part first; 0 if it is unknown.
    key: [u32; 2],
}

impl Overwrite {
    fn new(number: u32, key: NewerKey) -> Overwrite {
        let hash = match key {
            NewerKey::Known(hash) => hash,
            NewerKey::Unknown => UNKNOWN,
        };
        Overwrite { number, key: [hash as u32, (hash >> 32) as u32] }
    }

    /// Returns the number of the unit of the older record in its segment.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the key of the newer record.
    pub fn key(&self) -> NewerKey {
        match u64::from(self.key[0]) | u64::from(self.key[1]) << 32 {
            UNKNOWN => NewerKey::Unknown,
            hash => NewerKey::Known(hash),
        }
    }
}

/// The overwrites of a segment.
#[derive(Default)]
struct OfSegment {
    notes: Vec<Overwrite>,
    /// The number of those, and of those that a job has taken and not resolved.
    count: u64,
    /// Whether a job works on the segment.
    is_held: bool,
}

/// The unconfirmed overwrites of all segments.
#[derive(Default)]
pub(super) struct Unconfirmed {
    segments: Mutex<BTreeMap<SegmentId, OfSegment>>,
    count: AtomicU64,
    heap_bytes: AtomicUsize,
}

impl Unconfirmed {
    /// Notes that the record at this unit of a segment is probably replaced by a record with this key.
    pub fn note(&self, id: SegmentId, number: u32, key: NewerKey) {
        let mut segments = self.segments.lock();
        let segment = segments.entry(id).or_default();
        let before = segment.notes.capacity();
        if segment.notes.len() == before {
            segment.notes.reserve_exact(before / GROWTH + GROWTH_MIN);
            let added = segment.notes.capacity() - before;
            self.heap_bytes.fetch_add(added * NOTE_BYTES, Relaxed);
        }
        segment.notes.push(Overwrite::new(number, key));
        segment.count += 1;
        self.count.fetch_add(1, Relaxed);
    }

    /// Returns the number of overwrites that are not resolved.
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Returns the number of each segment that has some, and whether a job works on it.
    pub fn of_segments(&self) -> BTreeMap<SegmentId, (u64, bool)> {
        let segments = self.segments.lock();
        segments.iter().map(|(id, segment)| (*id, (segment.count, segment.is_held))).collect()
    }

    /// Reserves a segment for a job. Returns false if another one has it.
    pub fn hold(&self, id: SegmentId) -> bool {
        !std::mem::replace(&mut self.segments.lock().entry(id).or_default().is_held, true)
    }

    /// Ends the reservation.
    pub fn end_hold(&self, id: SegmentId) {
        if let Some(segment) = self.segments.lock().get_mut(&id) {
            segment.is_held = false;
        }
    }

    /// Moves the notes of a segment to `taken`, in any order. They count until they are resolved.
    pub fn take(&self, id: SegmentId, taken: &mut Vec<Overwrite>) {
        let mut segments = self.segments.lock();
        if let Some(segment) = segments.get_mut(&id).filter(|segment| !segment.notes.is_empty()) {
            let notes = std::mem::take(&mut segment.notes);
            self.heap_bytes.fetch_sub(notes.capacity() * NOTE_BYTES, Relaxed);
            // The copy below needs no lock: puts note overwrites under it.
            drop(segments);
            match taken.is_empty() {
                true => *taken = notes,
                false => taken.extend(notes),
            }
        }
    }

    /// Returns the keys of the newer records that are noted for a unit, as far as they were not taken.
    pub fn of_unit(&self, id: SegmentId, number: u32) -> Vec<NewerKey> {
        let segments = self.segments.lock();
        let notes = segments.get(&id).map_or(&[][..], |segment| &segment.notes);
        notes.iter().filter(|note| note.number == number).map(Overwrite::key).collect()
    }

    /// Counts overwrites of a segment that were taken as resolved; no more than it has besides those in notes.
    pub fn resolve(&self, id: SegmentId, count: u64) {
        if let Some(segment) = self.segments.lock().get_mut(&id) {
            let taken = segment.count.saturating_sub(segment.notes.len() as u64);
            let resolved = count.min(taken);
            segment.count -= resolved;
            self.count.fetch_sub(resolved, Relaxed);
        }
    }

    /// Forgets the notes of units to which no entry points any more, as far as they were not taken. Searches the notes
    /// of each segment once.
    pub fn forget_units(&self, mut units: Vec<(SegmentId, u32)>) {
        units.sort_unstable();
        let mut segments = self.segments.lock();
        for of_segment in units.chunk_by(|one, other| one.0 == other.0) {
            let id = of_segment[0].0;
            let Some(segment) = segments.get_mut(&id) else { continue };
            let before = segment.notes.len();
            segment.notes.retain(|note| of_segment.binary_search(&(id, note.number)).is_err());
            let forgotten = (before - segment.notes.len()) as u64;
            segment.count -= forgotten;
            self.count.fetch_sub(forgotten, Relaxed);
            let (len, capacity) = (segment.notes.len(), segment.notes.capacity());
            if capacity > len + 2 * (len / GROWTH + GROWTH_MIN) {
                segment.notes.shrink_to(len + len / GROWTH + GROWTH_MIN);
                let freed = capacity - segment.notes.capacity();
                self.heap_bytes.fetch_sub(freed * NOTE_BYTES, Relaxed);
            }
        }
    }

    /// Notes for the units of a segment with these numbers that newer records of unknown keys probably replace their
    /// records, except those for which there are notes.
    pub fn note_missing(&self, id: SegmentId, mut numbers: Vec<u32>) {
        numbers.sort_unstable();
        numbers.dedup();
        let mut segments = self.segments.lock();
        let segment = segments.entry(id).or_default();
        // For the search below. The order does not matter otherwise: who takes the notes sorts them.
        segment.notes.sort_by_key(Overwrite::number);
        // A note with a key is better: it shows that the older record is dead without a comparison.
        let has_note = |number: &u32| segment.notes.binary_search_by_key(number, Overwrite::number).is_ok();
        numbers.retain(|number| !has_note(number));
        let before = segment.notes.capacity();
        segment.notes.reserve_exact(numbers.len());
        segment.notes.extend(numbers.iter().map(|number| Overwrite::new(*number, NewerKey::Unknown)));
        self.heap_bytes.fetch_add((segment.notes.capacity() - before) * NOTE_BYTES, Relaxed);
        segment.count += numbers.len() as u64;
        self.count.fetch_add(numbers.len() as u64, Relaxed);
    }

    /// Forgets a segment to which no entry points.
    pub fn forget(&self, id: SegmentId) {
        if let Some(segment) = self.segments.lock().remove(&id) {
            self.count.fetch_sub(segment.count, Relaxed);
            self.heap_bytes.fetch_sub(segment.notes.capacity() * NOTE_BYTES, Relaxed);
        }
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.heap_bytes.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_count_until_they_are_resolved_or_their_segment_is_gone() {
        let unconfirmed = Unconfirmed::default();
        let key = |number: u32| NewerKey::Known(u64::MAX - u64::from(number));
        (0..1_000).for_each(|number| unconfirmed.note((1, 64), number, key(number)));
        unconfirmed.note((0, 0), 9, NewerKey::Unknown);
        let bytes = unconfirmed.heap_bytes();
        assert!((1_001 * NOTE_BYTES..1_200 * NOTE_BYTES).contains(&bytes));
        assert!(unconfirmed.hold((1, 64)) && !unconfirmed.hold((1, 64)));
        let mut taken = Vec::new();
        unconfirmed.take((1, 64), &mut taken);
        unconfirmed.note((1, 64), 7, NewerKey::Unknown);
        assert_eq!(unconfirmed.of_unit((1, 64), 7), [NewerKey::Unknown]);
        unconfirmed.take((1, 64), &mut taken);
        assert_eq!(taken.len(), 1_001);
        assert!(
            taken[..1_000]
                .iter()
                .zip(0..)
                .all(|(note, number)| { (note.number(), note.key()) == (number, key(number)) })
        );
        assert_eq!((unconfirmed.count(), unconfirmed.of_segments()[&(1, 64)]), (1_002, (1_001, true)));
        unconfirmed.resolve((1, 64), 1_000);
        unconfirmed.end_hold((1, 64));
        assert_eq!((unconfirmed.count(), unconfirmed.of_segments()[&(1, 64)]), (2, (1, false)));
        // Only one was taken and is not resolved; the other one is a note.
        unconfirmed.note((1, 64), 5, NewerKey::Unknown);
        unconfirmed.resolve((1, 64), 9);
        assert_eq!((unconfirmed.count(), unconfirmed.of_segments()[&(1, 64)]), (2, (1, false)));
        unconfirmed.note_missing((0, 0), vec![9, 7, 8, 7]);
        unconfirmed.forget((1, 64));
        assert_eq!((unconfirmed.count(), unconfirmed.of_segments()[&(0, 0)]), (3, (3, false)));
        unconfirmed.forget_units(vec![((0, 0), 8), ((0, 0), 6), ((1, 64), 7)]);
        assert_eq!((unconfirmed.count(), unconfirmed.of_unit((0, 0), 8)), (2, vec![]));
        // Forgotten notes take no memory.
        (0..1_000).for_each(|number| unconfirmed.note((0, 0), 10 + number, NewerKey::Unknown));
        assert!(unconfirmed.heap_bytes() > 1_000 * NOTE_BYTES);
        unconfirmed.forget_units((10..1_010).map(|number| ((0, 0), number)).collect());
        assert!(unconfirmed.heap_bytes() < 20 * NOTE_BYTES, "{}", unconfirmed.heap_bytes());
        unconfirmed.forget((0, 0));
        assert_eq!((unconfirmed.count(), unconfirmed.heap_bytes()), (0, 0));
    }
}
