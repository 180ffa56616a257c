//! The settings of a BloomStore engine.

use crate::engine::settings::settings;
#[cfg(feature = "mistakes")]
use crate::engine::silt::Mistake;
use crate::engine::silt::{ChainSettings, HashStoreKind, PartitionSettings, SiltFamilySettings};
use crate::engine::{EngineInfo, info};
use crate::error::{Error, Result};
use crate::key::RecordLayout;
use crate::store::FilterKind;
use crate::store::table::IndexKind;

settings! {
    /// The settings of the engine `bloomstore`.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("db");
    /// use siltstone::{BloomStoreSettings, Database};
    ///
    /// let settings = BloomStoreSettings::default().expected_keys(100_000_000);
    /// let database = Database::builder(&path).engine(settings).open()?;
    /// # Ok(())
    /// # }
    /// ```
    pub struct BloomStoreSettings {
        /// The most runs of a partition (the paper's H): a get reads one page of the chain, whatever its length.
        /// Without `expected_keys`, merges begin earlier, with the partition that has most runs, once all partitions
        /// together have half of the runs that they may have, so that not all are merged at once. A longer chain means
        /// fewer merges and more false reads.
        chain_length: u32 = 112, 2..=192, kept;
        /// The runs that have as many records as there are keys. More runs are smaller, so LogStores take less memory,
        /// and a chain is full sooner.
        runs: u32 = 64, 2..=1_000, kept;
        /// The bits of the filter of a run per record, in the chain on flash. With 22 bits, the runs of a chain cost
        /// about 0.02 false reads per missing key, with the paper's 8 bits about 1.
        filter_bits: u8 = 22, 4..=32, kept;
        /// The most runs of a partition that are in no chain yet: each has a filter of at most 10 bits per record in
        /// memory. With half as many, chains are written twice as often.
        buffered_filters: u32 = 12, 1..=64, kept hidden;
        /// The bits per key of a filter of all keys in memory, 0 for none: with 4 bits, as in the paper, at most a
        /// fifth of the gets of missing keys read anything. They are the bits per key of a partition whose chain is
        /// full; with a quarter of these keys, each has two bits more. The paper advises against it where most gets
        /// find their key.
        prefilter_bits: u8 = 0, 0..=16, kept;
        /// The bits of the filter of the oldest run, with most of the records, per record.
        old_filter_bits: u8 = 10, 4..=32, kept hidden;
        /// The records in stores per key that they have, about. A partition with more is merged before its chain is
        /// full.
        space: f64 = 1.25, 1.05..=10.0, kept;
        /// The number of keys that the database will have, 0 if that is not known. Up to this number, new keys are
        /// never merged, unless LogStores are converted before they are full: under a small memory budget, or if
        /// together they span more than half a GiB of the log.
        expected_keys: u64 = 0, 0..=1 << 40, kept;
    }
    paper {
        "chain_length" => "96",
        "filter_bits" => "8",
        "old_filter_bits" => "8",
        "buffered_filters" => "1",
    }
    hidden {
        /// The minimum number of slots of the LogStore of a partition.
        log_slots_min: u32 = 3_072;
        /// The size of a segment of the log, in bytes.
        log_segment_bytes: u64 = 64 << 20;
        /// The bytes of log that may be unconverted.
        log_bytes_max: u64 = 1 << 30;
        /// Whether the end of the log is mapped into memory.
        log_mapped: bool = true;
        /// The maximum size of a read or write of background work, in bytes.
        piece_bytes_max: usize = 1 << 20;
        /// The approximate number of records that a step of background work moves.
        step_records: usize = 4_096;
        /// The number of slots of a region of the index of a LogStore.
        region_slots_max: u32 = 1_024;
        /// A longer manifest is rewritten, in bytes.
        manifest_bytes_max: u64 = 256 << 10;
        /// The most memory for filters and fences under a memory budget, in bytes.
        resident_bytes_max: u64 = u64::MAX;
        /// A mistake that the engine makes; simulations must find it.
        #[cfg(feature = "mistakes")]
        mistake: Option<Mistake> = None;
    }
}

impl SiltFamilySettings for BloomStoreSettings {
    const INFO: &'static EngineInfo = &info::BLOOMSTORE;

    fn of_partitions(&self) -> PartitionSettings {
        let chain = ChainSettings {
            chain_length: self.chain_length,
            buffered_filters: self.buffered_filters,
            filter_bits: self.filter_bits,
            old_filter_bits: self.old_filter_bits,
            prefilter_bits: self.prefilter_bits,
            space: self.space,
            expected_keys: self.expected_keys,
        };
        PartitionSettings {
            // Merges follow from the length of chains.
            merge_ratio: 1.0,
            tag_bits: 15,
            log_slots_min: self.log_slots_min,
            // With a known number of keys, LogStores are as small as the chain is long.
            keys_per_log_slot: if self.expected_keys > 0 {
                self.runs.max(self.chain_length)
            } else {
                self.runs
            },
            hash_store: HashStoreKind::HashOrdered,
            filter: FilterKind::Ribbon,
            filter_bits: self.filter_bits,
            index: IndexKind::Fences,
            filter_last_store: Some(0),
            log_segment_bytes: self.log_segment_bytes,
            log_bytes_max: self.log_bytes_max,
            log_mapped: self.log_mapped,
            piece_bytes_max: self.piece_bytes_max,
            step_records: self.step_records,
            convert_bytes_per_s: 0,
            merge_bytes_per_s: 0,
            region_slots_max: self.region_slots_max,
            manifest_bytes_max: self.manifest_bytes_max,
            chain: Some(chain),
            resident_bytes_max: self.resident_bytes_max,
            #[cfg(feature = "mistakes")]
            mistake: self.mistake,
        }
    }

    fn check_structures(&self, _layout: &RecordLayout, _block_bytes: u32) -> Result<()> {
        if self.buffered_filters <= self.chain_length {
            return Ok(());
        }
        let (runs, length) = (self.buffered_filters, self.chain_length);
        let problem = format!("{runs} runs cannot wait for a chain of {length}; use at most {length}");
        Err(Error::Setting { name: "buffered_filters", problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;
    use crate::engine::CommonSettings;
    use siltstone_device::memory::MemoryDirectory;
    use siltstone_device::{Access, Directory};

    #[test]
    fn expected_keys_are_never_merged_also_if_the_database_is_opened_often() {
        const KEYS: u64 = 9_500;
        // LogStores that are rounded to whole regions would have 512 slots of the 639 that they need.
        let settings = BloomStoreSettings::default().chain_length(8).buffered_filters(4).expected_keys(KEYS);
        let settings = settings.log_slots_min(64).region_slots_max(256);
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        for opening in 0..10 {
            let builder = Database::builder("memory").background_threads(0).partitions(2).seed([3, 4]);
            let database = builder.engine(settings.clone()).open_in(directory.clone()).unwrap();
            for key in opening * KEYS / 10..(opening + 1) * KEYS / 10 {
                database.put(key.to_le_bytes(), [7; 20]).unwrap();
                if key % 8 == 0 {
                    database.settle().unwrap();
                }
            }
            database.settle().unwrap();
            assert_eq!(database.stats().merged_records, 0, "at the open {opening}");
            database.close().unwrap();
        }
    }

    #[test]
    fn more_buffered_filters_than_runs_of_a_chain_are_refused() {
        let settings = BloomStoreSettings::default().chain_length(8);
        let common = CommonSettings::default();
        assert!(settings.clone().buffered_filters(8).check_creation(&common).is_ok());
        let refused = settings.buffered_filters(9).check_creation(&common);
        assert!(matches!(refused, Err(Error::Setting { name: "buffered_filters", .. })));
    }
}
