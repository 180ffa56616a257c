//! `evidence mica`: measures MICA's in-memory stores.

use super::print;
use anyhow::Result;
use clap::Args;
use siltstone_bench::named::by_name;
use siltstone_command::interrupt::Interrupt;
use siltstone_evidence::mica::{self, Report, Settings, Table};

const EXAMPLES: &str = "
  evidence mica --items 16777216 --get 0.95 --zipf 0.99 --hash-outside --json
  evidence mica --items 4000000 --key-size 16 --value-size 64 --threads 2 --mode crew --cache
  evidence mica --items 4000000 --threads 2 --table modes";

/// Measure MICA's stores in memory: gets and puts in batches
///
/// Without --cache, the partitions are stores, which evict nothing. Requests are generated before the measurement. The
/// benchmark checks every value it reads.
#[derive(Args)]
#[command(after_help = super::help(EXAMPLES))]
pub struct MicaArgs {
    /// Run an experiment of the paper: thread counts up to --threads, skew, item sizes, or modes. The experiment
    /// overrides the settings that it varies
    #[arg(long, value_parser = by_name::<Table>())]
    table: Option<Table>,
    /// Print one line of JSON per measurement
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

pub fn run(args: MicaArgs) -> Result<()> {
    let MicaArgs { mut settings, table, json } = args;
    settings.stop = Interrupt::listen()?.flag();
    let Some(table) = table else {
        let report = mica::run(&settings)?;
        print(&report, json, || report.line() + "\n")?;
        return Ok(());
    };
    for (name, settings) in table.rows(&settings) {
        let report = mica::run(&settings)?;
        print(&report, json, || row(&name, &report))?;
    }
    Ok(())
}

/// Formats a row of a table.
fn row(name: &str, report: &Report) -> String {
    let of_threads: Vec<String> =
        report.thread_ops_per_s.iter().map(|rate| format!("{:.1}", rate / 1e6)).collect();
    let sum: f64 = report.thread_ops_per_s.iter().sum();
    format!(
        "{name:<44} {:>7.2} M ops/sec, wall {:>6.2}; each thread {}\n",
        sum / 1e6,
        report.wall_ops_per_s / 1e6,
        of_threads.join(" ")
    )
}
