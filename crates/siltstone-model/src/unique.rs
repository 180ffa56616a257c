//! The analytic primitives: Unique, Unique⁻¹ and Merge (Lim's dissertation, 4.2.3 and 4.2.4), Density and DInterval
//! (4.3.3).
//!
//! Numbers of requests and keys are real numbers throughout, because they are expectations. A primitive takes one sum
//! over the groups of the popularity, an inverse about a dozen: microseconds for a uniform load, up to a millisecond
//! for Zipf.

use super::popularity::{Arrival, Group, Popularity, power_sum};
use super::root::increasing_root;

/// Of the time between two requests of a key, at most this share is that in which it is certainly not requested.
const APART_SHARE_MAX: f64 = 0.95;
/// Points at which the density of a level is averaged where there is no closed form.
const DENSITY_POINTS: u32 = 64;

impl Popularity {
    /// Returns the expected number of distinct keys among this many requests (Theorem 4.1). All keys for infinitely
    /// many.
    pub fn unique(&self, requests: f64) -> f64 {
        if requests.is_nan() || requests <= 0.0 {
            return 0.0;
        }
        match &self.arrival {
            None if self.apart > 0.0 => {
                self.sum(|group, rate| group.keys * self.apart(rate).requested(requests))
            }
            None => self.sum(|group, rate| group.keys * -(-rate * requests).exp_m1()),
            Some(arrival) => self.unique_with_arrivals(arrival, requests),
        }
    }

    /// Returns the number of requests after which this many distinct keys are expected (Lemma 4.2): the inverse of
    /// [`Popularity::unique`]. Infinite for all keys or more.
    pub fn unique_inverse(&self, unique: f64) -> f64 {
        if unique >= self.keys() {
            return f64::INFINITY;
        }
        increasing_root(unique, unique, |requests| self.unique(requests))
    }

    /// Returns the expected keys of a table that is merged from tables of `u` and of `v` keys (Theorem 4.3).
    pub fn merge(&self, u: f64, v: f64) -> f64 {
        self.unique(self.unique_inverse(u) + self.unique_inverse(v))
    }

    /// Returns the probability that a level has an item for a key at a `distance` (0 to 1, as a share of the key space)
    /// behind the key that was compacted last, if every key is compacted once per `interval` requests (Theorem 4.4).
    pub fn density(&self, interval: f64, distance: f64) -> f64 {
        self.unique(interval * distance) / self.keys()
    }

    /// DInterval: the requests between two compactions of the same key in a level of `size` keys that is compacted in
    /// round-robin order over the key space (Lemma 4.5).
    ///
    /// The sum over all distances is approximated by an integral, with a relative error of 1 / N.
    pub fn density_interval(&self, size: f64) -> f64 {
        if size >= self.keys() {
            return f64::INFINITY;
        }
        increasing_root(size, 2.0 * size, |interval| self.level_size(interval))
    }

    /// Returns the keys of a level that is compacted once around the key space per `interval` requests: the inverse of
    /// [`Popularity::density_interval`].
    pub fn level_size(&self, interval: f64) -> f64 {
        if interval.is_nan() || interval <= 0.0 {
            return 0.0;
        }
        if self.arrival.is_none() && self.apart == 0.0 {
            // The mean of 1 − e^−rx over x within 0 to the interval.
            return self.sum(|group, rate| group.keys * mean_of_risen(rate * interval));
        }
        // Squares concentrate points where the density rises most.
        let points = f64::from(DENSITY_POINTS);
        let mean = (0..DENSITY_POINTS).map(|point| {
            let root = (f64::from(point) + 0.5) / points;
            2.0 * root / points * self.unique(interval * root * root)
        });
        mean.sum()
    }

    /// Returns the probability that a request is for a key that is not among the last `requests` requests.
    pub fn absent(&self, requests: f64) -> f64 {
        match &self.arrival {
            None => self.sum(|group, rate| {
                let absent = match self.apart > 0.0 {
                    true => self.apart(rate).absent(requests),
                    false => (-rate * requests.max(0.0)).exp(),
                };
                group.keys * group.probability * absent
            }),
            Some(arrival) => {
                let next = self.unique(requests.max(0.0) + 1.0) - self.unique(requests.max(0.0));
                (next - arrival.new_keys).clamp(0.0, 1.0)
            }
        }
    }

    /// Returns the requests of a key with this rate.
    fn apart(&self, rate: f64) -> Apart {
        let gap = self.apart.min(APART_SHARE_MAX / rate.max(f64::MIN_POSITIVE));
        Apart { rate, gap, rate_after: rate / (1.0 - rate * gap) }
    }

    fn sum(&self, term: impl Fn(&Group, f64) -> f64) -> f64 {
        self.groups().iter().zip(&self.rates).map(|(group, &rate)| term(group, rate)).sum()
    }

    /// Returns the new keys, and of the older ones those that were requested while their rank increased by that many.
    fn unique_with_arrivals(&self, arrival: &Arrival, requests: f64) -> f64 {
        let new = (arrival.new_keys * requests).min(self.keys());
        let stay = self.keys() - new;
        let updates = (1.0 - arrival.new_keys) / arrival.new_keys * arrival.scale;
        let (mut first, mut unique) = (1.0, new);
        for group in self.groups() {
            if first > stay {
                break;
            }
            let end: f64 = first + group.keys;
            let keys = group.keys.min(stay + 1.0 - first);
            let middle = (first + end - 1.0) / 2.0;
            let expected = updates * power_sum(middle, middle + new, arrival.skew);
            unique += keys * -(-expected).exp_m1();
            first = end;
        }
        unique
    }
}

/// A key that is requested at a rate per request, but not for a gap after each time: at a higher rate after that.
struct Apart {
    rate: f64,
    gap: f64,
    rate_after: f64,
}

impl Apart {
    /// Returns the probability that the key is among this many requests. The first one after any time is later than t
    /// with the probability of the rate times the sum of the chances that a gap is longer, from t on.
    fn requested(&self, requests: f64) -> f64 {
        match requests <= self.gap || self.rate == 0.0 {
            true => self.rate * requests,
            false => 1.0 - self.rate / self.rate_after * (-self.rate_after * (requests - self.gap)).exp(),
        }
    }

    /// Returns the probability that the key was not among this many requests before it is requested.
    fn absent(&self, requests: f64) -> f64 {
        (-self.rate_after * (requests - self.gap).max(0.0)).exp()
    }
}

/// 1 − (1 − e^−x) / x, the mean of 1 − e^−y over y within 0 to x.
fn mean_of_risen(x: f64) -> f64 {
    if x < 1e-3 { x / 2.0 - x * x / 6.0 + x * x * x / 24.0 } else { (x + (-x).exp_m1()) / x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyStream;

    fn near(got: f64, expected: f64, tolerance: f64) {
        assert!((got / expected - 1.0).abs() <= tolerance, "{got} for {expected}");
    }

    #[test]
    fn requests_of_a_key_that_are_apart_are_of_distinct_keys_until_then() {
        let groups = vec![Group { keys: 1_000.0, probability: 1e-3 }];
        let apart = Popularity::of_groups(groups.clone(), 600.0);
        for requests in [1.0, 100.0, 600.0] {
            near(apart.unique(requests), requests, 2e-3);
            near(apart.absent(requests), 1.0, 1e-12);
        }
        assert!(apart.unique(900.0) < 900.0 && apart.unique(900.0) > apart.unique(899.0));
        near(apart.unique(1e6), 1_000.0, 1e-6);
        near(apart.unique(apart.unique_inverse(800.0)), 800.0, 1e-6);
        let (close, uniform) = (Popularity::of_groups(groups, 1e-6), Popularity::uniform(1_000).unwrap());
        near(close.unique(700.0), uniform.unique(700.0), 1e-6);
        near(close.absent(700.0), uniform.absent(700.0), 1e-6);
        near(close.level_size(700.0), uniform.level_size(700.0), 1e-3);
    }

    #[test]
    fn unique_agrees_with_the_sum_over_all_keys() {
        let popularity = Popularity::from_counts(1..=40).unwrap();
        for requests in [0.5, 1.0, 2.0, 10.0, 100.0, 1e4] {
            let exact: f64 = (1..=40).map(|c| 1.0 - (1.0 - f64::from(c) / 820.0).powf(requests)).sum();
            near(popularity.unique(requests), exact, 1e-12);
        }
        near(popularity.unique(1.0), 1.0, 1e-12);
        assert_eq!(popularity.unique(0.0), 0.0);
        assert_eq!(popularity.unique(f64::INFINITY), 40.0);
    }

    #[test]
    fn unique_inverse_inverts_unique() {
        for skew in [0.0, 0.6, 0.99, 1.3, 3.0] {
            for keys in [2u64, 7, 1_000, 1_000_000_000] {
                let popularity = Popularity::zipf(keys, skew).unwrap();
                for share in [1e-6, 0.01, 0.3, 0.9, 0.999] {
                    let unique = share * keys as f64;
                    near(popularity.unique(popularity.unique_inverse(unique)), unique, 1e-9);
                }
                assert_eq!(popularity.unique_inverse(keys as f64), f64::INFINITY);
                assert_eq!(popularity.unique_inverse(0.0), 0.0);
            }
        }
    }

    /// The dissertation's example, 4.2.4.
    #[test]
    fn merging_a_tenth_of_zipf_distributed_keys_into_the_rest_adds_little() {
        let popularity = Popularity::zipf(100_000_000, 0.99).unwrap();
        near(popularity.merge(1e7, 9e7), 9.03e7, 0.0005);
        near(popularity.merge(1e7, 1e8), 1e8, 1e-12);
    }

    /// The dissertation's example, 4.3.3.
    #[test]
    fn the_interval_between_compactions_of_a_key_is_longer_than_unique_inverse() {
        let popularity = Popularity::uniform(100_000_000).unwrap();
        let size = 10.0 * f64::from(1 << 20);
        near(popularity.density_interval(size), 2.26e7, 0.002);
        near(popularity.unique_inverse(size), 1.11e7, 0.003);
    }

    #[test]
    fn the_density_over_all_distances_sums_up_to_the_level() {
        for popularity in [
            Popularity::uniform(20_000).unwrap(),
            Popularity::zipf(20_000, 0.99).unwrap(),
            Popularity::latest(20_000, 0.99, 0.05).unwrap(),
        ] {
            for size in [20.0, 2_000.0, 18_000.0] {
                let interval = popularity.density_interval(size);
                let sum: f64 =
                    (0..20_000).map(|d| popularity.density(interval, f64::from(d) / 20_000.0)).sum();
                near(sum, size, 0.002);
                near(popularity.level_size(interval), size, 1e-9);
            }
        }
    }

    /// Theorems 4.1 and 4.3 against a simulation of small key spaces, averaged over many tables.
    #[test]
    fn the_primitives_agree_with_simulated_tables() {
        let workloads = [
            (Popularity::uniform(300).unwrap(), 0.01),
            (Popularity::zipf(300, 0.99).unwrap(), 0.015),
            (Popularity::latest(300, 0.99, 0.1).unwrap(), 0.03),
        ];
        for (seed, (popularity, tolerance)) in workloads.iter().enumerate() {
            let mut keys = KeyStream::new(popularity, seed as u64).unwrap();
            for (p, q) in [(1, 1), (20, 200), (150, 150), (500, 30), (30, 2_000)] {
                let rounds = 700;
                let (mut first, mut both) = (0, 0);
                for _ in 0..rounds {
                    let mut seen = std::collections::HashSet::new();
                    seen.extend(keys.by_ref().take(p));
                    first += seen.len();
                    seen.extend(keys.by_ref().take(q));
                    both += seen.len();
                }
                let mean = |sum: usize| sum as f64 / f64::from(rounds);
                near(popularity.unique(p as f64), mean(first), *tolerance);
                let merged = popularity.merge(popularity.unique(p as f64), popularity.unique(q as f64));
                near(merged, mean(both), *tolerance);
            }
        }
    }

    #[test]
    fn a_key_is_absent_as_often_as_one_more_request_finds_a_new_one() {
        for popularity in [Popularity::zipf(5_000, 0.8).unwrap(), Popularity::uniform(5_000).unwrap()] {
            for requests in [0.0, 10.0, 3_000.0, 50_000.0] {
                let next = popularity.unique(requests + 1.0) - popularity.unique(requests);
                assert!((popularity.absent(requests) - next).abs() < 1e-9);
            }
        }
    }
}
