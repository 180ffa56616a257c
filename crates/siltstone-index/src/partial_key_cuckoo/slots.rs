//! The slots in memory: per bucket its four tags, then its four positions, packed without gaps.

use super::{SLOTS_PER_BUCKET, Slot, WAYS};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const WORD_BYTES: usize = size_of::<u64>();

/// The tags and positions of all buckets. One thread changes them at a time. Other threads may read meanwhile; a tag or
/// a position that they read may be half changed.
#[derive(Debug)]
pub(super) struct Slots {
    /// The buckets one after another, each rounded up to bytes, the lowest byte of a word first; and a word for
    /// reads behind the last bucket.
    words: Box<[AtomicU64]>,
    bucket_bytes: usize,
    tag_bits: u32,
    position_bits: u32,
}

impl Clone for Slots {
    fn clone(&self) -> Self {
        let words = self.words.iter().map(|word| AtomicU64::new(word.load(Relaxed))).collect();
        Slots { words, ..*self }
    }
}

impl Slots {
    /// Makes empty slots.
    pub(super) fn new(buckets: u32, tag_bits: u8, position_bits: u8) -> Self {
        let bucket_bytes = (WAYS * usize::from(tag_bits + position_bits)).div_ceil(8);
        let words = (buckets as usize * bucket_bytes).div_ceil(WORD_BYTES) + 1;
        // In place, in memory that the system has zeroed: it is touched only when slots are filled.
        let words = vec![0; words].into_iter().map(AtomicU64::new).collect();
        Self { words, bucket_bytes, tag_bits: tag_bits.into(), position_bits: position_bits.into() }
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

    #[inline]
    pub(super) fn position(&self, slot: Slot) -> u32 {
        let (byte, shift) = self.place_of_position(slot);
        // At most 32 bits after at most 7 others, so one word has all of them.
        (self.word(byte) >> shift & low_ones(self.position_bits)) as u32
    }

    #[inline]
    pub(super) fn set_position(&self, slot: Slot, position: u32) {
        let (byte, shift) = self.place_of_position(slot);
        self.set(byte, shift, self.position_bits, position.into());
    }

    #[inline]
    pub(super) fn put(&self, slot: Slot, tag: u16, position: u32) {
        let byte = (slot / SLOTS_PER_BUCKET) as usize * self.bucket_bytes;
        self.set(byte, slot % SLOTS_PER_BUCKET * self.tag_bits, self.tag_bits, tag.into());
        self.set_position(slot, position);
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Returns the byte in which the position of a slot begins, and the bits before it in that byte.
    fn place_of_position(&self, slot: Slot) -> (usize, u32) {
        let (bucket, way) = (slot / SLOTS_PER_BUCKET, slot % SLOTS_PER_BUCKET);
        let bit = WAYS as u32 * self.tag_bits + way * self.position_bits;
        (bucket as usize * self.bucket_bytes + (bit / 8) as usize, bit % 8)
    }

    /// Returns the word with a byte and the next one; zeros after the last word.
    #[inline]
    fn two_words(&self, byte: usize) -> [u64; 2] {
        let two = self.words.get(byte / WORD_BYTES..).and_then(|words| words.first_chunk());
        two.map_or([0; 2], |[first, second]| [first.load(Relaxed), second.load(Relaxed)])
    }

    /// Returns the eight bytes from a byte on, which may be in two words.
    #[inline]
    fn word(&self, byte: usize) -> u64 {
        let ([first, second], shift) = (self.two_words(byte), 8 * (byte % WORD_BYTES));
        // In two steps, because a shift by 64 is none.
        first >> shift | (second << 1) << (63 - shift)
    }

    #[inline]
    fn set(&self, byte: usize, shift: u32, bits: u32, value: u64) {
        // So that less than a word is before the bits: tags may begin some bytes after those of their bucket.
        let (byte, shift) = (byte + (shift / 8) as usize, shift % 8);
        let (number, shift) = (byte / WORD_BYTES, shift + 8 * (byte % WORD_BYTES) as u32);
        let ([first, second], ones) = (self.two_words(byte), low_ones(bits));
        let value = value & ones;
        // The bits around it are written again as they were: no other thread changes slots meanwhile.
        self.words[number].store(first & !(ones << shift) | value << shift, Relaxed);
        if shift + bits > u64::BITS {
            // `shift` is not 0 here, since there are at most 32 bits.
            let carried = u64::BITS - shift;
            self.words[number + 1].store(second & !(ones >> carried) | value >> carried, Relaxed);
        }
    }
}

/// Returns a word whose lowest `bits` bits, at most 63, are ones.
fn low_ones(bits: u32) -> u64 {
    (1 << bits) - 1
}
