//! `siltstone bench mica`: MICA's stores in memory.

use crate::interrupt::Interrupt;
use crate::outcome::{Outcome, Result, help};
use crate::quantity::parse_whole;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use siltstone::mica::{AccessMode, Eviction};
use siltstone_bench::mica::{MicaError, Report, Settings, Table};
use std::io::{Write, stdout};

const EXAMPLES: &str = "
  siltstone bench mica --items 16777216 --get 0.95 --zipf 0.99 --hash-outside --json
  siltstone bench mica --items 4000000 --key-size 16 --value-size 64 --threads 2 --mode crew --cache
  siltstone bench mica --items 4000000 --threads 2 --table modes";

/// Measure MICA's stores in memory: gets and puts in batches
///
/// Requests are generated before the measurement. The benchmark checks every value it reads.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct MicaArgs {
    /// Number of items to load
    #[arg(long, default_value_t = 16 << 20, value_parser = parse_whole::<u64>)]
    items: u64,
    /// Length of the keys, in bytes
    #[arg(long, default_value_t = 8, value_parser = parse_whole::<usize>)]
    key_size: usize,
    /// Length of the values, in bytes
    #[arg(long, default_value_t = 8, value_parser = parse_whole::<usize>)]
    value_size: usize,
    /// Fraction of gets; the rest are puts
    #[arg(long, default_value_t = 0.95)]
    get: f64,
    /// Zipf exponent of the popularity, less than 1; 0 is uniform
    #[arg(long, default_value_t = 0.0)]
    zipf: f64,
    /// Number of threads and of partitions, a power of two
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    threads: usize,
    /// Access to a partition: exclusive (erew), concurrent reads (crew), concurrent reads and writes (crcw)
    #[arg(long, default_value = AccessMode::default().name(), value_parser = access_modes())]
    mode: AccessMode,
    /// Store mode, the default: no eviction
    #[arg(long, conflicts_with = "cache")]
    store: bool,
    /// Cache mode: evict old items
    #[arg(long)]
    cache: bool,
    /// Eviction policy in cache mode
    #[arg(long, value_enum, default_value = "approximate-lru", requires = "cache")]
    eviction: EvictionArg,
    /// Items of any size, stored with their lengths
    #[arg(long)]
    variable: bool,
    /// Hash the keys before the measurement, as MICA's clients do
    #[arg(long)]
    hash_outside: bool,
    /// Number of requests per round
    #[arg(long, default_value_t = 16 << 20, value_parser = parse_whole::<u64>)]
    operations: u64,
    /// Number of requests per batch
    #[arg(long, default_value_t = 256, value_parser = parse_whole::<usize>)]
    batch_size: usize,
    /// Number of rounds; the results are the best and the median
    #[arg(long, default_value_t = 5, value_parser = parse_whole::<usize>)]
    rounds: usize,
    /// Seed of the random keys and requests
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    seed: u64,
    /// Run an experiment of the paper: thread counts up to --threads, skew, item sizes, or modes. The experiment
    /// overrides the settings that it varies
    #[arg(long, value_enum)]
    table: Option<TableArg>,
    /// Print one line of JSON per measurement
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TableArg {
    Scaling,
    Skew,
    Sizes,
    Modes,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum EvictionArg {
    Fifo,
    Lru,
    #[value(alias = "approximate_lru")]
    ApproximateLru,
    #[value(alias = "second_chance")]
    SecondChance,
}

/// The access modes by their names.
pub fn access_modes() -> impl TypedValueParser<Value = AccessMode> {
    let names = PossibleValuesParser::new(AccessMode::ALL.map(AccessMode::name));
    names.map(|name| AccessMode::from_name(&name).unwrap_or_default())
}

impl EvictionArg {
    pub fn eviction(self) -> Eviction {
        match self {
            EvictionArg::Fifo => Eviction::Fifo,
            EvictionArg::Lru => Eviction::Lru,
            EvictionArg::ApproximateLru => Eviction::ApproximateLru,
            EvictionArg::SecondChance => Eviction::SecondChance,
        }
    }
}

pub fn run(args: MicaArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let settings = Settings {
        items: args.items,
        key_size: args.key_size,
        value_size: args.value_size,
        get: args.get,
        zipf: args.zipf,
        threads: args.threads,
        mode: args.mode,
        cache: args.cache.then(|| args.eviction.eviction()),
        variable: args.variable,
        hash_outside: args.hash_outside,
        operations: args.operations,
        batch_size: args.batch_size,
        rounds: args.rounds,
        seed: args.seed,
        stop: interrupt.flag(),
    };
    let mut out = stdout().lock();
    let rows = match args.table {
        None => vec![(String::new(), settings)],
        Some(TableArg::Scaling) => Table::Scaling.rows(&settings),
        Some(TableArg::Skew) => Table::Skew.rows(&settings),
        Some(TableArg::Sizes) => Table::Sizes.rows(&settings),
        Some(TableArg::Modes) => Table::Modes.rows(&settings),
    };
    for (name, settings) in &rows {
        let report = match siltstone_bench::mica::run(settings) {
            Err(MicaError::Stopped) => return Ok(Outcome::Interrupted),
            report => report?,
        };
        if args.json {
            serde_json::to_writer(&mut out, &report)?;
            writeln!(out)?;
        } else if args.table.is_some() {
            writeln!(out, "{}", row(name, &report))?;
        } else {
            writeln!(out, "{}", report.line())?;
        }
        out.flush()?;
    }
    Ok(Outcome::Done)
}

/// A row of a table.
fn row(name: &str, report: &Report) -> String {
    let of_threads: Vec<String> =
        report.thread_ops_per_s.iter().map(|rate| format!("{:.1}", rate / 1e6)).collect();
    let together: f64 = report.thread_ops_per_s.iter().sum();
    format!(
        "{name:<44} {:>7.2} M ops/sec, wall {:>6.2}; each thread {}",
        together / 1e6,
        report.wall_ops_per_s / 1e6,
        of_threads.join(" ")
    )
}
