//! `siltstone list`: prints the keys, or keys and values, one per line.

use crate::input::ArgumentArgs;
use crate::open::Location;
use crate::outcome::{Outcome, Result, complain, help_with_arguments};
use crate::quantity::parse_whole;
use clap::Args;
use siltstone::Record;
use std::ffi::OsString;
use std::io::{BufWriter, Write, stdout};

const EXAMPLES: &str = "
  siltstone list --db DIR
  siltstone list --db DIR --prefix user: --values --limit 20
  siltstone list --db DIR --count
  siltstone list --db DIR --limit 1000 --cursor 0";

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
    /// Print one page of --limit keys, from this position on: 0 for the first page. The cursor of the next page is
    /// written to standard error, unless there is none
    #[arg(long, value_name = "CURSOR", requires = "limit", conflicts_with_all = ["prefix", "count"])]
    cursor: Option<u64>,
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
    let mut print = |record: &Record| match args.values {
        true => writeln!(out, "{}\t{}", shown.show(&record.key), shown.show(&record.value)),
        false => writeln!(out, "{}", shown.show(&record.key)),
    };
    let database = args.location.open()?;
    if let (Some(cursor), Some(limit)) = (args.cursor, args.limit) {
        let page = database.scan(cursor.., usize::try_from(limit).unwrap_or(usize::MAX))?;
        page.records.iter().try_for_each(&mut print)?;
        out.flush()?;
        if let Some(next) = page.next {
            complain(format_args!("next cursor: {next}"));
        }
        return Ok(Outcome::Done);
    }
    let mut listed = 0;
    for record in database.iter()? {
        if args.limit.is_some_and(|limit| listed >= limit) {
            break;
        }
        let record = record?;
        if !record.key.starts_with(&prefix) {
            continue;
        }
        listed += 1;
        if !args.count {
            print(&record)?;
        }
    }
    if args.count {
        writeln!(out, "{listed}")?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}
