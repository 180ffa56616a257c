//! The set of existing keys: one bit per number, set by many threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A set of the numbers below a count.
pub struct KeySet {
    words: Vec<AtomicU64>,
    members: AtomicU64,
}

impl KeySet {
    /// Creates an empty set for the numbers below `count`, one bit each.
    pub fn new(count: u64) -> KeySet {
        let words = (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        KeySet { words, members: AtomicU64::new(0) }
    }

    /// Adds a number.
    pub fn insert(&self, number: u64) {
        let (word, bit) = self.place(number);
        if word.fetch_or(bit, Relaxed) & bit == 0 {
            self.members.fetch_add(1, Relaxed);
        }
    }

    /// Adds all numbers below `count`, with which the set was created.
    pub fn fill(&self, count: u64) {
        for (number, word) in (0..).zip(&self.words) {
            let bits = (count - 64 * number).min(64);
            word.store(u64::MAX >> (64 - bits), Relaxed);
        }
        self.members.store(count, Relaxed);
    }

    /// Removes a number.
    pub fn remove(&self, number: u64) {
        let (word, bit) = self.place(number);
        if word.fetch_and(!bit, Relaxed) & bit != 0 {
            self.members.fetch_sub(1, Relaxed);
        }
    }

    /// Returns whether the number is in the set.
    pub fn contains(&self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        word.load(Relaxed) & bit != 0
    }

    fn place(&self, number: u64) -> (&AtomicU64, u64) {
        (&self.words[(number / 64) as usize], 1 << (number % 64))
    }

    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        self.members.load(Relaxed)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_once() {
        let set = KeySet::new(130);
        [0, 129, 129, 64].into_iter().for_each(|number| set.insert(number));
        assert_eq!(set.len(), 3);
        set.remove(64);
        set.remove(64);
        assert!(set.len() == 2 && set.contains(129) && !set.contains(64));
        for count in [1, 63, 64, 65, 130] {
            let (set, each) = (KeySet::new(count), KeySet::new(count));
            set.fill(count);
            (0..count).for_each(|number| each.insert(number));
            let words = |set: &KeySet| set.words.iter().map(|word| word.load(Relaxed)).collect::<Vec<_>>();
            assert_eq!((set.len(), words(&set)), (each.len(), words(&each)));
        }
    }
}
