//! What does not change while a database is open: its directory, settings and header.

use super::last_filter::LastFilter;
use super::partition_settings::PartitionSettings;
use crate::engine::EngineInfo;
use crate::engine::jobs::jobs_at_once;
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
    pub last_filter: LastFilter,
    /// How many threads execute steps at the same time.
    pub threads: usize,
}

impl Configuration {
    /// Returns the number of partitions.
    pub fn partitions(&self) -> usize {
        1 << self.header.partitions_log2
    }

    /// Returns how many conversions are in progress at once, at most.
    pub fn conversions_max(&self) -> usize {
        self.jobs_max(self.settings.convert_bytes_per_s)
    }

    /// Returns how many merges are in progress at once, at most.
    pub fn merges_max(&self) -> usize {
        self.jobs_max(self.settings.merge_bytes_per_s)
    }

    fn jobs_max(&self, bytes_per_s: u64) -> usize {
        // A rate is charged what is read and written for its purpose during a step, by whichever job.
        if bytes_per_s > 0 { 1 } else { jobs_at_once(self.threads) }
    }
}
