//! `siltstone dict build`: builds a dictionary from files.

use super::source::put_all;
use super::{INDEX_HELP, SortArgs, check_target, print_info, with_progress};
use crate::interrupt::Interrupt;
use crate::open::parse_lengths;
use crate::outcome::{Outcome, Result, help};
use crate::progress::byte_bar;
use crate::quantity::parse_whole;
use crate::source::SourceArgs;
use clap::Args;
use siltstone::{Dictionary, DictionaryBuilder, DictionaryIndex};
use siltstone_bench::named::by_name;
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone dict build words.dict words.csv
  siltstone dict build pages.dict --key-column url --value-column title,date pages.tsv
  siltstone export --db DIR | siltstone dict build all.dict --fixed 32,44 --hashed-keys --memory 1GiB";

/// Build a dictionary from the records in files
///
/// The files may be larger than memory. If a key occurs several times, the last record wins. The file appears when it
/// is complete; a build that fails or is stopped leaves no files.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct BuildArgs {
    /// File of the dictionary
    #[arg(value_name = "FILE")]
    path: PathBuf,
    #[command(flatten)]
    source: SourceArgs,
    /// Replace an existing dictionary
    #[arg(long)]
    force: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    shape: ShapeArgs,
    #[command(flatten)]
    sort: SortArgs,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Settings of the dictionary")]
struct ShapeArgs {
    /// All keys have K bytes and all values V bytes; their lengths are not stored
    #[arg(long, value_name = "K,V", value_parser = parse_lengths)]
    fixed: Option<(usize, usize)>,
    /// Keys are uniform hashes (8 bytes or more) and are not hashed again
    #[arg(long)]
    hashed_keys: bool,
    /// Size of a block in bytes, a power of two from 512 to 65,536
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = parse_whole::<u32>)]
    block_bytes: u32,
    #[arg(long, help = INDEX_HELP, default_value = DictionaryIndex::default().name(),
          value_parser = by_name::<DictionaryIndex>())]
    index: DictionaryIndex,
}

impl ShapeArgs {
    fn apply(&self, mut builder: DictionaryBuilder) -> DictionaryBuilder {
        if let Some((key_length, value_length)) = self.fixed {
            builder = builder.fixed(key_length, value_length);
        }
        if self.hashed_keys {
            builder = builder.hashed_keys();
        }
        builder.block_bytes(self.block_bytes).index(self.index)
    }
}

pub fn run(args: BuildArgs) -> Result {
    check_target(&args.path, args.force)?;
    let interrupt = Interrupt::listen()?;
    let bar = byte_bar("reading");
    let builder = args.sort.apply(args.shape.apply(Dictionary::builder()));
    let mut writer = with_progress(builder, &bar, &interrupt).create(&args.path)?;
    let taken = put_all(&args.source, &mut writer, &bar, &interrupt)?;
    let dictionary = writer.finish()?;
    bar.finish_and_clear();
    taken.print();
    print_info(&args.path, &dictionary.info(), args.json)?;
    Ok(Outcome::Done)
}
