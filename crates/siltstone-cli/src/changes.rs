//! `siltstone changes`: prints the keys that were written since a position.

use crate::notation::NotationArgs;
use crate::open::Location;
use crate::outcome::{Outcome, Result, complain, help};
use crate::output::deliver;
use crate::quantity::parse_whole;
use crate::transfer::write_line;
use clap::Args;
use siltstone::{Bytes, ChangePosition, Record};
use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone put key value --db DIR --set change_feed=64MiB
  siltstone changes --db DIR --next position
  siltstone changes --db DIR --since \"$(cat position)\" --next position";

/// The keys of a page.
const PAGE_KEYS: usize = 100_000;

/// Print the keys that were put or deleted since a position
///
/// For databases that keep a change feed (--set change_feed=BYTES). Without --since, prints the present position. A key
/// may be printed more than once, and its record may be as it was. The position of the next call is written to standard
/// error, or with --next to a file, after all keys. If the changes since the position are lost, read all records again.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct ChangesArgs {
    #[command(flatten)]
    location: Location,
    #[command(flatten)]
    notation: NotationArgs,
    /// Print the keys from this position on
    #[arg(long, value_name = "POSITION")]
    since: Option<ChangePosition>,
    /// Stop after this number of keys
    #[arg(long, value_name = "N", value_parser = parse_whole::<usize>, requires = "since")]
    limit: Option<usize>,
    /// Write the position of the next call to this file
    #[arg(long, value_name = "FILE")]
    next: Option<PathBuf>,
    /// Print lines of JSON, as `list --json` does
    #[arg(long, conflicts_with = "escaped")]
    json: bool,
}

pub fn run(args: ChangesArgs) -> Result {
    let database = args.location.open_single_read_only("changes")?;
    let Some(mut position) = args.since else {
        let position = database.change_position()?;
        deliver(args.next.as_deref(), false, |out| Ok(writeln!(out, "{position}")?))?;
        return Ok(Outcome::Done);
    };
    let mut out = BufWriter::new(stdout().lock());
    let (shown, mut left) = (args.notation.listed(), args.limit.unwrap_or(usize::MAX));
    loop {
        let changes = database.changes(position, left.min(PAGE_KEYS))?;
        position = changes.next;
        left -= changes.keys.len();
        if changes.keys.is_empty() {
            break;
        }
        for key in changes.keys {
            if args.json {
                let record = Record { key, value: Bytes::new(), expires_at_ms: 0 };
                write_line(&mut out, &record, false, args.notation.is_hex())?;
            } else {
                writeln!(out, "{}", shown.show(&key))?;
            }
        }
    }
    out.flush()?;
    match args.next {
        Some(path) => deliver(Some(&path), false, |out| Ok(writeln!(out, "{position}")?))?,
        None => complain(format_args!("next position: {position}")),
    }
    Ok(Outcome::Done)
}
