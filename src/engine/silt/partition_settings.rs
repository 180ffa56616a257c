//! The settings of partitions and their stores, which each engine derives from its own.

use crate::error::{Error, Result};
use crate::store::FilterKind;
use crate::store::hash_store::HashStoreFormat;
use crate::store::table::IndexKind;

/// The smallest budget, in bytes, and the addition for each partition.
const BUDGET_MIN: u64 = 512 << 10;
/// The blocks that jobs hold at the same time with the least budget, about: two HashStores that are merged, the older
/// store, the buckets of its index and of the new one, and what is written.
const BUDGET_MIN_BLOCKS: u64 = 32;
const BUDGET_MIN_PER_PARTITION: u64 = 4 << 10;

/// With this many HashStores per partition their filters have as many bits as were set. With half as many, one bit less
/// gives as many false positives per lookup.
const FILTER_STORES: f64 = 16.0;

/// The form of HashStores on flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HashStoreKind {
    /// The paper's (3.2): the cuckoo table of the LogStore, in the order of its filter. Fixed-size records only.
    CuckooTable,
    /// In the order of the SortedStore, found by fences, with a filter.
    #[default]
    HashOrdered,
}

/// The settings of partitions. [`SiltSettings`](crate::SiltSettings) explains those that have the same name there.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine) struct PartitionSettings {
    pub merge_ratio: f64,
    pub tag_bits: u8,
    pub log_slots_min: u32,
    pub keys_per_log_slot: u32,
    pub hash_store: HashStoreKind,
    pub filter: FilterKind,
    pub filter_bits: u8,
    /// The index of SortedStores, where it suits the records.
    pub index: IndexKind,
    pub filter_last_store: Option<u8>,
    pub log_segment_bytes: u64,
    pub log_bytes_max: u64,
    pub log_mapped: bool,
    pub piece_bytes_max: usize,
    pub step_records: usize,
    pub convert_bytes_per_s: u64,
    pub merge_bytes_per_s: u64,
    pub region_slots_max: u32,
    pub manifest_bytes_max: u64,
    /// The chains of BloomStore; `None` for SILT's indexes and filters.
    pub chain: Option<ChainSettings>,
    /// The most memory for indexes and filters under a memory budget, in bytes.
    pub resident_bytes_max: u64,
    /// A mistake that the engine makes; simulations must find it.
    #[cfg(feature = "mistakes")]
    pub mistake: Option<Mistake>,
}

/// The settings of chains. [`BloomStoreSettings`](crate::BloomStoreSettings) explains those that have the same name
/// there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::engine) struct ChainSettings {
    pub chain_length: u32,
    pub buffered_filters: u32,
    pub filter_bits: u8,
    pub old_filter_bits: u8,
    /// 0 for no prefilter.
    pub prefilter_bits: u8,
    pub space: f64,
    /// The keys that the database will have; 0 if it is not known.
    pub expected_keys: u64,
}

/// Mistakes that the engine can be set to make, to show that tests find them.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// A conversion becomes durable before the rest of the batches that it has a part of.
    CommitsBeforeTheLog,
    /// A conversion releases records of the log that it does not contain.
    ReleasesTooMuch,
    /// Writes are accepted after one has failed.
    GoesOnAfterAFailure,
    /// A failure is recorded after the lock is released.
    RecordsFailuresLate,
    /// A conversion drops tombstones, so that older values come back.
    DropsDeletes,
    /// An update reads before it locks out other writers.
    ReadsBeforeLocking,
    /// Calls do not check for an earlier failure before they take a lock. The checks under the locks must suffice.
    ChecksOnlyUnderLocks,
    /// A chain becomes durable before the runs that it names.
    ChainBeforeRun,
    /// A chain has no records of the newest run that it names.
    OmitsColumn,
    /// A prefilter has no records of a run of its chain.
    OmitsFromPrefilter,
    /// The runs that are added to a chain are in the wrong order.
    ReversesRuns,
}

impl PartitionSettings {
    /// Returns the settings of SILT by default.
    #[cfg(test)]
    pub fn for_tests() -> PartitionSettings {
        PartitionSettings {
            merge_ratio: 0.3,
            tag_bits: 15,
            log_slots_min: 3_072,
            keys_per_log_slot: 100,
            hash_store: HashStoreKind::HashOrdered,
            filter: FilterKind::Ribbon,
            filter_bits: 11,
            index: IndexKind::BlockPerfect,
            filter_last_store: Some(0),
            log_segment_bytes: 64 << 20,
            log_bytes_max: 1 << 30,
            log_mapped: true,
            piece_bytes_max: 1 << 20,
            step_records: 4_096,
            convert_bytes_per_s: 0,
            merge_bytes_per_s: 0,
            region_slots_max: 1_024,
            manifest_bytes_max: 256 << 10,
            chain: None,
            resident_bytes_max: u64::MAX,
            #[cfg(feature = "mistakes")]
            mistake: None,
        }
    }

    /// Returns whether the engine makes this mistake: never without the feature `mistakes`.
    #[cfg(feature = "mistakes")]
    pub fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    #[cfg(not(feature = "mistakes"))]
    pub fn makes(&self, _: Mistake) -> bool {
        false
    }

    /// Returns the format of new HashStores, for this mean number of HashStores per partition.
    pub fn hash_store_format(&self, hash_stores: f64) -> HashStoreFormat {
        match (self.hash_store, self.filter) {
            (HashStoreKind::CuckooTable, _) => HashStoreFormat::CuckooTable,
            (HashStoreKind::HashOrdered, FilterKind::CuckooTags) => HashStoreFormat::CopiedTags,
            (HashStoreKind::HashOrdered, FilterKind::Ribbon) => {
                HashStoreFormat::Ribbon(filter_bits(self.filter_bits, hash_stores))
            }
        }
    }

    /// Returns whether the filters of new HashStores are copies of the LogStore's tags.
    pub fn copies_tags(&self) -> bool {
        (self.hash_store, self.filter) != (HashStoreKind::HashOrdered, FilterKind::Ribbon)
    }
}

/// Returns the bits of the filter of a HashStore, for this setting and this mean number of HashStores per partition.
/// Fewer HashStores have shorter filters: a lookup has about 16 · 2^-`filter_bits` false positives, and more only if
/// there are more HashStores.
pub fn filter_bits(filter_bits: u8, hash_stores: f64) -> u8 {
    let fewer = (FILTER_STORES / hash_stores.max(1.0)).log2().round().max(0.0);
    filter_bits.saturating_sub(fewer as u8).max(1)
}

/// Returns the least budget, in bytes.
pub(in crate::engine) fn budget_min(partitions: usize, block_bytes: u32) -> u64 {
    let blocks = BUDGET_MIN_BLOCKS * u64::from(block_bytes);
    BUDGET_MIN.max(blocks) + BUDGET_MIN_PER_PARTITION * partitions as u64
}

/// Returns an error for a budget that is less than the engine requires.
pub(in crate::engine) fn check_budget(budget: u64, partitions: usize, block_bytes: u32) -> Result<()> {
    let least = budget_min(partitions, block_bytes);
    if budget >= least {
        return Ok(());
    }
    let problem = format!(
        "{budget} bytes are too few; a database of {partitions} partitions with blocks of {block_bytes} bytes needs \
             {least} or more"
    );
    Err(Error::Setting { name: "memory_budget", problem })
}
