//! `siltstone dict verify`: reads everything and reports damage.

use super::open;
use crate::interrupt::Interrupt;
use crate::outcome::{Outcome, Result, help};
use crate::progress::with_bar;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone dict verify words.dict
  siltstone dict verify words.dict --json";

/// Read the whole file and report damage
///
/// Exits with 1 if the file is damaged.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct VerifyArgs {
    /// File of the dictionary
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: VerifyArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let dictionary = open(&args.path, false)?;
    let report = with_bar("verifying", &interrupt, |progress| dictionary.verify_with(progress))?;
    crate::verify::print(&args.path, &report, args.json)?;
    Ok(if report.damage.is_empty() { Outcome::Done } else { Outcome::Negative })
}
