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

/// Measure a dictionary: build, open, lookups, and updates compared with rebuilds
///
/// The files are in a temporary directory, and lookups read from the page cache. The benchmark checks every value it
/// reads.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct DictArgs {
    /// Number of keys of the first build
    #[arg(long, default_value_t = 1_000_000, value_parser = parse_whole::<u64>)]
    keys: u64,
    /// Number of new keys per update [default: as for the first build]
    #[arg(long, value_parser = parse_whole::<u64>)]
    batch_keys: Option<u64>,
    /// Number of updates
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<u32>)]
    updates: u32,
    /// Length of the keys, in bytes
    #[arg(long, default_value_t = 20, value_parser = parse_whole::<usize>)]
    key_size: usize,
    /// Length of the values, in bytes
    #[arg(long, default_value_t = 44, value_parser = parse_whole::<usize>)]
    value_size: usize,
    /// Fixed record size
    #[arg(long)]
    fixed: bool,
    /// Kind of index
    #[arg(long, value_enum, default_value = "fences")]
    index: IndexArg,
    /// Memory limit for sorting
    #[arg(long, value_name = "BYTES", value_parser = parse_whole::<usize>, default_value = "256MiB")]
    memory: usize,
    /// Number of lookups of each kind
    #[arg(long, default_value_t = 100_000, value_parser = parse_whole::<u64>)]
    lookups: u64,
    /// Parent of the temporary directory [default: TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Seed of the random keys, orders and values
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    seed: u64,
    /// Print one line of JSON
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
