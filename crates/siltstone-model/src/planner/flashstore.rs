//! The candidate parameters of the FlashStore engine above a disk, and their costs.

use crate::flashstore::{Below, FlashStoreLayout, FlashStoreStore};

use siltstone::engine::flashstore::costs;

use super::demand::Demand;
use super::parameters::{Candidate, Costs, OTHER_FILES, Parameters};

/// Candidates for the bytes of the logs, as shares of the flash, or of the data if that is less.
const FLASH_SHARES: [f64; 6] = [0.1, 0.25, 0.5, 0.75, 0.9, 1.0];
/// More flash than this, per byte of items, changes nothing.
const DATA_SHARE_MAX: f64 = 2.0;
/// Candidates for the number of queues.
const QUEUES: [u8; 2] = [1, 2];
/// Candidates for the bits of the disk's filter, if some gets are for missing keys, and if none are; 0 means no filter.
const DISK_FILTER_BITS: [f64; 4] = [0.0, 4.0, 7.0, costs::DISK_FILTER_BITS as f64];
const DISK_FILTER_BITS_OF_NO_MISS: [f64; 2] = [0.0, costs::DISK_FILTER_BITS as f64];
/// Flash of less than this many segments gets smaller ones.
const SEGMENTS_MIN: f64 = 128.0;
const SEGMENT_BYTES_MIN: f64 = 65_536.0;

/// Returns all candidates; none without a disk.
pub(super) fn candidates(demand: &Demand) -> Vec<Candidate> {
    if demand.disk.is_none() {
        return Vec::new();
    }
    let most = demand.flash.bytes.min(DATA_SHARE_MAX * demand.data_bytes());
    let mut found = Vec::new();
    for share in FLASH_SHARES {
        for queues in QUEUES {
            for caches_reads in [true, false] {
                let layout = FlashStoreLayout { queues, caches_reads, ..layout(demand, share * most) };
                let Ok(store) = layout.store(&demand.popularity, demand.gets_per_put()) else { continue };
                let with_filter = |bits: &f64| candidate(demand, &store.with_disk_filter(*bits).ok()?);
                found.extend(disk_filter_bits(demand).iter().filter_map(with_filter));
            }
        }
    }
    found
}

fn disk_filter_bits(demand: &Demand) -> &'static [f64] {
    if demand.missing_gets > 0.0 { &DISK_FILTER_BITS } else { &DISK_FILTER_BITS_OF_NO_MISS }
}

/// Returns the costs of this layout.
pub(super) fn of_layout(demand: &Demand, layout: &FlashStoreLayout) -> Option<Candidate> {
    let store = layout.store(&demand.popularity, demand.gets_per_put()).ok()?;
    candidate(demand, &store)
}

/// Returns the layout for `times` as many keys: with as large a share of them on flash.
pub(super) fn scaled(layout: &FlashStoreLayout, times: f64) -> FlashStoreLayout {
    of_flash(layout, layout.flash_bytes * times)
}

fn layout(demand: &Demand, flash_bytes: f64) -> FlashStoreLayout {
    let silt = &demand.silt_layout;
    let mut layout = FlashStoreLayout::new(demand.key_bytes, demand.value_bytes, flash_bytes);
    (layout.logs.fixed, layout.logs.expiring) = (silt.fixed, silt.expiring);
    if let Below::Disk(disk) = &mut layout.below {
        (disk.fixed, disk.expiring) = (silt.fixed, silt.expiring);
    }
    of_flash(&layout, flash_bytes)
}

/// Returns the layout with this much flash, and segments of the default size or, if that is too few, smaller ones.
fn of_flash(layout: &FlashStoreLayout, flash_bytes: f64) -> FlashStoreLayout {
    let smaller = (flash_bytes / SEGMENTS_MIN).log2().floor().exp2().max(SEGMENT_BYTES_MIN);
    let mut layout = FlashStoreLayout { flash_bytes, ..layout.clone() };
    layout.logs.segment_bytes = layout.logs.segment_bytes.min(smaller);
    let logs = &mut layout.logs;
    // As the engine chooses it.
    let lengths = logs.fixed.then_some((logs.key_bytes as usize, logs.value_bytes as usize));
    logs.hash_bits = costs::hash_bits(flash_bytes.ceil() as u64, lengths).into();
    layout
}

fn candidate(demand: &Demand, store: &FlashStoreStore) -> Option<Candidate> {
    let (disk, flash_gets) = (store.disk.as_ref()?, store.flash_gets());
    let item_bytes = demand.item_bytes();
    let costs = Costs {
        ram_bytes: store.ram_peak().total(),
        reads_per_get: flash_gets * store.reads_per_flash_get()
            + (1.0 - flash_gets) * store.reads_per_flash_miss(),
        reads_per_miss: store.reads_per_flash_miss(),
        read_bytes: store.logs.frame_bytes,
        disk_gets: 1.0 - flash_gets,
        disk_reads_per_get: (1.0 - flash_gets) * store.reads_per_disk_get(),
        disk_reads_per_miss: store.reads_per_disk_miss(),
        disk_writes: store.disk_writes(),
        disk_background_reads: store.disk_background_reads(),
        disk_bytes: store.disk_bytes(),
        write_amplification: store.writes().total() + demand.synced_excess(),
        // Each segment that is recycled is read.
        background_reads: store.appends_per_put() * store.logs.frame_bytes / item_bytes,
        background_reads_per_put: store.confirmed_per_put(),
        space_amplification: store.flash_bytes() / demand.data_bytes(),
        open_files: (store.logs.files_max() + disk.store_files_max() + OTHER_FILES).ceil(),
    };
    Some(Candidate { parameters: Parameters::FlashStore(Box::new(store.layout.clone())), costs })
}
