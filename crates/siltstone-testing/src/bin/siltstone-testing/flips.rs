//! `siltstone-testing flips`: flips single bits in each kind of file, one at a time.

use super::{Arguments, print};
use serde_json::json;
use siltstone_testing::flips::{Counts, run as flip, subjects};
use std::process::ExitCode;
use std::time::Instant;

/// Flips `--samples` bits in each kind of file. The first that is neither detected nor harmless ends the run.
pub fn run(mut arguments: Arguments) -> Result<ExitCode, String> {
    let samples = arguments.number("--samples")?.unwrap_or(1000);
    let seed = arguments.number("--seed")?.unwrap_or(0);
    let json = arguments.flag("--json");
    arguments.end()?;
    for subject in subjects() {
        let begin = Instant::now();
        let counts = flip(subject, samples, seed).map_err(|broken| format!("{subject}: {broken}"))?;
        print(&report(subject, &counts, begin.elapsed().as_secs_f64(), json));
    }
    Ok(ExitCode::SUCCESS)
}

fn report(subject: &str, counts: &Counts, elapsed_s: f64, json: bool) -> String {
    let Counts { flips, refused, found_by_reading, found_by_verifying, harmless, repaired_whole } = counts;
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
        "{subject}: {flips} bits flipped one at a time: {refused} refused at opening, {found_by_reading} detected by \
         reading, {found_by_verifying} by verifying, {harmless} harmless; {repaired_whole} repaired without a loss"
    )
}
