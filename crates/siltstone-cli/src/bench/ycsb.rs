//! `siltstone bench ycsb`: the core workloads of YCSB.

use super::ground::{Ground, Grounded};
use super::tuning::Tuning;
use crate::interrupt::Interrupt;
use crate::open::DurabilityArg;
use crate::outcome::{Outcome, Result, help, wrong_usage};
use crate::quantity::parse_time;
use crate::quantity::parse_whole;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use siltstone_bench::ycsb::{Distribution, Report, Settings, Workload};
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

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
/// Loads the records and then sends the requests, chosen as YCSB 0.17 does. Without --db the database stands in a
/// temporary directory. Every record that is read is checked. Each phase prints a summary as YCSB does, or a line of
/// JSON. An update writes one field, for which the record is read first, unless --write-all-fields is given.
#[derive(Args)]
#[command(after_help = format!("{WORKLOADS}\n{}", help(EXAMPLES)))]
pub struct YcsbArgs {
    /// The workload
    #[arg(long, default_value = "a", ignore_case = true, value_parser = workloads())]
    workload: Workload,
    /// Records that are loaded
    #[arg(long, alias = "recordcount", default_value_t = 1_000_000, value_parser = parse_whole::<u64>)]
    records: u64,
    /// Requests of all threads together
    #[arg(long, alias = "operationcount", default_value_t = 1_000_000, value_parser = parse_whole::<u64>)]
    operations: u64,
    /// Threads that send requests at the same time
    #[arg(long, alias = "threadcount", default_value_t = 1, value_parser = parse_whole::<usize>)]
    threads: usize,
    /// How the requests are distributed; the workload's own way if not given
    #[arg(long, alias = "requestdistribution", value_enum)]
    distribution: Option<DistributionArg>,
    /// Fields of a record
    #[arg(long, alias = "fieldcount", default_value_t = 10, value_parser = parse_whole::<usize>)]
    field_count: usize,
    /// The length of a field, in bytes
    #[arg(long, alias = "fieldlength", default_value_t = 100, value_parser = parse_whole::<usize>)]
    field_length: usize,
    /// An update writes all fields, and need not read the record
    #[arg(long, alias = "writeallfields")]
    write_all_fields: bool,
    /// The directory; a temporary one if not given
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// The directory holds a database that was loaded before: only send the requests
    #[arg(long, requires = "db")]
    use_existing_db: bool,
    /// How long a write must have survived when it returns
    #[arg(long, value_enum, default_value = "written")]
    durability: DurabilityArg,
    /// From which the requests follow
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    seed: u64,
    /// End the requests after this time, such as 10s
    #[arg(long, value_parser = parse_time)]
    duration: Option<Duration>,
    /// Print a line of JSON for each phase
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    tuning: Tuning,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DistributionArg {
    /// A few records are popular, and they are spread over all
    Zipfian,
    /// The records that were inserted last are popular
    Latest,
    /// All records that were loaded are as popular
    Uniform,
}

impl From<DistributionArg> for Distribution {
    fn from(distribution: DistributionArg) -> Self {
        match distribution {
            DistributionArg::Zipfian => Distribution::Zipfian,
            DistributionArg::Latest => Distribution::Latest,
            DistributionArg::Uniform => Distribution::Uniform,
        }
    }
}

fn workloads() -> impl TypedValueParser<Value = Workload> {
    PossibleValuesParser::new(Workload::ALL.map(Workload::name)).try_map(|name| name.parse::<Workload>())
}

impl YcsbArgs {
    fn settings(&self, interrupt: &Interrupt, ground: &Ground) -> Settings {
        let tuning = self.tuning.clone();
        Settings {
            workload: self.workload,
            records: self.records,
            operations: self.operations,
            threads: self.threads,
            distribution: self.distribution.map(Into::into),
            field_count: self.field_count,
            field_length: self.field_length,
            write_all_fields: self.write_all_fields,
            fixed: tuning.fixed,
            directory: Some(ground.directory.clone()),
            use_existing_db: self.use_existing_db,
            durability: self.durability.into(),
            seed: self.seed,
            duration: self.duration,
            set_up: Arc::new(move |builder| tuning.apply(builder)),
            stop: interrupt.flag(),
        }
    }

    fn print(&self, report: &Report, place: &Ground) -> std::io::Result<()> {
        let mut out = stdout().lock();
        if self.json {
            serde_json::to_writer(&mut out, &Grounded { report, place })?;
            writeln!(out)?;
        } else {
            write!(out, "{}", report.summary())?;
        }
        out.flush()
    }
}

pub fn run(args: YcsbArgs) -> Result {
    if args.tuning.hashed_keys {
        return Err(wrong_usage("--hashed-keys does not fit: YCSB's keys are names, and no hashes"));
    }
    let interrupt = Interrupt::listen()?;
    let ground = Ground::prepare(args.db.as_deref(), "db")?;
    if !args.json {
        ground.print(&format!("records of {} fields of {} bytes", args.field_count, args.field_length))?;
    }
    siltstone_bench::ycsb::run(&args.settings(&interrupt, &ground), &mut |report| {
        args.print(report, &ground)
    })?;
    Ok(if interrupt.is_raised() { Outcome::Interrupted } else { Outcome::Done })
}
