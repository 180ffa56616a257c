//! A log that is cleaned from its oldest end: what is still valid is appended again at its newest.
//!
//! FlashStore recycles its pages so (VLDB 2010, 4.5), BloomStore collects garbage so (MSST 2012, III-B), and the
//! formula of FlashKey (VI-C) is that of such a log under a uniform load. Here it is derived for any popularity.
//!
//! Let a lap of the log, from its oldest end to its newest, last for p puts. The copy of a key is appended anew when
//! the key is put, or when a lap has passed since it was appended last. The time between two appends is therefore the
//! smaller of p and an exponential time with the rate λ of puts of the key, whose mean is (1 − e^−λp) / λ. Over all
//! keys, as many copies are appended in a lap as the log has room for:
//!
//!   Σ λp / (1 − e^−λp) = room
//!
//! which has one solution p, and the appends for each put are room / p. For equal λ and room = (1 + OP) · N the
//! solution is that with the Lambert W function.
//!
//! If items wait in a write buffer, of which a lap fills B, a key that is put again while it waits is appended once.
//! So it is appended for puts B · (1 − e^−λp/B) times in a lap instead of λp times:
//!
//!   Σ B · (1 − e^−λp/B) / (1 − e^−λp) = room

use super::error::ModelError;
use super::popularity::Popularity;
use super::root::increasing_root;

/// A log of that kind in its steady state. Popular keys are not kept apart from others.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Cleaning {
    /// The puts between two cleanings of the same place.
    pub puts_per_lap: f64,
    /// The items appended for each that is put: 1 for the put itself, the rest are valid items that were in the way.
    pub appends_per_put: f64,
}

impl Cleaning {
    /// A log that has `room` for more items than there are keys. The keys of a "latest" popularity are taken to stay.
    pub fn steady(popularity: &Popularity, room: f64) -> Result<Self, ModelError> {
        Self::buffered(popularity, room, f64::INFINITY)
    }

    /// The same where `buffers` write buffers are filled in a lap (2 or more). They begin with the keys that were
    /// cleaned, so that a key that is put then replaces its copy.
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

    /// The probability that a get finds its item appended more than `age` puts ago, for a key drawn as the puts are.
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

/// The appends of one key in a lap, less one: `puts` / (1 − e^−x) − 1.
fn superfluous(puts: f64, x: f64) -> f64 {
    if x < 1e-3 { x / 2.0 + x * x / 12.0 } else { puts / -(-x).exp_m1() - 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyStream;
    use std::collections::VecDeque;

    /// A ring of keys, cleaned from its oldest end.
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
    fn a_log_without_spare_room_is_refused() {
        let popularity = Popularity::uniform(100).unwrap();
        assert!(Cleaning::steady(&popularity, 100.0).is_err());
        assert!(Cleaning::steady(&popularity, f64::NAN).is_err());
        assert!((Cleaning::steady(&popularity, 1e6).unwrap().appends_per_put - 1.0).abs() < 1e-9);
    }
}
