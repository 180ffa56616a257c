//! LMDB. It has no cache of its own and relies on the page cache.

use super::{Kind, Opening, Peer, Record};
use anyhow::Result;
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, WithoutTls};
use std::ops::Bound;
use std::time::Instant;

const BATCH: usize = 1000;
const READERS_MAX: u32 = 128;
/// The maximum size of the map, relative to the bytes of the records.
const MAP_FACTOR: u64 = 8;
const MAP_BYTES_MIN: u64 = 1 << 30;

/// Without a sync per commit, and without read-ahead.
pub const LMDB: Kind = Kind {
    name: "lmdb",
    title: "LMDB",
    has_direct: false,
    open,
    options: |_| {
        format!(
            "0.9.70 (master): NOSYNC, NORDAHEAD, {BATCH} puts per transaction where many are written, else one; no cache"
        )
    },
};

fn open(opening: &Opening) -> Result<Box<dyn Peer>> {
    std::fs::create_dir_all(&opening.directory)?;
    let bytes = opening.keys * (opening.key_size + opening.value_size) as u64;
    let map_bytes = (bytes * MAP_FACTOR).max(MAP_BYTES_MIN).next_multiple_of(1 << 20);
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(map_bytes as usize).max_readers(READERS_MAX);
    // SAFETY: only this process uses the directory, and without syncs only a power loss could do harm.
    let environment = unsafe {
        options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_READ_AHEAD);
        options.open(&opening.directory)?
    };
    let mut transaction = environment.write_txn()?;
    let records = environment.create_database(&mut transaction, None)?;
    transaction.commit()?;
    Ok(Box::new(Lmdb { environment, records }))
}

struct Lmdb {
    environment: Env<WithoutTls>,
    records: Database<Bytes, Bytes>,
}

impl Peer for Lmdb {
    fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let transaction = self.environment.read_txn()?;
        Ok(self.records.get(&transaction, key)?.map(show).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut transaction = self.environment.write_txn()?;
        self.records.put(&mut transaction, key, value)?;
        Ok(transaction.commit()?)
    }

    fn scan(&self, first: &[u8], limit: usize, show: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let transaction = self.environment.read_txn()?;
        let bounds = (Bound::Included(first), Bound::Unbounded);
        for record in self.records.range(&transaction, &bounds)?.take(limit) {
            let (key, value) = record?;
            show(key, value);
        }
        Ok(())
    }

    fn batch(&self) -> usize {
        BATCH
    }

    fn put_many(&self, records: &[Record]) -> Result<()> {
        let mut transaction = self.environment.write_txn()?;
        for (key, value) in records {
            self.records.put(&mut transaction, key, value)?;
        }
        Ok(transaction.commit()?)
    }

    fn settle(&self) -> Result<Instant> {
        self.environment.force_sync()?;
        Ok(Instant::now())
    }
}
