//! The benchmarks of a database: db_bench's names, one [`Report`] each.
//!
//! Three things differ from db_bench, so that figures can be trusted. Every value that is read is checked, and so is
//! whether a key is there at all: the bench knows exactly which keys it wrote. A benchmark that writes ends when the
//! last put has returned (`ops_per_s`) and once more when no background work is left (`settled_ops_per_s`); the
//! accounts are read then. And a directory that holds something is never destroyed.

mod benchmark;
mod report;
mod runner;
mod worker;

pub use benchmark::{Benchmark, UnknownBenchmark};
pub use report::Report;
pub use runner::run;

use crate::keys::KeysTooShort;
use crate::place::PlaceError;
use siltstone::{Builder, Durability};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What to run, and on what.
#[derive(Clone)]
pub struct Settings {
    /// The benchmarks, in their order.
    pub benchmarks: Vec<Benchmark>,
    /// The keys are numbers below this; every thread writes as many.
    pub num: u64,
    /// How many reads every thread does; as many as there are keys if `None`.
    pub reads: Option<u64>,
    /// Threads that write or read at the same time.
    pub threads: usize,
    /// The length of the keys, in bytes.
    pub key_size: usize,
    /// The length of the values, in bytes.
    pub value_size: usize,
    /// Whether the keys are hashes already.
    pub hashed_keys: bool,
    /// Whether the database is told that all records have one size.
    pub fixed: bool,
    /// Where; a temporary directory if `None`.
    pub directory: Option<PathBuf>,
    /// Whether the directory holds a database that was filled before.
    pub use_existing_db: bool,
    /// Records that are written or read in one call; 1 for writes and 32 for multireadrandom if `None`.
    pub batch_size: Option<usize>,
    /// The durability of writes.
    pub durability: Durability,
    /// From which keys, orders and values follow.
    pub seed: u64,
    /// When a benchmark ends, even if it has not done everything.
    pub duration: Option<Duration>,
    /// How many bytes of keys and values the writer of readwhilewriting puts a second; as many as it can if `None`.
    pub write_rate_limit: Option<u64>,
    /// Sets up the database beyond what stands here.
    pub set_up: Arc<dyn Fn(Builder) -> Builder + Send + Sync>,
    /// Ends the benchmarks when it becomes true.
    pub stop: Arc<AtomicBool>,
    /// Tells the heap bytes of the process, where they are counted: the account of the stats benchmark can be held
    /// against them.
    pub heap_bytes: Option<fn() -> u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            benchmarks: Benchmark::USUAL.to_vec(),
            num: 1_000_000,
            reads: None,
            threads: 1,
            key_size: 16,
            value_size: 100,
            hashed_keys: false,
            fixed: false,
            directory: None,
            use_existing_db: false,
            batch_size: None,
            durability: Durability::default(),
            seed: 301,
            duration: None,
            write_rate_limit: None,
            set_up: Arc::new(|builder| builder),
            stop: Arc::default(),
            heap_bytes: None,
        }
    }
}

/// Why a benchmark could not be run, or what it found wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The database answered with an error.
    #[error(transparent)]
    Database(#[from] siltstone::Error),
    /// The settings do not fit each other.
    #[error("{0}")]
    Settings(String),
    /// The database cannot stand there.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The keys are too short for their number.
    #[error(transparent)]
    Keys(#[from] KeysTooShort),
    /// A key has a value that was never written to it.
    #[error("{benchmark}: key {number} has a value that was never written to it")]
    WrongValue {
        /// The benchmark that read it.
        benchmark: Benchmark,
        /// The number of the key.
        number: u64,
    },
    /// A key that was written is not there.
    #[error("{benchmark}: key {number} was written and is not there")]
    Lost {
        /// The benchmark that looked for it.
        benchmark: Benchmark,
        /// The number of the key.
        number: u64,
    },
    /// A key that was never written, or was deleted, is there.
    #[error("{benchmark}: key {number} is there and should not be")]
    Surplus {
        /// The benchmark that found it.
        benchmark: Benchmark,
        /// The number of the key.
        number: u64,
    },
    /// The database's own check found damage.
    #[error("{0} places of the database are damaged; the first: {1}")]
    Damaged(usize, siltstone::Error),
    /// A thread of the benchmark ended in a panic.
    #[error("a thread of the benchmark ended in a panic")]
    Panicked,
    /// The operating system refused something.
    #[error("{0}: {1}")]
    System(String, std::io::Error),
}

/// The result of everything that can fail here.
pub type Result<T> = std::result::Result<T, BenchError>;
