//! Reads the records of databases that are not open, for verify and repair.

use super::clock::Clock;
use super::compressed;
use super::disk;
use crate::batch::TimestampMs;
use crate::damage::VerifyReport;
use crate::engine::{CommonSettings, Engine, EngineSettings, GoOn, Opening};
use crate::error::{Error, Result};
use siltstone_device::Directory;

/// Returns the exact number of keys of a database that is not open and has no damage.
pub(super) fn count(
    settings: &dyn EngineSettings,
    directory: &Directory,
    go_on: &mut GoOn<'_>,
) -> Result<u64> {
    let now_ms = Clock::System.now_ms();
    with_engine(settings, directory, now_ms, go_on, |engine, go_on| engine.count_keys(now_ms, go_on))
}

/// Adds to a report that the dictionary of compressed values is lost: there is none, and some of them have one.
/// `go_on` ends the search. A database that cannot be opened has other damage, and is not searched.
pub(super) fn examine_dictionary(
    settings: &dyn EngineSettings,
    directory: &Directory,
    report: &mut VerifyReport,
    go_on: &mut GoOn<'_>,
) -> Result<()> {
    if !compressed::file::is_missing(directory)? {
        return Ok(());
    }
    let now_ms = Clock::System.now_ms();
    match with_engine(settings, directory, now_ms, go_on, compressed::needs_dictionary) {
        Ok(true) => report.damage.push(compressed::file::lost(directory)),
        Err(error @ Error::Interrupted) => return Err(error),
        Ok(false) | Err(_) => {}
    }
    Ok(())
}

/// Passes the engine of a database that is not open to `work`. Nothing is changed.
fn with_engine<T>(
    settings: &dyn EngineSettings,
    directory: &Directory,
    now_ms: TimestampMs,
    go_on: &mut GoOn<'_>,
    work: impl FnOnce(&dyn Engine, &mut GoOn<'_>) -> Result<T>,
) -> Result<T> {
    let opening = Opening {
        directory: directory.clone().read_only(),
        common: &CommonSettings::default(),
        create: false,
        seed: None,
        now_ms,
        progress: &mut |_, _| go_on(0),
        disk: None,
    };
    // The locks are held until the work ends.
    let (engine, _locks_of_disks) = disk::open(settings, opening, false)?;
    work(&*engine, go_on)
}
