//! Databases that several threads use while a call of the device fails. `siltstone-testing simulate --threads` runs
//! more seeds. `.ci/sanitize` runs this test, which needs a build with `--cfg shuttle`.
#![cfg(shuttle)]

use siltstone_testing::concurrent::{Counts, Mistake, Plan, command, simulate};

/// The number of seeds within which a mistake of the engine must be found.
const CANARY_SEEDS: u64 = 6000;

#[test]
fn no_guarantee_is_broken_whichever_call_fails_in_any_schedule() {
    const SEEDS: u64 = 10_000;
    let mut sum = Counts::default();
    simulate(0..SEEDS, None, |seed, outcome| {
        match outcome {
            Ok(counts) => sum.add(&counts),
            Err(violation) => {
                panic!("seed {seed}: {violation}\n{}\n{}", command(seed), Plan::from_seed(seed).describe());
            }
        }
        true
    });
    println!("{sum:?}");
    assert!(sum.runs == SEEDS && sum.failed_calls > SEEDS / 4 && sum.power_losses > SEEDS / 20, "{sum:?}");
    assert!(sum.conversions > SEEDS && sum.merges > SEEDS / 2, "{sum:?}");
}

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
        Mistake::RecordsFailuresLate,
        Mistake::DropsDeletes,
        Mistake::ReadsBeforeLocking,
    ] {
        let mut found = None;
        simulate(0..CANARY_SEEDS, Some(mistake), |seed, outcome| {
            found = outcome.err().map(|violation| (seed, violation));
            found.is_none()
        });
        let Some((seed, violation)) = found else { panic!("{mistake:?} was not found") };
        println!("{mistake:?}: {violation}\n{}", command(seed));
    }
}
