//! BloomStore's experiments.

mod compare;
mod driver;
mod growth;
mod sweeps;

pub use compare::charts as compare_charts;
pub(super) use compare::run as compare;
pub(super) use growth::run as growth;
pub use sweeps::charts as sweep_charts;
pub(super) use sweeps::{chains, memory, prefilter, ram};
