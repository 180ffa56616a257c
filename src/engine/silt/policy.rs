//! When LogStores are converted and partitions merged: decisions from counts, without a hand on any file.
//!
//! The paper merges each partition by itself when its HashStores hold d keys (SILT 5). Here one bound holds for all
//! HashStores together, d·(P+1)/2, which is what P partitions hold on average between merges that are spread
//! evenly: when it is reached the fullest partition is merged. That bounds the memory, spreads the merges by itself,
//! and favours the partitions where a merge frees most.

use super::settings::SiltSettings;
use crate::device::Access;
use crate::index::partial_key_cuckoo::CuckooSettings;
use crate::store::log_store::{LOG_TABLES_MAX, LogStore, LogStoreSettings};

/// More HashStores of a partition than these are merged if they are small: each costs false positives, and memory
/// however few records it holds.
pub const HASH_STORES_MAX: usize = 48;
/// HashStores are small if they have less than one record for so many slots that a LogStore is to have.
pub const SLOTS_PER_RECORD_OF_SMALL: u64 = 16;
/// A LogStore may reach over this part of the data, though that is more log than is allowed otherwise.
pub const LOG_PART_OF_DATA: u64 = 10;
/// The share by which the bound may be exceeded before writers have to wait.
const EXCESS_MAX: f64 = 0.1;
/// HashStores hold no more than this share of the keys of their own that are taken to be new: else a store that was
/// never merged, all of whose keys are new as far as is known, would never be merged under a ratio of about two or
/// more.
const UNMERGED_SHARE_MAX: f64 = 0.75;
/// A table is taken to be full at this share of its slots, before it is known better.
pub const OCCUPANCY: f64 = 0.93;
/// From fewer records than these nothing is concluded about those to come.
const LOG_RECORDS_TELLING: u32 = 64;
/// What a LogStore reaches over before anything is known of the records, as a binary logarithm of bytes of log.
pub const POSITION_BITS_MAX: u8 = 32;
/// The lower limit of the same.
pub const POSITION_BITS_MIN: u8 = 16;
/// A LogStore can span this many times the bytes of log that it is expected to need.
pub const LOG_REACH: f64 = 2.0;
/// Writers wait if there are more frozen LogStores than one per this many partitions, and more than the minimum.
pub const PARTITIONS_PER_FROZEN: usize = 8;
/// The minimum of the same.
pub const FROZEN_MAX_MIN: usize = 2;
/// Pieces of a merge have a byte for so many keys.
pub const KEYS_PER_PIECE_BYTE: u64 = 1024;
/// The smallest piece of a merge through the page cache, and past it, in bytes.
pub const PIECE_BYTES_MIN: usize = 16 << 10;
const DIRECT_PIECE_BYTES_MIN: usize = 64 << 10;

/// The counts of one partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PartitionCounts {
    pub frozen: usize,
    pub frozen_records: u64,
    pub hash_stores: usize,
    pub hash_records: u64,
    pub sorted_records: u64,
    /// Everything in it is to be merged.
    pub compact: bool,
}

impl PartitionCounts {
    fn mergeable(&self) -> u64 {
        self.hash_records + self.frozen_records
    }

    /// Whether there are many HashStores that hold little. Those of the size that LogStores are to have may be as many
    /// as d takes: with a fixed bound on them, databases beyond some size would merge more often than d says.
    fn is_splintered(&self, settings: &SiltSettings) -> bool {
        let slots = u64::from(log_slots(settings, self.hash_records + self.sorted_records));
        self.hash_stores > HASH_STORES_MAX
            && self.hash_records * SLOTS_PER_RECORD_OF_SMALL < self.hash_stores as u64 * slots
    }
}

/// The counts that decisions are made from.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    pub partitions: Vec<PartitionCounts>,
    /// Of the records that were merged last, the share whose keys were new.
    pub new_key_ratio: f64,
    /// How many records of HashStores the merge under way has gone over. They are there until it ends; but whoever
    /// writes as fast as it gets on is not to be slowed.
    pub merged_records: u64,
}

/// How far background work is behind, each 0 if not at all and 1 if writers have to wait.
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

    /// The keys of HashStores that are taken to be new.
    fn new_keys(&self) -> f64 {
        self.new_key_ratio * self.sum(|partition| partition.hash_records)
    }

    /// About how many keys there are.
    pub fn keys(&self) -> f64 {
        self.sorted_keys() + self.new_keys()
    }

    /// How many records all HashStores together may hold.
    pub fn hash_records_max(&self, settings: &SiltSettings) -> f64 {
        let partitions = self.partitions.len() as f64;
        let floor = f64::from(settings.log_slots_min) * OCCUPANCY * partitions / 2.0;
        let share = settings.merge_ratio * (partitions + 1.0) / (2.0 * partitions);
        (share * self.sorted_keys() + share.min(UNMERGED_SHARE_MAX) * self.new_keys()).max(floor)
    }

    /// The records in HashStores that are still to be merged.
    fn hash_records(&self) -> f64 {
        let records = self.partitions.iter().map(|partition| partition.hash_records).sum::<u64>();
        records.saturating_sub(self.merged_records) as f64
    }

    /// The partition to merge next, if one should be.
    pub fn choose_merge(&self, settings: &SiltSettings) -> Option<usize> {
        let numbered = || self.partitions.iter().enumerate();
        let fullest = |candidates: &mut dyn Iterator<Item = (usize, &PartitionCounts)>| {
            candidates.max_by_key(|(_, counts)| counts.mergeable()).map(|(number, _)| number)
        };
        if let Some(number) = fullest(&mut numbered().filter(|(_, counts)| counts.compact)) {
            return Some(number);
        }
        if let Some(number) = fullest(&mut numbered().filter(|(_, counts)| counts.is_splintered(settings))) {
            return Some(number);
        }
        if self.hash_records() > self.hash_records_max(settings) {
            return fullest(&mut numbered());
        }
        None
    }

    /// How far the merge under way is ahead of the bound that it keeps, in LogStores: 0 if there is other work.
    pub fn slack(&self, settings: &SiltSettings) -> f64 {
        if self.partitions.iter().any(|partition| partition.frozen > 0 || partition.compact) {
            return 0.0;
        }
        let keys = self.keys() as u64 / self.partitions.len().max(1) as u64;
        let log_store = f64::from(log_slots(settings, keys)) * OCCUPANCY;
        ((self.hash_records_max(settings) - self.hash_records()) / log_store).max(0.0)
    }

    /// How far background work is behind.
    pub fn pressure(&self, settings: &SiltSettings) -> Pressure {
        let waiting = |partition: &PartitionCounts| if partition.compact { 0 } else { partition.frozen };
        let frozen = self.partitions.iter().map(waiting).sum::<usize>().saturating_sub(1);
        let frozen_max = (self.partitions.len() / PARTITIONS_PER_FROZEN).max(FROZEN_MAX_MIN);
        let excess = self.hash_records() / self.hash_records_max(settings) - 1.0;
        Pressure { convert: frozen as f64 / frozen_max as f64, merge: (excess / EXCESS_MAX).max(0.0) }
    }
}

/// A table has about so many regions at the most: the more, the sooner one of them is full.
pub const REGIONS: u32 = 4;
/// A LogStore of fewer slots is one table.
pub const TABLES_SLOTS_MIN: u32 = 1024;

/// How many bytes of log a LogStore reaches over at the most, in a database of so many. A bound that does not grow with
/// the data would have LogStores converted before they are full, into ever more HashStores.
pub(super) fn log_reach_bytes(settings: &SiltSettings, data_bytes: u64) -> u64 {
    (settings.log_bytes_max / 2).max(data_bytes / LOG_PART_OF_DATA)
}

/// The files that are open beside stores and the log: manifest and mirror, the directory and its lock, `USAGE`, and a
/// store that each job writes.
const OTHER_FILES: u64 = 9;

/// How many files are open at the most where LogStores are converted when they are full: the stores just before a merge
/// ends, which holds up writers, and the log.
pub(super) fn open_files(settings: &SiltSettings, partitions: u32, keys: u64, record_bytes: u64) -> u64 {
    let partition_keys = keys / u64::from(partitions);
    let partition = PartitionCounts { sorted_records: partition_keys, ..PartitionCounts::default() };
    let counts = Counts { partitions: vec![partition; partitions as usize], ..Counts::default() };
    let hash_records = (1.0 + EXCESS_MAX) * counts.hash_records_max(settings);
    let slots = f64::from(log_slots(settings, partition_keys));
    let hash_stores = (hash_records / (slots * OCCUPANCY)).ceil() as u64;
    // LogStores that wait, and those that take records, reach over twice what one does.
    let log_store_bytes = slots as u64 * record_bytes * u64::from(partitions);
    let log_bytes = 2 * log_store_bytes.min(log_reach_bytes(settings, keys.saturating_mul(record_bytes)));
    let segments = log_bytes / settings.log_segment_bytes + 2;
    u64::from(partitions) + hash_stores + segments + OTHER_FILES
}

/// The slots of the LogStore of a partition with so many keys.
fn log_slots(settings: &SiltSettings, partition_keys: u64) -> u32 {
    let wanted = partition_keys / u64::from(settings.keys_per_log_slot);
    (wanted.min(1 << 24) as u32).max(settings.log_slots_min)
}

/// The LogStore of a partition with so many keys: its slots in one table if it is to become a filter as it is, else in
/// several, each of regions of 2^`buckets_per_region_log2` buckets of four.
pub(super) fn log_store_settings(
    settings: &SiltSettings,
    partition_keys: u64,
    slots_max: u32,
    position_bits: u8,
) -> LogStoreSettings {
    let slots = log_slots(settings, partition_keys).min(slots_max);
    let is_bounded = slots == slots_max;
    let copies_tags = settings.hash_store_format().copies_tags();
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

/// The binary logarithm of the bytes of log that the next LogStore of a partition, of so many slots, is to reach over:
/// twice what it takes if records come as they did during the last one, which ends at `end`.
pub(super) fn position_bits(last: &LogStore, end: u64, slots: u32) -> u8 {
    if last.len() < LOG_RECORDS_TELLING {
        return last.position_bits();
    }
    let bytes_per_record = end.saturating_sub(last.start()) as f64 / f64::from(last.len());
    let bits = (LOG_REACH * bytes_per_record * f64::from(slots)).log2().ceil();
    bits.clamp(f64::from(POSITION_BITS_MIN), f64::from(POSITION_BITS_MAX)) as u8
}

/// What a merge reads and writes in one piece, in bytes: it grows with the data, so that its memory a key does not.
/// Past the page cache pieces are larger, as each waits for the device, but not so large that lookups wait long behind
/// one.
pub(super) fn piece_bytes(settings: &SiltSettings, keys: u64, access: Access) -> usize {
    let wanted = (keys / KEYS_PER_PIECE_BYTE).next_power_of_two() as usize;
    let least = if access.is_direct() { DIRECT_PIECE_BYTES_MIN } else { PIECE_BYTES_MIN };
    wanted.max(least).min(settings.piece_bytes_max.max(PIECE_BYTES_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::FilterKind;

    fn counts(hash_records: &[u64], sorted_records: u64) -> Counts {
        let partition =
            |&hash_records| PartitionCounts { hash_records, sorted_records, ..Default::default() };
        let partitions = hash_records.iter().map(partition).collect();
        Counts { partitions, new_key_ratio: 0.0, merged_records: 0 }
    }

    fn settings() -> SiltSettings {
        SiltSettings::default().log_slots_min(16)
    }

    #[test]
    fn the_fullest_partition_is_merged_once_the_bound_is_reached() {
        // d·P = 0.3 · 4000 = 1200, so the bound is 1200 · 5 / 8 = 750.
        assert_eq!(counts(&[100, 300, 200, 150], 1000).choose_merge(&settings()), None);
        assert_eq!(counts(&[100, 301, 200, 150], 1000).choose_merge(&settings()), Some(1));
    }

    /// Before the first merge all records are taken to be new keys.
    #[test]
    fn a_store_that_was_never_merged_is_merged_under_every_ratio() {
        for partitions in [1, 4, 16] {
            for merge_ratio in [0.3, 1.0, 2.0, 10.0] {
                let settings = settings().merge_ratio(merge_ratio);
                let counts = Counts { new_key_ratio: 1.0, ..counts(&vec![100_000; partitions], 0) };
                assert!(counts.choose_merge(&settings).is_some(), "{partitions} partitions, {merge_ratio}");
            }
        }
    }

    #[test]
    fn steady_overwriting_merges_as_often_as_the_paper_has_it() {
        let (partitions, keys) = (16, 1_000_000u64);
        let mut counts = counts(&vec![0; partitions], keys / partitions as u64);
        let (mut written, mut merged) = (0u64, 0u64);
        for step in 0..40_000usize {
            let partition = (step * 7919) % partitions;
            counts.partitions[partition].hash_records += 500;
            written += 500;
            if let Some(fullest) = counts.choose_merge(&settings()) {
                counts.partitions[fullest].hash_records = 0;
                merged += counts.partitions[fullest].sorted_records;
            }
        }
        let measured = merged as f64 / written as f64;
        assert!((measured - 1.0 / 0.3).abs() < 0.1, "N/(d·P) is {measured}");
    }

    #[test]
    fn as_many_hash_stores_are_kept_as_the_ratio_takes_and_small_ones_are_merged() {
        let settings = SiltSettings::default().merge_ratio(1.0);
        let keys = 6_250_000;
        let chosen = |hash_stores: u64, records_each: u64| {
            let mut counts = counts(&[0, 0], keys);
            counts.partitions[1].hash_stores = hash_stores as usize;
            counts.partitions[1].hash_records = hash_stores * records_each;
            counts.choose_merge(&settings)
        };
        let full = keys / u64::from(settings.keys_per_log_slot);
        assert_eq!(chosen(99, full), None);
        assert_eq!(chosen(49, full / 17), Some(1));
        assert_eq!(chosen(48, full / 17), None);
    }

    #[test]
    fn a_log_store_reaches_over_a_share_of_the_data() {
        let settings = SiltSettings::default();
        assert_eq!(log_reach_bytes(&settings, 1 << 30), 512 << 20);
        assert_eq!(log_reach_bytes(&settings, 100 << 30), 10 << 30);
    }

    #[test]
    fn pressure_rises_with_what_waits() {
        let mut counts = counts(&[300, 300, 100, 50], 1000);
        assert_eq!(counts.pressure(&settings()), Pressure { convert: 0.0, merge: 0.0 });
        counts.partitions[0].frozen = 3;
        counts.partitions[1].hash_records = 600;
        let pressure = counts.pressure(&settings());
        assert!(pressure.convert >= 1.0 && pressure.merge > 1.0);
    }

    #[test]
    fn who_writes_as_fast_as_a_merge_gets_on_is_not_slowed() {
        let mut counts = counts(&[300, 300, 200, 50], 1000);
        assert!(counts.pressure(&settings()).merge >= 1.0);
        counts.merged_records = 100;
        assert_eq!(counts.pressure(&settings()).merge, 0.0);
    }

    #[test]
    fn a_merge_leads_by_what_it_has_made_room_for_unless_something_else_waits() {
        let mut counts = counts(&[300, 300, 100, 100], 1000);
        assert_eq!(counts.slack(&settings()), 0.0);
        counts.merged_records = 200;
        let log_store = 16.0 * OCCUPANCY;
        assert_eq!(counts.slack(&settings()), (750.0 - 600.0) / log_store);
        counts.partitions[2].frozen = 1;
        assert_eq!(counts.slack(&settings()), 0.0);
    }

    #[test]
    fn a_log_store_grows_with_its_partition() {
        let settings = SiltSettings::default().log_slots_min(8192).keys_per_log_slot(40);
        let shape = |settings: &SiltSettings, keys| {
            let LogStoreSettings { table, tables, .. } = log_store_settings(settings, keys, 1 << 24, 32);
            (tables, table.regions, table.buckets_per_region_log2)
        };
        let tags = settings.clone().filter(FilterKind::CuckooTags);
        assert_eq!(shape(&tags, 0), (1, 4, 9));
        assert_eq!(shape(&settings, 0), (4, 4, 7));
        assert_eq!(shape(&tags, 40 * 100_000), (1, 3, 13));
        assert_eq!(shape(&settings, 40 * 100_000), (4, 3, 11));
        let small = settings.clone().log_slots_min(64);
        assert_eq!(shape(&small, 0), (1, 1, 4), "few slots are one table");
        let bounded = |slots_max| {
            let settings = log_store_settings(&settings, 40 * 100_000, slots_max, 32);
            (settings.tables, settings.slots())
        };
        assert_eq!((bounded(20_000), bounded(100)), ((4, 16_384), (1, 64)));
    }
}
