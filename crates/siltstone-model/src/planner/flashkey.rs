//! The candidate parameters of the FlashKey engine, and their costs.

use crate::flashkey::{FlashKeyLayout, FlashKeyStore};

use super::demand::Demand;
use super::parameters::{Candidate, Costs, OTHER_FILES, Parameters};

/// Candidates for the bytes of the logs per byte of live records.
const SPACES: [f64; 9] = [1.05, 1.1, 1.18, 1.3, 1.45, 1.67, 2.0, 3.0, 4.0];
/// Candidates for the bits of a hash that the index keeps.
const HASH_BITS: [f64; 3] = [32.0, 35.0, 38.0];
/// Candidates for the share of the index that is in memory.
const INDEX_IN_MEMORY: [f64; 3] = [1.0, 0.5, 0.0];
/// With the index on flash, the notes of unconfirmed overwrites are most of the memory.
const UNCONFIRMED_MAX: f64 = 0.01;
/// Smaller data than this many segments gets smaller segments, as a candidate besides the default.
const SEGMENTS_MIN: f64 = 128.0;
const SEGMENT_BYTES_MIN: f64 = 65_536.0;

pub(super) fn candidates(demand: &Demand) -> Vec<Candidate> {
    let own = layout(demand);
    let smaller = segment_bytes(demand);
    let sizes = [own.segment_bytes, smaller];
    let sizes = if smaller < own.segment_bytes { &sizes[..] } else { &sizes[..1] };
    let mut found = Vec::new();
    for space in SPACES {
        for &segment_bytes in sizes {
            let layout = FlashKeyLayout { space, segment_bytes, ..own.clone() };
            let Ok(store) = layout.store(demand.keys()) else { continue };
            let Ok(appends) = store.appends_per_put(&demand.popularity) else { continue };
            for hash_bits in HASH_BITS {
                let own = INDEX_IN_MEMORY.map(|in_memory| (in_memory, layout.unconfirmed_max));
                let all = own.into_iter().chain([(0.0, UNCONFIRMED_MAX)]);
                found.extend(all.filter_map(|(index_in_memory, unconfirmed_max)| {
                    let settings = FlashKeyLayout { hash_bits, index_in_memory, ..layout.clone() };
                    let layout = FlashKeyLayout { unconfirmed_max, ..settings };
                    Some(candidate(demand, &layout.store(demand.keys()).ok()?, appends))
                }));
            }
        }
    }
    found
}

/// Returns the costs of this layout.
pub(super) fn of_layout(demand: &Demand, layout: &FlashKeyLayout) -> Option<Candidate> {
    let store = layout.store(demand.keys()).ok()?;
    let appends = store.appends_per_put(&demand.popularity).ok()?;
    Some(candidate(demand, &store, appends))
}

/// Returns the layout for other data: segments that are small for the data stay so.
pub(super) fn scaled(demand: &Demand, layout: &FlashKeyLayout) -> FlashKeyLayout {
    FlashKeyLayout { segment_bytes: layout.segment_bytes.min(segment_bytes(demand)), ..layout.clone() }
}

fn layout(demand: &Demand) -> FlashKeyLayout {
    let silt = &demand.silt_layout;
    let layout = FlashKeyLayout::new(demand.key_bytes, demand.value_bytes);
    FlashKeyLayout { fixed: silt.fixed, expiring: silt.expiring, ordered: demand.scans, ..layout }
}

/// Returns the highest power of two with which the data has enough segments.
fn segment_bytes(demand: &Demand) -> f64 {
    (demand.data_bytes() / SEGMENTS_MIN).log2().floor().exp2().max(SEGMENT_BYTES_MIN)
}

fn candidate(demand: &Demand, store: &FlashKeyStore, appends_per_put: f64) -> Candidate {
    let writes = store.writes(&demand.popularity, appends_per_put);
    let costs = Costs {
        ram_bytes: store.ram_peak().total(),
        reads_per_get: store.reads_per_get(),
        reads_per_miss: store.reads_per_miss(),
        read_bytes: store.frame_bytes,
        write_amplification: writes.total() + demand.synced_excess(),
        background_reads: store.background_reads(appends_per_put, &writes),
        background_reads_per_put: store.background_reads_per_put(&demand.popularity, appends_per_put),
        space_amplification: store.space_amplification(),
        open_files: (store.files_max() + OTHER_FILES).ceil(),
        ..Costs::default()
    };
    Candidate { parameters: Parameters::FlashKey(store.layout.clone()), costs }
}
