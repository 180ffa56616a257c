//! Writes: to the log, then to the index of the LogStore (SILT 3.1).

use super::loading::{Loading, PartitionLoad};
use super::partition_settings::Mistake;
use super::parts::Parts;
use super::scheduler::Scheduler;
use crate::batch::{Durability, HashedWrite, TimestampMs};
use crate::cache::{WriteGuard, cache_hash};
use crate::engine::jobs::KeyStripes;
use crate::engine::writes::Writes;
use crate::engine::{Change, Changing, Found};
use crate::error::Result;
use crate::health::Health;
use crate::key::{Key, Route};
use crate::progress::Progress;
use crate::store::record::RecordView;
use siltstone_device::sync::MutexGuard;
use std::sync::Arc;

/// Appends records to the log and indexes them.
pub(super) struct Writer {
    pub parts: Arc<Parts>,
    health: Arc<Health>,
    pub scheduler: Arc<Scheduler>,
    stripes: KeyStripes,
    loading: Loading,
    pub writes: Writes,
}

impl Writer {
    pub fn new(parts: &Arc<Parts>, scheduler: &Arc<Scheduler>) -> Writer {
        Writer {
            parts: parts.clone(),
            health: parts.log.health().clone(),
            scheduler: scheduler.clone(),
            stripes: KeyStripes::new(),
            loading: Loading::default(),
            writes: Writes::default(),
        }
    }

    /// Applies all writes or none.
    pub fn write(&self, writes: &[HashedWrite<'_>], durability: Durability) -> Result<()> {
        // A write waits for an update of its key that has read and not yet written. The sync needs no stripes.
        let end = match writes {
            [single] => {
                let _stripe = self.stripes.lock(single.key.hash());
                self.append(single, durability)?
            }
            several => {
                let keys = several.iter().map(|write| write.key.hash());
                self.stripes.with(keys, || self.append_batch(several, durability))?
            }
        };
        match durability {
            Durability::Synced => self.make_synced(end),
            _ => Ok(()),
        }
    }

    /// Begins a bulk load of a partition, which lasts until the result is dropped.
    pub fn begin_load(&self, partition: usize) -> PartitionLoad<'_> {
        self.loading.begin(partition, &self.stripes)
    }

    /// Returns the partitions of keys.
    fn partitions_of(&self, keys: &[Key<'_>]) -> impl Iterator<Item = usize> + Clone {
        keys.iter().map(|key| self.parts.configuration.hasher.route(*key).partition)
    }

    /// Locks the stripe of a key for an update, while its partition is not loaded.
    #[inline]
    fn lock_to_update(&self, key: Key<'_>) -> MutexGuard<'_, ()> {
        loop {
            let stripe = self.stripes.lock(key.hash());
            if !self.loading.has_any(self.partitions_of(&[key])) {
                return stripe;
            }
            // A load that begins takes each stripe, and writes without a read do not wait for its end.
            drop(stripe);
            self.loading.wait(self.partitions_of(&[key]));
        }
    }

    /// Reads the keys, and applies all changes to them or none, with the keys' stripes locked from before the read.
    /// Waits as long as a load is merged into a partition of the keys.
    pub fn update_many(
        &self,
        keys: &[Key<'_>],
        durability: Durability,
        now_ms: TimestampMs,
        change: &mut Changing<'_>,
    ) -> Result<()> {
        let end = match keys {
            [key] => {
                let read = || self.parts.get(*key, now_ms);
                let early = self.reads_too_early().then(read);
                let _stripe = self.lock_to_update(*key);
                let found = early.unwrap_or_else(read)?;
                self.change(keys, &[found], &mut [Change::Keep], durability, change)?
            }
            several => {
                let read = || self.parts.get_many(several, now_ms);
                let mut early = self.reads_too_early().then(read);
                loop {
                    let hashes = several.iter().map(|key| key.hash());
                    // `None` if nothing was done because of a load.
                    let outcome = self.stripes.with(hashes, || -> Result<Option<Option<u64>>> {
                        if self.loading.has_any(self.partitions_of(several)) {
                            return Ok(None);
                        }
                        let found = early.take().unwrap_or_else(read)?;
                        let mut changes = vec![Change::Keep; several.len()];
                        self.change(several, &found, &mut changes, durability, change).map(Some)
                    });
                    match outcome? {
                        Some(end) => break end,
                        None => self.loading.wait(self.partitions_of(several)),
                    }
                }
            }
        };
        match end {
            // Everything that was found is before the writes in the log, so it is as durable as they are.
            Some(end) if durability == Durability::Synced => self.make_synced(end),
            Some(_) => Ok(()),
            // Nothing was written, but what was found may be a write of another thread that is not synced yet.
            None => self.make_found_durable(durability),
        }
    }

    fn reads_too_early(&self) -> bool {
        self.parts.configuration.settings.makes(Mistake::ReadsBeforeLocking)
    }

    /// Applies the changes that `change` sets. Returns the end of the log after them, or `None` if there are none.
    fn change(
        &self,
        keys: &[Key<'_>],
        found: &[Option<Found>],
        changes: &mut [Change],
        durability: Durability,
        change: &mut Changing<'_>,
    ) -> Result<Option<u64>> {
        change(found, changes)?;
        if let ([key], [change]) = (keys, &*changes) {
            return change.to_write(*key).map(|write| self.append(&write, durability)).transpose();
        }
        let writes = keys.iter().zip(&*changes);
        let writes: Vec<_> = writes.filter_map(|(key, change)| change.to_write(*key)).collect();
        if writes.is_empty() { Ok(None) } else { self.append_batch(&writes, durability).map(Some) }
    }

    /// Appends a write to the log and indexes it, with the writer of its partition locked. Returns the end of the log
    /// after it. The caller holds the stripe of the key.
    fn append(&self, write: &HashedWrite<'_>, durability: Durability) -> Result<u64> {
        let route = self.parts.configuration.hasher.route(write.key);
        let _writer = self.parts.partitions.lock_writer(route.partition);
        // A write that waited here while the database was closed is refused.
        self.health.check_open()?;
        // Until the record is indexed, the cache has no record of its key.
        let _announced = self.parts.cache.is_enabled().then(|| self.announce(write.key, route));
        let end = self.health.run(|| {
            // Before the append, so that a read that fails leaves log and index as they were.
            let replaced = self.parts.partitions.find(write.key, route)?;
            let record = std::iter::once(RecordView::from(write.write));
            let mut position = 0;
            let end = self.parts.log.append(record, durability, |at| position = at)?;
            self.index(route, replaced, position)?;
            Ok(end)
        })?;
        self.writes.count(write);
        Ok(end)
    }

    /// Appends the writes of a batch to the log and indexes them, with the writers of their partitions locked. Returns
    /// the end of the log after them. The caller holds the stripes of the keys.
    fn append_batch(&self, writes: &[HashedWrite<'_>], durability: Durability) -> Result<u64> {
        let route = |write: &HashedWrite<'_>| self.parts.configuration.hasher.route(write.key);
        let routes: Vec<_> = writes.iter().map(route).collect();
        self.parts.partitions.with_writers(routes.iter().map(|route| route.partition), || {
            // A write that waited here while the database was closed is refused.
            self.health.check_open()?;
            // Until the records are indexed, the cache has no record of these keys.
            let announced = writes.iter().zip(&routes).filter(|_| self.parts.cache.is_enabled());
            let _announced: Vec<WriteGuard<'_>> =
                announced.map(|(write, route)| self.announce(write.key, *route)).collect();
            let end = self.health.run(|| self.append_and_index(writes, &routes, durability))?;
            self.writes.count_all(writes);
            Ok(end)
        })
    }

    /// Announces a write to the cache, which has no record of the key until the guard is dropped.
    fn announce(&self, key: Key<'_>, route: Route) -> WriteGuard<'_> {
        self.parts.cache.write(cache_hash(route.hash), key.bytes())
    }

    /// In three steps, so that a failed read leaves the index as it was, and no batch is visible in part:
    ///
    /// 1. Finds the records that the writes replace, which may read from the log.
    /// 2. Appends to the log.
    /// 3. Changes the index, without a read.
    fn append_and_index(
        &self,
        writes: &[HashedWrite<'_>],
        routes: &[Route],
        durability: Durability,
    ) -> Result<u64> {
        let found =
            writes.iter().zip(routes).map(|(write, route)| self.parts.partitions.find(write.key, *route));
        let mut replaced = found.collect::<Result<Vec<_>>>()?;
        let records = writes.iter().map(|write| RecordView::from(write.write));
        let mut positions = Vec::with_capacity(writes.len());
        let end = self.parts.log.append(records, durability, |at| positions.push(at))?;
        // Earlier writes of the batch had no positions when the records to replace were looked up.
        replace_earlier(writes, &positions, &mut replaced);
        // The log has the batch already. If one of its records cannot be indexed, no read may show the others.
        self.health.apply(|| {
            let mut writes = routes.iter().zip(replaced).zip(positions);
            writes.try_for_each(|((route, replaced), position)| self.index(*route, replaced, position))
        })?;
        Ok(end)
    }

    /// Makes the index of a LogStore point to a record that was appended to the log, in place of the one at `replaced`.
    #[inline]
    fn index(&self, route: Route, replaced: Option<u64>, position: u64) -> Result<()> {
        if self.parts.partitions.index(route, replaced, position)? {
            return Ok(());
        }
        // The partition's writer is locked, so its LogStore does not change while memory is freed without the state's
        // lock.
        let table_bytes = self.parts.partitions.get(route.partition).read(|state| state.active.heap_bytes());
        self.parts.memory.make_room(table_bytes as u64);
        // The record is in the log, so it must get an entry: it is the first of the next LogStore.
        self.parts.partitions.freeze_and_index(route, position)?;
        // After the freeze, or the queued LogStore would not be counted. The schedule's lock is below that of the
        // writer.
        self.scheduler.refresh();
        Ok(())
    }

    /// Indexes every record of the log that is in no store. Returns how many there are.
    pub fn replay(&self, from: u64, progress: &mut Progress<'_>) -> Result<u64> {
        let starts: Vec<u64> = self
            .parts
            .partitions
            .iter()
            .map(|partition| partition.read(|state| state.active.start()))
            .collect();
        let mut replayed = 0;
        self.parts.log.scan(from, progress, &mut |position, record| {
            let key = self.parts.configuration.hasher.key_hasher.key(record.key);
            // Records before the LogStore's start are in stores already.
            let route = self.parts.configuration.hasher.route(key);
            if position < starts[route.partition] {
                return Ok(());
            }
            replayed += 1;
            let replaced = self.parts.partitions.find(key, route)?;
            self.index(route, replaced, position)
        })?;
        Ok(replayed)
    }

    /// Blocks until the log before `end` survives a power loss.
    fn make_synced(&self, end: u64) -> Result<()> {
        self.parts.log.sync_to(end)?;
        // The write is durable. This lets recovery report it as damage if the end of the log is missing.
        self.parts.commits.state_synced_now_and_then(false)
    }

    /// Blocks until everything that can be read now is as durable as requested, whichever thread wrote it.
    pub fn make_found_durable(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Written => self.parts.log.write_buffered(),
            Durability::Synced if self.parts.log.is_synced() => Ok(()),
            Durability::Synced => self.make_synced(self.parts.log.end()),
        }
    }
}

/// A write of a batch replaces the record of an earlier write to the same key, at the position that this one got.
fn replace_earlier(writes: &[HashedWrite<'_>], positions: &[u64], replaced: &mut [Option<u64>]) {
    let mut order: Vec<usize> = (0..writes.len()).collect();
    // Stable: the writes to a key stay in their order.
    order.sort_by_key(|number| writes[*number].key.bytes());
    for pair in order.windows(2) {
        let [earlier, later] = [pair[0], pair[1]];
        if writes[earlier].key.bytes() == writes[later].key.bytes() {
            replaced[later] = Some(positions[earlier]);
        }
    }
}
