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

use super::error::ModelError;
use super::popularity::Popularity;
use super::root::increasing_root;

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
        if room.is_nan() || room <= keys {
            return Err(ModelError { name: "room", got: room, limit: "above the number of keys" });
        }
        let puts_per_lap = increasing_root(room - keys, 2.0 * (room - keys), |puts| {
            let groups = popularity.groups().iter().zip(&popularity.rates);
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
        let groups = popularity.groups().iter().zip(&popularity.rates);
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

/// Returns the appends of one key in a lap, minus one: `puts` / (1 − e^−x) − 1. The series avoids cancellation near 0.
fn superfluous(puts: f64, x: f64) -> f64 {
    if x < 1e-3 { x / 2.0 + x * x / 12.0 } else { puts / -(-x).exp_m1() - 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyStream;
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

    #[test]
    fn a_log_without_spare_capacity_is_refused() {
        let popularity = Popularity::uniform(100).unwrap();
        assert!(Cleaning::steady(&popularity, 100.0).is_err());
        assert!(Cleaning::steady(&popularity, f64::NAN).is_err());
        assert!((Cleaning::steady(&popularity, 1e6).unwrap().appends_per_put - 1.0).abs() < 1e-9);
    }
}
