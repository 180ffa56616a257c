//! Writes. One goes straight to its partition. Many are prepared first: the items are written where nobody can find
//! them, and only when all of them have a place does any of them become visible.

use super::{Mica, Owner};
use crate::batch::{NEVER, TimestampMs, Write};
use crate::mica::{Full, HashedKey, Prepared, Space};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

/// Expired items are not looked for again within this time.
const COLLECTION_INTERVAL_MS: u64 = 1_000;

/// A record to be put: its key, value and expiry time.
type Put<'a> = (HashedKey<'a>, &'a [u8], TimestampMs);

impl<S: Space> Owner<S> {
    /// Does `work`; where it finds the memory full, once more after removing what has expired.
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

    /// Removes what has expired, if that was not done just now; answers whether there was anything.
    fn collect(&mut self, now_ms: TimestampMs) -> bool {
        let since_ms = now_ms.saturating_sub(self.collected_at_ms);
        if self.collected_at_ms != 0 && since_ms < COLLECTION_INTERVAL_MS {
            return false;
        }
        self.collected_at_ms = now_ms;
        self.partition.collect(0..self.partition.buckets(), now_ms) > 0
    }
}

impl<S: Space> Mica<S> {
    /// Checks a write against the shape of the records.
    fn check(&self, write: &Write<'_>) -> Result<()> {
        let Some((key_length, value_length)) = self.shape.fixed else { return Ok(()) };
        let size = |what, expected: u32, got: usize| match got == expected as usize {
            true => Ok(()),
            false => Err(Error::RecordSize { what, expected: expected as usize, got }),
        };
        size("key", key_length, write.key().len())?;
        match write {
            Write::Put { value, expires_at_ms, .. } => {
                size("value", value_length, value.len())?;
                if *expires_at_ms == NEVER || self.shape.expiring {
                    Ok(())
                } else {
                    Err(Error::ExpiryUnsupported)
                }
            }
            Write::Delete { .. } => Ok(()),
        }
    }

    fn count(&self, writes: &[Write<'_>]) {
        self.writes.fetch_add(writes.len() as u64, Relaxed);
        self.user_bytes.fetch_add(writes.iter().map(|write| write.user_bytes() as u64).sum(), Relaxed);
    }

    /// Does one write in its partition.
    pub(super) fn write_one(
        &self,
        owner: &mut Owner<S>,
        write: &Write<'_>,
        now_ms: TimestampMs,
    ) -> Result<()> {
        self.check(write)?;
        let (_, key) = self.place(write.key());
        match *write {
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

    /// Does all writes or none.
    pub(super) fn write_all(&self, writes: &[Write<'_>], now_ms: TimestampMs) -> Result<()> {
        if let [write] = writes {
            let (partition, _) = self.place(write.key());
            return self.write_one(&mut self.partitions[partition].owner.lock(), write, now_ms);
        }
        writes.iter().try_for_each(|write| self.check(write))?;
        let mut puts: BTreeMap<usize, Vec<Put<'_>>> = BTreeMap::new();
        for write in writes {
            let (partition, key) = self.place(write.key());
            let puts = puts.entry(partition).or_default();
            if let Write::Put { value, expires_at_ms, .. } = *write {
                puts.push((key, value, expires_at_ms));
            }
        }
        // In the order of their numbers, so that two batches never wait for each other.
        let mut owners: BTreeMap<usize, _> =
            puts.keys().map(|partition| (*partition, self.partitions[*partition].owner.lock())).collect();
        let mut prepared: BTreeMap<usize, Vec<Prepared>> = BTreeMap::new();
        let mut outcome = Ok(());
        for (owner, (partition, puts)) in owners.values_mut().zip(&puts) {
            match owner.with_room(now_ms, |owner| owner.partition.prepare(puts)) {
                // From the end on, the items come out in the order in which they were written.
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
            match write {
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
