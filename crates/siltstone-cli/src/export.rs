//! `siltstone export`: all records into a stream.

use crate::open::Location;
use crate::outcome::{Outcome, Result, help};
use crate::transfer::Format;
use anyhow::Context;
use clap::Args;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "
  siltstone export --db DIR --output all.export
  siltstone export --db DIR --format jsonl | gzip > all.jsonl.gz
  siltstone export --db OLD | siltstone import --db NEW";

/// Write all records to a file or to standard output
///
/// As they are at this moment, in the database's own order; expired ones are left out.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct ExportArgs {
    #[command(flatten)]
    location: Location,
    /// The format
    #[arg(long, value_enum, default_value = "binary")]
    format: Format,
    /// With jsonl: bytes that are no text stand in hex, not in Base64
    #[arg(long)]
    hex: bool,
    /// Write to this file; it is there only when it is whole
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: ExportArgs) -> Result {
    let database = args.location.open_single("export")?;
    deliver(args.output.as_deref(), args.format == Format::Binary, |target| export(&database, &args, target))
}

/// Lets `write` write to the file, which is there only when it is whole, or to standard output.
pub fn deliver(
    output: Option<&Path>,
    is_binary: bool,
    write: impl FnOnce(&mut dyn Write) -> Result,
) -> Result {
    let Some(path) = output else {
        if is_binary && stdout().is_terminal() {
            anyhow::bail!(
                "binary output does not belong on a terminal: use --output FILE, a pipe, or --format jsonl"
            );
        }
        return write(&mut stdout().lock());
    };
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let mut file = File::create(&partial).with_context(|| format!("cannot create {}", partial.display()))?;
    let written = write(&mut file)
        .and_then(|outcome| file.sync_all().map(|()| outcome).context("cannot sync"))
        .with_context(|| format!("cannot write {}", partial.display()));
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
        return written;
    }
    std::fs::rename(&partial, path).with_context(|| format!("cannot rename {}", partial.display()))?;
    written
}

fn export(database: &siltstone::Database, args: &ExportArgs, target: impl Write) -> Result {
    let mut sink = args.format.sink(BufWriter::with_capacity(1 << 20, target), args.hex)?;
    for record in database.iter()? {
        sink.write(&record?)?;
    }
    sink.finish()?;
    Ok(Outcome::Done)
}
