//! MICA (dissertation, chapter 5): all data in memory, in partitions, as a store or as a cache. The structures are in
//! [`siltstone_mica`]; this module combines them into an engine.
//!
//! | file | contents |
//! |---|---|
//! | `scan` | pages of records in hash order |
//! | `settings` | how much memory, and for what |
//! | `snapshot` | a copy of all records |
//! | `write` | single writes, and several writes over partitions, all or none |
//!
//! Partitions are CREW: a get takes no lock, and the writes to a partition take its lock one after the other. A get
//! compares the version of the bucket before and after, and repeats if it has changed; in a circular log it also checks
//! whether the item was overwritten meanwhile. Batches overlap the two cache misses of a get.
//!
//! In a cache, gets and puts are uses of an item, as its `Eviction` defines. A get whose item has to move to the tail
//! tries to lock the partition for writing. If it gets the lock, it appends the item again. If not, the item stays
//! where it is. So the policy sees a sample of the gets that run next to writers, as in the dissertation, and no get
//! waits.
//!
//! Deviation: the dissertation's server assigns each partition to one core; here any thread may write.
//!
//! Nothing survives the process. The space of an expired record is freed when its key is written again, or when the
//! memory is full.

mod scan;
mod settings;
mod snapshot;
mod write;

#[cfg(test)]
mod tests;

pub use settings::MicaSettings;
pub use siltstone_mica::Eviction;

use crate::batch::{Durability, HashedWrite, TimestampMs};
use crate::damage::VerifyReport;
use crate::engine::settings::SettingsTable;
use crate::engine::writes::Writes;
use crate::engine::{
    Capabilities, Changing, Engine, GoOn, InMemory, Now, Record, ScanLimit, ScanPage, Show, Shown, Snapshot,
    info,
};
use crate::error::{Error, Result};
use crate::health::Health;
use crate::key::{Key, KeyHasher};
use crate::progress::Progress;
use crate::stats::{RamAccount, Shape, Stats};
use bytes::Bytes;
use settings::Sizes;
use siltstone_device::sync::{Mutex, MutexGuard};
use siltstone_mica::{Crew, HashedKey, ItemLayout, Partition, Reader, Space, Value};
use snapshot::MicaSnapshot;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The MICA engine, over segregated fits or a circular log.
pub struct Mica<S: Space> {
    partitions: Vec<Shard<S>>,
    partition_bits: u32,
    hasher: KeyHasher,
    layout: ItemLayout,
    /// The memory that the partitions were made for, in bytes.
    memory_bytes: u64,
    settings: MicaSettings,
    writes: Writes,
    health: Health,
    closed: AtomicBool,
}

/// A partition, for its readers and for its one writer.
struct Shard<S: Space> {
    reader: Reader<S>,
    owner: Mutex<Partition<S, Crew>>,
}

impl<S: Space> Mica<S> {
    fn new(
        partitions: impl Iterator<Item = Result<Partition<S, Crew>>>,
        sizes: &Sizes,
        settings: &MicaSettings,
        hasher: KeyHasher,
    ) -> Result<Self> {
        let shard = |partition: Result<Partition<S, Crew>>| {
            let partition = partition?;
            let reader = partition.reader();
            Ok(Shard { reader, owner: Mutex::new(partition) })
        };
        Ok(Mica {
            partitions: partitions.map(shard).collect::<Result<_>>()?,
            partition_bits: sizes.partition_bits,
            hasher,
            layout: sizes.layout,
            memory_bytes: sizes.memory_bytes << sizes.partition_bits,
            settings: settings.clone(),
            writes: Writes::default(),
            health: Health::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// The number of a key's partition, and the key in the form that its table takes.
    #[inline]
    fn place<'a>(&self, key: Key<'a>) -> (usize, HashedKey<'a>) {
        let partition = key.hash().partition(self.partition_bits);
        (partition, HashedKey { hash: key.hash().placement, bytes: key.bytes() })
    }

    /// Counts uses of items whose policy requires that they are appended again, given by the numbers of their keys.
    fn keep_all(&self, keys: &[Key<'_>], fading: Vec<(usize, Value)>) {
        let place = |(number, value): (usize, Value)| (self.place(keys[number]), value);
        let mut placed: Vec<_> = fading.into_iter().map(place).collect();
        // Stable: within a partition in the order of the gets.
        placed.sort_by_key(|((partition, _), _)| *partition);
        // The lock is tried once for all keys of a partition.
        for uses in placed.chunk_by(|((one, _), _), ((other, _), _)| one == other) {
            if let Some(((partition, _), _)) = uses.first()
                && let Some(mut owner) = self.partitions[*partition].owner.try_lock()
            {
                uses.iter().for_each(|((_, key), value)| owner.keep(*key, *value));
            }
        }
    }

    /// All partitions, locked against writers.
    fn all_owners(&self) -> Vec<MutexGuard<'_, Partition<S, Crew>>> {
        // In the order of their numbers, as batches lock them.
        self.partitions.iter().map(|shard| shard.owner.lock()).collect()
    }
}

impl<S: Space> Engine for Mica<S> {
    fn name(&self) -> &'static str {
        info::MICA.name
    }

    fn shape(&self) -> Shape {
        Shape {
            fixed: self.layout.fixed,
            hashed_keys: self.hasher == KeyHasher::Identity,
            expiring: self.layout.expiring || self.layout.fixed.is_none(),
            partitions: 1 << self.partition_bits,
            ..Shape::default()
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { persistent: false, lossy: S::LOSSY }
    }

    fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// Takes no lock. If the eviction policy of a cache requires that the item is appended again, this happens unless a
    /// writer holds the partition. Under concurrent writes the policy sees a sample of the gets (dissertation 5.3.1).
    fn get_into(&self, key: Key<'_>, now_ms: TimestampMs, to: &mut Vec<u8>) -> Result<Option<TimestampMs>> {
        self.check_open()?;
        let (partition, key) = self.place(key);
        let shard = &self.partitions[partition];
        let Some(value) = shard.reader.get(key, now_ms, to) else { return Ok(None) };
        if shard.reader.is_fading(value)
            && let Some(mut owner) = shard.owner.try_lock()
        {
            // `keep` looks the item up again: since the get it may have been replaced or removed.
            owner.keep(key, value);
        }
        Ok(Some(value.expires_at_ms))
    }

    /// Takes no lock, and allocates nothing per key. If the policy requires that items are appended again, this happens
    /// in the end, for all items of a partition together.
    fn get_many(&self, keys: &[Key<'_>], now_ms: TimestampMs, show: &mut Show<'_>) -> Result<()> {
        self.check_open()?;
        let place = |number: usize| {
            let (partition, key) = self.place(keys[number]);
            (&*self.partitions[partition].reader, key)
        };
        let mut fading = Vec::new();
        siltstone_mica::get_many(keys.len(), place, now_ms, |number, found| {
            if let Some((_, value)) = found
                && place(number).0.is_fading(value)
            {
                fading.push((number, value));
            }
            show(number, found.map(|(bytes, value)| Shown::borrowed(bytes, value.expires_at_ms)));
        });
        self.keep_all(keys, fading);
        Ok(())
    }

    fn look_in_memory(&self, key: Key<'_>, now_ms: TimestampMs, value: &mut Vec<u8>) -> Result<InMemory> {
        Ok(self.get_into(key, now_ms, value)?.into())
    }

    /// Exact. Does not count as a use of the item.
    fn may_contain(&self, key: Key<'_>, now_ms: TimestampMs) -> Result<bool> {
        self.check_open()?;
        let (partition, key) = self.place(key);
        Ok(self.partitions[partition].reader.get(key, now_ms, &mut Vec::new()).is_some())
    }

    fn write(&self, writes: &[HashedWrite<'_>], _durability: Durability, now_ms: &Now<'_>) -> Result<()> {
        self.check_writable()?;
        // The database may be closed before the partitions are locked. The write is then lost as all others are.
        self.write_all(writes, now_ms())
    }

    fn update_many(
        &self,
        keys: &[Key<'_>],
        _durability: Durability,
        now_ms: TimestampMs,
        change: &mut Changing<'_>,
    ) -> Result<()> {
        self.check_writable()?;
        self.update_all(keys, now_ms, change)
    }

    /// Copies all records, which takes as much memory as the records, and blocks writers meanwhile.
    fn snapshot(&self, now_ms: TimestampMs) -> Result<Arc<dyn Snapshot>> {
        self.check_open()?;
        let mut records = Vec::new();
        // All are locked before the first is copied: a batch over several is in the copy completely or not at all.
        for owner in self.all_owners() {
            owner.for_each(now_ms, |key, value, expires_at_ms| {
                let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
                records.push(Record { key, value, expires_at_ms });
            });
        }
        Ok(Arc::new(MicaSnapshot { records: records.into(), places: OnceLock::new() }))
    }

    fn scan(
        &self,
        positions: RangeInclusive<u64>,
        limit: ScanLimit,
        now_ms: TimestampMs,
    ) -> Result<ScanPage> {
        self.check_open()?;
        Ok(self.scan_page(positions, limit, now_ms))
    }

    fn approximate_len(&self, _now_ms: TimestampMs) -> Result<u64> {
        self.check_open()?;
        // One after the other, so writers wait less, and the sum is of no single moment.
        Ok(self.partitions.iter().map(|shard| shard.owner.lock().len()).sum())
    }

    /// Copies nothing, and blocks writers meanwhile.
    fn count_keys(&self, now_ms: TimestampMs, go_on: &mut GoOn<'_>) -> Result<u64> {
        self.check_open()?;
        let mut keys = 0;
        // All are locked first, so that the number is that of one moment.
        for owner in self.all_owners() {
            owner.for_each(now_ms, |_, _, _| keys += 1);
            if !go_on(keys) {
                return Err(Error::Interrupted);
            }
        }
        Ok(keys)
    }

    fn sync(&self) -> Result<()> {
        self.check_open()
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        self.health.check()
    }

    fn poison(&self, cause: &str) {
        self.health.poison(cause);
    }

    fn verify(&self, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        self.check_open()?;
        let mut report = VerifyReport::default();
        let count = self.partitions.len() as u64;
        for (number, shard) in (1..).zip(&self.partitions) {
            // At the time 0 no item has expired, so all are checked.
            shard.owner.lock().for_each(0, |key, value, _| {
                report.checked_records += 1;
                report.checked_bytes += (key.len() + value.len()) as u64;
            });
            if !progress(number, count) {
                return Err(Error::Interrupted);
            }
        }
        Ok(report)
    }

    fn memory_budget_min(&self) -> u64 {
        self.memory_bytes
    }

    fn stats(&self) -> Stats {
        let mut ram = RamAccount::default();
        let (mut records, mut huge_bytes) = (0, 0);
        for shard in &self.partitions {
            let owner = shard.owner.lock();
            let account = owner.account();
            ram.add("index", account.index_bytes);
            ram.add("items", account.item_bytes);
            ram.add("free lists", account.writer_bytes);
            records += owner.len();
            huge_bytes += owner.huge_bytes();
        }
        let (writes, user_bytes) = self.writes.sums();
        Stats {
            engine: info::MICA.name,
            shape: self.shape(),
            settings: self.settings.values(),
            records,
            writes,
            user_bytes,
            ram_peak: ram.clone(),
            ram,
            details: vec![("huge_page_bytes", huge_bytes as f64)],
            ..Stats::default()
        }
    }

    fn close(&self) -> Result<()> {
        if self.closed.swap(true, Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }
}
