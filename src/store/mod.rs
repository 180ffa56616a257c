//! The structures on flash: the log, HashStores, SortedStores and the manifest. What they are made of has a file each:
//! records, blocks, store files, the merge. Their bytes are drawn in docs/formats/README.md and its pages.

pub mod block;
#[cfg(feature = "silt")]
pub mod chain;
mod compaction_filter;
#[cfg(feature = "flashkey")]
pub mod data_logs;
pub mod examine;
pub mod file;
mod filter;
#[cfg(feature = "silt")]
pub mod hash_store;
mod listing;
pub mod log;
#[cfg(feature = "silt")]
mod log_batch;
#[cfg(feature = "silt")]
pub mod log_cursor;
pub mod log_format;
#[cfg(feature = "silt")]
pub mod log_store;
pub mod manifest;
pub mod merge;
#[cfg(feature = "flashkey")]
pub mod ordered_keys;
#[cfg(any(feature = "flashkey", feature = "silt"))]
pub mod read_batches;
pub mod record;
pub mod slots;
pub mod sort;
pub mod table;
#[cfg(feature = "flashkey")]
pub mod unit_index;

pub use compaction_filter::CompactionFilter;
pub use file::{StoreFile, StoreFileWriter, StoreFooter};
pub use filter::{FilterKind, StoreFilter};
pub(crate) use listing::{files_of_engine, list_files, segment_bases};

use crate::key::KeyHash;
use siltstone_device::Purpose;

/// The lookup of one key in a store.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// What the reads are for.
    pub purpose: Purpose,
    /// The hash of the key, within its partition.
    pub hash: KeyHash,
    /// The key.
    pub key: &'a [u8],
}
