//! `siltstone bench dict`: a dictionary.

use super::ground::{Ground, Grounded};
use crate::dict::IndexArg;
use crate::interrupt::Interrupt;
use crate::outcome::{Outcome, Result, help};
use crate::quantity::parse_whole;
use clap::Args;
use siltstone_bench::dict::Settings;
use std::io::{Write, stdout};
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone bench dict --keys 4000000 --updates 5 --memory 64MiB --json
  siltstone bench dict --keys 16000000 --fixed --index sparse_trie --updates 0";

/// Measure a dictionary: building, opening, lookups, and updates against rebuilds
///
/// The files are in a temporary directory, and lookups are answered by the page cache. Every value that is read is
/// checked.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct DictArgs {
    /// How many keys are built at first
    #[arg(long, default_value_t = 1_000_000, value_parser = parse_whole::<u64>)]
    keys: u64,
    /// How many new keys each update merges [default: as many as at first]
    #[arg(long, value_parser = parse_whole::<u64>)]
    batch_keys: Option<u64>,
    /// How many updates
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<u32>)]
    updates: u32,
    /// The length of the keys, in bytes
    #[arg(long, default_value_t = 20, value_parser = parse_whole::<usize>)]
    key_size: usize,
    /// The length of the values, in bytes
    #[arg(long, default_value_t = 44, value_parser = parse_whole::<usize>)]
    value_size: usize,
    /// All records have one size, and the dictionary is told so
    #[arg(long)]
    fixed: bool,
    /// How records are found
    #[arg(long, value_enum, default_value = "fences")]
    index: IndexArg,
    /// The memory that sorting may take
    #[arg(long, value_name = "BYTES", value_parser = parse_whole::<usize>, default_value = "256MiB")]
    memory: usize,
    /// Lookups of each kind
    #[arg(long, default_value_t = 100_000, value_parser = parse_whole::<u64>)]
    lookups: u64,
    /// Where the temporary directory is made [default: that of the system, TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// From which keys, orders and values follow
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    seed: u64,
    /// Print a line of JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: DictArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let above = args.directory.unwrap_or_else(std::env::temp_dir);
    let ground = Ground::temporary(&above, "")?;
    if !args.json {
        ground.print(&format!("keys of {} bytes, values of {} bytes", args.key_size, args.value_size))?;
    }
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
        directory: Some(ground.directory.clone()),
        seed: args.seed,
        stop: interrupt.flag(),
    });
    if interrupt.is_raised() {
        return Ok(Outcome::Interrupted);
    }
    let report = report?;
    let mut out = stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &Grounded { report: &report, place: &ground })?;
        writeln!(out)?;
    } else {
        write!(out, "{}", report.lines())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}
