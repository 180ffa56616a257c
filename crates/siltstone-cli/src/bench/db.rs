//! `siltstone bench db`: the benchmarks of a database. The flags are db_bench's, underscores and all.

use super::ground::{Ground, Grounded};
use super::tuning::Tuning;
use crate::interrupt::Interrupt;
use crate::open::DurabilityArg;
use crate::outcome::{Outcome, Result, help};
use crate::quantity::parse_time;
use crate::quantity::{parse_byte_rate, parse_whole};
use crate::stats;
use clap::Args;
use siltstone_bench::db::{Benchmark, Report, Settings};
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const EXAMPLES: &str = "
  siltstone bench db --num 1000000 --key-size 20 --value-size 44 --fixed
  siltstone bench db --benchmarks fillrandom,compact,readrandom --value-size 1000 --json
  siltstone bench db --db DIR --benchmarks fillrandom,abort
  siltstone bench db --db DIR --use-existing-db --benchmarks readrandom --threads 16";

/// Measure a database, under db_bench's names
///
/// Without --db it stands in a temporary directory. Every value that is read is checked. Benchmarks that write are
/// timed until the last put has returned and once more until no background work is left.
#[derive(Args)]
#[command(after_help = help_with_benchmarks())]
pub struct DbArgs {
    /// The benchmarks, in their order
    #[arg(long, value_delimiter = ',', value_name = "NAME,…",
          default_values = Benchmark::USUAL.iter().map(|benchmark| benchmark.name()))]
    benchmarks: Vec<Benchmark>,
    /// Keys are numbers below this; every thread writes as many
    #[arg(long, default_value_t = 1_000_000, value_parser = parse_whole::<u64>)]
    num: u64,
    /// How many reads every thread does; as many as --num if not given
    #[arg(long, value_parser = parse_whole::<u64>)]
    reads: Option<u64>,
    /// Threads that write or read at the same time
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    threads: usize,
    /// The length of the keys, in bytes
    #[arg(long, default_value_t = 16, value_parser = parse_whole::<usize>)]
    key_size: usize,
    /// The length of the values, in bytes
    #[arg(long, default_value_t = 100, value_parser = parse_whole::<usize>)]
    value_size: usize,
    /// The directory; a temporary one if not given
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// The directory holds a database that was filled before
    #[arg(long, requires = "db")]
    use_existing_db: bool,
    /// Records that are written or read in one call
    #[arg(long, value_parser = parse_whole::<usize>)]
    batch_size: Option<usize>,
    /// How long a write must have survived when it returns
    #[arg(long, value_enum, default_value = "written")]
    durability: DurabilityArg,
    /// Every write survives a loss of power: --durability synced
    #[arg(long, conflicts_with = "durability")]
    sync: bool,
    /// From which keys, orders and values follow
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    seed: u64,
    /// End each benchmark after this time, such as 10s
    #[arg(long, value_parser = parse_time)]
    duration: Option<Duration>,
    /// How much the writer of readwhilewriting puts a second, such as 20MB/s; as much as it can by default
    #[arg(long, value_name = "BYTES", value_parser = parse_byte_rate)]
    benchmark_write_rate_limit: Option<f64>,
    /// Print how the latencies are distributed
    #[arg(long)]
    histogram: bool,
    /// Print what the database says of itself after each benchmark
    #[arg(long)]
    statistics: bool,
    /// Print a line of JSON for each benchmark
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    tuning: Tuning,
}

fn help_with_benchmarks() -> String {
    let names =
        Benchmark::ALL.iter().map(|benchmark| format!("  {:<18}{}\n", benchmark.name(), benchmark.about()));
    format!("Benchmarks:\n{}\n{}", names.collect::<String>(), help(EXAMPLES))
}

impl DbArgs {
    fn settings(&self, interrupt: &Interrupt, ground: &Ground) -> Settings {
        let tuning = self.tuning.clone();
        Settings {
            benchmarks: self.benchmarks.clone(),
            num: self.num,
            reads: self.reads,
            threads: self.threads,
            key_size: self.key_size,
            value_size: self.value_size,
            hashed_keys: tuning.hashed_keys,
            fixed: tuning.fixed,
            directory: Some(ground.directory.clone()),
            use_existing_db: self.use_existing_db,
            batch_size: self.batch_size,
            durability: if self.sync { siltstone::Durability::Synced } else { self.durability.into() },
            seed: self.seed,
            duration: self.duration,
            write_rate_limit: self.benchmark_write_rate_limit.map(|rate| rate as u64),
            set_up: Arc::new(move |builder| tuning.apply(builder)),
            stop: interrupt.flag(),
            heap_bytes: crate::heap_bytes(),
        }
    }

    fn print(&self, report: &Report, place: &Ground) -> std::io::Result<()> {
        let mut out = stdout().lock();
        if self.json {
            serde_json::to_writer(&mut out, &Grounded { report, place })?;
            writeln!(out)?;
            return out.flush();
        }
        if report.operations > 0 || report.skipped.is_some() {
            writeln!(out, "{}", report.line())?;
        }
        if report.operations > 0 {
            writeln!(out, "{:15}{}", "", report.remarks())?;
        }
        if self.histogram && report.latencies.count() > 0 {
            write!(out, "{}", report.latencies.describe())?;
        }
        if self.statistics || report.benchmark == Benchmark::Stats.name() {
            stats::print(&mut out, &report.stats)?;
        }
        out.flush()
    }
}

pub fn run(args: DbArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let ground = Ground::prepare(args.db.as_deref(), "db")?;
    if !args.json {
        ground.print(&format!("keys of {} bytes, values of {} bytes", args.key_size, args.value_size))?;
    }
    siltstone_bench::db::run(&args.settings(&interrupt, &ground), &mut |report| args.print(report, &ground))?;
    Ok(if interrupt.is_raised() { Outcome::Interrupted } else { Outcome::Done })
}
