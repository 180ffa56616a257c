//! The engines whose data is in partitions, in the table of engines: what their settings have in common. They create
//! and open databases.

use super::SiltEngine;
use super::configuration::Configuration;
use super::last_filter::LastFilter;
use super::live::Manifest;
use super::partition_settings::{PartitionSettings, check_budget};
use super::policy::open_files;
use crate::damage::{RepairReport, VerifyReport};
use crate::engine::settings::{EngineSettings, Opening, SettingsTable, by_table};
use crate::engine::{CommonSettings, Engine, EngineInfo};
use crate::error::{Error, Result};
use crate::key::RecordLayout;
use crate::names::FileName;
use crate::progress::Progress;
use crate::store::manifest::{Header, KeptSettings};
use siltstone_device::Directory;
use std::fmt::Debug;
use std::sync::Arc;

/// The settings of an engine whose data is in partitions.
pub(in crate::engine) trait SiltFamilySettings: SettingsTable + Default {
    /// The engine.
    const INFO: &'static EngineInfo;

    /// Returns the settings of the partitions.
    fn of_partitions(&self) -> PartitionSettings;

    /// Checks that the structures suit the records of a database, and each other.
    fn check_structures(&self, layout: &RecordLayout, block_bytes: u32) -> Result<()>;

    /// Checks that a database can be created with these settings.
    fn check_creation(&self, common: &CommonSettings) -> Result<()> {
        self.check_limits()?;
        self.check_structures(&common.layout(), common.block_bytes())?;
        let (partitions, block_bytes) = (common.partitions() as usize, common.block_bytes());
        common.memory_budget.map_or(Ok(()), |budget| check_budget(budget, partitions, block_bytes))
    }

    /// Opens a database. In a read-only directory ([`Directory::is_read_only`]) nothing is changed: a torn end of the
    /// log is ignored and not cut off, the log is replayed into memory, and every write, sync and compaction returns
    /// [`Error::ReadOnly`].
    ///
    /// # Errors
    /// [`Error::Corrupt`] for all damage that verifying a closed database reports in the manifest, the log, and the
    /// footers and indexes of stores.
    fn open_partitions(
        &self,
        directory: Directory,
        common: &CommonSettings,
        progress: &mut Progress<'_>,
    ) -> Result<SiltEngine> {
        let manifest = Manifest::open(&directory)?;
        let header = *manifest.header();
        common.check_against(&header)?;
        let mut settings = self.clone();
        settings.adopt(manifest.settings())?;
        settings.check_structures(&header.layout, header.block_bytes)?;
        if let Some(budget) = common.memory_budget {
            check_budget(budget, 1 << header.partitions_log2, header.block_bytes)?;
        }
        let of_partitions = settings.of_partitions();
        let configuration = Configuration {
            directory: directory.map_appends(of_partitions.log_mapped),
            info: Self::INFO,
            named_settings: settings.values(),
            last_filter: LastFilter::new(of_partitions.filter_last_store, common.lookups.clone()),
            settings: of_partitions,
            header,
            hasher: header.records().hasher,
            compaction_filter: common.compaction_filter.clone(),
            threads: common.threads,
        };
        SiltEngine::open(configuration, manifest, &settings.to_keep(), common.memory_budget, progress)
    }
}

impl<S: SiltFamilySettings + Clone + Debug + Send + Sync + 'static> EngineSettings for S {
    by_table!(*S::INFO);

    fn check(&self, common: &CommonSettings, created: bool) -> Result<()> {
        if created { self.check_creation(common) } else { self.check_limits() }
    }

    fn open(&self, opening: Opening<'_, '_>) -> Result<Arc<dyn Engine>> {
        let Opening { directory, common, create, seed, progress, .. } = opening;
        if create && Header::read(&directory)?.is_none() {
            self.check_creation(common)?;
            let header = common.header(S::INFO.number.unwrap_or_default(), seed)?;
            SiltEngine::create(&directory, &header)?;
        }
        let mut opened = self.open_partitions(directory.clone(), common, progress);
        // Other settings than those of the header are accepted only if the database never held a record.
        if create && matches!(opened, Err(Error::Setting { .. })) {
            self.check_creation(common)?;
            if reshape::<S>(&directory, common, seed)? {
                opened = self.open_partitions(directory, common, progress);
            }
        }
        Ok(Arc::new(opened?))
    }

    fn open_files(&self, common: &CommonSettings, keys: u64, record_bytes: u64) -> u64 {
        open_files(&self.of_partitions(), common, keys, record_bytes)
    }

    fn is_half_created(&self, directory: &Directory) -> Result<bool> {
        SiltEngine::is_half_created(directory)
    }

    fn owns(&self, file_name: &str) -> bool {
        FileName::parse(file_name).is_some_and(FileName::is_log_or_store)
    }

    fn examine(&self, directory: &Directory, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        SiltEngine::examine(directory, progress)
    }

    fn repair(&self, directory: &Directory, progress: &mut Progress<'_>) -> Result<RepairReport> {
        let of_kept = |kept: &KeptSettings| {
            let mut settings = self.clone();
            settings.adopt(kept)?;
            Ok(settings.of_partitions())
        };
        SiltEngine::repair(directory, &of_kept, progress)
    }
}

/// Gives the database another header if it was created with other settings and never held a record, so that a refused
/// first write fixes nothing. Returns whether it did. One rename replaces the manifest, and the log, which has no
/// record, stays: after a crash the database has the old header or the new one.
fn reshape<S: SiltFamilySettings>(
    directory: &Directory,
    common: &CommonSettings,
    seed: Option<[u64; 2]>,
) -> Result<bool> {
    let manifest = Manifest::open(directory)?;
    let old = *manifest.header();
    if directory.is_read_only() || !manifest.is_unused() || common.check_against(&old).is_ok() {
        return Ok(false);
    }
    drop(manifest);
    let (settings, any) = (S::default(), CommonSettings::default());
    // The manifest does not state how many records the log has: they are counted by a replay.
    let opened = settings.open_partitions(directory.clone(), &any, &mut |_, _| true)?;
    if opened.replayed_records > 0 {
        return Ok(false);
    }
    drop(opened);
    let new = common.header(old.engine, seed)?;
    Manifest::create(directory, &Header { database_id: old.database_id, secret: old.secret, ..new })?;
    Ok(true)
}
