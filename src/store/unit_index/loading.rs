//! Loads the shards that an open left on flash and that are to be in memory, one after the other.
//!
//! 1. The changes of a shard are frozen, under its lock. Lookups read its pages on flash as before.
//! 2. Steps read its pages in their order and merge them with the frozen changes, without a lock.
//! 3. Under its lock, the shard takes the pages that were made, and the changes since are applied to them.
//!
//! Nothing on flash changes, so a crash or a load that is dropped leaves the shard on flash.

use super::LogIndex;
use super::entries::Frozen;
use super::saved::{Merging, STEP_BYTES};
use crate::error::Result;
use siltstone_device::sync::atomic::Ordering;
use siltstone_index::hash_pages::{HashPage, HashPages};
use std::ops::Range;
use std::sync::Arc;

/// A shard that is being loaded. It may be dropped: the shard stays on flash.
pub struct IndexLoad {
    number: usize,
    /// The pages on flash with their changes at the begin.
    merging: Merging,
    loaded: Vec<HashPage>,
}

impl LogIndex {
    /// Returns the shards that an open left on flash and that are to be in memory.
    pub(super) fn to_load(&self) -> Range<usize> {
        self.next_load.load(Ordering::Relaxed)..self.load_end.min(self.memory_shards())
    }

    /// Returns how many shards have to be loaded.
    pub fn shards_to_load(&self) -> usize {
        self.to_load().len()
    }

    /// Begins to load the next shard. `None` if no shard has to be loaded. Only one load or save exists at a time.
    pub fn start_load(&self) -> Result<Option<IndexLoad>> {
        for number in self.to_load() {
            let mut shard = self.shards[number].write();
            let super::Shard { entries, pending } = &mut *shard;
            // Under the lock of the shard: each operation is in the frozen changes or in those since.
            let (frozen, _) = Arc::make_mut(entries).freeze(true, || pending.cut())?;
            if let Frozen::Flash(pages, changes) = frozen {
                return Ok(Some(IndexLoad {
                    number,
                    merging: Merging::new(&pages, changes, self.piece_bytes()),
                    loaded: Vec::new(),
                }));
            }
            // A save has moved it.
            self.next_load.store(number + 1, Ordering::Relaxed);
        }
        Ok(None)
    }

    /// Loads some pages, about 1 MiB. Returns `None` once the shard is in memory. After an error the load is to be
    /// dropped.
    pub fn load_step(&self, mut load: IndexLoad) -> Result<Option<IndexLoad>> {
        let mut bytes = 0;
        while bytes < STEP_BYTES {
            // Hashes with several entries are not collected: after an open, a search goes over all of them.
            match load.merging.next_page(&mut |_| ())? {
                Some(page) => {
                    bytes += page.heap_bytes();
                    load.loaded.push(page);
                }
                None => {
                    let pages = HashPages::from_pages(self.settings.shard_hash_bits(), load.loaded)?;
                    self.move_to_memory(load.number, pages);
                    // After the move: until then the shard counts as one on flash.
                    self.next_load.store(load.number + 1, Ordering::Relaxed);
                    return Ok(None);
                }
            }
        }
        Ok(Some(load))
    }

    /// From now on the entries of a shard are in memory. `pages` has them as they were when they were frozen.
    pub(super) fn move_to_memory(&self, number: usize, mut pages: HashPages) {
        if self.keeps_marks.load(Ordering::Relaxed) {
            pages.keep_marks();
        }
        Arc::make_mut(&mut self.shards[number].write().entries).move_to_memory(pages);
    }
}

impl IndexLoad {
    /// Returns the memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let loaded: usize = self.loaded.iter().map(|page| page.heap_bytes() + size_of::<HashPage>()).sum();
        loaded + self.merging.heap_bytes()
    }
}
