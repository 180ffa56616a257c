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

/// Measure random reads of a database's own files
///
/// Reads blocks of its stores and logs at random, through the same device room as the database and with nothing of the
/// database above it, so that the rate of lookups can be given as a share of it. The database may be open meanwhile.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct DeviceArgs {
    /// The directory of the database
    #[arg(long, value_name = "DIR", env = "SILTSTONE_DB")]
    db: PathBuf,
    /// The size of a read, in bytes
    #[arg(long, default_value_t = 4096, value_parser = parse_whole::<usize>)]
    block_size: usize,
    /// Reads of each thread that are under way at a time, 1 to 256
    #[arg(long, default_value_t = 16, value_parser = parse_whole::<usize>)]
    depth: usize,
    /// Threads that read at the same time
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    threads: usize,
    /// How long
    #[arg(long, value_parser = parse_time, default_value = "10s")]
    duration: Duration,
    /// Past the page cache, or not at all; without it, past the page cache where that can be done
    #[arg(long)]
    direct: bool,
    /// Through the page cache
    #[arg(long, conflicts_with = "direct")]
    buffered: bool,
    /// From which the blocks follow
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    seed: u64,
    /// Print a line of JSON
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
