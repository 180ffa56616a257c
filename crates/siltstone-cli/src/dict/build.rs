//! `siltstone dict build`: a dictionary out of files.

use super::source::SourceArgs;
use super::{IndexArg, SortArgs, check_target, print_info, with_progress};
use crate::interrupt::Interrupt;
use crate::open::{byte_bar, parse_lengths};
use crate::outcome::{Outcome, Result, help};
use crate::quantity::parse_whole;
use clap::Args;
use siltstone::{Dictionary, DictionaryBuilder};
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone dict build words.dict words.csv
  siltstone dict build pages.dict --key-column url --value-column title,date pages.tsv
  siltstone export --db DIR | siltstone dict build all.dict --fixed 32,44 --hashed-keys --memory 1GiB";

/// Build a dictionary of the records of files
///
/// The files may be larger than memory. The last record of a key holds. The dictionary is there when it is whole, and a
/// build that fails or is stopped leaves nothing.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct BuildArgs {
    /// The file of the dictionary
    #[arg(value_name = "FILE")]
    path: PathBuf,
    #[command(flatten)]
    source: SourceArgs,
    /// Replace a dictionary that is there
    #[arg(long)]
    force: bool,
    /// Print a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    shape: ShapeArgs,
    #[command(flatten)]
    sort: SortArgs,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What is kept in the dictionary")]
struct ShapeArgs {
    /// All keys have K bytes and all values V: no byte is spent on lengths
    #[arg(long, value_name = "K,V", value_parser = parse_lengths)]
    fixed: Option<(usize, usize)>,
    /// The keys are uniform hashes already (8 bytes or more) and are not hashed again
    #[arg(long)]
    hashed_keys: bool,
    /// The size of a block, a power of two from 512 to 65,536
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = parse_whole::<u32>)]
    block_bytes: u32,
    /// How records are found
    #[arg(long, value_enum, default_value = "fences")]
    index: IndexArg,
}

impl ShapeArgs {
    fn apply(&self, mut builder: DictionaryBuilder) -> DictionaryBuilder {
        if let Some((key_length, value_length)) = self.fixed {
            builder = builder.fixed(key_length, value_length);
        }
        if self.hashed_keys {
            builder = builder.hashed_keys();
        }
        builder.block_bytes(self.block_bytes).index(self.index.into())
    }
}

pub fn run(args: BuildArgs) -> Result {
    check_target(&args.path, args.force)?;
    let interrupt = Interrupt::listen()?;
    let bar = byte_bar("reading");
    let builder = args.sort.apply(args.shape.apply(Dictionary::builder()));
    let mut writer = with_progress(builder, &bar, &interrupt).create(&args.path)?;
    let taken = args.source.put_all(&mut writer, &bar, &interrupt)?;
    let dictionary = writer.finish()?;
    bar.finish_and_clear();
    taken.tell();
    print_info(&args.path, &dictionary.info(), args.json)?;
    Ok(Outcome::Done)
}
