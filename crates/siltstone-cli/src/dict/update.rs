//! `siltstone dict update`: merges a batch into a dictionary.

use super::source::{Taken, put_all};
use super::{SortArgs, check_target, open, print_info, with_progress};
use crate::input;
use crate::interrupt::Interrupt;
use crate::outcome::{Outcome, Result, help};
use crate::progress::byte_bar;
use crate::source::SourceArgs;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone dict update words.dict new-words.csv
  siltstone dict update words.dict --delete gone.txt new-words.csv --output words-2.dict
  siltstone dict update words.dict --delete gone.txt";

/// Merge records into a dictionary, and remove records
///
/// Writes a new file in one pass over the old one and the sorted batch, and replaces the old file when the new one is
/// complete. Processes that have the old file open continue to read it.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct UpdateArgs {
    /// File of the dictionary
    #[arg(value_name = "FILE")]
    path: PathBuf,
    #[command(flatten)]
    source: SourceArgs,
    /// Remove the keys in this file, one per line. Keys that are also in an input are put. Standard input is read only
    /// if it is named
    #[arg(long, value_name = "KEYS")]
    delete: Option<PathBuf>,
    /// Write the new dictionary to this file and keep the old one
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing dictionary named by --output
    #[arg(long, requires = "output")]
    force: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sort: SortArgs,
}

pub fn run(args: UpdateArgs) -> Result {
    if let Some(path) = &args.output {
        check_target(path, args.force)?;
    }
    let target = args.output.as_ref().unwrap_or(&args.path);
    let interrupt = Interrupt::listen()?;
    // The merge reads everything in order, so it needs no index.
    let base = open(&args.path, false)?;
    let bar = byte_bar("reading");
    let builder = args.sort.apply(base.update());
    let mut writer = with_progress(builder, &bar, &interrupt).create(target)?;
    if let Some(path) = &args.delete {
        let notation = args.source.notation.typed();
        input::for_each_key(path, notation, |key| Ok(writer.delete(key)?))?;
    }
    let taken = match args.delete.is_some() && !args.source.is_named() {
        true => Taken::default(),
        false => put_all(&args.source, &mut writer, &bar, &interrupt)?,
    };
    let dictionary = writer.finish()?;
    bar.finish_and_clear();
    taken.print();
    print_info(target, &dictionary.info(), args.json)?;
    Ok(Outcome::Done)
}
