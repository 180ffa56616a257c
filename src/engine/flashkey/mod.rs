//! FlashKey (MSST 2020): data in logs, and an index in memory that maps each key's hash to the exact place of its
//! record. A put is one append, a get one read, and a missing key costs no read. FlashStore builds on this engine.
//!
//! ```text
//! put      append to the user log -> entry of the index -> note, if an older entry has an equal hash
//! get      entries of the hash, the newest first -> one read each, until the key is equal
//! clean    segment with dead bytes -> live records to the log of their age -> segment released
//! confirm  notes of a segment -> read the older records -> the same key: the older entry goes
//! recycle  the oldest segment, if the logs are full -> records that were not read leave to the store below
//! flush    changes of the index -> redo log, after the logs were synced up to where they are covered
//! ```
//!
//! A put never waits for a read of a finished segment: it leaves the older entry, and notes that this is probably of
//! its key. The older record counts as dead at once. Both entries are there, the newer one is found first, until the
//! segment of the older one is cleaned, or its notes are confirmed because there are too many.
//!
//! | file | contents | paper |
//! |---|---|---|
//! | `engine` | [`FlashKeyEngine`]: the parts composed, and the trait `Engine` | |
//! | `put`, `get`, `groups` | puts and deletes; gets; entries of equal hashes in order | V-A |
//! | `indexed_logs` | the logs with their index: locks of shards, lookups of one moment, live bytes | IV |
//! | `unconfirmed`, `confirm`, `search` | notes of overwrites; resolving them; finding those without notes | |
//! | `clean`, `cleanings`, `policy` | cleaning; how many segments at once; which ones, and where records go | V-B |
//! | `recycle`, `below`, `left` | the records that leave when the logs are full; the store to which they leave | |
//! | `bound`, `excess` | the bytes that the logs may have, and when writes wait for cleaning | VI-B.1 |
//! | `live`, `commits` | what is live, as the manifest has it; redo before release | |
//! | `background`, `choice`, `memory` | which job runs next, on which segment; the memory account and its limit | |
//! | `ordered`, `range`, `range_cache`, `keys` | records in the order of their keys | |
//! | `scan`, `snapshot`, `checkpoint`, `count`, `verify` | reads of everything | |
//! | `recovery` | creating and opening | |
//! | `survey`, `repair` | what is intact of a closed database; replacing what is not | |
//! | `settings`, `log_settings`, `family` | the settings; those of the logs; opening with either | V-B, VI-B |
//! | `space`, `write_budget` | the reserve of free space; what a cache may write per second | |
//! | `costs` | the constants from which a model computes what a database costs | |
//!
//! Deviations: the index keeps a part of the hash and a place per key, 5 bytes instead of 36, and no lengths; it grows
//! page by page. The older record of a key is found in the background. Cleaned records move to logs of their age, not
//! to the log of puts. The index is recovered from its saved copy and a log of changes, never from the data.

mod background;
mod below;
mod bound;
mod checkpoint;
mod choice;
mod clean;
mod cleanings;
mod commits;
mod confirm;
#[doc(hidden)]
pub mod costs;
mod count;
mod engine;
mod excess;
mod family;
mod get;
mod groups;
mod indexed_logs;
mod keys;
mod left;
#[doc(hidden)]
pub mod live;
mod log_settings;
mod memory;
mod ordered;
mod policy;
mod put;
mod range;
mod range_cache;
mod recovery;
mod recycle;
mod repair;
mod scan;
mod search;
mod settings;
mod snapshot;
mod space;
mod survey;
#[cfg(test)]
mod tests;
mod unconfirmed;
mod verify;
mod write_budget;

pub(in crate::engine) use below::Below;
use checkpoint::checkpoint;
pub(in crate::engine) use commits::BELOW_NUMBER;
pub(in crate::engine) use count::count_keys;
pub(in crate::engine) use engine::{FlashKeyEngine, to_found};
pub(in crate::engine) use family::FlashKeyFamilySettings;
pub(in crate::engine) use get::{FoundValue, Sought};
pub(in crate::engine) use groups::Groups;
pub(in crate::engine) use indexed_logs::{Counts, IndexedLogs, Place};
pub(in crate::engine) use live::Manifest;
#[doc(hidden)]
pub use log_settings::Mistake;
pub(in crate::engine) use log_settings::{LogSettings, Recycling};
pub(in crate::engine) use memory::check_budget;
pub use policy::Victim;
use range::{RangeKeys, RangeRecords};
use range_cache::RangeCache;
use recovery::Opened;
pub(in crate::engine) use recovery::{create, is_half_created, open};
pub(in crate::engine) use repair::repair;
pub use settings::FlashKeySettings;
pub(in crate::engine) use settings::INFO;
pub(in crate::engine) use snapshot::LogSnapshot;
pub(in crate::engine) use survey::examine;
use verify::verify;
pub(in crate::engine) use write_budget::WriteBudget;
