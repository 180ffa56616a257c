//! The benchmarks of a database: db_bench's names, one [`Report`] each.
//!
//! There are three differences from db_bench. Every value that is read is verified, and so is the existence of every
//! key: the benchmark knows exactly which keys it wrote. A benchmark that writes is timed until the last put returns
//! (`ops_per_s`), and until no background work is left (`settled_ops_per_s`); the statistics are taken then. A
//! directory with existing contents is never destroyed.

mod benchmark;
mod disk_peak;
mod queue;
mod report;
mod runner;
mod series;
mod worker;

pub use benchmark::Benchmark;
pub use report::Report;
pub use runner::run;
pub use series::{HEADER as SERIES_HEADER, Sample};

use crate::keys::ValueKind;
use crate::named::{self, by_name};
use crate::place::directory;
use crate::quantity::{parse_byte_rate, parse_percent, parse_time, parse_whole};
use crate::tuning::Tuning;
use crate::{Error, Result};
use clap::Parser;
use serde::Serialize;
use siltstone::Durability;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The shortest interval of a series: a sample takes some microseconds per partition.
const SERIES_MIN: Duration = Duration::from_millis(1);

/// What to run, and on which database.
#[derive(Debug, Clone, Parser, Serialize)]
pub struct Settings {
    /// Benchmarks, in the order in which they run
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", value_parser = by_name::<Benchmark>(),
          hide_possible_values = true,
          default_values = Benchmark::USUAL.iter().map(|benchmark| benchmark.name()))]
    #[serde(skip)]
    pub benchmarks: Vec<Benchmark>,
    /// Number of distinct keys, and of writes per thread
    #[arg(long, default_value_t = 1_000_000, value_parser = parse_whole::<u64>)]
    pub num: u64,
    /// Number of reads per thread [default: --num]
    #[arg(long, value_parser = parse_whole::<u64>)]
    #[serde(skip)]
    pub reads: Option<u64>,
    /// Number of concurrent threads
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    pub threads: usize,
    /// Length of the keys, in bytes
    #[arg(long, default_value_t = 16, value_parser = parse_whole::<usize>)]
    pub key_size: usize,
    /// Length of the values, in bytes
    #[arg(long, default_value_t = 100, value_parser = parse_whole::<usize>)]
    pub value_size: usize,
    /// What values consist of; compression has no effect on random bytes
    #[arg(long, default_value = ValueKind::default().name(), value_parser = by_name::<ValueKind>())]
    #[serde(serialize_with = "named::serialize")]
    pub value_kind: ValueKind,
    /// Fixed record size
    #[arg(long)]
    pub fixed: bool,
    /// Keys are hashes
    #[arg(long)]
    #[serde(skip)]
    pub hashed_keys: bool,
    /// Directory of the database [default: a temporary directory]
    #[arg(long, value_name = "DIR", value_parser = directory())]
    #[serde(skip)]
    pub db: Option<PathBuf>,
    /// Use the existing database in the directory. All its records are read first, to find out which keys exist
    #[arg(long, requires = "db")]
    #[serde(skip)]
    pub use_existing_db: bool,
    /// Number of records written or read per call [default: 1 for writes, 32 for multireadrandom]
    #[arg(long, value_parser = parse_whole::<usize>)]
    #[serde(skip)]
    pub batch_size: Option<usize>,
    /// What a write survives when it returns: nothing (buffered), a crash of the process (written), a power failure
    /// (synced)
    #[arg(long, default_value = Durability::default().name(), value_parser = by_name::<Durability>())]
    #[serde(serialize_with = "named::serialize")]
    pub durability: Durability,
    /// Seed of the random keys, orders and values
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    #[serde(skip)]
    pub seed: u64,
    /// End each benchmark after this time, such as 10s
    #[arg(long, value_parser = parse_time)]
    #[serde(skip)]
    pub duration: Option<Duration>,
    /// Write rate of readwhilewriting, such as 20MB/s [default: unlimited]
    #[arg(long, value_name = "BYTES", value_parser = parse_byte_rate)]
    #[serde(skip)]
    pub benchmark_write_rate_limit: Option<f64>,
    /// Share of reads in readrandomwriterandom, in percent
    #[arg(long = "readwritepercent", value_name = "PERCENT", default_value_t = 90, value_parser = parse_percent)]
    #[serde(skip)]
    pub read_percent: u8,
    /// Report operations, memory and the device in each interval of this length, such as 1s
    #[arg(long, value_name = "INTERVAL", value_parser = parse_time)]
    #[serde(skip)]
    pub series: Option<Duration>,
    /// Settings of the database.
    #[command(flatten)]
    #[serde(skip)]
    pub tuning: Tuning,
    /// Ends the benchmarks when it becomes true.
    #[arg(skip)]
    #[serde(skip)]
    pub stop: Arc<AtomicBool>,
    /// Returns the heap bytes of the process, if they are counted, for comparison with the memory report of the
    /// database.
    #[arg(skip)]
    #[serde(skip)]
    pub heap_bytes: Option<fn() -> u64>,
}

impl Settings {
    /// Checks the numbers that are at least 1.
    ///
    /// # Errors
    /// [`Error::Settings`] that names them.
    pub fn check(&self) -> Result<()> {
        match self.threads == 0 || self.num == 0 || self.batch_size == Some(0) {
            true => Err(Error::settings("threads, num and batch_size are at least 1")),
            false if self.series.is_some_and(|interval| interval < SERIES_MIN) => {
                Err(Error::settings("the interval of --series is at least 1ms"))
            }
            false => Ok(()),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        named::defaults()
    }
}
