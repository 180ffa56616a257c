//! Reading a table whose records are in hash order from its first record to its last.

use super::OrderedTable;
use crate::error::{CorruptFile, Result};
use crate::key::KeyHash;
use crate::store::merge::{Cursor, PlacedRecord};
use crate::store::record::{RecordProblem, RecordSpan};
use siltstone_device::{Purpose, ReadAhead};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// The memory of decoded records is freed when they take one part in this many of the payload, if that is short.
const FREED_SHARE: usize = 4;
/// The maximum length of such a payload, in bytes: a merge has many cursors, and each holds a block.
pub const FREED_PAYLOAD_MAX: usize = 8 << 10;

/// The records of an [`OrderedTable`] whose records are ordered throughout, read in pieces.
pub struct OrderedCursor {
    table: Arc<OrderedTable>,
    reader: ReadAhead,
    next_block: u64,
    /// The table with its index, for [`seek`](Cursor::seek). Released by the first read.
    indexed: Option<OrderedTable>,
    /// Whether the next block may begin within a record that the cursor skips.
    skips_partial_record: bool,
    /// Payload that has been read; the part before `at` has been decoded.
    payload: Vec<u8>,
    /// The end in `payload` of each block that it was read from; the last one is the block before `next_block`.
    block_ends: VecDeque<usize>,
    /// The position in `payload` of the current record.
    start: usize,
    at: usize,
    current: Option<(KeyHash, RecordSpan)>,
}

impl OrderedCursor {
    /// Creates a cursor before the first record that reads `piece_bytes` at a time. `table` must not be ordered by
    /// buckets only: see [`OrderedTable::cursor`].
    pub(crate) fn new(table: &OrderedTable, purpose: Purpose, piece_bytes: usize) -> OrderedCursor {
        OrderedCursor {
            // The cursor needs neither index nor filter, so that they can be released while it runs.
            table: Arc::new(table.without_filter().without_index()),
            reader: ReadAhead::new(purpose, piece_bytes, table.file.footer().block_bytes as usize),
            next_block: 0,
            indexed: Some(table.without_filter()),
            skips_partial_record: false,
            payload: Vec::new(),
            block_ends: VecDeque::new(),
            start: 0,
            at: 0,
            current: None,
        }
    }

    /// Returns a cursor that begins with the first record that begins in a block or after it.
    pub(super) fn begin_at(self, block: u64) -> OrderedCursor {
        // The block may begin with the rest of an earlier record.
        OrderedCursor { next_block: block, skips_partial_record: block > 0, ..self }
    }

    /// Returns a cursor that continues after a block. The caller has read its `payload`, which begins with a record.
    pub(super) fn continue_after(self, payload: &[u8], block: u64) -> OrderedCursor {
        let block_ends = VecDeque::from([payload.len()]);
        OrderedCursor { next_block: block + 1, payload: payload.to_vec(), block_ends, ..self }
    }

    /// Returns the blocks that contain bytes of the current record.
    pub(crate) fn blocks(&self) -> Range<u64> {
        // The blocks in `block_ends` are those directly before `next_block`.
        let first = self.next_block - self.block_ends.len() as u64;
        let before_start = self.block_ends.partition_point(|end| *end <= self.start) as u64;
        let before_last = self.block_ends.partition_point(|end| *end < self.at) as u64;
        first + before_start..first + before_last + 1
    }

    /// Drops the payload before a position that was decoded.
    fn drop_before(&mut self, position: usize) {
        self.payload.drain(..position);
        let decoded = self.block_ends.partition_point(|end| *end <= position);
        self.block_ends.drain(..decoded);
        self.block_ends.iter_mut().for_each(|end| *end -= position);
        self.at -= position;
    }

    /// Reads the next piece, or more if the next record takes `needed` bytes of payload. Returns `false` at the end.
    fn load(&mut self, needed: usize) -> Result<bool> {
        let file = &self.table.file;
        let block_bytes = file.footer().block_bytes as usize;
        if self.next_block >= file.footer().blocks {
            return Ok(false);
        }
        // From the first read on, the cursor cannot seek, so its index may be released.
        self.indexed = None;
        let missing = needed.saturating_sub(self.payload.len() - self.at);
        // Before the read, so that the payload grows by the piece only.
        self.drop_before(self.at);
        let OrderedCursor { table, payload, block_ends, skips_partial_record, .. } = self;
        self.next_block =
            table.file.read_blocks_ahead(&mut self.reader, self.next_block, missing, |first, bytes| {
                payload.reserve_exact(bytes.len());
                for (number, bytes) in (first..).zip(bytes.chunks_exact(block_bytes)) {
                    // Verified also if gets skip it: a merge gives these bytes a new checksum.
                    let block = table.block(number, bytes, true)?;
                    let skipped = match block.first_record {
                        _ if !*skips_partial_record => 0,
                        Some(first_record) => first_record,
                        None => block.payload.len(),
                    };
                    // The skipped record may fill several blocks.
                    *skips_partial_record &= block.first_record.is_none();
                    payload.extend_from_slice(block.payload.get(skipped..).unwrap_or_default());
                    block_ends.push_back(payload.len());
                }
                Ok(())
            })?;
        Ok(true)
    }
}

impl Cursor for OrderedCursor {
    fn advance(&mut self) -> Result<bool> {
        self.current = None;
        let payload_bytes = self.payload.capacity();
        if payload_bytes <= FREED_PAYLOAD_MAX && self.at * FREED_SHARE > payload_bytes {
            self.drop_before(self.at);
            self.payload.shrink_to_fit();
        }
        loop {
            let problem = match self.table.decode(&self.payload[self.at..]) {
                Ok((record, taken)) => {
                    let hash = self.table.shape.hasher.hash(record.key);
                    let span = RecordSpan::within(&self.payload, &record);
                    self.current = Some((hash, span));
                    self.start = self.at;
                    self.at += taken;
                    return Ok(true);
                }
                Err(problem) => problem,
            };
            let got = match problem {
                // The record continues in blocks that are not read yet.
                RecordProblem::Short(needed) if self.load(needed)? => continue,
                RecordProblem::Short(_) if self.at == self.payload.len() => return Ok(false),
                RecordProblem::Short(_) => "the end of the store",
                RecordProblem::Malformed(_) => "bytes that are not a record",
            };
            let block_bytes = u64::from(self.table.file.footer().block_bytes);
            return Err(self.table.file.file().corrupt(self.next_block * block_bytes, "a record", got));
        }
    }

    /// Finds the block by the index, or by a search if the index is not in memory.
    fn seek(&mut self, placement: u64) -> Result<()> {
        if let Some(table) = &self.indexed {
            self.next_block = table.first_block_from(self.reader.purpose(), placement)?;
            // As in `begin_at`.
            self.skips_partial_record = self.next_block > 0;
        }
        Ok(())
    }

    fn entry(&self) -> Option<PlacedRecord<'_>> {
        let (hash, span) = self.current.as_ref()?;
        Some(PlacedRecord { hash: *hash, record: span.view(&self.payload) })
    }

    fn heap_bytes(&self) -> usize {
        self.payload.capacity() + self.block_ends.capacity() * size_of::<usize>() + self.reader.heap_bytes()
    }
}
