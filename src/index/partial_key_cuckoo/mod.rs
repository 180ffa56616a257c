//! The LogStore's index: partial-key cuckoo hashing (SILT section 3.1; the improved form of the dissertation's
//! section 2.2.1, where the alternate bucket is the current one XOR the hash of the tag, and a tag never changes).
//!
//! Where it deviates:
//! - The table is cut into *regions*, each the home of one contiguous range of placements. A table that is read region
//!   by region is therefore sorted by region, and can be merged as a stream.
//! - A tag is made of the placement and the first bucket of the fingerprint, not the other way round: so the tags of a
//!   region tell the order of its keys, but for those that are alike, without a look at the keys.
//! - A tag is never 0, and 0 is an empty slot: it does the work of the paper's valid bit.
//! - A position takes as many bits as were asked for, not a fixed 32.
//! - The chain of displacements is searched breadth-first before anything moves, instead of walked at random: chains
//!   are short, and an insertion that fails has changed nothing.

mod displacement;
mod geometry;
mod slots;
#[cfg(test)]
mod tests;

use crate::index::BuildError;
pub use geometry::{BUCKETS_MAX, CuckooSettings, SLOTS_PER_BUCKET};
use slots::Slots;

/// The number of a slot: its bucket times [`SLOTS_PER_BUCKET`] plus its place in the bucket.
pub type Slot = u32;

const WAYS: usize = SLOTS_PER_BUCKET as usize;
const EMPTY: u16 = 0;

/// There is no room for the key, neither in its buckets nor by moving others. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the partial-key cuckoo table has no room for this key: {len} of {slots} slots are occupied")]
pub struct CuckooFull {
    /// The keys in the table.
    pub len: u32,
    /// The slots of the table.
    pub slots: u32,
}

/// A slot whose tag is that of the key looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Where in the table.
    pub slot: Slot,
    /// What was stored with the key: where its record stands in the log.
    pub position: u32,
}

/// A hash table from keys to positions in a log, which keeps of each key only a tag: 5 bytes a slot for tags of 15 bits
/// and positions of 24.
///
/// It finds every key that was inserted, and with a probability of about 2^-12 (tags of 15 bits) also one that was not:
/// who asks must compare the key at the position. It can be filled to about 95 %. Equal keys are kept apart: each
/// insertion takes a slot of its own, at most 8 for one key.
///
/// Slots move when others are inserted: a [`Slot`] is good only until the next [`insert`](Self::insert).
///
/// It is bad at growing: its size is fixed, and a full one is to be replaced.
#[derive(Debug, Clone)]
pub struct PartialKeyCuckoo {
    settings: CuckooSettings,
    len: u32,
    slots: Slots,
}

impl PartialKeyCuckoo {
    /// An empty table for positions below 2^`position_bits` (of higher ones the upper bits are lost); all its memory is
    /// taken at once.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if a setting is outside its limits: positions have 1 to 32 bits.
    pub fn new(settings: CuckooSettings, position_bits: u8) -> Result<Self, BuildError> {
        settings.check()?;
        if !(1..=32).contains(&position_bits) {
            let got = position_bits.into();
            return Err(BuildError::Setting { name: "position_bits", got, limit: "1 to 32" });
        }
        let slots = Slots::new(settings.buckets(), settings.tag_bits, position_bits);
        Ok(Self { settings, len: 0, slots })
    }

    /// Puts a key into the table, and others out of its way if need be (at most 128; on average 0.1 until the
    /// table is 90 % full). Answers where the key stands now.
    ///
    /// # Errors
    /// [`CuckooFull`] if there is no room; then nothing has changed, and other keys may still find room.
    pub fn insert(&mut self, placement: u64, fingerprint: u64, position: u32) -> Result<Slot, CuckooFull> {
        let (tag, homes) = self.settings.tag_and_buckets(placement, fingerprint);
        let slot = homes
            .into_iter()
            .find_map(|bucket| self.free_slot(bucket))
            .or_else(|| self.make_room(homes))
            .ok_or(CuckooFull { len: self.len, slots: self.slots() })?;
        self.put(slot, tag, position);
        self.len += 1;
        Ok(slot)
    }

    /// The slots that may hold this key, with their positions: at most 8. Two cache lines are read for the tags,
    /// and one more for each candidate.
    pub fn candidates(&self, placement: u64, fingerprint: u64) -> Candidates<'_> {
        let (tag, buckets) = self.settings.tag_and_buckets(placement, fingerprint);
        let slots = MatchingSlots::new(buckets, |bucket| {
            let tags = self.slots.tags(bucket).into_iter().enumerate();
            tags.fold(0, |matches, (way, other)| matches | u8::from(other == tag) << way)
        });
        Candidates { index: self, slots }
    }

    /// What is stored in a slot; nothing if it is empty or beyond the table.
    pub fn position(&self, slot: Slot) -> Option<u32> {
        let (bucket, way) = split(slot);
        let taken = slot < self.slots() && self.slots.tags(bucket)[way] != EMPTY;
        taken.then(|| self.slots.position(bucket, way))
    }

    /// Stores another position in an occupied slot, and answers the one before. It leaves an empty slot empty.
    pub fn set_position(&mut self, slot: Slot, position: u32) -> Option<u32> {
        let before = self.position(slot)?;
        let (bucket, way) = split(slot);
        self.slots.set_position(bucket, way, position);
        Some(before)
    }

    /// Empties a slot, and answers the position that it held.
    pub fn remove(&mut self, slot: Slot) -> Option<u32> {
        let before = self.position(slot)?;
        self.put(slot, EMPTY, 0);
        self.len -= 1;
        Some(before)
    }

    /// The number of keys in the table.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is no key in the table.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All slots, empty ones too.
    pub fn slots(&self) -> u32 {
        self.settings.slots()
    }

    /// The part of the slots that is occupied, 0 to 1.
    pub fn occupancy(&self) -> f64 {
        f64::from(self.len) / f64::from(self.slots())
    }

    /// All the memory on the heap, in bytes: that of the slots. An insertion that has to move others takes up to 24 KiB
    /// and a bit a bucket for as long as it lasts.
    pub fn heap_bytes(&self) -> usize {
        self.slots.heap_bytes()
    }

    /// The shape that it was made with.
    pub fn settings(&self) -> CuckooSettings {
        self.settings
    }

    /// The number of regions.
    pub fn region_count(&self) -> u32 {
        self.settings.regions
    }

    /// The occupied slots of a region in slot order, with tag and position. Every placement in region *r* is lower than
    /// every one in region *r* + 1; inside a region placements ascend with the tags. There
    /// are none in a region beyond the last.
    pub fn region_slots(&self, region: u32) -> impl Iterator<Item = (Slot, u16, u32)> + '_ {
        let slots = u64::from(self.settings.slots_per_region());
        let first = (u64::from(region) * slots).min(u64::from(self.slots()));
        let end = (first + slots).min(u64::from(self.slots()));
        (first as Slot..end as Slot).filter_map(|slot| {
            let (bucket, way) = split(slot);
            let tag = self.slots.tags(bucket)[way];
            (tag != EMPTY).then(|| (slot, tag, self.slots.position(bucket, way)))
        })
    }

    /// The tags of all slots in slot order; 0 is an empty slot.
    pub(crate) fn tags(&self) -> impl Iterator<Item = u16> + '_ {
        (0..self.settings.buckets()).flat_map(|bucket| self.slots.tags(bucket))
    }

    fn free_slot(&self, bucket: u32) -> Option<Slot> {
        let way = self.slots.tags(bucket).iter().position(|&tag| tag == EMPTY)?;
        Some(bucket * SLOTS_PER_BUCKET + way as u32)
    }

    fn put(&mut self, slot: Slot, tag: u16, position: u32) {
        let (bucket, way) = split(slot);
        self.slots.put(bucket, way, tag, position);
    }
}

/// The bucket of a slot, and its place in the bucket.
fn split(slot: Slot) -> (u32, usize) {
    (slot / SLOTS_PER_BUCKET, (slot % SLOTS_PER_BUCKET) as usize)
}

/// The slots in the two buckets of a key that hold its tag.
#[derive(Debug, Clone)]
pub(crate) struct MatchingSlots {
    buckets: [u32; 2],
    /// Bit *i* is set if slot *i* % 4 of bucket *i* / 4 holds the tag.
    matches: u8,
}

impl MatchingSlots {
    /// `matches` tells of a bucket which of its places hold the tag, a bit each.
    pub(crate) fn new(buckets: [u32; 2], matches: impl Fn(u32) -> u8) -> Self {
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

/// The answer of [`PartialKeyCuckoo::candidates`].
#[derive(Debug, Clone)]
pub struct Candidates<'a> {
    index: &'a PartialKeyCuckoo,
    slots: MatchingSlots,
}

impl Iterator for Candidates<'_> {
    type Item = Candidate;

    fn next(&mut self) -> Option<Candidate> {
        let slot = self.slots.next()?;
        let (bucket, way) = split(slot);
        Some(Candidate { slot, position: self.index.slots.position(bucket, way) })
    }
}
