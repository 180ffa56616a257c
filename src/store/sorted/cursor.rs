//! Going through a store in its own order.

use super::{Form, SortedStore, StoreIndex};
use crate::Result;
use crate::device::{Purpose, with_scratch};
use crate::index::block_perfect::BlockPerfect;
use crate::key::{KeyHash, Placing};
use crate::store::block::Block;
use crate::store::merge::{Cursor, Entry};
use crate::store::record::{RecordProblem, RecordSpan, RecordView};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
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

/// By how many slots a window grows.
const SLOTS_GROWTH: usize = 64;

/// Slots of a bucket that is put in order in memory. A bucket is there as a whole once a record of a later one is.
#[derive(Default)]
struct BucketWindow {
    slots: Vec<u8>,
    /// Slots that hold nothing any more, by their place.
    free: Vec<u32>,
    waiting: BinaryHeap<Reverse<(KeyHash, u32)>>,
    /// Of records whose hashes are equal, those that come later, the next one at the end.
    equal: Vec<(KeyHash, u32)>,
    last_bucket: u64,
    current: Option<u32>,
}

impl SortedCursor {
    /// A cursor before the first record, which reads `piece_bytes` at a time.
    pub fn new(store: Arc<SortedStore>, placing: Placing, purpose: Purpose, piece_bytes: usize) -> Self {
        SortedCursor {
            store,
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
                let block = Block::open(file.file(), file.footer().number, number, bytes)?;
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
    fn advance_in_buckets(&mut self, index: &BlockPerfect) -> Result<bool> {
        let slot_bytes = self.slot_bytes();
        self.current = None;
        self.bucket.free.extend(self.bucket.current.take());
        if self.bucket.equal.is_empty() {
            loop {
                let first =
                    self.bucket.waiting.peek().map(|Reverse((hash, _))| index.bucket_of(hash.placement));
                if first.is_some_and(|bucket| bucket < self.bucket.last_bucket) || !self.load(0)? {
                    break;
                }
                let payload = std::mem::take(&mut self.payload);
                for slot in payload[self.at..].chunks_exact(slot_bytes) {
                    let Some(record) = self.store.layout.decode_slot(slot, false) else { continue };
                    let hash = self.placing.place(record.key);
                    self.bucket.last_bucket = self.bucket.last_bucket.max(index.bucket_of(hash.placement));
                    let place = self.bucket.keep(slot);
                    self.bucket.waiting.push(Reverse((hash, place)));
                }
                self.at = payload.len();
                self.payload = payload;
            }
            self.take_equal(slot_bytes);
        }
        let Some((hash, place)) = self.bucket.equal.pop() else { return Ok(false) };
        let at = place as usize * slot_bytes;
        let record = self.store.layout.decode_slot(&self.bucket.slots[at..at + slot_bytes], false);
        self.current = record.map(|record| (hash, RecordSpan::within(&self.bucket.slots, &record)));
        self.bucket.current = Some(place);
        Ok(self.current.is_some())
    }

    /// Takes the records with the lowest hash, in the order of their keys.
    fn take_equal(&mut self, slot_bytes: usize) {
        let bucket = &mut self.bucket;
        let Some(Reverse(first)) = bucket.waiting.pop() else { return };
        bucket.equal.push(first);
        while bucket.waiting.peek().is_some_and(|Reverse((hash, _))| *hash == first.0) {
            bucket.equal.extend(bucket.waiting.pop().map(|Reverse(next)| next));
        }
        if bucket.equal.len() > 1 {
            let layout = &self.store.layout;
            let key = |place: u32| {
                let at = place as usize * slot_bytes;
                layout.decode_slot(&bucket.slots[at..at + slot_bytes], false).map(|record| record.key)
            };
            bucket.equal.sort_unstable_by(|one, two| key(two.1).cmp(&key(one.1)));
        }
    }

    fn decode<'a>(&self, bytes: &'a [u8]) -> std::result::Result<(RecordView<'a>, usize), RecordProblem> {
        let layout = &self.store.layout;
        match self.store.form {
            Form::Stream => layout.decode_stream(bytes).map(|(_, record, taken)| (record, taken)),
            Form::Slots => {
                let slot_bytes = layout.slot_bytes(false).unwrap_or(1);
                let slot = bytes.get(..slot_bytes).ok_or(RecordProblem::Short(slot_bytes))?;
                let malformed = RecordProblem::Malformed("a record of the database's size");
                layout.decode_slot(slot, false).map(|record| (record, slot_bytes)).ok_or(malformed)
            }
        }
    }
}

impl BucketWindow {
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
                    self.slots.reserve_exact(slot.len() * SLOTS_GROWTH);
                }
                self.slots.extend_from_slice(slot);
                (self.slots.len() / slot.len() - 1) as u32
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        let entries = self.waiting.capacity() + self.equal.capacity();
        self.slots.capacity()
            + self.free.capacity() * size_of::<u32>()
            + entries * size_of::<(KeyHash, u32)>()
    }
}

impl Cursor for SortedCursor {
    fn advance(&mut self) -> Result<bool> {
        if let StoreIndex::BlockPerfect(index) = &self.store.clone().index {
            return self.advance_in_buckets(index);
        }
        self.current = None;
        loop {
            let problem = match self.decode(&self.payload[self.at..]) {
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
                RecordProblem::Malformed(_) => "bytes that are no record",
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
