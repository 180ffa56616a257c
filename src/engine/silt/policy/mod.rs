//! The policy: decides from counts when LogStores are converted and partitions are merged. It touches no files.
//!
//! The paper merges each partition separately when its HashStores hold d keys (SILT 5). Here one bound applies to all
//! HashStores together, d·(P+1)/2: the average total of P partitions whose merges are evenly staggered. When the bound
//! is reached, the fullest partition is merged. This limits the memory, staggers the merges without further rules, and
//! prefers partitions in which a merge frees most.
//!
//!  ```text
//!  HashStore records   ####   partition 0 (just merged: empty soon)
//!  of P = 4 partitions ###.   partition 1
//!                      ##..   partition 2       sum at the bound = d·(1 + 2 + 3 + 4)/4 = d·(P+1)/2
//!                      #...   partition 3
//!  ```

use crate::engine::CommonSettings;
use crate::engine::jobs::{Due, FURTHER_PRESSURE, jobs_at_once};
use crate::engine::silt::partition_settings::{ChainSettings, PartitionSettings};
use crate::store::log_store::{LOG_TABLES_MAX, LogStore, LogStoreSettings};
use siltstone_device::Access;
use siltstone_index::partial_key_cuckoo::CuckooSettings;

/// If a partition has more HashStores than this and they are small, they are merged: each one costs false positives and
/// some memory, however few records it holds.
pub const HASH_STORES_MAX: usize = 48;
/// HashStores are small if they have less than one record per this many slots of a regular LogStore.
pub const SLOTS_PER_RECORD_OF_SMALL: u64 = 16;
/// A LogStore may span one part in this many of the data, even if that is more log than allowed otherwise.
pub const LOG_PART_OF_DATA: u64 = 10;
/// This many of the smallest LogStores are added to the bound for each partition, for databases of few LogStores: small
/// LogStores take less memory, and the bound makes up for the records that they do not hold.
pub const LOG_STORES_ADDED: f64 = 0.125;
/// The bound is at least this many of them for each partition.
pub const LOG_STORES_MIN: f64 = 0.5;
/// LogStores of records larger than this, in bytes, have more slots, in proportion: the index then takes less memory
/// per byte of data, and fewer conversions save writes.
pub const LOG_RECORD_BYTES: u64 = 512;
/// The maximum factor of that.
pub const LOG_SLOTS_FACTOR_MAX: u64 = 2;
/// A LogStore may extend over this many bytes of the log in any case.
const LOG_REACH_MIN: u64 = 1 << 20;
/// The share by which the bound may be exceeded before writers have to wait.
const EXCESS_MAX: f64 = 0.1;
/// HashStores hold at most this share of the keys that only they are assumed to have. Without this limit a store that
/// was never merged, whose keys all count as new, would never be merged with a ratio of about two or more.
const UNMERGED_SHARE_MAX: f64 = 0.75;
/// The assumed occupancy of a full table, until it has been measured.
pub const OCCUPANCY: f64 = 0.93;
/// With fewer records than this in a LogStore, its record sizes are not extrapolated.
const LOG_RECORDS_TELLING: u32 = 64;
/// The assumed span of a LogStore before record sizes are known, as a binary logarithm of bytes of log.
pub const POSITION_BITS_MAX: u8 = 32;
/// The lower limit of the same.
pub const POSITION_BITS_MIN: u8 = 16;
/// A LogStore can span this many times the bytes of log that it is expected to need.
pub const LOG_REACH: f64 = 2.0;
/// Writers wait if there are more frozen LogStores than one per this many partitions, and more than the minimum.
pub const PARTITIONS_PER_FROZEN: usize = 8;
/// The minimum of the same.
pub const FROZEN_MAX_MIN: usize = 2;
/// The transfers of a merge have one byte per this many keys.
pub const KEYS_PER_PIECE_BYTE: u64 = 2048;
/// The minimum size of a transfer of a merge through the page cache, in bytes.
pub const PIECE_BYTES_MIN: usize = 8 << 10;
/// With direct I/O a transfer has at least this many records, within limits in bytes: overwrites of values of 1,000 B
/// are 20 % slower with half as many. The processor bounds merges of short records.
const DIRECT_PIECE_RECORDS: u64 = 512;
const DIRECT_PIECE_BYTES_MIN: u64 = 64 << 10;
const DIRECT_PIECE_BYTES_MAX: u64 = 512 << 10;

/// Below this pressure of other work, indexes and filters are read back first. No write waits for them.
const LOAD_PRESSURE: f64 = 0.5;

/// From this share of the LogStores on that may wait, a further one is converted next to the others. With few
/// partitions two may wait: with a higher share, it would begin only when writers do.
const FURTHER_CONVERT_SHARE: f64 = 0.5;

/// A partition is merged when it has this share of the HashStores that the memory budget has place to merge. Those that
/// follow until the merge ends are the rest, and writers wait when there are as many as that.
const HASH_STORES_SHARE: f64 = 0.75;

/// If the file system is short of space, a partition is merged when its young records are more than this share of the
/// others, and writers wait when they are twice as many.
const YOUNG_SHARE_IF_SHORT: f64 = 0.25;

/// A partition may have this many runs more than the length of a chain before writers have to wait.
const RUNS_EXCESS_MAX: u32 = 8;
/// From this share of all runs on that partitions may have, the fullest one is merged. With 0.75 all are merged at
/// about the same number of keys, and write amplification depends on it: 2.9 to 3.8 instead of 3.0 to 3.1.
pub const RUNS_SHARE_MAX: f64 = 0.5;

/// The jobs in progress of one partition: at most one of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Work {
    pub converts: bool,
    /// The share of the LogStore that the conversion has written; 0 without one.
    pub converted: f64,
    /// Writes a chain.
    pub chains: bool,
    pub merge: Option<Merging>,
}

impl Work {
    /// Returns whether any job is in progress.
    pub fn is_any(&self) -> bool {
        self.converts || self.chains || self.merge.is_some()
    }
}

/// A merge in progress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Merging {
    /// It includes the partition's frozen LogStores, so they are not converted.
    pub with_frozen: bool,
    /// The number of HashStore records that it has passed. They exist until it ends, but writers that are as slow as
    /// the merges should not be delayed.
    pub passed_records: u64,
}

/// The counts of one partition.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct PartitionCounts {
    pub frozen: usize,
    pub frozen_records: u64,
    /// The start in the log of the LogStore that was frozen first.
    pub oldest_frozen: Option<u64>,
    pub hash_stores: usize,
    pub hash_records: u64,
    pub sorted_records: u64,
    /// How many stores the chain does not have.
    pub unchained: usize,
    /// Whether the chain has to be made again.
    pub chain_is_damaged: bool,
    /// Whether everything in it should be merged.
    pub compact: bool,
    pub work: Work,
}

impl PartitionCounts {
    fn mergeable(&self) -> u64 {
        self.hash_records + self.frozen_records
    }

    /// Returns whether a merge may begin. Chains are written, and runs of chains converted, with the columns that the
    /// partition has, and a merge may change these.
    fn may_merge(&self, has_chains: bool) -> bool {
        self.work.merge.is_none() && !(has_chains && (self.work.chains || self.work.converts))
    }

    /// Returns whether there are many small HashStores. The number of regular ones is limited only by d: with a fixed
    /// limit, databases above some size would merge more often than d requires.
    fn is_splintered(&self, settings: &PartitionSettings, record_bytes: u64) -> bool {
        let slots = u64::from(log_slots(settings, record_bytes, self.hash_records + self.sorted_records));
        self.hash_stores > HASH_STORES_MAX
            && self.hash_records * SLOTS_PER_RECORD_OF_SMALL < self.hash_stores as u64 * slots
    }
}

/// The kinds of jobs. Of those that are equally far behind, an earlier one runs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    /// Converts a LogStore, or writes a chain.
    Convert,
    Merge,
    /// Reads an index or a filter back to memory.
    Load,
}

/// The counts that decisions are based on.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    pub partitions: Vec<PartitionCounts>,
    /// The share of records in the last merges whose keys were new.
    pub new_key_ratio: f64,
    /// The mean size of a record in bytes, 0 if it is unknown.
    pub record_bytes: u64,
    /// The file system has less free space than the reserve.
    pub is_short: bool,
    /// The most HashStores of a partition that the memory budget has place to merge, if there is a budget.
    pub hash_stores_max: Option<usize>,
}

/// Of which kinds a further job begins besides those in progress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Urgent {
    pub convert: bool,
    pub merge: bool,
}

/// How far background work is behind: 0 for not at all, 1 if writers must wait.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Pressure {
    pub convert: f64,
    pub merge: f64,
}

impl Counts {
    fn sum(&self, count: fn(&PartitionCounts) -> u64) -> f64 {
        self.partitions.iter().map(count).sum::<u64>() as f64
    }

    fn sorted_keys(&self) -> f64 {
        self.sum(|partition| partition.sorted_records)
    }

    /// Returns the number of keys in HashStores that are assumed to be new.
    fn new_keys(&self) -> f64 {
        self.new_key_ratio * self.sum(|partition| partition.hash_records)
    }

    /// Returns the approximate number of keys.
    pub fn keys(&self) -> f64 {
        self.sorted_keys() + self.new_keys()
    }

    /// Returns the maximum number of records in all HashStores together.
    pub fn hash_records_max(&self, settings: &PartitionSettings) -> f64 {
        let partitions = self.partitions.len() as f64;
        let log_stores = f64::from(log_slots_min(settings, self.record_bytes)) * OCCUPANCY * partitions;
        let share = settings.merge_ratio * (partitions + 1.0) / (2.0 * partitions);
        let of_keys = share * self.sorted_keys() + share.min(UNMERGED_SHARE_MAX) * self.new_keys();
        (of_keys + LOG_STORES_ADDED * log_stores).max(LOG_STORES_MIN * log_stores)
    }

    /// Returns the approximate mean number of HashStores per partition when all of them together are at their maximum.
    /// LogStores that are converted early, or limited by a memory budget, become more HashStores than expected.
    pub fn hash_stores_mean(&self, settings: &PartitionSettings) -> f64 {
        let expected = self.hash_records_max(settings) / self.log_store_records(settings);
        let present = self.partitions.iter().map(|partition| partition.hash_stores).sum::<usize>();
        expected.max(present as f64 / 2.0) / self.partitions.len().max(1) as f64
    }

    /// Returns the number of HashStore records that are not merged yet.
    fn hash_records(&self) -> f64 {
        let passed = |counts: &PartitionCounts| counts.work.merge.map_or(0, |merging| merging.passed_records);
        // A merge that has just ended has removed the records that it has passed.
        let left = |counts: &PartitionCounts| counts.hash_records.saturating_sub(passed(counts));
        self.partitions.iter().map(left).sum::<u64>() as f64
    }

    /// Returns the partition to merge next, if any, of those without a job that keeps it from a merge.
    pub fn choose_merge(&self, settings: &PartitionSettings) -> Option<usize> {
        let has_chains = settings.chain.is_some();
        let free = || self.partitions.iter().enumerate().filter(|(_, counts)| counts.may_merge(has_chains));
        let fullest = |candidates: &mut dyn Iterator<Item = (usize, &PartitionCounts)>| {
            candidates.max_by_key(|(_, counts)| counts.mergeable()).map(|(number, _)| number)
        };
        if let Some(number) = fullest(&mut free().filter(|(_, counts)| counts.compact)) {
            return Some(number);
        }
        if let Some(number) = fullest(&mut free().filter(|(_, counts)| self.frees_space(counts, 1.0))) {
            return Some(number);
        }
        if let Some(number) = fullest(&mut free().filter(|(_, counts)| self.exceeds_budget(counts) >= 0.0)) {
            return Some(number);
        }
        let is_merged = |counts: &PartitionCounts| counts.work.merge.is_some();
        let is_further = self.partitions.iter().any(is_merged);
        // The first merge is of the fullest partition, also if it has to wait for a short job. A further one is worth
        // its writes only if the partition has its share of what all may have: else those in progress reach the bound.
        let of_all = |is_worth: &dyn Fn(&PartitionCounts) -> bool| {
            let all = || self.partitions.iter().enumerate().filter(|(_, counts)| !is_merged(counts));
            fullest(&mut all().filter(|(_, counts)| !is_further || is_worth(counts)))
                .filter(|number| self.partitions[*number].may_merge(has_chains))
        };
        if let Some(chain) = &settings.chain {
            if self.runs() > self.runs_max(chain) {
                let share = RUNS_SHARE_MAX * f64::from(chain.chain_length);
                return of_all(&|counts| counts.hash_stores as f64 >= share);
            }
            let due = |counts: &PartitionCounts| {
                counts.hash_stores > chain.chain_length as usize
                    || counts.has_garbage(self.new_key_ratio, chain.space)
            };
            return fullest(&mut free().filter(|(_, counts)| due(counts)));
        }
        if let Some(number) =
            fullest(&mut free().filter(|(_, counts)| counts.is_splintered(settings, self.record_bytes)))
        {
            return Some(number);
        }
        let most = self.hash_records_max(settings);
        if self.hash_records() > most {
            let share = most / self.partitions.len() as f64;
            return of_all(&|counts| counts.mergeable() as f64 >= share);
        }
        None
    }

    /// Returns the partition whose LogStore is converted next, if any: the one that was frozen first keeps most of the
    /// log from being released. LogStores of a partition are converted one by one, in the order of their freezing, and
    /// not if a merge includes them, as a compaction does.
    pub fn choose_conversion(&self) -> Option<usize> {
        let numbered = self.partitions.iter().enumerate().filter(|(_, counts)| {
            let is_merged = counts.work.merge.is_some_and(|merging| merging.with_frozen);
            !counts.compact && !counts.work.converts && !is_merged
        });
        let oldest =
            numbered.filter_map(|(number, counts)| counts.oldest_frozen.map(|start| (start, number)));
        oldest.min().map(|(_, number)| number)
    }

    /// Returns how many conversions are in progress.
    pub fn conversions(&self) -> usize {
        self.partitions.iter().filter(|counts| counts.work.converts).count()
    }

    /// Returns the numbers of the partitions that are merged.
    pub fn merges(&self) -> impl Iterator<Item = usize> {
        let numbered = self.partitions.iter().enumerate();
        numbered.filter(|(_, counts)| counts.work.merge.is_some()).map(|(number, _)| number)
    }

    /// Returns of which kinds a further job begins besides those in progress.
    pub fn urgent(&self, settings: &PartitionSettings) -> Urgent {
        let merge = self.pressure(settings).merge;
        let waits = |counts: &PartitionCounts| counts.compact && counts.work.merge.is_none();
        Urgent {
            convert: self.waiting_log_stores() / self.waiting_log_stores_max() >= FURTHER_CONVERT_SHARE,
            merge: merge >= FURTHER_PRESSURE || self.partitions.iter().any(waits),
        }
    }

    /// Returns whether a partition is merged because the file system is short of space: its young records may replace
    /// and delete many of the others, at least this many times as many as is worth a merge.
    fn frees_space(&self, counts: &PartitionCounts, times: f64) -> bool {
        let least = times * YOUNG_SHARE_IF_SHORT * counts.sorted_records as f64;
        self.is_short && counts.hash_records > 0 && counts.mergeable() as f64 > least
    }

    /// Returns how far a partition is beyond its share of the HashStores that the memory budget has place to merge: 0
    /// if it has to be merged, 1 if it has as many as may be.
    fn exceeds_budget(&self, counts: &PartitionCounts) -> f64 {
        let Some(most) = self.hash_stores_max else { return f64::NEG_INFINITY };
        (counts.hash_stores as f64 / most as f64 - HASH_STORES_SHARE) / (1.0 - HASH_STORES_SHARE)
    }

    /// Returns how far the merges in progress are ahead of their bound, in LogStores; 0 if other work is waiting.
    pub fn slack(&self, settings: &PartitionSettings) -> f64 {
        if self.partitions.iter().any(|partition| partition.frozen > 0 || partition.compact) {
            return 0.0;
        }
        let until = |most: f64| (most - self.most_runs()) * self.partitions.len() as f64;
        let left = match &settings.chain {
            Some(chain) => until(f64::from(chain.chain_length + RUNS_EXCESS_MAX)),
            None => {
                (self.hash_records_max(settings) - self.hash_records()) / self.log_store_records(settings)
            }
        };
        let of_budget = self.hash_stores_max.map_or(f64::INFINITY, |most| until(most as f64));
        left.min(of_budget).max(0.0)
    }

    /// Returns the number of records of a full LogStore.
    fn log_store_records(&self, settings: &PartitionSettings) -> f64 {
        let keys = self.keys() as u64 / self.partitions.len().max(1) as u64;
        f64::from(log_slots(settings, self.record_bytes, keys)) * OCCUPANCY
    }

    /// Returns how many LogStores wait for their conversion, besides those in work: one, or one of each partition that
    /// is merged with them.
    fn waiting_log_stores(&self) -> f64 {
        let waiting = |partition: &PartitionCounts| if partition.compact { 0 } else { partition.frozen };
        let with_frozen =
            |counts: &&PartitionCounts| counts.work.merge.is_some_and(|merge| merge.with_frozen);
        let merged = self.partitions.iter().filter(with_frozen).count();
        self.partitions.iter().map(waiting).sum::<usize>().saturating_sub(merged.max(1)) as f64
    }

    fn waiting_log_stores_max(&self) -> f64 {
        (self.partitions.len() / PARTITIONS_PER_FROZEN).max(FROZEN_MAX_MIN) as f64
    }

    /// Returns how far background work is behind.
    pub fn pressure(&self, settings: &PartitionSettings) -> Pressure {
        // What is written of the LogStores in work counts, so that writers are delayed before they have to wait.
        let counted = self.partitions.iter().filter(|partition| !partition.compact);
        let converted: f64 = counted.map(|partition| partition.work.converted).sum();
        let convert = (self.waiting_log_stores() - converted).max(0.0) / self.waiting_log_stores_max();
        let merge = match &settings.chain {
            Some(chain) => (self.most_runs() - f64::from(chain.chain_length)) / f64::from(RUNS_EXCESS_MAX),
            None => (self.hash_records() / self.hash_records_max(settings) - 1.0) / EXCESS_MAX,
        };
        let frees = self.partitions.iter().any(|partition| self.frees_space(partition, 2.0));
        let of_budget = self.partitions.iter().map(|partition| self.exceeds_budget(partition));
        Pressure { convert, merge: of_budget.fold(merge.max(if frees { 1.0 } else { 0.0 }), f64::max) }
    }
}

/// The order of jobs.
impl Counts {
    /// Returns all kinds of jobs. Of each, a step finds out whether there is one.
    pub fn due(&self, settings: &PartitionSettings) -> [Due<Job>; 3] {
        let Pressure { convert, merge } = self.pressure(settings);
        let due = |job, pressure| Due { job, is_pending: true, pressure };
        [due(Job::Convert, convert), due(Job::Merge, merge), due(Job::Load, LOAD_PRESSURE)]
    }
}

/// Chains.
impl Counts {
    /// Returns the number of runs of the partition that has most.
    fn most_runs(&self) -> f64 {
        self.partitions.iter().map(|partition| partition.hash_stores).max().unwrap_or(0) as f64
    }

    /// Returns the number of runs of all partitions.
    fn runs(&self) -> f64 {
        self.partitions.iter().map(|partition| partition.hash_stores).sum::<usize>() as f64
    }

    /// Returns the number of runs of all partitions from which on the fullest is merged, so that not all have to be
    /// merged at once. With evenly staggered merges there are never as many.
    fn runs_max(&self, chain: &ChainSettings) -> f64 {
        match chain.expected_keys {
            0 => RUNS_SHARE_MAX * f64::from(chain.chain_length) * self.partitions.len() as f64,
            _ => f64::INFINITY,
        }
    }

    /// Returns the partition whose chain is written next, of those that are not merged: one whose chain is damaged, or
    /// the one with most runs that are in no chain, if these are as many as may be.
    pub fn choose_chain(&self, chain: &ChainSettings) -> Option<usize> {
        let numbered = self.partitions.iter().enumerate();
        let due = numbered.filter(|(_, counts)| {
            let is_due =
                counts.unchained >= chain.buffered_filters.max(1) as usize || counts.chain_is_damaged;
            is_due && !counts.compact && counts.work.merge.is_none()
        });
        due.max_by_key(|(_, counts)| (counts.chain_is_damaged, counts.unchained)).map(|(number, _)| number)
    }
}

impl PartitionCounts {
    /// Returns whether the runs are more than `space` times the keys that they are assumed to have.
    fn has_garbage(&self, new_key_ratio: f64, space: f64) -> bool {
        let (old, young) = (self.sorted_records as f64, self.hash_records as f64);
        old > 0.0 && self.hash_stores > 1 && old + young > space * (old + new_key_ratio * young)
    }
}

/// A table has at most about this many regions: the more there are, the sooner one of them is full.
pub const REGIONS: u32 = 4;
/// A LogStore with fewer slots is a single table.
pub const TABLES_SLOTS_MIN: u32 = 1024;

/// Returns the maximum number of bytes of log that a LogStore spans, for a database of this size. With a limit that
/// does not grow with the data, LogStores would be converted before they are full, into ever more HashStores.
fn log_reach_bytes_max(settings: &PartitionSettings, data_bytes: u64) -> u64 {
    (settings.log_bytes_max / 2).max(data_bytes / LOG_PART_OF_DATA)
}

/// Returns how many bytes of log a LogStore may span, for a database of this size whose LogStores together need
/// `full_bytes` of log when they are full. One that spans more has mostly records that were overwritten.
pub(super) fn log_reach_bytes(settings: &PartitionSettings, data_bytes: u64, full_bytes: u64) -> u64 {
    let needed = data_bytes.max(full_bytes + full_bytes / 2).max(LOG_REACH_MIN);
    log_reach_bytes_max(settings, data_bytes).min(needed)
}

/// The open files besides stores and the log: manifest and mirror, the directory and its lock, `USAGE`, and what one
/// job of each kind writes.
const OTHER_FILES: u64 = 9;
/// What a further job of each kind writes: two HashStores or SortedStores, and a chain.
const FILES_OF_FURTHER_JOBS: u64 = 3;

/// Returns the maximum number of open files if LogStores are converted when they are full: the stores just before the
/// end of a merge that delays writers, and the log.
pub(super) fn open_files(
    settings: &PartitionSettings,
    common: &CommonSettings,
    keys: u64,
    record_bytes: u64,
) -> u64 {
    let partitions = common.partitions();
    let further_jobs = jobs_at_once(common.threads) as u64 - 1;
    let partition_keys = keys / u64::from(partitions);
    let partition = PartitionCounts { sorted_records: partition_keys, ..PartitionCounts::default() };
    let partition_counts = vec![partition; partitions as usize];
    let counts = Counts { partitions: partition_counts, record_bytes, ..Counts::default() };
    let hash_records = (1.0 + EXCESS_MAX) * counts.hash_records_max(settings);
    let slots = f64::from(log_slots(settings, record_bytes, partition_keys));
    let hash_stores = match &settings.chain {
        // As many runs as a partition may have before writers wait, and the chain.
        Some(chain) => u64::from(partitions) * u64::from(chain.chain_length + RUNS_EXCESS_MAX + 1),
        None => (hash_records / (slots * OCCUPANCY)).ceil() as u64,
    };
    // Waiting LogStores and active ones together span twice as much as one generation.
    let log_store_bytes = slots as u64 * record_bytes * u64::from(partitions);
    let log_bytes = 2 * log_store_bytes.min(log_reach_bytes_max(settings, keys.saturating_mul(record_bytes)));
    let segments = log_bytes / settings.log_segment_bytes + 2;
    u64::from(partitions) + hash_stores + segments + OTHER_FILES + FILES_OF_FURTHER_JOBS * further_jobs
}

/// Returns the number of slots of the smallest LogStore, for records of this size.
pub(super) fn log_slots_min(settings: &PartitionSettings, record_bytes: u64) -> u32 {
    let bytes = record_bytes.clamp(LOG_RECORD_BYTES, LOG_SLOTS_FACTOR_MAX * LOG_RECORD_BYTES);
    (u64::from(settings.log_slots_min) * bytes / LOG_RECORD_BYTES) as u32
}

/// Returns the number of slots of the LogStore of a partition with this many keys, whose records have this size.
fn log_slots(settings: &PartitionSettings, record_bytes: u64, partition_keys: u64) -> u32 {
    let wanted = partition_keys / u64::from(settings.keys_per_log_slot);
    (wanted.min(1 << 24) as u32).max(log_slots_min(settings, record_bytes))
}

/// Returns the settings of the LogStore of a partition with this many keys, of records of this size: one table if its
/// tags become the filter, otherwise several, each with regions of 2^`buckets_per_region_log2` buckets of four.
pub(super) fn log_store_settings(
    settings: &PartitionSettings,
    record_bytes: u64,
    partition_keys: u64,
    slots_max: u32,
    position_bits: u8,
) -> LogStoreSettings {
    let slots = log_slots(settings, record_bytes, partition_keys).min(slots_max);
    let is_bounded = slots == slots_max;
    let copies_tags = settings.copies_tags();
    let tables = if slots < TABLES_SLOTS_MIN || copies_tags { 1 } else { LOG_TABLES_MAX };
    let slots = slots / tables as u32;
    // Rounded to whole regions, but never above a bound.
    let power_of_two = if is_bounded { 1 << slots.ilog2() } else { slots.next_power_of_two() };
    let small = power_of_two.min(settings.region_slots_max / tables as u32);
    let region_slots = small.max((slots / REGIONS).next_power_of_two()).max(4);
    let rounding = if is_bounded { 0 } else { region_slots / 2 };
    let table = CuckooSettings {
        regions: ((slots + rounding) / region_slots).max(1),
        buckets_per_region_log2: (region_slots / 4).ilog2() as u8,
        tag_bits: settings.tag_bits,
    };
    LogStoreSettings { table, tables, position_bits }
}

/// Returns the bytes of log per record of a LogStore that ends at `end`; `None` if it has too few records to conclude
/// anything. The log has the records of all partitions.
pub(super) fn log_bytes_per_record(last: &LogStore, end: u64) -> Option<f64> {
    let span = end.saturating_sub(last.start()) as f64;
    (last.len() >= LOG_RECORDS_TELLING).then(|| span / f64::from(last.len()))
}

/// Returns the binary logarithm of the bytes of log that the next LogStore of a partition, with this many slots, should
/// span: twice what it needs if records have the same size as during the last one, which ends at `end`.
pub(super) fn position_bits(last: &LogStore, end: u64, slots: u32) -> u8 {
    let Some(bytes_per_record) = log_bytes_per_record(last, end) else { return last.position_bits() };
    let bits = (LOG_REACH * bytes_per_record * f64::from(slots)).log2().ceil();
    bits.clamp(f64::from(POSITION_BITS_MIN), f64::from(POSITION_BITS_MAX)) as u8
}

/// Returns the size of a merge's transfers in bytes. It grows with the data, so that the memory per key does not. With
/// direct I/O transfers are larger, because the system does not collect them; while gets read, `device` divides them.
pub(super) fn piece_bytes(
    settings: &PartitionSettings,
    keys: u64,
    record_bytes: u64,
    access: Access,
) -> usize {
    let wanted = (keys / KEYS_PER_PIECE_BYTE).next_power_of_two() as usize;
    let of_records = DIRECT_PIECE_RECORDS.saturating_mul(record_bytes);
    let direct =
        of_records.clamp(DIRECT_PIECE_BYTES_MIN, DIRECT_PIECE_BYTES_MAX).next_power_of_two() as usize;
    let least = if access.is_direct() { direct } else { PIECE_BYTES_MIN };
    wanted.max(least).min(settings.piece_bytes_max.max(PIECE_BYTES_MIN))
}

#[cfg(test)]
mod tests;
