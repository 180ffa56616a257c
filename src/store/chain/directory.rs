//! The directory of a chain: its runs, and where its pages are (`docs/formats/chain.md`).

use super::{BLOCK_BYTES, COLUMNS_MAX};
use siltstone_index::coding::{DecodeError, Decoder};
use siltstone_index::run_columns::{RANGES_MAX, ROWS_MAX};
use std::ops::Range;

const STRUCTURE: &str = "directory of a chain";
const MAGIC: [u8; 4] = *b"SSCH";
const VERSION: u16 = 1;
/// The bytes of a page before its columns, and the most of a column there: a filter and the 8 bytes before it, its
/// place of 7 bytes, and less than 2^24 fences of 2 bytes.
const HEAD_BYTES: u64 = 20;
const COLUMN_BYTES_MAX: u64 = 8 + ROWS_MAX as u64 / 8 + 7 + (2 << 24);

/// A run of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainRun {
    /// The number of its store.
    pub number: u64,
    /// How many columns per range it has.
    pub columns: u32,
}

/// What of a chain is in memory.
pub(super) struct PageDirectory {
    pub ranges: u32,
    /// The runs, the oldest first.
    pub runs: Vec<ChainRun>,
    /// The first block of each page; then the end of the last one.
    pub first_blocks: Vec<u32>,
}

impl PageDirectory {
    /// Returns the blocks of the page of a range.
    pub fn blocks_of(&self, range: u32) -> Range<u64> {
        // For a range that does not exist, the blocks are empty.
        let block = |at: usize| u64::from(self.first_blocks.get(at).copied().unwrap_or(0));
        block(range as usize)..block(range as usize + 1)
    }

    pub fn heap_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<ChainRun>() + self.first_blocks.capacity() * size_of::<u32>()
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend((self.runs.len() as u16).to_le_bytes());
        out.extend(self.ranges.to_le_bytes());
        for run in &self.runs {
            out.extend(run.number.to_le_bytes());
            out.extend(run.columns.to_le_bytes());
        }
        out.extend(self.first_blocks.iter().flat_map(|block| block.to_le_bytes()));
    }

    /// Decodes the directory of a chain of this number of blocks.
    pub fn decode(bytes: &[u8], blocks: u64) -> Result<PageDirectory, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let count = reader.u16("a number of runs")?;
        let ranges = reader.u32("a number of ranges")?;
        let limit = || format!("1 to {RANGES_MAX} ranges");
        reader.check(4, (1..=RANGES_MAX).contains(&ranges), limit, || ranges.to_string())?;
        // At most 65,535, whatever the bytes claim.
        let mut runs = Vec::with_capacity(count.into());
        let mut columns = 0;
        for _ in 0..count {
            let run = ChainRun { number: reader.u64("a number")?, columns: reader.u32("columns")? };
            let is_allowed = (1..=COLUMNS_MAX).contains(&run.columns);
            let wanted = || format!("1 to {COLUMNS_MAX} columns");
            reader.check(4, is_allowed, wanted, || run.columns.to_string())?;
            // Both are at most 256, so the sum does not overflow before it is compared.
            columns += run.columns;
            reader.check(4, columns <= COLUMNS_MAX, wanted, || columns.to_string())?;
            runs.push(run);
        }
        let first_blocks = reader.arrays::<4>(u64::from(ranges) + 1, "first blocks")?;
        let first_blocks: Vec<u32> = first_blocks.iter().map(|block| u32::from_le_bytes(*block)).collect();
        let page_max = (HEAD_BYTES + u64::from(columns) * COLUMN_BYTES_MAX).div_ceil(BLOCK_BYTES.into());
        let is_page = |first: u32, next: u32| first < next && u64::from(next - first) <= page_max;
        // Ascending up to the last block, so no page is read outside of the blocks, and none that is too long.
        let is_allowed = first_blocks.first() == Some(&0)
            && first_blocks.is_sorted_by(|one, other| is_page(*one, *other))
            && first_blocks.last().is_some_and(|end| u64::from(*end) == blocks);
        let wanted = || format!("ascending blocks up to {blocks}, at most {page_max} of a page");
        reader.check(4, is_allowed, wanted, || "other blocks".into())?;
        reader.end()?;
        Ok(PageDirectory { ranges, runs, first_blocks })
    }
}
