//! Which block holds a record, for records of a fixed size of which several fill a block: the block of every record and
//! nothing more. The dissertation's sparse entropy-coded tries (section 3.1.6) answer the same question for records in
//! hash order; here the records of a *bucket*, some 512 of them, are distributed to its blocks by a perfect hash, and
//! all blocks are full (`perfect` says how).

use super::perfect::{ConsensusBuilder, ConsensusIndex, Outline, Target};
use super::{BuildError, DecodeError, PlacementIndex};
use crate::coding::Decoder;
use std::ops::Range;
use std::sync::Arc;

const STRUCTURE: &str = "block-perfect index";
const MAGIC: [u8; 4] = *b"SSBP";
const VERSION: u16 = 1;

/// What is known before the first record comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPerfectSettings {
    /// About how many records will be pushed. A number too high costs memory. One below half of the true number makes
    /// the buckets too large to be solved, so that lookups answer whole buckets.
    pub expected_records: u64,
    /// The records that fill a block, 1 to 256. With 1 the index tells the place of each record, in 1.5 bits.
    pub records_per_block: u32,
    /// The records of a bucket on average, which a merge has to hold in memory: taken as within four blocks' and 512.
    /// Fewer cost memory: 0.06 bits a record with 128, 0.15 with 64.
    pub bucket_records: u32,
}

/// Makes a [`BlockPerfect`] of records that come bucket by bucket, and tells the writer where to put them.
///
/// Whenever [`push`](Self::push) answers with the blocks of a finished bucket, the writer puts the records of that
/// bucket into them. The first of these blocks may hold records of earlier buckets, and the last one will get records
/// of the next bucket unless it is full; apart from that every bucket fills its own.
#[derive(Debug)]
pub struct BlockPerfectBuilder {
    records_per_block: u32,
    consensus: ConsensusBuilder,
}

impl BlockPerfectBuilder {
    /// No record so far.
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

    /// Adds a record. If it begins a new bucket, answers the blocks of the records of the bucket before it, in the
    /// order in which they were pushed. Some 60 to 400 ns a record, most for the fewest in a block.
    ///
    /// # Errors
    /// [`BuildError::OutOfOrder`] for a placement in an earlier bucket (inside a bucket any order will do; ascending
    /// placements are always right); [`BuildError::Setting`] for more than 2^32 records in a bucket or 2^44 in all.
    /// Nothing is added then.
    pub fn push(&mut self, placement: u64) -> Result<Option<&[u64]>, BuildError> {
        self.consensus.push(placement)
    }

    /// The number of records pushed.
    pub fn len(&self) -> u64 {
        self.consensus.len()
    }

    /// Whether no record was pushed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// No more records will come. Answers the index, and the blocks of the records of the last bucket.
    pub fn finish(self) -> (BlockPerfect, Vec<u64>) {
        let (consensus, blocks) = self.consensus.finish();
        (BlockPerfect { records_per_block: self.records_per_block, consensus }, blocks)
    }
}

/// The block of every record: 0.10 bits a record with 64 records a block, 0.24 with 16, 0.65 with 4.
///
/// Records of one placement are found as any others. If a bucket cannot be solved, because more records than fill a
/// block have one placement, all its blocks are answered for each of its records.
#[derive(Debug, Clone)]
pub struct BlockPerfect {
    records_per_block: u32,
    consensus: ConsensusIndex,
}

impl BlockPerfect {
    /// The number of records.
    pub fn len(&self) -> u64 {
        self.consensus.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of blocks: all full but the last one.
    pub fn blocks(&self) -> u64 {
        self.len().div_ceil(self.records_per_block.into())
    }

    /// The records that fill a block.
    pub fn records_per_block(&self) -> u32 {
        self.records_per_block
    }

    /// The bucket that a placement belongs to. Buckets ascend with placements, and the records of a bucket stand in
    /// successive blocks, of which the first may begin with records of earlier buckets.
    pub fn bucket_of(&self, placement: u64) -> u64 {
        self.consensus.outline().bucket_of(placement)
    }

    /// The index without what is largest in it. It takes no memory of its own as long as the index is there.
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

    /// Reads back what [`BlockPerfect::encode`] wrote.
    ///
    /// # Errors
    /// Whatever the format does not allow, with its place in the bytes.
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

/// Blocks of one record are slots.
fn target(records_per_block: u32) -> Target {
    if records_per_block == 1 { Target::Slots } else { Target::Blocks(records_per_block) }
}

/// A [`BlockPerfect`] without its seeds, which are nearly all of it: 0.02 bits a record. It tells which bytes of the
/// encoded index have to be read to locate a record, so that these can be left on flash.
#[derive(Debug, Clone)]
pub struct BlockPerfectOutline {
    records_per_block: u32,
    consensus: Arc<Outline>,
}

impl BlockPerfectOutline {
    /// Reads it from the first bytes of an encoded [`BlockPerfect`], all those before the seeds.
    ///
    /// # Errors
    /// Whatever the format does not allow, with its place in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let records_per_block = read_records_per_block(&mut reader)?;
        let consensus = Outline::decode(&mut reader, target(records_per_block))?;
        reader.end()?;
        Ok(Self { records_per_block, consensus: Arc::new(consensus) })
    }

    /// The number of records.
    pub fn len(&self) -> u64 {
        self.consensus.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of blocks: all full but the last one.
    pub fn blocks(&self) -> u64 {
        self.len().div_ceil(self.records_per_block.into())
    }

    /// The records that fill a block.
    pub fn records_per_block(&self) -> u32 {
        self.records_per_block
    }

    /// As [`BlockPerfect::bucket_of`].
    pub fn bucket_of(&self, placement: u64) -> u64 {
        self.consensus.bucket_of(placement)
    }

    /// The bytes that the encoded index has behind those that the outline is decoded from.
    pub fn seeds_bytes(&self) -> u64 {
        self.consensus.seeds_bytes()
    }

    /// Which of these bytes have to be known to locate a record: some hundred.
    pub fn seeds_for(&self, placement: u64) -> Range<u64> {
        self.consensus.seeds_for(placement)
    }

    /// As [`BlockPerfect::locate`], from bytes that begin at `start` of the seeds and hold those that
    /// [`seeds_for`](Self::seeds_for) names. Other bytes give a wrong answer, within the blocks.
    pub fn locate_in(&self, placement: u64, start: u64, seeds: &[u8]) -> Range<u64> {
        self.consensus.locate_in(placement, start, seeds)
    }

    /// All the memory on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.consensus.heap_bytes()
    }
}

impl PlacementIndex for BlockPerfect {
    /// The one block to be read; all blocks of a bucket that could not be solved.
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
