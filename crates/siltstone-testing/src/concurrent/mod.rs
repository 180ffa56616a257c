//! Databases that several threads use at the same time, on a simulated device. One call to it fails. One seed
//! determines what the threads do, which call fails, and the schedule of the threads, which Shuttle decides at every
//! lock, atomic and device call. So a seed that fails repeats exactly. Needs `--cfg shuttle`.
//!
//! Two to four threads do background work; some write, others read. After the run, what each thread saw is checked for
//! linearizability. The database is closed, killed or loses its power, and the records left are compared with what was
//! guaranteed to each thread.

mod order;
mod plan;
mod run;
mod witness;

pub use plan::Plan;

use crate::engines::TestEngine;
use order::Order;
use run::Outcome;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The stack of each simulated thread, in bytes.
const STACK_BYTES: usize = 1 << 20;
/// A run with more scheduling points than this counts as endless.
const POINTS_MAX: usize = 3_000_000;

/// Counts of what happened in some runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs.
    pub runs: u64,
    /// Runs in which a call of the device failed.
    pub failed_calls: u64,
    /// Runs in which the power was lost while the threads were at work.
    pub power_losses: u64,
    /// Operations of all threads that were acknowledged.
    pub operations: u64,
    /// Background jobs, by the names of [`TestEngine::jobs`] and [`TestEngine::further_jobs`].
    pub jobs: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// Adds the counts of other runs.
    pub fn add(&mut self, other: &Counts) {
        self.runs += other.runs;
        self.failed_calls += other.failed_calls;
        self.power_losses += other.power_losses;
        self.operations += other.operations;
        other.jobs.iter().for_each(|(name, count)| *self.jobs.entry(name).or_default() += count);
    }
}

/// Returns the command that repeats a run.
pub fn command(engine: &TestEngine, seed: u64) -> String {
    format!(
        "RUSTFLAGS='--cfg shuttle' cargo run --release --target-dir target/shuttle -p siltstone-testing -- \
         simulate --threads --engine {} --first {seed} --seeds 1",
        engine.info.name
    )
}

/// Runs the seeds, one after the other. `report` is called with each seed and its outcome, and returns whether to
/// continue.
pub fn simulate(
    engine: &TestEngine,
    seeds: Range<u64>,
    mut report: impl FnMut(u64, Result<Counts, String>) -> bool,
) {
    let mut next = seeds.start;
    while next < seeds.end {
        // Shuttle runs many executions on the same stacks, which cannot be used again after a panic.
        let outcomes: Arc<Mutex<Vec<(u64, Outcome)>>> = Arc::default();
        let current = Arc::new(AtomicU64::new(next));
        let end = seeds.end.min(next + 64);
        let order = Order::new(next..end, current.clone());
        let (done, seed, engine) = (outcomes.clone(), current.clone(), engine.clone());
        let ran = catch_unwind(AssertUnwindSafe(|| {
            Runner::new(order, config()).run(move || {
                let seed = seed.load(Relaxed);
                let outcome = run::run(Plan::from_seed(&engine, seed));
                done.lock().unwrap_or_else(PoisonError::into_inner).push((seed, outcome));
            })
        }));
        next = end;
        let mut outcomes = std::mem::take(&mut *outcomes.lock().unwrap_or_else(PoisonError::into_inner));
        if let Err(panic) = ran {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            let seed = current.load(Relaxed);
            outcomes.push((seed, Err(format!("panic: {text}"))));
            next = seed + 1;
        }
        for (seed, outcome) in outcomes {
            if !report(seed, outcome) {
                return;
            }
        }
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(POINTS_MAX);
    config.failure_persistence = FailurePersistence::None;
    config
}
