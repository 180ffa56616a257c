//! `siltstone dict reindex`: replaces the index of a dictionary.

use super::{INDEX_HELP, print_info};
use crate::interrupt::Interrupt;
use crate::outcome::{Outcome, Result, help};
use crate::progress::with_bar;
use clap::Args;
use siltstone::{Dictionary, DictionaryIndex};
use siltstone_bench::named::by_name;
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone dict reindex words.dict --index dense-trie
  siltstone dict reindex words.dict --index none";

/// Replace the index of a dictionary
///
/// Reads the records once and writes only the index, after them. If stopped, it changes nothing. After a power failure
/// the dictionary has this index or the one that it was built with.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct ReindexArgs {
    /// File of the dictionary
    #[arg(value_name = "FILE")]
    path: PathBuf,
    #[arg(long, help = INDEX_HELP, value_parser = by_name::<DictionaryIndex>())]
    index: DictionaryIndex,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: ReindexArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let dictionary =
        with_bar("reading", &interrupt, |progress| Dictionary::reindex(&args.path, args.index, progress))?;
    print_info(&args.path, &dictionary.info(), args.json)?;
    Ok(Outcome::Done)
}
