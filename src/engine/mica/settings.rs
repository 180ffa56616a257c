//! The settings of a MICA engine and their limits.

use crate::mica::{CacheSettings, Eviction, ItemShape, StoreSettings};
use crate::{Error, Result};

/// The maximum number of partitions.
const PARTITIONS_MAX: u32 = 1 << 10;

/// All settings of the engine.
#[derive(Debug, Clone, PartialEq)]
pub struct MicaSettings {
    /// All memory of the engine, including the index, in bytes: 64 KiB to 16 GiB per partition. The system provides it
    /// when it is first touched.
    pub memory_bytes: u64,
    /// The average size of key and value together, in bytes. A wrong number wastes memory: with smaller records the
    /// index fills up before the memory does, with larger ones the index is too large.
    pub record_bytes: usize,
    /// The number of partitions, a power of two up to 1,024.
    pub partitions: u32,
    /// Which records a cache evicts when the memory is full. `None`: a store, which then refuses writes.
    pub eviction: Option<Eviction>,
}

impl Default for MicaSettings {
    fn default() -> Self {
        MicaSettings { memory_bytes: 256 << 20, record_bytes: 64, partitions: 16, eviction: None }
    }
}

impl MicaSettings {
    /// Checks all limits.
    ///
    /// # Errors
    /// [`Error::Setting`] for a setting outside its limits.
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
