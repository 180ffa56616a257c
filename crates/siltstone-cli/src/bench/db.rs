//! `siltstone bench db`: the benchmarks of db_bench, with its options.

use super::Session;
use crate::outcome::{Result, help};
use crate::stats;
use clap::Args;
use siltstone::Durability;
use siltstone_bench::db::{self, Benchmark, Report, Settings};
use siltstone_bench::place::Place;

const EXAMPLES: &str = "
  siltstone bench db --num 1000000 --key-size 20 --value-size 44 --fixed
  siltstone bench db --benchmarks fillrandom,compact,readrandom --value-size 1000 --json
  siltstone bench db --benchmarks fillrandom,readrandomwriterandom --threads 16 --series 1s
  siltstone bench db --db DIR --benchmarks fillrandom,abort
  siltstone bench db --db DIR --use-existing-db --benchmarks readrandom --threads 16";

/// Measure a database, under db_bench's names
///
/// Without --db the database is in a temporary directory. The benchmark checks every value it reads. Write benchmarks
/// report the time until the last put returns and the time until no background work is left.
#[derive(Args)]
#[command(after_help = help_with_benchmarks())]
pub struct DbArgs {
    /// Sync every write: --durability synced
    #[arg(long, conflicts_with = "durability")]
    sync: bool,
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
    settings: Settings,
}

fn help_with_benchmarks() -> String {
    let names =
        Benchmark::ALL.iter().map(|benchmark| format!("  {:<18}{}\n", benchmark.name(), benchmark.about()));
    format!("Benchmarks:\n{}\n{}", names.collect::<String>(), help(EXAMPLES))
}

pub fn run(args: DbArgs) -> Result {
    let DbArgs { mut settings, histogram, statistics, .. } = args;
    settings.check()?;
    let place = Place::prepare(settings.db.as_deref())?;
    let records = format!("keys of {} bytes, values of {} bytes", settings.key_size, settings.value_size);
    let session = Session::begin(place, args.json, &records)?;
    settings.stop = session.interrupt.flag();
    settings.heap_bytes = crate::heap_bytes();
    if args.sync {
        settings.durability = Durability::Synced;
    }
    db::run(&settings, &session.place, &mut |report| {
        session.print(report, || text(report, histogram, statistics))
    })?;
    Ok(session.end())
}

fn text(report: &Report, histogram: bool, statistics: bool) -> String {
    let mut text = String::new();
    if report.operations > 0 || report.skipped.is_some() {
        text += &format!("{}\n", report.line());
    }
    if report.operations > 0 {
        text += &format!("{:15}{}\n", "", report.remarks());
    }
    if !report.series.is_empty() {
        text += &format!("{}\n", db::SERIES_HEADER);
        report.series.iter().for_each(|sample| text += &format!("{}\n", sample.line()));
    }
    if histogram && report.latencies.count() > 0 {
        text += &report.latencies.describe();
    }
    if statistics || report.benchmark == Benchmark::Stats.name() {
        text += &stats::without_defaults(report.stats.clone()).to_string();
    }
    text
}
