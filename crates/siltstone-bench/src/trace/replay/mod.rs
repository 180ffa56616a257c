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

use super::TraceError;
use crate::place::PlaceError;
use siltstone::{Builder, Durability};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What to replay, and on what.
#[derive(Clone)]
pub struct Settings {
    /// What the trace is called in the report.
    pub name: String,
    /// Threads that send operations at the same time.
    pub threads: usize,
    /// How many operations of the trace are sent; all if `None`.
    pub operations: Option<u64>,
    /// Whether a get that finds nothing is followed by a set with the length that the trace has for the get, if it has
    /// one, as the user of a cache would do. Published traces begin with a full cache.
    pub fill_misses: bool,
    /// Whether the database is told that all records have the sizes of the trace's first set.
    pub fixed: bool,
    /// Whether it is told that keys are hashes.
    pub hashed_keys: bool,
    /// Where; a temporary directory if `None`.
    pub directory: Option<PathBuf>,
    /// Whether the directory holds a database already. What it holds beside the trace is not checked.
    pub use_existing_db: bool,
    /// The durability of writes.
    pub durability: Durability,
    /// Sets up the database beyond what stands here.
    pub set_up: Arc<dyn Fn(Builder) -> Builder + Send + Sync>,
    /// Ends the replay when it becomes true.
    pub stop: Arc<AtomicBool>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            name: String::new(),
            threads: 1,
            operations: None,
            fill_misses: false,
            fixed: false,
            hashed_keys: false,
            directory: None,
            use_existing_db: false,
            durability: Durability::default(),
            set_up: Arc::new(|builder| builder),
            stop: Arc::default(),
        }
    }
}

/// Why a trace could not be replayed, or what it found wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The database answered with an error.
    #[error(transparent)]
    Database(#[from] siltstone::Error),
    /// The database cannot stand there.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The settings do not fit each other or the trace.
    #[error("{0}")]
    Settings(&'static str),
    /// A key has another value than the one that was set last.
    #[error("operation {0}: the key has another value than the one that was set last")]
    WrongValue(u64),
    /// A key that was set is not there.
    #[error("operation {0}: the key was set and is not there")]
    Lost(u64),
    /// A key that was never set, or was deleted, is there.
    #[error("operation {0}: the key is there and should not be")]
    Surplus(u64),
    /// A thread ended in a panic.
    #[error("a thread of the benchmark ended in a panic")]
    Panicked,
}

/// The result of a replay.
pub type Result<T> = std::result::Result<T, ReplayError>;
