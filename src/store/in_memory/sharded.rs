//! A cache that all threads of a process share: partitions that anybody reads and writes.

use super::{CacheSettings, CircularLog, Crcw, Full, HashedKey, ItemShape, Shared};
use crate::batch::{NEVER, TimestampMs};
use crate::{Error, Result};
use parking_lot::RwLock;

/// A cache of records of any size, for any thread. What does not fit gives way to what is younger or was asked for more
/// recently; a record is there with its last value, or absent.
///
/// It is no place for large records: one of more than a shard's memory is not kept.
pub struct ShardedCache {
    shards: Vec<RwLock<Shared<CircularLog>>>,
    shard_bits: u32,
    record_bytes: usize,
}

/// The least memory of a shard, in bytes.
const SHARD_BYTES_MIN: u64 = 16 << 10;

impl ShardedCache {
    /// A cache of about `memory_bytes`, index included, in 2^`shard_bits` shards (at most 2^10), for records of
    /// `record_bytes` of key and value on average: a wrong guess costs memory or hits, and nothing else.
    ///
    /// # Errors
    /// [`Error::Setting`] for a size outside the limits: 16 KiB to 16 GiB a shard; [`Error::Io`] if the system does not
    /// grant the memory.
    pub fn new(memory_bytes: u64, record_bytes: usize, shard_bits: u32) -> Result<Self> {
        if shard_bits > 10 {
            return Err(Error::Setting { name: "shard_bits", problem: format!("{shard_bits}: at most 10") });
        }
        let shards = (0..1 << shard_bits)
            .map(|_| Ok(RwLock::new(shard(memory_bytes, record_bytes, shard_bits)?)))
            .collect::<Result<_>>()?;
        Ok(ShardedCache { shards, shard_bits, record_bytes })
    }

    #[inline]
    fn shard(&self, hash: u64) -> &RwLock<Shared<CircularLog>> {
        // `hash >> 64` would overflow; the shift by two steps is 0 with no bits.
        &self.shards[(hash >> 1 >> (63 - self.shard_bits)) as usize]
    }

    /// Appends the value of a key to `to`; answers its expiry time, or `None` if it is not there.
    pub fn get(&self, key: HashedKey<'_>, now_ms: TimestampMs, to: &mut Vec<u8>) -> Option<TimestampMs> {
        self.shard(key.hash).read().get_and_keep(key, now_ms, to)
    }

    /// Keeps the value of a key, in place of an older one. If it cannot be kept, the key is absent afterwards.
    pub fn insert(&self, key: HashedKey<'_>, value: &[u8], expires_at_ms: TimestampMs) {
        let shard = self.shard(key.hash).read();
        if let Err(Full::Memory | Full::Index | Full::Item | Full::Shape) =
            shard.put(key, value, expires_at_ms)
        {
            shard.remove(key);
        }
    }

    /// [`insert`](ShardedCache::insert) of a value that never expires.
    pub fn insert_forever(&self, key: HashedKey<'_>, value: &[u8]) {
        self.insert(key, value, NEVER);
    }

    /// Forgets a key; answers whether it was there.
    pub fn remove(&self, key: HashedKey<'_>) -> bool {
        self.shard(key.hash).read().remove(key)
    }

    /// Takes another size. Forgets everything.
    ///
    /// # Errors
    /// As [`new`](ShardedCache::new); shards that were not yet reached keep their size and records.
    pub fn resize(&self, memory_bytes: u64) -> Result<()> {
        for one in &self.shards {
            let fresh = shard(memory_bytes, self.record_bytes, self.shard_bits)?;
            *one.write() = fresh;
        }
        Ok(())
    }

    /// The records, expired ones included. Goes through the index: some 10 ns for each 5 records.
    pub fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.read().len()).sum()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All its memory, in bytes, as it is when all of it was touched.
    pub fn heap_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.read().account().total_bytes()).sum()
    }
}

fn shard(memory_bytes: u64, record_bytes: usize, shard_bits: u32) -> Result<Shared<CircularLog>> {
    let bytes = memory_bytes >> shard_bits;
    if bytes < SHARD_BYTES_MIN {
        let problem =
            format!("{bytes} bytes for each of {} shards: at least {SHARD_BYTES_MIN}", 1 << shard_bits);
        return Err(Error::Setting { name: "memory_bytes", problem });
    }
    let settings = CacheSettings::for_memory(ItemShape::default(), bytes, record_bytes);
    Ok(CacheSettings { partition_bits: shard_bits, ..settings }.open::<Crcw>()?.share())
}
