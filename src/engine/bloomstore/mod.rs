//! BloomStore (MSST 2012): what locates a key is on flash too, as Bloom filters side by side, so that one read of these
//! and one of data find a record, and an index takes hardly any memory.
//!
//! ```text
//!   LogStore     an index in memory over records in the log           as in SILT
//!      | conversion
//!   runs         immutable files in hash order; their columns, a      of the newest runs a filter in memory,
//!      |         Bloom filter and the blocks per range of hashes      of the others the columns in the chain on flash
//!      | merge, when there are many runs or much garbage
//!   old run      one file with most of the records, found through the chain as well
//! ```
//!
//! The stores and the jobs that move records between them are in `engine::silt`, chains in `store::chain`. Here
//! are the settings of BloomStore, and the engine in the table of engines.
//!
//! Deviations: LogStores and a log in place of a page of write buffer per instance, so a crash loses nothing that was
//! acknowledged as durable; a filter per run and range of hashes in place of one per page, and a ribbon filter until it
//! is in the chain; merges in place of garbage collection from the log's head; a prefilter of sorted prefixes of
//! hashes, which grows, in place of a Bloom filter.
//!
//! # How it works
//!
//! SILT's partitions (`engine::silt`) with another way to find records in immutable stores. Its HashStores are *runs*:
//! records of any size in hash order. The hashes of a partition are cut into equal *ranges*, and a run has a *column*
//! in each: a Bloom filter and the blocks of its records there. The columns are side by side in the *chain*, a file
//! with a page per range. The newest runs are not in the chain yet: as SILT's HashStores they have a ribbon filter and
//! fences in memory, and their columns in their files.
//!
//! - **Get**: cache, LogStores, filters in memory, prefilter, then one read of a page of the chain, then the blocks
//!   that it names, from the newest run on.
//! - **Convert**: as in SILT, with columns in place of the fences in the file.
//! - **Chain**: when a partition has `buffered_filters` runs that are not in its chain, steps write a new chain. It has
//!   what the old one has, and the columns that are read from the files of these runs. Their filters leave memory then.
//!   The manifest names the chain in one commit with the runs that it has.
//! - **Prefilter**, if `prefilter_bits` is set: the prefixes of the placements of all records of the chain, in memory
//!   and in the filter section of its file. A new chain has the prefixes of the old one and those of the runs that are
//!   added, which are read for it.
//! - **Merge**: when a partition has `chain_length` runs, or more records than `space` times its keys, or when all
//!   partitions together have half of the runs that they may have. The last rule spreads merges evenly over the growth
//!   of the data. The result is the SortedStore, a run with 8 columns per range, and a chain of this run alone. The
//!   number of ranges changes only then.
//! - **Damage**: a page with a wrong checksum is searched for in all runs by interpolation, `stats().degraded` has the
//!   chain, and the chain is made again of the columns in the files of the runs. If these are damaged too, the
//!   partition is merged.
//! - **Open**: the directories of chains, 4 bytes per page. Filters and fences of the newest runs are read back as
//!   those of HashStores are.
//! - **Memory budget**: these are pieces as in SILT, and so is a prefilter, the last one to get memory. A run without
//!   its fences is searched.

mod settings;
#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use crate::engine::silt::Mistake;
pub use settings::BloomStoreSettings;
