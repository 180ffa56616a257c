//! The settings of a MICA engine.

use super::Mica;
use crate::engine::setting_value::named_values;
use crate::engine::settings::{EngineSettings, Opening, SettingsTable, by_table, settings};
use crate::engine::{CommonSettings, Engine, info};
use crate::error::{Error, Result};
use crate::key::{KeyHasher, VALUE_LENGTH_MAX};
use siltstone_mica::{CacheSettings, CircularLog, Eviction, ItemLayout, SegregatedFits, StoreSettings};
use std::sync::Arc;

/// The memory without a memory budget, in bytes.
const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;

named_values!(Option<Eviction> {
    "none" => None,
    "fifo" => Some(Eviction::Fifo),
    "lru" => Some(Eviction::Lru),
    "approximate_lru" => Some(Eviction::ApproximateLru),
    "second_chance" => Some(Eviction::SecondChance),
});

settings! {
    /// The settings of the engine `mica`. All its memory, including the index, is the
    /// [memory budget](crate::Builder::memory_budget), or 256 MiB: 64 KiB to 16 GiB per partition. It is taken from the
    /// system when it is first touched.
    pub struct MicaSettings {
        /// The average bytes of key and value per record, for records of any size. A wrong value costs memory: with
        /// smaller records the index is full before the memory, with larger ones the index is too large.
        record_bytes: usize = 64, 1..=VALUE_LENGTH_MAX, opening;
        /// Which records are removed when the memory is full. With `none`, writes fail then.
        eviction: Option<Eviction> = None, (), opening;
    }
    paper {}
    hidden {}
}

/// The sizes of an engine that is opened.
pub(super) struct Sizes {
    pub partition_bits: u32,
    /// The memory of a partition, in bytes.
    pub memory_bytes: u64,
    pub record_bytes: usize,
    pub layout: ItemLayout,
}

impl Sizes {
    pub fn store(&self) -> StoreSettings {
        let store = StoreSettings::for_memory(self.layout, self.memory_bytes, self.record_bytes);
        StoreSettings { partition_bits: self.partition_bits, ..store }
    }

    pub fn cache(&self, eviction: Eviction) -> CacheSettings {
        let cache = CacheSettings::for_memory(self.layout, self.memory_bytes, self.record_bytes);
        CacheSettings { partition_bits: self.partition_bits, eviction, ..cache }
    }
}

impl MicaSettings {
    /// Returns the sizes of an engine with these settings.
    ///
    /// # Errors
    /// [`Error::Setting`] for settings that are out of range or contradict each other.
    fn sizes(&self, common: &CommonSettings) -> Result<Sizes> {
        self.check_limits()?;
        common.check()?;
        let partitions = common.partitions();
        let bytes = common.memory_budget.unwrap_or(MEMORY_BYTES_DEFAULT);
        // Keys are hashed, so equal parts fill up at about the same time.
        let memory_bytes = bytes / u64::from(partitions);
        if !(64 << 10..=16 << 30).contains(&memory_bytes) {
            let problem = format!(
                "{bytes} bytes for {partitions} partitions are out of range; use 64 KiB to 16 GiB per partition"
            );
            return Err(Error::Setting { name: "memory_budget", problem });
        }
        let fixed_bytes = common.fixed.map(|(key_length, value_length)| key_length + value_length);
        if let Some(bytes) = fixed_bytes.filter(|bytes| *bytes != self.record_bytes)
            && self.given.contains(&"record_bytes")
        {
            let problem = format!("{}, but `fixed` is {bytes}; leave one of them out", self.record_bytes);
            return Err(Error::Setting { name: "record_bytes", problem });
        }
        let fixed = common.fixed;
        let layout = ItemLayout { fixed, expiring: common.expiring.unwrap_or(false) && fixed.is_some() };
        let record_bytes = fixed_bytes.unwrap_or(self.record_bytes);
        Ok(Sizes { partition_bits: partitions.ilog2(), memory_bytes, record_bytes, layout })
    }
}

impl EngineSettings for MicaSettings {
    by_table!(info::MICA);

    fn check(&self, common: &CommonSettings, _created: bool) -> Result<()> {
        self.sizes(common).map(drop)
    }

    fn open(&self, opening: Opening<'_, '_>) -> Result<Arc<dyn Engine>> {
        let sizes = self.sizes(opening.common)?;
        let hasher = match opening.common.hasher(opening.seed)? {
            // Nothing is kept, so the hash need not be that of a file, and tables take 64 bits.
            KeyHasher::Keyed(seed) => KeyHasher::Keyed64(seed),
            hasher => hasher,
        };
        let partitions = 0..1u32 << sizes.partition_bits;
        Ok(match self.eviction {
            None => {
                let partitions = partitions.map(|_| Ok(sizes.store().open()?));
                Arc::new(Mica::<SegregatedFits>::new(partitions, &sizes, self, hasher)?)
            }
            Some(eviction) => {
                let partitions = partitions.map(|_| Ok(sizes.cache(eviction).open()?));
                Arc::new(Mica::<CircularLog>::new(partitions, &sizes, self, hasher)?)
            }
        })
    }
}
