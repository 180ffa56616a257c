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
//! | `engine` | the parts composed, and the trait `Engine` | |
//! | `put`, `get`, `groups` | puts and deletes; gets; entries of equal hashes in order | V-A |
//! | `indexed_logs` | the logs with their index: locks of shards, lookups of one moment, live bytes | IV |
//! | `unconfirmed`, `confirm`, `search` | notes of overwrites; resolving them; finding those without notes | |
//! | `clean`, `policy` | cleaning; which segments, and where records go | V-B |
//! | `recycle`, `below`, `left` | the records that leave when the logs are full; the store to which they leave | |
//! | `bound`, `excess` | the bytes that the logs may have, and when writes wait for cleaning | VI-B.1 |
//! | `live`, `commits` | what is live, as the manifest has it; redo before release | |
//! | `background`, `choice`, `memory` | which job runs next, on which segment; the memory account and its limit | |
//! | `ordered`, `range`, `range_cache`, `keys` | records in the order of their keys | |
//! | `scan`, `snapshot`, `checkpoint`, `count`, `verify` | reads of everything | |
//! | `recovery` | how a database is created and opened | |
//! | `survey`, `repair` | what is intact of a closed database; replacing what is not | |
//! | `settings`, `log_settings`, `family` | the settings; those of the logs; what both engines share | V-B, VI-B |
//! | `space`, `write_budget` | the reserve of free space; what a cache may write per second | |
//! | `costs` | the constants from which a model computes what a database costs | |
//!
//! Deviations: the index keeps a part of the hash and a place per key, 5 bytes instead of 36, and no lengths; it grows
//! page by page. The older record of a key is found in the background. Cleaned records move to logs of their age, to
//! the log of puts only with `classes=0`. The index is recovered from its saved copy and a log of changes, never from
//! the data.
//!
//! # How it works
//!
//! All data stays in logs: one of what is put, and three of records that cleaning has moved, by their age. An index in
//! memory (`store/unit_index`, 5 bytes per key) maps the first bits of each key's placement to the *unit* of its
//! record, the exact place in a segment. It is divided into shards, one per partition, which are in memory or on flash
//! (`index_in_memory`, or as many as the memory budget has space for).
//!
//! - **Put**: stripe of the key, writer of its shard, an append to the user log, an entry. If there is an entry with
//!   an equal hash whose record is in a segment that still grows, its record is read and compared, and the entry is
//!   replaced. A finished segment is not read: the new entry comes before the older one, and the overwrite is noted.
//! - **Get**: the entries with the key's hash, the newest first, and a view of the logs of the same moment; one read
//!   each until the key is equal. A missing key has an entry with a probability of N / 2^`hash_bits`.
//! - **Delete**: a tombstone with an entry, like a put; nothing if there is no entry of the hash.
//! - **Update**: the read of `update`, `insert_if_absent` and `transact` gives the place of the older record, so its
//!   entry is replaced at once.
//! - **Pending overwrites**: such a put notes, for the segment of the older record, the number of its unit and a hash
//!   of the own key, of 64 bits with a secret that each open draws: 12 bytes. The older record counts as dead at once,
//!   for the space and for the choice of segments. Who reads it later compares the hash of its key: if it is equal,
//!   the older entry goes. If it is not, or the key was not known, the records of all entries of the hash are read; of
//!   each key the newest entry remains, and a tombstone goes when no older entry has its key.
//! - **Confirm**: cleaning resolves the notes of a segment, because it reads all records. Only if there are more notes
//!   than `unconfirmed_max` of the keys, steps read the older records of one segment: in long pieces, or one by one if
//!   they are few. They choose the segment with the most notes per byte to read that is not cleaned soon. Notes are
//!   not durable. After an open, a search of the index notes the older entries of equal hashes; so does a save for
//!   shards on flash.
//! - **Segments** are complete when they have a 64th of the data, at least 2 MiB and at most `segment_bytes`: what is
//!   dead is free soon in a small database, too.
//! - **Clean**: when the finished segments have more than `space` times their live bytes, steps read one, by benefit
//!   and cost (the square of its dead share, times its age, per live byte), and append each record that the index
//!   still points to, to the log of its age. A tombstone or an expired record goes if it is the oldest of its hash;
//!   otherwise an older value could be found again. If cleaning is far behind, two segments are cleaned at once: while
//!   one job waits for the drive, the other one computes.
//! - **Bound**: the logs have at most `space` times the live bytes and a segment of each log. Before each write some
//!   counters say how many bytes there are, and how many the running cleanings will append before they release a
//!   segment; writes wait before both exceed the bound. They wait earlier, when the finished segments exceed their
//!   space by a 24th of their dead bytes, or an eighth of a segment if that is more: so the dead bytes, on which write
//!   amplification depends, are as many under load as at rest. If a segment that grows is mostly dead and keeps a
//!   cleaning from beginning, it ends.
//! - **Redo**: each change of the index is written to the redo log, some megabytes at a time, after the logs were
//!   synced up to where the redo covers them. A segment is released only when the redo of everything that was moved
//!   out of it is synced.
//! - **Save**: when the redo is longer than the index, the index is saved, page by page, and the redo before it is
//!   released.
//! - **Index on flash**: the entries of a shard are the pages of the saved index, and changes in memory. A new change
//!   replaces an older one of the same entry. A lookup reads one page. A put reads none: it adds a change, and an
//!   older entry of its hash on flash is found when the shard is saved. When the changes take 0.23 bytes per entry,
//!   the index is saved: each shard is merged with its changes in one sequential pass, and is read from the new file
//!   from then on. A file that was replaced is removed; lookups and snapshots that began before read it through their
//!   open handle.
//! - **Keys in order**, with the setting `ordered` (`store/ordered_keys`): every operation also enters its key into a
//!   table in memory, with the writer of its shard locked. The table is written to a run of keys before it is full,
//!   and four runs of about the same size are merged. A deleted key is dropped unless an older run may have it. The
//!   table is also written when 8,192 of its keys are deleted, and runs whose deleted keys ranges pass are merged, so
//!   a range passes few of them. At recovery the keys after the last run are read from the user log, so a segment of
//!   it is released only when its keys are in runs. A range reads keys ahead, and their records together, up to 128 at
//!   once: 16 at first, or as many as its limit. All are of one snapshot of the index. Keys alone need no record,
//!   unless it may have expired. The record cache has a record of the snapshot if the entries of its hash are the same
//!   as now and no segment was started or released in between; then a range also inserts what it reads
//!   (`range_cache`).
//! - **Open**: the redo, the records of the user log that the redo does not cover, which are indexed as they were when
//!   they were put, and the saved index. No other record is read. A saved index that is shorter than a segment and
//!   than 64 MiB is read, the shards on all processors. Of a longer one, recovery reads only the places of pages: all
//!   shards are on flash at first, and the redo becomes changes of them, so gets and puts work at once. Steps then
//!   *load* the shards that are to be in memory, one after the other: each is merged with its changes, as for a save,
//!   but nothing is written. Until then a get reads a page of the index first, `stats` has `index_shards_to_load`, and
//!   other background work waits, except for the end of segments. A page that cannot be read ends writing, as in a
//!   save; the others are looked up on flash. Redo is applied in the order of the hashes, the shards on all
//!   processors: to entries in memory by copying what does not change in a page as bits. Pending overwrites are
//!   searched for after the load.
//! - **Repair**: `survey` finds which entries have an intact record, and `repair` moves the live records of damaged
//!   segments to new ones. Entries that are lost with a part of the index are found in all logs by an external sort.

mod background;
mod below;
mod bound;
mod checkpoint;
mod choice;
mod clean;
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
pub(in crate::engine) use indexed_logs::{Counts, IndexedLogs, RecordPlace};
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
pub(in crate::engine) use snapshot::LogSnapshot;
pub(in crate::engine) use survey::examine;
use verify::verify;
pub(in crate::engine) use write_budget::WriteBudget;
