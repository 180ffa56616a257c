//! `evidence index`: bits per key and nanoseconds per lookup of the index structures.

use super::{check_writable, write_charts};
use anyhow::Result;
use anyhow::bail;
use clap::{ArgGroup, Args};
use siltstone_bench::chart;
use siltstone_bench::named::by_name;
use siltstone_command::interrupt::Interrupt;
use siltstone_evidence::index::{self, Options, Report, Sample, Settings, Structure};
use std::path::PathBuf;

const EXAMPLES: &str = "
  evidence index --structure entropy_trie --keys 16000000 --bucket 128 --json
  evidence index --structure fences,block_perfect --items-per-block 64
  evidence index --structure hash_pages,nway_cuckoo --bits 12
  evidence index --all --keys 1000000 --plot index.svg";

/// Measure the index structures
///
/// Builds each structure from random hashes, looks up every key and checks the result. Prints the bits per key and the
/// times of the build and of lookups of random keys: independent ones, and chained ones, each of which depends on the
/// result of the preceding one. Times are CPU times, medians of several rounds.
#[derive(Args)]
#[command(after_help = help_with_structures())]
#[command(group(ArgGroup::new("what").required(true).args(["structure", "all"])))]
pub struct IndexArgs {
    /// Structures, in the order in which they run
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", value_parser = by_name::<Structure>(),
          hide_possible_values = true)]
    structure: Vec<Structure>,
    /// All structures, each with its most useful settings
    #[arg(long, conflicts_with_all = ["bucket", "items_per_block", "huffman_max", "bits", "candidates", "load"])]
    all: bool,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    settings: Settings,
    /// Write a chart of bits over nanoseconds to this file
    #[arg(long, value_name = "FILE.svg|html", value_parser = chart::parse_path)]
    plot: Option<PathBuf>,
    /// Print one line of JSON per structure
    #[arg(long)]
    json: bool,
}

fn help_with_structures() -> String {
    let names =
        Structure::ALL.iter().map(|structure| format!("  {:<20}{}\n", structure.name(), structure.about()));
    format!("Structures:\n{}\n{}", names.collect::<String>(), super::help(EXAMPLES))
}

pub fn run(args: IndexArgs) -> Result<()> {
    let IndexArgs { structure, all, options, mut settings, plot, json } = args;
    plot.as_deref().map_or(Ok(()), check_writable)?;
    settings.stop = Interrupt::listen()?.flag();
    let sample = Sample::new(settings.keys, settings.seed);
    let chosen = match all {
        true => index::trade_off(),
        false => structure.iter().map(|&structure| (structure, options)).collect(),
    };
    let mut reports = Vec::new();
    for (structure, options) in chosen {
        let report = index::run(structure, options, &sample, &settings)?;
        let header = if reports.is_empty() { Report::header() + "\n" } else { String::new() };
        super::print(&report, json, || header + &report.row() + "\n")?;
        if report.verified_keys != report.keys {
            bail!("{structure} returned a wrong result for {} keys", report.keys - report.verified_keys);
        }
        reports.push(report);
    }
    if let Some(path) = &plot {
        write_charts(path, "Memory and time of index structures", "", &[index::chart(&reports)])?;
    }
    Ok(())
}
