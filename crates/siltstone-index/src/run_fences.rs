//! The fences of a run in memory, for runs whose columns are on flash only. The fence of a block is where the block
//! begins: a range of placements and a position in it, as one ascending number. The first block has none.
//!
//! ```text
//! fences of columns   range 0: 20, 65,535    range 1: 30, 50         (the drawing of `run_columns`)
//! numbers             0·2^16 + 20,  0·2^16 + 65,535,  1·2^16 + 30,  1·2^16 + 50
//! ```
//!
//! They locate a record in the same blocks as the columns, and exclude none: 2 to 3 bytes per block, whatever the
//! number of ranges.

use super::PlacementIndex;
use super::elias_fano::{EliasFano, EliasFanoBuilder};
use super::run_columns::{RunColumns, RunColumnsSettings, prefix_of, range_of};
use std::ops::Range;

/// The bits of a position that fences have.
const PREFIX_BITS: u32 = u16::BITS;

/// The fences of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFences {
    /// How the run is cut into columns.
    settings: RunColumnsSettings,
    blocks: u64,
    fences: EliasFano,
}

impl RunFences {
    /// Returns the fences of columns; `None` if those of a range do not ascend, which only damaged columns have.
    pub fn of(columns: &RunColumns) -> Option<RunFences> {
        let (ranges, blocks) = (columns.ranges(), columns.blocks());
        let end = u64::from(ranges) << PREFIX_BITS;
        let mut fences = EliasFanoBuilder::new(blocks.saturating_sub(1), end);
        for range in 0..ranges {
            let of_range = columns.column(range).fences.iter();
            let mut numbers = of_range.map(|fence| u64::from(range) << PREFIX_BITS | u64::from(*fence));
            // `push` refuses a number below the last one.
            if !numbers.all(|number| fences.push(number)) {
                return None;
            }
        }
        Some(RunFences { settings: columns.settings(), blocks, fences: fences.finish() })
    }

    /// Returns how the run is cut into columns.
    pub fn settings(&self) -> RunColumnsSettings {
        self.settings
    }
}

impl PlacementIndex for RunFences {
    /// Returns the blocks that have the record, if the run has it.
    fn locate(&self, placement: u64) -> Range<u64> {
        let (range, position) = range_of(placement, self.settings.ranges);
        let number = u64::from(range) << PREFIX_BITS | u64::from(prefix_of(position));
        // Fence *i* is that of block *i* + 1, so the number of lower fences is the number of the first block.
        let Range { start, end } = self.fences.equal_range(number);
        start.min(self.blocks)..(end + 1).min(self.blocks)
    }

    fn heap_bytes(&self) -> usize {
        self.fences.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::run_columns::tests::built;
    use super::super::run_columns::{RunColumnsBuilder, RunColumnsSettings};
    use super::*;

    #[test]
    fn a_record_is_located_in_the_blocks_that_the_columns_name() {
        for (count, size_max, block_bytes) in
            [(600, 100, 512), (600, 1, 64), (600, 3_000, 512), (30, 100, 4_096), (2_000, 40, 4_096)]
        {
            for ranges in [1, 7, 40, 5_000] {
                let settings = RunColumnsSettings { ranges, filter_bits: 20 };
                let (columns, records) = built(settings, count, size_max, block_bytes, 3);
                let fences = RunFences::of(&columns).unwrap();
                for (placement, _) in records {
                    assert_eq!(fences.locate(placement), columns.locate(placement));
                }
            }
        }
    }

    #[test]
    fn the_memory_of_fences_does_not_depend_on_the_number_of_ranges() {
        for ranges in [40, 400] {
            let (columns, _) = built(RunColumnsSettings { ranges, filter_bits: 20 }, 6_000, 130, 4_096, 3);
            let bytes = RunFences::of(&columns).unwrap().heap_bytes() as u64;
            assert!(bytes < 4 * columns.blocks(), "{bytes} B for {} blocks", columns.blocks());
        }
    }

    #[test]
    fn a_run_without_records_has_no_block() {
        let settings = RunColumnsSettings { ranges: 7, filter_bits: 20 };
        let fences = RunFences::of(&RunColumnsBuilder::new(settings, 1).unwrap().finish()).unwrap();
        assert_eq!((fences.locate(0), fences.locate(u64::MAX)), (0..0, 0..0));
    }
}
