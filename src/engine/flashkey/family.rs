//! FlashKey in the table of engines.

use super::engine::FlashKey;
use super::settings::{FlashKeySettings, INFO};
use crate::compose::hashed_log;
use crate::damage::VerifyReport;
use crate::device::Directory;
use crate::engine::CommonSettings;
use crate::engine::Engine;
use crate::engine::settings::{EngineInfo, EngineSettings, Opening, SettingInfo, SettingsTable};
use crate::progress::Progress;
use crate::store::manifest::Header;
use crate::store::names::FileName;
use crate::{Error, Result};
use std::sync::Arc;

impl EngineSettings for FlashKeySettings {
    fn info(&self) -> &'static EngineInfo {
        &INFO
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.set_by_name(&INFO, name, value)
    }

    fn describe(&self) -> Vec<SettingInfo> {
        self.describe_all()
    }

    fn check(&self, common: &CommonSettings, created: bool) -> Result<()> {
        if created { self.check_creation(common) } else { self.check_limits() }
    }

    fn open(&self, opening: Opening<'_, '_>) -> Result<Arc<dyn Engine>> {
        let Opening { directory, common, create, seed, now_ms: _, progress } = opening;
        if create && Header::read(&directory)?.is_none() {
            self.check_creation(common)?;
            FlashKey::create(&directory, self, common, seed)?;
        }
        Ok(Arc::new(FlashKey::open(directory, self, common, progress)?))
    }

    fn is_half_created(&self, directory: &Directory) -> Result<bool> {
        hashed_log::is_half_created(directory)
    }

    /// Opens the database without a change, and verifies it. One that cannot be opened is not examined further: the
    /// error has the damage. Needs a read-only directory.
    fn examine(&self, directory: &Directory, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        if !directory.is_read_only() {
            return Err(Error::Unsupported {
                engine: INFO.name,
                operation: "verification in a writable directory",
            });
        }
        let opened = FlashKey::open(directory.clone(), self, &CommonSettings::default(), &mut |_, _| true)?;
        opened.verify(progress)
    }

    fn owns(&self, file_name: &str) -> bool {
        FileName::parse(file_name).is_some_and(FileName::is_log_or_store)
    }
}
