//! `siltstone stats`: prints the contents and costs of a database.

use crate::open::Location;
use crate::outcome::{Outcome, Result, help};
use crate::place;
use crate::values::Values;
use clap::Args;
use serde_json::json;
use siltstone::{EngineKind, SettingInfo, Stats};
use siltstone_bench::accounts;
use siltstone_command::database;
use siltstone_server::joined_metrics;
use std::io::{Write, stdout};

const EXAMPLES: &str = "
  siltstone stats --db DIR
  siltstone stats --db DIR --json
  siltstone stats --db DIR --prometheus > /var/lib/node_exporter/siltstone.prom";

/// Print statistics of the database, with its use of memory and disk
///
/// "Keys (estimate)" is computed from a sample. "Records" counts all stored versions of keys and all tombstones; after
/// `siltstone compact` it is the number of keys. "Lifetime" counts and the write amplification cover the time since the
/// database was created. Counts of the device start at opening, so here they are the cost of opening the database. A
/// dedup index has two databases: chunks and files.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct StatsArgs {
    #[command(flatten)]
    location: Location,
    /// Print one line of JSON per database
    #[arg(long)]
    json: bool,
    /// Print the text format of Prometheus
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
}

pub fn run(args: StatsArgs) -> Result {
    let mut out = stdout().lock();
    let mut metrics = Vec::new();
    for directory in place::databases(&args.location.db) {
        let database = database::open(args.location.builder(&directory).read_only(true))?;
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
