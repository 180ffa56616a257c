//! Databases that several threads use while a call of the device fails. `siltstone-testing simulate --threads` runs
//! more seeds. `.ci/sanitize` runs this test, which needs a build with `--cfg shuttle`.
#![cfg(shuttle)]

use siltstone_testing::TestEngine;
use siltstone_testing::concurrent::{Counts, Plan, command, simulate};
use siltstone_testing::engines::Job;
use siltstone_testing::engines::mistakes::{FoundBy, Mistaken, mistaken};

/// The number of seeds within which a mistake of the engine must be found.
const CANARY_SEEDS: u64 = 12_000;

/// A schedule is short: as many of them take half the time of a seed with one thread.
const SCHEDULES_PER_SEED: u64 = 2;

#[test]
fn no_guarantee_is_broken_whichever_call_fails_in_any_schedule() {
    each_engine(|engine| {
        let seeds = SCHEDULES_PER_SEED * siltstone_testing::seeds();
        let mut sum = Counts::default();
        simulate(engine, 0..seeds, |seed, outcome| {
            match outcome {
                Ok(counts) => sum.add(&counts),
                Err(violation) => {
                    let plan = Plan::from_seed(engine, seed).describe();
                    panic!("seed {seed}: {violation}\n{}\n{plan}", command(engine, seed));
                }
            }
            true
        });
        println!("{engine:?}: {sum:?}");
        let is_enough = sum.failed_calls > seeds / 4 && sum.power_losses > seeds / 20;
        assert!(sum.runs == seeds && is_enough, "{engine:?}: {sum:?}");
        let is_tested = |job: &Job| sum.jobs[job.name] as f64 > job.per_run * seeds as f64 / 2.0;
        assert!(engine.jobs.iter().all(is_tested), "{engine:?}: {sum:?}");
        let is_further_tested = |name: &&str| sum.jobs[*name] > seeds / 100;
        assert!(engine.further_jobs.iter().all(is_further_tested), "{engine:?}: {sum:?}");
    });
}

/// Calls `test` with each engine, on a thread of its own: a schedule of Shuttle needs one processor.
fn each_engine(test: impl Fn(&TestEngine) + Sync) {
    std::thread::scope(|scope| {
        for engine in TestEngine::persistent() {
            let test = &test;
            scope.spawn(move || test(&engine));
        }
    });
}

#[test]
fn a_seed_repeats_itself() {
    for engine in TestEngine::persistent() {
        let run = || {
            let mut outcomes = Vec::new();
            simulate(&engine, 0..40, |seed, outcome| {
                outcomes.push((seed, outcome));
                true
            });
            outcomes
        };
        assert_eq!(run(), run(), "{engine:?}");
    }
}

#[test]
fn every_mistake_is_found() {
    for Mistaken { engine, mistake, .. } in mistaken(FoundBy::Threads) {
        find(&engine, &format!("{engine:?}, {mistake}"));
    }
}

/// Checks that a seed breaks a guarantee.
fn find(engine: &TestEngine, mistake: &str) {
    let mut found = None;
    simulate(engine, 0..CANARY_SEEDS, |seed, outcome| {
        found = outcome.err().map(|violation| (seed, violation));
        found.is_none()
    });
    let Some((seed, violation)) = found else { panic!("{mistake} was not found") };
    println!("{mistake}: {violation}\n{}", command(engine, seed));
}
