//! Going through a store in its own order.

use super::SortedStore;
use crate::Result;
use crate::device::{Purpose, with_scratch};
use crate::index::block_perfect::BlockPerfectOutline;
use crate::key::{KeyHash, Placing};
use crate::store::merge::{Cursor, Entry};
use crate::store::record::{RecordLayout, RecordProblem, RecordSpan, RecordView};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// The records of a [`SortedStore`], read in pieces.
pub struct SortedCursor {
    store: Arc<SortedStore>,
    placing: Placing,
    purpose: Purpose,
    piece_bytes: usize,
    next_block: u64,
    /// Payload that was read, of which the part before `at` was gone over.
    payload: Vec<u8>,
    /// Where in the payload each of the blocks ends that it was read from; the last one is that before `next_block`.
    block_ends: VecDeque<usize>,
    /// Where in the payload the current record begins.
    start: usize,
    at: usize,
    current: Option<(KeyHash, RecordSpan)>,
    /// Of a store whose buckets have no order inside: what was read of them.
    bucket: BucketWindow,
}

/// By how many bytes a window grows.
const GROWTH_BYTES: usize = 4096;

/// Slots of a bucket that is put in order in memory, and what was read behind it.
#[derive(Default)]
struct BucketWindow {
    slots: Vec<u8>,
    /// Slots that hold nothing any more, by their place.
    free: Vec<u32>,
    /// The records that are still to come with their places, the next one at the end.
    waiting: Vec<(KeyHash, u32)>,
    /// There is nothing left to be read.
    is_last: bool,
    current: Option<u32>,
}

impl SortedCursor {
    /// A cursor before the first record, which reads `piece_bytes` at a time.
    pub fn new(store: Arc<SortedStore>, placing: Placing, purpose: Purpose, piece_bytes: usize) -> Self {
        SortedCursor {
            // What a lookup needs may be let go of while the cursor is at work.
            store: Arc::new(store.without_filter().without_index()),
            placing,
            purpose,
            piece_bytes,
            next_block: 0,
            payload: Vec::new(),
            block_ends: VecDeque::new(),
            start: 0,
            at: 0,
            current: None,
            bucket: BucketWindow::default(),
        }
    }

    /// A cursor that goes on behind a block of which the caller has read `payload`, from the beginning of a record on.
    pub fn going_on(self, payload: &[u8], block: u64) -> Self {
        let block_ends = VecDeque::from([payload.len()]);
        SortedCursor { next_block: block + 1, payload: payload.to_vec(), block_ends, ..self }
    }

    /// The blocks that have bytes of the current record.
    pub fn blocks(&self) -> Range<u64> {
        let first = self.next_block - self.block_ends.len() as u64;
        let before_start = self.block_ends.partition_point(|end| *end <= self.start) as u64;
        let before_last = self.block_ends.partition_point(|end| *end < self.at) as u64;
        first + before_start..first + before_last + 1
    }

    /// Reads the next piece, or as much as the next `needed` bytes of payload take; answers whether there was any.
    fn load(&mut self, needed: usize) -> Result<bool> {
        let file = &self.store.file;
        let block_bytes = file.footer().block_bytes as usize;
        if self.next_block >= file.footer().blocks {
            return Ok(false);
        }
        let missing = needed.saturating_sub(self.payload.len() - self.at);
        let count = self.piece_bytes.max(missing).div_ceil(block_bytes).max(1) as u64;
        let blocks = self.next_block..(self.next_block + count).min(file.footer().blocks);
        self.payload.drain(..self.at);
        let gone_over = self.block_ends.partition_point(|end| *end <= self.at);
        self.block_ends.drain(..gone_over);
        self.block_ends.iter_mut().for_each(|end| *end -= self.at);
        self.at = 0;
        // The thread's buffer serves all cursors of a merge.
        with_scratch(|buffer| -> Result<()> {
            let bytes = file.read_blocks(self.purpose, blocks.clone(), buffer)?;
            self.payload.reserve_exact(bytes.len());
            for (number, bytes) in blocks.clone().zip(bytes.chunks_exact(block_bytes)) {
                let block = self.store.block(number, bytes)?;
                self.payload.extend_from_slice(block.payload);
                self.block_ends.push_back(self.payload.len());
            }
            Ok(())
        })?;
        self.next_block = blocks.end;
        Ok(true)
    }

    fn slot_bytes(&self) -> usize {
        self.store.layout.slot_bytes(false).unwrap_or(1)
    }

    /// [`advance`](Cursor::advance) for a store whose buckets have no order inside.
    fn advance_in_buckets(&mut self, index: &BlockPerfectOutline) -> Result<bool> {
        self.current = None;
        self.bucket.free.extend(self.bucket.current.take());
        while !self.bucket.is_complete(index) && self.load_slots()? {}
        let Some((hash, place)) = self.bucket.waiting.pop() else { return Ok(false) };
        let record = self.bucket.record(&self.store.layout, self.slot_bytes(), place);
        self.current = record.map(|record| (hash, RecordSpan::within(&self.bucket.slots, &record)));
        self.bucket.current = Some(place);
        Ok(self.current.is_some())
    }

    /// Reads the next piece into the window, and puts the window in order; answers whether there was any.
    fn load_slots(&mut self) -> Result<bool> {
        let (store, slot_bytes) = (self.store.clone(), self.slot_bytes());
        let (file, layout) = (&store.file, &store.layout);
        let block_bytes = file.footer().block_bytes as usize;
        let count = (self.piece_bytes / block_bytes).max(1) as u64;
        let blocks = self.next_block..(self.next_block + count).min(file.footer().blocks);
        if blocks.is_empty() {
            self.bucket.is_last = true;
            return Ok(false);
        }
        with_scratch(|buffer| -> Result<()> {
            let bytes = file.read_blocks(self.purpose, blocks.clone(), buffer)?;
            for (number, bytes) in blocks.clone().zip(bytes.chunks_exact(block_bytes)) {
                let payload = store.block(number, bytes)?.payload;
                self.bucket.waiting.reserve_exact(payload.len() / slot_bytes);
                let mut at = 0;
                while let Ok((record, taken)) = store.decode(&payload[at..]) {
                    let hash = self.placing.place(record.key);
                    let place = self.bucket.keep(&payload[at..at + slot_bytes]);
                    self.bucket.waiting.push((hash, place));
                    at += taken;
                }
            }
            Ok(())
        })?;
        self.next_block = blocks.end;
        self.bucket.sort(layout, slot_bytes);
        Ok(true)
    }
}

impl BucketWindow {
    /// Whether the bucket of the next record is there as a whole: a record of a later one is.
    fn is_complete(&self, index: &BlockPerfectOutline) -> bool {
        let bucket =
            |record: Option<&(KeyHash, u32)>| record.map(|(hash, _)| index.bucket_of(hash.placement));
        self.is_last || bucket(self.waiting.last()) < bucket(self.waiting.first())
    }

    fn sort(&mut self, layout: &RecordLayout, slot_bytes: usize) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let key = |place| self.record(layout, slot_bytes, place).map(|record| record.key);
        waiting.sort_unstable_by(|(one_hash, one), (other_hash, other)| {
            other_hash.cmp(one_hash).then_with(|| key(*other).cmp(&key(*one)))
        });
        self.waiting = waiting;
    }

    fn record(&self, layout: &RecordLayout, slot_bytes: usize, place: u32) -> Option<RecordView<'_>> {
        let at = place as usize * slot_bytes;
        layout.decode_slot(self.slots.get(at..at + slot_bytes)?, false)
    }

    /// Copies a slot in, and answers its place.
    fn keep(&mut self, slot: &[u8]) -> u32 {
        match self.free.pop() {
            Some(place) => {
                let at = place as usize * slot.len();
                self.slots[at..at + slot.len()].copy_from_slice(slot);
                place
            }
            None => {
                if self.slots.capacity() - self.slots.len() < slot.len() {
                    self.slots.reserve_exact(slot.len().max(GROWTH_BYTES));
                }
                self.slots.extend_from_slice(slot);
                (self.slots.len() / slot.len() - 1) as u32
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        self.slots.capacity()
            + self.free.capacity() * size_of::<u32>()
            + self.waiting.capacity() * size_of::<(KeyHash, u32)>()
    }
}

impl Cursor for SortedCursor {
    fn advance(&mut self) -> Result<bool> {
        if let Some(buckets) = self.store.clone().buckets() {
            return self.advance_in_buckets(&buckets.outline);
        }
        self.current = None;
        loop {
            let problem = match self.store.decode(&self.payload[self.at..]) {
                Ok((record, taken)) => {
                    let hash = self.placing.place(record.key);
                    let span = RecordSpan::within(&self.payload, &record);
                    self.current = Some((hash, span));
                    self.start = self.at;
                    self.at += taken;
                    return Ok(true);
                }
                Err(problem) => problem,
            };
            let got = match problem {
                RecordProblem::Short(needed) if self.load(needed)? => continue,
                RecordProblem::Short(_) if self.at == self.payload.len() => return Ok(false),
                RecordProblem::Short(_) => "the end of the store",
                RecordProblem::Malformed(_) => "bytes that are not a record",
            };
            let block_bytes = u64::from(self.store.file.footer().block_bytes);
            return Err(self.store.file.file().corrupt(self.next_block * block_bytes, "a record", got));
        }
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let (hash, span) = self.current.as_ref()?;
        let buffer = if self.bucket.current.is_some() { &self.bucket.slots } else { &self.payload };
        Some(Entry { hash: *hash, record: span.view(buffer) })
    }

    fn heap_bytes(&self) -> usize {
        self.payload.capacity() + self.block_ends.capacity() * size_of::<usize>() + self.bucket.heap_bytes()
    }
}
