//! `siltstone dict info`: prints the properties of a dictionary.

use super::{open, print_info};
use crate::outcome::{Outcome, Result, help};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone dict info words.dict
  siltstone dict info words.dict --json";

/// Print the properties of a dictionary
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct InfoArgs {
    /// File of the dictionary
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: InfoArgs) -> Result {
    let dictionary = open(&args.path, false)?;
    print_info(&args.path, &dictionary.info(), args.json)?;
    Ok(Outcome::Done)
}
