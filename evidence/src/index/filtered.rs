//! Structures that know whether a key may exist; some of them also know where.

use super::sample::{Key, Sample};
use super::subject::{Subject, Verified};
use siltstone_index::BuildError;
use siltstone_index::filter::{CuckooFilter, Filter, RibbonFilter};
use siltstone_index::hash_pages::{HASH_BITS_MIN, HashPages};
use siltstone_index::partial_key_cuckoo::{CuckooSettings, PartialKeyCuckoo, SLOTS_PER_BUCKET};

/// The occupancies to which a cuckoo table is filled, tried in this order.
const OCCUPANCIES: [f64; 6] = [0.93, 0.9, 0.85, 0.75, 0.5, 0.25];

/// The minimum number of regions of a table, so that its size is as wanted, and the maximum number of buckets of a
/// region, as a logarithm.
const REGIONS_MIN: u32 = 32;
const REGION_BUCKETS_LOG2_MAX: u32 = 14;

/// A tag needs this many more bits than a filter with the same false-positive rate: a lookup compares 8 tags.
const TAG_BITS_BEYOND: u8 = 3;

impl Subject for RibbonFilter {
    fn heap_bytes(&self) -> usize {
        Filter::heap_bytes(self)
    }

    #[inline]
    fn look_up(&self, key: Key) -> u64 {
        Filter::may_contain(self, key.placement, key.fingerprint).into()
    }

    fn verify(&self, sorted: &[Key]) -> Verified {
        let mut verified = Verified::default();
        for key in sorted {
            verified.add(Filter::may_contain(self, key.placement, key.fingerprint), 0);
        }
        verified
    }

    fn may_contain(&self, key: Key) -> Option<bool> {
        Some(Filter::may_contain(self, key.placement, key.fingerprint))
    }
}

/// Returns a ribbon filter, built from keys in the order of their placements.
pub(super) fn ribbon_filter(sample: &Sample, bits: u8) -> Result<RibbonFilter, BuildError> {
    RibbonFilter::new(sample.sorted().iter().map(|key| (key.placement, key.fingerprint)), bits)
}

/// A cuckoo table from keys to their numbers, both in insertion order.
pub(super) struct CuckooTable<'a> {
    table: PartialKeyCuckoo,
    arrived: &'a [Key],
}

impl CuckooTable<'_> {
    /// Fills a table to 93 %, or to less if that fails.
    pub(super) fn new(sample: &Sample, bits: u8) -> Result<CuckooTable<'_>, BuildError> {
        for occupancy in OCCUPANCIES {
            if let Some(table) = filled(sample.arrived(), shape(sample.len(), occupancy, bits))? {
                return Ok(CuckooTable { table, arrived: sample.arrived() });
            }
        }
        Err(BuildError::SeedsExhausted {
            structure: "partial-key cuckoo table",
            tries: OCCUPANCIES.len() as u32,
        })
    }
}

fn shape(keys: u64, occupancy: f64, bits: u8) -> CuckooSettings {
    let buckets = (keys as f64 / occupancy / f64::from(SLOTS_PER_BUCKET)).ceil() as u64;
    let region_log2 = (buckets / u64::from(REGIONS_MIN)).max(1).ilog2().min(REGION_BUCKETS_LOG2_MAX);
    CuckooSettings {
        regions: u32::try_from(buckets.div_ceil(1 << region_log2)).unwrap_or(u32::MAX),
        buckets_per_region_log2: region_log2 as u8,
        tag_bits: bits.saturating_add(TAG_BITS_BEYOND),
    }
}

fn filled(keys: &[Key], settings: CuckooSettings) -> Result<Option<PartialKeyCuckoo>, BuildError> {
    let table = PartialKeyCuckoo::new(settings, 32)?;
    for (number, key) in (0..).zip(keys) {
        if table.insert(key.placement, key.fingerprint, number).is_err() {
            return Ok(None);
        }
    }
    Ok(Some(table))
}

impl Subject for CuckooTable<'_> {
    fn heap_bytes(&self) -> usize {
        self.table.heap_bytes()
    }

    #[inline]
    fn look_up(&self, key: Key) -> u64 {
        let candidates = self.table.candidates(key.placement, key.fingerprint);
        candidates.map(|candidate| u64::from(candidate.position)).sum()
    }

    fn verify(&self, _sorted: &[Key]) -> Verified {
        let mut verified = Verified::default();
        for (number, key) in (0..).zip(self.arrived) {
            let candidates = self.table.candidates(key.placement, key.fingerprint);
            let is_right = candidates.clone().any(|candidate| candidate.position == number);
            verified.add(is_right, candidates.count() as u64);
        }
        verified
    }

    fn may_contain(&self, key: Key) -> Option<bool> {
        Some(self.table.candidates(key.placement, key.fingerprint).next().is_some())
    }
}

/// The binary logarithm of the number of shards of hash pages. In an engine each shard has a lock.
const SHARDS_LOG2: u32 = 6;

/// Growing pages from keys to their numbers, in insertion order.
pub(super) struct ShardedPages<'a> {
    shards: Vec<HashPages>,
    arrived: &'a [Key],
}

impl ShardedPages<'_> {
    /// Inserts all keys into pages that keep as many bits of a hash as let 2^-`bits` of the missing keys have a
    /// candidate, or more, if that is below the minimum.
    pub(super) fn new(sample: &Sample, bits: u8) -> Result<ShardedPages<'_>, BuildError> {
        let arrived = sample.arrived();
        let keys_log2 = (sample.len() as f64).log2().round() as u32;
        let hash_bits = (keys_log2 + u32::from(bits)).saturating_sub(SHARDS_LOG2).max(HASH_BITS_MIN);
        let mut shards = vec![HashPages::new(hash_bits)?; 1 << SHARDS_LOG2];
        for (number, key) in (0..).zip(arrived) {
            shards[shard(key)].insert(key.placement << SHARDS_LOG2, number);
        }
        Ok(ShardedPages { shards, arrived })
    }

    #[inline]
    fn candidates(&self, key: Key) -> impl Iterator<Item = u64> {
        self.shards[shard(&key)].candidates(key.placement << SHARDS_LOG2)
    }
}

fn shard(key: &Key) -> usize {
    (key.placement >> (64 - SHARDS_LOG2)) as usize
}

impl Subject for ShardedPages<'_> {
    fn heap_bytes(&self) -> usize {
        self.shards.iter().map(HashPages::heap_bytes).sum()
    }

    #[inline]
    fn look_up(&self, key: Key) -> u64 {
        self.candidates(key).sum()
    }

    fn verify(&self, _sorted: &[Key]) -> Verified {
        let mut verified = Verified::default();
        for (number, key) in (0..).zip(self.arrived) {
            let candidates: Vec<_> = self.candidates(*key).collect();
            verified.add(candidates.contains(&number), candidates.len() as u64);
        }
        verified
    }

    fn may_contain(&self, key: Key) -> Option<bool> {
        Some(self.candidates(key).next().is_some())
    }
}

/// The filter derived from a table, and the records in the order of the slots that it returns.
pub(super) struct TableFilter<'a> {
    filter: CuckooFilter,
    table: CuckooTable<'a>,
}

impl TableFilter<'_> {
    /// Fills a table and derives the filter from it.
    pub(super) fn new(sample: &Sample, bits: u8) -> Result<TableFilter<'_>, BuildError> {
        let table = CuckooTable::new(sample, bits)?;
        Ok(TableFilter { filter: CuckooFilter::from_index(&table.table), table })
    }
}

impl Subject for TableFilter<'_> {
    fn heap_bytes(&self) -> usize {
        Filter::heap_bytes(&self.filter)
    }

    #[inline]
    fn look_up(&self, key: Key) -> u64 {
        self.filter.may_contain(key.placement, key.fingerprint).into()
    }

    /// A record is preceded by the records of all occupied slots before its own.
    fn verify(&self, _sorted: &[Key]) -> Verified {
        let (table, mut verified) = (&self.table.table, Verified::default());
        let records = (0..table.region_count()).flat_map(|region| table.region_slots(region));
        for (rank, (_, _, number)) in (0..).zip(records) {
            let key = self.table.arrived[number as usize];
            let (mut is_right, mut slots) = (false, 0);
            for candidate in self.filter.candidate_slots(key.placement, key.fingerprint) {
                is_right |= candidate.rank == rank;
                slots += 1;
            }
            verified.add(is_right && self.filter.may_contain(key.placement, key.fingerprint), slots);
        }
        verified
    }

    fn may_contain(&self, key: Key) -> Option<bool> {
        Some(self.filter.may_contain(key.placement, key.fingerprint))
    }
}
