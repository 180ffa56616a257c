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
/// Without --db the database is in a temporary directory. The benchmark checks every value it reads. Write benchmarks
/// report the time until the last put returns and the time until no background work is left.
#[derive(Args)]
#[command(after_help = help_with_benchmarks())]
pub struct DbArgs {
    /// Benchmarks, in the order in which they run
    #[arg(long, value_delimiter = ',', value_name = "NAME,…",
          default_values = Benchmark::USUAL.iter().map(|benchmark| benchmark.name()))]
    benchmarks: Vec<Benchmark>,
    /// Number of distinct keys, and of writes per thread
    #[arg(long, default_value_t = 1_000_000, value_parser = parse_whole::<u64>)]
    num: u64,
    /// Number of reads per thread [default: --num]
    #[arg(long, value_parser = parse_whole::<u64>)]
    reads: Option<u64>,
    /// Number of concurrent threads
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    threads: usize,
    /// Length of the keys, in bytes
    #[arg(long, default_value_t = 16, value_parser = parse_whole::<usize>)]
    key_size: usize,
    /// Length of the values, in bytes
    #[arg(long, default_value_t = 100, value_parser = parse_whole::<usize>)]
    value_size: usize,
    /// Directory of the database [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Use the existing database in the directory
    #[arg(long, requires = "db")]
    use_existing_db: bool,
    /// Number of records written or read per call
    #[arg(long, value_parser = parse_whole::<usize>)]
    batch_size: Option<usize>,
    /// What a write survives when it returns
    #[arg(long, value_enum, default_value = "written")]
    durability: DurabilityArg,
    /// Sync every write: --durability synced
    #[arg(long, conflicts_with = "durability")]
    sync: bool,
    /// Seed of the random keys, orders and values
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    seed: u64,
    /// End each benchmark after this time, such as 10s
    #[arg(long, value_parser = parse_time)]
    duration: Option<Duration>,
    /// Write rate of readwhilewriting, such as 20MB/s [default: unlimited]
    #[arg(long, value_name = "BYTES", value_parser = parse_byte_rate)]
    benchmark_write_rate_limit: Option<f64>,
    /// Print histograms of the latencies
    #[arg(long)]
    histogram: bool,
    /// Print the database's statistics after each benchmark
    #[arg(long)]
    statistics: bool,
    /// Print one line of JSON per benchmark
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
