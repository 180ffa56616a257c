//! Creating a database, and opening one after whatever ended it (SILT 4, crash tolerance): the manifest names the live
//! stores, whose indexes and filters stay on flash until `residency` reads them back; only the log is replayed, from
//! the first record that stands in no store.

#[cfg(feature = "mistakes")]
use super::Mistake;
use super::jobs::Jobs;
use super::ledger::Ledger;
use super::live::{Manifest, PartitionEntry, Role, StoreEntry};
use super::partition::{Partition, State, View};
use super::policy::{POSITION_BITS_MAX, log_store_settings};
use super::residency::{Residency, check_budget};
use super::{Core, Counters, Silt, SiltSettings};
use crate::cache::RecordCache;
use crate::device::{AlignedBuffer, Directory};
use crate::engine::common::CommonSettings;
use crate::engine::settings::SettingsTable;
use crate::health::FailStop;
use crate::progress::Progress;
use crate::store::cuckoo::CuckooTable;
use crate::store::hash_store::HashStore;
use crate::store::log::{Log, LogSettings};
use crate::store::log_store::LogStore;
use crate::store::manifest::Header;
use crate::store::names::{FileName, list_files};
use crate::store::ordered::OrderedTable;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{Mutex, RwLock};
use crate::{Error, Result};
use std::collections::HashSet;
use std::sync::Arc;

impl Silt {
    /// Opens a database. In a directory that may only be read ([`Directory::is_read_only`]) nothing is changed: what
    /// was being written when the system went down is left out and not cut off, the log is replayed into memory, and
    /// every write, sync and compaction is answered with [`Error::ReadOnly`].
    ///
    /// # Errors
    /// [`Error::Corrupt`] for everything that verifying a closed database reports of what is opened here: the manifest,
    /// the log, and the ends and indexes of stores.
    pub fn open(
        directory: Directory,
        settings: &SiltSettings,
        common: &CommonSettings,
        progress: &mut Progress<'_>,
    ) -> Result<Silt> {
        let mut manifest = Manifest::open(&directory)?.rewrite_beyond(settings.manifest_bytes_max);
        let shape = *manifest.header();
        common.check_against(&shape)?;
        let mut settings = settings.clone();
        settings.adopt(manifest.settings())?;
        settings.check_structures(&shape.layout, shape.block_bytes)?;
        check_stores_are_there(&directory, &manifest)?;
        if !directory.is_read_only() {
            manifest.make_durable()?;
        }
        let placing = shape.records().placing;
        if let Some(budget) = common.memory_budget {
            check_budget(budget, 1 << shape.partitions_log2)?;
        }
        let residency = Residency::new(common.memory_budget);
        let slots_max = residency.log_slots_max(1 << shape.partitions_log2);
        let converted = || manifest.partitions().iter().map(|partition| partition.converted_to);
        let log_settings = LogSettings {
            format: shape.log_format(),
            segment_bytes: settings.log_segment_bytes,
            from: converted().min().unwrap_or(0),
            durable: converted().max().unwrap_or(0).max(manifest.log_synced()),
        };
        let (log, recovered) = Log::open(&directory, &log_settings, progress)?;
        let partitions = manifest
            .partitions()
            .iter()
            .map(|entry| open_partition(&directory, &shape, &settings, slots_max, entry))
            .collect::<Result<Vec<_>>>()?;
        if !directory.is_read_only() {
            manifest.mirror()?;
            // Only now: as long as anything is missing, what seems to be an orphan may be what is left of it.
            remove_orphans(&directory, &manifest)?;
            manifest.keep(&settings.to_keep())?;
        }
        let counters = Counters { lost_tail_bytes: recovered.lost_tail_bytes, ..Counters::default() };
        let health = log.health().clone();
        #[cfg(feature = "mistakes")]
        match settings.mistake {
            Some(Mistake::GoesOnAfterAFailure) => health.ignore_failures(),
            Some(Mistake::RecordsFailuresLate) => health.record_late(),
            _ => {}
        }
        let mut core = Core {
            jobs: Jobs::new(partitions.len(), &health),
            directory,
            settings,
            shape,
            placing,
            log,
            partitions,
            residency,
            cache: RecordCache::new(0),
            next_store_number: AtomicU64::new(manifest.next_number()),
            pending_commits: AtomicU64::new(0),
            log_stated: AtomicU64::new(manifest.log_synced()),
            keys: AtomicU64::new(0),
            ledger: FailStop::new(&health, Ledger::new(manifest)),
            counters,
            ram_peak: Mutex::default(),
            health,
            closed: AtomicBool::new(false),
        };
        if core.residency.budget().is_some() {
            core.cache.enable();
        }
        core.apply_budget();
        core.stagger();
        core.counters.replayed_records = core.replay(log_settings.from, progress)?;
        core.rebalance(0);
        core.refresh_jobs();
        Ok(Silt { core: Arc::new(core) })
    }
}

impl Core {
    fn stagger(&self) {
        for (number, partition) in self.partitions.iter().enumerate() {
            let mut state = partition.state.write();
            state.freeze_at = self.staggered(number, &state.active);
        }
    }

    /// Indexes every record of the log that stands in no store.
    fn replay(&self, from: u64, progress: &mut Progress<'_>) -> Result<u64> {
        let starts: Vec<u64> =
            self.partitions.iter().map(|partition| partition.state.read().active.start()).collect();
        let mut replayed = 0;
        let mut buffer = AlignedBuffer::default();
        self.log.scan(from, progress, &mut |position, record| {
            let key = self.placing.hasher.key(record.key);
            let (number, _) = self.place(key);
            if position < starts[number] {
                return Ok(());
            }
            replayed += 1;
            self.index_record(key, position, &mut buffer)
        })?;
        Ok(replayed)
    }
}

/// An error if a live store has no file.
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

/// Removes what a crash left of stores that never came to be, or that had been merged.
fn remove_orphans(directory: &Directory, manifest: &Manifest) -> Result<()> {
    let stores = manifest.partitions().iter().flat_map(|partition| &partition.stores);
    let live: HashSet<String> = stores.map(|store| store.file_name()).collect();
    for file in list_files(directory)? {
        let name = file.to_string();
        let is_orphan = match file {
            FileName::NewManifest | FileName::NewMirror => true,
            FileName::HashStore(_) | FileName::SortedStore(_) => !live.contains(&name),
            FileName::Manifest | FileName::Mirror | FileName::Segment(_) => false,
        };
        if is_orphan {
            directory.remove(&name)?;
        }
    }
    Ok(())
}

/// Opens a live store. Verifying does it too, so that it reports whatever opening would refuse.
pub(super) fn open_store(directory: &Directory, shape: &Header, store: &StoreEntry) -> Result<HashStore> {
    let (tag, name) = (store.tag, store.file_name());
    Ok(match store.role {
        Role::CuckooTable => {
            HashStore::Cuckoo(Arc::new(CuckooTable::open(directory, &name, tag, shape.records())?))
        }
        Role::HashOrdered | Role::Sorted => {
            HashStore::Ordered(Arc::new(OrderedTable::open_on_flash(directory, &name, tag, shape.records())?))
        }
    })
}

fn open_partition(
    directory: &Directory,
    shape: &Header,
    settings: &SiltSettings,
    slots_max: u32,
    entry: &PartitionEntry,
) -> Result<Partition> {
    let mut view = View::default();
    for store in &entry.stores {
        match (store.role, open_store(directory, shape, store)?) {
            (Role::Sorted, HashStore::Ordered(opened)) => view.sorted = Some((store.number, opened)),
            (_, opened) => view.hash_stores.insert(0, (store.number, opened)),
        }
    }
    let keys = view.sorted_records() + view.hash_records();
    let log_store = log_store_settings(settings, keys, slots_max, POSITION_BITS_MAX);
    let active = LogStore::new(log_store, entry.converted_to)?;
    Ok(Partition {
        writer: Mutex::new(()),
        state: RwLock::new(State { active, freeze_at: u32::MAX, view: Arc::new(view) }),
    })
}
