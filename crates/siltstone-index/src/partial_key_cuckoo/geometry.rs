//! The arithmetic of where a key may be, shared by the index in memory and the filter made from it.

use crate::BuildError;

/// The slots per bucket (4-way set associative: SILT section 3.1).
pub const SLOTS_PER_BUCKET: u32 = 4;

/// 2^64 divided by the golden ratio, odd. The highest bits of a product with it depend on all bits of the other factor.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// The maximum number of buckets of an index, in all regions together (2^30 slots).
pub const BUCKETS_MAX: u64 = 1 << 28;

/// The shape of a partial-key cuckoo table. Any number of regions is allowed, so a table can have any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CuckooSettings {
    /// The number of equal ranges that the placements are divided into; at least 1. A key never leaves its region.
    pub regions: u32,
    /// The binary logarithm of the buckets per region. All regions together have at most [`BUCKETS_MAX`].
    pub buckets_per_region_log2: u8,
    /// The width of a tag, 8 to 16 bits. A lookup of an absent key meets an equal tag with a probability of about 8 ×
    /// 0.93 / 2^`tag_bits`: 2^-12 for 15 bits.
    pub tag_bits: u8,
}

impl Default for CuckooSettings {
    /// One region of 2^14 buckets (65,536 slots, 384 KiB) and the paper's tags of 15 bits.
    fn default() -> Self {
        Self { regions: 1, buckets_per_region_log2: 14, tag_bits: 15 }
    }
}

impl CuckooSettings {
    /// Checks all limits, and that the table can be addressed.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let limited = |name, got, allowed: bool, limit| {
            if allowed { Ok(()) } else { Err(BuildError::Setting { name, got, limit }) }
        };
        let (regions, log2) = (u64::from(self.regions), self.buckets_per_region_log2);
        limited("tag_bits", self.tag_bits.into(), (8..=16).contains(&self.tag_bits), "8 to 16")?;
        limited("buckets_per_region_log2", log2.into(), log2 <= 28, "at most 28")?;
        limited("regions", regions, regions >= 1, "at least 1")?;
        // After the limit of the shift, which cannot overflow then.
        limited("regions", regions, regions << log2 <= BUCKETS_MAX, "small enough for at most 2^28 buckets")
    }

    /// Returns the number of buckets of the table.
    pub fn buckets(&self) -> u32 {
        self.regions << self.buckets_per_region_log2
    }

    /// Returns the number of slots of the table.
    pub fn slots(&self) -> u32 {
        self.buckets() * SLOTS_PER_BUCKET
    }

    /// Returns the number of slots of a region.
    pub fn slots_per_region(&self) -> u32 {
        SLOTS_PER_BUCKET << self.buckets_per_region_log2
    }

    /// Returns the region of the keys with this placement. It ascends with the placement.
    pub fn region_of(&self, placement: u64) -> u32 {
        self.region_and_rest(placement).0
    }

    /// Returns the tag of the keys of a placement. Within a region it ascends with the placement.
    pub fn tag_of(&self, placement: u64) -> u16 {
        self.tag_and_buckets(placement, 0).0
    }

    /// Returns the region, and the position of the placement in it, scaled to 64 bits.
    fn region_and_rest(&self, placement: u64) -> (u32, u64) {
        let product = u128::from(placement) * u128::from(self.regions);
        ((product >> 64) as u32, product as u64)
    }

    /// Returns the tag and the two buckets of a key. A tag is never 0, which marks an empty slot. The second bucket
    /// follows from the first and the tag. Tags ascend with the placements of a region.
    pub(crate) fn tag_and_buckets(&self, placement: u64, fingerprint: u64) -> (u16, [u32; 2]) {
        let (region, rest) = self.region_and_rest(placement);
        // Keys that are hashes may be so short that both halves of the hash are equal: the bucket must not depend on
        // the tag.
        let for_bucket = fingerprint.wrapping_mul(GOLDEN_RATIO);
        let tags = (1u64 << self.tag_bits) - 1;
        // From 1 on, because 0 marks an empty slot.
        let tag = 1 + ((u128::from(rest) * u128::from(tags)) >> 64) as u16;
        let local = match self.buckets_per_region_log2 {
            0 => 0,
            bits => for_bucket >> (64 - bits),
        };
        let first = (region << self.buckets_per_region_log2) | local as u32;
        (tag, [first, self.other_bucket(first, tag)])
    }

    /// Returns the other bucket of an item with this tag: the XOR with a hash of the tag, which is its own inverse. The
    /// hash is not 0 if a region has more than one bucket, so the two buckets differ.
    pub(crate) fn other_bucket(&self, bucket: u32, tag: u16) -> u32 {
        let mask = (1u32 << self.buckets_per_region_log2) - 1;
        let hash = u32::from(tag).wrapping_mul(0x5bd1_e995);
        // From 1 to the mask, so the other bucket is another one of the same region.
        let distance = 1 + ((u64::from(hash) * u64::from(mask)) >> 32) as u32;
        bucket ^ (distance & mask)
    }
}
