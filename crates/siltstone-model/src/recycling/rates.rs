//! The rates of keys, and what follows for a step of a run.

use crate::popularity::Group;
use std::collections::HashMap;

/// The maximum number of times that [`Decays`] keeps.
const TIMES_MAX: usize = 1024;

/// The rates of a key of a group, per put of any key, and what follows for a step.
pub(super) struct Rates {
    pub put: f64,
    pub get: f64,
    /// The expected puts and gets of a step.
    pub of_put: f64,
    pub of_get: f64,
    /// The probability of a put in a step, of no get in it and in half of it, and of a get after a put.
    pub is_put: f64,
    pub is_unread: f64,
    pub is_unread_half: f64,
    pub is_read_after: f64,
}

impl Rates {
    fn new(put: f64, get: f64, step: f64) -> Rates {
        let (of_put, of_get) = (put * step, get * step);
        Rates {
            put,
            get,
            of_put,
            of_get,
            is_put: -(-of_put).exp_m1(),
            is_unread: (-of_get).exp(),
            is_unread_half: (-of_get / 2.0).exp(),
            is_read_after: marked_share(of_put, of_get),
        }
    }
}

/// Returns the rates of groups for steps of this length.
pub(super) fn rates_of(groups: &[Group], gets_per_put: f64, step: f64) -> Vec<Rates> {
    let rate = |group: &Group| Rates::new(group.probability, group.probability * gets_per_put, step);
    groups.iter().map(rate).collect()
}

/// Returns the share of keys that are read after they were put, of those that are put in a step. `of_put` puts and
/// `of_get` gets of a key are expected in a step.
fn marked_share(of_put: f64, of_get: f64) -> f64 {
    let put = -(-of_put).exp_m1();
    if put <= 0.0 {
        return 0.0;
    }
    let difference = of_get - of_put;
    let unread = if difference.abs() < 1e-9 {
        of_put * (-of_put).exp()
    } else {
        of_put * ((-of_put).exp() - (-of_get).exp()) / difference
    };
    (1.0 - unread / put).clamp(0.0, 1.0)
}

/// The shares of the live records of a group that stay live, and that stay live and unread.
#[derive(Clone, Copy)]
pub(super) struct Stays {
    pub live: f64,
    pub unread: f64,
}

/// What of each group stays over a time. A run asks for few times again and again, and exponential functions would be
/// most of its work.
pub(super) struct Decays {
    /// The puts, and the puts and gets, of a key of each group per put of any key.
    rates: Vec<(f64, f64)>,
    of_times: HashMap<u64, Vec<Stays>>,
}

impl Decays {
    pub fn new(groups: &[Group], gets_per_put: f64) -> Decays {
        let rate = |group: &Group| (group.probability, group.probability * (1.0 + gets_per_put));
        Decays { rates: groups.iter().map(rate).collect(), of_times: HashMap::new() }
    }

    /// Returns what stays of each group while `time` keys are put.
    pub fn over(&mut self, time: f64) -> &[Stays] {
        if self.of_times.len() > TIMES_MAX {
            self.of_times.clear();
        }
        let stays = |&(put, request): &(f64, f64)| Stays {
            live: (-put * time).exp(),
            unread: (-request * time).exp(),
        };
        self.of_times.entry(time.to_bits()).or_insert_with(|| self.rates.iter().map(stays).collect())
    }
}
