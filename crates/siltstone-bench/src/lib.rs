//! Workloads, benchmarks and simulations of Siltstone. This crate prints nothing: it hands reports to its caller.
//!
//! - [`db`]: the benchmarks of a database, under db_bench's names.
//! - [`dict`]: the benchmark of a dictionary.
//! - [`keys`], [`random`], [`key_set`]: what they write, in which order, and what is there afterwards.
//! - [`latencies`]: how long single operations took.
//! - [`accounts`]: the accounts of a database as JSON.

pub mod accounts;
pub mod db;
pub mod dict;
pub mod key_set;
pub mod keys;
pub mod latencies;
pub mod random;
