//! Workloads: the probability of each key in a request (Lim's dissertation, 4.2.2).
//!
//! A distribution is stored compressed, as by the optimizer of 4.6.2: keys of similar probability form a group, which
//! stores their number and their average probability.
//!
//!  ```text
//!  rank         1    2    3   ...   1000..1019   1020..1039   ...
//!  group        #0   #1   #2        #k: 20 keys  #k+1: 20 keys
//!  ```
//!
//! 10^10 keys take about a thousand groups, and every primitive of [`super::unique`] is one sum over them. The error is
//! bounded in advance: [`Popularity::grouping_error`].

use std::collections::BTreeMap;

use super::error::{ModelError, positive};

/// The largest ratio between the probabilities of two keys of one group.
const GROUP_RATIO: f64 = 1.02;
/// Up to this many keys, every key is a group of its own.
const KEYS_UNGROUPED: f64 = 1024.0;
/// Sums of powers are exact below this rank, and use the Euler–Maclaurin formula from it on.
const EXACT_RANKS: f64 = 64.0;

/// Keys that are requested with nearly the same probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    /// The number of keys.
    pub keys: f64,
    /// The average probability of a request for one particular key of the group.
    pub probability: f64,
}

/// The probability of every key, fX in the dissertation.
///
/// Requests are independent of each other, and popular keys are spread randomly over the key space. Only
/// [`Popularity::latest`] changes over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Popularity {
    keys: f64,
    groups: Vec<Group>,
    pub(super) rates: Vec<f64>,
    pub(super) arrival: Option<Arrival>,
    /// The least number of requests between two of the same key.
    pub(super) apart: f64,
    grouping_error: f64,
}

/// What moves the ranks of [`Popularity::latest`].
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Arrival {
    /// New keys for each request.
    pub new_keys: f64,
    pub skew: f64,
    /// 1 / Σ rank^−skew over all ranks.
    pub scale: f64,
}

impl Popularity {
    /// All keys are equally popular.
    pub fn uniform(keys: u64) -> Result<Self, ModelError> {
        Self::zipf(keys, 0.0)
    }

    /// Zipf's law: the key of rank i has a probability proportional to 1 / i^`skew`. A skew of 0 is uniform; YCSB uses
    /// 0.99; the maximum is 20.
    pub fn zipf(keys: u64, skew: f64) -> Result<Self, ModelError> {
        if !(0.0..=20.0).contains(&skew) {
            return Err(ModelError { name: "skew", got: skew, limit: "within 0 to 20" });
        }
        let keys = positive("keys", keys as f64)?;
        if skew == 0.0 {
            return Ok(Self::from_groups(vec![Group { keys, probability: 1.0 / keys }], 0.0));
        }
        let scale = 1.0 / power_sum(1.0, keys + 1.0, skew);
        let ratio = if keys <= KEYS_UNGROUPED { 1.0 } else { GROUP_RATIO.powf(1.0 / skew.max(1.0)) };
        let mut groups = Vec::new();
        let mut error: f64 = 0.0;
        let mut first = 1.0;
        while first <= keys {
            let end = (first * ratio).floor().max(first + 1.0).min(keys + 1.0);
            let probability = scale * power_sum(first, end, skew) / (end - first);
            groups.push(Group { keys: end - first, probability });
            let extremes = (scale * (end - 1.0).powf(-skew), scale * first.powf(-skew));
            error = error.max(group_error(extremes));
            first = end;
        }
        Ok(Self::from_groups(groups, error))
    }

    /// YCSB's "latest": with probability `new_keys` a request inserts a new key and the oldest key leaves; otherwise it
    /// is for a key that is Zipf-distributed by age, the newest being the most popular.
    ///
    /// The distribution of requests changes over time, so [`Popularity::merge`] is only an approximation here: it
    /// assumes that the two tables follow each other.
    pub fn latest(keys: u64, skew: f64, new_keys: f64) -> Result<Self, ModelError> {
        let mut popularity = Self::zipf(keys, skew)?;
        if !(0.0..=1.0).contains(&new_keys) {
            return Err(ModelError { name: "new_keys", got: new_keys, limit: "within 0 to 1" });
        }
        if new_keys > 0.0 {
            let scale = 1.0 / power_sum(1.0, popularity.keys + 1.0, skew);
            popularity.arrival = Some(Arrival { new_keys, skew, scale });
        }
        Ok(popularity)
    }

    /// Returns the popularity of the keys of a trace, given how often each was requested. Zeros are ignored.
    ///
    /// A trace shows only the keys that occur in it. If many occur once, many more would have occurred later, and the
    /// models underestimate a longer run.
    pub fn from_counts(counts: impl IntoIterator<Item = u64>) -> Result<Self, ModelError> {
        let mut histogram = BTreeMap::new();
        for count in counts {
            *histogram.entry(count).or_insert(0) += 1;
        }
        Self::from_histogram(histogram)
    }

    /// Like [`Popularity::from_counts`], from pairs of a number of requests and the number of keys with that many
    /// requests.
    pub fn from_histogram(histogram: impl IntoIterator<Item = (u64, u64)>) -> Result<Self, ModelError> {
        let mut counts: Vec<(f64, f64)> = histogram
            .into_iter()
            .filter(|&(requests, keys)| requests > 0 && keys > 0)
            .map(|(requests, keys)| (requests as f64, keys as f64))
            .collect();
        counts.sort_by(|a, b| b.0.total_cmp(&a.0));
        let requests = positive("requests", counts.iter().map(|(requests, keys)| requests * keys).sum())?;
        let mut groups: Vec<Group> = Vec::new();
        let mut error: f64 = 0.0;
        let mut most = f64::INFINITY;
        for (count, keys) in counts {
            let probability = count / requests;
            match groups.last_mut() {
                Some(group) if most <= probability * GROUP_RATIO => {
                    let sum = group.keys * group.probability + keys * probability;
                    group.keys += keys;
                    group.probability = sum / group.keys;
                    error = error.max(group_error((probability, most)));
                }
                _ => {
                    groups.push(Group { keys, probability });
                    most = probability;
                }
            }
        }
        Ok(Self::from_groups(groups, error))
    }

    /// Returns the popularity of keys in groups. Each key has the average probability of its group. There are at least
    /// `apart` requests between two of the same key, which are otherwise independent.
    pub(crate) fn of_groups(mut groups: Vec<Group>, apart: f64) -> Self {
        groups.sort_by(|one, other| other.probability.total_cmp(&one.probability));
        Popularity { apart, ..Self::from_groups(groups, 0.0) }
    }

    fn from_groups(groups: Vec<Group>, grouping_error: f64) -> Self {
        let keys = groups.iter().map(|group| group.keys).sum();
        let rates = groups.iter().map(|group| (-(-group.probability).ln_1p()).min(f64::MAX)).collect();
        Popularity { keys, groups, rates, arrival: None, apart: 0.0, grouping_error }
    }

    /// N, the number of distinct keys.
    pub fn keys(&self) -> f64 {
        self.keys
    }

    /// Returns the groups, the most popular first.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the put rate of a key of each group, with which a key is not put among n requests with probability
    /// e^(-rate n).
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Returns the new keys per request: 0, except for [`Popularity::latest`].
    pub fn new_keys(&self) -> f64 {
        self.arrival.as_ref().map_or(0.0, |arrival| arrival.new_keys)
    }

    /// Returns the bound of the relative error that grouping causes in [`Popularity::unique`], for one request or more.
    /// The result is never too low. Zero for uniform workloads and for up to 1,024 keys, about 3·10^−5 for others.
    ///
    /// A key that is requested with probability f is in a table of p requests with probability g(f) = 1 − (1 − f)^p.
    /// g is concave, so that the average probability overestimates, by no more than (f₂ − f₁)² / 8 · max |g″| if the
    /// group's probabilities lie within f₁ to f₂; and f² |g″| ≤ 0.6477 g / (1 − f)² for every p.
    pub fn grouping_error(&self) -> f64 {
        self.grouping_error
    }
}

fn group_error((least, most): (f64, f64)) -> f64 {
    if most <= least {
        return 0.0;
    }
    let width = most / least - 1.0;
    0.6477 / 8.0 * (width / (1.0 - most)).powi(2)
}

/// Σ i^−s over the ranks first ≤ i < end. `end` may be fractional and then counts a part of its last rank.
pub(super) fn power_sum(first: f64, end: f64, s: f64) -> f64 {
    let mut sum = 0.0;
    let mut rank = first;
    while rank < EXACT_RANKS && rank < end {
        sum += rank.powf(-s) * (end - rank).min(1.0);
        rank += 1.0;
    }
    if rank < end { sum + euler_maclaurin(rank, end, s) } else { sum }
}

/// Computes the same by the Euler–Maclaurin formula, accurate to 10 digits from rank 64 on.
fn euler_maclaurin(first: f64, end: f64, s: f64) -> f64 {
    let log_ratio = (end / first).ln();
    let growth = (1.0 - s) * log_ratio;
    let growth = if growth == 0.0 { 1.0 } else { growth.exp_m1() / growth };
    let (low, high) = (first.powf(-s), end.powf(-s));
    let integral = first * low * log_ratio * growth;
    let third = low / first.powi(3) - high / end.powi(3);
    integral + (low - high) / 2.0 + s / 12.0 * (low / first - high / end)
        - s * (s + 1.0) * (s + 2.0) / 720.0 * third
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_powers_are_those_of_the_terms() {
        for s in [0.3, 0.99, 1.0, 1.2, 3.0] {
            for (first, end) in [(1u32, 2), (1, 40), (32, 33), (100, 102), (1, 100_001), (5_000, 60_000)] {
                let terms: f64 = (first..end).map(|i| f64::from(i).powf(-s)).sum();
                let sum = power_sum(first.into(), end.into(), s);
                assert!((sum / terms - 1.0).abs() < 1e-10, "s {s}, {first}..{end}: {sum} for {terms}");
            }
        }
    }

    #[test]
    fn groups_hold_every_key_and_all_probability() {
        for skew in [0.0, 0.5, 0.99, 1.0, 1.5, 4.0] {
            for keys in [1, 2, 31, 1_000, 100_000_000, 10_000_000_000] {
                let popularity = Popularity::zipf(keys, skew).unwrap();
                let probability: f64 = popularity.groups().iter().map(|g| g.keys * g.probability).sum();
                assert_eq!(popularity.keys(), keys as f64);
                assert!((probability - 1.0).abs() < 1e-9, "{keys} keys, skew {skew}: {probability}");
                assert!(popularity.groups().len() < 4_000);
            }
        }
    }

    #[test]
    fn grouping_overestimates_by_no_more_than_it_states() {
        let (keys, skew) = (30_000u32, 0.99);
        let popularity = Popularity::zipf(keys.into(), skew).unwrap();
        let scale = 1.0 / power_sum(1.0, f64::from(keys) + 1.0, skew);
        assert!(popularity.grouping_error() < 1e-4);
        let mut largest: f64 = 0.0;
        for requests in [1.0, 2.0, 17.0, 500.0, 3e3, 3e4, 3e5, 3e6] {
            let exact: f64 = (1..=keys)
                .map(|rank| -(requests * (-scale * f64::from(rank).powf(-skew)).ln_1p()).exp_m1())
                .sum();
            let excess = popularity.unique(requests) / exact - 1.0;
            assert!(excess > -1e-10 && excess <= popularity.grouping_error(), "{requests}: {excess}");
            largest = largest.max(excess);
        }
        assert!(largest > popularity.grouping_error() / 50.0, "the bound is too loose: {largest}");
    }

    #[test]
    fn a_trace_is_grouped_by_how_often_its_keys_occur() {
        let popularity = Popularity::from_counts([5, 0, 5, 90]).unwrap();
        let expected = [Group { keys: 1.0, probability: 0.9 }, Group { keys: 2.0, probability: 0.05 }];
        assert_eq!(popularity.groups(), expected);
        assert_eq!(popularity.grouping_error(), 0.0);

        let close = Popularity::from_histogram([(1_000, 3), (1_010, 3), (980, 4)]).unwrap();
        assert_eq!(close.groups().len(), 2);
        assert!(close.grouping_error() > 0.0);
    }

    #[test]
    fn invalid_workloads_are_refused() {
        assert!(Popularity::uniform(0).is_err());
        assert!(Popularity::zipf(10, f64::NAN).is_err());
        assert!(Popularity::zipf(10, -1.0).is_err());
        assert!(Popularity::latest(10, 0.99, 1.1).is_err());
        assert!(Popularity::from_counts([0, 0]).is_err());
    }
}
