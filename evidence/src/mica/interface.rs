//! What the requests go through: MICA's handles, a database, or, for comparison, a bare hash map.

use super::trace::Asked;
use super::worker::RequestResults;
use super::{Memory, Settings, share};
use crate::Result;
use hashbrown::HashMap;
use siltstone::{Database, MicaSettings};
use siltstone_bench::named;
use siltstone_mica::{CacheSettings, ItemLayout, StoreSettings};
use std::sync::Arc;
use tempfile::TempDir;

/// The partitions of the database.
const PARTITIONS: u64 = 16;
/// The bytes of a bucket of the index.
const BUCKET_BYTES: u64 = 64;

/// What the requests go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interface {
    /// MICA's handles, in batches.
    #[default]
    Handles,
    /// A database, each get on its own: `Database::get_into`.
    Database,
    /// A database, the gets of a batch in one call: `Database::get_many_with`.
    DatabaseMany,
    /// A database, the gets of a batch in one call that returns the values: `Database::get_many`.
    DatabaseValues,
    /// A hash map of numbers, without expiry times, other threads or items of other sizes.
    Map,
}

named!(Interface);

impl Interface {
    /// All interfaces.
    pub const ALL: [Interface; 5] = [
        Interface::Handles,
        Interface::Database,
        Interface::DatabaseMany,
        Interface::DatabaseValues,
        Interface::Map,
    ];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Interface::Handles => "handles",
            Interface::Database => "database",
            Interface::DatabaseMany => "database_many",
            Interface::DatabaseValues => "database_values",
            Interface::Map => "map",
        }
    }
}

/// A database of the engine `mica`.
#[derive(Clone)]
pub(super) struct OpenDatabase {
    database: Database,
    /// The engine writes no records to it, but a database has a directory.
    _directory: Arc<TempDir>,
}

impl OpenDatabase {
    /// Opens a database with space for the items, in the number of partitions that it has by default.
    pub fn open(settings: &Settings, layout: ItemLayout) -> Result<OpenDatabase> {
        let Settings { key_size, value_size, .. } = *settings;
        let share = share(settings.items, PARTITIONS);
        let (item_bytes, buckets) = if settings.cache {
            let cache = CacheSettings::for_items(layout, share, key_size, value_size);
            (cache.log_bytes, cache.buckets)
        } else {
            let store = StoreSettings::for_items(layout, share, key_size, value_size);
            (store.item_bytes + store.item_bytes / 64, store.buckets + store.spare_buckets)
        };
        // A hundredth and a page are spare, because the engine rounds its parts down.
        let bytes = item_bytes + u64::from(buckets) * BUCKET_BYTES;
        let bytes = PARTITIONS * (bytes + bytes / 100 + (4 << 10)).max(64 << 10);
        let engine = MicaSettings::default().eviction(settings.cache.then_some(settings.eviction));
        let directory = tempfile::tempdir()?;
        let builder = Database::builder(directory.path()).memory_budget(bytes);
        let builder = match layout.fixed {
            Some((key_size, value_size)) => builder.engine(engine).fixed(key_size, value_size),
            None => builder.engine(engine.record_bytes(key_size + value_size)),
        };
        let database = builder.partitions(PARTITIONS as u32).open()?;
        Ok(OpenDatabase { database, _directory: Arc::new(directory) })
    }

    /// Returns the memory of the engine.
    pub fn memory(&self) -> Memory {
        let stats = self.database.stats();
        let index = stats.ram.items().iter().find(|(item, _)| *item == "index");
        let huge = stats.details.iter().find(|(item, _)| *item == "huge_page_bytes");
        Memory {
            all_bytes: stats.ram.total_bytes(),
            index_bytes: index.map_or(0, |(_, bytes)| *bytes),
            huge_bytes: huge.map_or(0, |(_, bytes)| *bytes as u64),
        }
    }

    /// Executes requests in batches: first all puts of a batch, each on its own, then all gets.
    pub fn execute(&self, settings: &Settings, trace: &[Asked]) -> Result<RequestResults> {
        let mut results = RequestResults::default();
        let mut record = Record { key: vec![0; settings.key_size], value: vec![0; settings.value_size] };
        let mut keys = vec![0; settings.key_size * settings.batch_size];
        let mut found = Vec::new();
        for batch in trace.chunks(settings.batch_size) {
            for asked in batch.iter().filter(|asked| asked.is_put) {
                record.set(asked);
                self.database.put(&record.key, &record.value)?;
                results.count_put();
            }
            let gets = || batch.iter().filter(|asked| !asked.is_put);
            if settings.interface == Interface::Database {
                for asked in gets() {
                    record.set(asked);
                    found.clear();
                    let is_found = self.database.get_into(&record.key, &mut found)?.is_some();
                    results.count_get(&record.key, is_found.then_some(&found));
                }
                continue;
            }
            let rows = keys.chunks_exact_mut(settings.key_size);
            let count = gets().zip(rows).map(|(asked, key)| key[..8].copy_from_slice(&asked.key)).count();
            let wanted: Vec<&[u8]> = keys.chunks_exact(settings.key_size).take(count).collect();
            if settings.interface == Interface::DatabaseMany {
                self.database.get_many_with(&wanted, |number, found| {
                    results.count_get(wanted[number], found.map(|found| found.value));
                })?;
            } else {
                let values = self.database.get_many(&wanted)?;
                wanted.iter().zip(values).for_each(|(key, value)| results.count_get(key, value.as_deref()));
            }
        }
        Ok(results)
    }
}

/// A record that is put or looked up.
struct Record {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Record {
    fn set(&mut self, asked: &Asked) {
        self.key[..8].copy_from_slice(&asked.key);
        let length = self.value.len().min(8);
        self.value[..length].copy_from_slice(&asked.key[..length]);
    }
}

/// A hash map of 64-bit numbers.
pub(super) struct Map(HashMap<u64, u64>);

impl Map {
    /// Makes a map with space for the items.
    pub fn new(settings: &Settings) -> Map {
        Map(HashMap::with_capacity(settings.items as usize))
    }

    /// Returns the memory of the map.
    pub fn memory(&self) -> Memory {
        let all_bytes = self.0.allocation_size() as u64;
        Memory { all_bytes, index_bytes: all_bytes.saturating_sub(16 * self.0.len() as u64), huge_bytes: 0 }
    }

    /// Executes requests in their order.
    pub fn execute(&mut self, trace: &[Asked]) -> RequestResults {
        let mut results = RequestResults::default();
        for asked in trace {
            let key = u64::from_le_bytes(asked.key);
            if asked.is_put {
                self.0.insert(key, key);
                results.count_put();
            } else {
                let value = self.0.get(&key).map(|value| value.to_le_bytes());
                results.count_get(&asked.key, value.as_ref().map(|value| &value[..]));
            }
        }
        results
    }
}
