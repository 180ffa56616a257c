//! The experiments of papers on a Siltstone database, with the papers' own figures next to what is measured.

mod bloomstore;
mod cleaning;
mod flashkey;
mod flashstore;

use crate::synthetic::Synthetic;
use crate::Result;
use clap::Parser;
use serde::Serialize;
use siltstone::Access;
use siltstone_bench::named;
use siltstone_bench::named::by_name;
use siltstone_bench::place::Place;
use siltstone_bench::quantity::{parse_time, parse_whole};
use siltstone_bench::tuning::SettingArgs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use bloomstore::{compare_charts, sweep_charts};
pub use cleaning::{Case, cases, chart};

/// An experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Experiment {
    /// The workloads of Table II: Figures 3 to 6, Tables V and VI.
    FlashkeyWorkloads,
    /// The workloads of YCSB: Table III and Figure 7.
    FlashkeyYcsb,
    /// Cleaning by victim, classes, skew and space.
    FlashkeyCleaning,
    /// Reads and writes of the drive: Figure 2.
    FlashstoreDevice,
    /// Recycling by queues, skew and the size of flash.
    FlashstoreRecycling,
    /// A cache on flash without a disk.
    FlashstoreCache,
    /// The paper's traces with all records on flash: Figures 5 and 6, Tables 3 to 5, 5.9.
    FlashstoreTraces,
    /// The traces with less flash over a disk: Figure 7.
    FlashstoreShares,
    /// The memory of BloomStore by the length of chains: Figure 6.
    BloomstoreRam,
    /// Lengths of chains and of filters.
    BloomstoreChains,
    /// The memory of BloomStore by items: Tables II and III.
    BloomstoreMemory,
    /// The prefilter of BloomStore: Figures 7 and 8.
    BloomstorePrefilter,
    /// BloomStore while it grows: memory, writes, reads.
    BloomstoreGrowth,
    /// BloomStore and other stores by memory per key: Figures 9 and 10, insertion.
    BloomstoreCompare,
}

impl Experiment {
    /// All experiments.
    pub const ALL: [Experiment; 14] = [
        Experiment::FlashkeyWorkloads,
        Experiment::FlashkeyYcsb,
        Experiment::FlashkeyCleaning,
        Experiment::FlashstoreDevice,
        Experiment::FlashstoreRecycling,
        Experiment::FlashstoreCache,
        Experiment::FlashstoreTraces,
        Experiment::FlashstoreShares,
        Experiment::BloomstoreRam,
        Experiment::BloomstoreChains,
        Experiment::BloomstoreMemory,
        Experiment::BloomstorePrefilter,
        Experiment::BloomstoreGrowth,
        Experiment::BloomstoreCompare,
    ];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Experiment::FlashkeyWorkloads => "flashkey_workloads",
            Experiment::FlashkeyYcsb => "flashkey_ycsb",
            Experiment::FlashkeyCleaning => "flashkey_cleaning",
            Experiment::FlashstoreDevice => "flashstore_device",
            Experiment::FlashstoreRecycling => "flashstore_recycling",
            Experiment::FlashstoreCache => "flashstore_cache",
            Experiment::FlashstoreTraces => "flashstore_traces",
            Experiment::FlashstoreShares => "flashstore_shares",
            Experiment::BloomstoreRam => "bloomstore_ram",
            Experiment::BloomstoreChains => "bloomstore_chains",
            Experiment::BloomstoreMemory => "bloomstore_memory",
            Experiment::BloomstorePrefilter => "bloomstore_prefilter",
            Experiment::BloomstoreGrowth => "bloomstore_growth",
            Experiment::BloomstoreCompare => "bloomstore_compare",
        }
    }

    /// Returns a description of one line.
    pub fn about(self) -> &'static str {
        match self {
            Experiment::FlashkeyWorkloads => "FlashKey: Table II's workloads; Figures 3 to 6, Tables V, VI",
            Experiment::FlashkeyYcsb => "FlashKey: YCSB A, B, C, F, D and E; Table III and Figure 7",
            Experiment::FlashkeyCleaning => "FlashKey: cleaning by victim, classes, skew and space",
            Experiment::FlashstoreDevice => "FlashStore: reads and writes of the drive; Figure 2",
            Experiment::FlashstoreRecycling => "FlashStore: recycling by queues, skew and share; against LRU",
            Experiment::FlashstoreCache => {
                "FlashStore: a cache on flash by queues, skew and share; against LRU"
            }
            Experiment::FlashstoreTraces => {
                "FlashStore: its traces on flash; Figures 5, 6, Tables 3 to 5, 5.9"
            }
            Experiment::FlashstoreShares => "FlashStore: its traces with less flash over a disk; Figure 7",
            Experiment::BloomstoreRam => "BloomStore: memory by the length of chains; Figure 6",
            Experiment::BloomstoreChains => "BloomStore: lookups by the lengths of chains and filters",
            Experiment::BloomstoreMemory => "BloomStore: memory by items; Tables II, III",
            Experiment::BloomstorePrefilter => "BloomStore: lookups with a prefilter; Figures 7, 8",
            Experiment::BloomstoreGrowth => "BloomStore: memory, writes and reads while keys are added",
            Experiment::BloomstoreCompare => {
                "BloomStore: lookups by memory per key, with other stores; Figures 9, 10"
            }
        }
    }
}

named!(Experiment);

/// The settings. Those that are not given are the experiment's.
#[derive(Debug, Clone, Parser, Serialize)]
pub struct Settings {
    /// Number of keys, or of blocks of the drive; the paper has 50e6 keys [default: 100e3]
    #[arg(long, default_value_t = 100_000, value_parser = parse_whole::<u64>)]
    pub num: u64,
    /// Length of the keys, in bytes
    #[arg(long, default_value_t = 16, value_parser = parse_whole::<usize>)]
    pub key_size: usize,
    /// Length of the values, in bytes [default: 1024, 1000 of YCSB, 40 of cleaning, 48 of
    /// recycling, 84 of a cache]
    #[arg(long, value_parser = parse_whole::<usize>)]
    pub value_size: Option<usize>,
    /// Bytes of the logs per byte of live records: a list for cleaning [default: 1.7 as RocksDB in the paper, 1.23 of
    /// YCSB, 1.3 of cleaning]
    #[arg(long, value_delimiter = ',', value_name = "RATIO,…")]
    pub space: Vec<f64>,
    /// Cleaning: rules that choose a segment
    #[arg(long, value_delimiter = ',', value_name = "NAME,…",
          default_values = ["most_invalid", "cost_benefit"])]
    pub victim: Vec<String>,
    /// Cleaning: numbers of logs for moved records; 0 for that of the puts
    #[arg(long, value_delimiter = ',', value_name = "NUMBER,…", value_parser = parse_whole::<u8>)]
    #[arg(default_values_t = [0, 1, 3])]
    pub classes: Vec<u8>,
    /// Cleaning: threads for background work; with 0 it is done between puts, and each run has the same figures
    #[arg(long, default_value_t = 0, value_parser = parse_whole::<usize>)]
    pub background_threads: usize,
    /// Skews of the keys; 0 is uniform [default: 0,0.6,0.99 of cleaning, 0.99 of recycling, 0.9 of a cache]
    #[arg(long, value_delimiter = ',', value_name = "THETA,…")]
    pub skew: Vec<f64>,
    /// Cleaning, recycling, caches: requests per key; the first half is not counted
    #[arg(long, default_value_t = 6, value_parser = parse_whole::<u64>)]
    pub laps: u64,
    /// FlashStore: bytes of flash per byte of all records on it
    #[arg(long, value_delimiter = ',', value_name = "SHARE,…", default_values_t = [0.9, 0.75, 0.5, 0.25])]
    pub share: Vec<f64>,
    /// FlashStore: numbers of queues; the paper has one
    #[arg(long, value_delimiter = ',', value_name = "NUMBER,…", value_parser = parse_whole::<u8>)]
    #[arg(default_values_t = [1, 2])]
    pub queues: Vec<u8>,
    /// Recycling: gets per put
    #[arg(long, default_value_t = 1.0)]
    pub gets_per_put: f64,
    /// Recycling, caches: share of the keys that change their popularity within as many requests as there are keys
    #[arg(long, default_value_t = 0.01)]
    pub drift: f64,
    /// FlashStore, BloomStore: the traces [default: xbox,dedup of FlashStore, linux,vx of BloomStore]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", value_parser = by_name::<Synthetic>())]
    #[serde(skip)]
    pub trace: Vec<Synthetic>,
    /// BloomStore: the stores that are compared: skimpystash, skimpystash_compacted, bufferhash, and engines
    #[arg(long, value_delimiter = ',', value_name = "NAME,…",
          default_values = ["skimpystash", "skimpystash_compacted", "bufferhash", "bloomstore", "silt"])]
    #[serde(skip)]
    pub systems: Vec<String>,
    /// BloomStore's growth: the cases [default: default, expected_keys, prefilter_bits]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    #[serde(skip)]
    pub cases: Vec<String>,
    /// FlashStore: threads that send the operations of a trace or to the drive
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    pub threads: usize,
    /// FlashStore: directory of the disk [default: a directory in that of the database]
    #[arg(long, value_name = "DIR")]
    #[serde(skip)]
    pub disk: Option<PathBuf>,
    /// End each workload after this time, such as 10s
    #[arg(long, value_parser = parse_time)]
    #[serde(skip)]
    pub duration: Option<Duration>,
    /// Directory of the database [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    #[serde(skip)]
    pub db: Option<PathBuf>,
    /// How files are read and written
    #[arg(long, default_value = Access::default().name(), value_parser = by_name::<Access>())]
    #[serde(skip)]
    pub access: Access,
    /// Further settings of the engine.
    #[command(flatten)]
    #[serde(skip)]
    pub more: SettingArgs,
    /// Seed of the random keys, orders and values
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    pub seed: u64,
    /// Ends the experiment when it becomes true.
    #[arg(skip)]
    #[serde(skip)]
    pub stop: Arc<AtomicBool>,
}

impl Default for Settings {
    fn default() -> Self {
        named::defaults()
    }
}

impl Settings {
    /// Returns the traces that were chosen, or these.
    fn traces<'a>(&'a self, default: &'a [Synthetic]) -> &'a [Synthetic] {
        if self.trace.is_empty() { default } else { &self.trace }
    }
}

/// A figure: the paper's, that of a model, and what was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// Where the paper has it, or the workload.
    pub source: &'static str,
    /// What it is, with its unit.
    pub what: String,
    /// The paper's value, if it states one.
    pub paper: Option<f64>,
    /// The value of a model, if there is one.
    pub theory: Option<f64>,
    /// The measured value.
    pub measured: f64,
}

impl Figure {
    /// Returns the heads of the columns.
    pub fn header() -> String {
        format!("{:16} {:76} {:>9} {:>7} {:>9}", "source", "what", "paper", "model", "measured")
    }

    /// Formats the figure as a line below the [`header`](Self::header).
    pub fn line(&self) -> String {
        let show =
            |value: Option<f64>| value.map_or(String::new(), siltstone_bench::accounts::number_as_text);
        let theory = self.theory.map_or(String::new(), |theory| format!("{theory:.3}"));
        let measured = match self.measured {
            large if large >= 1000.0 => format!("{large:.0}"),
            small => format!("{small:.3}"),
        };
        format!("{:16} {:76} {:>9} {theory:>7} {measured:>9}", self.source, self.what, show(self.paper))
    }
}

/// Receives figures as soon as they are measured.
pub type OnFigure<'a> = &'a mut dyn FnMut(&Figure) -> std::io::Result<()>;

/// Runs an experiment.
///
/// # Errors
/// The first error ends it, as does a wrong result.
pub fn run(
    experiment: Experiment,
    settings: &Settings,
    place: &Place,
    on_figure: OnFigure<'_>,
) -> Result<()> {
    place.check_empty()?;
    match experiment {
        Experiment::FlashkeyWorkloads => flashkey::workloads(settings, place, on_figure),
        Experiment::FlashkeyYcsb => flashkey::ycsb(settings, place, on_figure),
        Experiment::FlashkeyCleaning => {
            for case in cases(settings) {
                let figure = case.run(settings, place)?;
                report(on_figure, &figure)?;
            }
            Ok(())
        }
        Experiment::FlashstoreDevice => flashstore::device(settings, place, on_figure),
        Experiment::FlashstoreRecycling => flashstore::recycling(settings, place, on_figure),
        Experiment::FlashstoreCache => flashstore::cache(settings, place, on_figure),
        Experiment::FlashstoreTraces => flashstore::traces(settings, place, on_figure),
        Experiment::FlashstoreShares => flashstore::shares(settings, place, on_figure),
        Experiment::BloomstoreRam => bloomstore::ram(settings, place, on_figure),
        Experiment::BloomstoreChains => bloomstore::chains(settings, place, on_figure),
        Experiment::BloomstoreMemory => bloomstore::memory(settings, place, on_figure),
        Experiment::BloomstorePrefilter => bloomstore::prefilter(settings, place, on_figure),
        Experiment::BloomstoreGrowth => bloomstore::growth(settings, place, on_figure),
        Experiment::BloomstoreCompare => bloomstore::compare(settings, place, on_figure),
    }
}

fn report(on_figure: OnFigure<'_>, figure: &Figure) -> Result<()> {
    on_figure(figure)
        .map_err(|error| siltstone_bench::Error::System("cannot write the figure".to_owned(), error).into())
}
