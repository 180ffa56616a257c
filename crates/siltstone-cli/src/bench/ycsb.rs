//! `siltstone bench ycsb`: the core workloads of YCSB.

use super::Session;
use crate::outcome::{Result, help};
use clap::Args;
use siltstone_bench::place::Place;
use siltstone_bench::ycsb::{self, Settings};

const EXAMPLES: &str = "
  siltstone bench ycsb --workload a --records 1000000 --operations 1000000 --threads 16 --json
  siltstone bench ycsb --workload d --db DIR
  siltstone bench ycsb --workload f --db DIR --use-existing-db --duration 10s";

const WORKLOADS: &str = "\
Workloads:
  a  50 % reads, 50 % updates
  b  95 % reads, 5 % updates
  c  reads only
  d  95 % reads of the latest records, 5 % inserts
  e  95 % scans, 5 % inserts; only for engines that keep an order
  f  50 % reads, 50 % read-modify-writes
";

/// Measure a database with the core workloads of YCSB
///
/// Loads the records and then sends requests with the distributions of YCSB 0.17. Without --db the database is in a
/// temporary directory. The benchmark checks every record it reads. Each phase prints a summary in YCSB's format, or a
/// line of JSON. An update reads the record and writes one field, unless --write-all-fields is given.
#[derive(Args)]
#[command(after_help = format!("{WORKLOADS}\n{}", help(EXAMPLES)))]
pub struct YcsbArgs {
    /// Print one line of JSON per phase
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

pub fn run(args: YcsbArgs) -> Result {
    let YcsbArgs { mut settings, json } = args;
    let place = Place::prepare(settings.db.as_deref())?;
    let records = format!("records of {} fields of {} bytes", settings.field_count, settings.field_length);
    let session = Session::begin(place, json, &records)?;
    settings.stop = session.interrupt.flag();
    ycsb::run(&settings, &session.place, &mut |report| session.print(report, || report.summary()))?;
    Ok(session.end())
}
