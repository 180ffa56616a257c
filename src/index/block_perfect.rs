//! An index for records of a fixed size: maps each record to its block, and knows nothing else.
//!
//! The records of a *bucket*, a range of placements with about 512 records, are distributed to the blocks of the bucket
//! by a perfect hash, so all blocks are full. With 4 records per block and a bucket of 8:
//!
//! ```text
//! placements of the bucket   a b c d e f g h      in this order they arrive
//! perfect hash of each       0 1 1 0 1 0 0 1      the seeds: all that is stored
//!                            -------- --------
//! blocks                     a d f g  b c e h     within a block, any order
//! ```
//!
//! The dissertation's sparse entropy-coded tries (Lim 2014, 3.1.6) solve the same problem for records in hash order.
//! The module `perfect` has the hash.

#[doc(hidden)]
pub use super::perfect::BUCKET_KEYS;
use super::perfect::{ConsensusBuilder, ConsensusIndex, Outline, Target};
use super::{BuildError, DecodeError, PlacementIndex};
use crate::coding::Decoder;
use std::ops::Range;
use std::sync::Arc;

const STRUCTURE: &str = "block-perfect index";
const MAGIC: [u8; 4] = *b"SSBP";
const VERSION: u16 = 1;

/// Properties of the records, known before the first one is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPerfectSettings {
    /// The approximate number of records. Too high a number costs memory. A number below half of the true one makes
    /// buckets too large to be solved; lookups then return whole buckets.
    pub expected_records: u64,
    /// The number of records that fill a block, 1 to 256. With 1 the index maps each record to its slot, in 1.5 bits.
    pub records_per_block: u32,
    /// The average number of records per bucket, which a merge holds in memory; raised to the records of four blocks,
    /// and limited to 512. Fewer cost memory: 0.06 bits per record with 128, 0.15 with 64.
    pub bucket_records: u32,
}

/// Builds a [`BlockPerfect`] from records that are pushed bucket by bucket, and assigns a block to each.
///
/// Each time [`push`](Self::push) returns the blocks of a finished bucket, the writer places the records of that bucket
/// in them. The first of these blocks may hold records of earlier buckets, and the last one receives records of the
/// next bucket unless it is full; otherwise a bucket has its blocks for itself.
#[derive(Debug)]
pub struct BlockPerfectBuilder {
    records_per_block: u32,
    consensus: ConsensusBuilder,
}

impl BlockPerfectBuilder {
    /// Makes a builder without records.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if a setting is outside its limits.
    pub fn new(settings: BlockPerfectSettings) -> Result<Self, BuildError> {
        let BlockPerfectSettings { expected_records, records_per_block, bucket_records } = settings;
        if !(1..=256).contains(&records_per_block) {
            let got = records_per_block.into();
            return Err(BuildError::Setting { name: "records_per_block", got, limit: "1 to 256" });
        }
        let target = target(records_per_block);
        let consensus = ConsensusBuilder::new(target, expected_records, bucket_records);
        Ok(Self { records_per_block, consensus })
    }

    /// Adds a record. If it begins a new bucket, returns the block of each record of the previous bucket, in the order
    /// of the pushes. Takes 60 to 400 ns per record, most with few records per block.
    ///
    /// # Errors
    /// [`BuildError::OutOfOrder`] for a placement in an earlier bucket (within a bucket any order is allowed);
    /// [`BuildError::Setting`] for more than 2^32 records in a bucket or 2^44 in total. The record is not added then.
    pub fn push(&mut self, placement: u64) -> Result<Option<&[u64]>, BuildError> {
        self.consensus.push(placement)
    }

    /// Returns the number of records pushed.
    pub fn len(&self) -> u64 {
        self.consensus.len()
    }

    /// Returns whether no record was pushed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the index, and the blocks of the records of the last bucket.
    pub fn finish(self) -> (BlockPerfect, Vec<u64>) {
        let (consensus, blocks) = self.consensus.finish();
        (BlockPerfect { records_per_block: self.records_per_block, consensus }, blocks)
    }
}

/// Maps each record to its block, in 0.10 bits per record with 64 records per block, 0.24 with 16, 0.65 with 4.
///
/// Several records may have one placement. A bucket cannot be solved if more records than fill a block have one
/// placement; all its blocks are returned for each of its records then.
#[derive(Debug, Clone)]
pub struct BlockPerfect {
    records_per_block: u32,
    consensus: ConsensusIndex,
}

impl BlockPerfect {
    /// Returns the number of records.
    pub fn len(&self) -> u64 {
        self.consensus.len()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of blocks. All but the last are full.
    pub fn blocks(&self) -> u64 {
        self.len().div_ceil(self.records_per_block.into())
    }

    /// Returns the number of records that fill a block.
    pub fn records_per_block(&self) -> u32 {
        self.records_per_block
    }

    /// Returns the bucket of a placement. Buckets ascend with placements, and the records of a bucket are in
    /// consecutive blocks, of which the first may begin with records of earlier buckets.
    pub fn bucket_of(&self, placement: u64) -> u64 {
        self.consensus.outline().bucket_of(placement)
    }

    /// Returns the index without its seeds. Shares its memory with the index.
    pub fn outline(&self) -> BlockPerfectOutline {
        BlockPerfectOutline {
            records_per_block: self.records_per_block,
            consensus: self.consensus.outline().clone(),
        }
    }

    /// Appends the encoded index (`docs/formats/perfect_index.md`).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend((self.records_per_block as u16).to_le_bytes());
        self.consensus.encode(out);
    }

    /// Decodes what [`BlockPerfect::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that the format does not allow, with their offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let records_per_block = read_records_per_block(&mut reader)?;
        let consensus = ConsensusIndex::decode(&mut reader, target(records_per_block))?;
        reader.end()?;
        Ok(Self { records_per_block, consensus })
    }
}

fn read_records_per_block(reader: &mut Decoder<'_>) -> Result<u32, DecodeError> {
    let records_per_block = u32::from(reader.u16("records per block")?);
    let allowed = (1..=256).contains(&records_per_block);
    reader.check(2, allowed, || "1 to 256 records per block".into(), || records_per_block.to_string())?;
    Ok(records_per_block)
}

/// A block of one record is a slot.
fn target(records_per_block: u32) -> Target {
    if records_per_block == 1 { Target::Slots } else { Target::Blocks(records_per_block) }
}

/// A [`BlockPerfect`] without its seeds, which are nearly all of it: 0.02 bits per record. It says which bytes of the
/// encoded index a lookup needs, so the seeds can stay on flash.
#[derive(Debug, Clone)]
pub struct BlockPerfectOutline {
    records_per_block: u32,
    consensus: Arc<Outline>,
}

impl BlockPerfectOutline {
    /// Decodes an outline from the first bytes of an encoded [`BlockPerfect`], all those before the seeds.
    ///
    /// # Errors
    /// Bytes that the format does not allow, with their offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let records_per_block = read_records_per_block(&mut reader)?;
        let consensus = Outline::decode(&mut reader, target(records_per_block))?;
        reader.end()?;
        Ok(Self { records_per_block, consensus: Arc::new(consensus) })
    }

    /// Returns the number of records.
    pub fn len(&self) -> u64 {
        self.consensus.len()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of blocks. All but the last are full.
    pub fn blocks(&self) -> u64 {
        self.len().div_ceil(self.records_per_block.into())
    }

    /// Returns the number of records that fill a block.
    pub fn records_per_block(&self) -> u32 {
        self.records_per_block
    }

    /// As [`BlockPerfect::bucket_of`].
    pub fn bucket_of(&self, placement: u64) -> u64 {
        self.consensus.bucket_of(placement)
    }

    /// Returns the first block that has a record of the placement's bucket. All records of higher placements are in
    /// this block or in later ones.
    pub fn first_block_of_bucket(&self, placement: u64) -> u64 {
        self.consensus.first_unit_of_bucket(placement)
    }

    /// Returns the length of the seeds in the encoded index.
    pub fn seeds_bytes(&self) -> u64 {
        self.consensus.seeds_bytes()
    }

    /// Returns the range of seed bytes that [`locate_in`](Self::locate_in) needs, about a hundred.
    pub fn seeds_for(&self, placement: u64) -> Range<u64> {
        self.consensus.seeds_for(placement)
    }

    /// As [`BlockPerfect::locate`], with seed bytes that begin at `start` and include those of
    /// [`seeds_for`](Self::seeds_for). Other bytes lead to a wrong block, but always to one that exists.
    pub fn locate_in(&self, placement: u64, start: u64, seeds: &[u8]) -> Range<u64> {
        self.consensus.locate_in(placement, start, seeds)
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.consensus.heap_bytes()
    }
}

impl PlacementIndex for BlockPerfect {
    /// Returns the one block of the record, or all blocks of a bucket that could not be solved.
    fn locate(&self, placement: u64) -> Range<u64> {
        self.consensus.locate(placement)
    }

    fn heap_bytes(&self) -> usize {
        self.consensus.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::testing::{Numbers, assert_golden, assert_withstands_damage};

    fn built(count: usize, records_per_block: u32) -> (BlockPerfect, Vec<(u64, u64)>) {
        built_with(count, records_per_block, 512)
    }

    fn built_with(
        count: usize,
        records_per_block: u32,
        bucket_records: u32,
    ) -> (BlockPerfect, Vec<(u64, u64)>) {
        let expected_records = count as u64;
        let settings = BlockPerfectSettings { expected_records, records_per_block, bucket_records };
        let mut builder = BlockPerfectBuilder::new(settings).unwrap();
        let keys = Numbers(count as u64).sorted_keys(count);
        let mut blocks = Vec::new();
        for &(placement, _) in &keys {
            blocks.extend(builder.push(placement).unwrap().into_iter().flatten());
        }
        assert_eq!((builder.len(), builder.is_empty()), (count as u64, count == 0));
        let (index, last) = builder.finish();
        blocks.extend(last);
        (index, keys.into_iter().map(|(placement, _)| placement).zip(blocks).collect())
    }

    fn encoded(index: &BlockPerfect) -> Vec<u8> {
        let mut bytes = Vec::new();
        index.encode(&mut bytes);
        bytes
    }

    #[test]
    fn a_decoded_index_finds_the_one_block_of_every_record() {
        for (count, records_per_block) in
            [(0, 4), (1, 4), (2, 2), (5_000, 1), (5_000, 4), (5_000, 63), (5_000, 256)]
        {
            let (index, records) = built(count, records_per_block);
            let decoded = BlockPerfect::decode(&encoded(&index)).unwrap();
            assert_eq!(encoded(&decoded), encoded(&index));
            assert_eq!((decoded.len(), decoded.is_empty()), (count as u64, count == 0));
            assert_eq!(decoded.blocks(), count.div_ceil(records_per_block as usize) as u64);
            assert!(
                records.iter().all(|&(placement, block)| decoded.locate(placement) == (block..block + 1))
            );
        }
    }

    #[test]
    fn an_outline_locates_as_the_index_does_from_the_bytes_that_it_names() {
        for (count, records_per_block) in [(0, 4), (1, 4), (5_000, 1), (5_000, 4), (5_000, 63), (9_000, 256)]
        {
            let (index, _) = built(count, records_per_block);
            let bytes = encoded(&index);
            let seeds_at = bytes.len() - index.outline().seeds_bytes() as usize;
            let outline = BlockPerfectOutline::decode(&bytes[..seeds_at]).unwrap();
            assert_eq!((outline.len(), outline.blocks()), (index.len(), index.blocks()));
            for (placement, _) in Numbers(2).keys(2_000) {
                let needed = outline.seeds_for(placement);
                let seeds = &bytes[seeds_at..][needed.start as usize..needed.end as usize];
                assert_eq!(outline.locate_in(placement, needed.start, seeds), index.locate(placement));
                assert_eq!(outline.bucket_of(placement), index.bucket_of(placement));
            }
            assert!(outline.heap_bytes() * 5 < index.heap_bytes() + 300);
        }
    }

    #[test]
    fn small_buckets_are_solved_too_for_a_fraction_of_a_bit() {
        for (records_per_block, bucket_records, bits_max) in [(4, 128, 0.78), (4, 64, 0.88), (16, 64, 0.52)] {
            let (index, records) = built_with(20_000, records_per_block, bucket_records);
            let one_block = |&(placement, block): &(u64, u64)| index.locate(placement) == (block..block + 1);
            assert!(records.iter().all(one_block));
            let bits = index.heap_bytes() as f64 * 8.0 / 20_000.0;
            assert!(bits < bits_max, "{bits}");
            assert_eq!(encoded(&BlockPerfect::decode(&encoded(&index)).unwrap()), encoded(&index));
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_harmless() {
        for (count, records_per_block) in [(0, 4), (3, 4), (1_500, 1), (1_500, 7)] {
            let (index, _) = built(count, records_per_block);
            assert_withstands_damage(&encoded(&index), BlockPerfect::decode, |index| {
                for (placement, _) in Numbers(1).keys(200) {
                    assert!(index.locate(placement).end <= index.blocks());
                }
            });
        }
    }

    #[test]
    fn its_bytes_are_the_golden_ones() {
        assert_golden("block_perfect.bin", &encoded(&built(2_000, 16).0));
    }

    #[test]
    fn settings_outside_their_limits_are_refused() {
        for records_per_block in [0, 257] {
            let settings =
                BlockPerfectSettings { expected_records: 1, records_per_block, bucket_records: 512 };
            assert!(matches!(BlockPerfectBuilder::new(settings), Err(BuildError::Setting { .. })));
        }
    }
}
