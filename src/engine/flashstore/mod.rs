//! FlashStore (VLDB 2010): a fast drive as the working set of a large slow store. Records are put to a log on the fast
//! drive, and have an index in memory. When the drive is full, the records of the oldest segment that were not read
//! leave to the slow store, the *disk*, which is a database of any engine in another directory.
//!
//! The log, the index and the recycling are FlashKey's (`engine::flashkey`). Here is what holds both stores together.
//!
//! | file | contents | paper |
//! |---|---|---|
//! | `tiered`, `below` | the trait `Engine` over the logs and the disk; the disk as the logs see it | 4.3 |
//! | `records` | snapshots and scans of both | |
//! | `admission` | which records that were found on the disk are put to the log | 4.5 |
//! | `claim` | the file on the disk that says to which database it belongs | |
//! | `settings`, `family` | the settings; the engine in the table of engines | |
//!
//! Deviations: the index is that of FlashKey, which grows and has no empty slots; the paper's cuckoo table with 16
//! candidates and signatures of 2 bytes is a structure of the benchmarks. Records that were read stay in a queue of
//! their own (`queues`). The disk says itself which keys it may have. The index is recovered from its saved copy and a
//! log of changes.

mod admission;
mod below;
mod claim;
pub mod costs;
mod family;
mod records;
mod settings;
#[cfg(test)]
mod tests;
mod tiered;

#[doc(hidden)]
pub use crate::engine::flashkey::Mistake;
pub use settings::FlashStoreSettings;
pub(in crate::engine) use settings::INFO;
