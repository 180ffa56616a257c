//! Creates and opens databases: what the settings of FlashKey and FlashStore have in common.

use super::engine::FlashKeyEngine;
use super::write_budget::WriteBudget;
use super::{Below, LogSettings, Manifest};
use crate::engine::settings::SettingsTable;
use crate::engine::{CommonSettings, EngineInfo};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::store::manifest::{Header, KeptSettings};
use siltstone_device::Directory;
use std::sync::Arc;

/// The settings of an engine whose data is in logs.
pub(in crate::engine) trait FlashKeyFamilySettings: SettingsTable {
    /// The engine.
    const INFO: &'static EngineInfo;
    /// The settings that are fixed when a database is created.
    const FIXED: &'static [&'static str];

    /// Returns the settings of the logs and their index.
    fn of_logs(&self) -> LogSettings;

    /// Returns the budget for what is written to the device, if there is one.
    fn write_budget(&self) -> Option<WriteBudget> {
        None
    }

    /// Checks that a database can be created with these settings.
    fn check_creation(&self, common: &CommonSettings) -> Result<()> {
        self.check_limits()?;
        self.check_filter(common)?;
        self.check_no_blocks(common)
    }

    /// Checks that there is no compaction filter if the keys are kept in order: their set would not lose the keys that
    /// the filter refuses.
    fn check_filter(&self, common: &CommonSettings) -> Result<()> {
        if common.compaction_filter.is_some() && self.of_logs().ordered {
            let problem =
                "a database with `ordered` keeps the keys of all records; leave the filter out, and remove \
                           records with `retain`"
                    .into();
            return Err(Error::Setting { name: "compaction_filter", problem });
        }
        Ok(())
    }

    /// Checks that no setting of blocks is given.
    fn check_no_blocks(&self, common: &CommonSettings) -> Result<()> {
        if common.block_bytes.is_some() {
            let problem = format!("the engine `{}` has no blocks; leave this setting out", Self::INFO.name);
            return Err(Error::Setting { name: "block_bytes", problem });
        }
        Ok(())
    }

    /// Returns the settings that a new database keeps: those that were given, and those that never change.
    fn to_keep_at_creation(&self) -> KeptSettings {
        let mut fixed = self.clone();
        fixed.given().extend(Self::FIXED);
        fixed.to_keep()
    }

    /// Gives the settings that were not given the values that the database keeps.
    ///
    /// # Errors
    /// [`Error::Setting`] for a given value of a fixed setting that differs from that of the database.
    fn adopt_kept(&mut self, kept: &KeptSettings) -> Result<()> {
        self.adopt_fixed(kept)
    }

    /// [`adopt_kept`](Self::adopt_kept), without checks of the settings against each other.
    fn adopt_fixed(&mut self, kept: &KeptSettings) -> Result<()> {
        let given = self.to_keep();
        for name in Self::FIXED {
            if let (Some(value), Some(has)) = (given.get(*name), kept.get(*name))
                && value != has
            {
                let problem = format!(
                    "the value is {value}, but the database was created with {has}; leave this setting out"
                );
                return Err(Error::Setting { name, problem });
            }
        }
        self.adopt(kept)
    }

    /// Returns the settings of the logs and their index of a database that keeps these.
    fn of_kept(&self, kept: &KeptSettings) -> Result<LogSettings> {
        let mut settings = self.clone();
        settings.adopt_kept(kept)?;
        settings.check_limits()?;
        Ok(settings.of_logs())
    }

    /// Creates an empty database, unless there is one.
    fn create(&self, directory: &Directory, common: &CommonSettings, seed: Option<[u64; 2]>) -> Result<()> {
        if Header::read(directory)?.is_some() {
            return Ok(());
        }
        self.check_creation(common)?;
        let header = common.header(Self::INFO.number.unwrap_or_default(), seed)?;
        super::create(directory, &header, &self.of_logs(), &self.to_keep_at_creation())
    }

    /// Opens a database. In a read-only directory ([`Directory::is_read_only`]) nothing is changed, and every write,
    /// sync and compaction returns [`Error::ReadOnly`].
    fn open_logs(
        &self,
        directory: Directory,
        common: &CommonSettings,
        below: Option<Arc<dyn Below>>,
        progress: &mut Progress<'_>,
    ) -> Result<FlashKeyEngine> {
        let manifest = Manifest::open(&directory)?;
        let header = *manifest.header();
        common.check_against(&header)?;
        let mut settings = self.clone();
        settings.adopt_kept(manifest.settings())?;
        settings.check_limits()?;
        settings.check_filter(common)?;
        // Before anything is changed. The number of entries is not known yet: `open` checks again with it.
        if let Some(budget) = common.memory_budget {
            super::check_budget(budget, 1 << header.partitions_log2, 0)?;
        }
        let (of_logs, to_keep) = (settings.of_logs(), settings.to_keep());
        let budget = common.memory_budget;
        let parts = super::open(directory, manifest, of_logs, &to_keep, budget, below, progress)?;
        // No step has run yet, so no record was moved without the filter.
        if let Some(filter) = &common.compaction_filter {
            parts.logs.set_compaction_filter(filter.clone());
        }
        let budget = settings.write_budget();
        Ok(FlashKeyEngine { info: Self::INFO, settings: settings.values(), parts, budget })
    }
}
