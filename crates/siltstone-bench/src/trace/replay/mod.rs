//! Replays a trace: sends its operations to a database, as fast as they go, and checks every answer.
//!
//! Each key belongs to one thread, so that operations on a key keep their order. The bench remembers what every key
//! must hold, up to 100 bytes a key. Times are not kept, and values live for ever: a time to live would run slower here
//! than the operations do.

mod report;
mod runner;
mod worker;

pub use report::Report;
pub use runner::run;

use crate::named::{self, by_name};
use crate::quantity::parse_whole;
use crate::tuning::Tuning;
use clap::Parser;
use serde::Serialize;
use siltstone::Durability;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How a trace is replayed, and on which database.
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
    #[arg(long, value_name = "DIR")]
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
