//! SILT (SOSP 2011; dissertation, chapter 2): LogStores, HashStores and SortedStores composed into the store that needs
//! the least memory per key at one flash read per lookup. BloomStore builds on this engine.
//!
//! ```text
//!                      put                                  get: from the newest to the oldest
//!                       |                                    |
//!   log (shared) <---   v                                    v
//!                     LogStore           an index in memory over records in the log
//!                       | full: frozen                       |
//!                     LogStores, frozen  queued for conversion
//!                       | conversion                         |
//!                     HashStores         immutable files in hash order; filters in memory
//!                       | merge                              |
//!                     SortedStore        one immutable file; an index of some bits per block
//! ```
//!
//! Each partition has these stores; P partitions share the keys by their hash.
//!
//! | file | contents | section |
//! |---|---|---|
//! | `engine`, `parts` | the parts composed, and the trait `Engine` | |
//! | `put` | writes and updates | 3.1 |
//! | `get`, `stores`, `get_many` | lookups | 2 |
//! | `convert` | the conversion of a LogStore to a HashStore | 3.2 |
//! | `merge` | the merge of HashStores into the SortedStore | 3.3 |
//! | `last_filter` | whether merges build a filter for missing keys | |
//! | `recovery`, `create`, `repair` | open with a replay of the log; create; databases that are damaged | 4 |
//! | `partition`, `view` | partitions, their LogStores and immutable stores | 2 |
//! | `scheduler`, `schedule`, `rate` | which job runs next, and how fast | |
//! | `policy`, `ranges` | when, and how large (d, H, P) | 5, dissertation 2.4 |
//! | `commits`, `live` | which stores are durable, and release of the log; the manifest | 4 |
//! | `memory_budget` | memory account, fail-graceful indexing | 4 |
//! | `snapshot`, `scan`, `checkpoint`, `count`, `verify` | reads of everything | |
//! | `bulk`, `loading` | bulk loading | |
//! | `chain`, `prefilter` | for BloomStore: the chain of the columns of HashStores, and its prefilter | |
//! | `settings`, `partition_settings`, `family` | the settings; those of partitions; open with either | |
//!
//! Deviations: all partitions share one log; merges start at a bound over all partitions (see `policy`); LogStores are
//! merged without a conversion when their partition is merged; a record that is overwritten in the LogStore keeps its
//! slot.

mod bulk;
mod chain;
mod checkpoint;
mod commits;
mod configuration;
mod convert;
#[doc(hidden)]
pub mod costs;
mod count;
mod create;
mod engine;
mod family;
mod get;
mod get_many;
mod job_bytes;
mod last_filter;
#[doc(hidden)]
pub mod live;
mod loading;
mod memory_budget;
mod merge;
mod partition;
mod partition_settings;
mod partitions;
mod parts;
mod policy;
mod prefilter;
mod put;
mod ranges;
mod rate;
mod recovery;
mod repair;
mod scan;
mod schedule;
mod scheduler;
mod settings;
mod snapshot;
mod stores;
#[cfg(test)]
mod tests;
mod verify;
mod view;

pub use crate::store::FilterKind;
pub use crate::store::table::IndexKind;
pub(in crate::engine) use engine::SiltEngine;
pub(in crate::engine) use family::SiltFamilySettings;
pub use partition_settings::HashStoreKind;
#[doc(hidden)]
pub use partition_settings::Mistake;
pub(in crate::engine) use partition_settings::{ChainSettings, PartitionSettings};
pub use settings::SiltSettings;
