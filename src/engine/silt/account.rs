//! The accounts of the engine: memory by item, records, bytes on flash.

use super::live::Role;
use super::{Core, INFO};
use crate::device::scratch_bytes;
use crate::engine::settings::SettingsTable;
use crate::key::KeyHasher;
use crate::stats::{DegradedStore, RamAccount, Shape, Stats, StoreKind};
use crate::store::hash_store::HashStore;
use crate::store::manifest::FORMAT_VERSION;
use crate::store::ordered::OrderedTable;
use std::sync::atomic::Ordering::Relaxed;

/// What an open store takes beside its index and filter: its handle, its name, its place in the lists, in bytes.
pub const STORE_BYTES: u64 = 800;
/// What a partition takes beside its stores: its locks, its lists, what is known of its LogStore, in bytes.
pub const PARTITION_BYTES: u64 = 640;

impl Core {
    /// What shapes the records.
    pub(super) fn shape(&self) -> Shape {
        Shape {
            fixed: self.shape.layout.fixed,
            hashed_keys: self.shape.hasher == KeyHasher::Identity,
            expiring: self.shape.layout.expiring,
            partitions: 1 << self.shape.partitions_log2,
            block_bytes: self.shape.block_bytes,
            format_version: FORMAT_VERSION,
        }
    }

    /// The structures of the stores, and how many have each.
    fn store_kinds(&self) -> Vec<StoreKind> {
        let mut kinds: Vec<StoreKind> = Vec::new();
        for partition in &self.partitions {
            let view = partition.state.read().view.clone();
            let ordered = view.ordered_stores().map(|(_, role, store)| {
                let name = if role == Role::Sorted { "sorted" } else { "hash" };
                let (index, filter) = store.kind_names();
                (name, index, filter)
            });
            let tables = view.hash_stores.iter().filter(|(_, store)| matches!(store, HashStore::Cuckoo(_)));
            for (store, index, filter) in
                ordered.chain(tables.map(|_| ("hash", "cuckoo_table", "cuckoo_tags")))
            {
                let is_same =
                    |kind: &&mut StoreKind| (kind.store, kind.index, kind.filter) == (store, index, filter);
                match kinds.iter_mut().find(is_same) {
                    Some(kind) => kind.count += 1,
                    None => kinds.push(StoreKind { store, index, filter, count: 1 }),
                }
            }
        }
        kinds
    }

    /// Memory by item, now.
    pub(super) fn ram(&self) -> RamAccount {
        let mut ram = RamAccount::default();
        for partition in &self.partitions {
            let (active_bytes, view) = {
                let state = partition.state.read();
                (state.active.heap_bytes(), state.view.clone())
            };
            ram.add("log_index", active_bytes as u64);
            let frozen = view.frozen.iter().map(|frozen| frozen.heap_bytes() as u64).sum();
            ram.add("frozen_log_index", frozen);
            let hash_stores = || view.hash_stores.iter().map(|(_, store)| store);
            ram.add("hash_filter", hash_stores().map(|store| store.filter_bytes() as u64).sum());
            ram.add("hash_index", hash_stores().map(|store| store.index_bytes() as u64).sum());
            let of_sorted = |bytes: fn(&OrderedTable) -> usize| {
                view.sorted.as_ref().map_or(0, |(_, store)| bytes(store) as u64)
            };
            ram.add("sorted_index", of_sorted(OrderedTable::index_bytes));
            ram.add("sorted_filter", of_sorted(OrderedTable::filter_bytes));
            let stores = view.hash_stores.len() as u64 + u64::from(view.sorted.is_some());
            ram.add("stores", stores * STORE_BYTES + PARTITION_BYTES);
        }
        ram.add("log_buffer", self.log.heap_bytes() as u64);
        ram.add("convert_buffers", self.jobs.convert_bytes.load(Relaxed));
        ram.add("merge_buffers", self.jobs.merge_bytes.load(Relaxed));
        ram.add("read_buffers", scratch_bytes() as u64 + self.residency.batch_bytes.load(Relaxed));
        if self.cache.is_enabled() {
            ram.add("record_cache", self.cache.heap_bytes() as u64);
        }
        ram
    }

    /// Keeps the account if it is the highest so far.
    pub(super) fn note_ram_peak(&self) -> u64 {
        let ram = self.ram();
        let total_bytes = ram.total_bytes();
        {
            let mut peak = self.ram_peak.lock();
            if total_bytes > peak.total_bytes() {
                *peak = ram;
            }
        }
        total_bytes
    }

    pub(super) fn stats(&self) -> Stats {
        self.note_ram_peak();
        // One lock at a time: a checkpoint holds the ledger while it waits for writers, and they note the peak.
        let manifest_bytes = self.ledger.look(|ledger| ledger.manifest.disk_bytes());
        let ram_peak = self.ram_peak.lock().clone();
        // Not above the peak: other databases of the process may have taken buffers meanwhile.
        let ram = self.ram();
        let ram_peak = if ram.total_bytes() > ram_peak.total_bytes() { ram.clone() } else { ram_peak };
        let mut stats = Stats {
            engine: INFO.name,
            shape: self.shape(),
            settings: self.settings.values(),
            stores: self.store_kinds(),
            writes: self.counters.writes.load(Relaxed),
            user_bytes: self.counters.user_bytes.load(Relaxed),
            io: self.directory.io(),
            ram,
            ram_peak,
            disk_bytes: self.log.disk_bytes() + manifest_bytes,
            replayed_records: self.counters.replayed_records,
            lost_tail_bytes: self.counters.lost_tail_bytes,
            ..Stats::default()
        };
        let (mut hash_stores, mut hash_records, mut log_records, mut frozen) = (0, 0, 0, 0);
        for partition in &self.partitions {
            let (active, view) = {
                let state = partition.state.read();
                (u64::from(state.active.len()), state.view.clone())
            };
            log_records += active + view.frozen_records();
            frozen += view.frozen.len();
            hash_stores += view.hash_stores.len();
            hash_records += view.hash_records();
            stats.merged_records += view.sorted_records();
            stats.disk_bytes += view.disk_bytes();
        }
        stats.records = stats.merged_records + hash_records + log_records;
        stats.degraded = self.degraded();
        let on_flash = |part: fn(&DegradedStore) -> bool| {
            stats.degraded.iter().filter(|store| part(store)).count() as f64
        };
        let (hits, misses) = self.cache.hits_and_misses();
        let slots = self.counters.full_table_slots.load(Relaxed);
        let full_records = self.counters.full_table_records.load(Relaxed) as f64;
        stats.details = vec![
            ("partitions", self.partitions.len() as f64),
            ("log_records", log_records as f64),
            ("log_stores_frozen", frozen as f64),
            ("hash_stores", hash_stores as f64),
            ("hash_records", hash_records as f64),
            ("sorted_records", stats.merged_records as f64),
            ("conversions", self.counters.conversions.load(Relaxed) as f64),
            ("merges", self.counters.merges.load(Relaxed) as f64),
            ("full_tables", self.counters.full_tables.load(Relaxed) as f64),
            ("full_table_occupancy", if slots > 0 { full_records / slots as f64 } else { 0.0 }),
            ("pressure", self.jobs.pressure()),
            ("indexes_on_flash", on_flash(|store| store.index_on_flash)),
            ("filters_on_flash", on_flash(|store| store.filter_on_flash)),
            ("unreadable_sections", self.residency.unreadable() as f64),
            ("record_cache_records", self.cache.len() as f64),
            ("record_cache_hits", hits as f64),
            ("record_cache_misses", misses as f64),
        ];
        if let Some((open, max)) = self.directory.open_files() {
            stats.details.extend([("open_files", open as f64), ("open_files_max", max as f64)]);
        }
        stats
    }

    /// The stores of which something is on flash that could be in memory.
    fn degraded(&self) -> Vec<DegradedStore> {
        let mut degraded: Vec<DegradedStore> = Vec::new();
        for partition in &self.partitions {
            let view = partition.state.read().view.clone();
            for (number, role, store) in view.ordered_stores() {
                let (index_on_flash, filter_on_flash) = (!store.has_index(), !store.has_filter());
                if index_on_flash || filter_on_flash {
                    let file = role.file_name(number);
                    degraded.push(DegradedStore { file, index_on_flash, filter_on_flash });
                }
            }
        }
        degraded
    }
}
