//! Requests drawn from a popularity, for simulators and for the tests of the primitives.

use super::error::ModelError;
use super::popularity::Popularity;

/// The most keys that a stream can name.
const KEYS_MAX: f64 = 4_294_967_295.0;
/// Cells of the table that maps a uniform number to its group.
const GUIDE_CELLS: usize = 4096;

/// An endless stream of keys from 0 to N − 1, drawn by popularity. Equal seeds give equal streams.
///
/// Keys of one group of the popularity are drawn uniformly. A permutation scatters popular keys over the key space, as
/// the models assume (4.2.2). A key takes about ten nanoseconds.
#[derive(Debug, Clone)]
pub struct KeyStream {
    random: Random,
    scatter: Scatter,
    keys: u64,
    /// The first rank, the number of keys, and the sum of probabilities up to the group's end.
    groups: Vec<(u64, u64, f64)>,
    guide: Vec<u32>,
    new_keys: f64,
    newest: u64,
}

impl KeyStream {
    /// Creates a stream with this popularity, of at most 2^32 − 1 keys.
    pub fn new(popularity: &Popularity, seed: u64) -> Result<Self, ModelError> {
        if popularity.keys() > KEYS_MAX {
            return Err(ModelError { name: "keys", got: popularity.keys(), limit: "below 2^32" });
        }
        let mut groups = Vec::with_capacity(popularity.groups().len());
        let (mut first, mut sum) = (0, 0.0);
        for group in popularity.groups() {
            sum += group.keys * group.probability;
            groups.push((first, group.keys as u64, sum));
            first += group.keys as u64;
        }
        if let Some(last) = groups.last_mut() {
            last.2 = f64::INFINITY;
        }
        let cell_group = |cell| {
            let value = cell as f64 / GUIDE_CELLS as f64;
            groups.partition_point(|group| group.2 <= value) as u32
        };
        let guide = (0..GUIDE_CELLS).map(cell_group).collect();
        let mut random = Random::new(seed);
        let scatter = Scatter::new(first, random.next());
        Ok(KeyStream {
            random,
            scatter,
            keys: first,
            groups,
            guide,
            new_keys: popularity.new_keys(),
            newest: 0,
        })
    }

    /// Every key once, in pseudo-random order: to load a store before its updates are counted.
    pub fn every_key(&self) -> impl Iterator<Item = u32> + use<> {
        let other_order = Scatter::new(self.keys, 0x5bd1_e995);
        (0..self.keys).map(move |index| other_order.place(index) as u32)
    }

    fn rank(&mut self) -> u64 {
        let value = self.random.unit();
        let mut group = self.guide[(value * GUIDE_CELLS as f64) as usize] as usize;
        while self.groups[group].2 <= value {
            group += 1;
        }
        let (first, keys, _) = self.groups[group];
        first + self.random.below(keys)
    }
}

impl Iterator for KeyStream {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.new_keys == 0.0 {
            let rank = self.rank();
            return Some(self.scatter.place(rank) as u32);
        }
        // The newest key takes the place of the oldest, which has the rank N − 1.
        let rank = if self.random.unit() < self.new_keys {
            self.newest = (self.newest + 1) % self.keys;
            0
        } else {
            self.rank()
        };
        Some(self.scatter.place((self.newest + self.keys - rank) % self.keys) as u32)
    }
}

/// SplitMix64: a counter, mixed.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform within 0 (included) to 1 (excluded).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}

/// A permutation of the numbers below a limit: a mixer of the next power of two, repeated until it falls below.
#[derive(Debug, Clone)]
struct Scatter {
    limit: u64,
    bits: u32,
    seed: u64,
}

impl Scatter {
    fn new(limit: u64, seed: u64) -> Self {
        Scatter { limit, bits: limit.next_power_of_two().trailing_zeros().max(2), seed }
    }

    fn place(&self, index: u64) -> u64 {
        let mut place = self.mix(index);
        while place >= self.limit {
            place = self.mix(place);
        }
        place
    }

    /// Each step is invertible within the mask, so this is a permutation.
    fn mix(&self, index: u64) -> u64 {
        let mask = (1 << self.bits) - 1;
        let mut mixed = index;
        for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0x9e37_79b9_7f4a_7c15u64] {
            mixed = mixed.wrapping_add(self.seed).wrapping_mul(factor) & mask;
            mixed ^= mixed >> (self.bits / 2);
        }
        mixed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_comes_once() {
        for keys in [1, 2, 3, 100, 4_097] {
            let stream = KeyStream::new(&Popularity::uniform(keys).unwrap(), 9).unwrap();
            let mut all: Vec<u32> = stream.every_key().collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..keys as u32));
        }
    }

    #[test]
    fn keys_come_as_often_as_they_are_popular() {
        let popularity = Popularity::zipf(50, 0.99).unwrap();
        let mut counts = [0u32; 50];
        KeyStream::new(&popularity, 1).unwrap().take(1_000_000).for_each(|key| counts[key as usize] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        for (group, count) in popularity.groups().iter().zip(counts) {
            assert!((f64::from(count) / 1e6 / group.probability - 1.0).abs() < 0.05, "{group:?}: {count}");
        }
    }
}
