//! BloomStore (MSST 2012): what locates a key is on flash too, as Bloom filters side by side, so that one read of these
//! and one of data find a record, and an index takes hardly any memory.
//!
//! ```text
//!   LogStore     an index in memory over records in the log           as in SILT
//!      | conversion
//!   runs         immutable files in hash order; their columns, a      of the youngest runs a filter in memory,
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
//! is in the chain; merges in place of garbage
//! collection from the log's head; a prefilter of sorted prefixes of hashes, which grows, in place of a Bloom filter.

mod settings;
#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use crate::engine::silt::Mistake;
pub use settings::BloomStoreSettings;
pub(in crate::engine) use settings::INFO;
