//! BloomStore's experiments.

mod compare;
mod driver;

pub use compare::charts;
pub(super) use compare::run as compare;
