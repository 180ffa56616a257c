//! `siltstone verify`: reads everything and reports damage.

use crate::interrupt::Interrupt;
use crate::open::Place;
use crate::outcome::{Outcome, Result, complain, help};
use crate::place;
use crate::progress::with_bar;
use crate::quantity::counted;
use clap::Args;
use serde_json::{Value, json};
use siltstone::{Damage, Database, KeyRange, VerifyReport};
use std::io::{Write, stdout};
use std::path::Path;

const EXAMPLES: &str = "
  siltstone verify DIR
  siltstone verify --db DIR --json";

/// Read the whole database and report damage
///
/// Prints every damaged part of a file with the keys of its records, or the range of their hashes. Changes nothing, and
/// also reads a database that cannot be opened. For a dedup index, reads both databases. Exits with 1 if there is
/// damage; `siltstone repair` fixes it.
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
        let report = verify(&database, &interrupt)?;
        print(&database, &report, args.json)?;
        if !report.damage.is_empty() {
            outcome = Outcome::Negative;
        }
    }
    Ok(outcome)
}

/// Reads a whole database, with a progress bar, and returns the damage.
pub fn verify(directory: &Path, interrupt: &Interrupt) -> siltstone::Result<VerifyReport> {
    with_bar("verifying", interrupt, |progress| Database::verify_closed(directory, progress))
}

/// Prints the checked parts, and each damaged part to standard error.
pub fn print(path: &Path, report: &VerifyReport, json: bool) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    if json {
        writeln!(out, "{}", found(path, report))?;
    } else {
        writeln!(
            out,
            "{}, {} checked, {} damaged in {}",
            counted(report.checked_records, "record"),
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

/// Returns a report in JSON. Hashes are strings of 16 hexadecimal digits.
pub fn found(path: &Path, report: &VerifyReport) -> Value {
    json!({
        "path": path.display().to_string(),
        "checked_bytes": report.checked_bytes,
        "checked_records": report.checked_records,
        "torn_bytes": report.torn_bytes,
        "damage": report.damage.iter().map(damaged_place).collect::<Vec<_>>(),
        "lost": ranges(&report.lost()),
        "may_be_older": ranges(&report.may_be_older()),
    })
}

fn damaged_place(damage: &Damage) -> Value {
    let keys: Vec<String> = damage.keys.iter().map(|key| key.escape_ascii().to_string()).collect();
    json!({
        "file": damage.file.display().to_string(),
        "part": damage.part.to_string(),
        "offset": damage.offset,
        "length": damage.length,
        "expected": damage.expected,
        "got": damage.got,
        "keys": keys,
        "lost": ranges(&damage.lost),
        "may_be_older": damage.may_be_older,
    })
}

fn ranges(ranges: &[KeyRange]) -> Vec<Value> {
    let hexadecimal = |placement: u64| format!("{placement:016x}");
    let hexadecimal =
        |range: &KeyRange| json!({"first": hexadecimal(range.first), "last": hexadecimal(range.last)});
    ranges.iter().map(hexadecimal).collect()
}
