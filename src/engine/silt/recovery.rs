//! Opens a database after a clean end or a crash (SILT 4, crash tolerance). The manifest lists the live stores; their
//! indexes and filters stay on flash until `memory_budget` reads them back. The log is replayed from the first record
//! that is in no store.
//!
//! 1. The manifest is read. It lists the live stores; it and the directory are synced before anything depends on it.
//! 2. The log is examined from the first record that is in no store, with every frame checked, by the code that verify
//!    and repair use (`store::examine`). Damage is an error. A torn end is cut off, and segments that are not needed
//!    are removed; the manifest and the sync markers in the log state what was synced, which distinguishes damage from
//!    a torn end.
//! 3. The stores are opened: header and footer are read, of block-perfect indexes also the outline, of cuckoo tables
//!    the filter. Files of the database that are not in the manifest are removed.
//! 4. The records of the log are indexed again, and the database is ready. As under a small memory budget, the other
//!    indexes and filters are read back in background steps.
//!
//! A read-only open examines in the same way and changes nothing.

use super::chain::ranges_of;
use super::configuration::Configuration;
use super::engine::SiltEngine;
use super::live::{Manifest, PartitionEntry, Role, StoreEntry};
use super::memory_budget::log_slots_max;
use super::partition::Partition;
#[cfg(feature = "mistakes")]
use super::partition_settings::Mistake;
use super::partition_settings::PartitionSettings;
use super::partitions::Partitions;
use super::policy::{OCCUPANCY, POSITION_BITS_MAX, log_store_settings};
use super::view::View;
use crate::error::{CorruptFile, Error, Result};
use crate::names::FileName;
use crate::progress::Progress;
use crate::store::chain::Chain;
use crate::store::hash_store::HASH_ORDER_FORM;
use crate::store::list_files;
use crate::store::log::{Log, LogSettings};
use crate::store::log_store::LogStore;
use crate::store::manifest::{Header, KeptSettings};
use crate::store::table::{BlockForm, IndexKind, OrderedTable, TableForm};
use siltstone_device::Directory;
use std::collections::HashSet;
use std::sync::Arc;

/// The maximum number of slots of a LogStore.
pub const LOG_SLOTS_MAX: u32 = 1 << 24;
/// No partition has more random keys than the mean and this many standard deviations.
pub const MOST_DEVIATIONS: f64 = 4.0;
/// A full table may have a lower occupancy than the mean, by this share of its slots.
pub const OCCUPANCY_DEVIATION: f64 = 0.04;

impl SiltEngine {
    /// Opens a database whose manifest was read, and keeps the settings `to_keep` from now on. See
    /// [`SiltFamilySettings`](super::SiltFamilySettings).
    pub(super) fn open(
        mut configuration: Configuration,
        manifest: Manifest,
        to_keep: &KeptSettings,
        memory_budget: Option<u64>,
        progress: &mut Progress<'_>,
    ) -> Result<SiltEngine> {
        let partitions = configuration.partitions() as u64;
        configuration.settings = with_expected_keys(configuration.settings, partitions);
        let Configuration { directory, settings, header, .. } = &configuration;
        let mut manifest = manifest.rewrite_beyond(settings.manifest_bytes_max);
        // First: a database that lacks a store is refused as it is, with every file that a repair may use.
        check_stores_are_there(directory, &manifest)?;
        if !directory.is_read_only() {
            // `Log::open` removes segments that these commits no longer need, so the commits must survive a power loss
            // first.
            manifest.make_durable()?;
        }
        let slots_max = log_slots_max(memory_budget, configuration.partitions());
        let log_settings = LogSettings {
            format: header.log_format(),
            segment_bytes: settings.log_segment_bytes,
            // The minimum over all partitions: the store of one partition does not replace the log of another.
            from: manifest.converted_to(),
            // Every commit was preceded by a sync of the log up to what it states: bytes that are missing before are
            // damage.
            durable: manifest.log_durable(),
        };
        let (log, recovered) = Log::open(directory, &log_settings, progress)?;
        let partitions = manifest
            .partitions()
            .iter()
            .map(|entry| open_partition(directory, header, settings, slots_max, entry))
            .collect::<Result<Vec<_>>>()?;
        if !directory.is_read_only() {
            // Log and stores were opened, so the database is of this version: a missing mirror may be created.
            manifest.mirror()?;
            // Only now: as long as a file is missing, an apparent orphan may be what is left of it.
            remove_orphans(directory, &manifest)?;
            manifest.keep(to_keep)?;
        }
        #[cfg(feature = "mistakes")]
        match settings.mistake {
            Some(Mistake::GoesOnAfterAFailure) => log.health().ignore_failures(),
            Some(Mistake::RecordsFailuresLate) => log.health().record_late(),
            _ => {}
        }
        let configuration = Arc::new(configuration);
        let partitions = Partitions::new(&configuration, &log, partitions, slots_max);
        let lost_tail_bytes = recovered.lost_tail_bytes;
        let mut engine =
            SiltEngine::compose(configuration, log, partitions, manifest, memory_budget, lost_tail_bytes);
        // No other thread has the engine yet, so the replay indexes records without the locks of writers.
        engine.replayed_records = engine.writer.replay(log_settings.from, progress)?;
        engine.parts.memory.rebalance(0);
        engine.scheduler.refresh();
        Ok(engine)
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
            // No commit names it: its records are still in the log, or in the stores that it would have replaced.
            FileName::HashStore(_) | FileName::SortedStore(_) | FileName::Chain(_) => !live.contains(&name),
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

/// Opens a live store. Verification opens it too, so that it reports whatever an open would refuse.
pub(super) fn open_store(directory: &Directory, header: &Header, store: &StoreEntry) -> Result<OrderedTable> {
    OrderedTable::open_on_flash(directory, &store.file_name(), store.tag, header.records())
}

/// Opens the chain of a partition, and checks that it is one of its oldest stores.
pub(super) fn open_chain(directory: &Directory, entry: &PartitionEntry, chain: &StoreEntry) -> Result<Chain> {
    let opened = Chain::open(directory, &chain.file_name(), chain.tag)?;
    // The chain locates runs by their age. In another order, a get would find an older record first.
    let mut stores = entry.stores.iter().filter(|store| store.role != Role::Chain);
    if opened.runs().iter().all(|run| stores.next().is_some_and(|store| store.number == run.number)) {
        return Ok(opened);
    }
    let file = opened.file();
    Err(file.file().corrupt(
        file.length(),
        "the chain of the oldest stores of its partition",
        "another chain",
    ))
}

/// Returns the form of a store with this role. The header of a SortedStore states a form other than that of
/// the default index, unless the header is damaged too.
pub(super) fn usual_form(role: Role, header: &Header, has_chain: bool) -> BlockForm {
    match role {
        Role::Sorted if has_chain => BlockForm::Stream,
        Role::CuckooTable => BlockForm::CuckooSlots,
        Role::HashOrdered => HASH_ORDER_FORM,
        // A chain has no records.
        Role::Sorted | Role::Chain => {
            let index = Some(IndexKind::BlockPerfect);
            TableForm::for_index(&header.layout, header.block_bytes, index).blocks
        }
    }
}

/// Returns the settings with larger LogStores, if needed: a chain of full length then has the expected keys, also in
/// the partition that has most of them.
fn with_expected_keys(settings: PartitionSettings, partitions: u64) -> PartitionSettings {
    let Some(chain) = &settings.chain else { return settings };
    let keys = chain.expected_keys as f64 / partitions as f64;
    let records = (keys + MOST_DEVIATIONS * keys.sqrt()) / f64::from(chain.chain_length);
    let wanted = (records / (OCCUPANCY - OCCUPANCY_DEVIATION)).ceil().min(f64::from(LOG_SLOTS_MAX)) as u32;
    let mut log_slots_min = settings.log_slots_min.max(wanted);
    loop {
        let settings = PartitionSettings { log_slots_min, ..settings.clone() };
        // A LogStore has whole regions, which may have fewer slots.
        if log_store_settings(&settings, 0, 0, LOG_SLOTS_MAX, POSITION_BITS_MAX).slots() >= wanted {
            return settings;
        }
        log_slots_min += wanted / 16 + 1;
    }
}

fn open_partition(
    directory: &Directory,
    header: &Header,
    settings: &PartitionSettings,
    slots_max: u32,
    entry: &PartitionEntry,
) -> Result<Partition> {
    let mut view = View::default();
    for store in &entry.stores {
        if store.role == Role::Chain {
            view.chain = Some((store.number, Arc::new(open_chain(directory, entry, store)?)));
            continue;
        }
        let opened = (store.number, Arc::new(open_store(directory, header, store)?));
        match store.role {
            Role::Sorted => view.sorted = Some(opened),
            // The manifest lists the oldest store first, the view the newest.
            _ => view.hash_stores.insert(0, opened),
        }
    }
    let ranges = if settings.chain.is_some() { ranges_of(&mut view) } else { 0 };
    let keys = view.stored_records();
    let record_bytes = header.layout.slot_bytes(false).unwrap_or(0) as u64;
    let log_store = log_store_settings(settings, record_bytes, keys, slots_max, POSITION_BITS_MAX);
    // The replay skips records before this start: they are in the stores of the partition.
    let active = LogStore::new(log_store, entry.converted_to)?;
    Ok(Partition::new(active, view, ranges))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BloomStoreSettings;
    use crate::engine::silt::SiltFamilySettings;

    #[test]
    fn the_log_stores_of_a_full_chain_have_slots_for_all_expected_keys() {
        for step in 0..120 {
            let keys = (10_000.0 * 1.09f64.powi(step)) as u64;
            for (partitions, chain_length) in [(2, 8), (16, 96), (64, 192)] {
                let settings = BloomStoreSettings::default().chain_length(chain_length).expected_keys(keys);
                let settings = with_expected_keys(settings.of_partitions(), partitions);
                let log_store = log_store_settings(&settings, 0, 0, LOG_SLOTS_MAX, POSITION_BITS_MAX);
                let slots = u64::from(log_store.slots()) * u64::from(chain_length) * partitions;
                let is_largest = log_store.slots() == LOG_SLOTS_MAX;
                assert!(is_largest || slots as f64 * OCCUPANCY > keys as f64, "{keys} keys: {slots} slots");
            }
        }
    }
}
