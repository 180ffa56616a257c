//! The columns of a run: for each range of placements, a Bloom filter of the run's records there and the blocks that
//! hold them (BloomStore, III-A). A chain has the columns of many runs side by side. Of a run in no chain, only the
//! fences are in memory ([`RunFences`](super::run_fences::RunFences)).
//!
//! All runs of a chain cut the placements into the same equal ranges. A *fence* of a block is the position within the
//! range of the first record that has a byte in the block:
//!
//! ```text
//! range               |        0        |        1          |
//! records, positions     10   20  40  60   5   30   45   50
//! blocks                 0   |     1     |     2      |  3
//! first block                0                  1
//! fences                     20    -           30       50
//! ```
//!
//! A record of range 1 at position 40 has fences 30 before and 50 after it, so it is in block 2. The block in which a
//! range begins needs no fence. If the first record at a position begins with its block, the fence is one lower, so
//! that the block before is not read.

use super::bloom::{BitSliced, FUNCTIONS_MAX, functions_of, rows_of};
use super::{BuildError, DecodeError, PlacementIndex, list_bytes};
use crate::coding::Decoder;
use std::ops::Range;

const STRUCTURE: &str = "columns of a run";
const MAGIC: [u8; 4] = *b"SSRC";
const VERSION: u16 = 1;

/// The maximum number of rows of a filter.
pub const ROWS_MAX: u32 = 1 << 28;
/// The maximum number of ranges.
pub const RANGES_MAX: u32 = 1 << 28;

/// How a run is cut into columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunColumnsSettings {
    /// The number of ranges.
    pub ranges: u32,
    /// The bits of a filter per record.
    pub filter_bits: u8,
}

/// One column: the records of a run in one range.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    /// The bits of the filter, row by row.
    words: &'a [u64],
    /// The block in which the first record of the range begins.
    pub first_block: u32,
    /// The fences of the blocks after it, up to the one in which the next range begins.
    pub fences: &'a [u16],
}

/// The columns of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunColumns {
    ranges: u32,
    rows: u32,
    functions: u32,
    filter_bits: u8,
    /// The filters, one range after the other, each of whole words.
    words: Vec<u64>,
    /// The first block of each range; then the last block.
    first_blocks: Vec<u32>,
    /// The fence of each block.
    fences: Vec<u16>,
}

/// Builds [`RunColumns`] from records in the order of their placements.
#[derive(Debug, Clone)]
pub struct RunColumnsBuilder {
    columns: RunColumns,
    last: u64,
}

/// Returns the words of a filter.
fn row_words(rows: u32) -> usize {
    rows.div_ceil(64) as usize
}

/// Returns the range of a placement, and the position in the range, which is uniform over all numbers.
#[inline]
pub fn range_of(placement: u64, ranges: u32) -> (u32, u64) {
    let product = u128::from(placement) * u128::from(ranges);
    ((product >> 64) as u32, product as u64)
}

/// Returns the part of a position that fences have.
#[inline]
pub(super) fn prefix_of(position: u64) -> u16 {
    (position >> 48) as u16
}

/// Returns the blocks that have the record at a position, given the first block and the fences of its column.
#[inline]
pub fn blocks_at(first_block: u32, position: u64, lower: impl Fn(u16) -> (usize, usize)) -> Range<u64> {
    let (start, end) = lower(prefix_of(position));
    let first = u64::from(first_block);
    first + start as u64..first + end as u64 + 1
}

/// Returns how many of ascending fences are lower than a prefix, and how many are not higher.
#[inline]
fn count_fences(fences: &[u16], prefix: u16) -> (usize, usize) {
    (fences.partition_point(|fence| *fence < prefix), fences.partition_point(|fence| *fence <= prefix))
}

/// Returns the number of rows of the filters of a run: the bits per record times the mean number of records of a range.
/// It is rounded to one of four numbers per power of two, so that runs of similar sizes have filters of one shape. With
/// two numbers, a quarter more lookups read in vain.
fn rows_for(settings: RunColumnsSettings, expected_records: u64) -> u32 {
    let bits = expected_records as f64 / f64::from(settings.ranges) * f64::from(settings.filter_bits);
    let bits = bits.clamp(8.0, f64::from(ROWS_MAX));
    let power = bits.log2().floor().exp2();
    // The nearest of 1, 1.25, 1.5, 1.75 and 2 times the power.
    let quarters = (4.0 * bits / power).round();
    ((quarters * power / 4.0) as u32).min(ROWS_MAX)
}

impl RunColumnsBuilder {
    /// Makes a builder without records.
    ///
    /// # Errors
    /// [`BuildError::Setting`] for no ranges or bits, or more than [`RANGES_MAX`] ranges.
    pub fn new(settings: RunColumnsSettings, expected_records: u64) -> Result<Self, BuildError> {
        let RunColumnsSettings { ranges, filter_bits } = settings;
        let refused = |name, got: u32, limit| Err(BuildError::Setting { name, got: got.into(), limit });
        if !(1..=RANGES_MAX).contains(&ranges) {
            return refused("ranges", ranges, "1 to 2^28");
        }
        if filter_bits == 0 {
            return refused("filter_bits", 0, "1 or more");
        }
        let rows = rows_for(settings, expected_records);
        let columns = RunColumns {
            ranges,
            rows,
            functions: functions_of(rows, f64::from(rows) / f64::from(filter_bits)),
            filter_bits,
            words: vec![0; ranges as usize * row_words(rows)],
            first_blocks: Vec::with_capacity(ranges as usize + 1),
            fences: Vec::new(),
        };
        Ok(RunColumnsBuilder { columns, last: 0 })
    }

    /// Adds a record: its placement, and the blocks that hold any of its bytes. Blocks count from 0.
    ///
    /// # Errors
    /// [`BuildError::OutOfOrder`] for a placement lower than the previous one; [`BuildError::Setting`] for an empty
    /// range, one that begins before the last block of the previous record, or more than 2^32 blocks.
    pub fn push(&mut self, placement: u64, blocks: Range<u64>) -> Result<(), BuildError> {
        let RunColumns { ranges, rows, functions, words, first_blocks, fences, .. } = &mut self.columns;
        if placement < self.last {
            return Err(BuildError::OutOfOrder { last: self.last, got: placement });
        }
        // Without a gap, so that every block but the first gets a fence.
        let first_blocks_allowed = (fences.len() as u64).saturating_sub(1)..=fences.len() as u64;
        if blocks.is_empty() || !first_blocks_allowed.contains(&blocks.start) || blocks.end > 1 << 32 {
            let limit = "the last block of the preceding record or the next one";
            return Err(BuildError::Setting { name: "first block of a record", got: blocks.start, limit });
        }
        let (range, position) = range_of(placement, *ranges);
        let (range_before, before) = range_of(self.last, *ranges);
        // Then the block before has a record at the same position.
        let follows_equal = (range_before, prefix_of(before)) == (range, prefix_of(position));
        self.last = placement;
        // Ranges without a record begin where the next record begins.
        first_blocks.resize((range as usize + 1).max(first_blocks.len()), blocks.start as u32);
        let first_block = first_blocks.get(range as usize).map_or(0, |first| u64::from(*first));
        for block in fences.len() as u64..blocks.end {
            let prefix = prefix_of(position);
            fences.push(match block {
                // It is the fence of an earlier range, all of whose records are lower.
                _ if block == first_block => u16::MAX,
                _ if block == blocks.start && !follows_equal => prefix.saturating_sub(1),
                _ => prefix,
            });
        }
        // The filter of a range has whole words, so a chain copies it without a shift.
        let filter = words.get_mut(range as usize * row_words(*rows)..).unwrap_or_default();
        for row in rows_of(*rows, *functions, placement) {
            if let Some(word) = filter.get_mut((row / 64) as usize) {
                *word |= 1 << (row % 64);
            }
        }
        Ok(())
    }

    /// Returns the memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.columns.heap_bytes()
    }

    /// Returns the columns.
    pub fn finish(mut self) -> RunColumns {
        let columns = &mut self.columns;
        let last_block = columns.fences.len().saturating_sub(1) as u32;
        // Ranges after the last record have no block of their own.
        columns.first_blocks.resize(columns.ranges as usize + 1, last_block);
        columns.fences.shrink_to_fit();
        self.columns
    }
}

impl RunColumns {
    /// Returns the number of ranges.
    pub fn ranges(&self) -> u32 {
        self.ranges
    }

    /// Returns the number of rows of a filter.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the filter of a column as a matrix.
    ///
    /// # Errors
    /// Never, since the numbers of rows and functions are within their limits.
    pub fn filter_of(&self, column: &Column<'_>) -> Result<BitSliced, BuildError> {
        BitSliced::filter_of_bits(self.rows, self.functions, column.words)
    }

    /// Returns how the run is cut into columns.
    pub fn settings(&self) -> RunColumnsSettings {
        RunColumnsSettings { ranges: self.ranges, filter_bits: self.filter_bits }
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> u64 {
        self.fences.len() as u64
    }

    /// Returns the column of a range.
    pub fn column(&self, range: u32) -> Column<'_> {
        let (at, length) = (range as usize, row_words(self.rows));
        let first_of = |range: usize| self.first_blocks.get(range).copied().unwrap_or(0);
        let (first_block, next) = (first_of(at), first_of(at + 1));
        Column {
            words: self.words.get(at * length..(at + 1) * length).unwrap_or_default(),
            first_block,
            fences: self.fences.get(first_block as usize + 1..next as usize + 1).unwrap_or_default(),
        }
    }

    /// Returns a block such that all records from a placement on begin in it or in later blocks.
    pub fn first_block_from(&self, placement: u64) -> u64 {
        let (range, position) = range_of(placement, self.ranges);
        self.column(range).blocks_at(position).start
    }

    /// Appends the encoded columns (`docs/formats/run_columns.md`).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([self.filter_bits, self.functions as u8]);
        out.extend(self.ranges.to_le_bytes());
        out.extend(self.rows.to_le_bytes());
        out.extend((self.fences.len() as u32).to_le_bytes());
        out.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        out.extend(self.first_blocks.iter().flat_map(|block| block.to_le_bytes()));
        out.extend(self.fences.iter().flat_map(|fence| fence.to_le_bytes()));
    }

    /// Decodes what [`encode`](RunColumns::encode) wrote.
    ///
    /// # Errors
    /// Bytes that the format does not allow, with their offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let limit = |max: u32| move || format!("1 to {max}");
        let filter_bits = reader.u8("a number of bits per record")?;
        reader.check(1, filter_bits > 0, limit(255), || filter_bits.to_string())?;
        let functions: u32 = reader.u8("a number of functions")?.into();
        let is_allowed = (1..=FUNCTIONS_MAX).contains(&functions);
        reader.check(1, is_allowed, limit(FUNCTIONS_MAX), || functions.to_string())?;
        let ranges = reader.u32("a number of ranges")?;
        reader.check(4, (1..=RANGES_MAX).contains(&ranges), limit(RANGES_MAX), || ranges.to_string())?;
        let rows = reader.u32("a number of rows")?;
        reader.check(4, (1..=ROWS_MAX).contains(&rows), limit(ROWS_MAX), || rows.to_string())?;
        let blocks = reader.u32("a number of blocks")?;
        // Both factors are limited, and the bytes are taken before memory is allocated.
        let words = reader.words((ranges as usize).saturating_mul(row_words(rows)), "filters")?;
        let first_blocks = reader.arrays::<4>(u64::from(ranges) + 1, "first blocks")?;
        let first_blocks: Vec<u32> = first_blocks.iter().map(|block| u32::from_le_bytes(*block)).collect();
        // The fences of a column are those from its first block to that of the next one.
        let ends = first_blocks.is_sorted()
            && first_blocks.last().is_some_and(|last| u64::from(*last) + 1 == u64::from(blocks.max(1)));
        let wanted = || format!("ascending blocks up to the last of {blocks}");
        reader.check(4, ends, wanted, || "other blocks".into())?;
        // Their order is not checked here. `RunFences::of` checks it, and `locate` limits what wrong fences return.
        let fences = reader.arrays::<2>(blocks.into(), "fences")?;
        let fences = fences.iter().map(|fence| u16::from_le_bytes(*fence)).collect();
        reader.end()?;
        Ok(RunColumns { ranges, rows, functions, filter_bits, words, first_blocks, fences })
    }
}

impl Column<'_> {
    /// Returns the blocks that have the record at a position of the range, if the column has it.
    pub fn blocks_at(&self, position: u64) -> Range<u64> {
        blocks_at(self.first_block, position, |prefix| count_fences(self.fences, prefix))
    }

    /// Returns whether the column may have a record with this placement.
    fn may_contain(&self, rows: u32, functions: u32, placement: u64) -> bool {
        let has =
            |row: u64| self.words.get((row / 64) as usize).is_some_and(|word| word >> (row % 64) & 1 == 1);
        rows_of(rows, functions, placement).all(has)
    }
}

impl PlacementIndex for RunColumns {
    /// Returns the blocks that may hold the record; none if the filter excludes it.
    fn locate(&self, placement: u64) -> Range<u64> {
        let (range, position) = range_of(placement, self.ranges);
        let column = self.column(range);
        // The filter first, because most lookups are of keys that other runs have.
        if !column.may_contain(self.rows, self.functions, placement) {
            return 0..0;
        }
        // Limited, because a run without records has no blocks.
        let Range { start, end } = column.blocks_at(position);
        start.min(self.blocks())..end.min(self.blocks())
    }

    fn heap_bytes(&self) -> usize {
        list_bytes(&self.words) + list_bytes(&self.first_blocks) + list_bytes(&self.fences)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::Numbers;

    /// Returns the columns of records of 1 to `size_max` bytes, and the records with their blocks.
    pub(crate) fn built(
        settings: RunColumnsSettings,
        count: usize,
        size_max: u64,
        block_bytes: u64,
        seed: u64,
    ) -> (RunColumns, Vec<(u64, Range<u64>)>) {
        let mut numbers = Numbers(seed);
        let mut builder = RunColumnsBuilder::new(settings, count as u64).unwrap();
        let mut at = 0;
        let mut records = Vec::new();
        for placement in numbers.sorted_placements(count) {
            let end = at + 1 + numbers.next() % size_max;
            let blocks = at / block_bytes..end.div_ceil(block_bytes);
            builder.push(placement, blocks.clone()).unwrap();
            records.push((placement, blocks));
            at = end;
        }
        (builder.finish(), records)
    }

    const SETTINGS: RunColumnsSettings = RunColumnsSettings { ranges: 40, filter_bits: 20 };

    #[test]
    fn every_record_is_located_in_all_its_blocks_and_rarely_in_more() {
        for (count, size_max, block_bytes) in
            [(600, 100, 512), (600, 1, 64), (600, 3_000, 512), (30, 100, 4_096), (2_000, 40, 4_096)]
        {
            for ranges in [1, 7, 40, 5_000] {
                let settings = RunColumnsSettings { ranges, ..SETTINGS };
                let (columns, records) = built(settings, count, size_max, block_bytes, 3);
                let mut read = 0;
                let mut needed = 0;
                for (placement, blocks) in &records {
                    let located = columns.locate(*placement);
                    assert!(located.start <= blocks.start && blocks.end <= located.end, "{located:?}");
                    read += located.end - located.start;
                    needed += blocks.end - blocks.start;
                }
                assert!(read * 20 <= needed * 21, "{read} blocks for {needed}");
            }
        }
    }

    #[test]
    fn columns_take_the_memory_of_their_bytes_and_a_builder_not_much_more() {
        let mut builder = RunColumnsBuilder::new(SETTINGS, 600).unwrap();
        for (block, placement) in (0..).zip(Numbers(3).sorted_placements(600)) {
            builder.push(placement, block..block + 1).unwrap();
        }
        let (held, columns, mut bytes) = (builder.heap_bytes(), builder.finish(), Vec::new());
        columns.encode(&mut bytes);
        let header_bytes = 20;
        assert_eq!(columns.heap_bytes(), bytes.len() - header_bytes);
        assert!((columns.heap_bytes()..2 * columns.heap_bytes()).contains(&held), "{held}");
    }

    #[test]
    fn records_of_one_placement_are_located_in_all_blocks() {
        let mut builder = RunColumnsBuilder::new(SETTINGS, 400).unwrap();
        for number in 0..400 {
            builder.push(7 << 60, number / 50..number / 50 + 1).unwrap();
        }
        assert_eq!(builder.finish().locate(7 << 60), 0..8);
    }

    #[test]
    fn a_record_that_a_run_does_not_have_is_excluded_at_the_rate_of_its_filters() {
        for (filter_bits, least, most) in [(20, 0.000_02, 0.002), (8, 0.01, 0.06)] {
            let settings = RunColumnsSettings { filter_bits, ..SETTINGS };
            let (columns, _) = built(settings, 600, 64, 4_096, 5);
            let mut numbers = Numbers(9);
            let found = (0..200_000).filter(|_| !columns.locate(numbers.next()).is_empty()).count();
            let rate = found as f64 / 200_000.0;
            assert!((least..most).contains(&rate), "{filter_bits} bits: {rate}");
        }
    }

    #[test]
    fn runs_of_similar_sizes_have_filters_of_one_shape() {
        let shapes: Vec<u32> = (600..2_400).map(|records| rows_for(SETTINGS, records)).collect();
        let mut different = shapes.clone();
        different.dedup();
        assert!(different.len() <= 9, "{different:?}");
        for (records, rows) in (600..2_400).zip(shapes) {
            let bits = f64::from(rows) * 40.0 / f64::from(records);
            assert!((17.7..=22.3).contains(&bits), "{records}: {bits} bits per record");
        }
    }

    #[test]
    fn settings_and_records_that_are_not_allowed_are_refused() {
        for (ranges, filter_bits) in [(0, 8), (RANGES_MAX + 1, 8), (1, 0)] {
            assert!(RunColumnsBuilder::new(RunColumnsSettings { ranges, filter_bits }, 1).is_err());
        }
        let mut builder = RunColumnsBuilder::new(SETTINGS, 10).unwrap();
        builder.push(5, 0..1).unwrap();
        assert!(matches!(builder.push(4, 0..1), Err(BuildError::OutOfOrder { last: 5, got: 4 })));
        for blocks in [2..3, 0..0, 5..9] {
            assert!(builder.push(6, blocks).is_err());
        }
        builder.push(6, 1..3).unwrap();
        assert!(builder.push(7, 0..3).is_err());
    }
}
