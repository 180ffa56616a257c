//! `siltstone bench device`: the rate of the drive below a database.

use super::Session;
use crate::outcome::{Result, help};
use crate::place;
use clap::Args;
use siltstone_bench::device::{self, Settings};
use siltstone_bench::place::Place;

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
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

pub fn run(args: DeviceArgs) -> Result {
    let DeviceArgs { mut settings, json } = args;
    settings.db = place::readable(&settings.db);
    let blocks = format!("blocks of {} bytes", settings.block_size);
    let session = Session::begin(Place::prepare(Some(&settings.db))?, json, &blocks)?;
    settings.stop = session.interrupt.flag();
    let report = device::run(&settings)?;
    session.print(&report, || report.line() + "\n")?;
    Ok(session.end())
}
