//! The keys that structures are built from. They are hashes, so hashing is not timed.

use siltstone_bench::random::{self, Rng};

/// A key as an index sees it: two hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its position in hash order.
    pub placement: u64,
    /// The source of tags and filter bits.
    pub fingerprint: u64,
}

impl Key {
    fn draw(random: &mut Rng) -> Key {
        Key { placement: random.u64(..), fingerprint: random.u64(..) }
    }
}

/// The number of keys that are looked up.
const QUERIES: usize = 1 << 20;

/// Random keys, in two orders, 32 bytes each. Equal placements are as rare as with real hashes: one pair among 16
/// million keys in 100,000 samples.
pub struct Sample {
    seed: u64,
    arrived: Vec<Key>,
    sorted: Vec<Key>,
}

impl Sample {
    /// Creates a sample of this many keys, at least one. Equal seeds give equal keys.
    pub fn new(keys: u64, seed: u64) -> Sample {
        let mut random = random::stream(seed, 0);
        let arrived: Vec<Key> = (0..keys.max(1)).map(|_| Key::draw(&mut random)).collect();
        let mut sorted = arrived.clone();
        sorted.sort_unstable();
        Sample { seed, arrived, sorted }
    }

    /// Returns the keys in random order.
    pub fn arrived(&self) -> &[Key] {
        &self.arrived
    }

    /// Returns the keys in the order of their placements.
    pub fn sorted(&self) -> &[Key] {
        &self.sorted
    }

    /// Returns the number of keys.
    pub fn len(&self) -> u64 {
        self.sorted.len() as u64
    }

    /// Returns whether there are no keys: never.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Returns keys of the sample, in random order and with repetitions.
    pub(super) fn present(&self) -> Vec<Key> {
        let mut random = random::stream(self.seed, 1);
        (0..QUERIES).map(|_| self.sorted[random.u64(..self.len()) as usize]).collect()
    }

    /// Returns keys that are not in the sample, with the probability of a hash collision.
    pub(super) fn absent(&self) -> impl Iterator<Item = Key> {
        let mut random = random::stream(self.seed, 2);
        std::iter::repeat_with(move || Key::draw(&mut random))
    }

    /// Returns as many missing keys as are looked up.
    pub(super) fn absent_queries(&self) -> Vec<Key> {
        self.absent().take(QUERIES).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn both_orders_have_the_same_keys_and_absent_ones_differ() {
        let sample = Sample::new(1000, 7);
        let keys: BTreeSet<Key> = sample.arrived().iter().copied().collect();
        assert!(keys.len() == 1000 && keys.iter().eq(sample.sorted()) && !sample.arrived().is_sorted());
        assert!(sample.present().iter().all(|key| keys.contains(key)));
        assert!(!sample.absent_queries().iter().any(|key| keys.contains(key)));
        assert_eq!(Sample::new(10, 7).arrived(), &sample.arrived()[..10]);
    }
}
