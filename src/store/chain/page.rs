//! A page of a chain: the columns of all runs in one range (`docs/formats/chain.md`).

use super::directory::ChainRun;
use super::{BLOCK_BYTES, RunBlocks, page_checksum};
use siltstone_index::BuildError;
use siltstone_index::bloom::{BitSliced, BloomFilters, EncodedFilters};
use siltstone_index::coding::{DecodeError, Decoder};
use siltstone_index::run_columns::{Column, blocks_at};

const STRUCTURE: &str = "page of a chain";
const MAGIC: [u8; 0] = [];
/// The bytes before the filters: checksum, version, number of columns, length of the filters.
const HEADER_BYTES: usize = 12;
const CHECKSUM_BYTES: usize = 4;
const VERSION: u16 = 1;
/// The bytes of a first block, four, and a number of fences, three.
const POINTER_BYTES: usize = 7;

/// A page in its encoded form, which a lookup reads in place.
pub struct ChainPage<'a> {
    filters: EncodedFilters<'a>,
    filter_bytes: &'a [u8],
    /// For each column the first block and the number of its fences.
    pointers: &'a [[u8; POINTER_BYTES]],
    /// The fences of all columns.
    fences: &'a [[u8; 2]],
}

/// Returns the checksum that a page states.
pub(super) fn stated_checksum(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk::<CHECKSUM_BYTES>().map(|sum| u32::from_le_bytes(*sum))
}

fn pointer([b0, b1, b2, b3, f0, f1, f2]: [u8; POINTER_BYTES]) -> (u32, usize) {
    (u32::from_le_bytes([b0, b1, b2, b3]), u32::from_le_bytes([f0, f1, f2, 0]) as usize)
}

impl<'a> ChainPage<'a> {
    /// Reads the header of a page whose checksum was verified. Bytes after the page are ignored.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let rest = bytes.get(CHECKSUM_BYTES..).unwrap_or_default();
        let mut reader = Decoder::new(STRUCTURE, rest, MAGIC, VERSION)?;
        let columns: u64 = reader.u16("a number of columns")?.into();
        let length = reader.u32("a length")?;
        let filter_bytes = reader.take(length as usize, "filters")?;
        let filters = EncodedFilters::new(filter_bytes)?;
        // The pointers follow the first of these numbers, the matches of a lookup the second.
        let agrees = u64::from(filters.columns()) == columns;
        reader.check(0, agrees, || format!("{columns} filters"), || filters.columns().to_string())?;
        let pointers = reader.arrays(columns, "pointers")?;
        // At most 256 columns with less than 2^24 fences each, so the sum does not overflow.
        let fences: usize = pointers.iter().map(|bytes| pointer(*bytes).1).sum();
        let fences = reader.arrays(fences as u64, "fences")?;
        Ok(ChainPage { filters, filter_bytes, pointers, fences })
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> u32 {
        self.filters.columns()
    }

    /// Returns where the record of a placement, at a position in the range, may be: the newest run first.
    pub(super) fn places(&self, runs: &[ChainRun], placement: u64, position: u64) -> Vec<RunBlocks> {
        let mut places = Vec::new();
        for column in self.filters.matches(placement) {
            // The run of the column, and which of its columns it is.
            let mut first = 0;
            let found = runs.iter().enumerate().find(|(_, run)| {
                first += run.columns;
                column < first
            });
            let Some((run, ChainRun { columns, .. })) = found else { continue };
            let within = u128::from(position) * u128::from(*columns);
            // Of a run with several columns per range only one can have the placement: others match by chance.
            if (within >> 64) as u32 == column - (first - columns)
                && let Some(blocks) = self.blocks(column as usize, within as u64)
            {
                places.push(RunBlocks { run, blocks });
            }
        }
        places
    }

    /// Returns the blocks of a column at a position.
    fn blocks(&self, column: usize, position: u64) -> Option<std::ops::Range<u64>> {
        let (before, rest) = self.pointers.split_at_checked(column)?;
        let (first_block, count) = pointer(*rest.first()?);
        // A column stores only the number of its fences, so those of all columns before it are added up.
        let start: usize = before.iter().map(|bytes| pointer(*bytes).1).sum();
        let fences = self.fences.get(start..start + count)?;
        Some(blocks_at(first_block, position, |prefix| {
            let value = |fence: &[u8; 2]| u16::from_le_bytes(*fence);
            let lower = fences.partition_point(|fence| value(fence) < prefix);
            (lower, fences.partition_point(|fence| value(fence) <= prefix))
        }))
    }
}

/// A page that is being made.
#[derive(Default)]
pub(super) struct PageBuilder {
    filters: BloomFilters,
    pointers: Vec<u8>,
    fences: Vec<u8>,
}

impl PageBuilder {
    /// Begins with the columns of a page of an older chain.
    pub fn after(page: &ChainPage<'_>) -> Result<PageBuilder, DecodeError> {
        Ok(PageBuilder {
            filters: BloomFilters::decode(page.filter_bytes)?,
            pointers: page.pointers.as_flattened().to_vec(),
            fences: page.fences.as_flattened().to_vec(),
        })
    }

    /// Adds the filters of newer columns.
    pub fn push_filters(&mut self, filters: &[BitSliced]) -> Result<(), BuildError> {
        self.filters.append_each(filters)
    }

    /// Adds the blocks of a newer column, in the same order.
    pub fn push_blocks(&mut self, column: &Column<'_>) {
        self.pointers.extend(column.first_block.to_le_bytes());
        let [f0, f1, f2, _] = (column.fences.len() as u32).to_le_bytes();
        self.pointers.extend([f0, f1, f2]);
        self.fences.extend(column.fences.iter().flat_map(|fence| fence.to_le_bytes()));
    }

    /// Appends the page, in whole blocks.
    pub fn encode(&self, tag: u64, range: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; CHECKSUM_BYTES]);
        out.extend(VERSION.to_le_bytes());
        out.extend((self.filters.columns() as u16).to_le_bytes());
        out.extend((self.filters.encoded_bytes() as u32).to_le_bytes());
        debug_assert_eq!(out.len() - start, HEADER_BYTES, "the header has its length");
        self.filters.encode(out);
        out.extend_from_slice(&self.pointers);
        out.extend_from_slice(&self.fences);
        // Whole blocks, because the directory counts in blocks.
        let length = (out.len() - start).next_multiple_of(BLOCK_BYTES as usize);
        out.resize(start + length, 0);
        // The padding is in the checksum too: a reader verifies whole blocks.
        let sum = page_checksum(tag, range, &out[start + CHECKSUM_BYTES..]);
        out[start..start + CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
    }
}
