//! `siltstone repair`: repairs a damaged database and keeps its intact data.

use crate::dedup;
use crate::interrupt::Interrupt;
use crate::open::Place;
use crate::outcome::{Outcome, Result, complain, help};
use crate::place;
use crate::progress::with_bar;
use crate::quantity::counted;
use crate::verify;
use clap::Args;
use siltstone::{Database, RepairOptions, RepairReport};
use std::io::{Write, stdout};
use std::path::Path;

const EXAMPLES: &str = "
  siltstone repair DIR
  siltstone repair --db DIR --json";

/// Repair a damaged database, keeping all intact data
///
/// Writes the intact records of damaged files to new files, and moves the damaged files to DIR/damaged-0001 (or the
/// next number). Prints the keys that may be lost, and those for which reads may return an older value. An intact
/// database is not changed; an interrupted repair changes nothing. Exits with 1 if records may be lost.
///
/// For a dedup index, repairs both databases. If either loses records, the next `siltstone dedup` counts the
/// references again and reads the files with lost records again. A repair of an index that was interrupted must be run
/// again before the index is used.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct RepairArgs {
    #[command(flatten)]
    place: Place,
    /// Print one line of JSON per database
    #[arg(long)]
    json: bool,
}

pub fn run(args: RepairArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let directory = args.place.directory();
    let mut outcome = Outcome::Done;
    let mut repair_one = |database: &Path| -> anyhow::Result<bool> {
        let report = with_bar("repairing", &interrupt, |progress| {
            Database::repair(database, &RepairOptions::default(), progress)
        })?;
        if args.json {
            print_json(database, &report)?
        } else {
            print(database, &report)?
        }
        let loses = !report.found.lost().is_empty();
        if loses {
            outcome = Outcome::Negative;
        }
        Ok(loses)
    };
    match place::is_index(&directory) {
        true => dedup::repair(&directory, &interrupt, &mut repair_one)?,
        false => drop(repair_one(&directory)?),
    }
    Ok(outcome)
}

fn print_json(database: &Path, report: &RepairReport) -> anyhow::Result<()> {
    let line = verify::with_path(database, &report.to_json())?;
    Ok(writeln!(stdout().lock(), "{line}")?)
}

fn print(database: &Path, report: &RepairReport) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    report.found.damage.iter().for_each(|damage| complain(format_args!("{damage}")));
    let Some(folder) = &report.set_aside else {
        writeln!(out, "{}: no damage; nothing was changed", database.display())?;
        return Ok(());
    };
    writeln!(
        out,
        "{}: {}; {} of damaged files kept in {}",
        database.display(),
        counted(report.found.damage.len() as u64, "damaged place"),
        counted(report.kept_records, "record"),
        counted(report.new_files.len() as u64, "new file")
    )?;
    writeln!(out, "damaged files moved to {}: {}", folder.display(), report.set_aside_files.join(", "))?;
    match &report.found.lost()[..] {
        [] => writeln!(out, "no record is lost")?,
        lost => {
            lost.iter().try_for_each(|range| writeln!(out, "may be lost: {range}"))?;
            let older = report.found.may_be_older();
            older.iter().try_for_each(|range| writeln!(out, "reads may return older values: {range}"))?;
        }
    }
    Ok(out.flush()?)
}
