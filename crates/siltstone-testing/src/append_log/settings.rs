//! The settings of the engine. It has none to set: they create and open its databases.

use super::AppendLog;
use siltstone::engine::CommonSettings;
use siltstone::engine::{Engine, EngineInfo, EngineSettings, Opening, SettingInfo};
use siltstone::names::NEW_MANIFEST_NAME;
use siltstone::store::manifest::Header;
use siltstone::{Error, Result};
use siltstone_device::Directory;
use std::sync::Arc;

/// The engine. Numbers from the highest on are for engines outside of the table of engines.
pub const INFO: EngineInfo = EngineInfo {
    name: "append-log",
    number: Some(255),
    summary: "all records in memory, and a log of all writes on the device",
};

/// The settings of the engine `append-log`: it has none of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppendLogSettings;

impl EngineSettings for AppendLogSettings {
    fn info(&self) -> &'static EngineInfo {
        &INFO
    }

    fn copy(&self) -> Box<dyn EngineSettings> {
        Box::new(self.clone())
    }

    fn set(&mut self, name: &str, _value: &str) -> Result<()> {
        let problem = format!("the engine `{}` has no setting `{name}`; leave it out", INFO.name);
        Err(Error::Setting { name: "set", problem })
    }

    fn describe(&self) -> Vec<SettingInfo> {
        Vec::new()
    }

    fn check(&self, common: &CommonSettings, _created: bool) -> Result<()> {
        let set = [
            ("partitions", common.partitions.is_some()),
            ("block_bytes", common.block_bytes.is_some()),
            ("memory_budget", common.memory_budget.is_some()),
        ];
        set.into_iter().find(|(_, is_set)| *is_set).map_or(Ok(()), |(name, _)| {
            let problem = format!("the engine `{}` has no such setting; leave it out", INFO.name);
            Err(Error::Setting { name, problem })
        })
    }

    fn open(&self, opening: Opening<'_, '_>) -> Result<Arc<dyn Engine>> {
        let Opening { directory, common, create, seed, progress, .. } = opening;
        let new_header = || -> Result<Header> {
            let common = CommonSettings { partitions: Some(1), ..common.clone() };
            common.header(255, seed)
        };
        let Some(header) = Header::read(&directory)? else {
            return Ok(Arc::new(AppendLog::create(directory, new_header()?)?));
        };
        let log = AppendLog::open(directory.clone(), header, progress)?;
        match common.check_against(&header) {
            Ok(()) => Ok(Arc::new(log)),
            // A database that never held a record takes other settings.
            Err(_) if create && log.is_unused() => Ok(Arc::new(AppendLog::create(directory, new_header()?)?)),
            Err(error) => Err(error),
        }
    }

    fn is_half_created(&self, directory: &Directory) -> Result<bool> {
        Ok(directory.list()? == [NEW_MANIFEST_NAME])
    }

    fn owns(&self, _file_name: &str) -> bool {
        // Its only file is the manifest.
        false
    }
}
