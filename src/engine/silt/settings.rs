//! The settings of a SILT engine.

use crate::engine::setting_value::named_values;
use crate::engine::settings::settings;
#[cfg(feature = "mistakes")]
use crate::engine::silt::Mistake;
use crate::engine::silt::{HashStoreKind, PartitionSettings, SiltFamilySettings};
use crate::engine::{CommonSettings, EngineInfo, info};
use crate::error::{Error, Result};
use crate::key::RecordLayout;
use crate::store::FilterKind;
use crate::store::hash_store::HashStoreFormat;
use crate::store::table::{IndexKind, TableForm};
use std::iter::once;

named_values!(HashStoreKind {
    "cuckoo_table" => HashStoreKind::CuckooTable,
    "hash_ordered" => HashStoreKind::HashOrdered,
});

named_values!(
    Option<IndexKind>,
    once(("auto", None)).chain(IndexKind::ALL.map(|kind| (kind.name(), Some(kind))))
);

named_values!(FilterKind, FilterKind::ALL.map(|kind| (kind.name(), kind)));

settings! {
    /// The settings of the engine `silt`.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("db");
    /// use siltstone::{Database, SiltSettings};
    ///
    /// let settings = SiltSettings::default().merge_ratio(1.0).filter_last_store(Some(8));
    /// let database = Database::builder(&path).engine(settings).open()?;
    /// # Ok(())
    /// # }
    /// ```
    pub struct SiltSettings {
        /// How many keys all HashStores together contain before a partition is merged, as a share of all keys (the
        /// paper's d·P/N). A higher ratio means less write amplification (2.1 + 1/ratio) and more memory.
        merge_ratio: f64 = 0.3, 0.01..=10.0, kept;
        /// The bits of a tag in the LogStore (k), and in the filters of HashStores that are copies of these tags.
        tag_bits: u8 = 15, 8..=15, kept hidden;
        /// The minimum number of slots of the LogStore of a partition, for records of up to 512 bytes; up to twice as
        /// many for larger records. It grows with the data.
        // At a million keys, 2,048 write 5 % more while overwriting and save 3 % of the peak; 1,024 write 14 % more.
        log_slots_min: u32 = 3_072, 16..=1 << 24, kept hidden;
        /// The number of keys per slot of all LogStores: LogStores grow with the data.
        keys_per_log_slot: u32 = 100, 1..=1_000_000, kept hidden;
        /// The form of HashStores on flash. Cuckoo tables require fixed-size records.
        hash_store: HashStoreKind = HashStoreKind::HashOrdered, (), kept hidden;
        /// The filter of HashStores in hash order. Cuckoo tables have their tags.
        filter: FilterKind = FilterKind::Ribbon, (), kept hidden;
        /// The bits of ribbon filters if a partition has 16 HashStores or more: the false-positive rate of a HashStore
        /// is then 2^-bits. With half as many HashStores a filter has one bit less, so a lookup has as many false
        /// positives.
        filter_bits: u8 = 11, 1..=32, kept hidden;
        /// The index of SortedStores. All except fences require fixed-size records. `auto`, or `None`: `block_perfect`
        /// where it suits the records, else fences. With `slot_perfect`, gets read fewer bytes, and the index takes 0.1
        /// to 0.2 bytes more per key.
        index: Option<IndexKind> = None, (), kept;
        /// The bits of a filter per SortedStore, for lookups of missing keys: its false-positive rate is 2^-bits. 0
        /// for none. With 8 bits, a lookup of a missing key costs about 0.012 reads, including the false positives
        /// of HashStores, and the filter takes 8.4 bits of memory per key. Merges build it: an existing store gets
        /// one in its next merge or compaction. Under a memory budget it is the first structure that stays on flash.
        /// `auto`, or `None`: 8 bits while a tenth of the lookups or more are of missing keys, where a memory budget
        /// has space for them besides all other indexes and filters; else none.
        filter_last_store: Option<u8> = None, 0..=32, kept;
        /// The size of a segment of the log, in bytes.
        log_segment_bytes: u64 = 64 << 20, 512..=1 << 30, kept hidden;
        /// The bytes of log that may be unconverted. A LogStore is converted when it extends over half of them, or
        /// over a tenth of the data if that is more.
        log_bytes_max: u64 = 1 << 30, 4_096..=3 << 30, kept hidden;
        /// Whether the end of the log is mapped into memory, where the system supports it: on Linux from 5.14 with
        /// ext4, XFS or tmpfs. A put of up to some 200 bytes is then a copy into the page cache instead of a system
        /// call. On processors other than x86-64, a file system that fails as a whole while the database is written to
        /// may then end the process (`SIGBUS`); else every failure is an error. What a write survives is the same.
        log_mapped: bool = true, (), opening;
        /// The maximum size of a read or write of background work, in bytes.
        piece_bytes_max: usize = 1 << 20, 4_096..=16 << 20, opening hidden;
        /// The approximate number of records that a step of background work moves.
        step_records: usize = 4_096, 1..=1_000_000, opening hidden;
        /// The most bytes that conversions read and write per second, averaged over steps; 0 for no limit. A limit
        /// applies besides the automatic pace. If writes need more, background work falls behind, and writers are
        /// delayed until they are as slow as the limited work. Calls that wait for background work take longer too.
        convert_bytes_per_s: u64 = 0, 0..=1 << 40, opening;
        /// The most bytes that merges read and write per second; see `convert_bytes_per_s`.
        merge_bytes_per_s: u64 = 0, 0..=1 << 40, opening;
        /// The number of slots of a region of the index of a LogStore, a power of two: a region is sorted in memory
        /// as a whole. Larger if there were more than about four regions.
        region_slots_max: u32 = 1_024, 16..=65_536, opening hidden;
        /// A longer manifest is rewritten, in bytes.
        manifest_bytes_max: u64 = 256 << 10, 0..=2 << 20, opening hidden;
    }
    paper {
        "hash_store" => "cuckoo_table",
        "index" => "paper_trie",
    }
    hidden {
        /// The most memory for indexes and filters under a memory budget, in bytes: for tests, whose databases are
        /// smaller than any budget.
        resident_bytes_max: u64 = u64::MAX;
        /// A mistake that the engine makes; simulations must find it.
        #[cfg(feature = "mistakes")]
        mistake: Option<Mistake> = None;
    }
}

impl SiltFamilySettings for SiltSettings {
    const INFO: &'static EngineInfo = &info::SILT;

    fn of_partitions(&self) -> PartitionSettings {
        PartitionSettings {
            merge_ratio: self.merge_ratio,
            tag_bits: self.tag_bits,
            log_slots_min: self.log_slots_min,
            keys_per_log_slot: self.keys_per_log_slot,
            hash_store: self.hash_store,
            filter: self.filter,
            filter_bits: self.filter_bits,
            index: self.index.unwrap_or(IndexKind::BlockPerfect),
            filter_last_store: self.filter_last_store,
            log_segment_bytes: self.log_segment_bytes,
            log_bytes_max: self.log_bytes_max,
            log_mapped: self.log_mapped,
            piece_bytes_max: self.piece_bytes_max,
            step_records: self.step_records,
            convert_bytes_per_s: self.convert_bytes_per_s,
            merge_bytes_per_s: self.merge_bytes_per_s,
            region_slots_max: self.region_slots_max,
            manifest_bytes_max: self.manifest_bytes_max,
            chain: None,
            resident_bytes_max: self.resident_bytes_max,
            #[cfg(feature = "mistakes")]
            mistake: self.mistake,
        }
    }

    /// Checks that the structures suit the records of a database, and each other.
    fn check_structures(&self, layout: &RecordLayout, block_bytes: u32) -> Result<()> {
        if let Some(index) = self.index
            && !TableForm::suits(index, layout, block_bytes)
        {
            let needed = match index {
                IndexKind::BlockPerfect => "of which 2 to 256 fit in a block",
                _ => "smaller than a block",
            };
            return Err(unsuited("index", index.name(), needed, layout, block_bytes));
        }
        let is_given = |name| self.given.contains(&name);
        if self.hash_store == HashStoreKind::HashOrdered {
            if self.filter == FilterKind::CuckooTags && is_given("filter_bits") {
                return Err(without_effect("filter_bits", "the filter consists of the LogStore's tags"));
            }
            return Ok(());
        }
        if !HashStoreFormat::CuckooTable.suits(layout, block_bytes) {
            return Err(unsuited("hash_store", "cuckoo_table", "smaller than a block", layout, block_bytes));
        }
        let ignored = [("filter", self.filter == FilterKind::Ribbon), ("filter_bits", true)];
        match ignored.into_iter().find(|(name, is_ignored)| *is_ignored && is_given(name)) {
            Some((name, _)) => {
                Err(without_effect(name, "the filter of cuckoo tables consists of their tags"))
            }
            None => Ok(()),
        }
    }
}

impl SiltSettings {
    /// Replaces structures that do not suit the records by the defaults: for tests with random settings.
    #[doc(hidden)]
    pub fn suited(mut self, common: &CommonSettings) -> SiltSettings {
        while let Err(Error::Setting { name, .. }) = self.check_creation(common) {
            match name {
                "index" => self.index = None,
                "hash_store" => self.hash_store = HashStoreKind::default(),
                "filter" | "filter_bits" => self.given.retain(|given| *given != name),
                _ => break,
            }
        }
        self
    }
}

/// Returns the error for a setting that another one overrides.
fn without_effect(name: &'static str, reason: &str) -> Error {
    Error::Setting { name, problem: format!("{reason}, of `tag_bits` each; leave `{name}` out") }
}

/// Returns the error for a structure that records of a layout cannot have.
fn unsuited(name: &'static str, kind: &str, needed: &str, layout: &RecordLayout, block_bytes: u32) -> Error {
    let records = match layout.fixed {
        Some((key_length, value_length)) => format!("of {key_length} + {value_length} bytes"),
        None => "of any size".to_owned(),
    };
    let problem = format!(
        "{kind} requires records of a fixed size, {needed}, but these are {records} in blocks of {block_bytes} bytes; \
         create the database with `fixed` or with other `block_bytes`, or leave out `{name}` or the preset that sets it"
    );
    Error::Setting { name, problem }
}
