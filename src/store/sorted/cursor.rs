//! Going through a store in its own order.

use super::{Form, SortedStore};
use crate::Result;
use crate::device::{AlignedBuffer, Purpose};
use crate::key::{KeyHash, Placing};
use crate::store::block::Block;
use crate::store::merge::{Cursor, Entry};
use crate::store::record::{RecordProblem, RecordSpan, RecordView};
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
    buffer: AlignedBuffer,
    /// Payload that was read, of which the part before `at` was gone over.
    payload: Vec<u8>,
    /// Where in the payload each of the blocks ends that it was read from; the last one is that before `next_block`.
    block_ends: VecDeque<usize>,
    /// Where in the payload the current record begins.
    start: usize,
    at: usize,
    current: Option<(KeyHash, RecordSpan)>,
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
            buffer: AlignedBuffer::default(),
            payload: Vec::new(),
            block_ends: VecDeque::new(),
            start: 0,
            at: 0,
            current: None,
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
        let bytes = file.read_blocks(self.purpose, blocks.clone(), &mut self.buffer)?;
        for (number, bytes) in blocks.clone().zip(bytes.chunks_exact(block_bytes)) {
            let block = Block::open(file.file(), file.footer().number, number, bytes)?;
            self.payload.extend_from_slice(block.payload);
            self.block_ends.push_back(self.payload.len());
        }
        self.next_block = blocks.end;
        Ok(true)
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

impl Cursor for SortedCursor {
    fn advance(&mut self) -> Result<bool> {
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
        Some(Entry { hash: *hash, record: span.view(&self.payload) })
    }

    fn heap_bytes(&self) -> usize {
        self.buffer.heap_bytes() + self.payload.capacity() + self.block_ends.capacity() * size_of::<usize>()
    }
}
