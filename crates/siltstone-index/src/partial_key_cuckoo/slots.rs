//! The slots in memory: per bucket its four tags, then its four positions, packed without gaps.

use super::{SLOTS_PER_BUCKET, Slot, WAYS};

/// The bytes of one read, at any offset.
const WORD_BYTES: usize = size_of::<u64>();

/// The tags and positions of all buckets.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    /// The buckets one after another, each rounded up to bytes, and a word of padding for reads of the last bucket.
    bytes: Vec<u8>,
    bucket_bytes: usize,
    tag_bits: u32,
    position_bits: u32,
}

impl Slots {
    /// Makes empty slots.
    pub(super) fn new(buckets: u32, tag_bits: u8, position_bits: u8) -> Self {
        let bucket_bytes = (WAYS * usize::from(tag_bits + position_bits)).div_ceil(8);
        let bytes = vec![0; buckets as usize * bucket_bytes + WORD_BYTES];
        Self { bytes, bucket_bytes, tag_bits: tag_bits.into(), position_bits: position_bits.into() }
    }

    /// Returns the tags of a bucket.
    pub(super) fn tags(&self, bucket: u32) -> [u16; WAYS] {
        // Four tags of up to 16 bits fit in one word.
        let word = self.word(bucket as usize * self.bucket_bytes);
        std::array::from_fn(|way| (word >> (way as u32 * self.tag_bits) & low_ones(self.tag_bits)) as u16)
    }

    pub(super) fn tag(&self, slot: Slot) -> u16 {
        self.tags(slot / SLOTS_PER_BUCKET)[(slot % SLOTS_PER_BUCKET) as usize]
    }

    pub(super) fn position(&self, slot: Slot) -> u32 {
        let (byte, shift) = self.place_of_position(slot);
        // At most 32 bits after at most 7 others, so one word has all of them.
        (self.word(byte) >> shift & low_ones(self.position_bits)) as u32
    }

    pub(super) fn set_position(&mut self, slot: Slot, position: u32) {
        let (byte, shift) = self.place_of_position(slot);
        self.set(byte, shift, self.position_bits, position.into());
    }

    pub(super) fn put(&mut self, slot: Slot, tag: u16, position: u32) {
        let byte = (slot / SLOTS_PER_BUCKET) as usize * self.bucket_bytes;
        self.set(byte, slot % SLOTS_PER_BUCKET * self.tag_bits, self.tag_bits, tag.into());
        self.set_position(slot, position);
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the byte in which the position of a slot begins, and the bits before it in that byte.
    fn place_of_position(&self, slot: Slot) -> (usize, u32) {
        let (bucket, way) = (slot / SLOTS_PER_BUCKET, slot % SLOTS_PER_BUCKET);
        let bit = WAYS as u32 * self.tag_bits + way * self.position_bits;
        (bucket as usize * self.bucket_bytes + (bit / 8) as usize, bit % 8)
    }

    fn word(&self, byte: usize) -> u64 {
        self.bytes[byte..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
    }

    fn set(&mut self, byte: usize, shift: u32, bits: u32, value: u64) {
        // The bits around it are written again as they were. `&mut self` excludes a change in between.
        let word = self.word(byte) & !(low_ones(bits) << shift) | (value & low_ones(bits)) << shift;
        self.bytes[byte..byte + WORD_BYTES].copy_from_slice(&word.to_le_bytes());
    }
}

/// Returns a word whose lowest `bits` bits, at most 63, are ones.
fn low_ones(bits: u32) -> u64 {
    (1 << bits) - 1
}
