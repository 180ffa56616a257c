//! The schedule: which partitions jobs work on, and those whose compaction was requested.

use super::parts::Parts;
use super::policy::{Counts, Merging, Work};

/// The weight of a new measurement in the smoothed share of new keys.
const NEW_KEYS_WEIGHT: f64 = 0.5;

/// What jobs work on. By partition and not by slot: a partition has at most one job of a kind, and what may begin
/// depends on the partition.
pub(super) struct Schedule {
    /// The jobs of each partition.
    pub works: Vec<Work>,
    /// The partitions whose compaction was requested.
    pub compact: Vec<bool>,
    new_key_ratio: f64,
}

impl Schedule {
    pub fn new(partitions: usize) -> Schedule {
        let works = vec![Work::default(); partitions];
        Schedule { works, compact: vec![false; partitions], new_key_ratio: 1.0 }
    }

    /// Returns the counts that the policy decides by.
    pub fn counts(&self, parts: &Parts) -> Counts {
        let partitions = parts.partitions.iter().zip(&self.compact).zip(&self.works);
        Counts {
            partitions: partitions
                .map(|((partition, compact), work)| partition.counts(*compact, *work))
                .collect(),
            new_key_ratio: self.new_key_ratio,
            record_bytes: parts.partitions.record_bytes(),
            is_short: parts.partitions.is_short(),
            hash_stores_max: parts.memory.hash_stores_max(),
        }
    }

    /// Returns the share of recently merged records whose keys were new.
    pub fn new_key_ratio(&self) -> f64 {
        self.new_key_ratio
    }

    /// Returns whether any job is in progress.
    pub fn is_active(&self) -> bool {
        self.works.iter().any(Work::is_any)
    }

    /// Returns whether a chain is being written.
    pub fn is_chaining(&self) -> bool {
        self.works.iter().any(|work| work.chains)
    }

    /// Notes a merge of a partition that begins. Returns whether it includes the frozen LogStores: not if one of them
    /// is being converted.
    pub fn begin_merge(&mut self, number: usize) -> bool {
        let with_frozen = !self.works[number].converts;
        self.works[number].merge = Some(Merging { with_frozen, passed_records: 0 });
        with_frozen
    }

    /// Notes how many HashStore records a merge has passed.
    pub fn pass(&mut self, number: usize, passed_records: u64) {
        if let Some(merging) = &mut self.works[number].merge {
            merging.passed_records = passed_records;
        }
    }

    /// Notes that a merge has ended, and the share of new keys among its young records, if it had any.
    pub fn end_merge(&mut self, number: usize, new_keys: Option<f64>) {
        self.works[number].merge = None;
        if let Some(measured) = new_keys {
            self.new_key_ratio += NEW_KEYS_WEIGHT * (measured - self.new_key_ratio);
        }
    }
}
