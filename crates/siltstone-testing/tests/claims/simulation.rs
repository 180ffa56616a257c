//! Databases through crashes and faults. `siltstone-testing simulate` runs more seeds.

use siltstone_testing::engines::Job;
use siltstone_testing::simulation::{Counts, Simulation, shrink};
use siltstone_testing::{TestEngine, seeds};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Creates an empty directory for checkpoints, in memory if possible because it is synced often.
fn scratch() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

/// Runs the seeds from `next` on, which other threads share. Returns the first failure, shrunk, with the command that
/// repeats it.
fn simulate(engine: &TestEngine, next: &AtomicU64, end: u64) -> Result<Counts, String> {
    let scratch = scratch().map_err(|error| error.to_string())?;
    let mut counts = Counts::default();
    loop {
        let seed = next.fetch_add(1, Relaxed);
        if seed >= end {
            return Ok(counts);
        }
        let simulation = Simulation::from_seed(engine, seed);
        match simulation.run(Some(scratch.path())) {
            Ok(one) => counts.add(&one),
            Err(failure) => {
                next.store(end, Relaxed);
                let command = simulation.command();
                let (short, last) = shrink(simulation, failure.clone(), Some(scratch.path()));
                let description = short.describe();
                return Err(format!("seed {seed}: {failure}\n{command}\nshrunk: {last}\n{description}"));
            }
        }
    }
}

/// Runs the seeds of an engine on all cores.
fn check(engine: &TestEngine, seeds: u64) {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let outcomes: Result<Vec<Counts>, String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| simulate(engine, &next, seeds))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a panic".into()))).collect()
    });
    let mut sum = Counts::default();
    match outcomes {
        Ok(counts) => counts.iter().for_each(|counts| sum.add(counts)),
        Err(failure) => panic!("{failure}"),
    }
    println!("{engine:?}: {sum:?}");
    assert!(sum.runs == seeds && sum.runs_with_crash_and_fault > seeds * 9 / 10, "{engine:?}: {sum:?}");
    let is_tested = |job: &Job| sum.jobs[job.name] as f64 > job.per_run * seeds as f64;
    assert!(engine.jobs.iter().all(is_tested), "{engine:?}: {sum:?}");
}

#[test]
fn no_guarantee_is_broken_whatever_happens() {
    for engine in TestEngine::simulated() {
        check(&engine, seeds());
    }
}

#[test]
fn a_compaction_takes_what_a_cleaning_moves_meanwhile_to_the_disk() {
    // These seeds of FlashStore compact while a cleaning that began before moves records.
    let flashstore = TestEngine::simulated().find(|engine| engine.info.name == "flashstore");
    let engine = flashstore.unwrap_or_else(|| panic!("there is no such engine"));
    for seed in [84_003_056, 84_020_731] {
        if let Err(failure) = simulate(&engine, &AtomicU64::new(seed), seed + 1) {
            panic!("{failure}");
        }
    }
}
