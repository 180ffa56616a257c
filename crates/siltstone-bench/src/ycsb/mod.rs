//! The core workloads of YCSB (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010), as YCSB 0.17
//! defines them, without its layers in between.
//!
//! Requests are chosen as there, number for number ([`zipfian`], [`Chooser`]); keys are YCSB's, and records have its
//! fields, one after the other in a value. An update writes one field unless `write_all_fields` is set: as the fields
//! of a record are one value here, that reads the record first, as YCSB's own bindings of key-value stores do. Beyond
//! YCSB, every record that is read is checked, it is an error when one is not there, and a read-modify-write is
//! atomic.

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
pub use workload::{Request, UnknownWorkload, Workload};

use crate::place::PlaceError;
use siltstone::{Builder, Durability};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What to run, and on what.
#[derive(Clone)]
pub struct Settings {
    /// The workload.
    pub workload: Workload,
    /// Records that are loaded, at least 1 (YCSB's `recordcount`).
    pub records: u64,
    /// Requests of all threads together (`operationcount`).
    pub operations: u64,
    /// Threads that send requests at the same time (`threadcount`).
    pub threads: usize,
    /// How the requests are distributed; the workload's own way if `None`.
    pub distribution: Option<Distribution>,
    /// Fields of a record, at least 1 (`fieldcount`).
    pub field_count: usize,
    /// The length of a field in bytes, at least 1 (`fieldlength`).
    pub field_length: usize,
    /// Whether an update writes all fields of a record and so need not read it (`writeallfields`).
    pub write_all_fields: bool,
    /// Whether all keys are made as long, and the database is told that all records have one size.
    pub fixed: bool,
    /// Where; a temporary directory if `None`.
    pub directory: Option<PathBuf>,
    /// Whether the directory holds a database that was loaded before, with the same records.
    pub use_existing_db: bool,
    /// The durability of writes.
    pub durability: Durability,
    /// From which the requests follow.
    pub seed: u64,
    /// When the requests end, even if not all were sent.
    pub duration: Option<Duration>,
    /// Sets up the database beyond what stands here.
    pub set_up: Arc<dyn Fn(Builder) -> Builder + Send + Sync>,
    /// Ends the run when it becomes true.
    pub stop: Arc<AtomicBool>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            workload: Workload::A,
            records: 1_000_000,
            operations: 1_000_000,
            threads: 1,
            distribution: None,
            field_count: 10,
            field_length: 100,
            write_all_fields: false,
            fixed: false,
            directory: None,
            use_existing_db: false,
            durability: Durability::default(),
            seed: 301,
            duration: None,
            set_up: Arc::new(|builder| builder),
            stop: Arc::default(),
        }
    }
}

/// Why a workload could not be run, or what it found wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum YcsbError {
    /// The database answered with an error.
    #[error(transparent)]
    Database(#[from] siltstone::Error),
    /// The database cannot stand there.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The settings do not fit each other.
    #[error("{0}")]
    Settings(&'static str),
    /// The workload needs what no engine of this version has.
    #[error(
        "workload e scans records in the order of their keys, and this engine has no order: choose a, b, c, d or f"
    )]
    NoOrder,
    /// A record has a value that was never written to it.
    #[error("record {0} has a value that was never written to it; was it loaded with the same fields?")]
    WrongValue(u64),
    /// A record that was inserted is not there.
    #[error("record {0} was inserted and is not there; was the database loaded with as many records?")]
    Lost(u64),
    /// A thread ended in a panic.
    #[error("a thread of the benchmark ended in a panic")]
    Panicked,
    /// The report could not be written.
    #[error("cannot write the report: {0}")]
    Report(std::io::Error),
}

/// The result of everything that can fail here.
pub type Result<T> = std::result::Result<T, YcsbError>;
