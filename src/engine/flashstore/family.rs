//! FlashStore in the table of engines.

use super::admission::Admission;
use super::below::DiskBelow;
use super::claim::{self, Claim};
use super::settings::{DISK_ID, FlashStoreSettings};
use super::tiered::{Tiered, id_of};
use crate::damage::{Damage, RepairReport, VerifyReport};
use crate::engine::flashkey::FlashKeyFamilySettings;
use crate::engine::flashkey::{self, Manifest};
use crate::engine::settings::{
    Disk, EngineSettings, OpenDisk, Opening, SettingInfo, SettingsTable, budget_of_disk,
};
use crate::engine::{CommonSettings, Engine, EngineInfo, info};
use crate::error::{Error, Result};
use crate::names::FileName;
use crate::progress::Progress;
use crate::store::manifest::{Header, KeptSettings};
use siltstone_device::Directory;
use siltstone_device::sync::Mutex;
use siltstone_device::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Arc;

/// The prefix of settings by name that are the disk's.
const OF_DISK: &str = "disk.";

impl EngineSettings for FlashStoreSettings {
    fn info(&self) -> &'static EngineInfo {
        &info::FLASHSTORE
    }

    fn copy(&self) -> Box<dyn EngineSettings> {
        Box::new(self.clone())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        if let Some(name) = name.strip_prefix(OF_DISK) {
            self.disk = std::mem::take(&mut self.disk).set(name, value);
            return Ok(());
        }
        if name == "disk" {
            // Also after the settings of the disk.
            self.disk = std::mem::take(&mut self.disk).moved_to(value.into());
            self.given().push("disk");
            return Ok(());
        }
        self.set_by_name(&info::FLASHSTORE, name, value)
    }

    fn describe(&self) -> Vec<SettingInfo> {
        self.describe_all()
    }

    fn paper(&self) -> &'static [(&'static str, &'static str)] {
        Self::PAPER
    }

    fn check(&self, common: &CommonSettings, created: bool) -> Result<()> {
        if created { self.check_creation(common) } else { self.check_limits() }
    }

    fn disk(&self, directory: &Directory) -> Result<Option<Disk>> {
        let mut settings = self.clone();
        if Header::read(directory)?.is_some() {
            let (manifest, _) = Manifest::open_or_mirror(directory)?;
            settings.check_disk(directory, manifest.settings())?;
            settings.adopt_kept(manifest.settings())?;
            // Before anything is done to what is at that path: an untrusted manifest may name any path. A missing disk
            // is reported when it is used.
            if let (false, Ok(at)) = (settings.disk.is_none(), directory.other(settings.disk.path(), false))
                && Header::read(&at)?.is_some()
            {
                check_is_own(directory, &at, &manifest)?;
            }
        }
        Ok(Some(settings.disk).filter(|disk| !disk.is_none()))
    }

    fn open(&self, opening: Opening<'_, '_>) -> Result<Arc<dyn Engine>> {
        let Opening { directory, common, create, seed, disk, progress, .. } = opening;
        let Some(disk) = disk else {
            // A cache.
            if create {
                self.for_creation(common).create(&directory, common, seed)?;
            }
            return Ok(Arc::new(self.open_logs(directory, common, None, progress)?));
        };
        if create && Header::read(&directory)?.is_none() {
            self.create_over(&directory, &disk, common)?;
        }
        self.open_over(directory, disk, common, progress)
    }

    fn is_half_created(&self, directory: &Directory) -> Result<bool> {
        flashkey::is_half_created(directory)
    }

    fn owns(&self, file_name: &str) -> bool {
        FileName::parse(file_name).is_some_and(FileName::is_of_logs)
    }

    fn examine(&self, directory: &Directory, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        let claim = self.damaged_claim(directory)?;
        let mut report = flashkey::examine(directory, &|kept| self.of_kept(kept), progress)?;
        report.damage.extend(claim.map(|claim| claim.damage));
        Ok(report)
    }

    fn repair(&self, directory: &Directory, progress: &mut Progress<'_>) -> Result<RepairReport> {
        let before = self.damaged_claim(directory)?;
        let mut report = flashkey::repair(directory, &|kept| self.of_kept(kept), progress)?;
        // Also a claim that fits no longer, because the repair has lost the end of the log.
        let Some(claim) = before.or(self.damaged_claim(directory)?) else { return Ok(report) };
        if directory.is_read_only() {
            let refused = std::io::ErrorKind::ReadOnlyFilesystem.into();
            return Err(Error::io("repair", claim.disk.path())(refused));
        }
        claim::repair(directory, &claim.disk, &Manifest::open_or_mirror(directory)?.0)?;
        report.new_files.push(claim.damage.file.to_string_lossy().into_owned());
        report.found.damage.push(claim.damage);
        Ok(report)
    }
}

/// The damaged claim of a disk.
struct DamagedClaim {
    disk: Directory,
    damage: Damage,
}

impl FlashStoreSettings {
    /// Returns the claim of the disk of a database that is not open, if it is damaged. A missing disk is reported when
    /// it is opened.
    fn damaged_claim(&self, directory: &Directory) -> Result<Option<DamagedClaim>> {
        let Some(disk) = self.disk(directory)? else { return Ok(None) };
        let Ok(disk) = directory.other(disk.path(), false) else { return Ok(None) };
        let (manifest, _) = Manifest::open_or_mirror(directory)?;
        let damage = claim::examine(directory, &disk, &manifest)?;
        Ok(damage.map(|damage| DamagedClaim { disk, damage }))
    }

    /// Creates an empty database over a disk, which may have records. It hashes keys as the disk does.
    fn create_over(&self, directory: &Directory, disk: &OpenDisk, common: &CommonSettings) -> Result<()> {
        self.check_creation(common)?;
        // Two databases on flash over one disk would hide and replace records of each other.
        claim::check_owner(directory, &disk.directory, None)?;
        let Some(below) = Header::read(&disk.directory)? else {
            return Err(Error::NotFound { path: disk.directory.path() });
        };
        let header = common.header(info::FLASHSTORE.number.unwrap_or_default(), None)?;
        let header = Header { layout: below.layout, hasher: below.hasher, ..header };
        common.check_against(&header)?;
        let settings = self.for_creation(common);
        let mut kept = settings.to_keep_at_creation();
        // With the first manifest, so that no open takes another directory for the disk.
        kept.insert(DISK_ID.into(), id_of(&disk.directory)?);
        flashkey::create(directory, &header, &settings.of_logs(), &kept)
    }

    /// Opens a database with its disk.
    fn open_over(
        &self,
        directory: Directory,
        disk: OpenDisk,
        common: &CommonSettings,
        progress: &mut Progress<'_>,
    ) -> Result<Arc<dyn Engine>> {
        // Before the logs are opened, which changes them: with a wrong disk, flash stays as it is.
        let claim = self.check_copies(&directory, &disk)?;
        let disk_budget = common.memory_budget.map(budget_of_disk);
        let own = common.memory_budget.zip(disk_budget).map(|(all, of_disk)| all - of_disk);
        let common = CommonSettings { memory_budget: own, ..common.clone() };
        let below = Arc::new(DiskBelow::new(disk.engine.clone(), disk.directory.clone(), claim));
        let logs = self.open_logs(directory.clone(), &common, Some(below.clone()), progress)?;
        if !directory.is_read_only() {
            claim::tidy(&disk.directory)?;
            // Before the first record may leave, as the open has not returned.
            if claim::read(&directory, &disk.directory)?.is_none() {
                claim.write(&disk.directory)?;
            }
        }
        // Read again: the open has stored the settings that were given.
        let (manifest, _) = Manifest::open_or_mirror(&directory)?;
        let mut settings = self.clone();
        settings.adopt_kept(manifest.settings())?;
        let admitted_from = settings.caches_reads.then_some(settings.flash_bytes);
        Ok(Arc::new(Tiered {
            logs,
            disk,
            below,
            caches_reads: settings.caches_reads,
            admission: Admission::new(admitted_from),
            disk_hits: AtomicU64::new(0),
            compacts_disk: AtomicBool::new(false),
            disk_budget: Mutex::new(disk_budget),
        }))
    }

    /// Returns an error if the database has neither a disk nor is a cache, or if the stated disk contradicts what it
    /// keeps.
    fn check_disk(&self, directory: &Directory, kept: &KeptSettings) -> Result<()> {
        let is_given = self.clone().given().contains(&"disk");
        let path = kept.get("disk").filter(|path| !path.is_empty());
        let is_cache = kept.get("cache").is_some_and(|value| value == "true");
        let problem = match (path, self.disk.is_none()) {
            (None, _) if !is_cache => {
                "it has neither a `disk` nor `cache`, and cannot be opened; create one of the engine `flashkey` for \
                 its records"
                    .into()
            }
            (Some(path), true) if is_given => {
                format!("no disk is stated, but {path} is the disk; leave this setting out")
            }
            (None, false) => {
                let stated = self.disk.path().display();
                format!("{stated} is stated as its disk, but it has none; leave this setting out")
            }
            _ => return Ok(()),
        };
        let problem = format!("the database in {}: {problem}", directory.path().display());
        Err(Error::Setting { name: "disk", problem })
    }

    /// Returns an error if the disk is not the one with which the database was created, if it is that of another
    /// database, or if one of both directories is an older copy. Returns the claim of the disk.
    fn check_copies(&self, directory: &Directory, disk: &OpenDisk) -> Result<Claim> {
        let (manifest, _) = Manifest::open_or_mirror(directory)?;
        check_is_own(directory, &disk.directory, &manifest)?;
        claim::check(directory, &disk.directory, &manifest)
    }
}

/// Returns an error if the database in the directory `disk` is not the one with which the database on flash was
/// created, or if it is the disk of another database.
fn check_is_own(flash: &Directory, disk: &Directory, manifest: &Manifest) -> Result<()> {
    let (kept, has) = (manifest.settings().get(DISK_ID).cloned(), id_of(disk)?);
    if kept.as_ref() != Some(&has) {
        let problem = format!(
            "the database in {} has the disk with the id {}, but {} has the database {has}",
            flash.path().display(),
            kept.unwrap_or_default(),
            disk.path().display()
        );
        return Err(Error::Setting { name: "disk", problem });
    }
    match claim::check_owner(flash, disk, Some(manifest.header())) {
        // A repair writes it again.
        Err(Error::Corrupt { .. }) => Ok(()),
        checked => checked,
    }
}
