//! `siltstone-bench simulate`: whole databases through crashes and faults, seed after seed.

use serde_json::json;
use siltstone::testing::simulation::{Simulation, Tally, shrink};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often it tells how far it is.
const PROGRESS: Duration = Duration::from_secs(10);

struct Arguments {
    first: u64,
    seeds: u64,
    json: bool,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut parsed = Arguments { first: 0, seeds: 1000, json: false };
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let text = arguments.next().ok_or(format!("{argument}: a number is missing"))?;
            text.parse::<u64>().map_err(|_| format!("{argument}: {text} is no number"))
        };
        match argument.as_str() {
            "--first" => parsed.first = number()?,
            "--seeds" => parsed.seeds = number()?,
            "--json" => parsed.json = true,
            _ => return Err(format!("{argument}: not known; --seeds, --first and --json are")),
        }
    }
    Ok(parsed)
}

/// An empty directory for checkpoints, in memory if the system has such: it is synced often.
fn scratch() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

pub fn run(arguments: impl Iterator<Item = String>) -> Result<ExitCode, String> {
    let Arguments { first, seeds, json } = parse(arguments)?;
    let scratch = scratch().map_err(|error| error.to_string())?;
    let (begin, mut told, mut tally) = (Instant::now(), Instant::now(), Tally::default());
    for seed in first..first.saturating_add(seeds) {
        let simulation = Simulation::from_seed(seed);
        match simulation.run(Some(scratch.path())) {
            Ok(one) => tally.add(&one),
            Err(failure) => {
                tell(&format!("seed {seed}: {failure}\n{}", simulation.command()));
                tell(&shrunk(simulation, failure, scratch.path()));
                return Ok(ExitCode::FAILURE);
            }
        }
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            super::complain(&format!("{} of {seeds} seeds", tally.runs));
        }
    }
    tell(&report(&tally, begin.elapsed(), json));
    Ok(ExitCode::SUCCESS)
}

fn shrunk(
    simulation: Simulation,
    failure: siltstone::testing::simulation::Failure,
    scratch: &Path,
) -> String {
    // Shrinking repeats the failure many times; a panic need not be told each time.
    std::panic::set_hook(Box::new(|_| {}));
    let (simulation, failure) = shrink(simulation, failure, Some(scratch));
    format!("shrunk to {} operations: {failure}\n{}", simulation.operations.len(), simulation.describe())
}

fn report(tally: &Tally, elapsed: Duration, json: bool) -> String {
    let seeds_per_s = tally.runs as f64 / elapsed.as_secs_f64();
    if json {
        let line = json!({
            "seeds": tally.runs,
            "seeds_with_crash_and_fault": tally.runs_with_crash_and_fault,
            "broken_promises": 0,
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
        "{} seeds, no broken promise; {} of them with a crash and a fault\n\
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

#[expect(clippy::print_stdout, reason = "a command line tells there")]
fn tell(text: &str) {
    println!("{text}");
}
