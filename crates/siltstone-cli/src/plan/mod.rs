//! `siltstone plan`: which engine with which parameters, what it will cost, and the trade-off drawn.

mod report;
mod trace;

use crate::open::{DurabilityArg, Location};
use crate::outcome::{Outcome, Result, help};
use crate::quantity::{
    Skew, parse_byte_rate, parse_bytes, parse_count, parse_rate, parse_skew, parse_time_s,
};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use siltstone::model::planner::{self, Demand, Goal, System};
use siltstone::model::{Flash, Popularity};
use siltstone::{EngineKind, Stats};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

/// Records of a database that are looked at for their sizes.
const RECORDS_SAMPLED: usize = 100_000;

const EXAMPLES: &str = "
  siltstone plan --items 1e9 --key-size 20 --value-size 44 --gets 0.9 --updates 5000/s --skew zipf:0.99 \\
      --ram 2GiB --flash 1TB --endurance 3000 --lifetime 3y
  siltstone plan --items 100M --key-size 24 --value-size 1000 --updates 5000/s --goal ram --plot trade-off.svg
  siltstone plan --trace keys.txt --value-size 200 --updates 300/s --json
  siltstone plan --db DIR --updates 300/s --gets 20k/s --plot plan.html";

/// Choose an engine and its parameters for given data, load and hardware
///
/// Every engine is tried with all sensible parameters, by the papers' analytic models. Engines that this version does
/// not have are shown, marked so, and never recommended.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct PlanArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    hardware: HardwareArgs,
    /// What is best among the plans that fit
    #[arg(long, value_enum, default_value = "device-time")]
    goal: GoalArg,
    /// Draw write amplification and reads over memory for all engines
    #[arg(long, value_name = "FILE.svg|html")]
    plot: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[command(next_help_heading = "The data")]
struct DataArgs {
    /// How many items, such as 1e9 or 250M; with --trace or --db as many as there are
    #[arg(long, value_name = "N", value_parser = parse_count, required_unless_present_any = ["trace", "db"])]
    items: Option<f64>,
    /// The length of the keys, in bytes: the mean if they differ
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    key_size: Option<f64>,
    /// The length of the values, in bytes: the mean if they differ
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    value_size: Option<f64>,
    /// The records differ in size
    #[arg(long)]
    variable: bool,
    /// How popular the keys are: uniform, zipf:0.99, latest:0.99
    #[arg(long, value_parser = parse_skew, default_value = "uniform", conflicts_with = "trace")]
    skew: Skew,
    /// Take the popularity from a file with the key of a request on each line
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Take the number and the sizes of the items from a database
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
}

#[derive(Args)]
#[command(next_help_heading = "The load")]
struct LoadArgs {
    /// Gets, as a rate such as 20k/s, or as the share of all operations if it is below 1
    #[arg(long, value_parser = parse_rate, default_value = "0.9")]
    gets: f64,
    /// The share of gets whose key is not there
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    missing: f64,
    /// Puts over keys that are there, such as 5000/s
    #[arg(long, value_parser = parse_rate, default_value = "1000/s")]
    updates: f64,
    /// Whether scans in the order of the keys are needed
    #[arg(long, value_enum, default_value = "no")]
    scans: YesNo,
    /// How long a write must have survived when it returns; buffered ones may be lost with the process
    #[arg(long, value_enum, default_value = "written")]
    durability: DurabilityArg,
}

#[derive(Args)]
#[command(next_help_heading = "The hardware")]
struct HardwareArgs {
    /// The memory, such as 2GiB
    #[arg(long, value_parser = parse_bytes, default_value = "1GiB")]
    ram: f64,
    /// The capacity of the flash, such as 1TB
    #[arg(long, value_parser = parse_bytes, default_value = "1TB")]
    flash: f64,
    /// How often a cell of the flash can be erased
    #[arg(long, value_name = "CYCLES", value_parser = parse_count, default_value = "3000")]
    endurance: f64,
    /// How long the flash must last, such as 3y
    #[arg(long, value_name = "TIME", value_parser = parse_time_s, default_value = "3y")]
    lifetime: f64,
    /// Random reads that the flash does
    #[arg(long, value_name = "RATE", value_parser = parse_rate, default_value = "100k/s")]
    reads: f64,
    /// What the flash writes in large pieces
    #[arg(long, value_name = "RATE", value_parser = parse_byte_rate, default_value = "500MB/s")]
    writes: f64,
    /// Random reads that a disk below the flash does, if there is one
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    disk_reads: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum YesNo {
    Yes,
    No,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum GoalArg {
    /// The flash is busy for the smallest share of the time
    DeviceTime,
    /// The least memory
    Ram,
    /// The least write amplification
    Writes,
}

impl From<GoalArg> for Goal {
    fn from(goal: GoalArg) -> Goal {
        match goal {
            GoalArg::DeviceTime => Goal::LeastDeviceTime,
            GoalArg::Ram => Goal::LeastRam,
            GoalArg::Writes => Goal::LeastWrites,
        }
    }
}

/// What is known of the data.
struct Data {
    popularity: Popularity,
    key_bytes: f64,
    value_bytes: f64,
    fixed: bool,
    /// What the database has now, if it is one.
    now: Option<Stats>,
}

impl DataArgs {
    fn read(&self) -> anyhow::Result<Data> {
        let sampled = self.db.as_deref().map(sample).transpose()?;
        let traced = self.trace.as_deref().map(trace::read).transpose()?;
        let counted = sampled.as_ref().map(|sample| sample.items);
        let popularity = match (&traced, self.items.or(counted)) {
            (Some(trace), items) => trace.popularity(items)?,
            (None, Some(items)) => self.skew.popularity(items)?,
            (None, None) => bail!("--items, --trace or --db is wanted"),
        };
        let or = |asked: Option<f64>, found: Option<f64>, default: f64| asked.or(found).unwrap_or(default);
        let traced_key = traced.as_ref().map(|trace| trace.key_bytes);
        let key_bytes =
            or(self.key_size, sampled.as_ref().map(|sample| sample.key_bytes).or(traced_key), 20.0);
        let value_bytes = or(self.value_size, sampled.as_ref().map(|sample| sample.value_bytes), 100.0);
        let fixed = !self.variable && sampled.as_ref().is_none_or(|sample| sample.fixed);
        Ok(Data { popularity, key_bytes, value_bytes, fixed, now: sampled.map(|sample| sample.stats) })
    }
}

/// What the records of a database are like.
struct Sample {
    items: f64,
    key_bytes: f64,
    value_bytes: f64,
    fixed: bool,
    stats: Stats,
}

fn sample(db: &Path) -> anyhow::Result<Sample> {
    let database = Location { db: db.to_owned() }.open()?;
    let (mut records, mut key_bytes, mut value_bytes) = (0.0f64, 0.0, 0.0);
    let mut sizes = None;
    let mut fixed = true;
    for record in database.iter()?.take(RECORDS_SAMPLED) {
        let record = record?;
        let size = (record.key.len(), record.value.len());
        fixed &= *sizes.get_or_insert(size) == size;
        records += 1.0;
        key_bytes += size.0 as f64;
        value_bytes += size.1 as f64;
    }
    if records == 0.0 {
        bail!("{}: the database is empty: nothing can be learned from it", db.display());
    }
    let stats = database.stats();
    // Keys that were overwritten stand in several stores; those of the last store stand there once.
    let items = if records < RECORDS_SAMPLED as f64 { records } else { stats.merged_records.max(1) as f64 };
    Ok(Sample {
        items: items.max(records),
        key_bytes: key_bytes / records,
        value_bytes: value_bytes / records,
        fixed,
        stats,
    })
}

impl PlanArgs {
    fn demand(&self, data: &Data) -> anyhow::Result<Demand> {
        let LoadArgs { gets, missing, updates, scans, durability } = self.load;
        let mut demand = Demand::new(data.popularity.clone(), data.key_bytes, data.value_bytes);
        demand.gets_per_s = if gets < 1.0 { updates * gets / (1.0 - gets) } else { gets };
        demand.missing_gets = missing;
        demand.puts_per_s = updates;
        demand.scans = scans == YesNo::Yes;
        demand.persistent = durability != DurabilityArg::Buffered;
        let hardware = &self.hardware;
        demand.ram_bytes = hardware.ram;
        demand.flash = Flash { bytes: hardware.flash, erase_cycles: hardware.endurance };
        demand.lifetime_s = hardware.lifetime;
        demand.reads_per_s = hardware.reads;
        demand.write_bytes_per_s = hardware.writes;
        demand.disk_reads_per_s = hardware.disk_reads;
        demand.goal = self.goal.into();
        demand.silt_layout.fixed = data.fixed;
        let is_built = |system: &System| EngineKind::from_name(system.name()).is_some();
        demand.built = System::ALL.into_iter().filter(is_built).collect();
        demand.check().context("this cannot be planned for")?;
        Ok(demand)
    }
}

pub fn run(args: PlanArgs) -> Result {
    let data = args.data.read()?;
    let demand = args.demand(&data)?;
    let plans = planner::plan(&demand)?;
    if let Some(path) = &args.plot {
        let charts = report::charts(&demand, &plans, &planner::trade_off(&demand)?);
        crate::chart::write(path, "What every engine can do with more and less memory", &charts)?;
    }
    let mut out = stdout().lock();
    if args.json {
        let now = data.now.as_ref().map(siltstone_bench::accounts::stats);
        let object: Value = json!({
            "demand": report::demand(&demand),
            "plans": plans.iter().map(report::plan).collect::<Vec<_>>(),
            "now": now,
        });
        writeln!(out, "{object}")?;
    } else {
        report::print(&mut out, &demand, &plans, data.now.as_ref())?;
    }
    out.flush()?;
    Ok(if plans.iter().any(planner::Plan::is_recommended) { Outcome::Done } else { Outcome::Negative })
}
