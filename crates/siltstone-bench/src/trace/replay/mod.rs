//! Replays a trace: sends its operations to a database at full speed, and verifies every result.
//!
//! All operations on a key are sent by one thread, so they keep their order. The replay keeps the expected value of
//! every key, which takes up to 100 bytes per key. Recorded times are ignored, and values do not expire: a time to live
//! would pass more slowly than the replayed operations.

mod report;
mod runner;
mod worker;

pub use report::Report;
pub use runner::run;

use crate::named::{self, by_name};
use crate::place::directory;
use crate::quantity::parse_whole;
use crate::tuning::Tuning;
use clap::Parser;
use serde::Serialize;
use siltstone::Durability;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The settings of a replay, and its database.
#[derive(Debug, Clone, Parser, Serialize)]
pub struct Settings {
    /// The name of the trace in the report.
    #[arg(skip)]
    #[serde(rename = "trace")]
    pub name: String,
    /// Stop after this number of operations
    #[arg(long, value_parser = parse_whole::<u64>)]
    #[serde(skip)]
    pub operations: Option<u64>,
    /// Number of concurrent threads
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<usize>)]
    pub threads: usize,
    /// After a get that finds nothing, set the key to a value of the length in the trace
    #[arg(long)]
    pub fill_misses: bool,
    /// Fixed record size: that of the first set in the trace
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
    /// Use the existing database in the directory; records that are not in the trace are not checked
    #[arg(long, requires = "db")]
    #[serde(skip)]
    pub use_existing_db: bool,
    /// What a write survives when it returns: nothing (buffered), a crash of the process (written), a power failure
    /// (synced)
    #[arg(long, default_value = Durability::default().name(), value_parser = by_name::<Durability>())]
    #[serde(serialize_with = "named::serialize")]
    pub durability: Durability,
    /// Settings of the database.
    #[command(flatten)]
    #[serde(skip)]
    pub tuning: Tuning,
    /// Ends the replay when it becomes true.
    #[arg(skip)]
    #[serde(skip)]
    pub stop: Arc<AtomicBool>,
}

impl Default for Settings {
    fn default() -> Self {
        named::defaults()
    }
}
