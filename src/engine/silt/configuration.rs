//! What does not change while a database is open: its directory, settings and header.

use super::partition_settings::PartitionSettings;
use crate::engine::EngineInfo;
use crate::key::PartitionHasher;
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

impl Configuration {
    /// Returns the number of partitions.
    pub fn partitions(&self) -> usize {
        1 << self.header.partitions_log2
    }
}
