//! Fences: a sparse index for records of any size in hash order. Maps each record to its block or blocks.
//!
//! Placements are rounded down to *cells*, four per expected record. The *fence* of a block is the cell of the first
//! record that has a byte in it; the fences are an Elias–Fano sequence. A lookup reads the blocks whose fences equal
//! its own cell, or, if there are none, the last block with a lower fence. If the cell of a fence also has bytes in the
//! preceding block, the boundary is *shared*, and that block is read as well:
//!
//! ```text
//! records, by cell   1  3  3  6 | 6  7 10 | 12 12 15
//! blocks                 0      |    1    |     2
//! fence                  -      |    6    |    12        boundary 0|1 is shared, 1|2 is not
//!
//! cell 6   fence of block 1, shared: blocks 0 and 1
//! cell 7   last lower fence is 6:    block 1
//! cell 12  fence of block 2:         block 2
//! ```
//!
//! Nearly all boundaries are of one kind, so only the exceptions are listed.
//!
//! The dissertation's sparse entropy-coded tries (Lim 2014, 3.1.6) solve the same problem; fences are smaller and
//! faster, because all they keep of a block is one rounded placement.

use super::bits::BitWriter;
use super::elias_fano::{EliasFano, EliasFanoBuilder, LEN_MAX};
use super::{BuildError, DecodeError, PlacementIndex};
use crate::coding::Decoder;
use std::ops::Range;

const STRUCTURE: &str = "fences";
const MAGIC: [u8; 4] = *b"SSFN";
const VERSION: u16 = 1;

/// More cells lengthen fences (1 bit per fence for twice as many); with fewer, more records share a cell with a fence.
const CELLS_PER_RECORD: u64 = 4;

/// The memory of the list of exceptions besides its numbers, in bytes. Fences of one kind of boundary have no list.
pub const EXCEPTIONS_BYTES: usize = size_of::<EliasFano>();

/// The maximum number of blocks.
pub const BLOCKS_MAX: u64 = LEN_MAX;

/// Properties of the records, known before the first one is pushed. Wrong numbers cost memory, and too low a number of
/// records also some reads of a second block; lookups stay correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FencesSettings {
    /// The approximate number of records.
    pub expected_records: u64,
    /// The approximate number of blocks.
    pub expected_blocks: u64,
}

/// Builds [`Fences`] from records pushed in the order of their placements.
///
/// Records of one cell on both sides of a block boundary make lookups of this cell read both blocks;
/// [`splits_cell`](Self::splits_cell) says when that would happen. To avoid it, a writer gathers all records of a cell
/// before it decides on their block. This leaves 3 % of the space unused with 4 records per block, and 0.2 % with 64.
#[derive(Debug, Clone)]
pub struct FencesBuilder {
    cells: u64,
    fences: EliasFanoBuilder,
    /// One bit per boundary.
    shared: BitWriter,
    last: Option<Last>,
}

/// The record pushed last.
#[derive(Debug, Clone, Copy)]
struct Last {
    placement: u64,
    cell: u64,
    blocks_end: u64,
}

impl FencesBuilder {
    /// Makes a builder without records.
    pub fn new(settings: FencesSettings) -> Self {
        let cells = settings.expected_records.saturating_mul(CELLS_PER_RECORD).max(1);
        let fences = EliasFanoBuilder::new(settings.expected_blocks, cells);
        Self { cells, fences, shared: BitWriter::default(), last: None }
    }

    /// Returns the cell of a placement; cells ascend with placements. There are four per expected record.
    pub fn cell_of(&self, placement: u64) -> u64 {
        cell_of(self.cells, placement)
    }

    /// Returns whether a record with this placement has the same cell as the one pushed last. A block boundary between
    /// them is then shared.
    pub fn splits_cell(&self, placement: u64) -> bool {
        self.last.is_some_and(|last| last.cell == self.cell_of(placement))
    }

    /// Adds a record: its placement, and the blocks that hold any of its bytes. Blocks count from 0. The first may be
    /// the last one of the previous record, the next one, or a later one, if blocks were left empty (lookups then read
    /// these as well).
    ///
    /// # Errors
    /// [`BuildError::OutOfOrder`] for a placement lower than the previous one; [`BuildError::Setting`] for an empty
    /// range, one that begins before the last block of the previous record, or one that reaches beyond [`BLOCKS_MAX`].
    /// The record is not added then.
    #[inline]
    pub fn push(&mut self, placement: u64, blocks: Range<u64>) -> Result<(), BuildError> {
        let refused = |name, got, limit| Err(BuildError::Setting { name, got, limit });
        let blocks_end = self.last.map_or(0, |last| last.blocks_end);
        if let Some(last) = self.last.filter(|last| placement < last.placement) {
            return Err(BuildError::OutOfOrder { last: last.placement, got: placement });
        }
        if blocks.is_empty() || blocks.end > BLOCKS_MAX {
            return refused("end of a record's blocks", blocks.end, "after their start and at most 2^30");
        }
        if blocks.start.saturating_add(1) < blocks_end {
            return refused(
                "first block of a record",
                blocks.start,
                "at or after the last block of the preceding record",
            );
        }
        let cell = self.cell_of(placement);
        let splits_cell = self.last.is_some_and(|last| last.cell == cell);
        // Block 0 has no fence. A block that was left empty has that of the next record.
        for block in blocks_end.max(1)..blocks.end {
            // Never refused: cells ascend with placements and are below the end.
            let taken = self.fences.push(cell);
            debug_assert!(taken, "cells ascend with placements");
            // Shared if the block before has bytes of this cell: those of the last record or of this one.
            self.shared.push((splits_cell || blocks.start < block).into(), 1);
        }
        self.last = Some(Last { placement, cell, blocks_end: blocks_end.max(blocks.end) });
        Ok(())
    }

    /// Returns the number of blocks up to the end of the record pushed last.
    pub fn blocks(&self) -> u64 {
        self.last.map_or(0, |last| last.blocks_end)
    }

    /// Returns the fences.
    pub fn finish(self) -> Fences {
        let (blocks, fences) = (self.blocks(), self.fences.finish());
        let shared = self.shared.finish();
        // `locate` checks only of the first of equal fences whether it is shared.
        let asked = || {
            let before = std::iter::once(None).chain(fences.iter().map(Some));
            let boundaries = (1..).zip(fences.iter().zip(before));
            boundaries
                .filter(|&(_, (fence, before))| Some(fence) != before)
                .map(|(boundary, _)| (boundary, shared.get(boundary - 1, 1) == 1))
        };
        let (all, shared_ones) = (asked().count(), asked().filter(|&(_, shared)| shared).count());
        let mostly_shared = shared_ones * 2 > all;
        let exceptional_ones = if mostly_shared { all - shared_ones } else { shared_ones };
        let exceptional =
            asked().filter(|&(_, shared)| shared != mostly_shared).map(|(boundary, _)| boundary);
        let mut exceptions = EliasFanoBuilder::new(exceptional_ones as u64, blocks.max(1));
        for boundary in exceptional {
            let taken = exceptions.push(boundary);
            debug_assert!(taken, "boundaries ascend");
        }
        let exceptions = exceptions_in(exceptions.finish());
        Fences { cells: self.cells, blocks, fences, mostly_shared, exceptions }
    }
}

/// Returns what is kept in memory of the exceptions: nothing if there are none, as in most small stores.
fn exceptions_in(exceptions: EliasFano) -> Option<Box<EliasFano>> {
    (exceptions.len() > 0).then(|| Box::new(exceptions))
}

fn cell_of(cells: u64, placement: u64) -> u64 {
    ((u128::from(placement) * u128::from(cells)) >> 64) as u64
}

/// The fences between blocks: 0.16 bits per record with 64 records per block, 0.52 with 16, 1.6 with 4.
///
/// Unsuitable for blocks of one or two records, where an index of records is smaller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fences {
    cells: u64,
    blocks: u64,
    /// The fences of all blocks but the first.
    fences: EliasFano,
    mostly_shared: bool,
    /// The boundaries that are not of the kind of most, if there are any. Boundary *j* precedes block *j*.
    exceptions: Option<Box<EliasFano>>,
}

impl Fences {
    /// Returns the number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Appends the encoded fences (`docs/formats/fences.md`).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.push(self.mostly_shared.into());
        out.extend(self.blocks.to_le_bytes());
        self.fences.encode(out);
        match &self.exceptions {
            Some(exceptions) => exceptions.encode(out),
            None => EliasFanoBuilder::new(0, self.blocks.max(1)).finish().encode(out),
        }
    }

    /// Decodes what [`Fences::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that the format does not allow, with their offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let mostly_shared = reader.u8("kind of most boundaries")?;
        reader.check(1, mostly_shared <= 1, || "0 or 1".into(), || mostly_shared.to_string())?;
        let blocks = reader.u64("a number of blocks")?;
        let fences = EliasFano::decode(&mut reader)?;
        // `locate` takes numbers of fences for numbers of blocks, so both must agree.
        let count = fences.len();
        reader.check(
            0,
            count == blocks.saturating_sub(1),
            || format!("fences of {blocks} blocks"),
            || count.to_string(),
        )?;
        // A placement is multiplied by the number of cells. Without any, all keys would be in the last block.
        reader.check(0, fences.end() > 0, || "at least one cell".into(), || "none".into())?;
        let exceptions = EliasFano::decode(&mut reader)?;
        let end = exceptions.end();
        reader.check(
            0,
            end == blocks.max(1),
            || format!("boundaries of {blocks} blocks"),
            || end.to_string(),
        )?;
        reader.end()?;
        let exceptions = exceptions_in(exceptions);
        Ok(Self { cells: fences.end(), blocks, fences, mostly_shared: mostly_shared == 1, exceptions })
    }

    fn is_shared(&self, boundary: u64) -> bool {
        self.mostly_shared != self.exceptions.as_ref().is_some_and(|exceptions| exceptions.contains(boundary))
    }
}

impl PlacementIndex for Fences {
    /// Returns the one block of a record, more if it spans several or shares its cell with one that does.
    fn locate(&self, placement: u64) -> Range<u64> {
        let cell = cell_of(self.cells, placement);
        let equal = self.fences.equal_range(cell);
        // The last block with a lower fence. Limited, because there may be no blocks.
        if equal.is_empty() {
            return equal.start.min(self.blocks)..(equal.start + 1).min(self.blocks);
        }
        // Fence *i* is that of block *i* + 1.
        let own = equal.start + 1;
        let start = if self.is_shared(own) { own - 1 } else { own };
        start..equal.end + 1
    }

    fn heap_bytes(&self) -> usize {
        let exceptions = self.exceptions.as_ref();
        let exceptions = exceptions.map_or(0, |list| EXCEPTIONS_BYTES + list.heap_bytes());
        self.fences.heap_bytes() + exceptions
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::Numbers;

    pub(crate) type Records = Vec<(u64, Range<u64>)>;

    pub(crate) fn built(records: &Records, expected_records: u64) -> Fences {
        let expected_blocks = records.last().map_or(0, |(_, blocks)| blocks.end);
        let mut builder = FencesBuilder::new(FencesSettings { expected_records, expected_blocks });
        for (placement, blocks) in records {
            builder.push(*placement, blocks.clone()).unwrap();
        }
        builder.finish()
    }

    /// Places records of these sizes one after another, across block boundaries.
    pub(crate) fn packed(
        placements: &[u64],
        mut size_bytes: impl FnMut() -> u64,
        block_bytes: u64,
    ) -> Records {
        let mut end = 0;
        let records = placements.iter().map(|&placement| {
            let start = end;
            end += size_bytes();
            (placement, start / block_bytes..end.div_ceil(block_bytes))
        });
        records.collect()
    }

    /// Places records of equal size, `records_per_block` in each block. No record spans two blocks, and no cell does
    /// unless it is larger than a block.
    fn aligned(placements: &[u64], records_per_block: usize) -> Records {
        let settings = FencesSettings { expected_records: placements.len() as u64, expected_blocks: 1 };
        let builder = FencesBuilder::new(settings);
        let (mut records, mut block, mut used) = (Records::new(), 0, 0);
        for cell in placements.chunk_by(|&one, &other| builder.cell_of(one) == builder.cell_of(other)) {
            for &placement in cell {
                if used + cell.len().min(records_per_block) > records_per_block && placement == cell[0]
                    || used == records_per_block
                {
                    (block, used) = (block + 1, 0);
                }
                used += 1;
                records.push((placement, block..block + 1));
            }
        }
        records
    }

    /// Returns the blocks with a byte of any record in the cell of this placement: those a lookup must read, and no
    /// others.
    fn oracle(fences: &Fences, records: &Records, placement: u64) -> Option<Range<u64>> {
        let cell = cell_of(fences.cells, placement);
        let start = records.partition_point(|(other, _)| cell_of(fences.cells, *other) < cell);
        let end = records.partition_point(|(other, _)| cell_of(fences.cells, *other) <= cell);
        (start < end).then(|| records[start].1.start..records[end - 1].1.end)
    }

    fn assert_finds_all(records: &Records, expected_records: u64) -> Fences {
        let fences = built(records, expected_records);
        for (placement, blocks) in records {
            let found = fences.locate(*placement);
            assert!(found.start <= blocks.start && blocks.end <= found.end, "{blocks:?} in {found:?}");
            assert_eq!(Some(found), oracle(&fences, records, *placement));
        }
        for (placement, _) in Numbers(99).keys(500).into_iter().chain([(0, 0), (u64::MAX, 0)]) {
            let found = fences.locate(placement);
            assert!(found.end <= fences.blocks() && found.is_empty() == (fences.blocks() == 0));
        }
        fences
    }

    #[test]
    fn exactly_the_blocks_of_a_cell_are_read() {
        let mut sizes = Numbers(1);
        for (count, size_max, block_bytes) in [
            (0, 1, 1),
            (1, 1, 1),
            (1, 100, 7),
            (2, 50, 10),
            (3_000, 200, 512),
            (3_000, 2_000, 512),
            (2_000, 90, 100),
            (500, 100_000, 64),
        ] {
            let placements = Numbers(count as u64).sorted_placements(count);
            let records = packed(&placements, || 1 + sizes.next() % size_max, block_bytes);
            for expected_records in [count as u64, 1, 100 * count as u64] {
                assert_finds_all(&records, expected_records);
            }
        }
    }

    #[test]
    fn records_of_cells_kept_within_blocks_are_read_from_one_block() {
        for records_per_block in [4, 5, 16, 64] {
            let records = aligned(&Numbers(2).sorted_placements(20_000), records_per_block);
            let fences = assert_finds_all(&records, 20_000);
            assert!(!fences.mostly_shared);
            let in_more = records.iter().filter(|(placement, _)| {
                let found = fences.locate(*placement);
                found.end - found.start > 1
            });
            let cells = records.chunk_by(|(one, _), (other, _)| {
                cell_of(fences.cells, *one) == cell_of(fences.cells, *other)
            });
            let in_large_cells = cells.map(<[_]>::len).filter(|&len| len > records_per_block).sum::<usize>();
            assert_eq!(in_more.count(), in_large_cells);
        }
    }

    #[test]
    fn they_take_few_bits_per_record() {
        for (records_per_block, bits_max) in [(4, 1.65), (16, 0.54), (64, 0.17)] {
            let fences = built(&aligned(&Numbers(3).sorted_placements(100_000), records_per_block), 100_000);
            let bits = fences.heap_bytes() as f64 * 8.0 / 100_000.0;
            assert!(bits <= bits_max, "{records_per_block} records per block: {bits} bits per record");
        }
    }

    #[test]
    fn equal_placements_are_read_together() {
        let placements = [vec![5 << 40; 10], vec![7 << 40; 1], vec![u64::MAX; 30]].concat();
        for (size, block) in [(10, 30), (10, 25), (70, 30), (30, 30)] {
            assert_finds_all(&packed(&placements, || size, block), 41);
        }
    }

    #[test]
    fn blocks_left_empty_do_not_hide_a_record() {
        let records: Records =
            vec![(1 << 60, 2..3), (2 << 60, 3..4), (3 << 60, 9..12), (4 << 60, 11..13), (5 << 60, 20..21)];
        let fences = built(&records, 5);
        for (placement, blocks) in &records {
            let found = fences.locate(*placement);
            assert!(found.start <= blocks.start && blocks.end <= found.end);
        }
    }

    #[test]
    fn the_builder_refuses_what_is_out_of_order() {
        let mut builder = FencesBuilder::new(FencesSettings { expected_records: 4, expected_blocks: 4 });
        builder.push(10, 0..3).unwrap();
        assert!(builder.splits_cell(10) && !builder.splits_cell(u64::MAX));
        assert_eq!(builder.push(9, 3..4), Err(BuildError::OutOfOrder { last: 10, got: 9 }));
        for blocks in [1..3, 3..3, 5..BLOCKS_MAX + 1, 0..1] {
            assert!(matches!(builder.push(10, blocks), Err(BuildError::Setting { .. })));
        }
        builder.push(10, 2..3).unwrap();
        builder.push(11, 3..4).unwrap();
        assert_eq!(builder.blocks(), 4);
        assert_eq!(builder.finish().blocks(), 4);
    }
}
