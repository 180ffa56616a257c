//! Structures that locate records.

use super::sample::{Key, Sample};
use super::subject::{Subject, Verified};
use siltstone_index::entropy_trie::{EntropyTrie, EntropyTrieBuilder, TrieSettings};
use siltstone_index::fences::{Fences, FencesBuilder, FencesSettings};
use siltstone_index::perfect::{PerfectIndex, PerfectIndexBuilder, PerfectIndexSettings};
use siltstone_index::{BuildError, PlacementIndex};
use std::iter;

/// The records in a bucket of the block-perfect index.
const BUCKET_RECORDS: u32 = 512;

/// An index, and the true positions of the records.
pub(super) struct Placed<I> {
    index: I,
    truth: Truth,
    space_used: Option<f64>,
}

/// The slot or block of each record, for records in the order of their placements.
enum Truth {
    /// This many records in each block, in order.
    Regular(usize),
    /// The number of records in each block.
    Counts(Vec<u32>),
    /// The position of each record.
    Each(Vec<u64>),
}

impl Truth {
    fn units(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match self {
            Truth::Regular(records) => Box::new((0..).flat_map(|unit| iter::repeat_n(unit, *records))),
            Truth::Counts(counts) => Box::new(
                (0..).zip(counts).flat_map(|(unit, &records)| iter::repeat_n(unit, records as usize)),
            ),
            Truth::Each(units) => Box::new(units.iter().copied()),
        }
    }
}

impl<I: PlacementIndex> Subject for Placed<I> {
    fn heap_bytes(&self) -> usize {
        self.index.heap_bytes()
    }

    #[inline]
    fn look_up(&self, key: Key) -> u64 {
        let units = self.index.locate(key.placement);
        units.start.wrapping_add(units.end)
    }

    fn verify(&self, sorted: &[Key]) -> Verified {
        let mut verified = Verified::default();
        for (key, unit) in sorted.iter().zip(self.truth.units()) {
            let located = self.index.locate(key.placement);
            verified.add(located.contains(&unit), located.end.saturating_sub(located.start));
        }
        verified
    }

    fn space_used(&self) -> Option<f64> {
        self.space_used
    }
}

/// Returns a trie: dense with one record per block, otherwise sparse.
pub(super) fn entropy_trie(
    sample: &Sample,
    settings: TrieSettings,
) -> Result<Placed<EntropyTrie>, BuildError> {
    let mut builder = EntropyTrieBuilder::new(settings)?;
    for key in sample.sorted() {
        builder.push(key.placement)?;
    }
    let truth = Truth::Regular(settings.records_per_block as usize);
    Ok(Placed { index: builder.finish()?, truth, space_used: None })
}

/// Fences between blocks of equally large records. No record spans blocks. A cell of the fences never fills a block.
pub(super) fn fences(sample: &Sample, items_per_block: u32) -> Result<Placed<Fences>, BuildError> {
    let (mut keys, records_per_block) = (sample.sorted(), items_per_block as usize);
    if records_per_block == 0 {
        return Err(BuildError::Setting { name: "items_per_block", got: 0, limit: "1 or more" });
    }
    let expected_blocks = sample.len().div_ceil(items_per_block.into());
    let mut builder = FencesBuilder::new(FencesSettings { expected_records: sample.len(), expected_blocks });
    let mut counts = Vec::with_capacity(expected_blocks as usize + expected_blocks as usize / 8);
    let (mut block, mut used) = (0, 0);
    while let Some(first) = keys.first() {
        let cell = builder.cell_of(first.placement);
        let in_cell = keys.iter().take_while(|key| builder.cell_of(key.placement) == cell).count();
        let (run, rest) = keys.split_at(in_cell);
        if used + run.len() > records_per_block && used > 0 {
            counts.push(used as u32);
            (block, used) = (block + 1, 0);
        }
        for key in run {
            if used == records_per_block {
                counts.push(used as u32);
                (block, used) = (block + 1, 0);
            }
            builder.push(key.placement, block..block + 1)?;
            used += 1;
        }
        keys = rest;
    }
    counts.push(used as u32);
    let space = counts.len() as f64 * records_per_block as f64;
    let space_used = Some(sample.len() as f64 / space);
    Ok(Placed { index: builder.finish(), truth: Truth::Counts(counts), space_used })
}

/// Returns a perfect hash to blocks or, with one record per block, to slots.
pub(super) fn block_perfect(
    sample: &Sample,
    records_per_block: u32,
) -> Result<Placed<PerfectIndex>, BuildError> {
    let settings = PerfectIndexSettings {
        expected_records: sample.len(),
        records_per_block,
        bucket_records: BUCKET_RECORDS,
    };
    let mut builder = PerfectIndexBuilder::new(settings)?;
    let mut units = Vec::with_capacity(sample.sorted().len());
    for key in sample.sorted() {
        units.extend(builder.push(key.placement)?.into_iter().flatten());
    }
    let (index, last) = builder.finish();
    units.extend(last);
    Ok(Placed { index, truth: Truth::Each(units), space_used: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    /// Always returns one block of two records, which is wrong for the first half of the placements.
    struct Wrong;

    impl PlacementIndex for Wrong {
        fn locate(&self, placement: u64) -> Range<u64> {
            if placement >> 63 == 0 { 7..8 } else { 1..3 }
        }
        fn heap_bytes(&self) -> usize {
            0
        }
    }

    #[test]
    fn wrong_results_are_not_counted_as_right() {
        let keys = [0, 1, 1 << 63, u64::MAX].map(|placement| Key { placement, fingerprint: 0 });
        for truth in [Truth::Regular(2), Truth::Counts(vec![2, 2]), Truth::Each(vec![0, 0, 1, 1])] {
            let verified = Placed { index: Wrong, truth, space_used: None }.verify(&keys);
            assert_eq!(verified, Verified { keys: 2, units: 6 });
        }
    }
}
