//! RocksDB: with a Bloom filter of 10 bits per key, configured for little memory, and with its values in blob files.

use super::{Kind, Opening, Peer, Record};
use anyhow::Result;
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DB, DBCompressionType, Direction, IteratorMode, Options,
    ReadOptions, WaitForCompactOptions, WriteBatch,
};
use std::time::Instant;

const BLOOM_BITS: f64 = 10.0;
const METADATA_BLOCK_BYTES: usize = 4096;

/// With a Bloom filter; indexes and filters are in memory outside the cache.
pub const BLOOM: Kind = Kind {
    name: "rocksdb",
    title: "RocksDB, Bloom filter",
    has_direct: true,
    open: |opening| open(opening, |_| {}, |_| {}),
    options: |opening| {
        options(opening, "Bloom filter of 10 bits per key, index and filters outside the cache")
    },
};

/// With a partitioned index and partitioned ribbon filters inside the block cache.
pub const LOW_RAM: Kind = Kind {
    name: "rocksdb-lowram",
    title: "RocksDB, low RAM",
    has_direct: true,
    open: |opening| open(opening, set_low_ram, |_| {}),
    options: |opening| {
        options(
            opening,
            "partitioned two-level index and ribbon filters (equivalent to Bloom filters of 10 bits per key) in partitions \
             of 4 KiB inside the cache, with high priority",
        )
    },
};

/// With values of at least [`BLOB_BYTES_MIN`] in blob files, and their garbage collection.
pub const BLOB: Kind = Kind {
    name: "rocksdb-blob",
    title: "RocksDB, BlobDB",
    has_direct: true,
    open: |opening| open(opening, |_| {}, set_blobs),
    options: |opening| {
        options(
            opening,
            "Bloom filter of 10 bits per key, index and filters outside the cache, values of 256 B and more in blob \
             files of 16 MiB, their garbage collection on for the older half and forced at 25 % of garbage",
        )
    },
};

/// The size from which a value is in a blob file, in bytes.
const BLOB_BYTES_MIN: u64 = 256;
/// The size of a blob file: small enough that the data have several of each age.
const BLOB_FILE_BYTES: u64 = 16 << 20;
const BLOB_AGE_CUTOFF: f64 = 0.5;
const BLOB_GARBAGE_MAX: f64 = 0.25;

fn set_blobs(options: &mut Options) {
    options.set_enable_blob_files(true);
    options.set_min_blob_size(BLOB_BYTES_MIN);
    options.set_blob_file_size(BLOB_FILE_BYTES);
    options.set_enable_blob_gc(true);
    options.set_blob_gc_age_cutoff(BLOB_AGE_CUTOFF);
    options.set_blob_gc_force_threshold(BLOB_GARBAGE_MAX);
}

fn set_low_ram(table: &mut BlockBasedOptions) {
    table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    table.set_ribbon_filter(BLOOM_BITS);
    table.set_partition_filters(true);
    table.set_metadata_block_size(METADATA_BLOCK_BYTES);
    table.set_cache_index_and_filter_blocks(true);
    table.set_cache_index_and_filter_blocks_with_high_priority(true);
    table.set_optimize_filters_for_memory(true);
}

fn options(opening: &Opening, table: &str) -> String {
    let direct = if opening.direct { ", direct reads, flushes and compactions" } else { "" };
    let cache = opening.cache_bytes;
    format!("11.8.1: compression off, LRU cache {cache} B, {table}{direct}")
}

fn open(
    opening: &Opening,
    adapt: fn(&mut BlockBasedOptions),
    separate: fn(&mut Options),
) -> Result<Box<dyn Peer>> {
    let cache = Cache::new_lru_cache(opening.cache_bytes as usize);
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&cache);
    table.set_bloom_filter(BLOOM_BITS, false);
    adapt(&mut table);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    options.set_block_based_table_factory(&table);
    separate(&mut options);
    options.set_use_direct_reads(opening.direct);
    options.set_use_direct_io_for_flush_and_compaction(opening.direct);
    Ok(Box::new(RocksDb { database: DB::open(&options, &opening.directory)?, cache }))
}

struct RocksDb {
    database: DB,
    cache: Cache,
}

impl Peer for RocksDb {
    fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.database.get_pinned(key)?.map(|value| show(&value)).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.database.put(key, value)?)
    }

    fn put_many(&self, records: &[Record]) -> Result<()> {
        let mut batch = WriteBatch::default();
        records.iter().for_each(|(key, value)| batch.put(key, value));
        Ok(self.database.write(batch)?)
    }

    fn get_many(&self, keys: &[Vec<u8>], show: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (place, value) in
            self.database.multi_get_opt(keys, &ReadOptions::default()).into_iter().enumerate()
        {
            if let Some(value) = value? {
                show(place, &value);
            }
        }
        Ok(())
    }

    fn scan(&self, first: &[u8], limit: usize, show: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        for record in self.database.iterator(IteratorMode::From(first, Direction::Forward)).take(limit) {
            let (key, value) = record?;
            show(&key, &value);
        }
        Ok(())
    }

    fn settle(&self) -> Result<Instant> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        self.database.wait_for_compact(&options)?;
        Ok(Instant::now())
    }

    fn memory_bytes(&self) -> Result<Option<u64>> {
        let caches = [&self.cache];
        let usage = rocksdb::perf::get_memory_usage_stats(Some(&[&self.database]), Some(&caches))?;
        Ok(Some(usage.mem_table_total + usage.mem_table_readers_total + usage.cache_total))
    }
}
