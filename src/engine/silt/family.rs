//! SILT in the table of engines.

use super::settings::{INFO, SiltSettings};
use crate::damage::{RepairReport, VerifyReport};
use crate::device::Directory;
use crate::engine::CommonSettings;
use crate::engine::Engine;
use crate::engine::partitioned::{PartitionedEngine, PartitionedEngineSettings, open_files};
use crate::engine::settings::{EngineSettings, Opening, SettingsTable, by_table};
use crate::error::Result;
use crate::names::FileName;
use crate::progress::Progress;
use std::sync::Arc;

impl EngineSettings for SiltSettings {
    by_table!(INFO);

    fn check(&self, common: &CommonSettings, created: bool) -> Result<()> {
        if created { self.check_creation(common) } else { self.check_limits() }
    }

    fn open(&self, opening: Opening<'_, '_>) -> Result<Arc<dyn Engine>> {
        self.open_or_create(opening)
    }

    fn open_files(&self, common: &CommonSettings, keys: u64, record_bytes: u64) -> u64 {
        open_files(&self.of_partitions(), common.partitions(), keys, record_bytes)
    }

    fn is_half_created(&self, directory: &Directory) -> Result<bool> {
        PartitionedEngine::is_half_created(directory)
    }

    fn owns(&self, file_name: &str) -> bool {
        FileName::parse(file_name).is_some_and(FileName::is_log_or_store)
    }

    fn examine(&self, directory: &Directory, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        PartitionedEngine::examine(directory, progress)
    }

    fn repair(&self, directory: &Directory, progress: &mut Progress<'_>) -> Result<RepairReport> {
        self.repair_partitions(directory, progress)
    }
}
