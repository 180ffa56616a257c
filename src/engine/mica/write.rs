//! Writes. A single write goes directly to its partition. Several writes are prepared first: their items are written to
//! places that no index entry refers to. They become visible only after all of them have a place.

use super::{Mica, Owner};
use crate::Result;
use crate::batch::{HashedWrite, TimestampMs, Write};
use crate::engine::{Change, Changing, Found};
use crate::key::Key;
use crate::mica::{Full, HashedKey, Prepared, Space};
use bytes::Bytes;
use parking_lot::MutexGuard;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

/// The writers of some partitions, by the number of the partition.
type Owners<'a, S> = BTreeMap<usize, MutexGuard<'a, Owner<S>>>;

/// A record to put: its key, value and expiry time.
type Put<'a> = (HashedKey<'a>, &'a [u8], TimestampMs);

impl<S: Space> Owner<S> {
    /// Does `work`. If the memory is full, removes expired items and does it once more.
    fn with_room<T>(
        &mut self,
        now_ms: TimestampMs,
        mut work: impl FnMut(&mut Self) -> std::result::Result<T, Full>,
    ) -> std::result::Result<T, Full> {
        match work(self) {
            Err(Full::Memory | Full::Index) if self.collect(now_ms) => work(self),
            outcome => outcome,
        }
    }

    /// Removes expired items, unless they were removed recently. Returns whether there were any.
    fn collect(&mut self, now_ms: TimestampMs) -> bool {
        self.timer.is_due(now_ms) && self.partition.collect(0..self.partition.buckets(), now_ms) > 0
    }
}

impl<S: Space> Mica<S> {
    fn count(&self, writes: &[HashedWrite<'_>]) {
        self.writes.fetch_add(writes.len() as u64, Relaxed);
        self.user_bytes
            .fetch_add(writes.iter().map(|write| write.write().user_bytes() as u64).sum(), Relaxed);
    }

    /// Applies one write to its partition.
    fn write_one(&self, owner: &mut Owner<S>, write: &HashedWrite<'_>, now_ms: TimestampMs) -> Result<()> {
        let (_, key) = self.place(write.key());
        match write.write() {
            Write::Put { value, expires_at_ms, .. } => {
                owner.with_room(now_ms, |owner| owner.partition.put(key, value, expires_at_ms))?;
            }
            Write::Delete { .. } => {
                owner.partition.remove(key);
            }
        }
        self.count(std::slice::from_ref(write));
        Ok(())
    }

    /// Locks all partitions of the keys.
    fn owners_of<'a>(&self, keys: impl Iterator<Item = Key<'a>>) -> Owners<'_, S> {
        let numbers: BTreeSet<usize> = keys.map(|key| self.place(key).0).collect();
        // In the order of their numbers, so that two batches cannot deadlock.
        numbers.into_iter().map(|number| (number, self.partitions[number].owner.lock())).collect()
    }

    /// Applies all writes or none.
    pub(super) fn write_all(&self, writes: &[HashedWrite<'_>], now_ms: TimestampMs) -> Result<()> {
        if let [write] = writes {
            let (partition, _) = self.place(write.key());
            return self.write_one(&mut self.partitions[partition].owner.lock(), write, now_ms);
        }
        let mut owners = self.owners_of(writes.iter().map(HashedWrite::key));
        self.write_owned(&mut owners, writes, now_ms)
    }

    /// Reads the keys, and applies all changes to them or none, with their partitions locked.
    pub(super) fn update_all(
        &self,
        keys: &[Key<'_>],
        now_ms: TimestampMs,
        change: &mut Changing<'_>,
    ) -> Result<()> {
        let mut owners = self.owners_of(keys.iter().copied());
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let (partition, key) = self.place(*key);
            let mut value = Vec::new();
            let owner = owners.get_mut(&partition);
            let kept = owner.and_then(|owner| owner.partition.get_and_keep(key, now_ms, &mut value));
            found.push(
                kept.map(|kept| Found { value: Bytes::from(value), expires_at_ms: kept.expires_at_ms }),
            );
        }
        let mut changes = vec![Change::Keep; keys.len()];
        change(&found, &mut changes)?;
        let writes = keys.iter().zip(&changes);
        let writes: Vec<_> = writes.filter_map(|(key, change)| change.to_write(*key)).collect();
        match &writes[..] {
            [write] => match owners.get_mut(&self.place(write.key()).0) {
                Some(owner) => self.write_one(owner, write, now_ms),
                None => Ok(()),
            },
            several => self.write_owned(&mut owners, several, now_ms),
        }
    }

    /// Applies all writes or none to partitions that are locked.
    fn write_owned(
        &self,
        owners: &mut Owners<'_, S>,
        writes: &[HashedWrite<'_>],
        now_ms: TimestampMs,
    ) -> Result<()> {
        let mut puts: BTreeMap<usize, Vec<Put<'_>>> = BTreeMap::new();
        for write in writes {
            let (partition, key) = self.place(write.key());
            if let Write::Put { value, expires_at_ms, .. } = write.write() {
                puts.entry(partition).or_default().push((key, value, expires_at_ms));
            }
        }
        let mut prepared: BTreeMap<usize, Vec<Prepared>> = BTreeMap::new();
        let mut outcome = Ok(());
        for (partition, puts) in &puts {
            let Some(owner) = owners.get_mut(partition) else { continue };
            match owner.with_room(now_ms, |owner| owner.partition.prepare(puts)) {
                // `pop` takes them from the end, so reversed they come out in the order of the writes.
                Ok(items) => prepared.insert(*partition, items.into_iter().rev().collect()),
                Err(full) => {
                    outcome = Err(full);
                    break;
                }
            };
        }
        if let Err(full) = outcome {
            for (partition, items) in prepared {
                if let Some(owner) = owners.get_mut(&partition) {
                    owner.partition.abandon(items);
                }
            }
            return Err(full.into());
        }
        for write in writes {
            let (partition, key) = self.place(write.key());
            let Some(owner) = owners.get_mut(&partition) else { continue };
            match write.write() {
                Write::Put { .. } => {
                    if let Some(item) = prepared.get_mut(&partition).and_then(Vec::pop) {
                        owner.partition.publish(key, item)?;
                    }
                }
                Write::Delete { .. } => {
                    owner.partition.remove(key);
                }
            }
        }
        self.count(writes);
        Ok(())
    }
}
