//! Canaries: mistakes of the engine that simulations with several threads have to find.

use super::{command, simulate};
use crate::engine::silt::Mistake;

/// Within so many seeds a mistake must be found.
const SEEDS: u64 = 6000;

#[test]
fn a_seed_repeats_itself() {
    let run = || {
        let mut outcomes = Vec::new();
        simulate(0..40, None, |seed, outcome| {
            outcomes.push((seed, outcome));
            true
        });
        outcomes
    };
    assert_eq!(run(), run());
}

#[test]
fn every_mistake_of_the_engine_is_found() {
    for mistake in [
        Mistake::CommitsBeforeTheLog,
        Mistake::ReleasesTooMuch,
        Mistake::GoesOnAfterAFailure,
        Mistake::DropsDeletes,
        Mistake::ReadsBeforeLocking,
    ] {
        let mut found = None;
        simulate(0..SEEDS, Some(mistake), |seed, outcome| {
            found = outcome.err().map(|violation| (seed, violation));
            found.is_none()
        });
        let Some((seed, violation)) = found else { panic!("{mistake:?} was not found") };
        println!("{mistake:?}: {violation}\n{}", command(seed));
    }
}
