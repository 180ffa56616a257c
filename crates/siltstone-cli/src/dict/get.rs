//! `siltstone dict get`: prints the values of keys.

use super::open;
use crate::lookup::{KeyArgs, PrintArgs, print_many};
use crate::outcome::{Outcome, Result, help_with_arguments};
use crate::output::print_value;
use crate::values::Values;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone dict get words.dict house
  siltstone dict get words.dict house tree water
  siltstone dict get words.dict --keys wanted.txt > found.tsv
  siltstone dict get words.dict --keys wanted.txt --json";

/// Print the values of keys
///
/// For one key, writes the bytes of the value unchanged, and a newline only on a terminal. For several keys, writes one
/// line per key found: the key, a tab and the value, with non-printable bytes as \xNN. Exits with 1 if a key is not
/// found.
#[derive(Args)]
#[command(after_help = help_with_arguments(EXAMPLES))]
pub struct GetArgs {
    /// File of the dictionary
    #[arg(value_name = "DICTIONARY")]
    path: PathBuf,
    #[command(flatten)]
    keys: KeyArgs,
    /// Do not load the index, but search: fastest for a single key of a large dictionary
    #[arg(long)]
    without_index: bool,
    #[command(flatten)]
    print: PrintArgs,
}

pub fn run(args: &GetArgs) -> Result {
    let dictionary = open(&args.path, args.without_index)?;
    let Some(key) = args.print.single(&args.keys)? else {
        return print_many(&dictionary, Values::PLAIN, &args.keys, args.print);
    };
    let Some(value) = dictionary.get(key)? else { return Ok(Outcome::Negative) };
    if !args.print.quiet {
        print_value(&value, args.keys.typed.notation.typed())?;
    }
    Ok(Outcome::Done)
}
