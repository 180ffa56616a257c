//! The candidate parameters of each engine, and their costs.
//!
//! An engine has few parameters, most of them small whole numbers, and its model takes microseconds. So all sensible
//! combinations are evaluated; continuous parameters are on a grid of a few per cent.

use siltstone::EngineKind;

use crate::mica::Mica;

use super::demand::Demand;
use super::parameters::{Candidate, Costs, Parameters, Value, count};
use super::system::System;
use super::{bloomstore, flashkey, flashstore, silt};

/// Returns all candidates of an engine; none if it cannot hold the data.
pub(super) fn candidates(system: System, demand: &Demand) -> Vec<Candidate> {
    match system.kind() {
        EngineKind::Silt => silt::candidates(demand),
        EngineKind::FlashKey => flashkey::candidates(demand),
        EngineKind::Mica => mica(demand).into_iter().collect(),
        EngineKind::FlashStore => flashstore::candidates(demand),
        EngineKind::BloomStore => bloomstore::candidates(demand),
        _ => Vec::new(),
    }
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
