//! `siltstone-testing simulate`: whole databases through crashes and faults, seed after seed.

use super::{Arguments, complain, tell};
use serde_json::json;
use siltstone_testing::simulation::{Simulation, Tally, shrink};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often it tells how far it is.
const PROGRESS: Duration = Duration::from_secs(10);

/// An empty directory for checkpoints, in memory if the system has such: it is synced often.
fn scratch() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

pub fn run(mut arguments: Arguments) -> Result<ExitCode, String> {
    if arguments.flag("--threads") {
        return super::simulate_threads::run(arguments);
    }
    let seeds = arguments.number("--seeds")?.unwrap_or(1000);
    let first = arguments.number("--first")?.unwrap_or(0);
    // Goes on after a failure, and only lists it.
    let keep_going = arguments.flag("--keep-going");
    let json = arguments.flag("--json");
    arguments.end()?;
    let scratch = scratch().map_err(|error| error.to_string())?;
    let (begin, mut told, mut tally) = (Instant::now(), Instant::now(), Tally::default());
    let mut broken = 0;
    for seed in first..first.saturating_add(seeds) {
        let simulation = Simulation::from_seed(seed);
        match simulation.run(Some(scratch.path())) {
            Ok(one) => tally.add(&one),
            Err(failure) => {
                tell(&format!("seed {seed}: {failure}\n{}", simulation.command()));
                broken += 1;
                if keep_going {
                    continue;
                }
                tell(&shrunk(simulation, failure, scratch.path()));
                return Ok(ExitCode::FAILURE);
            }
        }
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            complain(&format!("{} of {seeds} seeds", tally.runs + broken));
        }
    }
    tell(&report(&tally, broken, begin.elapsed(), json));
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn shrunk(simulation: Simulation, failure: siltstone_testing::simulation::Failure, scratch: &Path) -> String {
    // Shrinking repeats the failure many times; a panic need not be told each time.
    std::panic::set_hook(Box::new(|_| {}));
    let (simulation, failure) = shrink(simulation, failure, Some(scratch));
    format!("shrunk to {} operations: {failure}\n{}", simulation.operations.len(), simulation.describe())
}

fn report(tally: &Tally, broken: u64, elapsed: Duration, json: bool) -> String {
    let seeds_per_s = tally.runs as f64 / elapsed.as_secs_f64();
    if json {
        let line = json!({
            "seeds": tally.runs + broken,
            "seeds_with_crash_and_fault": tally.runs_with_crash_and_fault,
            "seeds_with_broken_promise": broken,
            "operations": tally.operations,
            "writes": tally.writes,
            "crashes": tally.crashes,
            "power_losses_within": tally.power_losses_within,
            "faults": tally.faults,
            "reopenings": tally.reopenings,
            "failed_openings": tally.failed_openings,
            "conversions": tally.conversions,
            "merges": tally.merges,
            "seeds_per_s": seeds_per_s,
        });
        return line.to_string();
    }
    format!(
        "{} seeds kept every promise, {broken} did not; {} of them with a crash and a fault\n\
         {} operations, {} writes acknowledged, {} crashes ({} in the midst of an operation), {} faults\n\
         {} reopenings ({} more failed for a fault or a crash), {} conversions, {} merges; {seeds_per_s:.0} seeds/s",
        tally.runs,
        tally.runs_with_crash_and_fault,
        tally.operations,
        tally.writes,
        tally.crashes,
        tally.power_losses_within,
        tally.faults,
        tally.reopenings,
        tally.failed_openings,
        tally.conversions,
        tally.merges,
    )
}
