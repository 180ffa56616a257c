//! A key-value store for flash whose memory hardly grows with its data: a fraction of a byte of RAM a key, one flash
//! read a lookup, and a write amplification that a setting bounds.
//!
//! ```
//! # fn main() -> siltstone::Result<()> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("chunks");
//! use siltstone::{Batch, Database, Durability, WriteOptions};
//!
//! // An index of chunks: 32-byte hashes with 8 bytes each. Other databases take records of any size.
//! let database = Database::builder(&path).fixed(32, 8).hashed_keys().open()?;
//! let (seen, new) = ([0x17; 32], [0x71; 32]);
//! assert!(database.insert_if_absent(seen, 4096u64.to_le_bytes())?);
//! assert_eq!(database.contains_many(&[seen, new])?, [true, false]);
//!
//! let mut batch = Batch::new();
//! batch.put(new, 8192u64.to_le_bytes())?.delete(seen)?;
//! database.write_with(&batch, WriteOptions::default().durability(Durability::Synced))?;
//! assert_eq!(database.get(new)?.as_deref(), Some(&8192u64.to_le_bytes()[..]));
//!
//! println!("{} bytes of memory", database.stats().ram.total_bytes());
//! database.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # The rooms
//!
//! Each module is a room and names only those above it in this list; `docs/ARCHITECTURE.md` tells how they work
//! together.
//!
//! - [`index`]: structures in memory that tell from the hashes of a key where its record may stand (entropy-coded
//!   trie, fences, perfect hashes, partial-key cuckoo hashing) or that it is not there (filters). Of use by
//!   themselves.
//! - [`model`]: what a store will cost in memory, reads, writes and flash lifetime, before it is built, and a planner
//!   that chooses. It knows nobody, and nobody needs it.
//! - [`device`]: directories and files, real or in memory, through the page cache or past it. Every operation is
//!   counted by its purpose. The only room with file descriptors.
//! - [`mica`]: MICA's stores and caches in memory, usable without a database.
//! - [`store`]: what stands on flash: records, blocks, the log, HashStores, SortedStores, the manifest; merging and
//!   sorting. `docs/formats/README.md` draws the bytes and says what stays readable.
//! - [`engine`]: stores composed into a key-value store, and when what is converted and merged. Driven by bounded
//!   steps and told the time, so that a simulation can replay it.
//! - [`Dictionary`]: a file of records that is built once and read by many processes.
//! - [`Database`] and its [`Builder`]: the face. Threads, the pace of writers, the clock.
//!
//! Beside them stand [`key`], [`batch`], [`stats`] and [`Error`]: the words that all rooms share.
//!
//! # The papers
//!
//! `docs/PAPERS.md` goes through them section by section; `docs/GLOSSARY.md` has their terms.
//!
//! - SILT (Lim, Fan, Andersen, Kaminsky, SOSP 2011; Lim's dissertation, chapter 2): [`engine::silt`] and its stores.
//! - Entropy-coded tries (the dissertation's chapter 3): [`index::entropy_trie`], and [`Dictionary`], its external
//!   dictionary.
//! - Analyzing multi-stage log-structured designs (chapter 4): [`model`].
//! - MICA (chapter 5): [`engine::mica`] and [`mica`], its structures in memory; over UDP in the crate
//!   `siltstone-network`.
//! - FlashStore (VLDB 2010), FlashKey, BloomStore (MSST 2012): models of them in [`model`]; not yet engines.

pub mod batch;
mod cache;
mod damage;
mod database;
pub mod device;
mod dictionary;
pub mod engine;
mod error;
mod health;
pub mod index;
pub mod key;
pub mod mica;
pub mod model;
mod progress;
pub mod stats;
pub mod store;
mod sync;
#[doc(hidden)]
pub mod testing;

pub use batch::{Batch, Durability};
pub use bytes::Bytes;
pub use damage::{Damage, DamagedPart, KeyRange, RepairReport, VerifyReport};
pub use database::{Builder, Database, Iter, RepairOptions, WriteOptions};
pub use device::Access;
pub use dictionary::{
    DICTIONARY_VERSION, Dictionary, DictionaryBuilder, DictionaryIndex, DictionaryInfo, DictionaryIter,
    DictionaryOptions, DictionaryWriter,
};
pub use engine::mica::MicaSettings;
pub use engine::silt::{FilterKind, HashStoreKind, IndexKind};
pub use engine::{Change, EngineKind, Found, Record, Step};
pub use error::{Error, Result};
pub use progress::Progress;
pub use stats::{DegradedStore, RamAccount, Shape, Stats, StoreKind, Usage};
