//! `siltstone stats`: prints the contents and costs of a database, or the rates of one that is in use.

mod metrics;
mod watch;

use crate::open::Location;
use crate::outcome::{Outcome, Result, help};
use crate::place;
use crate::values::Values;
use clap::Args;
use serde_json::json;
use siltstone::{EngineKind, SettingInfo, Stats};
use siltstone_bench::accounts;
use siltstone_bench::place::directory;
use siltstone_bench::tuning::{MemoryArgs, SettingArgs};
use siltstone_command::database;
use siltstone_server::joined_metrics;
use std::io::{Write, stdout};
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone stats --db DIR
  siltstone stats --db DIR --json
  siltstone stats --db DIR --prometheus > /var/lib/node_exporter/siltstone.prom
  siltstone stats --watch --metrics 127.0.0.1:9121
  siltstone stats --watch --db DIR";

/// Print statistics of the database, with its use of memory and disk
///
/// "Keys (estimate)" is computed from a sample. "Records" counts all stored versions of keys and all tombstones; after
/// `siltstone compact` it is the number of keys. "Lifetime" counts and the write amplification cover the time since the
/// database was created. Counts of the device start at opening, so here they are the cost of opening the database. A
/// dedup index has two databases: chunks and files.
///
/// While a process writes to the database, only --watch works: it prints the rates of gets, puts and deletes, again and
/// again. With --metrics they are those of the last seconds, from `siltstone serve data --metrics`. With --db they are
/// from the counters that the process saves about each minute, and so the rates of a minute.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct StatsArgs {
    /// Directory of the database
    #[arg(long, value_name = "DIR", env = "SILTSTONE_DB", required_unless_present = "metrics",
        value_parser = directory())]
    db: Option<PathBuf>,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    settings: SettingArgs,
    #[command(flatten)]
    watch: watch::WatchArgs,
    /// Print one line of JSON per database
    #[arg(long)]
    json: bool,
    /// Print the text format of Prometheus
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    prometheus: bool,
}

pub fn run(args: StatsArgs) -> Result {
    if args.watch.is_stated() {
        return watch::run(&args.watch, args.db.as_deref(), args.json);
    }
    let db = args.db.unwrap_or_default();
    let location = Location { db, memory: args.memory, settings: args.settings };
    let mut out = stdout().lock();
    let mut metrics = Vec::new();
    for directory in place::databases(&location.db) {
        let database = database::open(location.builder(&directory).read_only(true))?;
        let stats = database.stats();
        // After the statistics, because it does reads.
        let keys = database.approximate_len()?;
        let are_typed = Values::of(&directory)?.are_typed();
        if args.json {
            let mut line = accounts::stats(&stats);
            line["keys"] = json!(keys);
            line["path"] = json!(directory.display().to_string());
            line["typed_values"] = json!(are_typed);
            writeln!(out, "{line}")?;
        } else if args.prometheus {
            let path = directory.display().to_string();
            metrics.push(stats.to_prometheus(&[("database", &path)]));
        } else {
            writeln!(out, "{}", directory.display())?;
            writeln!(out, "{:<28} {keys:>16}", "keys (estimate)")?;
            if are_typed {
                writeln!(out, "{:<28} {:>16}", "values", "typed")?;
            }
            write!(out, "{}", without_defaults(stats))?;
        }
    }
    out.write_all(joined_metrics(&metrics).as_bytes())?;
    out.flush()?;
    Ok(Outcome::Done)
}

/// Leaves out the settings that have their defaults.
pub fn without_defaults(mut stats: Stats) -> Stats {
    let defaults = EngineKind::from_name(stats.engine).map(|kind| kind.settings().describe());
    stats.settings.retain(|(name, value)| {
        let is_default = |setting: &SettingInfo| setting.name == *name && setting.value == *value;
        !defaults.iter().flatten().any(is_default)
    });
    stats
}
