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
/// Loads the records and then sends requests with the distributions of YCSB 0.17. Without --db the database is in a
/// temporary directory. The benchmark checks every record it reads. Each phase prints a summary in YCSB's format, or a
/// line of JSON. An update reads the record and writes one field, unless --write-all-fields is given.
#[derive(Args)]
#[command(after_help = format!("{WORKLOADS}\n{}", help(EXAMPLES)))]
pub struct YcsbArgs {
    /// Workload
    #[arg(long, default_value = "a", ignore_case = true, value_parser = workloads())]
    workload: Workload,
    /// Number of records to load
    #[arg(long, alias = "recordcount", default_value_t = 1_000_000, value_parser = parse_whole::<u64>)]
    records: u64,
    /// Total number of requests of all threads
    #[arg(long, alias = "operationcount", default_value_t = 1_000_000, value_parser = parse_whole::<u64>)]
    operations: u64,
    /// Number of concurrent threads
    #[arg(long, alias = "threadcount", default_value_t = 1, value_parser = parse_whole::<usize>)]
    threads: usize,
    /// Distribution of the requests [default: that of the workload]
    #[arg(long, alias = "requestdistribution", value_enum)]
    distribution: Option<DistributionArg>,
    /// Number of fields per record
    #[arg(long, alias = "fieldcount", default_value_t = 10, value_parser = parse_whole::<usize>)]
    field_count: usize,
    /// Length of a field, in bytes
    #[arg(long, alias = "fieldlength", default_value_t = 100, value_parser = parse_whole::<usize>)]
    field_length: usize,
    /// Updates write all fields and do not read the record
    #[arg(long, alias = "writeallfields")]
    write_all_fields: bool,
    /// Directory of the database [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Use the loaded database in the directory: only send requests
    #[arg(long, requires = "db")]
    use_existing_db: bool,
    /// What a write survives when it returns
    #[arg(long, value_enum, default_value = "written")]
    durability: DurabilityArg,
    /// Seed of the random requests
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    seed: u64,
    /// End the requests after this time, such as 10s
    #[arg(long, value_parser = parse_time)]
    duration: Option<Duration>,
    /// Print one line of JSON per phase
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    tuning: Tuning,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DistributionArg {
    /// Zipf's law, with the popular records spread over the key space
    Zipfian,
    /// The most recently inserted records are popular
    Latest,
    /// All loaded records are equally popular
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
        return Err(wrong_usage(
            "--hashed-keys is not supported because YCSB's keys are names, not hashes; leave it out",
        ));
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
