//! Databases in simulated time on a simulated device. One seed determines the configuration, the operations, the steps
//! of background work, the faults and the crashes. The database is compared with the reference model at every reopening
//! and in between.
//!
//! A run is a configuration, a workload and a list of operations, all drawn from the seed before the run begins. Each
//! operation can be left out of the list without changing the others, so a failing run shrinks to a short one.

mod checks;
mod configuration;
mod model;
mod run;
mod shrink;
#[cfg(test)]
mod tests;
mod writes;

pub use configuration::{Collisions, Configuration};
pub use shrink::shrink;

use super::engines::{TestEngine, random_memory_budget};
use super::operations::{Operation, OperationKind, Workload};
use super::reference::Violation;
use super::simulated::Faults;
use run::Run;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulation {
    /// The seed.
    pub seed: u64,
    /// The database.
    pub configuration: Configuration,
    /// The keys and values.
    pub workload: Workload,
    /// The operations, in order.
    pub operations: Vec<Operation>,
}

/// Counts of what happened in one or more runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs.
    pub runs: u64,
    /// Runs with at least one crash and one fault of the device.
    pub runs_with_crash_and_fault: u64,
    /// Operations, without those of the checks.
    pub operations: u64,
    /// Acknowledged writes; a batch counts as one.
    pub writes: u64,
    /// Kills of the process and power losses.
    pub crashes: u64,
    /// Power losses during an operation.
    pub power_losses_within: u64,
    /// Calls of the device that failed.
    pub faults: u64,
    /// Opens of an existing database.
    pub reopenings: u64,
    /// Opens that failed because of a fault or a crash, and were repeated.
    pub failed_openings: u64,
    /// Background jobs, by the names of [`TestEngine::jobs`].
    pub jobs: BTreeMap<&'static str, u64>,
    /// Crashes while a background job had begun and not ended, by [`TestEngine::job_buffers`].
    pub crashes_in_jobs: BTreeMap<&'static str, u64>,
    /// Runs with such a crash.
    pub runs_with_crash_in_jobs: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// Adds the counts of other runs.
    pub fn add(&mut self, other: &Counts) {
        for (sum, number) in self.fields_mut().into_iter().zip(other.clone().fields_mut()) {
            *sum += *number;
        }
        let add = |sums: &mut BTreeMap<&'static str, u64>, counts: &BTreeMap<&'static str, u64>| {
            counts.iter().for_each(|(name, count)| *sums.entry(name).or_default() += count);
        };
        add(&mut self.jobs, &other.jobs);
        add(&mut self.crashes_in_jobs, &other.crashes_in_jobs);
        add(&mut self.runs_with_crash_in_jobs, &other.runs_with_crash_in_jobs);
    }

    fn fields_mut(&mut self) -> [&mut u64; 9] {
        let Counts {
            runs, runs_with_crash_and_fault, operations, writes, crashes, power_losses_within, ..
        } = self;
        [
            runs,
            runs_with_crash_and_fault,
            operations,
            writes,
            crashes,
            power_losses_within,
            &mut self.faults,
            &mut self.reopenings,
            &mut self.failed_openings,
        ]
    }
}

/// A broken guarantee in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The number of operations before it.
    pub after: usize,
    /// The broken guarantee.
    pub violation: Violation,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "after {} operations: {}", self.after, self.violation)
    }
}

/// The maximum number of operations of a run.
const OPERATIONS_MAX: f64 = 500.0;

impl Simulation {
    /// Returns the run of a seed, with at least one fault and one crash.
    pub fn from_seed(engine: &TestEngine, seed: u64) -> Simulation {
        let mut random = fastrand::Rng::with_seed(seed);
        let configuration = Configuration::random(engine, &mut random);
        let first = configuration.workload(&mut random);
        let mut workload = first.clone();
        let least = engine.operations_min;
        let count = (least * (OPERATIONS_MAX / least).powf(random.f64())) as usize;
        let mut operations: Vec<_> = (0..count).map(|_| workload.next(&mut random)).collect();
        for kind in [OperationKind::Fail, OperationKind::Crash, OperationKind::PowerOff] {
            if random.u8(..3) > 0 {
                let late = random.usize(operations.len() / 2..=operations.len());
                operations.insert(late, workload.next_of(kind, &mut random));
            }
        }
        // Drawn from its own generator, as the settings of memory are, so that the other draws of a seed do not change.
        let mut random_budget = fastrand::Rng::with_seed(seed.rotate_left(32));
        for _ in 0..random_budget.usize(..4) {
            let at = random_budget.usize(..=operations.len());
            let bytes = random_memory_budget(&mut random_budget).map(|bytes| bytes * engine.stores);
            operations.insert(at, Operation::Budget(bytes));
        }
        // The last fault is certain to occur.
        operations.push(Operation::Fail(certain_fault(&mut random)));
        operations.push(workload.next_of(OperationKind::Put, &mut random));
        operations.push(Operation::Sync);
        Simulation { seed, configuration, workload: first, operations }
    }

    /// Runs it. Checkpoints are left out without an empty directory `scratch` for them.
    pub fn run(&self, scratch: Option<&Path>) -> Result<Counts, Failure> {
        let mut run = Run::new(self, scratch);
        let outcome = catch_unwind(AssertUnwindSafe(|| run.go()));
        let violation = match outcome {
            Ok(Ok(counts)) => return Ok(counts),
            Ok(Err(violation)) => violation,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                Violation::new(format!("panic: {}", text.unwrap_or("no message")))
            }
        };
        Err(Failure { after: run.done(), violation })
    }

    /// Prints the configuration, and a line per operation.
    pub fn describe(&self) -> String {
        let operations: Vec<_> = self.operations.iter().map(|operation| format!("  {operation:?}")).collect();
        let Configuration { common, .. } = &self.configuration;
        format!(
            "{:?}\n{common:?}\n{:?}\n{}",
            self.configuration.settings(),
            self.configuration,
            operations.join("\n")
        )
    }

    /// Returns the command that repeats the run.
    pub fn command(&self) -> String {
        let Simulation { seed, configuration, .. } = self;
        let engine = configuration.engine.info.name;
        format!(
            "cargo run --release -p siltstone-testing -- simulate --engine {engine} --first {seed} --seeds 1"
        )
    }
}

/// Returns a fault of the next write or sync.
fn certain_fault(random: &mut fastrand::Rng) -> Faults {
    match random.u8(..3) {
        0 => Faults { write_error: 1.0, ..Faults::default() },
        1 => Faults { write_error: 0.1, sync_error: 1.0, ..Faults::default() },
        _ => Faults { capacity_bytes: Some(0), ..Faults::default() },
    }
}
