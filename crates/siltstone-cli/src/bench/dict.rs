//! `siltstone bench dict`: a dictionary.

use crate::dict::{IndexArg, parse_bytes};
use crate::interrupt::Interrupt;
use crate::outcome::{Outcome, Result, help};
use clap::Args;
use siltstone_bench::dict::Settings;
use std::io::{Write, stdout};
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone bench dict --keys 4000000 --updates 5 --memory 64M --json
  siltstone bench dict --keys 16000000 --fixed --index sparse_trie --updates 0";

/// Measure a dictionary: building, opening, lookups, and updates against rebuilds
///
/// Files stand in a temporary directory, so that lookups are answered by the page cache. Every value that is read is
/// checked.
#[derive(Args)]
#[command(rename_all = "snake_case", after_help = help(EXAMPLES))]
pub struct DictArgs {
    /// How many keys are built at first
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// How many new keys each update merges [default: as many as at first]
    #[arg(long, alias = "batch-keys")]
    batch_keys: Option<u64>,
    /// How many updates
    #[arg(long, default_value_t = 1)]
    updates: u32,
    /// The length of the keys, in bytes
    #[arg(long, alias = "key-size", default_value_t = 20)]
    key_size: usize,
    /// The length of the values, in bytes
    #[arg(long, alias = "value-size", default_value_t = 44)]
    value_size: usize,
    /// All records have one size, and the dictionary is told so
    #[arg(long)]
    fixed: bool,
    /// How records are found
    #[arg(long, value_enum, default_value = "fences")]
    index: IndexArg,
    /// The memory that sorting may take
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "256M")]
    memory: usize,
    /// Lookups of each kind
    #[arg(long, default_value_t = 100_000)]
    lookups: u64,
    /// Where the files are written [default: the current directory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// From which keys, orders and values follow
    #[arg(long, default_value_t = 301)]
    seed: u64,
    /// Print a line of JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: DictArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let report = siltstone_bench::dict::run(&Settings {
        keys: args.keys,
        batch_keys: args.batch_keys.unwrap_or(args.keys),
        updates: args.updates,
        key_size: args.key_size,
        value_size: args.value_size,
        fixed: args.fixed,
        index: args.index.into(),
        memory_bytes: args.memory,
        lookups: args.lookups,
        directory: args.directory,
        seed: args.seed,
        stop: interrupt.flag(),
    });
    if interrupt.is_raised() {
        return Ok(Outcome::Interrupted);
    }
    let report = report?;
    let mut out = stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", report.lines())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}
