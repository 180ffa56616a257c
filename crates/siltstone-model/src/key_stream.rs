//! Requests drawn from a popularity, for simulators and for the tests of the primitives.

use super::error::ModelError;
use super::permutation::Permutation;
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
    random: fastrand::Rng,
    scatter: Permutation,
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
        let mut random = fastrand::Rng::with_seed(seed);
        let scatter = Permutation::new(first, random.u64(..));
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

    /// Returns every key once, in pseudo-random order: to load a store before its updates are counted.
    pub fn every_key(&self) -> impl Iterator<Item = u32> + use<> {
        let other_order = Permutation::new(self.keys, 0x5bd1_e995);
        (0..self.keys).map(move |index| other_order.at(index) as u32)
    }

    fn rank(&mut self) -> u64 {
        let value = self.random.f64();
        let mut group = self.guide[(value * GUIDE_CELLS as f64) as usize] as usize;
        while self.groups[group].2 <= value {
            group += 1;
        }
        let (first, keys, _) = self.groups[group];
        first + self.random.u64(..keys)
    }
}

impl Iterator for KeyStream {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.new_keys == 0.0 {
            let rank = self.rank();
            return Some(self.scatter.at(rank) as u32);
        }
        // The newest key takes the place of the oldest, which has the rank N − 1.
        let rank = if self.random.f64() < self.new_keys {
            self.newest = (self.newest + 1) % self.keys;
            0
        } else {
            self.rank()
        };
        Some(self.scatter.at((self.newest + self.keys - rank) % self.keys) as u32)
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
