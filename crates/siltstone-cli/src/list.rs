//! `siltstone list`: prints the keys, or keys and values, one per line.

use crate::dedup;
use crate::input::ArgumentArgs;
use crate::open::Location;
use crate::outcome::{Outcome, Result, complain, help_with_arguments, wrong_usage};
use crate::place;
use crate::quantity::parse_whole;
use crate::transfer;
use clap::Args;
use serde_json::json;
use siltstone::{Bytes, Database, Record};
use std::ffi::OsString;
use std::io::{BufWriter, Write, stdout};
use std::ops::Bound;

const EXAMPLES: &str = "
  siltstone list --db DIR
  siltstone list --db DIR --prefix user: --values --limit 20
  siltstone list --db DIR --from user:100 --to user:200
  siltstone list --db DIR --count
  siltstone list --db DIR --values --json
  siltstone list --db DIR --limit 1000 --cursor 0";

/// Print the keys, one per line
///
/// The keys are in their order, compared byte by byte, if the database keeps it (--engine flashkey --set ordered=true
/// when it is created); otherwise in the order of the database. Non-printable bytes are written as \xNN, which other
/// commands read with `--escaped`. With --values, a tab and the value follow each key. A hash in a database of
/// `siltstone serve data` is written as JSON.
#[derive(Args)]
#[command(after_help = help_with_arguments(EXAMPLES))]
pub struct ListArgs {
    #[command(flatten)]
    location: Location,
    #[command(flatten)]
    typed: ArgumentArgs,
    /// Print only keys with this prefix. Reads all records unless the database keeps the order of the keys
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<OsString>,
    /// Begin with this key, or the next higher one; needs the order of the keys
    #[arg(long, value_name = "KEY", conflicts_with = "prefix")]
    from: Option<OsString>,
    /// End before this key; needs the order of the keys
    #[arg(long, value_name = "KEY", conflicts_with = "prefix")]
    to: Option<OsString>,
    /// Begin with the highest key; needs the order of the keys
    #[arg(long)]
    reverse: bool,
    /// Print the values too
    #[arg(long)]
    values: bool,
    /// Stop after this number of keys
    #[arg(long, value_name = "N", value_parser = parse_whole::<u64>)]
    limit: Option<u64>,
    /// Print one page of --limit keys, from this position on: 0 for the first page. The cursor of the next page is
    /// written to standard error, unless there is none
    #[arg(long, value_name = "CURSOR", requires = "limit")]
    #[arg(conflicts_with_all = ["prefix", "from", "to", "reverse", "count"], value_parser = parse_whole::<u64>)]
    cursor: Option<u64>,
    /// Print only the number of keys
    #[arg(long, conflicts_with = "values")]
    count: bool,
    /// Print lines of JSON, as `export --format jsonl` does; without --values they have no values
    #[arg(long, conflicts_with = "escaped")]
    json: bool,
}

pub fn run(args: ListArgs) -> Result {
    let shown = args.typed.notation.listed();
    let mut out = BufWriter::new(stdout().lock());
    let hex = args.typed.notation.is_hex();
    let values = args.location.values()?;
    let mut print = |record: &Record| {
        let record = if args.values { values.shown_record(record.clone())? } else { record.clone() };
        match (args.json, args.values) {
            (true, with_value) => transfer::write_line(&mut out, &record, with_value, hex),
            (_, true) => Ok(writeln!(out, "{}\t{}", shown.show(&record.key), shown.show(&record.value))?),
            _ => Ok(writeln!(out, "{}", shown.show(&record.key))?),
        }
    };
    let database = args.location.open()?;
    if let (Some(cursor), Some(limit)) = (args.cursor, args.limit) {
        let page = database.scan(cursor.., usize::try_from(limit).unwrap_or(usize::MAX))?;
        let is_index = place::is_index(&args.location.db);
        let records = page.records.iter().filter(|record| !(is_index && dedup::is_mark(&record.key)));
        records.into_iter().try_for_each(&mut print)?;
        out.flush()?;
        if let Some(next) = page.next {
            complain(format_args!("next cursor: {next}"));
        }
        return Ok(Outcome::Done);
    }
    let mut listed = 0;
    let is_index = place::is_index(&args.location.db);
    for record in records(&args, &database)? {
        // The record of the last commit is no chunk.
        if is_index && record.as_ref().is_ok_and(|record| dedup::is_mark(&record.key)) {
            continue;
        }
        if args.limit.is_some_and(|limit| listed >= limit) {
            break;
        }
        let record = record?;
        listed += 1;
        if !args.count {
            print(&record)?;
        }
    }
    match (args.count, args.json) {
        (true, true) => writeln!(out, "{}", json!({ "keys": listed }))?,
        (true, false) => writeln!(out, "{listed}")?,
        _ => {}
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// Records that are read one after the other.
type Records = Box<dyn Iterator<Item = siltstone::Result<Record>>>;

/// Returns the records to list. Those without a value that is printed have none.
fn records(args: &ListArgs, database: &Database) -> Result<Records> {
    let argument =
        |given: &Option<OsString>| given.as_ref().map(|given| args.typed.argument(given)).transpose();
    let (prefix, from, to) = (argument(&args.prefix)?, argument(&args.from)?, argument(&args.to)?);
    let Some(ordered) = database.ordered() else {
        if from.is_some() || to.is_some() || args.reverse {
            return Err(no_order(database.stats().engine));
        }
        return Ok(Box::new(database.prefix(prefix.unwrap_or_default())?));
    };
    let ordered = if args.reverse { ordered.descending() } else { ordered };
    let limit = args.limit.and_then(|limit| usize::try_from(limit).ok());
    let ordered = limit.map_or(ordered, |limit| ordered.limit(limit));
    let bounds = (
        from.as_deref().map_or(Bound::Unbounded, Bound::Included),
        to.as_deref().map_or(Bound::Unbounded, Bound::Excluded),
    );
    // A line of JSON has when the record expires, which its key alone does not say.
    if args.values || args.json {
        return Ok(Box::new(match prefix {
            Some(prefix) => ordered.prefix(&prefix)?,
            None => ordered.range(bounds)?,
        }));
    }
    let keys = match prefix {
        Some(prefix) => ordered.prefix_keys(&prefix)?,
        None => ordered.range_keys(bounds)?,
    };
    let record = |key| Record { key, value: Bytes::new(), expires_at_ms: 0 };
    Ok(Box::new(keys.map(move |key| key.map(record))))
}

fn no_order(engine: &str) -> anyhow::Error {
    wrong_usage(format_args!(
        "this database of the engine {engine} does not keep the order of its keys, which --from, --to and --reverse \
         need; import its records into one that is created with `--engine flashkey --set ordered=true`"
    ))
}
