//! `siltstone plan --dedup`: what an index of chunks takes.

use super::HardwareArgs;
use crate::outcome::{Outcome, Result};
use crate::quantity::{parse_byte_rate, parse_bytes, parse_count, show_bytes, show_count, show_time};
use anyhow::Context;
use clap::Args;
use serde_json::json;
use siltstone_model::{DedupDemand, DedupPlan};
use std::io::{self, Write, stdout};

/// The options of `plan` that have no effect on an index of chunks.
pub const WITHOUT_EFFECT: [&str; 23] = [
    "items",
    "key_size",
    "value_size",
    "variable",
    "skew",
    "trace",
    "db",
    "gets",
    "missing",
    "updates",
    "scans",
    "durability",
    "memory",
    "flash",
    "space",
    "endurance",
    "lifetime",
    "disk",
    "disk_reads",
    "disk_bandwidth",
    "cache",
    "goal",
    "plot",
];

/// The options that state other data than an index of chunks.
const OTHER_DATA: [&str; 3] = ["items", "trace", "db"];

/// The files of an index of chunks.
#[derive(Args)]
#[command(next_help_heading = "An index of chunks")]
pub struct IndexArgs {
    /// Plan the index of `siltstone dedup` for files of this many bytes together, such as 10TB, and its first run
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, conflicts_with_all = WITHOUT_EFFECT)]
    pub dedup: Option<f64>,
    /// Average size of a chunk, as in `siltstone dedup`
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "4096",
          conflicts_with_all = OTHER_DATA)]
    average_size: f64,
    /// Number of bytes of the hash in the key, as in `siltstone dedup`
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "32",
          conflicts_with_all = OTHER_DATA)]
    hash_bytes: f64,
    /// Mean size of a file
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "1MB",
          conflicts_with_all = OTHER_DATA)]
    file_size: f64,
    /// Mean length of an absolute path
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "80",
          conflicts_with_all = OTHER_DATA)]
    path_size: f64,
    /// Bytes of all files per byte of distinct chunks; 1: no chunk occurs twice
    #[arg(long, value_name = "RATIO", value_parser = parse_count, default_value = "1",
          conflicts_with_all = OTHER_DATA)]
    dedup_ratio: f64,
    /// Rate at which the files are read, cut and hashed
    #[arg(long, value_name = "RATE", value_parser = parse_byte_rate, default_value = "100MB/s",
          conflicts_with_all = OTHER_DATA)]
    scan_rate: f64,
}

/// Prints the plan of an index of files of `bytes` bytes together.
pub fn run(bytes: f64, args: &IndexArgs, hardware: &HardwareArgs, is_json: bool) -> Result {
    let demand = DedupDemand {
        bytes,
        file_bytes: args.file_size,
        path_bytes: args.path_size,
        average_bytes: args.average_size,
        hash_bytes: args.hash_bytes,
        dedup_ratio: args.dedup_ratio,
        scan_bytes_per_s: args.scan_rate,
        reads_per_s: hardware.reads,
        read_bytes_per_s: hardware.read_bandwidth,
        write_bytes_per_s: hardware.writes,
    };
    let plan = demand.plan().context("this cannot be planned for")?;
    let mut out = stdout().lock();
    match is_json {
        true => writeln!(out, "{}", json!({ "demand": demand, "dedup": plan }))?,
        false => print(&mut out, &demand, &plan)?,
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn print(out: &mut impl Write, demand: &DedupDemand, plan: &DedupPlan) -> io::Result<()> {
    writeln!(
        out,
        "an index of {} files with {}B, average size of chunks {:.0}",
        show_count(plan.files),
        show_count(demand.bytes),
        demand.average_bytes
    )?;
    let mut row = |what: &str, value: String| writeln!(out, "  {what:<18} {value}");
    let per_chunk = |bytes: f64| bytes / plan.unique_chunks;
    let (all, unique) = (show_count(plan.chunks), show_count(plan.unique_chunks));
    row("chunks", format!("{all} of {:.0} bytes on average; {unique} different ones", plan.chunk_bytes))?;
    row(
        "memory",
        format!(
            "{}: {:.2} bytes per chunk, and {} for the catalogue of files",
            show_bytes(plan.ram_bytes + plan.catalogue_ram_bytes),
            per_chunk(plan.ram_bytes),
            show_bytes(plan.catalogue_ram_bytes)
        ),
    )?;
    row(
        "without filters",
        format!(
            "{}: {:.2} bytes per chunk; a lookup of a new chunk then takes {:.2} reads",
            show_bytes(plan.ram_bytes_without_filters + plan.catalogue_ram_bytes),
            per_chunk(plan.ram_bytes_without_filters),
            plan.reads_per_new_chunk_without_filters
        ),
    )?;
    row(
        "on flash",
        format!(
            "at most {}: {} of chunks, {} of the catalogue",
            show_bytes(plan.flash_bytes + plan.catalogue_flash_bytes),
            show_bytes(plan.flash_bytes),
            show_bytes(plan.catalogue_flash_bytes)
        ),
    )?;
    row(
        "reads of flash",
        format!(
            "{:.3} per lookup of a new chunk, {:.3} of one that the index has",
            plan.reads_per_new_chunk, plan.reads_per_known_chunk
        ),
    )?;
    row("written to flash", format!("{} by the first run", show_bytes(plan.written_bytes)))?;
    row(
        "first run",
        format!(
            "{}: reading, cutting and hashing take {}, the flash of the index {} at the same time",
            show_time(plan.first_run_s),
            show_time(plan.scan_s),
            show_time(plan.index_s)
        ),
    )?;
    print_assumptions(out, demand)
}

fn print_assumptions(out: &mut impl Write, demand: &DedupDemand) -> io::Result<()> {
    writeln!(
        out,
        "\nAssumed: files of {}B (--file-size) with paths of {:.0} bytes (--path-size), a ratio of {} \
         (--dedup-ratio),\n{}B read, cut and hashed per second (--scan-rate; a trial of `siltstone dedup` \
         prints it as MB/s),\n{} reads (--reads), {}B read (--read-bandwidth) and {}B written (--writes) by the flash \
         of the index per second.\nThe index has no limit on memory (`siltstone dedup --memory`), and the settings of \
         a new one.\nThe time of processors for lookups and merges is not part of the model.",
        show_count(demand.file_bytes),
        demand.path_bytes,
        show_count(demand.dedup_ratio),
        show_count(demand.scan_bytes_per_s),
        show_count(demand.reads_per_s),
        show_count(demand.read_bytes_per_s),
        show_count(demand.write_bytes_per_s),
    )
}
