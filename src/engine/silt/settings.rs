//! What can be chosen of a SILT engine, with the limits.

use super::merge;
use super::policy::open_files;
use super::residency::check_budget;
use crate::coding::checksum::Secret;
use crate::key::KeyHasher;
use crate::store::FilterKind;
use crate::store::cuckoo::CuckooTable;
use crate::store::manifest::Shape;
use crate::store::ordered::IndexKind;
use crate::store::record::RecordLayout;
use crate::{Error, Result};

/// The partitions of a database that is created without the setting.
pub const PARTITIONS_DEFAULT: u32 = 16;
/// The bytes of a block of a database that is created without the setting.
pub const BLOCK_BYTES_DEFAULT: u32 = 4096;
const FILTER_BITS_DEFAULT: u8 = 11;

/// What shapes the records and the files; kept in the database when it is created. `None` means: as it is, or the
/// default when it is created.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShapeSettings {
    /// The lengths of keys and values, in bytes, if all are the same.
    pub fixed: Option<(usize, usize)>,
    /// Keys are hashes already.
    pub hashed_keys: Option<bool>,
    /// Fixed-size records have room for an expiry time.
    pub expiring: Option<bool>,
    /// The number of partitions (P).
    pub partitions: Option<u32>,
    /// The size of a block on flash, in bytes.
    pub block_bytes: Option<u32>,
}

/// How HashStores stand on flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HashStoreKind {
    /// The paper's (3.2): the cuckoo table of the LogStore, in the order of its filter. Records of a fixed size only.
    CuckooTable,
    /// In the order of the SortedStore, found by fences, behind a filter.
    HashOrdered,
}

/// All settings of the engine.
#[derive(Debug, Clone, PartialEq)]
pub struct SiltSettings {
    /// What is kept in the database.
    pub shape: ShapeSettings,
    /// d·P/N: the share of all keys that the HashStores hold when each partition is about to be merged.
    pub merge_ratio: f64,
    /// Bits of a tag (k).
    pub tag_bits: u8,
    /// Slots of a partition's LogStore, at the least.
    pub log_slots_min: u32,
    /// All keys for each slot of all LogStores: LogStores grow with the data.
    pub keys_per_log_slot: u32,
    /// How HashStores stand on flash, or in hash order. A kind that does not suit the records is an error.
    pub hash_store: Option<HashStoreKind>,
    /// The filter of HashStores in hash order, or the smallest. Cuckoo tables have their tags: another one is an error.
    pub filter: Option<FilterKind>,
    /// The base-2 logarithm of the inverse false-positive rate of ribbon filters, or 11. An error where HashStores have
    /// the tags as their filter.
    pub filter_bits: Option<u8>,
    /// How SortedStores are indexed, or the best for the records. A kind that does not suit them is an error.
    pub index: Option<IndexKind>,
    /// The size of a segment of the log, in bytes.
    pub log_segment_bytes: u64,
    /// The bytes of log that may wait to be converted; a LogStore is converted when it reaches over half of them, or
    /// over a tenth of the data where that is more.
    pub log_bytes_max: u64,
    /// What background work reads or writes in one piece, in bytes, at the most.
    pub piece_bytes_max: usize,
    /// How many records a step of background work moves, about.
    pub step_records: usize,
    /// The base-2 logarithm of the inverse false-positive rate of a filter on each SortedStore, if they have one.
    pub last_filter_bits: Option<u8>,
    /// What the engine's memory is kept within, in bytes.
    pub memory_budget: Option<u64>,
    /// The slots of a region of a LogStore's index, a power of two: what is sorted in memory at a time. More where
    /// there would be more than about four regions.
    pub region_slots_max: u32,
    /// A manifest longer than this is written anew, in bytes.
    pub manifest_bytes_max: u64,
    /// The most memory for indexes and filters under a memory budget, in bytes: for tests, whose databases are smaller
    /// than any budget.
    #[doc(hidden)]
    pub resident_bytes_max: u64,
    /// A mistake that the engine makes; simulations must find it.
    #[cfg(feature = "mistakes")]
    pub mistake: Option<Mistake>,
}

/// Mistakes that the engine can be set to make, to show that tests find them.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// A conversion becomes durable before the rest of the batches of which it has a part.
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
}

impl Default for SiltSettings {
    fn default() -> Self {
        SiltSettings {
            shape: ShapeSettings::default(),
            merge_ratio: 0.3,
            tag_bits: 15,
            log_slots_min: 4_096,
            keys_per_log_slot: 100,
            hash_store: None,
            filter: None,
            filter_bits: None,
            index: None,
            log_segment_bytes: 64 << 20,
            log_bytes_max: 1 << 30,
            piece_bytes_max: 1 << 20,
            step_records: 4096,
            last_filter_bits: None,
            memory_budget: None,
            region_slots_max: 2048,
            manifest_bytes_max: 256 << 10,
            resident_bytes_max: u64::MAX,
            #[cfg(feature = "mistakes")]
            mistake: None,
        }
    }
}

impl SiltSettings {
    /// Whether the engine makes this mistake: never without the feature `mistakes`.
    #[cfg(feature = "mistakes")]
    pub(super) fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    #[cfg(not(feature = "mistakes"))]
    pub(super) fn makes(&self, _: Mistake) -> bool {
        false
    }

    /// The bits of ribbon filters: as they were set, or 11.
    pub fn ribbon_bits(&self) -> u8 {
        self.filter_bits.unwrap_or(FILTER_BITS_DEFAULT)
    }

    /// Checks every setting against its limits.
    pub fn check(&self) -> Result<()> {
        let limits = [
            ("merge_ratio", self.merge_ratio, 0.01, 10.0),
            ("tag_bits", f64::from(self.tag_bits), 8.0, 15.0),
            ("filter_bits", f64::from(self.ribbon_bits()), 1.0, 32.0),
            ("filter_last_store", f64::from(self.last_filter_bits.unwrap_or(1)), 1.0, 32.0),
            ("log_slots_min", f64::from(self.log_slots_min), 16.0, 16_777_216.0),
            ("keys_per_log_slot", f64::from(self.keys_per_log_slot), 1.0, 1e6),
            ("log_segment_bytes", self.log_segment_bytes as f64, 512.0, (1u64 << 30) as f64),
            ("log_bytes_max", self.log_bytes_max as f64, 4096.0, (3u64 << 30) as f64),
            ("piece_bytes_max", self.piece_bytes_max as f64, 4096.0, (16 << 20) as f64),
            ("step_records", self.step_records as f64, 1.0, 1e6),
            ("region_slots_max", f64::from(self.region_slots_max), 16.0, 65_536.0),
            ("manifest_bytes_max", self.manifest_bytes_max as f64, 0.0, (2u64 << 20) as f64),
        ];
        for (name, value, low, high) in limits {
            if !(low..=high).contains(&value) {
                return Err(Error::Setting {
                    name,
                    problem: format!("{value} is not within {low} to {high}"),
                });
            }
        }
        self.shape.check()
    }

    /// How many files a database has open at the most that holds so many records.
    pub fn open_files(&self, keys: u64, record_bytes: u64) -> u64 {
        let partitions = self.shape.partitions.unwrap_or(PARTITIONS_DEFAULT);
        open_files(self, partitions, keys, record_bytes)
    }

    /// Checks what matters beyond that where a database is created with them.
    pub fn check_creation(&self) -> Result<()> {
        self.check_structures(&self.shape.layout(), self.shape.block_bytes.unwrap_or(BLOCK_BYTES_DEFAULT))?;
        let partitions = self.shape.partitions.unwrap_or(PARTITIONS_DEFAULT);
        self.memory_budget.map_or(Ok(()), |budget| check_budget(budget, partitions as usize))
    }
}

impl SiltSettings {
    /// Checks that the structures that were chosen suit the records of a database, and one another.
    pub(super) fn check_structures(&self, layout: &RecordLayout, block_bytes: u32) -> Result<()> {
        if let Some(index) = self.index
            && !merge::suits(index, layout, block_bytes)
        {
            let needed = match index {
                IndexKind::BlockPerfect => "of which 2 to 256 fit in a block",
                _ => "smaller than a block",
            };
            return Err(unsuited("index", &format!("{index:?}"), needed, layout, block_bytes));
        }
        if self.hash_store != Some(HashStoreKind::CuckooTable) {
            let ignored = self.filter == Some(FilterKind::CuckooTags) && self.filter_bits.is_some();
            let problem =
                "the filter consists of the LogStore's tags, of `tag_bits` each; leave `filter_bits` out";
            return if ignored { Err(setting("filter_bits", problem.into())) } else { Ok(()) };
        }
        if !CuckooTable::suits(layout, block_bytes) {
            return Err(unsuited("hash_store", "CuckooTable", "smaller than a block", layout, block_bytes));
        }
        for (name, is_ignored) in
            [("filter", self.filter == Some(FilterKind::Ribbon)), ("filter_bits", self.filter_bits.is_some())]
        {
            if is_ignored {
                let problem =
                    "the filter of cuckoo tables consists of their tags, of `tag_bits` each; leave this out";
                return Err(setting(name, problem.into()));
            }
        }
        Ok(())
    }

    /// The same without the structures that do not suit: for tests that choose them by chance.
    #[doc(hidden)]
    pub fn suited(mut self) -> SiltSettings {
        while let Err(Error::Setting { name, .. }) = self.check_creation() {
            match name {
                "index" => self.index = None,
                "hash_store" => self.hash_store = None,
                "filter" => self.filter = None,
                "filter_bits" => self.filter_bits = None,
                _ => break,
            }
        }
        self
    }
}

fn setting(name: &'static str, problem: String) -> Error {
    Error::Setting { name, problem }
}

/// The error for a structure that records of a layout cannot have.
fn unsuited(name: &'static str, kind: &str, needed: &str, layout: &RecordLayout, block_bytes: u32) -> Error {
    let records = match layout.fixed {
        Some((key_length, value_length)) => format!("of {key_length} + {value_length} bytes"),
        None => "of any size".to_owned(),
    };
    let problem = format!(
        "{kind} requires records of a fixed size, {needed}, but these are {records} in blocks of {block_bytes} bytes; \
         create the database with `fixed` or with other `block_bytes`, or leave `{name}` out"
    );
    setting(name, problem)
}

impl ShapeSettings {
    fn layout(&self) -> RecordLayout {
        RecordLayout { fixed: self.fixed, expiring: self.expiring.unwrap_or(self.fixed.is_none()) }
    }

    /// The shape of a database that is created with these settings. `seed` is the secret of its hash.
    pub(super) fn shape(&self, seed: [u64; 2], database_id: u64, secret: Secret) -> Shape {
        let hashed_keys = self.hashed_keys.unwrap_or(false);
        Shape {
            layout: self.layout(),
            hasher: if hashed_keys { KeyHasher::Identity } else { KeyHasher::Keyed(seed) },
            partitions_log2: self.partitions.unwrap_or(PARTITIONS_DEFAULT).ilog2(),
            block_bytes: self.block_bytes.unwrap_or(BLOCK_BYTES_DEFAULT),
            database_id,
            secret,
        }
    }

    fn check(&self) -> Result<()> {
        if let Some(partitions) = self.partitions
            && !(partitions.is_power_of_two() && partitions <= 1024)
        {
            let problem = format!("{partitions} is not a power of two from 1 to 1,024");
            return Err(Error::Setting { name: "partitions", problem });
        }
        if let Some(block_bytes) = self.block_bytes
            && !(block_bytes.is_power_of_two() && (512..=65_536).contains(&block_bytes))
        {
            let problem = format!("{block_bytes} is not a power of two from 512 to 65,536 bytes");
            return Err(Error::Setting { name: "block_bytes", problem });
        }
        if let Some((key_length, value_length)) = self.fixed {
            let refused = |error: Error| Error::Setting { name: "fixed", problem: error.to_string() };
            crate::key::check_key_length(key_length).map_err(refused)?;
            crate::key::check_value_length(value_length).map_err(refused)?;
            if self.hashed_keys == Some(true) && key_length < 8 {
                let problem = format!("keys of {key_length} bytes are too short for hashes; use 8 or more");
                return Err(Error::Setting { name: "hashed_keys", problem });
            }
        }
        Ok(())
    }
}
