//! A bucket: a cache line of eight words.
//!
//! | word | contains |
//! |---|---|
//! | 0 | version (32 bits), number of the next spare bucket or 0 (32 bits) |
//! | 1, 2 | the tags of entries 0 to 7, 16 bits each; 0 for an empty entry |
//! | 3 | the tag of entry 8 (16 bits), unused (16 bits), the offset of entry 8 (32 bits) |
//! | 4 to 7 | the offsets of entries 0 to 7, 32 bits each |
//!
//! ```text
//!         63            32              0
//! word 0  | next spare   |   version    |
//! word 1  | t3  | t2  | t1  | t0  |
//! word 2  | t7  | t6  | t5  | t4  |
//! word 3  | offset 8     | -   | t8  |
//! word 4  | offset 1     | offset 0     |   ..
//! ```

use super::atomic::{AtomicU64, Ordering::Relaxed};

/// Words per bucket.
pub(super) const LINE_WORDS: usize = 8;
/// Entries per bucket.
pub const BUCKET_ENTRIES: usize = 9;

const LAST: usize = BUCKET_ENTRIES - 1;
pub(super) const LANES: u64 = 0x0001_0001_0001_0001;
const LOW_BITS: u64 = 0x7fff * LANES;
/// A factor that gathers the lowest bits of four lanes of 16 bits in bits 48 to 51.
const GATHER: u64 = 1 << 48 | 1 << 33 | 1 << 18 | 1 << 3;

#[derive(Clone, Copy)]
pub(super) struct Line<'a>(pub(super) &'a [AtomicU64]);

impl<'a> Line<'a> {
    #[inline]
    pub fn header(self) -> &'a AtomicU64 {
        &self.0[0]
    }

    /// Returns the next spare bucket of the chain, counted from 1; 0 for none.
    #[inline]
    pub fn next(self) -> u32 {
        // Relaxed, as all words of a bucket: the fences of `Mode` order them.
        (self.header().load(Relaxed) >> 32) as u32
    }

    /// Sets the next spare bucket. The bucket must be locked.
    pub fn set_next(self, next: u32) {
        // The bucket is locked, so no other thread changes the version between the load and the store.
        let version = self.header().load(Relaxed) & u64::from(u32::MAX);
        self.header().store(u64::from(next) << 32 | version, Relaxed);
    }

    /// Returns the entries with this tag.
    #[inline]
    pub fn with_tag(self, tag: u16) -> Slots {
        let sought = u64::from(tag) * LANES;
        let low = equal_lanes(self.0[1].load(Relaxed), sought);
        let high = equal_lanes(self.0[2].load(Relaxed), sought);
        let last = u32::from(self.0[3].load(Relaxed) as u16 == tag);
        Slots(low | high << 4 | last << LAST)
    }

    /// Returns the entries in use.
    #[inline]
    pub fn used(self) -> Slots {
        // No used entry has tag 0: `home` makes no such tag.
        Slots(!self.with_tag(0).0 & ((1 << BUCKET_ENTRIES) - 1))
    }

    #[inline]
    pub fn offset(self, slot: usize) -> u32 {
        let word = if slot >= LAST { 3 } else { 4 + slot / 2 };
        let shift = if slot >= LAST { 32 } else { slot % 2 * 32 };
        (self.0[word].load(Relaxed) >> shift) as u32
    }

    #[inline]
    pub fn tag(self, slot: usize) -> u16 {
        // No slot is higher: this only bounds the index.
        let slot = slot.min(LAST);
        (self.0[1 + slot / 4].load(Relaxed) >> (slot % 4 * 16)) as u16
    }

    #[inline]
    pub fn set(self, slot: usize, tag: u16, offset: u32) {
        self.set_offset(slot, offset);
        self.set_tag(slot, tag);
    }

    #[inline]
    pub fn set_offset(self, slot: usize, offset: u32) {
        let (word, shift) = if slot >= LAST { (3, 32) } else { (4 + slot / 2, slot % 2 * 32) };
        // Two entries share the word. The bucket is locked, so no change of the other one is lost.
        let others = self.0[word].load(Relaxed) & !(u64::from(u32::MAX) << shift);
        self.0[word].store(others | u64::from(offset) << shift, Relaxed);
    }

    #[inline]
    pub fn set_tag(self, slot: usize, tag: u16) {
        let slot = slot.min(LAST);
        let (word, shift) = (1 + slot / 4, slot % 4 * 16);
        // Up to four entries share the word. The bucket is locked, so no change of the others is lost.
        let others = self.0[word].load(Relaxed) & !(u64::from(u16::MAX) << shift);
        self.0[word].store(others | u64::from(tag) << shift, Relaxed);
    }
}

/// Returns a bit per lane of 16 bits that is equal in both words.
#[inline]
pub(super) fn equal_lanes(word: u64, sought: u64) -> u32 {
    // Lanes that are equal are 0 in `difference`. Adding 0x7fff sets the highest bit of a lane unless its other bits
    // are all 0, and carries nothing into the next lane.
    let difference = word ^ sought;
    let zero = !(((difference & LOW_BITS) + LOW_BITS) | difference | LOW_BITS);
    // Each lane adds a bit at four places, all of them different, so nothing is carried into the gathered bits.
    ((zero >> 15).wrapping_mul(GATHER) >> 48) as u32 & 0xf
}

/// A set of entries of a bucket, as an iterator in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slots(u32);

impl Slots {
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Iterator for Slots {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let slot = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(slot)
    }
}
