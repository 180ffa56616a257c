//! What can be chosen of a MICA engine, with the limits.

use crate::mica::{CacheSettings, Eviction, ItemShape, StoreSettings};
use crate::{Error, Result};

/// The most partitions.
const PARTITIONS_MAX: u32 = 1 << 10;

/// All settings of the engine.
#[derive(Debug, Clone, PartialEq)]
pub struct MicaSettings {
    /// All its memory, index included, in bytes: 64 KiB to 16 GiB for each partition. It is taken from the system as it
    /// is first touched.
    pub memory_bytes: u64,
    /// The bytes of key and value that a record has on average. A wrong guess costs memory: where records are smaller
    /// the index is full before the memory is, where they are larger the index is too large.
    pub record_bytes: usize,
    /// A power of two up to 1,024.
    pub partitions: u32,
    /// What gives way when the memory is full; if nothing does, writes are refused then.
    pub eviction: Option<Eviction>,
}

impl Default for MicaSettings {
    fn default() -> Self {
        MicaSettings { memory_bytes: 256 << 20, record_bytes: 64, partitions: 16, eviction: None }
    }
}

impl MicaSettings {
    /// Checks the limits.
    ///
    /// # Errors
    /// [`Error::Setting`] for what is outside them.
    pub fn check(&self) -> Result<()> {
        if !self.partitions.is_power_of_two() || self.partitions > PARTITIONS_MAX {
            let problem = format!("{} is not a power of two from 1 to {PARTITIONS_MAX}", self.partitions);
            return Err(Error::Setting { name: "partitions", problem });
        }
        if !(64 << 10..=16 << 30).contains(&self.of_a_partition()) {
            let problem = format!(
                "{} bytes for {} partitions are out of range; use 64 KiB to 16 GiB per partition",
                self.memory_bytes, self.partitions
            );
            return Err(Error::Setting { name: "memory_bytes", problem });
        }
        Ok(())
    }

    fn of_a_partition(&self) -> u64 {
        self.memory_bytes / u64::from(self.partitions.max(1))
    }

    fn record_bytes(&self, shape: ItemShape) -> usize {
        shape
            .fixed
            .map_or(self.record_bytes, |(key_length, value_length)| (key_length + value_length) as usize)
    }

    pub(super) fn store(&self, shape: ItemShape) -> StoreSettings {
        let partition_bits = self.partitions.ilog2();
        let store = StoreSettings::for_memory(shape, self.of_a_partition(), self.record_bytes(shape));
        StoreSettings { partition_bits, ..store }
    }

    pub(super) fn cache(&self, shape: ItemShape, eviction: Eviction) -> CacheSettings {
        let partition_bits = self.partitions.ilog2();
        let cache = CacheSettings::for_memory(shape, self.of_a_partition(), self.record_bytes(shape));
        CacheSettings { partition_bits, eviction, ..cache }
    }
}
