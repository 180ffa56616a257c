//! Evicted keys whose removal is not durable yet. A crash can bring such a record back, so a delete of one writes a
//! tombstone although the index has no entry.

use siltstone_device::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// There is a bit for this many bytes of a segment, within these limits: 128 KiB for both generations at most.
const BYTES_PER_BIT: u64 = 32;
const BITS_MIN: u64 = 1 << 10;
const BITS_MAX: u64 = 1 << 19;

/// The hashes of removed entries whose redo may not be durable: a bit for each, in two generations.
pub(super) struct Left {
    generations: [Box<[AtomicU64]>; 2],
    /// The number of the generation that takes new ones.
    present: AtomicUsize,
}

impl Left {
    /// Makes an empty set for segments of this size; without bits for logs that are not a cache. At first it has every
    /// hash, because the redo that an open has read may not be durable.
    pub fn new(segment_bytes: u64, is_cache: bool) -> Left {
        let bits = (segment_bytes / BYTES_PER_BIT).clamp(BITS_MIN, BITS_MAX).next_power_of_two();
        let words = if is_cache { bits / 64 } else { 0 };
        let generation = |word: u64| (0..words).map(|_| AtomicU64::new(word)).collect();
        Left { generations: [generation(u64::MAX), generation(0)], present: AtomicUsize::new(0) }
    }

    fn word(&self, generation: usize, hash: u64) -> Option<(&AtomicU64, u64)> {
        let words = &self.generations[generation & 1];
        let number = hash.rotate_left(32);
        Some((words.get((number >> 6) as usize & words.len().wrapping_sub(1))?, 1 << (number & 63)))
    }

    /// Notes that the entry of a hash was removed. The writer of its shard is locked.
    pub fn note(&self, hash: u64) {
        if let Some((word, bit)) = self.word(self.present.load(Relaxed), hash) {
            // The lock of the writer orders this before a delete of the key.
            word.fetch_or(bit, Relaxed);
        }
    }

    /// Returns false only if each removed entry of the hash stays removed. The writer of its shard is locked.
    pub fn may_have(&self, hash: u64) -> bool {
        // A note is in one of both, whichever was present when it was made.
        let has =
            |generation| self.word(generation, hash).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0);
        has(0) || has(1)
    }

    /// Notes that everything that has left is made durable from now on. Only one thread at a time does so.
    pub fn begin(&self) {
        self.present.fetch_xor(1, Relaxed);
    }

    /// Forgets what had left at [`begin`](Self::begin): it is durable.
    pub fn end(&self) {
        // These were noted before the flush locked all writers, so its redo has their removals.
        let before = &self.generations[(self.present.load(Relaxed) & 1) ^ 1];
        before.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Returns the memory, in bytes.
    pub fn heap_bytes(&self) -> u64 {
        self.generations.iter().map(|words| size_of_val(&**words) as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_left_is_known_until_it_was_made_durable() {
        let left = Left::new(4096, true);
        let [one, two] = [1u64, 2].map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        assert!(left.may_have(one) && left.may_have(two));
        left.begin();
        left.note(one);
        left.end();
        assert!(left.may_have(one) && !left.may_have(two));
        left.begin();
        left.note(two);
        assert!(left.may_have(one) && left.may_have(two));
        left.end();
        assert!(!left.may_have(one) && left.may_have(two));
        assert!(!Left::new(4096, false).may_have(one));
    }
}
