//! Workloads and benchmarks of Siltstone. This crate prints nothing: it returns reports to its caller.
//!
//! - [`db`]: the benchmarks of a database, under db_bench's names.
//! - [`ycsb`]: the core workloads of YCSB.
//! - [`trace`]: recorded traces, and replaying them.
//! - [`device`]: the benchmark of the device below a database.
//! - [`dict`]: the benchmark of a dictionary.
//! - [`keys`], [`random`], [`key_set`]: the keys and values that benchmarks write, their order, and which of them
//!   exist.
//! - [`latencies`], [`timings`], [`clock`]: the durations of operations, by wall clock and by CPU time.
//! - [`accounts`], [`costs`]: the statistics of a database as JSON, and the quotients that all reports share.
//! - [`chart`]: charts as SVG, for reports.
//! - [`place`]: the directory of a benchmark's files.

pub mod accounts;
pub mod chart;
pub mod clock;
pub mod costs;
pub mod db;
pub mod device;
pub mod dict;
mod error;
mod json;
pub mod key_set;
pub mod keys;
pub mod latencies;
pub mod named;
pub mod place;
pub mod quantity;
pub mod random;
pub mod timings;
pub mod trace;
pub mod tuning;
pub mod ycsb;

pub use error::{Error, Result};

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// The example of the quick start compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/QUICKSTART.md")]
pub struct QuickStart;
