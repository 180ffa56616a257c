//! SILT (SOSP 2011; dissertation, chapter 2): LogStores, HashStores and SortedStores composed into the store that needs
//! the least memory per key at one flash read per lookup.
//!
//! The stores and the jobs that move records between them are in `engine::partitioned`. Here are the settings of SILT,
//! and the engine in the table of engines.
//!
//! Deviations: all partitions share one log; merges start at a bound over all partitions (see `partitioned::policy`);
//! LogStores are merged without a conversion when their partition is merged; a record that is overwritten in the
//! LogStore keeps its slot.

mod settings;

#[cfg(test)]
mod tests;

pub use super::partitioned::HashStoreKind;
#[doc(hidden)]
pub use super::partitioned::{Mistake, costs, live};
pub use crate::store::FilterKind;
pub use crate::store::ordered::IndexKind;
pub(in crate::engine) use settings::INFO;
pub use settings::SiltSettings;
