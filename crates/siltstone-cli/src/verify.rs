//! `siltstone verify`: reads everything and reports damage.

use crate::dedup;
use crate::interrupt::Interrupt;
use crate::open::Place;
use crate::outcome::{Outcome, Result, complain, help};
use crate::place;
use crate::quantity::counted;
use clap::Args;
use serde_json::{Value, json};
use siltstone::VerifyReport;
use siltstone_command::database;
use std::io::{Write, stdout};
use std::path::Path;

const EXAMPLES: &str = "
  siltstone verify DIR
  siltstone verify --db DIR --json";

/// Read the whole database and report damage
///
/// Prints every damaged part of a file with the keys of its records, or the range of their hashes. Without damage, also
/// prints the number of live records: each key once, without deleted and expired ones. Changes nothing, and also reads
/// a database that cannot be opened. For a dedup index, reads both databases, and checks that they are of one moment.
/// Exits with 1 if there is damage; `siltstone repair` fixes it.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct VerifyArgs {
    #[command(flatten)]
    place: Place,
    /// Print one line of JSON per database
    #[arg(long)]
    json: bool,
}

pub fn run(args: VerifyArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let mut outcome = Outcome::Done;
    let directory = args.place.directory();
    if let Err(stopped) = place::check_repaired(&directory) {
        complain(format_args!("{stopped}"));
        outcome = Outcome::Negative;
    }
    for database in place::databases(&directory) {
        let report = database::verify(&database, &interrupt)?;
        print(&database, &report, args.json)?;
        if !report.damage.is_empty() {
            outcome = Outcome::Negative;
        }
    }
    // Two databases without damage may still be of different moments.
    if outcome == Outcome::Done
        && place::is_index(&directory)
        && let Err(different) = dedup::check(&directory)
    {
        complain(format_args!("{different:#}"));
        outcome = Outcome::Negative;
    }
    Ok(outcome)
}

/// Prints the checked parts, and each damaged part to standard error.
pub fn print(path: &Path, report: &VerifyReport, json: bool) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    if json {
        writeln!(out, "{}", with_path(path, &report.to_json())?)?;
    } else {
        if let Some(live) = report.live_records {
            write!(out, "{}, ", counted(live, "live record"))?;
        }
        writeln!(
            out,
            "{} checked, {} damaged in {}",
            counted(report.checked_bytes, "byte"),
            counted(report.damage.len() as u64, "place"),
            path.display()
        )?;
        if report.torn_bytes > 0 {
            writeln!(out, "{} bytes at the end of the log were written incompletely", report.torn_bytes)?;
        }
        report.damage.iter().for_each(|damage| complain(format_args!("{damage}")));
    }
    Ok(out.flush()?)
}

/// Returns a report, as JSON, with the path.
pub fn with_path(path: &Path, report: &str) -> anyhow::Result<Value> {
    let mut report: Value = serde_json::from_str(report)?;
    report["path"] = json!(path.display().to_string());
    Ok(report)
}
