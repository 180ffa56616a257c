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
//!
//! # How it works
//!
//! `database/disk.rs` opens the disk, and does what is done to a closed database to its disk as well.
//!
//! - **Classes of logs**: 0 has what is put, 1 records that stayed because they were read, and 3 *clean* records,
//!   which the disk has as well. So no record needs a flag.
//! - **Get**: flash, then the disk. A lookup on flash marks the entry of its key, a bit in the page of the index.
//! - **Recycle**: when the logs have more than `usage` of `flash_bytes`, or the index more than its share of the
//!   memory budget, the job that cleans takes the oldest segment: with one queue of all logs, with two of class 0
//!   unless this has less than a tenth of the bytes, a quarter in a cache. With two queues, a segment that is 60 % dead
//!   is cleaned before: its live records move and keep their marks. So records that were overwritten do not keep
//!   others from flash for long. A put of a key that is on flash marks its record then, as a get does. Otherwise a
//!   marked record is moved and loses its mark. A clean one leaves, and so does a dirty one after it was written to
//!   the disk with `Synced`: as a delete, if it is a tombstone or has expired and the disk may have the key. Only a
//!   record that is the oldest of its key on flash leaves; older entries of its hash are read and compared before.
//! - **Delete**: a tombstone, unless neither flash has an entry of the hash nor the disk may have the key. A tombstone
//!   only goes by recycling.
//! - **Promote**: a get that found a record on the disk appends it to class 3. With the writer of the shard locked,
//!   flash must have no entry of the hash, and no segment that ends behind the begin of the get may have begun to
//!   leave: otherwise a newer version may be on the disk.
//! - **Snapshot, checkpoint**: while both are taken, no record leaves.
//! - **Compact**: all dirty records leave, then the disk is compacted.
//! - **Cache**: without a disk, what leaves is lost. The end of an entry is durable with its redo. Until then the
//!   key's bit is set in `flashkey/left.rs`, and a delete of the key is written although it has no entry: otherwise
//!   the record could be found again after a crash. With `write_bytes_per_s`, a put is admitted with a probability
//!   that follows the bytes written (`write_budget.rs`); one that is rejected is a delete, and its record goes to the
//!   record cache alone, if there is a memory budget.
//! - **Counters** in `stats().details`: `record_cache_hits` in RAM, `flash_hits`, `flash_misses`, `disk_hits`,
//!   `promoted`, `rejected` puts, and `left`, the records that have left.

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
