//! Reading a table with a perfect index, or a cuckoo table, in hash order. Such a table orders its records between
//! buckets only, which are the buckets of the index or the regions of the LogStore:
//!
//! ```text
//! blocks   | 9 7 8 | 2 5 1 | 3 4 6 |  file order: within a bucket the index decides
//! buckets  |<- 7..9 ->|<-- 1..6 -->|
//! ```
//!
//! The cursor holds the slots of at least one complete bucket in memory and sorts them. A bucket is complete when a
//! record of a later bucket has been read.

use super::OrderedTable;
use crate::error::Result;
use crate::key::KeyHash;
use crate::store::merge::{Cursor, PlacedRecord};
use crate::store::record::RecordView;
use siltstone_device::{Purpose, ReadAhead};
use std::sync::Arc;

/// The number of bytes by which the window grows.
const GROWTH_BYTES: usize = 4096;

/// The records in hash order of an [`OrderedTable`] that orders them by buckets only, read in pieces.
pub(super) struct BucketCursor {
    /// With the part of its index that says where the buckets are.
    table: Arc<OrderedTable>,
    reader: ReadAhead,
    slot_bytes: usize,
    next_block: u64,
    /// The slots that have been read and not yet returned, and free ones.
    slots: Vec<u8>,
    /// The indexes in `slots` of those that are free.
    free: Vec<u32>,
    /// The records to come with their indexes in `slots`, in descending order.
    pending: Vec<(KeyHash, u32)>,
    current: Option<(KeyHash, u32)>,
}

impl BucketCursor {
    /// Creates a cursor before the first record.
    pub fn new(table: &OrderedTable, purpose: Purpose, piece_bytes: usize) -> BucketCursor {
        BucketCursor {
            // The cursor needs neither index nor filter, so that they can be released while it runs.
            table: Arc::new(table.without_filter().without_index()),
            reader: ReadAhead::new(purpose, piece_bytes, table.file.footer().block_bytes as usize),
            slot_bytes: table.form.slot_bytes(&table.shape.layout).unwrap_or(1),
            next_block: 0,
            slots: Vec::new(),
            free: Vec::new(),
            pending: Vec::new(),
            current: None,
        }
    }

    /// Returns whether all records of the next record's bucket have been read.
    fn is_bucket_complete(&self) -> bool {
        let Some(index) = self.table.index() else { return false };
        let bucket =
            |record: Option<&(KeyHash, u32)>| record.and_then(|(hash, _)| index.bucket_of(hash.placement));
        // In descending order, so the last one comes next and the first is the highest that was read.
        bucket(self.pending.last()) < bucket(self.pending.first())
    }

    /// Reads the next piece and sorts it in. Returns `false` at the end.
    fn load(&mut self) -> Result<bool> {
        let table = self.table.clone();
        let file = &table.file;
        let block_bytes = file.footer().block_bytes as usize;
        if self.next_block >= file.footer().blocks {
            return Ok(false);
        }
        let BucketCursor { pending, slots, free, slot_bytes, .. } = self;
        self.next_block = file.read_blocks_ahead(&mut self.reader, self.next_block, 0, |first, bytes| {
            for (number, bytes) in (first..).zip(bytes.chunks_exact(block_bytes)) {
                // Verified also if gets skip it: a merge gives these bytes a new checksum.
                let payload = table.block(number, bytes, true)?.payload;
                pending.reserve_exact(payload.len() / *slot_bytes);
                let mut at = 0;
                // Ends at the end of the payload, which has whole slots.
                while let Ok((record, taken)) = table.decode(&payload[at..]) {
                    let hash = table.shape.hasher.hash(record.key);
                    let index = keep(slots, free, &payload[at..at + *slot_bytes]);
                    pending.push((hash, index));
                    at += taken;
                }
            }
            Ok(())
        })?;
        // Taken, because the comparison reads keys of `self`.
        let mut pending = std::mem::take(&mut self.pending);
        let key = |index| self.record(index).map(|record| record.key);
        // With those of the piece before: a bucket may begin there.
        pending.sort_unstable_by(|(one_hash, one), (other_hash, other)| {
            other_hash.cmp(one_hash).then_with(|| key(*other).cmp(&key(*one)))
        });
        self.pending = pending;
        Ok(true)
    }

    fn record(&self, index: u32) -> Option<RecordView<'_>> {
        let at = index as usize * self.slot_bytes;
        let slot = self.slots.get(at..at + self.slot_bytes)?;
        self.table.shape.layout.decode_slot(slot, self.table.form.has_flags())
    }
}

/// Copies a slot into the window and returns its index there.
fn keep(slots: &mut Vec<u8>, free: &mut Vec<u32>, slot: &[u8]) -> u32 {
    // Slots that were returned are used again, so the window stays at about a bucket and a piece.
    match free.pop() {
        Some(index) => {
            let at = index as usize * slot.len();
            slots[at..at + slot.len()].copy_from_slice(slot);
            index
        }
        None => {
            if slots.capacity() - slots.len() < slot.len() {
                slots.reserve_exact(slot.len().max(GROWTH_BYTES));
            }
            slots.extend_from_slice(slot);
            (slots.len() / slot.len() - 1) as u32
        }
    }
}

impl Cursor for BucketCursor {
    fn advance(&mut self) -> Result<bool> {
        // Only now: until here `entry` returned a reference to this slot.
        self.free.extend(self.current.take().map(|(_, index)| index));
        // A record that is still to be read may precede all others of its bucket.
        while !self.is_bucket_complete() && self.load()? {}
        self.current = self.pending.pop();
        Ok(self.current.is_some())
    }

    /// Moves to the first block of the placement's bucket. The next [`advance`](Cursor::advance) reads the bucket.
    fn seek(&mut self, placement: u64) -> Result<()> {
        // The block may begin with records of the bucket before, which a caller of `seek` must expect.
        let index = self.table.index();
        self.next_block = index.and_then(|index| index.first_block_from(placement)).unwrap_or(0);
        Ok(())
    }

    fn entry(&self) -> Option<PlacedRecord<'_>> {
        let (hash, index) = self.current?;
        Some(PlacedRecord { hash, record: self.record(index)? })
    }

    fn heap_bytes(&self) -> usize {
        self.slots.capacity()
            + self.free.capacity() * size_of::<u32>()
            + self.pending.capacity() * size_of::<(KeyHash, u32)>()
            + self.reader.heap_bytes()
    }
}
