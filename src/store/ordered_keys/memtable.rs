//! The newest keys, in memory.

use super::batch::Batch;
use super::{Direction, KeyState};
use siltstone_device::sync::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The memory of an entry besides its key, in bytes: its share of a node, and what the allocator adds to a key.
const ENTRY_BYTES: usize = 64;

/// A sorted table of keys with their last operation, and of the operations before it that a snapshot may need.
#[derive(Default)]
pub(super) struct Memtable(RwLock<Table>);

#[derive(Default)]
struct Table {
    keys: BTreeMap<Box<[u8]>, Version>,
    heap_bytes: usize,
    deleted: usize,
}

/// The state of a key since an epoch.
struct Version {
    epoch: u64,
    state: KeyState,
    older: Option<Box<Version>>,
}

impl Version {
    /// Returns the state at the end of an epoch, if the key had one.
    fn at(&self, epoch: u64) -> Option<KeyState> {
        let mut version = self;
        // From the newest version back. A key that was put after the epoch has no state at it.
        while version.epoch > epoch {
            version = version.older.as_deref()?;
        }
        Some(version.state)
    }
}

impl Memtable {
    /// Notes the last operation of a key. Epochs never decrease. Returns the memory of the table, in bytes, and the
    /// number of its keys that are deleted.
    pub fn insert(&self, key: &[u8], state: KeyState, epoch: u64) -> (usize, usize) {
        let mut table = self.0.write();
        let Table { keys, heap_bytes, deleted } = &mut *table;
        let is_deleted = |state| usize::from(state == KeyState::Deleted);
        let before = keys.get(key).map_or(0, |version| is_deleted(version.state));
        // Never negative: a key that was deleted before is in the count.
        *deleted = *deleted + is_deleted(state) - before;
        match keys.get_mut(key) {
            // No new version: snapshots of before and after see the same state.
            Some(version) if version.state == state => {}
            // No snapshot was taken in between.
            Some(version) if version.epoch == epoch => version.state = state,
            Some(version) => {
                let older = std::mem::replace(version, Version { epoch, state, older: None });
                version.older = Some(Box::new(older));
                *heap_bytes += size_of::<Version>();
            }
            None => {
                *heap_bytes += ENTRY_BYTES + key.len();
                keys.insert(key.into(), Version { epoch, state, older: None });
            }
        }
        (*heap_bytes, *deleted)
    }

    /// Appends to `batch` up to `limit` of the keys within the bounds, with their states at the end of an epoch. The
    /// bounds are in order. Returns whether there may be more.
    pub fn read(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        epoch: u64,
        limit: usize,
        batch: &mut Batch,
    ) -> bool {
        // Locked for one batch only, so that writers do not wait for a whole range.
        let table = self.0.read();
        let mut range = table.keys.range::<[u8], _>(bounds);
        let mut read = 0;
        while read < limit {
            let next = match direction {
                Direction::Ascending => range.next(),
                Direction::Descending => range.next_back(),
            };
            let Some((key, version)) = next else { return false };
            // A key without a state at that time still counts: the next batch begins after the last one.
            batch.push(key, version.at(epoch).unwrap_or(KeyState::Unknown));
            read += 1;
        }
        true
    }

    /// Returns the memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.0.read().heap_bytes
    }

    /// Returns whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.read().keys.is_empty()
    }
}
