//! The rates of keys, and what follows for a step of a run.

use crate::popularity::Group;

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
