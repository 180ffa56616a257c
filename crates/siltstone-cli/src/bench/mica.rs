//! `siltstone bench mica`: MICA's stores in memory.

use crate::interrupt::Interrupt;
use crate::outcome::{Outcome, Result, help};
use clap::{Args, ValueEnum};
use siltstone::mica::Eviction;
use siltstone_bench::mica::{Access, MicaError, Settings};
use std::io::{Write, stdout};

const EXAMPLES: &str = "
  siltstone bench mica --items 16777216 --get 0.95 --zipf 0.99 --hash_outside --json
  siltstone bench mica --items 4000000 --key_size 16 --value_size 64 --threads 2 --mode crew --cache";

/// Measure MICA's stores in memory: gets and puts in batches
///
/// Requests are drawn before any time is taken. Every value that is read is checked.
#[derive(Args)]
#[command(rename_all = "snake_case", after_help = help(EXAMPLES))]
pub struct MicaArgs {
    /// How many items are loaded
    #[arg(long, default_value_t = 16 << 20)]
    items: u64,
    /// The length of the keys, in bytes
    #[arg(long, alias = "key-size", default_value_t = 8)]
    key_size: usize,
    /// The length of the values, in bytes
    #[arg(long, alias = "value-size", default_value_t = 8)]
    value_size: usize,
    /// The share of gets; the rest are puts
    #[arg(long, default_value_t = 0.95)]
    get: f64,
    /// The skew of the popularity, less than 1; 0 is uniform
    #[arg(long, default_value_t = 0.0)]
    zipf: f64,
    /// Threads, a power of two; as many partitions
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Who reads and writes a partition: its owner; all and its owner; all
    #[arg(long, value_enum, default_value = "erew")]
    mode: ModeArg,
    /// Store mode, the default: nothing goes away by itself
    #[arg(long, conflicts_with = "cache")]
    store: bool,
    /// Cache mode: old items give way to new ones
    #[arg(long)]
    cache: bool,
    /// What gives way in cache mode
    #[arg(long, value_enum, default_value = "approximate_lru", requires = "cache")]
    eviction: EvictionArg,
    /// Items may have any size: their lengths are stored with them
    #[arg(long)]
    variable: bool,
    /// Hash the keys before any time is taken, as MICA's clients do
    #[arg(long, alias = "hash-outside")]
    hash_outside: bool,
    /// Requests of a round
    #[arg(long, default_value_t = 16 << 20)]
    operations: u64,
    /// Requests in a batch
    #[arg(long, alias = "batch-size", default_value_t = 256)]
    batch_size: usize,
    /// Rounds; the best and the median are told
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// From which keys and requests follow
    #[arg(long, default_value_t = 301)]
    seed: u64,
    /// Print a line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ModeArg {
    Erew,
    Crew,
    Crcw,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum EvictionArg {
    Fifo,
    Lru,
    ApproximateLru,
}

impl ModeArg {
    pub fn access(self) -> Access {
        match self {
            ModeArg::Erew => Access::Erew,
            ModeArg::Crew => Access::Crew,
            ModeArg::Crcw => Access::Crcw,
        }
    }
}

impl EvictionArg {
    pub fn eviction(self) -> Eviction {
        match self {
            EvictionArg::Fifo => Eviction::Fifo,
            EvictionArg::Lru => Eviction::Lru,
            EvictionArg::ApproximateLru => Eviction::ApproximateLru,
        }
    }
}

pub fn run(args: MicaArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let report = siltstone_bench::mica::run(&Settings {
        items: args.items,
        key_size: args.key_size,
        value_size: args.value_size,
        get: args.get,
        zipf: args.zipf,
        threads: args.threads,
        mode: args.mode.access(),
        cache: args.cache.then(|| args.eviction.eviction()),
        variable: args.variable,
        hash_outside: args.hash_outside,
        operations: args.operations,
        batch_size: args.batch_size,
        rounds: args.rounds,
        seed: args.seed,
        stop: interrupt.flag(),
    });
    let report = match report {
        Err(MicaError::Stopped) => return Ok(Outcome::Interrupted),
        report => report?,
    };
    let mut out = stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", report.line())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}
