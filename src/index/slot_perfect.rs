//! Which slot holds a record: a minimal perfect hash function that keeps buckets in order. The entropy-coded trie
//! answers the same question for records in hash order, at 2.3 bits a record and more; here the order of the records
//! inside of a *bucket*, some 512 of them, is what the hash function makes it (`consensus` says how), for 1.5 bits.

use super::consensus::{ConsensusBuilder, ConsensusIndex, Target};
use super::decoding::Reader;
use super::{BuildError, DecodeError, PlacementIndex};
use std::ops::Range;

const STRUCTURE: &str = "slot-perfect index";
const MAGIC: [u8; 4] = *b"SSSP";
const VERSION: u16 = 1;

/// Makes a [`SlotPerfect`] of records that come bucket by bucket, and tells the writer in which order to write them.
///
/// Whenever [`push`](Self::push) answers with the slots of a finished bucket, they are those that follow the slots of
/// the buckets before, each once.
#[derive(Debug)]
pub struct SlotPerfectBuilder {
    consensus: ConsensusBuilder,
}

impl SlotPerfectBuilder {
    /// No record so far. If fewer than the expected records come, the index takes more bits for each. If more than
    /// twice as many come, buckets are too large to be solved, and lookups answer whole buckets.
    pub fn new(expected_records: u64) -> Self {
        Self { consensus: ConsensusBuilder::new(Target::Slots, expected_records) }
    }

    /// Adds a record. If it begins a new bucket, answers the slots of the records of the bucket before it, in the
    /// order in which they were pushed. Some 500 ns a record.
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

    /// No more records will come. Answers the index, and the slots of the records of the last bucket.
    pub fn finish(self) -> (SlotPerfect, Vec<u64>) {
        let (consensus, slots) = self.consensus.finish();
        (SlotPerfect { consensus }, slots)
    }
}

/// The slot of every record, in 1.5 bits for each (the floor is 1.443).
///
/// Where two records have one placement, all slots of their bucket are answered for each of its records: some 512.
#[derive(Debug, Clone)]
pub struct SlotPerfect {
    consensus: ConsensusIndex,
}

impl SlotPerfect {
    /// The number of records, and of slots.
    pub fn len(&self) -> u64 {
        self.consensus.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the encoded index (`docs/formats/perfect_index.md`).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        self.consensus.encode(out);
    }

    /// Reads back what [`SlotPerfect::encode`] wrote.
    ///
    /// # Errors
    /// Whatever the format does not allow, with its place in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let consensus = ConsensusIndex::decode(&mut reader, Target::Slots)?;
        reader.end()?;
        Ok(Self { consensus })
    }
}

impl PlacementIndex for SlotPerfect {
    /// The one slot of the record; all slots of a bucket in which two records have one placement.
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

    fn built(keys: &[(u64, u64)]) -> (SlotPerfect, Vec<u64>) {
        let mut builder = SlotPerfectBuilder::new(keys.len() as u64);
        let mut slots = Vec::new();
        for &(placement, _) in keys {
            slots.extend(builder.push(placement).unwrap().into_iter().flatten());
        }
        assert_eq!((builder.len(), builder.is_empty()), (keys.len() as u64, keys.is_empty()));
        let (index, last) = builder.finish();
        slots.extend(last);
        (index, slots)
    }

    fn encoded(index: &SlotPerfect) -> Vec<u8> {
        let mut bytes = Vec::new();
        index.encode(&mut bytes);
        bytes
    }

    #[test]
    fn a_decoded_index_finds_the_one_slot_of_every_record() {
        for count in [0, 1, 2, 7, 5_000] {
            let keys = Numbers(count as u64).sorted_keys(count);
            let (index, slots) = built(&keys);
            let decoded = SlotPerfect::decode(&encoded(&index)).unwrap();
            assert_eq!(encoded(&decoded), encoded(&index));
            assert_eq!((decoded.len(), decoded.is_empty()), (count as u64, count == 0));
            assert!(keys.iter().zip(&slots).all(|(key, &slot)| decoded.locate(key.0) == (slot..slot + 1)));
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_harmless() {
        let mut keys = Numbers(1).sorted_keys(1_500);
        keys.insert(700, keys[700]);
        for keys in [&keys[..0], &keys[..3], &keys] {
            assert_withstands_damage(&encoded(&built(keys).0), SlotPerfect::decode, |index| {
                for (placement, _) in Numbers(2).keys(200) {
                    assert!(index.locate(placement).end <= index.len());
                }
            });
        }
    }

    #[test]
    fn its_bytes_are_the_golden_ones() {
        let mut keys = Numbers(3).sorted_keys(2_000);
        keys.insert(700, keys[700]);
        assert_golden("slot_perfect.bin", &encoded(&built(&keys).0));
    }
}
