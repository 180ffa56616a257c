//! The core workloads of YCSB (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010), as defined by
//! YCSB 0.17, without its intermediate layers.
//!
//! Requests are chosen like YCSB's, number for number ([`zipfian`], [`Chooser`]). Keys are YCSB's, and a value is the
//! concatenation of YCSB's fields. An update writes one field unless `write_all_fields` is set; since the fields of a
//! record are one value here, it reads the record first, as YCSB's own bindings of key-value stores do. In addition to
//! YCSB, every record that is read is verified, a missing record is an error, and a read-modify-write is atomic.

mod chooser;
mod records;
mod report;
mod runner;
mod worker;
mod workload;
pub mod zipfian;

pub use chooser::{Chooser, Distribution, Inserts};
pub use records::Records;
pub use report::Report;
pub use runner::run;
pub use workload::{Request, Workload};

use crate::named::{self, by_name};
use crate::place::directory;
use crate::quantity::{parse_time, parse_whole};
use crate::tuning::Tuning;
use clap::Parser;
use serde::Serialize;
use siltstone::Durability;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What to run, and on which database. The long names of YCSB's properties are accepted too.
#[derive(Debug, Clone, Parser, Serialize)]
pub struct Settings {
    /// Workload
    #[arg(long, default_value = "a", ignore_case = true, value_parser = by_name::<Workload>())]
    #[serde(serialize_with = "named::serialize")]
    pub workload: Workload,
    /// Number of records to load
    #[arg(long, alias = "recordcount", default_value_t = 1_000_000, value_parser = parse_whole::<u64>)]
    pub records: u64,
    /// Total number of requests of all threads
    #[arg(long, alias = "operationcount", default_value_t = 1_000_000, value_parser = parse_whole::<u64>)]
    #[serde(skip)]
    pub operations: u64,
    /// Number of concurrent threads
    #[arg(long, alias = "threadcount", default_value_t = 1, value_parser = parse_whole::<usize>)]
    pub threads: usize,
    /// Distribution of the requests: popular records all over the key space (zipfian), the most recently inserted ones
    /// (latest), or no popular ones (uniform) [default: that of the workload]
    #[arg(long, alias = "requestdistribution", value_parser = by_name::<Distribution>())]
    #[serde(skip)]
    pub distribution: Option<Distribution>,
    /// Number of fields per record
    #[arg(long, alias = "fieldcount", default_value_t = 10, value_parser = parse_whole::<usize>)]
    pub field_count: usize,
    /// Length of a field, in bytes
    #[arg(long, alias = "fieldlength", default_value_t = 100, value_parser = parse_whole::<usize>)]
    pub field_length: usize,
    /// Most records of a scan of workload e; a scan reads 1 to this number
    #[arg(long, alias = "maxscanlength", default_value_t = 100, value_parser = parse_whole::<usize>)]
    #[serde(skip)]
    pub max_scan_length: usize,
    /// Updates write all fields and do not read the record
    #[arg(long, alias = "writeallfields")]
    pub write_all_fields: bool,
    /// Fixed record size: all keys have the same length
    #[arg(long)]
    pub fixed: bool,
    /// Directory of the database [default: a temporary directory]
    #[arg(long, value_name = "DIR", value_parser = directory())]
    #[serde(skip)]
    pub db: Option<PathBuf>,
    /// Use the loaded database in the directory: only send requests
    #[arg(long, requires = "db")]
    #[serde(skip)]
    pub use_existing_db: bool,
    /// What a write survives when it returns: nothing (buffered), a crash of the process (written), a power failure
    /// (synced)
    #[arg(long, default_value = Durability::default().name(), value_parser = by_name::<Durability>())]
    #[serde(serialize_with = "named::serialize")]
    pub durability: Durability,
    /// Seed of the random requests
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    #[serde(skip)]
    pub seed: u64,
    /// End the requests after this time, such as 10s
    #[arg(long, value_parser = parse_time)]
    #[serde(skip)]
    pub duration: Option<Duration>,
    /// Settings of the database.
    #[command(flatten)]
    #[serde(skip)]
    pub tuning: Tuning,
    /// Ends the run when it becomes true.
    #[arg(skip)]
    #[serde(skip)]
    pub stop: Arc<AtomicBool>,
}

impl Default for Settings {
    fn default() -> Self {
        named::defaults()
    }
}
