//! What an index keeps of its runs: an entry with the totals of each, which `siltstone dedup runs` lists, and its
//! report, which `siltstone dedup report` prints again.

use super::formats::RunEntry;
use super::index::{Index, REPORT, RUN, read_state};
use super::report::Report;
use super::table::{self, date};
use crate::place::FILES;
use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use siltstone::Database;
use siltstone_command::database;
use siltstone_command::outcome::{help, wrong_usage};
use siltstone_command::quantity::parse_whole;
use std::io::{Write, stdout};
use std::path::Path;

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

const REPORT_EXAMPLES: &str = "
  siltstone dedup report --db backup.index
  siltstone dedup report --db backup.index --run 12 --json";

/// Print the report of a run again
///
/// Prints what `siltstone dedup` printed at the end of the run. A run that was killed has no report.
#[derive(Args)]
#[command(after_help = help(REPORT_EXAMPLES))]
pub struct ReportArgs {
    /// The number of the run, as `dedup runs` lists it [default: the last one]
    #[arg(long, value_name = "NUMBER", value_parser = parse_whole::<u32>)]
    run: Option<u32>,
    /// Also print what the index costs by item
    #[arg(long, short, conflicts_with = "json")]
    verbose: bool,
}

impl Index {
    /// Records the present run, with its report.
    pub fn set_run(&mut self, report: &Report) -> anyhow::Result<()> {
        let run = self.run();
        self.set_record(key(RUN, run), entry(report).encode());
        self.set_record(key(REPORT, run), serde_json::to_vec(report)?);
        Ok(())
    }
}

/// Opens the catalogue of an index alone, which is all that the runs need: it is not changed, and references are not
/// counted.
fn catalogue(directory: &Path) -> anyhow::Result<Database> {
    database::open(Database::builder(directory.join(FILES)).read_only(true))
}

/// Returns the runs that were recorded, with their numbers.
fn runs(catalogue: &Database) -> anyhow::Result<Vec<(u32, RunEntry)>> {
    let mut runs = Vec::new();
    for run in 1..=read_state(catalogue)?.unwrap_or_default().runs {
        if let Some(value) = catalogue.get(key(RUN, run))? {
            runs.push((run, RunEntry::decode(&value)?));
        }
    }
    Ok(runs)
}

/// Returns what the list of runs has of a report.
fn entry(report: &Report) -> RunEntry {
    RunEntry {
        started_at_ms: report.started_at_ms,
        milliseconds: (report.seconds * 1000.0) as u64,
        files: report.files,
        bytes: report.bytes,
        bytes_read: report.bytes_read,
        new_bytes: report.new_bytes,
        files_failed: report.files_failed,
    }
}

/// Returns the key of a record of a run.
fn key(kind: u8, run: u32) -> Vec<u8> {
    [&[kind][..], &run.to_be_bytes()].concat()
}

fn as_json(number: u32, run: &RunEntry) -> Value {
    let mut line = json!(run);
    line["run"] = json!(number);
    line
}

/// Prints the report of a run of the index in a directory.
pub fn report(args: &ReportArgs, directory: &Path, is_json: bool) -> anyhow::Result<()> {
    let catalogue = catalogue(directory)?;
    let runs = runs(&catalogue)?;
    let asked = args.run;
    let found = runs.iter().rfind(|(number, _)| asked.is_none_or(|asked| asked == *number));
    let (number, entry) = found.ok_or_else(|| match asked {
        Some(asked) => wrong_usage(format_args!(
            "--run is {asked}, and the index has no report of this run; `siltstone dedup runs` lists those it has"
        )),
        None => wrong_usage("the index has no report: no run has ended yet"),
    })?;
    let kept = catalogue.get(key(REPORT, *number))?;
    let parsed = kept.as_deref().map(serde_json::from_slice::<Report>).transpose();
    let parsed =
        parsed.context("the catalogue is damaged: a report is none; run `siltstone verify` on the index")?;
    let mut out = stdout().lock();
    match (parsed, kept) {
        (Some(_), Some(json)) if is_json => {
            out.write_all(&json)?;
            writeln!(out)?;
        }
        (Some(report), _) => table::print(&report, args.verbose, &mut out)?,
        (None, _) if is_json => writeln!(out, "{}", as_json(*number, entry))?,
        (None, _) => table::print_entry(*number, entry, &mut out)?,
    }
    Ok(out.flush()?)
}

/// Prints the list of runs of the index in a directory.
pub fn list(directory: &Path, is_json: bool) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    for (number, run) in &runs(&catalogue(directory)?)? {
        if is_json {
            writeln!(out, "{}", as_json(*number, run))?;
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
