//! Fjall. Its reported memory is that of its cache and its memtables, without the indexes and filters that it pins.

use super::{Kind, Opening, Peer, idle};
use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};
use std::time::Instant;

/// With its defaults: Bloom filters of 10 bits per key and leveled compaction.
pub const FJALL: Kind = Kind {
    name: "fjall",
    title: "Fjall",
    has_direct: false,
    open: |opening| open(opening, None),
    options: |opening| options(opening, ""),
};

/// With values of at least [`BLOB_BYTES_MIN`] kept apart from the keys, and their garbage collection as by default.
pub const SEPARATED: Kind = Kind {
    name: "fjall-blob",
    title: "Fjall, values apart",
    has_direct: false,
    open: |opening| {
        let separation = KvSeparationOptions::default();
        let separation = separation.separation_threshold(BLOB_BYTES_MIN).file_target_size(BLOB_FILE_BYTES);
        open(opening, Some(separation))
    },
    options: |opening| {
        options(
            opening,
            ", values of 256 B and more in blob files of 16 MiB, collected from 25 % of garbage on",
        )
    },
};

/// The size from which a value is in a blob file, in bytes.
const BLOB_BYTES_MIN: u32 = 256;
/// The size of a blob file: small enough that the data have several of each age.
const BLOB_FILE_BYTES: u64 = 16 << 20;

fn options(opening: &Opening, more: &str) -> String {
    let cache = opening.cache_bytes;
    format!("3.1: compression off, cache {cache} B, Bloom filters as by default (10 bits per key){more}")
}

fn open(opening: &Opening, separation: Option<KvSeparationOptions>) -> Result<Box<dyn Peer>> {
    let database = Database::builder(&opening.directory).cache_size(opening.cache_bytes).open()?;
    let records =
        database.keyspace("records", || KeyspaceCreateOptions::default().with_kv_separation(separation))?;
    Ok(Box::new(Fjall { database, records }))
}

struct Fjall {
    database: Database,
    records: Keyspace,
}

impl Peer for Fjall {
    fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.records.get(key)?.map(|value| show(&value)).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.records.insert(key, value)?)
    }

    fn scan(&self, first: &[u8], limit: usize, show: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        for record in self.records.range(first..).take(limit) {
            let (key, value) = record.into_inner()?;
            show(&key, &value);
        }
        Ok(())
    }

    fn settle(&self) -> Result<Instant> {
        self.records.rotate_memtable_and_wait()?;
        self.database.persist(PersistMode::Buffer)?;
        idle::wait()
    }

    fn memory_bytes(&self) -> Result<Option<u64>> {
        Ok(Some(self.database.cache_size() + self.database.write_buffer_size()))
    }
}
