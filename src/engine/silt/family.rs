//! SILT in the table of engines.

use super::engine::Silt;
use super::policy;
use super::settings::{INFO, SiltSettings};
use crate::damage::{RepairReport, VerifyReport};
use crate::device::Directory;
use crate::engine::CommonSettings;
use crate::engine::Engine;
use crate::engine::settings::{EngineSettings, Opening, SettingsTable, by_table};
use crate::error::{Error, Result};
use crate::names::FileName;
use crate::progress::Progress;
use crate::store::manifest::Header;
use std::sync::Arc;

impl EngineSettings for SiltSettings {
    by_table!(INFO);

    fn check(&self, common: &CommonSettings, created: bool) -> Result<()> {
        if created { self.check_creation(common) } else { self.check_limits() }
    }

    fn open(&self, opening: Opening<'_, '_>) -> Result<Arc<dyn Engine>> {
        let Opening { directory, common, create, seed, progress, .. } = opening;
        if create && Header::read(&directory)?.is_none() {
            self.check_creation(common)?;
            Silt::create(&directory, common, seed)?;
        }
        let mut opened = Silt::open(directory.clone(), self, common, progress);
        if create && matches!(opened, Err(Error::Setting { .. })) {
            self.check_creation(common)?;
            if Silt::reshape(&directory, common, seed)? {
                opened = Silt::open(directory, self, common, progress);
            }
        }
        Ok(Arc::new(opened?))
    }

    fn open_files(&self, common: &CommonSettings, keys: u64, record_bytes: u64) -> u64 {
        policy::open_files(self, common.partitions(), keys, record_bytes)
    }

    fn is_half_created(&self, directory: &Directory) -> Result<bool> {
        Silt::is_half_created(directory)
    }

    fn owns(&self, file_name: &str) -> bool {
        FileName::parse(file_name).is_some_and(FileName::is_log_or_store)
    }

    fn examine(&self, directory: &Directory, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        Silt::examine(directory, progress)
    }

    fn repair(&self, directory: &Directory, progress: &mut Progress<'_>) -> Result<RepairReport> {
        Silt::repair(directory, self, progress)
    }
}
