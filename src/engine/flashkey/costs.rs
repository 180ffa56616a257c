//! The constants of the engine from which a model computes what a database costs.

pub use crate::compose::hashed_log::costs::*;
pub use crate::engine::common::PARTITIONS_DEFAULT;
