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
/// What a format cannot have is an error: tabs and newlines in TSV, values in lines.
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
    let mut written = 0;
    deliver(args.output.as_deref(), args.format.is_binary(), |target| {
        export(&database, &args, target, &mut written)
    })?;
    if args.output.is_some() || watch.is_long() {
        complain(format_args!("{} exported{watch}", counted(written, "record")));
    }
    Ok(Outcome::Done)
}

fn export(
    database: &siltstone::Database,
    args: &ExportArgs,
    target: impl Write,
    written: &mut u64,
) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let prefix = args.prefix.as_ref().map(|prefix| args.typed.argument(prefix)).transpose()?;
    let mut sink =
        args.format.sink(BufWriter::with_capacity(1 << 20, target), args.typed.notation, args.delimiter)?;
    let bar = item_bar("exporting", database.approximate_len()?);
    for record in bar.wrap_iter(database.prefix(prefix.unwrap_or_default())?) {
        interrupt.check()?;
        sink.write(&record?)?;
        *written += 1;
    }
    bar.finish_and_clear();
    sink.finish()
}
