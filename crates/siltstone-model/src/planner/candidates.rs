//! The candidate parameters of each engine, and their costs.
//!
//! An engine has few parameters, most of them small whole numbers, and its model takes microseconds. So all sensible
//! combinations are evaluated; continuous parameters are on a grid of a few per cent.

use siltstone::EngineKind;

use crate::bloomstore::{BloomStore, false_positives};
use crate::mica::Mica;

use super::demand::Demand;
use super::parameters::{Candidate, Costs, Parameters, Value, count};
use super::system::System;
use super::{flashkey, flashstore, silt};

/// Returns all candidates of an engine; none if it cannot hold the data.
pub(super) fn candidates(system: System, demand: &Demand) -> Vec<Candidate> {
    match system {
        System::Engine(EngineKind::Silt) => silt::candidates(demand),
        System::Engine(EngineKind::FlashKey) => flashkey::candidates(demand),
        System::Engine(EngineKind::Mica) => mica(demand).into_iter().collect(),
        System::Engine(EngineKind::FlashStore) => flashstore::candidates(demand),
        System::Engine(_) => Vec::new(),
        System::BloomStore => bloomstore(demand),
    }
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
    let background_reads = write_amplification;
    // The write buffers of all instances fill slowly: for persistence, puts also go to a log.
    let log = if demand.persistent { 1.0 + demand.synced_excess() } else { 0.0 };
    let reads_per_miss = store.reads_per_miss();
    let candidate = |prefilter_bits: f64| {
        let store = BloomStore { prefilter_bits, ..store.clone() };
        let passes = if prefilter_bits > 0.0 { false_positives(prefilter_bits) } else { 1.0 };
        Candidate {
            parameters: Parameters::Named(vec![
                ("over_provision", Value::Ratio(store.over_provision)),
                ("chain_length", count(store.chain_length)),
                ("filter_bytes", count(store.filter_bytes)),
                ("buffered_filters", count(store.buffered_filters)),
                ("prefilter_bits", count(prefilter_bits)),
            ]),
            costs: Costs {
                ram_bytes: store.ram_bytes(),
                reads_per_get,
                reads_per_miss: passes * reads_per_miss,
                read_bytes: store.page_bytes,
                write_amplification: write_amplification + log,
                background_reads,
                space_amplification: store.space_amplification(),
                ..Costs::default()
            },
        }
    };
    [0.0, 4.0, 8.0].map(candidate).into()
}

/// Returns MICA with a budget for these keys; `None` if there are too many.
pub(super) fn mica(demand: &Demand) -> Option<Candidate> {
    let (keys, item_bytes) = (demand.keys(), demand.item_bytes());
    let fixed = demand.silt_layout.fixed;
    let mica = match fixed {
        true => Mica::siltstone(keys, item_bytes, true),
        false => Mica::siltstone_of_sizes(keys, item_bytes),
    };
    let (partitions, budget, ram_bytes) = mica.budget()?;
    let sizes = match fixed {
        true => ("fixed", Value::Lengths(demand.key_bytes as u64, demand.value_bytes as u64)),
        false => ("record_bytes", count(item_bytes)),
    };
    let settings = vec![sizes, ("partitions", count(partitions)), ("memory_budget", count(budget))];
    let costs = Costs { ram_bytes, ..Costs::default() };
    Some(Candidate { parameters: Parameters::Named(settings), costs })
}
