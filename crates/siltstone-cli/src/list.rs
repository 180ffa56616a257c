//! `siltstone list`: the keys, or keys and values, a line each.

use crate::input::ArgumentArgs;
use crate::open::Location;
use crate::outcome::{Outcome, Result, help_with_arguments};
use crate::quantity::parse_whole;
use clap::Args;
use std::ffi::OsString;
use std::io::{BufWriter, Write, stdout};

const EXAMPLES: &str = "
  siltstone list --db DIR
  siltstone list --db DIR --prefix user: --values --limit 20
  siltstone list --db DIR --count";

/// Print the keys, one per line
///
/// The keys are in the order of the database. Non-printable bytes are written as \xNN, which other commands read with
/// `--escaped`. With --values, a tab and the value follow each key.
#[derive(Args)]
#[command(after_help = help_with_arguments(EXAMPLES))]
pub struct ListArgs {
    #[command(flatten)]
    location: Location,
    #[command(flatten)]
    typed: ArgumentArgs,
    /// Print only keys with this prefix (still reads all records)
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<OsString>,
    /// Print the values too
    #[arg(long)]
    values: bool,
    /// Stop after this number of keys
    #[arg(long, value_name = "N", value_parser = parse_whole::<u64>)]
    limit: Option<u64>,
    /// Print only the number of keys
    #[arg(long, conflicts_with = "values")]
    count: bool,
}

pub fn run(args: ListArgs) -> Result {
    let prefix = match &args.prefix {
        Some(prefix) => args.typed.argument(prefix)?,
        None => Vec::new(),
    };
    let shown = args.typed.notation.listed();
    let mut out = BufWriter::new(stdout().lock());
    let mut listed = 0;
    for record in args.location.open()?.iter()? {
        if args.limit.is_some_and(|limit| listed >= limit) {
            break;
        }
        let record = record?;
        if !record.key.starts_with(&prefix) {
            continue;
        }
        listed += 1;
        if args.values {
            writeln!(out, "{}\t{}", shown.show(&record.key), shown.show(&record.value))?;
        } else if !args.count {
            writeln!(out, "{}", shown.show(&record.key))?;
        }
    }
    if args.count {
        writeln!(out, "{listed}")?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}
