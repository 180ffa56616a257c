//! The keys that structures are made of: hashes already, so that no hashing is timed.

use crate::random::Random;

/// A key as an index sees it: its two hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Where it stands in hash order.
    pub placement: u64,
    /// What tags and filters are made of.
    pub fingerprint: u64,
}

impl Key {
    fn draw(random: &mut Random) -> Key {
        Key { placement: random.draw(), fingerprint: random.draw() }
    }
}

/// How many keys are drawn to be looked up.
const QUERIES: usize = 1 << 20;

/// Random keys, in two orders, 32 bytes each. That two have one placement is as rare as with real hashes: one pair
/// among 16 million keys in 100,000 samples.
pub struct Sample {
    seed: u64,
    arrived: Vec<Key>,
    sorted: Vec<Key>,
}

impl Sample {
    /// So many keys, at least one. The same `seed` gives the same keys.
    pub fn new(keys: u64, seed: u64) -> Sample {
        let mut random = Random::new(seed, 0);
        let arrived: Vec<Key> = (0..keys.max(1)).map(|_| Key::draw(&mut random)).collect();
        let mut sorted = arrived.clone();
        sorted.sort_unstable();
        Sample { seed, arrived, sorted }
    }

    /// The keys in random order.
    pub fn arrived(&self) -> &[Key] {
        &self.arrived
    }

    /// The keys in the order of their placements.
    pub fn sorted(&self) -> &[Key] {
        &self.sorted
    }

    /// How many keys there are.
    pub fn len(&self) -> u64 {
        self.sorted.len() as u64
    }

    /// Whether there is no key: never.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Keys of the sample, in random order and with repetition.
    pub(super) fn present(&self) -> Vec<Key> {
        let mut random = Random::new(self.seed, 1);
        (0..QUERIES).map(|_| self.sorted[random.below(self.len()) as usize]).collect()
    }

    /// Keys that are not in the sample, as random hashes are not.
    pub(super) fn absent(&self) -> impl Iterator<Item = Key> {
        let mut random = Random::new(self.seed, 2);
        std::iter::repeat_with(move || Key::draw(&mut random))
    }

    /// As many of those as are looked up.
    pub(super) fn absent_queries(&self) -> Vec<Key> {
        self.absent().take(QUERIES).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn both_orders_hold_the_same_keys_and_absent_ones_are_others() {
        let sample = Sample::new(1000, 7);
        let keys: BTreeSet<Key> = sample.arrived().iter().copied().collect();
        assert!(keys.len() == 1000 && keys.iter().eq(sample.sorted()) && !sample.arrived().is_sorted());
        assert!(sample.present().iter().all(|key| keys.contains(key)));
        assert!(!sample.absent_queries().iter().any(|key| keys.contains(key)));
        assert_eq!(Sample::new(10, 7).arrived(), &sample.arrived()[..10]);
    }
}
