//! The errors of benchmarks.

use crate::trace::TraceError;
use std::io;
use std::path::PathBuf;

/// Why a benchmark could not run, or what it found wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database or the dictionary returned an error.
    #[error(transparent)]
    Database(#[from] siltstone::Error),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A socket, or a system call on threads, failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A setting is outside its limits, or the settings do not fit each other.
    #[error("{0}")]
    Settings(String),
    /// The directory has contents that this run did not write, which are never removed.
    #[error("{0}: the directory is not empty; use --use-existing-db, name a new directory, or remove it")]
    Occupied(PathBuf),
    /// A key has a value that was never written to it.
    #[error("{benchmark}: key {number} has a value that was never written to it")]
    WrongValue {
        /// The benchmark that read it.
        benchmark: &'static str,
        /// The number of the key, the record or the operation.
        number: u64,
    },
    /// A key that was written is missing.
    #[error("{benchmark}: key {number} was written, but is missing")]
    Lost {
        /// The benchmark that looked it up.
        benchmark: &'static str,
        /// The number of the key, the record or the operation.
        number: u64,
    },
    /// A key that was never written, or was deleted, was found.
    #[error("{benchmark}: key {number} was found, but was never written, or was deleted")]
    Surplus {
        /// The benchmark that found it.
        benchmark: &'static str,
        /// The number of the key, the record or the operation.
        number: u64,
    },
    /// Some results were wrong or missing.
    #[error("{0}")]
    WrongResults(String),
    /// A chart cannot be drawn.
    #[error("cannot draw the chart: {0}")]
    Drawing(String),
    /// The system, or a program that the benchmark needs, returned an error.
    #[error("{0}: {1}")]
    System(String, #[source] io::Error),
    /// A thread of the benchmark panicked.
    #[error("a thread of the benchmark panicked")]
    Panicked,
    /// The caller stopped the benchmark.
    #[error("interrupted")]
    Stopped,
}

impl Error {
    /// Returns an error for wrong settings.
    pub fn settings(problem: impl Into<String>) -> Error {
        Error::Settings(problem.into())
    }
}

/// The result of a benchmark.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<siltstone_device::Error> for Error {
    fn from(error: siltstone_device::Error) -> Error {
        Error::Database(error.into())
    }
}

impl From<siltstone_mica::Error> for Error {
    fn from(error: siltstone_mica::Error) -> Error {
        Error::Database(error.into())
    }
}
