//! redb.

use super::{Kind, Opening, Peer, Record};
use anyhow::Result;
use redb::{Database, Durability, ReadableDatabase, TableDefinition, WriteTransaction};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

const RECORDS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");
const BATCH: usize = 1000;
/// Only durable commits free pages: there is at least one per this number of puts.
const PUTS_PER_DURABLE_COMMIT: u64 = 100_000;

/// Commits without a sync, except for periodic durable ones.
pub const REDB: Kind = Kind {
    name: "redb",
    title: "redb",
    has_direct: false,
    open,
    options: |opening| {
        format!(
            "4.5: cache {} B, Durability::None but for a durable commit every {PUTS_PER_DURABLE_COMMIT} puts, {BATCH} \
             puts per transaction where many are written, else one",
            opening.cache_bytes
        )
    },
};

fn open(opening: &Opening) -> Result<Box<dyn Peer>> {
    std::fs::create_dir_all(&opening.directory)?;
    let database = Database::builder()
        .set_cache_size(opening.cache_bytes as usize)
        .create(opening.directory.join("records.redb"))?;
    let transaction = database.begin_write()?;
    transaction.open_table(RECORDS)?;
    transaction.commit()?;
    Ok(Box::new(Redb { database, puts: AtomicU64::new(0) }))
}

struct Redb {
    database: Database,
    puts: AtomicU64,
}

impl Redb {
    fn write(&self, puts: u64, work: impl FnOnce(&WriteTransaction) -> Result<()>) -> Result<()> {
        let mut transaction = self.database.begin_write()?;
        let before = self.puts.fetch_add(puts, Relaxed);
        if before / PUTS_PER_DURABLE_COMMIT == (before + puts) / PUTS_PER_DURABLE_COMMIT {
            transaction.set_durability(Durability::None)?;
        }
        work(&transaction)?;
        Ok(transaction.commit()?)
    }
}

impl Peer for Redb {
    fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let table = self.database.begin_read()?.open_table(RECORDS)?;
        Ok(table.get(key)?.map(|value| show(value.value())).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(1, |transaction| {
            transaction.open_table(RECORDS)?.insert(key, value)?;
            Ok(())
        })
    }

    fn batch(&self) -> usize {
        BATCH
    }

    fn put_many(&self, records: &[Record]) -> Result<()> {
        self.write(records.len() as u64, |transaction| {
            let mut table = transaction.open_table(RECORDS)?;
            for (key, value) in records {
                table.insert(key.as_slice(), value.as_slice())?;
            }
            Ok(())
        })
    }

    fn settle(&self) -> Result<Instant> {
        self.database.begin_write()?.commit()?;
        Ok(Instant::now())
    }
}
