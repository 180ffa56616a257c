//! `siltstone bench device`: what the drive itself can do below a database.

use super::ground::{Ground, Grounded};
use crate::interrupt::Interrupt;
use crate::outcome::{Outcome, Result, help};
use crate::place;
use crate::quantity::parse_time;
use crate::quantity::parse_whole;
use clap::Args;
use siltstone::Access;
use siltstone_bench::device::{DeviceError, Report, Settings};
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "
  siltstone bench device --db DIR --block-size 4096 --depth 16 --json
  siltstone bench device --db DIR --depth 1 --threads 16 --direct --duration 30s";

/// Measure random reads of a database's files
///
/// Reads random blocks of its stores and logs through the same device layer as the database, without indexes and
/// records, for comparison with the rate of lookups. The database may be open at the same time.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct DeviceArgs {
    /// Directory of the database
    #[arg(long, value_name = "DIR", env = "SILTSTONE_DB")]
    db: PathBuf,
    /// Size of a read, in bytes
    #[arg(long, default_value_t = 4096, value_parser = parse_whole::<usize>)]
    block_size: usize,
    /// Number of concurrent reads per thread, 1 to 256
    #[arg(long, default_value_t = 16, value_parser = parse_whole::<usize>)]
    depth: usize,
    /// Number of concurrent threads
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    threads: usize,
    /// Duration of the measurement
    #[arg(long, value_parser = parse_time, default_value = "10s")]
    duration: Duration,
    /// Require direct I/O [default: direct I/O if the file system supports it]
    #[arg(long)]
    direct: bool,
    /// Use the page cache
    #[arg(long, conflicts_with = "direct")]
    buffered: bool,
    /// Seed of the random blocks
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    seed: u64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: DeviceArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let ground = Ground::prepare(Some(&place::readable(&args.db)), "db")?;
    if !args.json {
        ground.print(&format!("blocks of {} bytes", args.block_size))?;
    }
    let report = siltstone_bench::device::run(&Settings {
        directory: ground.directory.clone(),
        block_size: args.block_size,
        depth: args.depth,
        threads: args.threads,
        duration: args.duration,
        access: match (args.direct, args.buffered) {
            (true, _) => Access::Direct,
            (_, true) => Access::Buffered,
            _ => Access::DirectOrBuffered,
        },
        seed: args.seed,
        stop: interrupt.flag(),
    });
    let report = report.map_err(|error| match error {
        DeviceError::Device(error) => anyhow::Error::from(error),
        error => error.into(),
    })?;
    print(&report, &ground, args.json)?;
    Ok(if interrupt.is_raised() { Outcome::Interrupted } else { Outcome::Done })
}

fn print(report: &Report, place: &Ground, json: bool) -> std::io::Result<()> {
    let mut out = stdout().lock();
    if json {
        serde_json::to_writer(&mut out, &Grounded { report, place })?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", report.line())?;
    }
    out.flush()
}
