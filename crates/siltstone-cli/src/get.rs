//! `siltstone get`: prints the values of keys.

use crate::lookup::{KeyArgs, PrintArgs, print_many};
use crate::open::Location;
use crate::outcome::{Outcome, Result, help_with_arguments, wrong_usage};
use crate::output::{deliver, print_value};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone get --db DIR user:17
  siltstone get --db DIR user:17 user:18
  siltstone get --db DIR --keys wanted.txt > found.tsv
  siltstone get --db DIR --keys wanted.txt --json
  siltstone get --db DIR --hex 00ff17
  siltstone get --db DIR --output picture.png picture";

/// Print the values of keys
///
/// For one key, writes the bytes of the value unchanged, or in hex with --hex, and a newline only on a terminal. For
/// several keys, writes one line per key found: the key, a tab and the value, with non-printable bytes as \xNN. A hash
/// in a database of `siltstone serve data` is written as JSON. Exits with 1 if a key is not found.
#[derive(Args)]
#[command(after_help = help_with_arguments(EXAMPLES))]
pub struct GetArgs {
    #[command(flatten)]
    location: Location,
    #[command(flatten)]
    keys: KeyArgs,
    /// Write the value of a single key to this file; an existing file is replaced when the output is complete
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["quiet", "json"])]
    output: Option<PathBuf>,
    #[command(flatten)]
    print: PrintArgs,
}

pub fn run(args: GetArgs) -> Result {
    let Some(key) = args.print.single(&args.keys)? else {
        if args.output.is_some() {
            return Err(wrong_usage("--output takes the value of one key; for several, use `> FILE`"));
        }
        let database = args.location.open()?;
        return print_many(&database, args.location.values()?, &args.keys, args.print);
    };
    let Some(stored) = args.location.open()?.get(key)? else { return Ok(Outcome::Negative) };
    let value = args.location.values()?.shown(stored)?;
    let notation = args.keys.typed.notation.typed();
    if let Some(path) = &args.output {
        deliver(Some(path), false, |out| Ok(out.write_all(&notation.bytes(&value))?))?;
    } else if !args.print.quiet {
        print_value(&value, notation)?;
    }
    Ok(Outcome::Done)
}
