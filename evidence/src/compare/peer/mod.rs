//! The stores that are compared: one file per store, with one small trait.

#[cfg(feature = "peers")]
mod berkeleydb;
#[cfg(feature = "peers")]
mod fjall;
pub mod idle;
#[cfg(feature = "peers")]
mod leveldb;
#[cfg(feature = "peers")]
mod lmdb;
#[cfg(feature = "peers")]
mod redb;
#[cfg(feature = "peers")]
mod rocksdb;
mod siltstone;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Instant;

/// How a store is opened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Opening {
    /// A directory for this store alone.
    pub directory: PathBuf,
    /// The number of keys that it will hold.
    pub keys: u64,
    /// The length of every key, in bytes.
    pub key_size: usize,
    /// The length of every value, in bytes.
    pub value_size: usize,
    /// The size of its caches, in bytes.
    pub cache_bytes: u64,
    /// Whether reads, and writes of files other than the log, use direct I/O, if the store supports it.
    pub direct: bool,
    /// The bytes on the device per byte of the records that the store has to keep to, if it supports that.
    pub space: Option<f64>,
    /// Whether the store has to keep the order of the keys, if it does so by choice.
    pub ordered: bool,
    /// The directory to which records leave, and the size of flash as a share of the records, if the store has both.
    pub disk: Option<(PathBuf, f64)>,
    /// Whether the open segments of logs have to be a small part of the records, if the store has segments: they are in
    /// the page cache.
    pub small_segments: bool,
    /// Whether a store without a cache of its own gets a cache of records of `cache_bytes`, if it supports that.
    pub record_cache: bool,
}

/// A record of a batch.
pub type Record = (Vec<u8>, Vec<u8>);

/// A store as the comparison uses it. When a write returns, it survives the process, but not a power loss.
pub trait Peer: Send + Sync {
    /// Calls `show` with the value of a key, if it exists. Returns whether it exists.
    fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Sets the value of a key.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Returns the number of puts per transaction when many are written.
    fn batch(&self) -> usize {
        1
    }

    /// Puts many records, in one transaction if the store supports it.
    fn put_many(&self, records: &[Record]) -> Result<()> {
        records.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    /// Calls `show` with the values of many keys, each with its position among the keys.
    fn get_many(&self, keys: &[Vec<u8>], show: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            self.get(key, &mut |value| show(place, value))?;
        }
        Ok(())
    }

    /// Calls `show` with the records in the order of their keys, from `first` on, at most `limit` of them.
    fn scan(&self, _first: &[u8], _limit: usize, _show: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        bail!("this store has no order of keys")
    }

    /// Waits until no background work is left, and returns when it ended.
    fn settle(&self) -> Result<Instant>;

    /// Returns the memory that the store reports, in bytes, if it does.
    fn memory_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Returns further counters of the store, by name.
    fn details(&self) -> Result<Vec<(String, f64)>> {
        Ok(vec![])
    }
}

/// A store with a set of options.
pub struct Kind {
    /// The name on the command line.
    pub name: &'static str,
    /// The name in tables.
    pub title: &'static str,
    /// Whether it can use direct I/O.
    pub has_direct: bool,
    /// Opens or creates it.
    pub open: fn(&Opening) -> Result<Box<dyn Peer>>,
    /// The version, and the options that differ from the store's defaults.
    pub options: fn(&Opening) -> String,
}

/// All stores, in display order.
pub const KINDS: &[Kind] = &[
    siltstone::DEFAULT,
    siltstone::FIXED,
    siltstone::FLASHKEY,
    #[cfg(feature = "peers")]
    rocksdb::BLOOM,
    #[cfg(feature = "peers")]
    rocksdb::LOW_RAM,
    #[cfg(feature = "peers")]
    rocksdb::BLOB,
    #[cfg(feature = "peers")]
    fjall::FJALL,
    #[cfg(feature = "peers")]
    fjall::SEPARATED,
    #[cfg(feature = "peers")]
    leveldb::LEVELDB,
    #[cfg(feature = "peers")]
    lmdb::LMDB,
    #[cfg(feature = "peers")]
    redb::REDB,
    #[cfg(feature = "peers")]
    berkeleydb::BERKELEYDB,
];

/// Stores that run only where they are named: that of the traces has more settings than tables have.
static BY_NAME: [Kind; 2] = [siltstone::FLASHSTORE, siltstone::BLOOMSTORE];

/// Returns the store of this name.
pub fn by_name(name: &str) -> Result<&'static Kind> {
    match KINDS.iter().chain(&BY_NAME).find(|kind| kind.name == name) {
        Some(kind) => Ok(kind),
        None => {
            let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
            let others = match cfg!(feature = "peers") {
                true => "",
                false => "; others need a build with the feature peers",
            };
            bail!("there is no peer {name}; there are {}{others}", names.join(", "))
        }
    }
}

/// Returns a line for each store, with its options.
pub fn list() -> String {
    let opening = Opening {
        directory: "".into(),
        keys: 0,
        key_size: 0,
        value_size: 0,
        cache_bytes: 64 << 20,
        direct: false,
        space: None,
        ordered: false,
        disk: None,
        small_segments: false,
        record_cache: false,
    };
    let line = |kind: &Kind| format!("{:>16}  {}: {}\n", kind.name, kind.title, (kind.options)(&opening));
    KINDS.iter().map(line).collect()
}
