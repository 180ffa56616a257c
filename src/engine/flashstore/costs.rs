//! The constants and rules of the engine from which a model computes what a database costs.

pub use super::admission::places;
pub use super::settings::{SEGMENTS_MIN, UNCONFIRMED_MAX, begin_bytes, hash_bits};
pub use crate::engine::common::PARTITIONS_DEFAULT;
pub use crate::engine::flashkey::costs::*;
pub use crate::engine::settings::DISK_FILTER_BITS;
