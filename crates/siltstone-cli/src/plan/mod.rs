//! `siltstone plan`: chooses an engine and its parameters, predicts its costs, and draws the trade-off.

mod cache;
mod database;
mod dedup;
mod legend;
mod load;
mod report;
mod trace;

use crate::model;
use crate::outcome::{Outcome, Result, help, wrong_usage};
use crate::quantity::{
    Skew, parse_byte_rate, parse_bytes, parse_count, parse_rate, parse_skew, parse_time_s,
};
use anyhow::Context;
use clap::{Args, ValueEnum};
use load::Load;
use serde_json::{Value, json};
use siltstone::{Durability, Stats, Usage};
use siltstone_bench::named::by_name;
use siltstone_model::planner::{self, Demand, Disk, Goal};
use siltstone_model::{Flash, Popularity};
use std::io::{Write, stdout};
use std::path::PathBuf;

/// The default share of gets among all operations.
const GETS_SHARE: f64 = 0.9;
/// The memory if none is stated, in bytes.
const MEMORY_BYTES: f64 = 1_073_741_824.0;
/// The default number of random reads per second of a disk.
const DISK_READS_PER_S: f64 = 150.0;
/// The default number of bytes that a disk reads or writes per second.
const DISK_BYTES_PER_S: f64 = 150e6;
/// The default number of puts per second.
const UPDATES_PER_S: f64 = 1_000.0;

const EXAMPLES: &str = "
  siltstone plan --items 1e9 --key-size 20 --value-size 44 --gets 0.9 --updates 5000/s --skew zipf:0.99 \\
      --memory 2GiB --flash 1TB --endurance 3000 --lifetime 3y
  siltstone plan --items 100M --key-size 24 --value-size 1000 --updates 5000/s --goal memory --plot trade-off.svg
  siltstone plan --items 3e9 --key-size 20 --value-size 100 --gets 800/s --updates 800/s --skew zipf:0.99 \\
      --memory 32GiB --flash 200GB --disk 4TB
  siltstone plan --cache --items 500M --key-size 16 --value-size 84 --gets 50k/s --skew zipf:0.9 \\
      --memory 2GiB --flash 20GB --lifetime 5y
  siltstone plan --dedup 10TB --file-size 200kB --dedup-ratio 3 --scan-rate 250MB/s
  siltstone plan --trace keys.txt --value-size 200 --updates 300/s --json
  siltstone plan --trace chunks.trace
  siltstone plan --db DIR --skew zipf:0.99 --plot plan.html";

/// Choose an engine and its parameters for given data, load and hardware
///
/// Evaluates all sensible parameters of every engine with the papers' analytic models. What is not stated is assumed:
/// the defaults below. With --dedup, predicts the index of `siltstone dedup` instead.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct PlanArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    hardware: HardwareArgs,
    #[command(flatten)]
    index: dedup::IndexArgs,
    /// Plan a cache on flash: an object that is not found is put, and leaves when there is no space. Without --updates
    /// there are no other puts
    #[arg(long, conflicts_with_all = cache::WITHOUT_EFFECT)]
    cache: bool,
    /// The criterion for the best plan among those that fit
    #[arg(long, value_enum, default_value = "device-time")]
    goal: GoalArg,
    /// Draw write amplification and reads over memory for all engines
    #[arg(long, value_name = "FILE.svg|html", value_parser = siltstone_bench::chart::parse_path)]
    plot: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_items(text: &str) -> std::result::Result<f64, String> {
    let items = parse_count(text)?;
    if items >= 1.0 { Ok(items) } else { Err("a plan is for 1 item or more".into()) }
}

#[derive(Args)]
#[command(next_help_heading = "The data")]
struct DataArgs {
    /// Number of items, such as 1e9 or 250M, at least the keys of --trace [default: that of --trace or --db]
    #[arg(long, value_name = "N", value_parser = parse_items, required_unless_present_any = ["trace", "db", "dedup"])]
    items: Option<f64>,
    /// Length of the keys, in bytes: the mean if they differ [default: that of --trace or --db, or 20]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    key_size: Option<f64>,
    /// Length of the values, in bytes: the mean if they differ [default: that of --trace or --db, or 100]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    value_size: Option<f64>,
    /// The records differ in size
    #[arg(long)]
    variable: bool,
    /// Popularity of the keys: uniform, zipf:0.99, latest:0.99
    #[arg(long, value_parser = parse_skew, default_value = "uniform", conflicts_with = "trace")]
    skew: Skew,
    /// Take the popularity from a file with one requested key per line; or popularity, sizes and load from a trace that
    /// `dedup --record` writes and `bench trace` reads
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Take number and sizes of the items from a database, and the load from its counters
    ///
    /// The counters cover the whole life of the database. If the database is in use, they are at most a minute old, and
    /// the number of items is the one stored with them. Databases do not count the popularity of keys: use --skew.
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
}

#[derive(Args)]
#[command(next_help_heading = "The load")]
struct LoadArgs {
    /// Gets, as a rate such as 20k/s or 30/min, or as a share of all operations: a number below 1 without a unit
    /// [default: that of --db or --trace, or 0.9]; with --cache a rate [default: that of --db or --trace, or 10k/s]
    #[arg(long, value_name = "RATE|SHARE", value_parser = parse_gets)]
    gets: Option<Gets>,
    /// The share of gets of missing keys [default: that of --db or --trace, or 0]
    #[arg(long, value_name = "SHARE", value_parser = parse_count)]
    missing: Option<f64>,
    /// Puts of existing keys, such as 5000/s [default: that of --db or --trace, or 1000/s]
    #[arg(long, value_parser = parse_rate)]
    updates: Option<f64>,
    /// Whether scans in key order are needed
    #[arg(long, value_enum, default_value = "no")]
    scans: YesNo,
    /// What a write must survive when it returns: nothing (buffered), a crash of the process (written), a power failure
    /// (synced); each synced write writes at least a page of flash
    #[arg(long, default_value = Durability::default().name(), value_parser = by_name::<Durability>())]
    durability: Durability,
}

#[derive(Args)]
#[command(next_help_heading = "The hardware")]
struct HardwareArgs {
    /// The memory, such as 2GiB [default: 1GiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, alias = "ram")]
    memory: Option<f64>,
    /// The capacity of the flash, such as 1TB
    #[arg(long, value_parser = parse_bytes, default_value = "1TB")]
    flash: f64,
    /// The most bytes on flash per byte of items, such as 1.5
    #[arg(long, value_name = "RATIO", value_parser = parse_count)]
    space: Option<f64>,
    /// Number of erase cycles per flash cell
    #[arg(long, value_name = "CYCLES", value_parser = parse_count, default_value = "3000")]
    endurance: f64,
    /// Required lifetime of the flash, such as 3y
    #[arg(long, value_name = "TIME", value_parser = parse_time_s, default_value = "3y")]
    lifetime: f64,
    /// Rate of random reads of the flash
    #[arg(long, value_name = "RATE", value_parser = parse_rate, default_value = "100k/s")]
    reads: f64,
    /// Rate of sequential reads of the flash
    #[arg(long, value_name = "RATE", value_parser = parse_byte_rate, default_value = "500MB/s")]
    read_bandwidth: f64,
    /// Rate of sequential writes of the flash
    #[arg(long, value_name = "RATE", value_parser = parse_byte_rate, default_value = "500MB/s")]
    writes: f64,
    /// The capacity of a slow disk below the flash, if there is one, such as 20TB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    disk: Option<f64>,
    /// Rate of random reads of the disk [default: 150/s]; without --disk, of a disk of any capacity
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    disk_reads: Option<f64>,
    /// Rate of sequential reads and writes of the disk [default: 150MB/s]
    #[arg(long, value_name = "RATE", value_parser = parse_byte_rate)]
    disk_bandwidth: Option<f64>,
}

/// The amount of gets.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Gets {
    /// Per second.
    Rate(f64),
    /// As a share of all operations.
    Share(f64),
}

/// Parses gets: a number below 1 without a unit is a share, everything else is a rate.
fn parse_gets(text: &str) -> std::result::Result<Gets, String> {
    let rate = parse_rate(text)?;
    Ok(if rate < 1.0 && !text.contains('/') { Gets::Share(rate) } else { Gets::Rate(rate) })
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum YesNo {
    Yes,
    No,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum GoalArg {
    /// The smallest share of time in which the flash is busy
    DeviceTime,
    /// The least memory
    #[value(alias = "ram")]
    Memory,
    /// The least write amplification
    Writes,
}

impl From<GoalArg> for Goal {
    fn from(goal: GoalArg) -> Goal {
        match goal {
            GoalArg::DeviceTime => Goal::LeastDeviceTime,
            GoalArg::Memory => Goal::LeastRam,
            GoalArg::Writes => Goal::LeastWrites,
        }
    }
}

/// What is known about the data.
struct Data {
    popularity: Popularity,
    key_bytes: f64,
    value_bytes: f64,
    fixed: bool,
    /// The load until now, if it was counted.
    load: Option<Load>,
    /// The usage counters, if the source is a database.
    usage: Option<Usage>,
    now: Option<Stats>,
}

impl DataArgs {
    fn read(&self) -> anyhow::Result<Data> {
        let found = self.db.as_deref().map(database::read).transpose()?;
        let traced = self.trace.as_deref().map(trace::read).transpose()?;
        if let (Some(trace), Some(items)) = (&traced, self.items)
            && items < trace.keys()
        {
            let keys = trace.keys();
            return Err(wrong_usage(format_args!("--items is {items}, but the trace has {keys} keys")));
        }
        let counted = found.as_ref().map(|found| found.items);
        let popularity = match (&traced, self.items.or(counted)) {
            (Some(trace), items) => trace.popularity(items)?,
            (None, Some(items)) => self.skew.popularity(items)?,
            (None, None) => return Err(wrong_usage("use --items, --trace or --db")),
        };
        let or = |asked: Option<f64>, found: Option<f64>, traced: Option<f64>, default: f64| {
            asked.or(found).or(traced).unwrap_or(default)
        };
        let (found, traced) = (found.as_ref(), traced.as_ref());
        let found_key_bytes = found.map(|found| found.key_bytes);
        let found_value_bytes = found.map(|found| found.value_bytes);
        let traced_key_bytes = traced.map(trace::Trace::key_bytes);
        let traced_value_bytes = traced.and_then(trace::Trace::value_bytes);
        let usage = found.and_then(|found| found.usage);
        Ok(Data {
            popularity,
            key_bytes: or(self.key_size, found_key_bytes, traced_key_bytes, 20.0),
            value_bytes: or(self.value_size, found_value_bytes, traced_value_bytes, 100.0),
            fixed: !self.variable
                && found.is_none_or(|found| found.fixed)
                && traced.is_none_or(trace::Trace::is_fixed),
            load: usage.map(Load::from).or(traced.and_then(|trace| trace.load)),
            usage,
            now: found.and_then(|found| found.now.clone()),
        })
    }
}

impl PlanArgs {
    fn demand(&self, data: &Data) -> anyhow::Result<Demand> {
        let LoadArgs { gets, missing, updates, scans, durability } = self.load;
        let load = data.load.as_ref();
        let mut demand = Demand::new(data.popularity.clone(), data.key_bytes, data.value_bytes);
        let updates = updates.or(load.and_then(Load::writes_per_s)).unwrap_or(UPDATES_PER_S);
        let of_share = |share: f64| updates * share / (1.0 - share);
        demand.gets_per_s = match (gets, load) {
            (Some(Gets::Share(share)), _) => of_share(share),
            (Some(Gets::Rate(rate)), _) => rate,
            (None, Some(load)) => load.gets_per_s(updates),
            (None, None) => of_share(GETS_SHARE),
        };
        demand.missing_gets = missing.or(load.map(Load::missing)).unwrap_or(0.0);
        demand.puts_per_s = updates;
        demand.scans = scans == YesNo::Yes;
        demand.persistent = durability != Durability::Buffered;
        demand.synced = durability == Durability::Synced;
        let hardware = &self.hardware;
        demand.ram_bytes = hardware.memory.unwrap_or(MEMORY_BYTES);
        demand.flash = Flash { bytes: hardware.flash, erase_cycles: hardware.endurance };
        demand.space = hardware.space.unwrap_or(f64::INFINITY);
        demand.lifetime_s = hardware.lifetime;
        demand.reads_per_s = hardware.reads;
        demand.read_bytes_per_s = hardware.read_bandwidth;
        demand.write_bytes_per_s = hardware.writes;
        let has_disk = hardware.disk.is_some() || hardware.disk_reads.is_some();
        if hardware.disk_bandwidth.is_some() && !has_disk {
            return Err(wrong_usage("--disk-bandwidth is that of a disk: state --disk or --disk-reads too"));
        }
        demand.disk = has_disk.then_some(Disk {
            bytes: hardware.disk.unwrap_or(f64::INFINITY),
            reads_per_s: hardware.disk_reads.unwrap_or(DISK_READS_PER_S),
            bytes_per_s: hardware.disk_bandwidth.unwrap_or(DISK_BYTES_PER_S),
        });
        demand.goal = self.goal.into();
        demand.silt_layout.fixed = data.fixed;
        demand.check().context("this cannot be planned for")?;
        Ok(demand)
    }
}

pub fn run(args: PlanArgs) -> Result {
    model::as_usage(plan(&args))
}

fn plan(args: &PlanArgs) -> Result {
    if let Some(bytes) = args.index.dedup {
        return dedup::run(bytes, &args.index, &args.hardware, args.json);
    }
    let data = args.data.read()?;
    if args.cache {
        return cache::run(args, data);
    }
    let demand = args.demand(&data)?;
    let plans = planner::plan(&demand)?;
    let is_memory_assumed = args.hardware.memory.is_none();
    if let Some(path) = &args.plot {
        let mut text = Vec::new();
        report::print(&mut text, &demand, &plans, is_memory_assumed)?;
        let charts = report::charts(&demand, &plans, &planner::trade_off(&demand)?);
        let title = "What every engine can do with more and less memory";
        crate::output::deliver_charts(path, title, &String::from_utf8_lossy(&text), &charts)?;
    }
    let mut out = stdout().lock();
    if args.json {
        let now = data.now.as_ref().map(siltstone_bench::accounts::stats);
        let object: Value = json!({
            "demand": report::demand(&demand),
            "plans": plans.iter().map(|plan| report::plan(&demand, plan)).collect::<Vec<_>>(),
            "usage": data.usage.as_ref().map(siltstone_bench::accounts::usage),
            "now": now,
        });
        writeln!(out, "{object}")?;
    } else {
        report::print_database(&mut out, data.usage.as_ref(), data.now.as_ref())?;
        report::print(&mut out, &demand, &plans, is_memory_assumed)?;
    }
    out.flush()?;
    Ok(if plans.iter().any(planner::Plan::is_recommended) { Outcome::Done } else { Outcome::Negative })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gets_with_a_unit_are_a_rate_however_small() {
        assert_eq!(parse_gets("0.5"), Ok(Gets::Share(0.5)));
        assert_eq!(parse_gets("0.5/s"), Ok(Gets::Rate(0.5)));
        assert_eq!(parse_gets("30/min"), Ok(Gets::Rate(0.5)));
        assert_eq!(parse_gets("1"), Ok(Gets::Rate(1.0)));
        assert_eq!(parse_gets("20k/s"), Ok(Gets::Rate(20_000.0)));
        assert!(parse_gets("half").is_err());
    }
}
