//! Partitions whose records move from a log to immutable stores: what SILT (SOSP 2011) and BloomStore have in common.
//!
//! ```text
//!                      put                                  get: from the youngest to the oldest
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
//! | file | contents | SILT |
//! |---|---|---|
//! | `engine` | [`PartitionedEngine`]: the parts composed, and the trait `Engine` | |
//! | `partition`, `view` | partitions, their LogStores and immutable stores | 2 |
//! | `reader`, `stores`, `get_many` | lookups | 2 |
//! | `writer` | writes and updates | 3.1 |
//! | `convert` | the conversion of a LogStore to a HashStore | 3.2 |
//! | `bulk` | bulk loading | |
//! | `chain`, `prefilter` | the chain of the columns of HashStores, of BloomStore, and its prefilter | |
//! | `merge` | the merge of HashStores into the SortedStore | 3.3 |
//! | `scheduler`, `job_context` | which job runs next | |
//! | `policy`, `ranges` | when, and how large (d, H, P) | 5, dissertation 2.4 |
//! | `commits` | which stores are durable, and release of the log | 4 |
//! | `memory_budget` | memory account, fail-graceful indexing | 4 |
//! | `snapshot`, `scan`, `checkpoint`, `count`, `verify` | reads of everything | |
//! | `live` | the live stores, as the manifest has them | |
//! | `family`, `settings` | what the settings of the engines have in common | |
//! | `create`, `open`, `repair` | databases that are not open | 4 |

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
mod get_many;
mod job_context;
#[doc(hidden)]
pub mod live;
mod memory_budget;
mod merge;
mod open;
mod partition;
mod policy;
mod prefilter;
mod ranges;
mod rate;
mod reader;
mod repair;
mod scan;
mod scheduler;
mod settings;
mod snapshot;
mod stores;
mod verify;
mod view;
mod writer;

pub use engine::PartitionedEngine;
pub(in crate::engine) use family::PartitionedEngineSettings;
pub use settings::HashStoreKind;
#[doc(hidden)]
pub use settings::Mistake;
pub(in crate::engine) use settings::{ChainSettings, PartitionedSettings};
