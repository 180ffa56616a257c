//! The parameters that are tried for each engine, with what they cost.
//!
//! Every engine has a few parameters of which most are small whole numbers, and its model is evaluated in microseconds:
//! all sensible combinations are tried, on a grid of a few per cent where a parameter is continuous.

use crate::model::bloomstore::{BloomStore, false_positives};
use crate::model::cleaning::Cleaning;
use crate::model::flashkey::FlashKey;
use crate::model::flashstore::FlashStore;
use crate::model::mica::Mica;
use crate::model::silt::{Silt, SiltLayout};

use super::demand::Demand;
use super::plan::{Costs, System, Value};

/// Over-provisions that are tried, as fractions of the data.
const OVER_PROVISIONS: [f64; 9] = [0.05, 0.07, 0.1, 0.14, 0.18, 0.25, 0.4, 0.7, 1.0];
/// What FlashKey takes beside its hash table: open bands and buffers.
const FLASHKEY_BUFFER_BYTES: f64 = 1_048_576.0;
/// The most slots that the builder lets a LogStore have at the least.
const LOG_SLOTS_MAX: f64 = 16_777_216.0;
/// d · P / N that is tried: from 1 % to 2, in steps of 4 %.
const MERGE_RATIO_MIN: f64 = 0.01;
const MERGE_RATIO_MAX: f64 = 2.0;
const MERGE_RATIO_STEP: f64 = 1.04;
/// The bits of HashStores' filters that are tried.
const FILTER_BITS: [f64; 7] = [4.0, 6.0, 8.0, 9.0, 10.0, 11.0, 13.0];
/// The bits of a filter on the last store that are tried if gets miss; 0 is none.
const LAST_FILTER_BITS: [f64; 4] = [0.0, 4.0, 7.0, 10.0];

/// An engine with parameters.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub settings: Vec<(&'static str, Value)>,
    pub costs: Costs,
}

fn count(value: f64) -> Value {
    Value::Count(value.ceil() as u64)
}

/// All candidates of an engine; none if it cannot hold the data at all.
pub(super) fn candidates(system: System, demand: &Demand) -> Vec<Candidate> {
    match system {
        System::Silt => silt(demand),
        System::FlashStore => flashstore(demand),
        System::FlashKey => flashkey(demand),
        System::BloomStore => bloomstore(demand),
        System::Mica => mica(demand),
    }
}

fn silt(demand: &Demand) -> Vec<Candidate> {
    let mut found = Vec::new();
    for partitions in [4.0, 16.0, 64.0] {
        let partition_keys = demand.keys() / partitions;
        // Larger LogStores take memory, and let HashStores hold more before there are too many of them.
        let of_the_keys = [50.0, 25.0].map(|keys_per_slot| (partition_keys / keys_per_slot).ceil());
        let slots = [1024.0, 4096.0, 16_384.0].into_iter().chain(of_the_keys);
        for log_slots_min in slots.filter(|slots| (1024.0..=LOG_SLOTS_MAX).contains(slots)) {
            let mut merge_ratio = MERGE_RATIO_MIN;
            let mut merge_keys = 0.0;
            while merge_ratio <= MERGE_RATIO_MAX {
                let layout =
                    SiltLayout { partitions, merge_ratio, log_slots_min, ..demand.silt_layout.clone() };
                let Ok(silt) = layout.silt(demand.keys()) else { break };
                if silt.merge_keys > merge_keys {
                    merge_keys = silt.merge_keys;
                    found.extend(filtered(demand, &layout, &silt));
                }
                merge_ratio *= MERGE_RATIO_STEP;
            }
        }
    }
    found
}

/// The candidates whose trade-off is shown: filters stay as they are in the demand, as they do in Figure 2.8.
pub(super) fn traded_off(system: System, demand: &Demand) -> Vec<Candidate> {
    let filter_bits = count(demand.silt_layout.filter_bits);
    let is_other = |&(name, value): &(&str, Value)| {
        (name == "filter_bits" && value != filter_bits) || name == "filter_last_store"
    };
    let mut found = candidates(system, demand);
    found.retain(|candidate| !candidate.settings.iter().any(is_other));
    found
}

/// The same with shorter and longer filters.
fn filtered(demand: &Demand, layout: &SiltLayout, silt: &Silt) -> Vec<Candidate> {
    // Writes and space hardly depend on the filters of HashStores, nor does which stores are asked on any filter.
    let (log_stores, hash_stores) = silt.stores_asked(&demand.popularity);
    let misses = demand.missing_gets > 0.0;
    let mut found = Vec::new();
    for last_filter_bits in LAST_FILTER_BITS.into_iter().filter(|bits| misses || *bits == 0.0) {
        let layout = SiltLayout { last_filter_bits, ..layout.clone() };
        let Ok(silt) = layout.silt(demand.keys()) else { continue };
        let write_amplification = silt.writes(&demand.popularity).total();
        let space_amplification = silt.space_amplification(&demand.popularity);
        found.extend(FILTER_BITS.into_iter().filter_map(|filter_bits| {
            let layout = SiltLayout { filter_bits, ..layout.clone() };
            let silt = layout.silt(demand.keys()).ok()?;
            let asked = log_stores * silt.log_false_positives + hash_stores * silt.false_positives;
            Some(Candidate {
                settings: silt_settings(&layout),
                costs: Costs {
                    ram_bytes: silt.ram_peak().total(),
                    reads_per_get: 1.0 + asked,
                    reads_per_miss: silt.reads_per_miss(),
                    disk_reads_per_get: 0.0,
                    write_amplification,
                    space_amplification,
                },
            })
        }));
    }
    found
}

fn silt_settings(layout: &SiltLayout) -> Vec<(&'static str, Value)> {
    let mut settings = Vec::new();
    if layout.fixed {
        settings.push(("fixed", Value::Lengths(layout.key_bytes as u64, layout.value_bytes as u64)));
    }
    settings.extend([
        ("partitions", count(layout.partitions)),
        ("merge_ratio", Value::Ratio(layout.merge_ratio)),
        ("filter_bits", count(layout.filter_bits)),
        ("log_slots_min", count(layout.log_slots_min)),
    ]);
    if layout.last_filter_bits > 0.0 {
        settings.push(("filter_last_store", count(layout.last_filter_bits)));
    }
    settings
}

fn flashkey(demand: &Demand) -> Vec<Candidate> {
    let mut found = Vec::new();
    for over_provision in OVER_PROVISIONS {
        let base = FlashKey::paper(demand.keys(), demand.key_bytes, demand.value_bytes, over_provision);
        let room = demand.keys() * (1.0 + over_provision);
        let Ok(cleaning) = Cleaning::steady(&demand.popularity, room) else { continue };
        for table_cached in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let flashkey = FlashKey { table_cached, ..base.clone() };
            let bands = (1.0 + over_provision) * (flashkey.header_bytes + demand.item_bytes());
            let table = flashkey.table_bytes() / demand.keys();
            found.push(Candidate {
                settings: vec![
                    ("over_provision", Value::Ratio(over_provision)),
                    ("table_cached", Value::Ratio(table_cached)),
                ],
                costs: Costs {
                    ram_bytes: flashkey.ram_bytes() + FLASHKEY_BUFFER_BYTES,
                    reads_per_get: flashkey.reads_per_get(),
                    reads_per_miss: 1.0 - table_cached,
                    disk_reads_per_get: 0.0,
                    write_amplification: flashkey.write_amplification_sequential() * cleaning.appends_per_put,
                    space_amplification: (bands + table) / demand.item_bytes(),
                },
            });
        }
    }
    found
}

fn flashstore(demand: &Demand) -> Vec<Candidate> {
    let destage = demand.disk_reads_per_s.is_some();
    let usage = FlashStore::paper(1.0, 1.0).flash_usage;
    let rooms: Vec<f64> = if destage {
        vec![0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.1, 1.4, 2.0]
    } else {
        OVER_PROVISIONS.iter().map(|over_provision| 1.0 + over_provision).collect()
    };
    let candidate = |room: f64| {
        let flash_bytes = room * demand.data_bytes() / usage;
        let store = FlashStore { destage, ..FlashStore::paper(demand.item_bytes(), flash_bytes) };
        let recycling = store.recycling(&demand.popularity, demand.gets_per_put()).ok()?;
        Some(Candidate {
            settings: vec![("flash_bytes", count(flash_bytes))],
            costs: Costs {
                ram_bytes: store.ram_bytes(demand.keys(), &recycling),
                reads_per_get: recycling.flash_gets * store.reads_per_get(),
                reads_per_miss: store.reads_per_miss(),
                disk_reads_per_get: 1.0 - recycling.flash_gets,
                write_amplification: recycling.flash_writes_per_put,
                space_amplification: flash_bytes / demand.data_bytes(),
            },
        })
    };
    rooms.into_iter().filter_map(candidate).collect()
}

fn bloomstore(demand: &Demand) -> Vec<Candidate> {
    let mut found = Vec::new();
    for over_provision in [0.1, 0.25, 0.5, 1.0] {
        let paper = BloomStore::paper(demand.keys(), demand.item_bytes(), over_provision);
        for chain_length in [64.0, 96.0, 128.0, 192.0] {
            for filter_bytes in [64.0, 128.0] {
                for buffered_filters in [1.0, 8.0, chain_length / 4.0, chain_length] {
                    let store = BloomStore { chain_length, filter_bytes, buffered_filters, ..paper.clone() };
                    found.extend(prefiltered(demand, &store));
                }
            }
        }
    }
    found
}

fn prefiltered(demand: &Demand, store: &BloomStore) -> Vec<Candidate> {
    let (Ok(reads_per_get), Ok(write_amplification)) =
        (store.reads_per_get(&demand.popularity), store.write_amplification(&demand.popularity))
    else {
        return Vec::new();
    };
    // The write buffers of all instances fill slowly: what must not be lost stands in a log meanwhile.
    let write_amplification = write_amplification + if demand.persistent { 1.0 } else { 0.0 };
    let reads_per_miss = store.reads_per_miss();
    let candidate = |prefilter_bits: f64| {
        let store = BloomStore { prefilter_bits, ..store.clone() };
        let passes = if prefilter_bits > 0.0 { false_positives(prefilter_bits) } else { 1.0 };
        Candidate {
            settings: vec![
                ("over_provision", Value::Ratio(store.over_provision)),
                ("chain_length", count(store.chain_length)),
                ("filter_bytes", count(store.filter_bytes)),
                ("buffered_filters", count(store.buffered_filters)),
                ("prefilter_bits", count(prefilter_bits)),
            ],
            costs: Costs {
                ram_bytes: store.ram_bytes(),
                reads_per_get,
                reads_per_miss: passes * reads_per_miss,
                disk_reads_per_get: 0.0,
                write_amplification,
                space_amplification: store.space_amplification(),
            },
        }
    };
    [0.0, 4.0, 8.0].map(candidate).into()
}

fn mica(demand: &Demand) -> Vec<Candidate> {
    let ram_bytes = Mica::siltstone(demand.keys(), demand.item_bytes(), demand.silt_layout.fixed).ram_bytes();
    let costs = Costs {
        ram_bytes,
        reads_per_get: 0.0,
        reads_per_miss: 0.0,
        disk_reads_per_get: 0.0,
        write_amplification: 0.0,
        space_amplification: 0.0,
    };
    vec![Candidate { settings: vec![("memory_budget", count(ram_bytes))], costs }]
}
