//! Evidence: the tables and figures of the papers that Siltstone implements, next to what is measured here.
//!
//! - [`experiments`]: the experiments.
//! - [`index`], [`mica`], [`udp`]: benchmarks of index structures and of MICA, which experiments use and which have
//!   commands of their own.
//! - [`literature`]: models of stores as papers describe them.
//! - [`stores`]: other papers' stores, as programs.
//! - [`synthetic`], [`requests`]: traces with published statistics, and keys whose popularity drifts.
//! - [`compare`]: other stores, each in a process of its own.

#[cfg(not(target_os = "linux"))]
compile_error!("the comparison reads Linux's own counts of processes and devices");

pub mod compare;
mod error;
pub mod experiments;
pub mod index;
pub mod literature;
pub mod mica;
pub mod requests;
pub mod stores;
pub mod synthetic;
pub mod udp;

pub use error::{Error, Result};
