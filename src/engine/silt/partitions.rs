//! All partitions and the log that their LogStores share: lookups, the index of what was appended, and the changes of
//! their stores.

use super::configuration::Configuration;
use super::partition::{Partition, PartitionState};
use super::partition_settings::ChainSettings;
use super::policy::{self, OCCUPANCY, log_store_settings};
use super::ranges;
use super::stores::Stores;
use super::view::{InstalledChain, PartitionSnapshot, View};
use crate::engine::jobs::{has_besides, is_short, reserve_bytes, with_locks};
use crate::error::{Error, Result};
use crate::key::{Key, Route};
use crate::store::log::{Log, LogView};
use crate::store::log_store::{FrozenLog, LogStore, LogStoreSettings};
use crate::store::table::OrderedTable;
use siltstone_device::sync::MutexGuard;
use siltstone_device::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use siltstone_device::{Purpose, with_scratch};
use siltstone_index::run_columns::RunColumnsSettings;
use std::sync::Arc;

/// Counts of LogStores that were frozen because their tables were full.
#[derive(Default)]
pub(super) struct FullTables {
    pub tables: AtomicU64,
    pub records: AtomicU64,
    pub slots: AtomicU64,
}

/// All partitions, and the log that their LogStores share.
pub(super) struct Partitions {
    configuration: Arc<Configuration>,
    log: Arc<Log>,
    partitions: Vec<Partition>,
    /// The maximum number of slots of a LogStore under the memory budget.
    log_slots_max: AtomicU32,
    /// The mean size of a record in bytes, 0 if it is unknown: in the log, with what was overwritten, and in stores.
    record_bytes: AtomicU64,
    stored_record_bytes: AtomicU64,
    pub full_tables: FullTables,
}

impl Partitions {
    pub fn new(
        configuration: &Arc<Configuration>,
        log: &Arc<Log>,
        partitions: Vec<Partition>,
        log_slots_max: u32,
    ) -> Partitions {
        let partitions = Partitions {
            configuration: configuration.clone(),
            log: log.clone(),
            partitions,
            log_slots_max: AtomicU32::new(log_slots_max),
            record_bytes: AtomicU64::new(0),
            stored_record_bytes: AtomicU64::new(0),
            full_tables: FullTables::default(),
        };
        let record_bytes = partitions.stored_record_bytes();
        partitions.record_bytes.store(record_bytes, Relaxed);
        partitions.stored_record_bytes.store(record_bytes, Relaxed);
        let has_chains = configuration.settings.chain.is_some();
        // The first LogStores become full at different times, so that not all are converted at once. Those of an opened
        // database are filled differently already, and runs that are not full would make chains longer.
        for (number, partition) in partitions.iter().enumerate() {
            partition.change(|state| {
                if !has_chains || state.view.hash_stores.is_empty() {
                    state.freeze_at = partitions.staggered(number, &state.active);
                }
                state.log_reach_bytes = partitions.log_reach_bytes(state);
            });
        }
        partitions
    }

    /// Returns the size of a record of a fixed size, otherwise the mean of the records in stores; 0 if there are none.
    fn stored_record_bytes(&self) -> u64 {
        if let Some(slot_bytes) = self.configuration.header.layout.slot_bytes(false) {
            return slot_bytes as u64;
        }
        let (mut bytes, mut records) = (0, 0);
        for view in self.partitions.iter().map(Partition::view) {
            bytes += view.stored_bytes();
            records += view.stored_records();
        }
        bytes / records.max(1)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Partition> {
        self.partitions.iter()
    }

    pub fn len(&self) -> usize {
        self.partitions.len()
    }

    pub fn get(&self, number: usize) -> &Partition {
        &self.partitions[number]
    }

    /// Returns the stores to search for a key.
    #[inline]
    pub fn stores_of(&self, Route { partition, hash }: Route) -> Stores {
        self.partitions[partition].look(|view| {
            let active = view.active.candidates(hash);
            // The segments at the same moment: one that the stores point to is released only after they have changed.
            let log = (!active.is_empty() || !view.frozen.is_empty()).then(|| self.log.readable());
            Stores { active, view, log }
        })
    }

    /// Returns one partition as it is now, with the log that it points into.
    pub fn snapshot_of(&self, number: usize) -> (PartitionSnapshot, LogView) {
        self.partitions[number].read(|state| {
            // The log's view is taken under the state's lock too: no segment that this state needs is released before.
            (snapshot_of(state, self.log.end()), self.log.view())
        })
    }

    /// Returns all partitions at one moment, with the log that they point into.
    pub fn snapshot(&self) -> (Vec<PartitionSnapshot>, LogView) {
        // With all writers locked no batch is half indexed.
        self.with_all_writers(|| {
            // The log's view comes before the states: nothing is appended now, but a commit may release segments that a
            // state which was already read points to.
            let log = self.log.view();
            let end = self.log.end();
            let freeze = |partition: &Partition| partition.read(|state| snapshot_of(state, end));
            (self.partitions.iter().map(freeze).collect(), log)
        })
    }

    /// Locks the writer of a partition.
    #[inline]
    pub fn lock_writer(&self, number: usize) -> MutexGuard<'_, ()> {
        self.partitions[number].writer().lock()
    }

    /// Runs `work` with the writers of these partitions locked.
    pub fn with_writers<T>(
        &self,
        numbers: impl ExactSizeIterator<Item = usize>,
        work: impl FnOnce() -> T,
    ) -> T {
        with_locks(|number| self.partitions[number].writer(), numbers, work)
    }

    /// Runs `work` with all writers locked.
    pub fn with_all_writers<T>(&self, work: impl FnOnce() -> T) -> T {
        self.with_writers(0..self.partitions.len(), work)
    }

    /// Runs `work` with the writer of one partition locked, unless a write has failed: then the log may have records
    /// that the index lacks, and no LogStore may be frozen as if it had them.
    fn with_writer<T>(&self, number: usize, work: impl FnOnce(&Partition) -> Result<T>) -> Result<T> {
        let _locked = self.lock_writer(number);
        self.log.health().run(|| work(&self.partitions[number]))
    }

    /// Returns the position in the log of the record of a key in the LogStore, if there is one. Reads from the log
    /// where a slot has the tag of the key. The caller holds the partition's writer, so this stays true.
    pub fn find(&self, key: Key<'_>, Route { partition, hash }: Route) -> Result<Option<u64>> {
        let candidates = self.partitions[partition].candidates(hash);
        if candidates.is_empty() {
            return Ok(None);
        }
        // The LogStore keeps its segments from release: only a thread with the writer's lock can freeze it.
        let segments = self.log.readable();
        with_scratch(|buffer| {
            for candidate in candidates.iter() {
                // A tag may be that of another key.
                if self.log.read(&segments, Purpose::Put, candidate.position, buffer)?.view(buffer).key
                    == key.bytes()
                {
                    return Ok(Some(candidate.position));
                }
            }
            Ok(None)
        })
    }

    /// Makes the index of a LogStore point to a record that was appended to the log, in place of the record of its key
    /// at `replaced`. Returns false, without a change, if the LogStore has to be frozen first. Reads nothing. The
    /// caller holds the partition's writer.
    pub fn index(
        &self,
        Route { partition, hash }: Route,
        replaced: Option<u64>,
        position: u64,
    ) -> Result<bool> {
        self.partitions[partition].change(|state| {
            if let Some(replaced) = replaced {
                // Looked up again: earlier records of the batch may have moved the slot, or frozen the LogStore.
                let candidates = state.active.candidates(hash);
                let slot = candidates.iter().find(|candidate| candidate.position == replaced);
                if slot.is_some_and(|candidate| state.active.replace(candidate.slot, position)) {
                    return Ok(true);
                }
            }
            if state.active.is_empty() {
                // Positions are stored as distances from the start, which the other partitions may have moved far away.
                state.active.restart(position);
            }
            // If it is due or full, the caller frees memory for the next table before it freezes, without this lock.
            Ok(!state.is_due(position) && state.active.insert(hash, position)?)
        })
    }

    /// Freezes the LogStore, and indexes the record in the next one. The caller holds the partition's writer.
    pub fn freeze_and_index(&self, Route { partition, hash }: Route, position: u64) -> Result<()> {
        self.partitions[partition].change(|state| {
            if !state.is_due(position) {
                self.full_tables.tables.fetch_add(1, Relaxed);
                self.full_tables.records.fetch_add(state.active.len().into(), Relaxed);
                self.full_tables.slots.fetch_add(state.active.slots().into(), Relaxed);
            }
            // The record at `position` is not in this LogStore, so that is where its part of the log ends.
            self.freeze(state, position)?;
            if state.active.insert(hash, position)? {
                return Ok(());
            }
            let slots = state.active.slots();
            let problem = format!("a table of {slots} slots cannot hold a single key; use more slots");
            Err(Error::Setting { name: "log_slots_min", problem })
        })
    }

    /// Freezes the LogStore as it is, and starts the next one, for records from `position` on.
    fn freeze(&self, state: &mut PartitionState, position: u64) -> Result<()> {
        if self.configuration.header.layout.fixed.is_none()
            && let Some(bytes) = policy::log_bytes_per_record(&state.active, position)
        {
            self.record_bytes.store((bytes / self.partitions.len() as f64) as u64, Relaxed);
        }
        // The last bytes that were frozen are not in a store yet, which does not matter.
        let mean = state.view.stored_bytes().checked_div(state.view.stored_records());
        if let Some(mean) = mean.filter(|mean| *mean > 0) {
            self.stored_record_bytes.store(mean, Relaxed);
        }
        // Every record of the partition before `position` is in it or in older stores: `converted_to` relies on that.
        let frozen = Arc::new(state.active.freeze(position));
        let mut view = (*state.view).clone();
        // Lookups search from the newest to the oldest.
        view.frozen.insert(0, frozen);
        let settings = |position_bits| self.log_store_settings(state.view.stored_records(), position_bits);
        let position_bits = policy::position_bits(&state.active, position, settings(0).slots());
        state.active = LogStore::new(settings(position_bits), position)?;
        state.freeze_at = u32::MAX;
        state.log_reach_bytes = self.log_reach_bytes(state);
        // With the new LogStore under one lock: a lookup finds each record in one of the two.
        state.view = Arc::new(view);
        Ok(())
    }

    /// Freezes a LogStore that is not full, if it has records. The next one is frozen at a record count that differs
    /// between partitions, since all partitions may be frozen early at the same time.
    pub fn freeze_early(&self, number: usize) -> Result<()> {
        let freeze = |state: &mut PartitionState| {
            if !state.active.is_empty() {
                // With the writer locked, no record of the partition before this end is still to be indexed.
                self.freeze(state, self.log.end())?;
                state.freeze_at = self.staggered(number, &state.active);
            }
            Ok(())
        };
        self.with_writer(number, |partition| partition.change(freeze))
    }

    /// Returns the mean size of a record in bytes, as in the last LogStore that was frozen; 0 if it is unknown.
    pub fn record_bytes(&self) -> u64 {
        self.record_bytes.load(Relaxed)
    }

    /// Sets the most slots of a LogStore.
    pub fn limit_log_slots(&self, slots_max: u32) {
        self.log_slots_max.store(slots_max, Relaxed);
    }

    /// Freezes LogStores that are larger than the limit, and replaces them by smaller ones.
    pub fn shrink_log_stores(&self) -> Result<()> {
        let slots_max = self.log_slots_max.load(Relaxed);
        for (number, partition) in self.partitions.iter().enumerate() {
            if partition.read(|state| state.active.slots() / 2 <= slots_max) {
                continue;
            }
            self.freeze_early(number)?;
            let replace = |state: &mut PartitionState| {
                // An empty LogStore was not frozen. One with records was created after the limit was set.
                if state.active.is_empty() {
                    let keys = state.view.stored_records();
                    let settings = self.log_store_settings(keys, state.active.position_bits());
                    state.active = LogStore::new(settings, state.active.start())?;
                    state.log_reach_bytes = self.log_reach_bytes(state);
                }
                Ok(())
            };
            self.with_writer(number, |partition| partition.change(replace))?;
        }
        Ok(())
    }

    /// Returns the record count at which the first LogStore of a partition is frozen.
    fn staggered(&self, number: usize, active: &LogStore) -> u32 {
        let share = (number + 1) as f64 / self.partitions.len() as f64;
        if share < 1.0 { (f64::from(active.slots()) * OCCUPANCY * share).ceil() as u32 } else { u32::MAX }
    }

    /// Returns the settings of the next LogStore of a partition with this many keys.
    fn log_store_settings(&self, partition_keys: u64, position_bits: u8) -> LogStoreSettings {
        let slots_max = self.log_slots_max.load(Relaxed);
        let settings = &self.configuration.settings;
        log_store_settings(settings, self.record_bytes(), partition_keys, slots_max, position_bits)
    }

    /// Returns the most bytes of log between the first and the last record of a LogStore, which follow from its slots
    /// and the size of the SortedStore.
    fn log_reach_bytes(&self, state: &PartitionState) -> u64 {
        let sorted_bytes = state.view.sorted.as_ref().map_or(0, |(_, store)| store.file().length());
        let data_bytes = self.partitions.len() as u64 * sorted_bytes;
        let record_bytes = match self.stored_record_bytes.load(Relaxed) {
            0 => policy::LOG_RECORD_BYTES,
            known => known,
        };
        let full = u64::from(state.active.slots()) * record_bytes * self.partitions.len() as u64;
        policy::log_reach_bytes(&self.configuration.settings, data_bytes, full)
    }

    /// Returns how many bytes puts leave free. A merge writes a partition before it frees what it replaces: one of the
    /// largest partition, or all that are in progress. The log is freed after all of its records were written to
    /// stores.
    pub fn reserve_bytes(&self) -> u64 {
        let (mut all, mut largest, mut merging) = (0, 0, 0);
        for partition in &self.partitions {
            let bytes = partition.view().disk_bytes();
            all += bytes;
            largest = largest.max(bytes);
            merging += if partition.is_merging() { bytes } else { 0 };
        }
        let log_bytes = self.log.end() - self.log.start();
        reserve_bytes(all + log_bytes, largest.max(merging) + log_bytes)
    }

    /// Returns whether the file system has less than the reserve.
    pub fn is_short(&self) -> bool {
        is_short(&self.configuration.directory, self.reserve_bytes())
    }

    /// Returns whether the file system has space for a merge of a partition besides those in progress.
    pub fn has_space_for_merge(&self, number: usize) -> bool {
        let bytes = self.partitions[number].view().disk_bytes();
        has_besides(&self.configuration.directory, self.reserve_bytes(), bytes)
    }

    /// Returns the end of the log, if all records of the partition in the log are in these LogStores; then the
    /// partition needs no part of the log once they are merged. Otherwise the end of the last of them, or 0.
    pub fn log_end_without(&self, number: usize, merged: &[Arc<FrozenLog>]) -> Result<u64> {
        // With the writer locked, no record is appended and not yet indexed.
        self.with_writer(number, |partition| {
            let end = self.log.end();
            let is_merged = |frozen: &Arc<_>| merged.iter().any(|merged| Arc::ptr_eq(frozen, merged));
            partition.change(|state| {
                if state.active.is_empty() && state.view.frozen.iter().all(is_merged) {
                    // The LogStore is empty. Started at the end, it needs no earlier part of the log, and is not idle.
                    state.active.restart(end);
                    return Ok(end);
                }
                Ok(merged.iter().map(|frozen| frozen.end()).max().unwrap_or(0))
            })
        })
    }

    /// Returns how the next run of a partition is cut into columns: as the runs that it has.
    pub fn columns_of_runs(&self, number: usize, chain: &ChainSettings) -> RunColumnsSettings {
        let partition = &self.partitions[number];
        if partition.ranges() == 0 {
            partition.set_ranges(self.ranges_for(partition.view().stored_records(), chain));
        }
        RunColumnsSettings { ranges: partition.ranges(), filter_bits: chain.filter_bits }
    }

    /// Returns the number of ranges for a partition with this many keys in its oldest run.
    pub fn ranges_for(&self, keys: u64, chain: &ChainSettings) -> u32 {
        ranges::ranges(&self.configuration.settings, chain, self.len(), keys, self.record_bytes())
    }

    /// Returns the number of prefixes of the prefilter of a partition with this many keys in its oldest run.
    pub fn prefixes_for(&self, keys: u64, chain: &ChainSettings) -> u64 {
        ranges::prefixes(&self.configuration.settings, chain, self.len(), keys, self.record_bytes())
    }

    /// Replaces a frozen LogStore by the HashStore that was made of it.
    pub fn install_hash_store(
        &self,
        number: usize,
        frozen: &Arc<FrozenLog>,
        store: (u64, Arc<OrderedTable>),
    ) {
        // In one change of the view, so that every lookup finds the records in one of the two stores.
        self.partitions[number].change_view(|view| {
            let mut view = view.clone();
            view.frozen.retain(|other| !Arc::ptr_eq(other, frozen));
            view.hash_stores.insert(0, store);
            Some(view)
        });
    }

    /// Replaces merged stores by a SortedStore. Returns the view before.
    pub fn install_sorted(
        &self,
        number: usize,
        frozen: &[Arc<FrozenLog>],
        inputs: &[u64],
        store: (u64, Arc<OrderedTable>),
        chain: Option<InstalledChain>,
    ) -> Arc<View> {
        let before = self.partitions[number].change_view(|view| {
            let mut view = view.clone();
            view.frozen.retain(|other| !frozen.iter().any(|merged| Arc::ptr_eq(other, merged)));
            // A HashStore that a conversion has added since is newer than all inputs, and stays.
            view.hash_stores.retain(|(number, _)| !inputs.contains(number));
            view.sorted = Some(store);
            view.merged = None;
            (view.chain, view.prefilter) = match chain {
                Some(InstalledChain { number, chain, prefilter }) => (Some((number, chain)), prefilter),
                None => (None, None),
            };
            Some(view)
        });
        self.partitions[number].change(|state| state.log_reach_bytes = self.log_reach_bytes(state));
        before
    }

    /// Replaces the chain by one of all stores but the newest. The filters and fences of its stores leave memory.
    /// Returns the view before.
    pub fn install_chain(&self, partition: usize, installed: InstalledChain) -> Arc<View> {
        let InstalledChain { number, chain, prefilter } = installed;
        self.partitions[partition].change_view(|view| {
            let mut view = View { chain: Some((number, chain)), prefilter, ..view.clone() };
            let unchained = view.unchained();
            let stores = view.hash_stores.iter_mut().chain(&mut view.sorted);
            let is_in_memory = |store: &OrderedTable| store.index().is_some() || store.filter().is_some();
            for (_, store) in stores.skip(unchained).filter(|(_, store)| is_in_memory(store)) {
                // Lookups that hold the old view keep index and filter until they end.
                *store = Arc::new(store.without_index().without_filter());
            }
            Some(view)
        })
    }
}

/// Returns a partition as it is now. `end` is the end of the log.
fn snapshot_of(state: &PartitionState, end: u64) -> PartitionSnapshot {
    PartitionSnapshot { active: Arc::new(state.active.freeze(end)), view: state.view.clone() }
}
