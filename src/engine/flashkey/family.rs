//! FlashKey in the table of engines.

use super::settings::{FlashKeySettings, INFO};
use crate::compose::hashed_log;
use crate::damage::{RepairReport, VerifyReport};
use crate::device::Directory;
use crate::engine::CommonSettings;
use crate::engine::Engine;
use crate::engine::log_settings::LogEngineSettings;
use crate::engine::settings::{EngineSettings, Opening, SettingsTable, by_table};
use crate::error::Result;
use crate::names::FileName;
use crate::progress::Progress;
use std::sync::Arc;

impl EngineSettings for FlashKeySettings {
    by_table!(INFO);

    fn check(&self, common: &CommonSettings, created: bool) -> Result<()> {
        if created { self.check_creation(common) } else { self.check_limits() }
    }

    fn open(&self, opening: Opening<'_, '_>) -> Result<Arc<dyn Engine>> {
        let Opening { directory, common, create, seed, progress, .. } = opening;
        if create {
            self.create(&directory, common, seed)?;
        }
        Ok(Arc::new(self.open_logs(directory, common, None, progress)?))
    }

    fn is_half_created(&self, directory: &Directory) -> Result<bool> {
        hashed_log::is_half_created(directory)
    }

    fn owns(&self, file_name: &str) -> bool {
        FileName::parse(file_name).is_some_and(FileName::is_of_logs)
    }

    fn examine(&self, directory: &Directory, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        hashed_log::examine(directory, &|kept| self.of_kept(kept), progress)
    }

    fn repair(&self, directory: &Directory, progress: &mut Progress<'_>) -> Result<RepairReport> {
        hashed_log::repair(directory, &|kept| self.of_kept(kept), progress)
    }
}
