//! `siltstone export`: writes all records to a stream.

use crate::open::Location;
use crate::outcome::{Outcome, Result, help};
use crate::output::deliver;
use crate::transfer::Format;
use clap::Args;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone export --db DIR --output all.export
  siltstone export --db DIR --format jsonl | gzip > all.jsonl.gz
  siltstone export --db OLD | siltstone import --db NEW";

/// Write all records to a file or to standard output
///
/// Writes a snapshot, in the order of the database, without expired records.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct ExportArgs {
    #[command(flatten)]
    location: Location,
    /// Format
    #[arg(long, value_enum, default_value = "binary")]
    format: Format,
    /// With jsonl: write bytes that are not text in hex instead of Base64
    #[arg(long)]
    hex: bool,
    /// Write to this file; an existing file is replaced when the output is complete
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: ExportArgs) -> Result {
    let database = args.location.open_single_read_only("export")?;
    deliver(args.output.as_deref(), args.format == Format::Binary, |target| export(&database, &args, target))
}

fn export(database: &siltstone::Database, args: &ExportArgs, target: impl Write) -> Result {
    let mut sink = args.format.sink(BufWriter::with_capacity(1 << 20, target), args.hex)?;
    for record in database.iter()? {
        sink.write(&record?)?;
    }
    sink.finish()?;
    Ok(Outcome::Done)
}
