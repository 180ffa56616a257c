//! Opening a database after a clean end or a crash (SILT 4, crash tolerance). The manifest lists the live stores; their
//! indexes and filters stay on flash until `memory_budget` reads them back. The log is replayed from the first record
//! that is in no store.

use super::configuration::Configuration;
use super::engine::Silt;
use super::live::{Manifest, PartitionEntry, Role, StoreEntry};
use super::memory_budget::log_slots_max;
use super::partition::{Partition, Partitions};
use super::policy::{POSITION_BITS_MAX, log_store_settings};
#[cfg(feature = "mistakes")]
use super::settings::Mistake;
use super::settings::{SiltSettings, check_budget};
use super::view::View;
use crate::device::Directory;
use crate::engine::CommonSettings;
use crate::engine::settings::SettingsTable;
use crate::error::{Error, Result};
use crate::names::FileName;
use crate::progress::Progress;
use crate::store::hash_store::HASH_ORDER_FORM;
use crate::store::list_files;
use crate::store::log::{Log, LogSettings};
use crate::store::log_store::LogStore;
use crate::store::manifest::Header;
use crate::store::ordered::{BlockForm, IndexKind, OrderedTable, TableForm};
use std::collections::HashSet;
use std::sync::Arc;

impl Silt {
    /// Opens a database. In a read-only directory ([`Directory::is_read_only`]) nothing is changed: a torn end of the
    /// log is ignored and not cut off, the log is replayed into memory, and every write, sync and compaction returns
    /// [`Error::ReadOnly`].
    ///
    /// # Errors
    /// [`Error::Corrupt`] for all damage that verifying a closed database reports in the manifest, the log, and the
    /// footers and indexes of stores.
    pub fn open(
        directory: Directory,
        settings: &SiltSettings,
        common: &CommonSettings,
        progress: &mut Progress<'_>,
    ) -> Result<Silt> {
        let mut manifest = Manifest::open(&directory)?.rewrite_beyond(settings.manifest_bytes_max);
        let header = *manifest.header();
        common.check_against(&header)?;
        let mut settings = settings.clone();
        settings.adopt(manifest.settings())?;
        settings.check_structures(&header.layout, header.block_bytes)?;
        let directory = directory.map_appends(settings.log_mapped);
        check_stores_are_there(&directory, &manifest)?;
        if !directory.is_read_only() {
            manifest.make_durable()?;
        }
        if let Some(budget) = common.memory_budget {
            check_budget(budget, 1 << header.partitions_log2)?;
        }
        let slots_max = log_slots_max(common.memory_budget, 1 << header.partitions_log2);
        let log_settings = LogSettings {
            format: header.log_format(),
            segment_bytes: settings.log_segment_bytes,
            from: manifest.converted_to(),
            durable: manifest.log_durable(),
        };
        let (log, recovered) = Log::open(&directory, &log_settings, progress)?;
        let partitions = manifest
            .partitions()
            .iter()
            .map(|entry| open_partition(&directory, &header, &settings, slots_max, entry))
            .collect::<Result<Vec<_>>>()?;
        if !directory.is_read_only() {
            manifest.mirror()?;
            // Only now: as long as a file is missing, an apparent orphan may be what is left of it.
            remove_orphans(&directory, &manifest)?;
            manifest.keep(&settings.to_keep())?;
        }
        #[cfg(feature = "mistakes")]
        match settings.mistake {
            Some(Mistake::GoesOnAfterAFailure) => log.health().ignore_failures(),
            Some(Mistake::RecordsFailuresLate) => log.health().record_late(),
            _ => {}
        }
        let configuration = Arc::new(Configuration::new(directory, settings, header));
        let partitions = Partitions::new(&configuration, &log, partitions, slots_max);
        let mut silt = Silt::compose(
            configuration,
            log,
            partitions,
            manifest,
            common.memory_budget,
            recovered.lost_tail_bytes,
        );
        silt.replayed_records = silt.writer.replay(log_settings.from, progress)?;
        silt.memory.rebalance(0);
        silt.scheduler.refresh();
        Ok(silt)
    }
}

/// Returns an error if a live store has no file.
fn check_stores_are_there(directory: &Directory, manifest: &Manifest) -> Result<()> {
    let names = directory.list()?;
    for store in manifest.partitions().iter().flat_map(|partition| &partition.stores) {
        let name = store.file_name();
        if names.binary_search(&name).is_err() {
            return Err(Error::Corrupt {
                file: directory.path_of(&name),
                offset: 0,
                expected: "the file of a live store named by the manifest".into(),
                got: "no such file".into(),
            });
        }
    }
    Ok(())
}

/// Removes files that a crash left: stores that were not complete, or that had been merged.
fn remove_orphans(directory: &Directory, manifest: &Manifest) -> Result<()> {
    let stores = manifest.partitions().iter().flat_map(|partition| &partition.stores);
    let live: HashSet<String> = stores.map(|store| store.file_name()).collect();
    for file in list_files(directory)? {
        let name = file.to_string();
        let is_orphan = match file {
            FileName::NewManifest | FileName::NewMirror => true,
            FileName::HashStore(_) | FileName::SortedStore(_) => !live.contains(&name),
            FileName::Manifest | FileName::Mirror => false,
            // The log removes its own, and the engine has no others.
            FileName::Segment { .. } | FileName::SavedIndex(_) | FileName::KeyRun(_) => false,
        };
        if is_orphan {
            directory.remove(&name)?;
        }
    }
    Ok(())
}

/// Opens a live store. Verification opens it too, so that it reports whatever opening would refuse.
pub(super) fn open_store(directory: &Directory, header: &Header, store: &StoreEntry) -> Result<OrderedTable> {
    OrderedTable::open_on_flash(directory, &store.file_name(), store.tag, header.records())
}

/// Returns the form of a store with this role. The header of a SortedStore states a form other than that of
/// the default index, unless the header is damaged too.
pub(super) fn usual_form(role: Role, header: &Header) -> BlockForm {
    match role {
        Role::CuckooTable => BlockForm::CuckooSlots,
        Role::HashOrdered => HASH_ORDER_FORM,
        Role::Sorted => {
            let index = Some(IndexKind::BlockPerfect);
            TableForm::for_index(&header.layout, header.block_bytes, index).blocks
        }
    }
}

fn open_partition(
    directory: &Directory,
    header: &Header,
    settings: &SiltSettings,
    slots_max: u32,
    entry: &PartitionEntry,
) -> Result<Partition> {
    let mut view = View::default();
    for store in &entry.stores {
        let opened = (store.number, Arc::new(open_store(directory, header, store)?));
        match store.role {
            Role::Sorted => view.sorted = Some(opened),
            Role::CuckooTable | Role::HashOrdered => view.hash_stores.insert(0, opened),
        }
    }
    let keys = view.sorted_records() + view.hash_records();
    let record_bytes = header.layout.slot_bytes(false).unwrap_or(0) as u64;
    let log_store = log_store_settings(settings, record_bytes, keys, slots_max, POSITION_BITS_MAX);
    let active = LogStore::new(log_store, entry.converted_to)?;
    Ok(Partition::new(active, view))
}
