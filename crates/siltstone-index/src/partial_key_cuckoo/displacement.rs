//! Displacement: finds the shortest chain of items that can each move to their other bucket, the last one to a free
//! slot.
//!
//! ```text
//! new item -> bucket 3 (full)     item x of bucket 3 can move to bucket 9 (full),
//!                                 item y of bucket 9 can move to bucket 12, which has a free slot
//! moves:   y to 12, x to 9's freed slot, then the new item to 3's freed slot
//! ```

use super::{EMPTY, PartialKeyCuckoo, SLOTS_PER_BUCKET, Slot};

/// The maximum number of buckets that are searched before the table counts as full; all buckets of a smaller region.
const BUCKETS_SEARCHED_MAX: usize = 2048;

/// The parent of the buckets that a search starts from.
const NO_PARENT: u16 = u16::MAX;
const _: () = assert!(BUCKETS_SEARCHED_MAX <= NO_PARENT as usize);

/// A bucket that the search has reached.
#[derive(Debug, Clone, Copy)]
struct Visit {
    bucket: u32,
    /// The visit from which it was reached, through the item in slot `parent_way` of that bucket.
    parent: u16,
    parent_way: u8,
}

/// The state of a search. It is allocated per search, because only a table that is nearly full needs it.
#[derive(Debug)]
struct PathSearch {
    queue: Vec<Visit>,
    /// A bit per bucket of the region.
    visited: Vec<u64>,
}

impl PathSearch {
    fn new(buckets_per_region: u32) -> Self {
        Self {
            queue: Vec::with_capacity(BUCKETS_SEARCHED_MAX.min(buckets_per_region as usize)),
            visited: vec![0; buckets_per_region.div_ceil(u64::BITS) as usize],
        }
    }

    /// Adds a bucket unless it was visited before or the search has reached its limit.
    fn visit(&mut self, visit: Visit, region_mask: u32) {
        let local = visit.bucket & region_mask;
        let (word, bit) = ((local / u64::BITS) as usize, 1u64 << (local % u64::BITS));
        if self.queue.len() < BUCKETS_SEARCHED_MAX && self.visited[word] & bit == 0 {
            self.visited[word] |= bit;
            self.queue.push(visit);
        }
    }
}

impl PartialKeyCuckoo {
    /// Frees a slot in one of two full buckets of a region. `None`, without a change, if there is no chain.
    pub(super) fn make_room(&self, homes: [u32; 2]) -> Option<Slot> {
        let mut search = PathSearch::new(self.region_mask() + 1);
        // The chain is complete before an item moves, so a search without success changes nothing.
        let (visit, free) = self.shortest_chain(homes, &mut search)?;
        Some(self.move_chain(&search.queue, visit, free))
    }

    fn region_mask(&self) -> u32 {
        (1 << self.settings.buckets_per_region_log2) - 1
    }

    /// Returns the nearest visit whose bucket has a free slot, and that slot. No bucket is visited twice, so no item is
    /// in the chain twice.
    fn shortest_chain(&self, homes: [u32; 2], search: &mut PathSearch) -> Option<(Visit, Slot)> {
        let mask = self.region_mask();
        // Both home buckets are full, so the chain may begin in either of them.
        for bucket in homes {
            search.visit(Visit { bucket, parent: NO_PARENT, parent_way: 0 }, mask);
        }
        let mut next = 0;
        while let Some(&from) = search.queue.get(next) {
            if let Some(free) = self.free_slot(from.bucket) {
                return Some((from, free));
            }
            // An item has only one other bucket, and its tag alone determines it: no key has to be read.
            for (way, tag) in self.slots.tags(from.bucket).into_iter().enumerate() {
                let bucket = self.settings.other_bucket(from.bucket, tag);
                // The number fits in 16 bits, because the search ends after 2,048 buckets.
                search.visit(Visit { bucket, parent: next as u16, parent_way: way as u8 }, mask);
            }
            next += 1;
        }
        None
    }

    /// Moves the items of a chain, the last one first, and returns the slot that becomes free at its start. An item is
    /// copied before its old slot is cleared.
    fn move_chain(&self, queue: &[Visit], mut visit: Visit, mut free: Slot) -> Slot {
        while let Some(&parent) = queue.get(usize::from(visit.parent)) {
            let from = parent.bucket * SLOTS_PER_BUCKET + u32::from(visit.parent_way);
            self.slots.put(free, self.slots.tag(from), self.slots.position(from));
            self.slots.put(from, EMPTY, 0);
            (visit, free) = (parent, from);
        }
        free
    }
}
