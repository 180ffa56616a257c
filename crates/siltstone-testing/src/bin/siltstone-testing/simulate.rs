//! `siltstone-testing simulate`: runs databases through crashes and faults, seed after seed.

use super::{Arguments, print, print_error};
use serde_json::json;
use siltstone_testing::engines::{self, TestEngine};
use siltstone_testing::simulation::{Counts, Simulation, shrink};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often the progress is printed.
const PROGRESS: Duration = Duration::from_secs(10);

/// Creates an empty directory for checkpoints, in memory if possible because it is synced often.
fn scratch() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

pub fn run(mut arguments: Arguments) -> Result<ExitCode, String> {
    if arguments.flag("--threads") {
        return super::simulate_threads::run(arguments);
    }
    let seeds = arguments.number("--seeds")?.unwrap_or(1000);
    let first = arguments.number("--first")?.unwrap_or(0);
    // FlashKey with settings that need much cleaning.
    let cleaning = arguments.flag("--cleaning");
    let engine = match cleaning {
        true => engines::cleaning(),
        false => arguments.engine_of(TestEngine::simulated().collect())?,
    };
    // Lists failures and continues.
    let keep_going = arguments.flag("--keep-going");
    let json = arguments.flag("--json");
    arguments.end()?;
    let scratch = scratch().map_err(|error| error.to_string())?;
    let (begin, mut printed_at, mut counts) = (Instant::now(), Instant::now(), Counts::default());
    let mut broken = 0;
    for seed in first..first.saturating_add(seeds) {
        let simulation = Simulation::from_seed(&engine, seed);
        match simulation.run(Some(scratch.path())) {
            Ok(one) => counts.add(&one),
            Err(failure) => {
                let profile = if cleaning { " --cleaning" } else { "" };
                print(&format!("seed {seed}: {failure}\n{}{profile}", simulation.command()));
                broken += 1;
                if keep_going {
                    continue;
                }
                print(&shrunk(simulation, failure, scratch.path()));
                return Ok(ExitCode::FAILURE);
            }
        }
        if printed_at.elapsed() >= PROGRESS {
            printed_at = Instant::now();
            print_error(&format!("{} of {seeds} seeds", counts.runs + broken));
        }
    }
    print(&report(&counts, broken, begin.elapsed(), json));
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn shrunk(simulation: Simulation, failure: siltstone_testing::simulation::Failure, scratch: &Path) -> String {
    // Shrinking repeats the failure many times; its panics are not printed.
    std::panic::set_hook(Box::new(|_| {}));
    let (simulation, failure) = shrink(simulation, failure, Some(scratch));
    format!("shrunk to {} operations: {failure}\n{}", simulation.operations.len(), simulation.describe())
}

fn report(counts: &Counts, broken: u64, elapsed: Duration, json: bool) -> String {
    let seeds_per_s = counts.runs as f64 / elapsed.as_secs_f64();
    if json {
        let line = json!({
            "seeds": counts.runs + broken,
            "seeds_with_crash_and_fault": counts.runs_with_crash_and_fault,
            "seeds_with_broken_promise": broken,
            "operations": counts.operations,
            "writes": counts.writes,
            "crashes": counts.crashes,
            "power_losses_within": counts.power_losses_within,
            "crashes_in_jobs": counts.crashes_in_jobs,
            "seeds_with_crash_in_jobs": counts.runs_with_crash_in_jobs,
            "faults": counts.faults,
            "reopenings": counts.reopenings,
            "failed_openings": counts.failed_openings,
            "jobs": counts.jobs,
            "seeds_per_s": seeds_per_s,
        });
        return line.to_string();
    }
    let crashes: String = counts
        .crashes_in_jobs
        .iter()
        .map(|(job, crashes)| {
            let seeds = counts.runs_with_crash_in_jobs.get(job).unwrap_or(&0);
            let share = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
            let (of_crashes, of_seeds) = (share(*crashes, counts.crashes), share(*seeds, counts.runs));
            format!("{crashes} crashes ({of_crashes:.1} %) in {seeds} seeds ({of_seeds:.1} %) with {job}\n")
        })
        .collect();
    let jobs: String = counts.jobs.iter().map(|(name, count)| format!("{count} {name}, ")).collect();
    format!(
        "{} seeds kept every guarantee, {broken} did not; {} of them with a crash and a fault\n\
         {} operations, {} writes acknowledged, {} crashes ({} during an operation), {} faults\n\
         {crashes}{} reopenings ({} failed in a fault or a crash), {jobs}{seeds_per_s:.0} seeds/s",
        counts.runs,
        counts.runs_with_crash_and_fault,
        counts.operations,
        counts.writes,
        counts.crashes,
        counts.power_losses_within,
        counts.faults,
        counts.reopenings,
        counts.failed_openings,
    )
}
