//! Finds a key without an index (SILT 4, fail-graceful indexing): by interpolation, since hashes are evenly spread, and
//! by bisection if they are not. Takes a few reads of a block, at most [`INTERPOLATIONS_MAX`] plus the binary logarithm
//! of the number of blocks.

use super::{BlockForm, OrderedCursor, OrderedTable};
use crate::error::{CorruptFile, Result};
use crate::store::Query;
use crate::store::merge::Cursor;
use crate::store::record::{RecordProblem, RecordView};
use siltstone_device::AlignedBuffer;

/// The number of interpolations after which hashes are assumed to be uneven.
const INTERPOLATIONS_MAX: u32 = 8;

/// If no record begins in a block, increasing numbers of the following blocks are read at a time, up to this many.
const BLOCKS_PER_READ_MAX: u64 = 256;

/// A search for one key in a store whose records are in hash order throughout.
pub(super) struct TableSearch<'a> {
    pub table: &'a OrderedTable,
    pub query: Query<'a>,
}

/// A position at which a record begins, and the payload from there to the end of a block.
struct Probe {
    /// The block in which the record begins.
    block: u64,
    /// The last block of the payload.
    last_block: u64,
    payload: Vec<u8>,
    placement: u64,
}

/// The result of comparing the records of a probe with the key.
enum Comparison<T> {
    Known(Option<T>),
    /// The first record of the key, if it exists, begins in this block or later.
    Later,
    /// It begins in an earlier block, or is the first one to begin here.
    Earlier,
}

/// The result of a bisection.
enum Bisected<T> {
    Known(Option<T>),
    /// The record is at or after this one; at the beginning of the store if `None`.
    From(Option<Probe>),
}

impl TableSearch<'_> {
    /// Calls `found` with the record, if it exists.
    pub fn run<T>(&self, mut found: impl FnMut(&RecordView<'_>) -> T) -> Result<Option<T>> {
        match self.bisect(|probe| self.compare(probe, &mut found))? {
            Bisected::Known(value) => Ok(value),
            Bisected::From(Some(probe)) => self.scan(probe, found),
            Bisected::From(None) => match self.probe(0, self.table.file().footer().blocks)? {
                Some(probe) => self.scan(probe, found),
                None => Ok(None),
            },
        }
    }

    /// Returns a block such that all records from the placement on begin in it or in later blocks. `key` must be empty.
    pub fn first_block(&self) -> Result<u64> {
        let bisected = self.bisect(|probe| match self.compare(probe, &mut |_| ()) {
            Comparison::Known(_) => Comparison::Known(Some(probe.block)),
            Comparison::Later => Comparison::Later,
            Comparison::Earlier => Comparison::Earlier,
        })?;
        Ok(match bisected {
            Bisected::Known(block) => block.unwrap_or(0),
            Bisected::From(probe) => probe.map_or(0, |probe| probe.block),
        })
    }

    /// Examines blocks, by interpolation first, until `compare` has the result, or until the last record is found that
    /// is the first to begin in its block and is lower than the one sought.
    fn bisect<T>(&self, mut compare: impl FnMut(&Probe) -> Comparison<T>) -> Result<Bisected<T>> {
        let blocks = self.table.file().footer().blocks;
        // Each is a block, and the placement of the first record that begins there or the limit of all placements.
        let (mut low, mut high) = ((0, 0), (blocks, u64::MAX));
        let mut lowest = None;
        let mut guesses = 0;
        // Each turn raises `low` or lowers `high`, whatever the blocks contain, so the search ends.
        while high.0 - low.0 > 1 {
            let guess = if guesses < INTERPOLATIONS_MAX {
                interpolate(low, high, self.query.hash.placement)
            } else {
                low.0.midpoint(high.0)
            };
            guesses += 1;
            let Some(probe) = self.probe(guess, high.0)? else {
                // No record begins between the two blocks.
                high.0 = guess;
                continue;
            };
            match compare(&probe) {
                Comparison::Known(value) => return Ok(Bisected::Known(value)),
                Comparison::Later => {
                    low = (probe.block, probe.placement);
                    lowest = Some(probe);
                }
                // The guess and not the block of the probe: no record begins between the two.
                Comparison::Earlier => high = (guess, probe.placement),
            }
        }
        Ok(Bisected::From(lowest))
    }

    /// Returns the first record that begins in `block` or after it, before `end`; `None` if none does.
    fn probe(&self, block: u64, end: u64) -> Result<Option<Probe>> {
        let mut payload = Vec::new();
        let (mut next, mut count) = (block, 1);
        let mut begins = None;
        let mut buffer = AlignedBuffer::default();
        let footer = self.table.file().footer();
        loop {
            // The key may continue in a later block than the one it begins in.
            let limit = if begins.is_some() { footer.blocks } else { end };
            let blocks = next..(next + count).min(limit);
            if blocks.is_empty() {
                break;
            }
            let bytes = self.table.file().read_blocks(self.query.purpose, blocks.clone(), &mut buffer)?;
            for bytes in bytes.chunks_exact(footer.block_bytes as usize) {
                // Verified also if gets skip it: with one wrong comparison the search would miss a record that exists.
                let opened = self.table.block(next, bytes, true)?;
                next += 1;
                if begins.is_some() {
                    payload.extend_from_slice(opened.payload);
                } else if let Some(first) = opened.first_record {
                    begins = Some(next - 1);
                    payload.extend_from_slice(opened.payload.get(first..).unwrap_or_default());
                }
                let Some(block) = begins else { continue };
                match self.first_key(&payload) {
                    Ok(key) => {
                        let placement = self.table.shape.hasher.hash(key).placement;
                        return Ok(Some(Probe { block, last_block: next - 1, payload, placement }));
                    }
                    // The key continues in the next block.
                    Err(RecordProblem::Short(_)) => {}
                    Err(RecordProblem::Malformed(expected)) => return Err(self.damaged(block, expected)),
                }
            }
            count = (2 * count).min(BLOCKS_PER_READ_MAX);
        }
        // A record that has begun must end within the store. Otherwise none begins before `end`.
        match begins {
            Some(block) if next == footer.blocks => Err(self.damaged(block, "a complete record")),
            _ => Ok(None),
        }
    }

    fn damaged(&self, block: u64, expected: &str) -> crate::error::Error {
        let file = self.table.file();
        let offset = (block + 1) * u64::from(file.footer().block_bytes);
        file.file().corrupt(offset, expected, "other bytes")
    }

    fn first_key<'p>(&self, payload: &'p [u8]) -> std::result::Result<&'p [u8], RecordProblem> {
        match self.table.form() {
            BlockForm::Stream => self.table.shape.layout.decode_stream_key(payload),
            _ => self.table.decode(payload).map(|(record, _)| record.key),
        }
    }

    /// Decides from the records that are completely in the payload where to continue.
    fn compare<T>(&self, probe: &Probe, found: &mut impl FnMut(&RecordView<'_>) -> T) -> Comparison<T> {
        let mut payload = &probe.payload[..];
        let mut last = None;
        while let Ok((record, taken)) = self.table.decode(payload) {
            if record.key == self.query.key {
                return Comparison::Known(Some(found(&record)));
            }
            last = Some(record.key);
            payload = &payload[taken..];
        }
        // Also if they are equal: records of one placement may begin in an earlier block.
        if probe.placement >= self.query.hash.placement {
            return Comparison::Earlier;
        }
        match last {
            // A record of a lower placement and one of a higher placement surround the key, so it is absent.
            Some(last) if self.table.shape.hasher.hash(last).placement > self.query.hash.placement => {
                Comparison::Known(None)
            }
            _ => Comparison::Later,
        }
    }

    /// Reads forward from a record that is not after the one sought, until that is found or passed.
    fn scan<T>(&self, probe: Probe, mut found: impl FnMut(&RecordView<'_>) -> T) -> Result<Option<T>> {
        let footer = self.table.file().footer();
        let cursor = OrderedCursor::new(self.table, self.query.purpose, footer.block_bytes as usize);
        // With the payload that was read: its first record begins in the middle of a block.
        let cursor = cursor.continue_after(&probe.payload, probe.last_block);
        find_ahead(cursor, &self.query, footer.blocks, &mut found)
    }
}

/// Calls `found` with the record of a key, if it is among the next ones and begins before the block `end`.
pub(super) fn find_ahead<T>(
    mut cursor: OrderedCursor,
    query: &Query<'_>,
    end: u64,
    found: &mut impl FnMut(&RecordView<'_>) -> T,
) -> Result<Option<T>> {
    while cursor.advance()? {
        let Some(entry) = cursor.entry() else { break };
        if entry.record.key == query.key {
            return Ok(Some(found(&entry.record)));
        }
        // Not at an equal placement, which other keys may have.
        if entry.hash.placement > query.hash.placement || cursor.blocks().start >= end {
            break;
        }
    }
    Ok(None)
}

/// Returns the block between two others in which a placement is expected. There must be a block between them.
fn interpolate(low: (u64, u64), high: (u64, u64), placement: u64) -> u64 {
    let blocks = high.0 - low.0;
    let width = u128::from(high.1.saturating_sub(low.1)).max(1);
    let share = u128::from(placement.saturating_sub(low.1)) * u128::from(blocks) / width;
    // Strictly between the two, so that each guess excludes a block.
    low.0 + (share as u64).clamp(1, blocks - 1)
}
