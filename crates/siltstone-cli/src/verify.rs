//! `siltstone verify`: reads everything and says what is damaged.

use crate::interrupt::Interrupt;
use crate::open::{Location, byte_bar, show_bytes};
use crate::outcome::{Outcome, Result, complain, help};
use clap::Args;
use serde_json::json;
use siltstone::VerifyReport;
use std::io::{Write, stdout};

const EXAMPLES: &str = "
  siltstone verify --db DIR
  siltstone verify --db DIR --json";

/// Read everything and say what is damaged
///
/// Answers 1 if anything is.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct VerifyArgs {
    #[command(flatten)]
    location: Location,
    /// Print a line of JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: VerifyArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let database = args.location.open()?;
    let bar = byte_bar("verifying");
    let report = database.verify(&mut |done, all| show_bytes(&bar, done, all) && !interrupt.is_raised());
    bar.finish_and_clear();
    let report = report?;
    print(&report, args.json)?;
    Ok(if report.damage.is_empty() { Outcome::Done } else { Outcome::Negative })
}

/// Prints what was checked, and complains of each damaged place.
pub fn print(report: &VerifyReport, json: bool) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    if json {
        let damage: Vec<String> = report.damage.iter().map(ToString::to_string).collect();
        let report = json!({
            "checked_bytes": report.checked_bytes,
            "checked_records": report.checked_records,
            "damage": damage,
        });
        writeln!(out, "{report}")?;
    } else {
        writeln!(
            out,
            "{} records, {} bytes checked, {} places damaged",
            report.checked_records,
            report.checked_bytes,
            report.damage.len()
        )?;
        report.damage.iter().for_each(|damage| complain(format_args!("{damage}")));
    }
    Ok(out.flush()?)
}
