//! `siltstone dedup runs`: lists the runs of an index.

use super::formats::RunEntry;
use super::report::date;
use clap::Args;
use serde_json::json;
use siltstone_command::outcome::help;
use std::io::{Write, stdout};

const EXAMPLES: &str = "
  siltstone dedup runs --db backup.index
  siltstone dedup runs --db backup.index --json";

/// List the runs of the index
///
/// A line per run: its number, which `dedup forget --run` takes, when it began (UTC), its seconds, the files below its
/// paths and their bytes, the bytes that it read, those of chunks that were in no file before, and the files that could
/// not be read. Runs that were killed have no line.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct RunsArgs {}

pub fn print(runs: &[(u32, RunEntry)], is_json: bool) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    for (number, run) in runs {
        if is_json {
            let mut line = json!(run);
            line["run"] = json!(number);
            writeln!(out, "{line}")?;
            continue;
        }
        let RunEntry { files, bytes, bytes_read, new_bytes, files_failed, .. } = run;
        let (began, seconds) = (date(run.started_at_ms), run.milliseconds as f64 / 1000.0);
        writeln!(
            out,
            "{number}\t{began}\t{seconds:.1}\t{files}\t{bytes}\t{bytes_read}\t{new_bytes}\t{files_failed}"
        )?;
    }
    Ok(out.flush()?)
}
