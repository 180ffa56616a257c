//! A log that has all data, and an index in memory that maps the hash of each key to the exact place of its record:
//! what FlashKey and FlashStore have in common.
//!
//! ```text
//! put      append to the user log -> entry of the index -> note, if an older entry has an equal hash
//! get      entries of the hash, the youngest first -> one read each, until the key is equal
//! clean    segment with dead bytes -> live records to the log of their age -> segment released
//! confirm  notes of a segment -> read the older records -> the same key: the older entry goes
//! recycle  the oldest segment, if the logs are full -> records that were not read leave to the store below
//! flush    changes of the index -> redo log, after the logs were synced up to where they are covered
//! ```
//!
//! A put never waits for a read of a finished segment: it leaves the older entry, and notes that this is probably of
//! its key. The older record counts as dead at once. Both entries are there, the younger one is found first, until the
//! segment of the older one is cleaned, or its notes are confirmed because there are too many.
//!
//! | file | contents |
//! |---|---|
//! | `indexed_logs` | the logs with their index: locks of shards, lookups of one moment, live bytes |
//! | `writer`, `reader`, `groups` | puts and deletes; gets; entries of equal hashes in order |
//! | `unconfirmed`, `confirm`, `search` | notes of overwritings; resolving them; finding those without notes |
//! | `clean`, `cleanings`, `policy` | cleaning; how many segments at once; which ones, and where records go |
//! | `recycle`, `below` | the records that leave when the logs are full; the store to which they leave |
//! | `live`, `commits` | what is live, as the manifest has it; redo before release |
//! | `background`, `choice`, `memory` | which job runs next, on which segment; the memory account and its limit |
//! | `snapshot`, `checkpoint`, `verify` | reads of everything |
//! | `bound` | the bytes that the logs may have, and when writes wait for cleaning |
//! | `space` | the reserve of free space |
//! | `count` | the number of keys |
//! | `range` | records in the order of their keys |
//! | `open`, `keys`, `settings` | creating and opening |
//! | `costs` | the constants from which a model computes what a database costs |
//! | `survey`, `repair` | what is intact of a closed database; replacing what is not |

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
mod groups;
mod indexed_logs;
mod keys;
mod left;
#[doc(hidden)]
pub mod live;
mod memory;
mod open;
mod policy;
mod range;
mod range_cache;
mod reader;
mod recycle;
mod repair;
mod search;
mod settings;
mod snapshot;
mod space;
mod survey;
mod unconfirmed;
mod verify;
mod writer;

pub(crate) use below::Below;
pub(crate) use checkpoint::checkpoint;
pub(crate) use commits::BELOW_NUMBER;
pub(crate) use count::count_keys;
pub(crate) use groups::Groups;
pub(crate) use indexed_logs::{Counts, IndexedLogs, Place};
pub(crate) use live::Manifest;
pub(crate) use memory::check_budget;
pub(crate) use open::{Opened, create, is_half_created, open};
pub use policy::Victim;
pub(crate) use range::{RangeKeys, RangeRecords};
pub(crate) use range_cache::RangeCache;
pub(crate) use reader::{FoundValue, Sought};
pub(crate) use repair::repair;
#[doc(hidden)]
pub use settings::Mistake;
pub(crate) use settings::{LogSettings, Recycling};
pub(crate) use snapshot::LogSnapshot;
pub(crate) use survey::examine;
pub(crate) use verify::verify;
