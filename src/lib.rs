//! Siltstone is a key-value store for flash. It needs a fraction of a byte of RAM per key and one flash read per
//! lookup, and a setting bounds its write amplification.
//!
//! It is made for data with more keys than memory holds, looked up by the whole key. A [`Database`] is a directory that
//! one process writes, with any number of threads. A [`Dictionary`] is a file that is built once and read by many
//! processes.
//!
//! # Examples
//!
//! Records of any size, atomic updates, batches and durability:
//!
//! ```
//! # fn main() -> siltstone::Result<()> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("visits");
//! use siltstone::{Batch, Change, Database, Durability, WriteOptions};
//!
//! let database = Database::builder(&path).open()?;
//! database.put("user:17", "Ada")?;
//! assert_eq!(database.get("user:17")?.as_deref(), Some(&b"Ada"[..]));
//!
//! // A counter. No other write to the key happens between the read and the write.
//! database.update("visits:17", |found| {
//!     let visits = found.map_or(0, |found| u64::from_le_bytes(found.value[..].try_into().unwrap()));
//!     Ok(Change::Put { value: (visits + 1).to_le_bytes().to_vec().into(), expires_at_ms: 0 })
//! })?;
//!
//! // Both or neither, and durable when `write_with` returns.
//! let mut batch = Batch::new();
//! batch.put("user:18", "Grace")?.delete("user:17")?;
//! database.write_with(&batch, WriteOptions::default().durability(Durability::Synced))?;
//! database.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! An index of chunks for deduplication. Keys and values have fixed lengths, so records are stored without lengths.
//! Keys are uniform hashes already, so they are not hashed again:
//!
//! ```
//! # fn main() -> siltstone::Result<()> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("chunks");
//! use siltstone::Database;
//!
//! let database = Database::builder(&path).fixed(32, 8).hashed_keys().open()?;
//! let (seen, new) = ([0x17; 32], [0x71; 32]);
//! assert!(database.insert_if_absent(seen, 4096u64.to_le_bytes())?);
//! assert!(!database.insert_if_absent(seen, 8192u64.to_le_bytes())?);
//! assert_eq!(database.contains_many(&[seen, new])?, [true, false]);
//! println!("{} bytes of RAM", database.stats().ram.total_bytes());
//! # Ok(())
//! # }
//! ```
//!
//! A read-only file that many processes share:
//!
//! ```
//! # fn main() -> siltstone::Result<()> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("colours.dict");
//! use siltstone::Dictionary;
//!
//! Dictionary::builder().build(&path, [("rose", "red"), ("violet", "blue")])?;
//! let dictionary = Dictionary::open(&path)?;
//! assert_eq!(dictionary.get("violet")?.as_deref(), Some(&b"blue"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! # Engines
//!
//! | [`EngineKind`] | for | data is | paper |
//! |---|---|---|---|
//! | [`Silt`](EngineKind::Silt) | data beyond memory: least RAM per key at one flash read per get | durable | SILT |
//! | [`FlashKey`](EngineKind::FlashKey) | data beyond memory: one append per put | durable | FlashKey |
//! | [`FlashStore`](EngineKind::FlashStore) | a fast drive over a large slow one, or a cache | durable | FlashStore |
//! | [`BloomStore`](EngineKind::BloomStore) | data beyond memory, its index on flash | durable | BloomStore |
//! | [`Mica`](EngineKind::Mica) | data in memory: a store, or a cache that evicts | lost when it is closed | MICA |
//!
//! `Silt` is the default. SILT: Lim, Fan, Andersen, Kaminsky, SOSP 2011, and the entropy-coded tries of Lim's
//! dissertation. FlashKey: Ray, Kant, Li, Trika, MSST 2020. MICA: NSDI 2014, and chapter 5 of the dissertation.
//!
//! # Features
//!
//! A program that uses one engine compiles faster with it alone, as with `default-features = false, features =
//! ["silt", "io-uring"]`; at least one engine is needed. `docs/TUNING.md` has the figures.
//!
//! | feature | by default | adds |
//! |---|---|---|
//! | `silt`, `flashkey`, `mica` | yes | the engine of this name |
//! | `bloomstore`, `flashstore` | yes | the engine of this name, and `silt` or `flashkey`, on which it builds |
//! | `io-uring` | yes | batches of reads by one system call, on Linux |
//! | `compression` | no | [`Builder::compression`]; builds the C library of Zstandard |
//! | `json`, `serde` | no | `Stats::to_json`; [`Stats`] as that JSON in other formats |
//! | `tracing` | no | events of opens, background work, delays and failures |
//!
//! [`EngineKind`] has the engines that are compiled. Without `silt`, a new database has to state its engine. To open
//! the database of an engine that is left out is [`Error::AbsentEngine`], which names the feature; nothing is changed.
//!
//! # Where to go next
//!
//! - Opening a database, and all settings: [`Builder`]. Reading and writing: [`Database`], [`Batch`], [`WriteOptions`].
//! - What survives which failure: [`Durability`]. After a failure: [`Database::verify`], and `docs/REPAIR.md`.
//! - Memory, I/O and usage of a database: [`Stats`]. Before there is one: `siltstone plan`, and `docs/MODELS.md`.
//! - Read-only files: [`Dictionary`] and [`DictionaryOptions`].
//! - The documents of the repository, listed in `docs/README.md`: `docs/RELIABILITY.md` has the guarantees and their
//!   tests, `docs/ARCHITECTURE.md` the modules, `docs/PAPERS.md` what of each paper is implemented.

// Of what engines share, each uses a part. A build with all of them finds what nothing uses.
#![cfg_attr(
    not(all(feature = "silt", feature = "mica", feature = "flashstore", feature = "bloomstore")),
    allow(dead_code, unused_imports, reason = "some engines are left out")
)]

#[cfg(not(any(feature = "silt", feature = "mica", feature = "flashkey")))]
compile_error!(
    "siltstone needs the feature of at least one engine: silt, mica, flashkey, flashstore or bloomstore"
);

#[macro_use]
mod events;

// Hidden modules are public for the project's own crates and tests. They are no part of the interface.
#[doc(hidden)]
pub mod batch;
#[cfg(any(feature = "silt", feature = "flashkey"))]
mod cache;
#[doc(hidden)]
pub mod compression;
mod damage;
mod database;
mod dictionary;
#[doc(hidden)]
pub mod engine;
mod error;
#[doc(hidden)]
pub mod health;
#[doc(hidden)]
pub mod key;
#[doc(hidden)]
pub mod names;
mod progress;
#[doc(hidden)]
pub mod stats;
#[doc(hidden)]
pub mod store;

pub use batch::{Batch, Durability, NEVER, TimestampMs};
pub use bytes::Bytes;
pub use compression::Compression;
pub use damage::{Damage, DamagedPart, KeyRange, RepairReport, VerifyReport};
#[doc(hidden)]
pub use database::changes::state as change_feed_state;
#[doc(hidden)]
pub use database::compressed::file as compression_file;
#[doc(hidden)]
pub use database::usage_file;
pub use database::{
    Builder, BulkLoader, ChangePosition, Changes, Codec, Database, Iter, KeyIter, OrderedDatabase,
    RepairOptions, Resources, Snapshot, Table, TableIter, WriteOptions,
};
pub use dictionary::{
    DICTIONARY_VERSION, Dictionary, DictionaryBuilder, DictionaryIndex, DictionaryInfo, DictionaryIter,
    DictionaryOptions, DictionaryWriter,
};
#[cfg(feature = "bloomstore")]
pub use engine::bloomstore::BloomStoreSettings;
#[cfg(feature = "flashkey")]
pub use engine::flashkey::{FlashKeySettings, Victim};
#[cfg(feature = "flashstore")]
pub use engine::flashstore::FlashStoreSettings;
#[cfg(feature = "mica")]
pub use engine::mica::MicaSettings;
#[cfg(feature = "silt")]
pub use engine::silt::{FilterKind, HashStoreKind, IndexKind, SiltSettings};
pub use engine::{
    Change, Disk, EngineKind, EngineSettings, Found, FoundRef, Record, ScanLimit, ScanPage, SettingInfo, Step,
};
#[doc(hidden)]
pub use engine::{EngineInfo, nearest_name, parse_bytes};
pub use error::{Error, Result};
pub use key::{KEY_LENGTH_MAX, VALUE_LENGTH_MAX};
pub use progress::Progress;
#[doc(inline)]
pub use siltstone_device::{Access, IoCount, IoSnapshot, Purpose};
pub use stats::{DegradedStore, Latency, RamAccount, Shape, Stats, StoreKind, Usage};
