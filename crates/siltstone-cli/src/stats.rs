//! `siltstone stats`: prints the contents and costs of a database.

use crate::open::{self, Location};
use crate::outcome::{Outcome, Result, help};
use crate::place;
use clap::Args;
use serde_json::json;
use siltstone::device::Purpose;
use siltstone::{EngineKind, SettingInfo, Stats, StoreKind};
use siltstone_bench::accounts::{self, number_as_text};
use std::io::{Write, stdout};

const EXAMPLES: &str = "
  siltstone stats --db DIR
  siltstone stats --db DIR --json";

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
}

pub fn run(args: StatsArgs) -> Result {
    let mut out = stdout().lock();
    for directory in place::databases(&args.location.db) {
        let database = open::open(args.location.builder(&directory).read_only(true))?;
        let stats = database.stats();
        // After the statistics, because it does reads.
        let keys = database.approximate_len()?;
        if args.json {
            let mut line = accounts::stats(&stats);
            line["keys"] = json!(keys);
            line["path"] = json!(directory.display().to_string());
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "{}", directory.display())?;
            writeln!(out, "{:<28} {keys:>16}", "keys (estimate)")?;
            out.write_all(table(&stats).as_bytes())?;
        }
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// Returns the statistics as a table.
pub fn table(stats: &Stats) -> String {
    let mut table = String::new();
    let mut row = |name: &str, value: String| table += &format!("{name:<28} {value:>16}\n");
    add_shape(&mut row, stats);
    row("records, all versions", stats.records.to_string());
    row("records in the last store", stats.merged_records.to_string());
    row("bytes on disk", stats.disk_bytes.to_string());
    row("bytes of memory", stats.ram.total_bytes().to_string());
    for (item, bytes) in stats.ram.items() {
        row(&format!("  {item}"), bytes.to_string());
    }
    row("bytes of memory, peak", stats.ram_peak.total_bytes().to_string());
    if stats.records > 0 {
        let per_record = stats.ram.total_bytes() as f64 / stats.records as f64;
        row("bytes of memory per record", number_as_text(per_record));
    }
    for (name, count) in [
        ("gets (lifetime)", stats.usage.gets),
        ("  of missing keys", stats.usage.misses),
        ("puts (lifetime)", stats.usage.puts),
        ("deletes (lifetime)", stats.usage.deletes),
        ("milliseconds open (lifetime)", stats.usage.open_ms),
        ("bytes written (lifetime)", stats.usage.written_bytes),
    ] {
        row(name, count.to_string());
    }
    row("write amplification", number_as_text(stats.usage.write_amplification()));
    row("writes", stats.writes.to_string());
    row("bytes of keys and values", stats.user_bytes.to_string());
    row("delayed writes", stats.delayed_writes.to_string());
    row("  total milliseconds", format!("{:.1}", stats.delayed_ns as f64 / 1e6));
    row("records replayed", stats.replayed_records.to_string());
    row("truncated bytes of the log", stats.lost_tail_bytes.to_string());
    for (name, value) in &stats.details {
        row(name, number_as_text(*value));
    }
    table + &device_table(stats)
}

fn add_shape(row: &mut impl FnMut(&str, String), stats: &Stats) {
    let shape = &stats.shape;
    let yes_or_no = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
    row("engine", stats.engine.to_owned());
    if shape.format_version > 0 {
        row("format version", shape.format_version.to_string());
        row("bytes per block", shape.block_bytes.to_string());
    }
    row("bytes per key", shape.fixed.map_or("any".to_owned(), |(key, _)| key.to_string()));
    row("bytes per value", shape.fixed.map_or("any".to_owned(), |(_, value)| value.to_string()));
    row("keys are hashes", yes_or_no(shape.hashed_keys));
    row("records may expire", yes_or_no(shape.expiring));
    let defaults = EngineKind::from_name(stats.engine).map(|kind| kind.settings().describe());
    for (name, value) in &stats.settings {
        let is_default = |setting: &SettingInfo| setting.name == *name && setting.value == *value;
        if !defaults.iter().flatten().any(is_default) {
            row(&format!("setting {name}"), value.clone());
        }
    }
    for StoreKind { store, index, filter, count, .. } in &stats.stores {
        row(&format!("{store} stores"), format!("{count}, index {index}, filter {filter}"));
    }
}

fn device_table(stats: &Stats) -> String {
    let mut table = format!(
        "{:<10} {:>12} {:>16} {:>12} {:>16} {:>8}\n",
        "device for", "reads", "bytes", "writes", "bytes", "syncs"
    );
    for purpose in Purpose::ALL {
        let count = stats.io.of(purpose);
        if count.reads + count.writes + count.syncs > 0 {
            table += &format!(
                "{:<10} {:>12} {:>16} {:>12} {:>16} {:>8}\n",
                purpose.name(),
                count.reads,
                count.read_bytes,
                count.writes,
                count.write_bytes,
                count.syncs
            );
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_component_of_memory() {
        let mut stats = Stats::default();
        stats.engine = "silt";
        stats.ram.add("filters", 12_345);
        stats.details.push(("occupancy", 0.9375));
        let table = table(&stats);
        for wanted in ["silt", "filters", "12345", "occupancy", "0.9375"] {
            assert!(table.contains(wanted), "{wanted}");
        }
    }
}
