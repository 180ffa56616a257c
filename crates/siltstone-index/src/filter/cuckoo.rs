//! The HashStore's filter (SILT section 3.2): the tags of a partial-key cuckoo table without its positions.
//!
//! The records of a HashStore are on flash in the order of the slots. The paper leaves empty slots in the file; here
//! they are omitted, and the number of a record is the *rank* of its slot, the number of occupied slots before it:
//!
//! ```text
//! slots     | 03c9 |  -   | 1a07 | 2b11 |  -   |  -   | 0f30 | 1a07 |
//! rank         0             1      2                    3      4
//! records      0             1      2                    3      4      on flash
//! ```
//!
//! Its bytes: `docs/formats/cuckoo_filter.md`.

use super::Filter;
use crate::DecodeError;
use crate::coding::Decoder;
use crate::partial_key_cuckoo::{CuckooSettings, MatchingSlots, PartialKeyCuckoo, SLOTS_PER_BUCKET, Slot};

const STRUCTURE: &str = "cuckoo filter";
const MAGIC: [u8; 4] = *b"SSCF";
const VERSION: u16 = 2;

/// A rank is stored for every 256th slot, and from there slots are counted: 1/8 bit per slot.
const SLOTS_PER_RANK: u32 = 256;

/// The bytes that are read at a bucket's first byte. They include all of its tags.
const READ_BYTES: usize = 16;

/// A slot that may hold the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CandidateSlot {
    /// Its number in the table.
    pub slot: Slot,
    /// The number of occupied slots before it: the number of its record on flash.
    pub rank: u32,
}

/// A filter that also maps a key to its record: `tag_bits` + 1/8 bits per slot, 16.1 bits per key for tags of 15 bits
/// in a table that is 94 % full, with a false-positive rate of 2^-12.
///
/// It is made by copying tags; no key is hashed. A ribbon filter of the same rate is smaller, but does not know slots.
#[derive(Debug, Clone)]
pub struct CuckooFilter {
    settings: CuckooSettings,
    len: u32,
    /// The tags of all slots, packed, low bits first, and padding for the last read.
    tags: Box<[u8]>,
    /// The number of occupied slots before every [`SLOTS_PER_RANK`]th one.
    ranks: Box<[u32]>,
    /// A word with the lowest bit of each of four tags set. Multiplied by a tag, it is four copies of the tag.
    lowest_bits: u64,
}

impl CuckooFilter {
    /// Copies the tags of an index; slots keep their numbers. Takes about 1 ns per slot.
    pub fn from_index(index: &PartialKeyCuckoo) -> Self {
        let settings = index.settings();
        let mut tags = Vec::with_capacity(tag_bytes(&settings) + READ_BYTES);
        let (mut pending, mut pending_bits) = (0u64, 0);
        for tag in index.tags() {
            pending |= u64::from(tag) << pending_bits;
            pending_bits += u32::from(settings.tag_bits);
            while pending_bits >= u8::BITS {
                tags.push(pending as u8);
                pending >>= u8::BITS;
                pending_bits -= u8::BITS;
            }
        }
        if pending_bits > 0 {
            tags.push(pending as u8);
        }
        Self::from_tags(settings, tags)
    }

    fn from_tags(settings: CuckooSettings, mut tags: Vec<u8>) -> Self {
        // A lookup reads 16 bytes at the first byte of a bucket, also of the last one.
        tags.resize(tags.len() + READ_BYTES, 0);
        let lowest_bits = (0..SLOTS_PER_BUCKET).map(|way| 1 << (way * u32::from(settings.tag_bits))).sum();
        let mut filter = Self { settings, len: 0, tags: tags.into(), ranks: Box::default(), lowest_bits };
        let buckets_per_rank = SLOTS_PER_RANK / SLOTS_PER_BUCKET;
        let mut ranks = Vec::with_capacity(settings.buckets().div_ceil(buckets_per_rank) as usize);
        // Counted, not stored, so the ranks agree with the tags of any bytes.
        for bucket in 0..settings.buckets() {
            if bucket.is_multiple_of(buckets_per_rank) {
                ranks.push(filter.len);
            }
            filter.len += filter.occupied(bucket).count_ones();
        }
        filter.ranks = ranks.into();
        filter
    }

    /// Returns the slots that may hold this key, in no particular order, at most 8. The rank of each takes about 70 ns.
    pub fn candidate_slots(
        &self,
        placement: u64,
        fingerprint: u64,
    ) -> impl Iterator<Item = CandidateSlot> + '_ {
        self.matching_slots(placement, fingerprint).map(|slot| CandidateSlot { slot, rank: self.rank(slot) })
    }

    /// Returns the number of occupied slots before `slot`; [`CuckooFilter::len`] for a slot beyond the table.
    pub fn rank(&self, slot: Slot) -> u32 {
        let Some(&rank) = self.ranks.get((slot / SLOTS_PER_RANK) as usize).filter(|_| slot < self.slots())
        else {
            return self.len;
        };
        let (bucket, way) = (slot / SLOTS_PER_BUCKET, slot % SLOTS_PER_BUCKET);
        let whole = (slot / SLOTS_PER_RANK * (SLOTS_PER_RANK / SLOTS_PER_BUCKET))..bucket;
        let before = whole.map(|bucket| self.occupied(bucket).count_ones()).sum::<u32>();
        let beside = self.occupied(bucket) & ((1 << (way * u32::from(self.settings.tag_bits))) - 1);
        rank + before + beside.count_ones()
    }

    /// Returns the rank of the first slot of a region. The records of region *r* are those from
    /// `first_rank_of_region(r)` to before `first_rank_of_region(r + 1)`, which is [`CuckooFilter::len`] after the last
    /// region.
    pub fn first_rank_of_region(&self, region: u32) -> u32 {
        if region >= self.settings.regions {
            return self.len;
        }
        self.rank(region * self.settings.slots_per_region())
    }

    /// Returns the number of slots, including empty ones.
    pub fn slots(&self) -> u32 {
        self.settings.slots()
    }

    /// Returns the settings of the index that the filter was made from.
    pub fn settings(&self) -> CuckooSettings {
        self.settings
    }

    /// Decodes what [`Filter::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that the format does not allow, with their offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let tag_bits = reader.u8("tag bits")?;
        let buckets_per_region_log2 = reader.u8("buckets per region")?;
        let regions = reader.u32("regions")?;
        let settings = CuckooSettings { regions, buckets_per_region_log2, tag_bits };
        // Before the length of the tags is computed from them.
        settings
            .check()
            .map_err(|error| reader.error(6, "settings within limits".into(), error.to_string()))?;
        let len = reader.u32("a number of keys")?;
        let filter = Self::from_tags(settings, reader.take(tag_bytes(&settings), "tags")?.to_vec());
        reader.end()?;
        // The file may have the tags of other records: their ranks would lead behind these.
        if filter.len == len {
            Ok(filter)
        } else {
            let error = DecodeError {
                structure: STRUCTURE,
                offset: 12,
                expected: format!("as many keys as nonzero tags, {}", filter.len),
                got: len.to_string(),
            };
            Err(error)
        }
    }

    fn matching_slots(&self, placement: u64, fingerprint: u64) -> MatchingSlots {
        let (tag, buckets) = self.settings.tag_and_buckets(placement, fingerprint);
        MatchingSlots::new(buckets, |bucket| {
            // A slot matches where its tag XOR the searched tag is 0, that is, where the highest bit of `others` is not
            // set.
            let others = self.nonzero(self.bucket(bucket) ^ (self.lowest_bits * u64::from(tag)));
            let others = others >> (self.settings.tag_bits - 1);
            (0..SLOTS_PER_BUCKET).fold(0, |matches, way| {
                let other = others >> (way * u32::from(self.settings.tag_bits)) & 1;
                matches | (1 - other as u8) << way
            })
        })
    }

    /// Returns the four tags of a bucket, packed.
    fn bucket(&self, bucket: u32) -> u64 {
        let bit = bucket as usize * SLOTS_PER_BUCKET as usize * usize::from(self.settings.tag_bits);
        let mut bytes = [0; READ_BYTES];
        bytes.copy_from_slice(&self.tags[bit / 8..][..READ_BYTES]);
        // Four tags of 16 bits that begin within a byte exceed 64 bits.
        let tags = (u128::from_le_bytes(bytes) >> (bit % 8)) as u64;
        tags & (self.lowest_bits * self.tag_mask())
    }

    /// Returns the occupied slots of a bucket: the highest bit of each tag that is not 0.
    fn occupied(&self, bucket: u32) -> u64 {
        self.nonzero(self.bucket(bucket))
    }

    /// Returns the highest bit of each tag that is not 0. The addition carries into the highest bit of a tag from any
    /// of its other bits, and never into the next tag.
    fn nonzero(&self, tags: u64) -> u64 {
        let without_highest = self.lowest_bits * (self.tag_mask() >> 1);
        let highest = self.lowest_bits << (self.settings.tag_bits - 1);
        (((tags & without_highest) + without_highest) | tags) & highest
    }

    fn tag_mask(&self) -> u64 {
        (1 << self.settings.tag_bits) - 1
    }
}

impl Filter for CuckooFilter {
    fn may_contain(&self, placement: u64, fingerprint: u64) -> bool {
        !self.matching_slots(placement, fingerprint).is_empty()
    }

    fn len(&self) -> u64 {
        self.len.into()
    }

    fn heap_bytes(&self) -> usize {
        self.tags.len() + self.ranks.len() * size_of::<u32>()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.push(self.settings.tag_bits);
        out.push(self.settings.buckets_per_region_log2);
        out.extend(self.settings.regions.to_le_bytes());
        out.extend(self.len.to_le_bytes());
        out.extend(&self.tags[..tag_bytes(&self.settings)]);
    }
}

/// Returns the bytes of the packed tags, without padding.
fn tag_bytes(settings: &CuckooSettings) -> usize {
    let bits = u64::from(settings.slots()) * u64::from(settings.tag_bits);
    // More than the address space cannot be read.
    usize::try_from(bits.div_ceil(8)).unwrap_or(usize::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::Numbers;

    pub(crate) fn indexed(
        regions: u32,
        buckets_per_region_log2: u8,
        tag_bits: u8,
        keys: &[(u64, u64)],
    ) -> PartialKeyCuckoo {
        let settings = CuckooSettings { regions, buckets_per_region_log2, tag_bits };
        let index = PartialKeyCuckoo::new(settings, 32).unwrap();
        for (number, &(placement, fingerprint)) in keys.iter().enumerate() {
            if index.insert(placement, fingerprint, number as u32).is_err() {
                break;
            }
        }
        index
    }

    #[test]
    fn every_candidate_of_the_index_is_one_of_the_filter_with_its_rank() {
        for (regions, log2, tag_bits) in
            [(1, 0, 8), (3, 0, 13), (3, 4, 9), (7, 6, 15), (2, 9, 16), (1, 10, 11)]
        {
            let keys = Numbers(1).keys(1 << 13);
            let index = indexed(regions, log2, tag_bits, &keys);
            let filter = CuckooFilter::from_index(&index);
            assert_eq!((filter.len(), filter.slots()), (index.len().into(), index.slots()));
            let mut bytes = Vec::new();
            filter.encode(&mut bytes);
            let decoded = CuckooFilter::decode(&bytes).unwrap();
            assert_eq!(decoded.heap_bytes(), filter.heap_bytes(), "no byte more than is needed");
            let occupied: Vec<Slot> =
                (0..regions).flat_map(|region| index.region_slots(region)).map(|(slot, ..)| slot).collect();
            for (slot, rank) in
                (0..=filter.slots()).map(|slot| (slot, occupied.partition_point(|&other| other < slot)))
            {
                assert_eq!(filter.rank(slot), rank as u32);
            }
            for &(placement, fingerprint) in &keys {
                let wanted: Vec<Slot> =
                    index.candidates(placement, fingerprint).map(|found| found.slot).collect();
                let got: Vec<CandidateSlot> = filter.candidate_slots(placement, fingerprint).collect();
                assert_eq!(got.iter().map(|found| found.slot).collect::<Vec<_>>(), wanted);
                assert!(got.iter().all(|found| occupied[found.rank as usize] == found.slot));
                assert_eq!(filter.may_contain(placement, fingerprint), !wanted.is_empty());
            }
        }
    }

    #[test]
    fn the_regions_ranks_follow_each_other() {
        let index = indexed(9, 5, 15, &Numbers(2).keys(700));
        let filter = CuckooFilter::from_index(&index);
        for region in 0..9 {
            let records = filter.first_rank_of_region(region + 1) - filter.first_rank_of_region(region);
            assert_eq!(records as usize, index.region_slots(region).count());
        }
        assert_eq!((filter.first_rank_of_region(0), filter.first_rank_of_region(u32::MAX)), (0, index.len()));
    }

    #[test]
    fn a_full_table_takes_16_3_bits_per_key_and_is_wrong_once_in_4096() {
        let filter = CuckooFilter::from_index(&indexed(1, 14, 15, &Numbers(3).keys(1 << 16)));
        assert!(filter.bits_per_key() < 16.3, "{}", filter.bits_per_key());
        let asked = 1 << 19;
        let wrong = Numbers(4).keys(asked).into_iter().filter(|&(p, f)| filter.may_contain(p, f)).count();
        let expected = asked >> 12;
        assert!((expected * 3 / 4..expected * 5 / 4).contains(&wrong), "{wrong} wrong, {expected} expected");
    }

    #[test]
    fn another_number_of_keys_than_of_tags_is_refused() {
        let mut bytes = Vec::new();
        CuckooFilter::from_index(&indexed(3, 2, 15, &Numbers(7).keys(40))).encode(&mut bytes);
        bytes[12] += 1;
        let error = CuckooFilter::decode(&bytes).unwrap_err();
        assert_eq!((error.structure, error.offset), ("cuckoo filter", 12));
    }
}
