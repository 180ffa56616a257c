//! Databases that several threads use while a call of the device fails; `siltstone-bench simulate --threads` does the
//! same by the million. `.ci/sanitize` runs this; it needs a build with `--cfg shuttle`.
#![cfg(shuttle)]

use siltstone::testing::concurrent::{Plan, Tally, command, simulate};

#[test]
fn no_promise_is_broken_whichever_call_fails_and_whoever_comes_first() {
    const SEEDS: u64 = 10_000;
    let mut sum = Tally::default();
    simulate(0..SEEDS, None, |seed, outcome| {
        match outcome {
            Ok(tally) => sum.add(&tally),
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
