//! `siltstone dict export`: writes all records to a stream.

use super::open;
use crate::notation::NotationArgs;
use crate::outcome::{Outcome, Result, help};
use crate::output::deliver;
use crate::transfer::Format;
use clap::Args;
use siltstone::Dictionary;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone dict export words.dict --output words.export
  siltstone dict export words.dict --format csv > words.csv
  siltstone dict export words.dict | siltstone import --db DIR";

/// Write all records to a file or to standard output
///
/// The records are in the order of the dictionary.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct ExportArgs {
    /// File of the dictionary
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Format
    #[arg(long, value_enum, default_value = "binary")]
    format: Format,
    #[command(flatten)]
    notation: NotationArgs,
    /// Write to this file; an existing file is replaced when the output is complete
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: &ExportArgs) -> Result {
    let dictionary = open(&args.path, true)?;
    deliver(args.output.as_deref(), args.format.is_binary(), |target| {
        export(&dictionary, args, BufWriter::with_capacity(1 << 20, target))
    })
}

fn export(dictionary: &Dictionary, args: &ExportArgs, target: impl Write) -> Result {
    let mut sink = args.format.sink(target, args.notation, b',')?;
    for record in dictionary {
        sink.write(&record?)?;
    }
    sink.finish()?;
    Ok(Outcome::Done)
}
