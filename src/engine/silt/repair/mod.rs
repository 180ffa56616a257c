//! Verifies and repairs databases that are not open, whatever part of them is damaged.
//!
//! A repair keeps every intact record.
//!
//! 1. Everything is read, and what is damaged is listed. If nothing is, the repair ends.
//! 2. The intact records of damaged files are written to new files, which are synced. No manifest names them, so an
//!    interrupted repair leaves the database as it was.
//! 3. Damaged files, the manifest and the mirror get a second name in a folder of their own, or are copied there.
//!    Segments with a base that no log has lose their old names.
//! 4. A rename replaces the manifest. This is the one moment at which the repair takes effect: before it the database
//!    is unchanged, after it the damaged files are no longer needed.
//! 5. The old names of the damaged files, and of others that were replaced, are removed.
//!
//!  ```text
//!  new stores from the intact records of damaged files    unchanged if interrupted: the new files are unnamed
//!  damaged files -> damaged-0001/
//!  new manifest (atomic rename)                           <- takes effect here
//!  ```
//!
//! `docs/REPAIR.md` describes what is kept, what is lost, and which keys may have older values.

mod rewrite;
mod survey;

use super::SiltEngine;
use super::live::{LiveStores, Manifest, Role};
use super::partition_settings::PartitionSettings;
use crate::damage::{RepairReport, VerifyReport};
use crate::error::{Error, Result};
use crate::names::{LogClass, MANIFEST_NAME, MIRROR_NAME, SET_ASIDE};
use crate::progress::{Progress, ProgressCounter};
use crate::store::examine::{begin_after, remove_strays};
use crate::store::log::Log;
use crate::store::manifest::KeptSettings;
use crate::store::segment_bases;
use rewrite::Rewriting;
use siltstone_device::{Directory, Purpose};
use survey::Survey;

impl SiltEngine {
    /// Reads everything of a database that is not open, and reports damage. Changes nothing.
    pub fn examine(directory: &Directory, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        let mut counter = ProgressCounter::new(progress);
        Ok(Survey::take(directory, &mut counter)?.report)
    }

    /// Repairs a database that is not open. Changes nothing if nothing is damaged. `of_kept` returns the settings of a
    /// database that keeps these.
    pub(super) fn repair(
        directory: &Directory,
        of_kept: &dyn Fn(&KeptSettings) -> Result<PartitionSettings>,
        progress: &mut Progress<'_>,
    ) -> Result<RepairReport> {
        let mut counter = ProgressCounter::new(progress);
        let survey = Survey::take(directory, &mut counter)?;
        if survey.report.damage.is_empty() {
            return Ok(RepairReport { found: survey.report, ..RepairReport::default() });
        }
        if directory.is_read_only() {
            let refused = std::io::ErrorKind::ReadOnlyFilesystem.into();
            return Err(Error::io("repair", directory.path())(refused));
        }
        let mut rewriting = Rewriting::new(directory, &survey, of_kept(survey.manifest.settings())?)?;
        match write_anew(directory, &survey, &mut rewriting, &mut counter) {
            Ok(report) => Ok(report),
            Err(error) => {
                // No manifest names these files; if they cannot be removed, the next open removes them.
                rewriting.new_files.iter().for_each(|name| drop(directory.remove(name)));
                Err(error)
            }
        }
    }
}

fn write_anew(
    directory: &Directory,
    survey: &Survey,
    rewriting: &mut Rewriting<'_>,
    counter: &mut ProgressCounter<'_, '_>,
) -> Result<RepairReport> {
    counter.total += survey.bytes_to_rewrite(directory)?;
    // First: if no log can begin after the files of the old one, nothing is written.
    let begin = begin_after(directory, survey.log.files_end);
    let new_log = if survey.log.damage.is_empty() { None } else { Some(begin?) };
    let header = survey.manifest.header();
    let mut partitions = survey.manifest.partitions().to_vec();
    let mut obsolete = Vec::new();
    for damaged in &survey.damaged_stores {
        let stores = &mut partitions[damaged.partition].stores;
        obsolete.push(damaged.entry.file_name());
        // A chain is made again of its runs after the next open, also if one of them is another store now.
        if let Some(chain) = stores.iter().position(|store| store.role == Role::Chain) {
            obsolete.push(stores.remove(chain).file_name());
            if damaged.entry.role == Role::Chain {
                continue;
            }
        }
        let Some(at) = stores.iter().position(|store| store.number == damaged.entry.number) else { continue };
        match rewriting.store(damaged, &mut |bytes| counter.advance(bytes))? {
            Some(new) => stores[at] = new,
            None => drop(stores.remove(at)),
        }
    }
    let mut log_synced = survey.to_examine.durable;
    if let Some(begin) = new_log {
        let bases = segment_bases(directory, LogClass::User)?.into_iter();
        obsolete.extend(bases.map(|base| header.log_format().segment_name(base)));
        for (partition, new) in rewriting.log(&mut |bytes| counter.advance(bytes))? {
            partitions[partition].stores.push(new);
        }
        // All intact records of the old log are in stores now, so no partition needs a part of it.
        partitions.iter_mut().for_each(|partition| partition.converted_to = begin);
        log_synced = begin;
        rewriting.new_files.push(Log::begin(directory, &header.log_format(), begin)?);
    }
    // The names of the new files are durable before the manifest has them.
    directory.sync(Purpose::Maintain)?;
    let names = directory.list()?;
    let mut aside = survey.damaged_files.clone();
    aside.extend([MANIFEST_NAME, MIRROR_NAME].map(str::to_owned));
    aside.retain(|name| names.binary_search(name).is_ok());
    aside.sort_unstable();
    aside.dedup();
    let folder = directory.set_aside(&aside.iter().map(String::as_str).collect::<Vec<_>>(), SET_ASIDE)?;
    remove_strays(directory, &aside)?;
    // From here on the new files count. Before it, a crash leaves the database as it was found.
    Manifest::replace(directory, header, LiveStores { partitions }, survey.manifest.settings(), log_synced)?;
    let report = RepairReport {
        found: survey.report.clone(),
        set_aside: Some(directory.path_of(&folder)),
        set_aside_files: aside,
        kept_records: rewriting.kept_records,
        new_files: std::mem::take(&mut rewriting.new_files),
    };
    obsolete.sort_unstable();
    obsolete.dedup();
    let names = directory.list()?;
    obsolete.retain(|name| names.binary_search(name).is_ok());
    // Not before: up to the rename of the manifest these files were the database.
    obsolete.iter().try_for_each(|name| directory.remove(name))?;
    directory.sync(Purpose::Maintain)?;
    Ok(report)
}
