//! Keys drawn by Zipf's law whose popularity drifts.

use crate::{Error, Result};
use siltstone_bench::random::{self, Rng};
use siltstone_model::{KeyStream, ModelError, Popularity};

/// An endless stream of the keys below a number. Equal settings give equal streams.
#[derive(Debug, Clone)]
pub struct Drifting {
    stream: KeyStream,
    /// The key of each place of the popularity.
    names: Vec<u32>,
    random: Rng,
    swaps_per_request: f64,
    due: f64,
}

impl Drifting {
    /// Creates a stream of `keys` keys with this skew, 0 for uniform. In as many requests as there are keys, the share
    /// `drift` of the keys changes its popularity with that of another key.
    ///
    /// # Errors
    /// [`Error::Settings`] if there is no such stream.
    pub fn new(keys: u64, skew: f64, drift: f64, seed: u64) -> Result<Drifting> {
        let refused = |error: ModelError| Error::settings(error.to_string());
        let popularity = if skew == 0.0 { Popularity::uniform(keys) } else { Popularity::zipf(keys, skew) };
        let stream = KeyStream::new(&popularity.map_err(refused)?, seed).map_err(refused)?;
        let names = (0..u32::try_from(keys).unwrap_or(u32::MAX)).collect();
        // A swap changes two keys.
        Ok(Drifting {
            stream,
            names,
            random: random::stream(seed, 1),
            swaps_per_request: drift / 2.0,
            due: 0.0,
        })
    }

    /// Returns every key once, in random order.
    pub fn every_key(&self) -> impl Iterator<Item = u32> + use<> {
        self.stream.every_key()
    }
}

impl Iterator for Drifting {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.due += self.swaps_per_request;
        while self.due >= 1.0 {
            let (one, other) = (self.random.usize(..self.names.len()), self.random.usize(..self.names.len()));
            self.names.swap(one, other);
            self.due -= 1.0;
        }
        self.stream.next().map(|place| self.names[place as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most_popular(keys: impl Iterator<Item = u32>) -> u32 {
        let mut counts = [0; 1_000];
        keys.for_each(|key| counts[key as usize] += 1);
        (0..1_000).max_by_key(|key| counts[*key as usize]).unwrap_or_default()
    }

    #[test]
    fn popular_keys_change_with_drift_only() {
        let later = |drift| {
            let mut stream = Drifting::new(1_000, 0.99, drift, 5).unwrap();
            let first = most_popular(stream.by_ref().take(2_000));
            (first, most_popular(stream.skip(20_000).take(2_000)))
        };
        let (first, last) = later(0.0);
        assert_eq!(first, last);
        let (first, last) = later(1.0);
        assert_ne!(first, last);
        assert!(Drifting::new(0, 0.99, 0.0, 1).is_err());
    }
}
