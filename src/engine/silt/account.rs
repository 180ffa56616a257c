//! The accounts of the engine: memory by item, records, bytes on flash.

use super::Core;
use crate::device::scratch_bytes;
use crate::stats::{RamAccount, Stats};
use std::sync::atomic::Ordering::Relaxed;

/// What an open store takes beside its index and filter: its handle, its name, its place in the lists, in bytes.
const STORE_BYTES: u64 = 512;

impl Core {
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
            let sorted = view.sorted.as_ref().map_or(0, |(_, store)| store.index_bytes() as u64);
            ram.add("sorted_index", sorted);
            let stores = view.hash_stores.len() as u64 + u64::from(view.sorted.is_some());
            ram.add("stores", stores * STORE_BYTES);
        }
        ram.add("log_buffer", self.log.heap_bytes() as u64);
        ram.add("convert_buffers", self.jobs.convert_bytes.load(Relaxed));
        ram.add("merge_buffers", self.jobs.merge_bytes.load(Relaxed));
        ram.add("read_buffers", scratch_bytes() as u64);
        ram
    }

    /// Keeps the account if it is the highest so far.
    pub(super) fn note_ram_peak(&self) {
        let ram = self.ram();
        let mut peak = self.ram_peak.lock();
        if ram.total_bytes() > peak.total_bytes() {
            *peak = ram;
        }
    }

    pub(super) fn stats(&self) -> Stats {
        self.note_ram_peak();
        // One lock at a time: a checkpoint holds the ledger while it waits for writers, and they note the peak.
        let manifest_bytes = self.ledger.lock().manifest.length();
        let ram_peak = self.ram_peak.lock().clone();
        let mut stats = Stats {
            engine: "silt",
            writes: self.counters.writes.load(Relaxed),
            user_bytes: self.counters.user_bytes.load(Relaxed),
            io: self.directory.io(),
            ram: self.ram(),
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
        ];
        stats
    }
}
