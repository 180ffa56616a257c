//! The LogStore's index: partial-key cuckoo hashing (SILT section 3.1), in the improved form of the dissertation's
//! section 2.2.1: the alternate bucket is the current one XOR a hash of the tag, and a tag never changes.
//!
//! ```text
//! bucket   tags of 4 slots                positions
//!    3     | 1a07 | 03c9 |  -   | 2b11 |  |  812 |   77 |   -  | 4051 |
//!    9     |  -   |  -   | 5521 | 03c9 |  |   -  |   -  | 1200 |   31 |
//!
//! key with tag 03c9 and bucket 3: the other bucket is 3 ^ hash(03c9) = 9.
//! candidates: positions 77 and 31. The caller compares the keys of these records.
//! ```
//!
//! An item in bucket 9 with this tag can move to 9 ^ hash(03c9) = 3; its key is not needed for that.
//!
//! Deviations:
//! * The table is divided into *regions*, each for one contiguous range of placements. Read region by region, a table
//!   is sorted by region, so it can be merged as a stream.
//! * The tag is derived from the placement and the first bucket from the fingerprint, not vice versa. So the tags of a
//!   region give the order of its keys, except for equal tags, without access to the keys.
//! * A tag is never 0; 0 marks an empty slot and replaces the paper's valid bit.
//! * A position takes a configurable number of bits instead of 32.
//! * The chain of displacements is searched breadth-first before anything moves, instead of by a random walk: chains
//!   are short, and a failed insertion changes nothing.

mod displacement;
mod geometry;
mod slots;
#[cfg(test)]
mod tests;

use crate::BuildError;
pub use geometry::{BUCKETS_MAX, CuckooSettings, SLOTS_PER_BUCKET};
use slots::Slots;
use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// The number of a slot: its bucket times [`SLOTS_PER_BUCKET`] plus its place in the bucket.
pub type Slot = u32;

const WAYS: usize = SLOTS_PER_BUCKET as usize;
const EMPTY: u16 = 0;

/// The key's buckets are full and no displacement frees a slot. The table is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CuckooFull {
    /// The number of keys in the table.
    pub len: u32,
    /// The number of slots of the table.
    pub slots: u32,
}

impl fmt::Display for CuckooFull {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CuckooFull { len, slots } = self;
        write!(to, "the partial-key cuckoo table cannot take this key: {len} of {slots} slots are occupied")
    }
}

impl std::error::Error for CuckooFull {}

/// A slot that has the tag of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its number in the table.
    pub slot: Slot,
    /// The position stored with the key: that of its record in the log.
    pub position: u32,
}

/// A hash table from keys to positions in a log that stores a tag in place of each key: 5 bytes per slot for tags of 15
/// bits and positions of 24.
///
/// It finds every key that was inserted, and with a probability of about 2^-12 (tags of 15 bits) also one that was not;
/// the caller compares the key of the record. It can be filled to about 95 %. Equal keys are separate: each insertion
/// takes a slot, at most 8 for one key.
///
/// Insertions move other items: a [`Slot`] is valid only until the next [`insert`](Self::insert).
///
/// Only one thread may change a table at a time, which the caller sees to; otherwise entries are lost. Other threads
/// may look up keys meanwhile, without waiting. What they find may be half changed, so they have to notice that there
/// was a change, and repeat the lookup.
///
/// It cannot grow: a full table has to be replaced.
#[derive(Debug)]
pub struct PartialKeyCuckoo {
    settings: CuckooSettings,
    len: AtomicU32,
    slots: Slots,
}

impl Clone for PartialKeyCuckoo {
    fn clone(&self) -> Self {
        PartialKeyCuckoo {
            settings: self.settings,
            len: AtomicU32::new(self.len()),
            slots: self.slots.clone(),
        }
    }
}

impl PartialKeyCuckoo {
    /// Makes an empty table for positions below 2^`position_bits`; higher bits of a position are lost. Allocates all
    /// memory at once.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if a setting is outside its limits; positions have 1 to 32 bits.
    pub fn new(settings: CuckooSettings, position_bits: u8) -> Result<Self, BuildError> {
        settings.check()?;
        if !(1..=32).contains(&position_bits) {
            let got = position_bits.into();
            return Err(BuildError::Setting { name: "position_bits", got, limit: "1 to 32" });
        }
        let slots = Slots::new(settings.buckets(), settings.tag_bits, position_bits);
        Ok(Self { settings, len: AtomicU32::new(0), slots })
    }

    /// Inserts a key, and displaces others if necessary (at most 128; 0.1 on average until the table is 90 % full).
    /// Returns the slot of the key.
    ///
    /// # Errors
    /// [`CuckooFull`] if no slot can be freed. The table is unchanged then, and other keys may still be inserted.
    pub fn insert(&self, placement: u64, fingerprint: u64, position: u32) -> Result<Slot, CuckooFull> {
        let (tag, homes) = self.settings.tag_and_buckets(placement, fingerprint);
        let slot = homes
            .into_iter()
            .find_map(|bucket| self.free_slot(bucket))
            // Only if both buckets are full, because the search for a chain takes longer.
            .or_else(|| self.make_room(homes))
            .ok_or_else(|| CuckooFull { len: self.len(), slots: self.slots() })?;
        // The slot is empty: a displacement has moved its item.
        self.slots.put(slot, tag, position);
        self.len.store(self.len() + 1, Relaxed);
        Ok(slot)
    }

    /// Returns the slots that may hold this key, with their positions: at most 8. Reads two cache lines for the tags,
    /// and one more per candidate.
    pub fn candidates(&self, placement: u64, fingerprint: u64) -> Candidates<'_> {
        let (tag, buckets) = self.settings.tag_and_buckets(placement, fingerprint);
        let slots = MatchingSlots::new(buckets, |bucket| {
            let tags = self.slots.tags(bucket).into_iter().enumerate();
            tags.fold(0, |matches, (way, other)| matches | u8::from(other == tag) << way)
        });
        Candidates { index: self, slots }
    }

    /// Returns the position in a slot; `None` if it is empty or beyond the table.
    pub fn position(&self, slot: Slot) -> Option<u32> {
        // A slot that was returned before an insertion may be empty or have another key now.
        let taken = slot < self.slots() && self.slots.tag(slot) != EMPTY;
        taken.then(|| self.slots.position(slot))
    }

    /// Replaces the position in an occupied slot and returns the old one. Does nothing if the slot is empty.
    pub fn set_position(&self, slot: Slot, position: u32) -> Option<u32> {
        let before = self.position(slot)?;
        self.slots.set_position(slot, position);
        Some(before)
    }

    /// Empties a slot and returns its position.
    pub fn remove(&self, slot: Slot) -> Option<u32> {
        let before = self.position(slot)?;
        self.slots.put(slot, EMPTY, 0);
        self.len.store(self.len() - 1, Relaxed);
        Some(before)
    }

    /// Returns the number of keys in the table.
    pub fn len(&self) -> u32 {
        self.len.load(Relaxed)
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of slots, including empty ones.
    pub fn slots(&self) -> u32 {
        self.settings.slots()
    }

    /// Returns the fraction of slots that are occupied, 0 to 1.
    pub fn occupancy(&self) -> f64 {
        f64::from(self.len()) / f64::from(self.slots())
    }

    /// Returns the heap memory, in bytes. An insertion that displaces others temporarily takes up to 24 KiB and a bit
    /// per bucket more.
    pub fn heap_bytes(&self) -> usize {
        self.slots.heap_bytes()
    }

    /// Returns the settings that the table was made with.
    pub fn settings(&self) -> CuckooSettings {
        self.settings
    }

    /// Returns the number of regions.
    pub fn region_count(&self) -> u32 {
        self.settings.regions
    }

    /// Returns the occupied slots of a region in slot order, with tag and position. Every placement in region *r* is
    /// lower than every one in region *r* + 1; within a region placements ascend with the tags. A region beyond the
    /// last has no slots.
    pub fn region_slots(&self, region: u32) -> impl Iterator<Item = (Slot, u16, u32)> + '_ {
        let slots = u64::from(self.settings.slots_per_region());
        // In 64 bits, because the slots of a region that does not exist may exceed 32.
        let first = (u64::from(region) * slots).min(u64::from(self.slots()));
        let end = (first + slots).min(u64::from(self.slots()));
        (first as Slot..end as Slot).filter_map(|slot| {
            let tag = self.slots.tag(slot);
            (tag != EMPTY).then(|| (slot, tag, self.slots.position(slot)))
        })
    }

    /// Returns the tags of all slots in slot order; 0 for an empty slot.
    pub(crate) fn tags(&self) -> impl Iterator<Item = u16> + '_ {
        (0..self.settings.buckets()).flat_map(|bucket| self.slots.tags(bucket))
    }

    fn free_slot(&self, bucket: u32) -> Option<Slot> {
        // A tag is never 0, so 0 means that the slot is free.
        let way = self.slots.tags(bucket).iter().position(|&tag| tag == EMPTY)?;
        Some(bucket * SLOTS_PER_BUCKET + way as u32)
    }
}

/// The slots in the two buckets of a key that hold its tag.
#[derive(Debug, Clone)]
pub(crate) struct MatchingSlots {
    buckets: [u32; 2],
    /// Bit *i* is set if slot *i* % 4 of bucket *i* / 4 holds the tag.
    matches: u8,
}

impl MatchingSlots {
    /// `matches` returns, for a bucket, a bit per slot that holds the tag.
    pub(crate) fn new(buckets: [u32; 2], matches: impl Fn(u32) -> u8) -> Self {
        // A region of one bucket gives a key the same bucket twice; its slots must not be returned twice.
        let second = if buckets[0] == buckets[1] { 0 } else { matches(buckets[1]) };
        Self { buckets, matches: matches(buckets[0]) | (second << WAYS) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.matches == 0
    }
}

impl Iterator for MatchingSlots {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        if self.matches == 0 {
            return None;
        }
        let bit = self.matches.trailing_zeros();
        self.matches &= self.matches - 1;
        Some(self.buckets[(bit / SLOTS_PER_BUCKET) as usize] * SLOTS_PER_BUCKET + bit % SLOTS_PER_BUCKET)
    }
}

/// The iterator of [`PartialKeyCuckoo::candidates`].
#[derive(Debug, Clone)]
pub struct Candidates<'a> {
    index: &'a PartialKeyCuckoo,
    slots: MatchingSlots,
}

impl Iterator for Candidates<'_> {
    type Item = Candidate;

    fn next(&mut self) -> Option<Candidate> {
        let slot = self.slots.next()?;
        Some(Candidate { slot, position: self.index.slots.position(slot) })
    }
}
