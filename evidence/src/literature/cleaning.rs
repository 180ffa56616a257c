//! A log that is cleaned from its oldest end: items that are still valid are appended again at its newest.
//!
//!  ```text
//!      oldest                         newest
//!  log: [ valid | dead | valid | ... | ... ] <- puts
//!          |                                <- valid items, appended again
//!          +-------------------------------^
//!  ```
//!
//! FlashStore recycles its pages this way (VLDB 2010, 4.5), and BloomStore collects garbage this way (MSST 2012,
//! III-B). The formula of FlashKey (VI-C) describes such a log under a uniform load; here it is derived for any
//! popularity.
//!
//! Let a lap of the log, from its oldest end to its newest, take p puts. A key is appended when it is put, or when a
//! lap has passed since it was last appended. The time between two appends is therefore the smaller of p and an
//! exponentially distributed time with the key's put rate λ; its mean is (1 − e^−λp) / λ. The appends of all keys in a
//! lap fill the log's capacity (in items):
//!
//!   Σ λp / (1 − e^−λp) = capacity
//!
//! This has one solution p, and the appends per put are capacity / p. With equal λ and capacity = (1 + OP) · N, the
//! solution is the formula with the Lambert W function.
//!
//! With a write buffer that is filled B times in a lap, a key that is put again while it is in the buffer is appended
//! only once. In a lap it is then appended for B · (1 − e^−λp/B) puts instead of λp:
//!
//!   Σ B · (1 − e^−λp/B) / (1 − e^−λp) = capacity

use siltstone_model::ModelError;
use siltstone_model::increasing_root;
use siltstone_model::{Group, Popularity};

/// Newton's method has the double's precision after as many steps.
const NEWTON_STEPS: u32 = 8;

/// The steady state of such a log. Popular keys are not separated from others.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Cleaning {
    /// The puts between two cleanings of the same place.
    pub puts_per_lap: f64,
    /// The items appended per put: 1 for the put itself, and the valid items that were moved.
    pub appends_per_put: f64,
}

impl Cleaning {
    /// Computes the steady state for a log of `room` items, which must exceed the number of keys. The keys of a
    /// "latest" popularity are assumed not to change.
    pub fn steady(popularity: &Popularity, room: f64) -> Result<Self, ModelError> {
        Self::buffered(popularity, room, f64::INFINITY)
    }

    /// Like [`Cleaning::steady`], with a write buffer that is filled `buffers` times in a lap (at least 2). The buffer
    /// begins with the keys that were cleaned, so that a put of such a key replaces its copy.
    pub fn buffered(popularity: &Popularity, room: f64, buffers: f64) -> Result<Self, ModelError> {
        let keys = popularity.keys();
        check_room(room, keys)?;
        let puts_per_lap = increasing_root(room - keys, 2.0 * (room - keys), |puts| {
            let groups = popularity.groups().iter().zip(popularity.rates());
            groups
                .map(|(group, &rate)| {
                    let appended = if buffers.is_finite() {
                        -(-rate * puts / buffers).exp_m1() * buffers
                    } else {
                        group.probability * puts
                    };
                    group.keys * superfluous(appended, rate * puts)
                })
                .sum()
        });
        Ok(Cleaning { puts_per_lap, appends_per_put: room / puts_per_lap })
    }

    /// Returns the probability that a get finds its item appended more than `age` puts ago, where gets are distributed
    /// as puts are.
    pub fn older(&self, popularity: &Popularity, age: f64) -> f64 {
        let age = age.clamp(0.0, self.puts_per_lap);
        let groups = popularity.groups().iter().zip(popularity.rates());
        // The age of a renewal process: (e^−λa − e^−λp) / (1 − e^−λp).
        let older = groups.map(|(group, &rate)| {
            let (whole, rest) = (rate * self.puts_per_lap, rate * (self.puts_per_lap - age));
            let share = if whole < 1e-9 {
                rest / whole
            } else {
                (-rate * age).exp() * (-rest).exp_m1() / (-whole).exp_m1()
            };
            group.keys * group.probability * share
        });
        older.sum()
    }
}

/// The least that a cleaned log can write if the put rate of each key is known: keys of equal rate have a log of their
/// own, and the space is divided among these logs so that all of them together append the least.
///
/// If a lap of the log of a key takes y of its puts, that key takes y / (1 − e^−y) of the space and costs
/// q / (1 − e^−y) appends per put, for a probability q of being put. The sum of the second over all keys is least, for
/// a given sum of the first, where each key has q / λ = e^y − 1 − y.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Separation {
    /// The items appended per put.
    pub appends_per_put: f64,
}

impl Separation {
    /// Computes the least for a log of `room` items, which must exceed the number of keys.
    pub fn least(popularity: &Popularity, room: f64) -> Result<Self, ModelError> {
        let keys = popularity.keys();
        check_room(room, keys)?;
        let inverse = increasing_root(room - keys, keys, |inverse| {
            let of_group = |group: &Group| {
                let lap = puts_in_lap(group.probability * inverse);
                group.keys * superfluous(lap, lap)
            };
            popularity.groups().iter().map(of_group).sum()
        });
        let appends = |group: &Group| {
            let lap = puts_in_lap(group.probability * inverse);
            group.keys * group.probability / -(-lap).exp_m1()
        };
        Ok(Separation { appends_per_put: popularity.groups().iter().map(appends).sum() })
    }
}

/// Returns y with e^y − 1 − y = `value`.
fn puts_in_lap(value: f64) -> f64 {
    // Both are upper bounds, from which Newton's method descends to the root.
    let mut y = (2.0 * value).sqrt().min((2.0 * (value + 1.0)).ln());
    for _ in 0..NEWTON_STEPS {
        if y < 1e-4 {
            break;
        }
        y -= (y.exp_m1() - y - value) / y.exp_m1();
    }
    y
}

fn check_room(room: f64, keys: f64) -> Result<(), ModelError> {
    if room.is_nan() || room <= keys {
        return Err(ModelError { name: "room", got: room, limit: "above the number of keys" });
    }
    Ok(())
}

/// Returns the appends of one key in a lap, minus one: `puts` / (1 − e^−x) − 1. The series avoids cancellation near 0.
fn superfluous(puts: f64, x: f64) -> f64 {
    if x < 1e-3 { x / 2.0 + x * x / 12.0 } else { puts / -(-x).exp_m1() - 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_model::KeyStream;
    use std::collections::VecDeque;

    /// Simulates a ring of keys that is cleaned from its oldest end.
    fn simulate(popularity: &Popularity, room: usize) -> (f64, f64) {
        let mut stream = KeyStream::new(popularity, 11).unwrap();
        let mut log: VecDeque<(u32, u64)> = VecDeque::new();
        let mut newest = vec![0; popularity.keys() as usize];
        let (mut appends, mut valid) = (0u64, newest.len());
        for key in stream.every_key() {
            newest[key as usize] = appends;
            log.push_back((key, appends));
            appends += 1;
        }
        let (mut counted, mut puts, mut old) = (0, 0, 0);
        for request in 0..40 * room {
            let Some(key) = stream.next() else { break };
            old += usize::from(request > 10 * room && appends - newest[key as usize] > room as u64 / 2);
            let before = appends;
            valid -= 1;
            newest[key as usize] = u64::MAX;
            while log.len() >= room {
                let Some((oldest, at)) = log.pop_front() else { break };
                if newest[oldest as usize] == at {
                    newest[oldest as usize] = appends;
                    log.push_back((oldest, appends));
                    appends += 1;
                }
            }
            newest[key as usize] = appends;
            log.push_back((key, appends));
            (appends, valid) = (appends + 1, valid + 1);
            if request > 10 * room {
                counted += appends - before;
                puts += 1;
            }
        }
        (counted as f64 / f64::from(puts), old as f64 / f64::from(puts))
    }

    #[test]
    fn the_model_agrees_with_a_simulated_log() {
        for (skew, provision) in [(0.0, 0.18), (0.0, 0.6), (0.99, 0.18), (0.7, 0.4), (1.3, 0.1)] {
            let popularity = Popularity::zipf(2_000, skew).unwrap();
            let room = (2_000.0 * (1.0 + provision)) as usize;
            let (appends, old) = simulate(&popularity, room);
            let model = Cleaning::steady(&popularity, room as f64).unwrap();
            let ratio = model.appends_per_put / appends;
            assert!((ratio - 1.0).abs() < 0.02, "skew {skew}, {provision}: {model:?} for {appends}");
            let older = model.older(&popularity, model.puts_per_lap / 2.0);
            assert!((older - old).abs() < 0.02, "skew {skew}, {provision}: {older} for {old}");
        }
    }

    /// Appends per put of 10^7 keys: uniform, then the oldest end first and the least for four skews.
    #[test]
    fn appends_per_put_are_those_of_the_table_in_the_documentation() {
        let table = [
            (0.11, 5.22, [(0.6, 5.68, 4.40), (0.8, 6.62, 3.35), (0.99, 8.17, 1.99), (1.2, 9.51, 1.16)]),
            (0.18, 3.46, [(0.6, 3.82, 2.97), (0.8, 4.44, 2.35), (0.99, 5.40, 1.56), (1.2, 6.22, 1.09)]),
            (0.25, 2.69, [(0.6, 2.99, 2.35), (0.8, 3.46, 1.91), (0.99, 4.17, 1.38), (1.2, 4.76, 1.06)]),
            (0.43, 1.87, [(0.6, 2.09, 1.68), (0.8, 2.39, 1.46), (0.99, 2.83, 1.19), (1.2, 3.18, 1.03)]),
            (0.67, 1.48, [(0.6, 1.65, 1.37), (0.8, 1.85, 1.24), (0.99, 2.15, 1.10), (1.2, 2.40, 1.01)]),
        ];
        let near = |got: f64, expected: f64, case: &str| {
            assert!((got - expected).abs() <= 0.01, "{case}: {got} for {expected}");
        };
        for (provision, of_uniform, of_skews) in table {
            let room = 1e7 * (1.0 + provision);
            let uniform = Popularity::uniform(10_000_000).unwrap();
            let oldest = Cleaning::steady(&uniform, room).unwrap().appends_per_put;
            let least = Separation::least(&uniform, room).unwrap().appends_per_put;
            near(oldest, of_uniform, "uniform, oldest first");
            near(least, oldest, "keys of equal rate gain nothing by separation");
            for (skew, of_oldest, of_least) in of_skews {
                let zipf = Popularity::zipf(10_000_000, skew).unwrap();
                let oldest = Cleaning::steady(&zipf, room).unwrap().appends_per_put;
                let least = Separation::least(&zipf, room).unwrap().appends_per_put;
                near(oldest, of_oldest, &format!("Zipf {skew}, {provision}, oldest first"));
                near(least, of_least, &format!("Zipf {skew}, {provision}, least"));
            }
        }
    }

    #[test]
    fn a_log_without_spare_capacity_is_refused() {
        let popularity = Popularity::uniform(100).unwrap();
        assert!(Cleaning::steady(&popularity, 100.0).is_err());
        assert!(Separation::least(&popularity, 100.0).is_err());
        assert!(Cleaning::steady(&popularity, f64::NAN).is_err());
        assert!((Cleaning::steady(&popularity, 1e6).unwrap().appends_per_put - 1.0).abs() < 1e-9);
    }
}
