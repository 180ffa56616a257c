//! `siltstone get`: prints the value of a key.

use crate::input::ArgumentArgs;
use crate::open::Location;
use crate::outcome::{Outcome, Result, help_with_arguments};
use crate::output::{deliver, print_value};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone get --db DIR user:17
  siltstone get --db DIR --hex 00ff17
  siltstone get --db DIR --output picture.png picture";

/// Print the value of a key
///
/// Writes the bytes of the value unchanged, or in hex with --hex; adds a newline only on a terminal. Exits with 1 if
/// the key is not found.
#[derive(Args)]
#[command(after_help = help_with_arguments(EXAMPLES))]
pub struct GetArgs {
    #[command(flatten)]
    location: Location,
    #[command(flatten)]
    typed: ArgumentArgs,
    /// Write the value to this file; an existing file is replaced when the output is complete
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write nothing; the exit code is 1 if the key is not found
    #[arg(long, short, conflicts_with = "output")]
    quiet: bool,
    /// Key
    key: OsString,
}

pub fn run(args: GetArgs) -> Result {
    let key = args.typed.argument(&args.key)?;
    let Some(value) = args.location.open()?.get(key)? else { return Ok(Outcome::Negative) };
    let notation = args.typed.notation.typed();
    if let Some(path) = &args.output {
        deliver(Some(path), false, |out| Ok(out.write_all(&notation.bytes(&value))?))?;
    } else if !args.quiet {
        print_value(&value, notation)?;
    }
    Ok(Outcome::Done)
}
