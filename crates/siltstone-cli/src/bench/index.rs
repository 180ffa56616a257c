//! `siltstone bench index`: bits and nanoseconds of the structures of the index room.

use crate::interrupt::Interrupt;
use crate::outcome::{Outcome, Result, help};
use crate::output::deliver;
use crate::quantity::parse_whole;
use crate::quantity::parse_within;
use anyhow::bail;
use clap::{ArgGroup, Args};
use siltstone_bench::index::{IndexError, Options, Report, Sample, Settings, Structure, plot, trade_off};
use std::io::{Write, stdout};
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone bench index --structure entropy_trie --keys 16000000 --bucket 128 --json
  siltstone bench index --structure fences,block_perfect --items-per-block 64
  siltstone bench index --all --keys 1000000 --plot index.svg";

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
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    structure: Vec<Structure>,
    /// All structures, each with its most useful settings
    #[arg(long, conflicts_with_all = ["bucket", "items_per_block", "huffman_max", "bits"])]
    all: bool,
    /// Number of keys
    #[arg(long, default_value_t = 1_000_000, value_parser = parse_within(1u64, 1 << 32))]
    keys: u64,
    /// Average number of keys per virtual bucket of a trie [default: 256]
    #[arg(long, value_name = "G", value_parser = parse_whole::<u32>)]
    bucket: Option<u32>,
    /// Number of records per block [default: 16; for tries 1, which is dense]
    #[arg(long, value_name = "B", value_parser = parse_whole::<u32>)]
    items_per_block: Option<u32>,
    /// Largest subtrie with a Huffman code, in keys, 1 to 64 [default: 64]
    #[arg(long, value_name = "H", value_parser = parse_whole::<u32>)]
    huffman_max: Option<u32>,
    /// Bits of a filter, with a false-positive rate of 2^-F [default: 12]
    #[arg(long, value_name = "F", value_parser = parse_whole::<u8>)]
    bits: Option<u8>,
    /// Number of rounds; the results are medians
    #[arg(long, default_value_t = 21, value_parser = parse_within(1u16, u16::MAX))]
    rounds: u16,
    /// Seed of the random keys
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    seed: u64,
    /// Write a chart of bits over nanoseconds to this file
    #[arg(long, value_name = "FILE.svg", value_parser = crate::chart::parse_path)]
    plot: Option<PathBuf>,
    /// Print one line of JSON per structure
    #[arg(long)]
    json: bool,
}

fn help_with_structures() -> String {
    let names =
        Structure::ALL.iter().map(|structure| format!("  {:<20}{}\n", structure.name(), structure.about()));
    format!("Structures:\n{}\n{}", names.collect::<String>(), help(EXAMPLES))
}

impl IndexArgs {
    fn choices(&self) -> Vec<(Structure, Options)> {
        if self.all {
            return trade_off();
        }
        let IndexArgs { bucket, items_per_block, huffman_max, bits, .. } = *self;
        let options = Options { bucket, items_per_block, huffman_max, bits };
        self.structure.iter().map(|&structure| (structure, options)).collect()
    }

    fn print(&self, report: &Report, is_first: bool) -> std::io::Result<()> {
        let mut out = stdout().lock();
        if self.json {
            serde_json::to_writer(&mut out, report)?;
            writeln!(out)?;
        } else {
            if is_first {
                writeln!(out, "{}", Report::header())?;
            }
            writeln!(out, "{}", report.row())?;
        }
        out.flush()
    }
}

pub fn run(args: &IndexArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    let settings = Settings { rounds: args.rounds.into(), stop: interrupt.flag() };
    let sample = Sample::new(args.keys, args.seed);
    let mut reports = Vec::new();
    for (structure, options) in args.choices() {
        let report = match siltstone_bench::index::run(structure, options, &sample, &settings) {
            Err(IndexError::Stopped) => return Ok(Outcome::Interrupted),
            outcome => outcome?,
        };
        args.print(&report, reports.is_empty())?;
        if report.verified_keys != report.keys {
            bail!("{structure} returned a wrong result for {} keys", report.keys - report.verified_keys);
        }
        reports.push(report);
    }
    if let Some(path) = &args.plot {
        let plot = plot(&reports)?;
        deliver(Some(path), false, |out| Ok(out.write_all(plot.as_bytes())?))?;
    }
    Ok(Outcome::Done)
}
