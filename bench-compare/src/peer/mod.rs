//! The stores that are compared: one file a peer behind one small trait.

mod berkeleydb;
mod fjall;
mod idle;
mod leveldb;
mod lmdb;
mod redb;
mod rocksdb;
mod siltstone;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Instant;

/// How a store is opened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Opening {
    /// The directory of its own.
    pub directory: PathBuf,
    /// How many keys it will hold.
    pub keys: u64,
    /// The length of every key, in bytes.
    pub key_size: usize,
    /// The length of every value, in bytes.
    pub value_size: usize,
    /// What its caches may hold, in bytes.
    pub cache_bytes: u64,
    /// Whether reads go past the system's page cache, where the store can do that.
    pub direct: bool,
}

/// A record of a batch.
pub type Record = (Vec<u8>, Vec<u8>);

/// A store as the comparison uses it. Writes survive the process, but not the machine, when they return.
pub trait Peer: Send + Sync {
    /// Shows the value of a key, if there is one, and says whether there was.
    fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Gives a key a value.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// How many puts belong into one transaction when many are to be written.
    fn batch(&self) -> usize {
        1
    }

    /// Puts many, with one transaction if the store has such.
    fn put_many(&self, records: &[Record]) -> Result<()> {
        records.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    /// Shows the values of many keys, each with its place among the keys.
    fn get_many(&self, keys: &[Vec<u8>], show: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            self.get(key, &mut |value| show(place, value))?;
        }
        Ok(())
    }

    /// Returns when no background work is left, and tells when it ended.
    fn settle(&self) -> Result<Instant>;

    /// The memory that the store says it uses, in bytes, if it says so.
    fn memory_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// What else the store counts, by name.
    fn details(&self) -> Result<Vec<(String, f64)>> {
        Ok(vec![])
    }
}

/// One store with one choice of options.
pub struct Kind {
    /// The name as it is typed.
    pub name: &'static str,
    /// The name as it is shown.
    pub title: &'static str,
    /// Opens it, or creates it.
    pub open: fn(&Opening) -> Result<Box<dyn Peer>>,
    /// The version and the options that differ from the store's own defaults.
    pub options: fn(&Opening) -> String,
}

/// All stores, in the order of their display.
pub const KINDS: [Kind; 9] = [
    siltstone::DEFAULT,
    siltstone::FIXED,
    rocksdb::BLOOM,
    rocksdb::LOW_RAM,
    fjall::FJALL,
    leveldb::LEVELDB,
    lmdb::LMDB,
    redb::REDB,
    berkeleydb::BERKELEYDB,
];

/// The store of that name.
pub fn by_name(name: &str) -> Result<&'static Kind> {
    match KINDS.iter().find(|kind| kind.name == name) {
        Some(kind) => Ok(kind),
        None => {
            let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
            bail!("there is no peer {name}; there are {}", names.join(", "))
        }
    }
}
