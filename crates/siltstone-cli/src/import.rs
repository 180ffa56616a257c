//! `siltstone import`: puts the records of a stream.

use crate::input;
use crate::interrupt::Interrupt;
use crate::open::{Creation, Location};
use crate::outcome::{Outcome, Result, complain, help};
use crate::quantity::counted;
use crate::transfer::Format;
use anyhow::Context;
use clap::Args;
use siltstone::{Batch, Database};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone import --db DIR all.export
  zcat all.jsonl.gz | siltstone import --db DIR
  siltstone export --db OLD | siltstone import --db NEW --fixed 32,44 --hashed-keys";

/// The number of records or bytes at which a batch is written.
const BATCH_RECORDS_MAX: usize = 1024;
const BATCH_BYTES_MAX: usize = 4 << 20;

/// Put exported records or lines of JSON
///
/// Creates the database if it does not exist. Replaces the values of existing keys. Detects the format. Lines of JSON
/// have the form {"key":"k","value":"v"}; key_hex, key_base64, value_hex and value_base64 are for other bytes, and
/// expires_at_ms is an expiry time.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct ImportArgs {
    #[command(flatten)]
    location: Location,
    /// Format [default: detected]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// File; `-` is standard input
    #[arg(default_value = "-")]
    input: PathBuf,
    #[command(flatten)]
    creation: Creation,
}

pub fn run(args: ImportArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let source = BufReader::with_capacity(1 << 20, input::open(&args.input, &interrupt)?);
    let database = args.location.open_or_create("import", &args.creation)?;
    let mut imported = 0;
    let outcome = import(&database, args.format, source, &interrupt, &mut imported)
        .with_context(|| format!("{} ({} imported)", args.input.display(), counted(imported, "record")));
    database.close()?;
    if let Ok(Outcome::Interrupted) = outcome {
        complain(format_args!("interrupted; {} imported", counted(imported, "record")));
    }
    outcome
}

fn import(
    database: &Database,
    format: Option<Format>,
    source: impl BufRead,
    interrupt: &Interrupt,
    imported: &mut u64,
) -> Result {
    let mut batch = Batch::new();
    let mut batch_bytes = 0;
    let records = match Format::source(format, source) {
        Err(_) if interrupt.is_raised() => return Ok(Outcome::Interrupted),
        records => records?,
    };
    for record in records {
        let added = record.and_then(|record| {
            batch.put_until(&record.key, &record.value, record.expires_at_ms)?;
            Ok(record.key.len() + record.value.len())
        });
        match added {
            Ok(bytes) => batch_bytes += bytes,
            // The records before the error are kept.
            Err(error) => {
                flush(database, &mut batch, imported)?;
                return if interrupt.is_raised() { Ok(Outcome::Interrupted) } else { Err(error) };
            }
        }
        if batch.len() >= BATCH_RECORDS_MAX || batch_bytes >= BATCH_BYTES_MAX {
            flush(database, &mut batch, imported)?;
            batch_bytes = 0;
            if interrupt.is_raised() {
                return Ok(Outcome::Interrupted);
            }
        }
    }
    flush(database, &mut batch, imported)?;
    Ok(Outcome::Done)
}

fn flush(database: &Database, batch: &mut Batch, imported: &mut u64) -> siltstone::Result<()> {
    database.write(batch)?;
    *imported += batch.len() as u64;
    batch.clear();
    Ok(())
}
