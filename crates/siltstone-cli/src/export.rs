//! `siltstone export`: writes records to a stream.

use crate::input::ArgumentArgs;
use crate::interrupt::Interrupt;
use crate::open::Location;
use crate::outcome::{Outcome, Result, complain, help, wrong_usage};
use crate::output::deliver;
use crate::progress::{Stopwatch, item_bar};
use crate::quantity::counted;
use crate::transfer::{Format, parse_delimiter};
use clap::Args;
use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone export --db DIR --output all.export
  siltstone export --db DIR --format jsonl | gzip > all.jsonl.gz
  siltstone export --db DIR --format csv --prefix user: --output users.csv
  siltstone export --db DIR --format parquet --escaped --output all.parquet
  siltstone export --db OLD | siltstone import --db NEW";

/// Write all records, or those with a prefix, to a file or to standard output
///
/// Writes a snapshot, in the order of the database, without expired records. CSV, TSV and Parquet have the columns key,
/// value and expires_at_ms, in milliseconds since 1970, and empty or null for records that do not expire. CSV and TSV
/// begin with a row of these names, which `import` knows. Keys and values are bytes, or text with --escaped or --hex.
/// What a format cannot have is an error: tabs and newlines in TSV, values in lines. A hash in a database of `siltstone
/// serve data` is written as JSON.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct ExportArgs {
    #[command(flatten)]
    location: Location,
    /// Format
    #[arg(long, value_enum, default_value = "binary")]
    format: Format,
    /// CSV: the character between the fields; `tab` for a tab
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = parse_delimiter)]
    delimiter: u8,
    #[command(flatten)]
    typed: ArgumentArgs,
    /// Write only keys with this prefix. Reads all records unless the database keeps the order of the keys
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<OsString>,
    /// Write to this file; an existing file is replaced when the output is complete
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: ExportArgs) -> Result {
    if args.delimiter != b',' && args.format != Format::Csv {
        return Err(wrong_usage("--delimiter is for --format csv"));
    }
    let database = args.location.open_single_read_only("export")?;
    let watch = Stopwatch::start();
    let mut written = Written::default();
    deliver(args.output.as_deref(), args.format.is_binary(), |target| {
        export(&database, &args, target, &mut written)
    })?;
    if args.output.is_some() || watch.is_long() {
        complain(format_args!("{} exported{watch}", counted(written.records, "record")));
    }
    if written.hashes > 0 {
        complain(format_args!(
            "{} exported as JSON, which `import` puts as strings; `checkpoint` copies the database as it is",
            counted(written.hashes, "hash value")
        ));
    }
    Ok(Outcome::Done)
}

/// What was exported.
#[derive(Default)]
struct Written {
    records: u64,
    hashes: u64,
}

fn export(
    database: &siltstone::Database,
    args: &ExportArgs,
    target: impl Write,
    written: &mut Written,
) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let values = args.location.values()?;
    let prefix = args.prefix.as_ref().map(|prefix| args.typed.argument(prefix)).transpose()?;
    let mut sink =
        args.format.sink(BufWriter::with_capacity(1 << 20, target), args.typed.notation, args.delimiter)?;
    let bar = item_bar("exporting", database.approximate_len()?);
    for record in bar.wrap_iter(database.prefix(prefix.unwrap_or_default())?) {
        interrupt.check()?;
        let record = record?;
        written.hashes += u64::from(values.is_hash(&record.value));
        sink.write(&values.shown_record(record)?)?;
        written.records += 1;
    }
    bar.finish_and_clear();
    sink.finish()
}
