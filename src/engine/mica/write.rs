//! Writes. A single write goes directly to its partition. Several writes are prepared first: their items are written to
//! places that no index entry refers to. They become visible only after all of them have a place. If the memory is
//! full, expired items are removed.

use super::Mica;
use crate::batch::{HashedWrite, TimestampMs, Write};
use crate::engine::{Change, Changing, Found};
use crate::error::Result;
use crate::key::Key;
use bytes::Bytes;
use siltstone_device::sync::MutexGuard;
use siltstone_mica::{Crew, Full, Partition, Prepared, Space};
use std::collections::{BTreeMap, BTreeSet};

/// Some partitions by their numbers, locked against other writers.
type Owners<'a, S> = BTreeMap<usize, MutexGuard<'a, Partition<S, Crew>>>;

impl<S: Space> Mica<S> {
    /// Locks all partitions of the keys.
    fn owners_of<'a>(&self, keys: impl Iterator<Item = Key<'a>>) -> Owners<'_, S> {
        let numbers: BTreeSet<usize> = keys.map(|key| self.place(key).0).collect();
        // In the order of their numbers, so that two batches cannot deadlock.
        numbers.into_iter().map(|number| (number, self.partitions[number].owner.lock())).collect()
    }

    /// Applies all writes or none.
    pub(super) fn write_all(&self, writes: &[HashedWrite<'_>], now_ms: TimestampMs) -> Result<()> {
        if let [write] = writes {
            let (partition, _) = self.place(write.key);
            self.write_one(&mut self.partitions[partition].owner.lock(), write, now_ms)?;
        } else {
            self.write_several(&mut self.owners_of(writes.iter().map(|write| write.key)), writes, now_ms)?;
        }
        self.writes.count_all(writes);
        Ok(())
    }

    /// Reads the keys, and applies all changes to them or none, with their partitions locked.
    pub(super) fn update_all(
        &self,
        keys: &[Key<'_>],
        now_ms: TimestampMs,
        change: &mut Changing<'_>,
    ) -> Result<()> {
        // Until the changes are applied: no other write to these keys comes in between.
        let mut owners = self.owners_of(keys.iter().copied());
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let (partition, key) = self.place(*key);
            let mut value = Vec::new();
            // There is one: the partitions of all keys are locked.
            let owner = owners.get_mut(&partition);
            let kept = owner.and_then(|owner| owner.get_and_keep(key, now_ms, &mut value));
            found.push(
                kept.map(|kept| Found { value: Bytes::from(value), expires_at_ms: kept.expires_at_ms }),
            );
        }
        let mut changes = vec![Change::Keep; keys.len()];
        change(&found, &mut changes)?;
        let writes = keys.iter().zip(&changes);
        let writes: Vec<_> = writes.filter_map(|(key, change)| change.to_write(*key)).collect();
        if let [write] = &writes[..]
            && let Some(owner) = owners.get_mut(&self.place(write.key).0)
        {
            self.write_one(owner, write, now_ms)?;
        } else {
            self.write_several(&mut owners, &writes, now_ms)?;
        }
        // Only now: an update that finds no space has changed nothing.
        self.writes.count_all(&writes);
        Ok(())
    }

    /// Applies one write to its partition.
    fn write_one(
        &self,
        owner: &mut Partition<S, Crew>,
        write: &HashedWrite<'_>,
        now_ms: TimestampMs,
    ) -> std::result::Result<(), Full> {
        let (_, key) = self.place(write.key);
        match write.write {
            Write::Put { value, expires_at_ms, .. } => {
                // A full store may have expired items, whose space the put can take.
                owner.with_room(now_ms, |owner| owner.put(key, value, expires_at_ms))?;
            }
            Write::Delete { .. } => {
                owner.remove(key);
            }
        }
        Ok(())
    }

    /// Applies all writes or none to partitions that are locked.
    fn write_several(
        &self,
        owners: &mut Owners<'_, S>,
        writes: &[HashedWrite<'_>],
        now_ms: TimestampMs,
    ) -> std::result::Result<(), Full> {
        let mut prepared = Vec::with_capacity(writes.len());
        // No entry refers to these items yet, so that a write without space leaves all records as they are.
        let outcome = self.prepare(owners, writes, now_ms, &mut prepared);
        // The rest of the writes has no items, if there was no space.
        for (write, item) in writes.iter().zip(prepared) {
            let (partition, key) = self.place(write.key);
            let Some(owner) = owners.get_mut(&partition) else { continue };
            match item {
                Some(item) if outcome.is_err() => owner.abandon(item),
                // Does not fail: `check_index` has found space for all.
                Some(item) => owner.publish(key, item)?,
                None if outcome.is_err() => {}
                None => {
                    owner.remove(key);
                }
            }
        }
        outcome
    }

    /// Prepares the items of the puts among the writes, as far as there is space; `None` for a delete. If two have the
    /// same key, the later one applies.
    fn prepare(
        &self,
        owners: &mut Owners<'_, S>,
        writes: &[HashedWrite<'_>],
        now_ms: TimestampMs,
        prepared: &mut Vec<Option<Prepared>>,
    ) -> std::result::Result<(), Full> {
        let mut hashes: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for write in writes.iter().filter(|write| matches!(write.write, Write::Put { .. })) {
            let (partition, key) = self.place(write.key);
            hashes.entry(partition).or_default().push(key.hash);
        }
        // Before an item is written: once a part of the batch is visible, a full index could not be undone.
        for (partition, hashes) in &hashes {
            let Some(owner) = owners.get_mut(partition) else { continue };
            owner.with_room(now_ms, |owner| owner.check_index(hashes))?;
        }
        for write in writes {
            let (partition, key) = self.place(write.key);
            prepared.push(match (write.write, owners.get_mut(&partition)) {
                (Write::Put { value, expires_at_ms, .. }, Some(owner)) => {
                    // This may remove expired items, which leaves the index at least as much space as was found above.
                    Some(owner.with_room(now_ms, |owner| owner.prepare(key, value, expires_at_ms))?)
                }
                _ => None,
            });
        }
        Ok(())
    }
}
