//! Evidence: the tables and figures of the papers that Siltstone implements, next to what is measured here.
//!
//! ```text
//!   catalogue     a row per table and figure: silt/figure-9, ...
//!      |
//!   registry      finds items; runs each experiment once for counts, and several times for rates
//!      |
//!   experiments   measure, count, calculate --> points of items
//!      |                                          |
//!      |  index, mica, udp, stores, compare       |  series, x, quantity, the paper's value, the model's,
//!      |  literature, synthetic, requests         |  the median with its spread
//!      v                                          v
//!   conditions    sizes, files, presets         output: text, JSON, charts, docs/EVIDENCE.md --> documents
//! ```
//!
//! - [`catalogue`], [`registry`]: the items, and how they are found and run.
//! - [`quantity`], [`point`]: what is measured, in which unit, and how; verdicts.
//! - [`conditions`]: the size of experiments, and how they open databases.
//! - [`experiments`]: the experiments.
//! - [`output`]: what is printed, drawn and written.
//! - [`index`], [`mica`], [`udp`]: benchmarks of index structures and of MICA, which experiments use and which have
//!   commands of their own.
//! - [`literature`]: models of stores as papers describe them.
//! - [`stores`]: other papers' stores, as programs.
//! - [`synthetic`], [`requests`]: traces with published statistics, and keys whose popularity drifts.
//! - [`compare`]: other stores, each in a process of its own.
//! - [`documents`]: the tables of figures in the documents.

#[cfg(not(target_os = "linux"))]
compile_error!("the comparison reads Linux's own counts of processes and devices");

pub mod catalogue;
pub mod compare;
pub mod conditions;
pub mod documents;
mod error;
pub mod experiments;
pub mod index;
pub mod literature;
pub mod mica;
pub mod output;
pub mod point;
pub mod quantity;
pub mod registry;
pub mod requests;
pub mod stores;
pub mod synthetic;
pub mod udp;

pub use error::{Error, Result};
