//! Fjall. Its reported memory is that of its cache and its memtables, without the indexes and filters that it pins.

use super::{Kind, Opening, Peer, idle};
use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::time::Instant;

/// With its defaults: Bloom filters of 10 bits per key and leveled compaction.
pub const FJALL: Kind = Kind {
    name: "fjall",
    title: "Fjall",
    has_direct: false,
    open,
    options: |opening| {
        format!(
            "3.1: compression off, cache {} B, Bloom filters as by default (10 bits per key)",
            opening.cache_bytes
        )
    },
};

fn open(opening: &Opening) -> Result<Box<dyn Peer>> {
    let database = Database::builder(&opening.directory).cache_size(opening.cache_bytes).open()?;
    let records = database.keyspace("records", KeyspaceCreateOptions::default)?;
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

    fn settle(&self) -> Result<Instant> {
        self.records.rotate_memtable_and_wait()?;
        self.database.persist(PersistMode::Buffer)?;
        idle::wait()
    }

    fn memory_bytes(&self) -> Result<Option<u64>> {
        Ok(Some(self.database.cache_size() + self.database.write_buffer_size()))
    }
}
