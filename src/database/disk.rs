//! The disks of databases that keep only a part of their records in their own directory. A disk is opened with its
//! database. Verification, repair and removal of a closed database include its disk.

use super::compressed;
use super::place::{Contents, check_access, engine_of_number};
use crate::compression::Compression;
use crate::damage::RepairReport;
use crate::engine::{
    CommonSettings, DISK_FILTER_BITS, Disk, Engine, EngineKind, EngineSettings, OpenDisk, Opening,
    budget_of_disk,
};
use crate::error::{Error, Result};
use crate::store::manifest::Header;
use siltstone_device::Directory;
use std::sync::Arc;

/// The setting for the filter of a new disk whose settings are not stated.
const FILTER: &str = "filter_last_store";

/// The directories of disks, each with its lock.
type Disks = Vec<(Directory, Box<dyn Send + Sync>)>;

/// Opens a database with its disk, if it has one. Returns the disks as well. With `is_emptied` a truncation has removed
/// the database that was there.
pub(super) fn open(
    settings: &dyn EngineSettings,
    opening: Opening<'_, '_>,
    is_emptied: bool,
) -> Result<(Arc<dyn Engine>, Disks)> {
    let Some(disk) = settings.disk(&opening.directory)? else {
        return Ok((settings.open(opening)?, Disks::new()));
    };
    let Opening { directory, common, create, seed, now_ms, progress, .. } = opening;
    let contents = Contents::read(&directory, None)?.with_others(is_emptied);
    let creates = create && matches!(contents, Contents::Free);
    let (at, number) = directory_of(&directory, &disk, creates, is_emptied)?;
    if creates {
        check_compression(&at, common.compression.unwrap_or_default())?;
    }
    // Another process may have opened the disk as a database of its own.
    let lock = if at.is_read_only() { at.lock_shared()? } else { at.lock()? };
    check_access(&at)?;
    let memory_budget = common.memory_budget.map(budget_of_disk);
    let common_of_disk = match number {
        // An existing disk keeps its own settings. Only what the process may use is passed on.
        Some(_) => CommonSettings {
            memory_budget,
            compaction_filter: common.compaction_filter.clone(),
            threads: common.threads,
            // Of the lookups that reach the disk, the share of missing keys is at least as large.
            lookups: common.lookups.clone(),
            ..CommonSettings::default()
        },
        None => CommonSettings { memory_budget, block_bytes: None, ..common.clone() },
    };
    let engine = with_engine(&disk, number, &at, |of_disk| {
        of_disk.check(&common_of_disk, number.is_none())?;
        let common = &common_of_disk;
        let create = number.is_none();
        let directory = at.clone();
        let opening = Opening { directory, common, create, seed, now_ms, progress, disk: None };
        open(of_disk, opening, is_emptied)
    });
    let (engine, mut disks) = engine?;
    disks.push((at.clone(), lock));
    let disk = Some(OpenDisk { engine, directory: at });
    let opening = Opening { directory, common, create, seed, now_ms, progress, disk };
    Ok((settings.open(opening)?, disks))
}

/// Checks that the values on a disk of a new database are coded as those of that database are to be: they pass between
/// both as they are stored.
fn check_compression(disk: &Directory, wanted: Compression) -> Result<()> {
    let Some(header) = Header::read(disk)? else { return Ok(()) };
    let problem = match header.compression == wanted {
        false => format!("has the compression {}, and not {wanted}", header.compression),
        true if disk.list()?.iter().any(|name| compressed::file::owns(name)) => {
            "has a dictionary of its own, which the new database would not have".into()
        }
        true => return Ok(()),
    };
    let problem = format!("the database in {} {problem}; use another directory", disk.path().display());
    Err(Error::Setting { name: "compression", problem })
}

/// Opens the directory of a disk. Returns it, and the number of the engine that it has.
fn directory_of(
    directory: &Directory,
    disk: &Disk,
    creates: bool,
    is_emptied: bool,
) -> Result<(Directory, Option<u8>)> {
    let missing = |found: &str| {
        let (flash, path) = (directory.path(), directory.path().join(disk.path()));
        let problem =
            format!("{} is the disk of the database in {}: {found}", path.display(), flash.display());
        Error::Setting { name: "disk", problem }
    };
    // Only for a new database: instead of a disk that is missing, an empty one would seem to have lost all records.
    let at = match directory.other(disk.path(), creates && !directory.is_read_only()) {
        Err(error) if error.is_not_found() => {
            return Err(missing("there is no such directory"));
        }
        opened => opened?,
    };
    match Contents::read(&at, None)?.with_others(is_emptied) {
        Contents::Database(number) => Ok((at, Some(number))),
        Contents::Free if creates => Ok((at, None)),
        Contents::Free => Err(missing("it has no database")),
        Contents::Occupied { file, .. } => Err(missing(&format!("it has the file {file}, and no database"))),
    }
}

/// Passes the settings of the engine of a disk to `work`: the stated one, else the one that it has, else the default.
fn with_engine<T>(
    disk: &Disk,
    number: Option<u8>,
    directory: &Directory,
    work: impl FnOnce(&dyn EngineSettings) -> Result<T>,
) -> Result<T> {
    if let Some(stated) = disk.stated()? {
        check_engine(stated, number, directory)?;
        return work(stated);
    }
    let (name, settings) = disk.named();
    let mut settings: Vec<(&str, &str)> = settings.collect();
    let filter_bits = DISK_FILTER_BITS.to_string();
    let mut engine = match (name, number) {
        (Some(name), _) => EngineKind::of_setting("disk", name)?.settings(),
        (None, Some(number)) => engine_of_number(number, directory)?,
        (None, None) => {
            if settings.is_empty() {
                settings.push((FILTER, &filter_bits));
            }
            EngineKind::of_new("disk")?.settings()
        }
    };
    check_engine(&*engine, number, directory)?;
    settings.into_iter().try_for_each(|(name, value)| engine.set(name, value))?;
    work(&*engine)
}

/// Checks that an engine keeps its data in files, and is that of the disk.
fn check_engine(engine: &dyn EngineSettings, number: Option<u8>, directory: &Directory) -> Result<()> {
    let info = engine.info();
    let problem = match number {
        _ if info.number.is_none() => format!("the engine `{}` keeps all data in memory", info.name),
        Some(number) if info.number != Some(number) => {
            let path = directory.path();
            format!("the engine is `{}`, but {} has another one", info.name, path.display())
        }
        _ => return Ok(()),
    };
    Err(Error::Setting { name: "disk", problem })
}

/// Returns the directory of the disk of a database that is not open, if it has one.
pub(super) fn of_closed(settings: &dyn EngineSettings, directory: &Directory) -> Result<Option<Directory>> {
    let Some(disk) = settings.disk(directory)? else { return Ok(None) };
    directory_of(directory, &disk, false, false).map(|(at, _)| Some(at))
}

/// Adds the report of the repair of a disk in `directory`.
pub(super) fn add_repaired(report: &mut RepairReport, of_disk: RepairReport, directory: &Directory) {
    let named = |names: Vec<String>| {
        let path = |name: String| directory.path_of(&name).to_string_lossy().into_owned();
        names.into_iter().map(path).collect::<Vec<_>>()
    };
    report.found.add(of_disk.found);
    report.set_aside = report.set_aside.take().or(of_disk.set_aside);
    report.set_aside_files.extend(named(of_disk.set_aside_files));
    report.kept_records += of_disk.kept_records;
    report.new_files.extend(named(of_disk.new_files));
}
