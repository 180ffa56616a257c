//! `siltstone-testing flips`: single bits turned over in every kind of file, one at a time.

use super::{Arguments, tell};
use serde_json::json;
use siltstone_testing::flips::{Tally, run as flip, subjects};
use std::process::ExitCode;
use std::time::Instant;

/// Turns over `--samples` bits in each kind of file. The first that is neither found nor harmless ends it.
pub fn run(mut arguments: Arguments) -> Result<ExitCode, String> {
    let samples = arguments.number("--samples")?.unwrap_or(1000);
    let seed = arguments.number("--seed")?.unwrap_or(0);
    let json = arguments.flag("--json");
    arguments.end()?;
    for subject in subjects() {
        let begin = Instant::now();
        let tally = flip(subject, samples, seed).map_err(|broken| format!("{subject}: {broken}"))?;
        tell(&report(subject, &tally, begin.elapsed().as_secs_f64(), json));
    }
    Ok(ExitCode::SUCCESS)
}

fn report(subject: &str, tally: &Tally, elapsed_s: f64, json: bool) -> String {
    let Tally { flips, refused, found_by_reading, found_by_verifying, harmless, repaired_whole } = tally;
    if json {
        let line = json!({
            "file": subject,
            "flips": flips,
            "refused_at_opening": refused,
            "found_by_reading": found_by_reading,
            "found_by_verifying": found_by_verifying,
            "harmless": harmless,
            "repaired_whole": repaired_whole,
            "elapsed_s": elapsed_s,
        });
        return line.to_string();
    }
    format!(
        "{subject}: {flips} bits turned over one at a time: {refused} refused at opening, {found_by_reading} found \
         by reading, {found_by_verifying} by verifying, {harmless} harmless; {repaired_whole} repaired without a loss"
    )
}
