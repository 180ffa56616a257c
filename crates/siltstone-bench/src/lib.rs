//! Workloads and benchmarks of Siltstone. This crate prints nothing: it returns reports to its caller.
//!
//! - [`db`]: the benchmarks of a database, under db_bench's names.
//! - [`ycsb`]: the core workloads of YCSB.
//! - [`trace`]: recorded traces, and replaying them.
//! - [`index`]: the benchmarks of the structures of the index room.
//! - [`device`]: the benchmark of the device below a database.
//! - [`dict`]: the benchmark of a dictionary.
//! - [`mica`]: the benchmark of the stores in memory.
//! - [`udp`]: the benchmark of the same over the network.
//! - [`keys`], [`random`], [`key_set`]: what they write, in which order, and what is there afterwards.
//! - [`latencies`], [`timings`], [`clock`]: how long operations took, on the wall and on the processor.
//! - [`accounts`], [`costs`]: the accounts of a database as JSON, and the quotients that all reports share.
//! - [`place`]: where the database of a benchmark stands.

pub mod accounts;
pub mod clock;
pub mod costs;
pub mod db;
pub mod device;
pub mod dict;
mod error;
pub mod index;
pub mod key_set;
pub mod keys;
pub mod latencies;
pub mod mica;
pub mod named;
pub mod place;
pub mod quantity;
pub mod random;
pub mod timings;
pub mod trace;
pub mod tuning;
pub mod udp;
pub mod ycsb;

pub use error::{Error, Result};

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
