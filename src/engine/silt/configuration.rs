//! What does not change while a database is open: its directory, settings and header.

use super::partition_settings::PartitionSettings;
use crate::engine::EngineInfo;
use crate::key::{Key, KeyHash, PartitionHasher};
use crate::store::CompactionFilter;
use crate::store::manifest::Header;
use siltstone_device::Directory;

pub(super) struct Configuration {
    pub directory: Directory,
    /// The engine.
    pub info: &'static EngineInfo,
    /// The settings of the engine by name.
    pub named_settings: Vec<(&'static str, String)>,
    pub settings: PartitionSettings,
    pub header: Header,
    pub hasher: PartitionHasher,
    pub compaction_filter: Option<CompactionFilter>,
}

/// Where a key belongs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    /// The number of the partition.
    pub partition: usize,
    /// The hash of the key within the partition.
    pub hash: KeyHash,
}

impl Configuration {
    /// Returns the number of partitions.
    pub fn partitions(&self) -> usize {
        1 << self.header.partitions_log2
    }

    /// Returns the partition of a key and the hash of the key in it.
    #[inline]
    pub fn route(&self, key: Key<'_>) -> Route {
        let bits = self.hasher.partitions_log2;
        Route { partition: key.hash().partition(bits), hash: key.hash().within_partition(bits) }
    }
}
