//! The parameters of an engine, and the costs that its model computes for them.

use crate::flashkey::FlashKeyLayout;
use crate::flashstore::{Below, FlashStoreLayout};
use crate::silt::SiltLayout;

/// Files that engines keep open besides their stores: directory, lock, manifest, and those of a command.
pub(super) const OTHER_FILES: f64 = 16.0;

/// The value of a setting.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// A whole number that the engine chooses if it is not given.
    Chosen(u64),
    /// Any other number.
    Ratio(f64),
    /// Whether something is so.
    Is(bool),
    /// The lengths of keys and of values, in bytes.
    Lengths(u64, u64),
    /// The directory of a disk, in that of the database.
    Disk(&'static str),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Count(count) => write!(f, "{count}"),
            Value::Chosen(count) => write!(f, "Some({count})"),
            Value::Ratio(ratio) => write!(f, "{ratio:.3}"),
            Value::Is(is) => write!(f, "{is}"),
            Value::Lengths(keys, values) => write!(f, "{keys}, {values}"),
            Value::Disk(_) => write!(f, "Disk::at(disk_path)"),
        }
    }
}

/// The parameters of an engine.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Parameters {
    /// The SILT engine's.
    Silt(SiltLayout),
    /// The FlashKey engine's.
    FlashKey(FlashKeyLayout),
    /// The FlashStore engine's.
    FlashStore(Box<FlashStoreLayout>),
    /// Name and value.
    Named(Vec<(&'static str, Value)>),
}

impl Parameters {
    /// Returns the settings by their names in the builder and on the command line.
    pub fn settings(&self) -> Vec<(&'static str, Value)> {
        match self {
            Parameters::Silt(layout) => silt(layout),
            Parameters::FlashKey(layout) => flashkey(layout),
            Parameters::FlashStore(layout) => flashstore(layout),
            Parameters::Named(settings) => settings.clone(),
        }
    }
}

/// Returns the settings of the SILT engine with a layout.
fn silt(layout: &SiltLayout) -> Vec<(&'static str, Value)> {
    let mut settings = Vec::new();
    if layout.fixed {
        settings.push(("fixed", Value::Lengths(layout.key_bytes as u64, layout.value_bytes as u64)));
    }
    settings.push(("partitions", count(layout.partitions)));
    if layout.block_bytes != SiltLayout::new(1.0, 1.0).block_bytes {
        settings.push(("block_bytes", count(layout.block_bytes)));
    }
    settings.extend([
        ("merge_ratio", Value::Ratio(layout.merge_ratio)),
        ("filter_bits", count(layout.filter_bits)),
        ("log_slots_min", count(layout.log_slots_min)),
    ]);
    // Also if it is 0: otherwise the engine would build filters once many lookups find nothing.
    settings.push(("filter_last_store", Value::Chosen(layout.last_filter_bits.ceil() as u64)));
    settings
}

/// Returns the settings of the FlashKey engine with a layout.
fn flashkey(layout: &FlashKeyLayout) -> Vec<(&'static str, Value)> {
    let default = FlashKeyLayout::new(1.0, 1.0);
    let mut settings = Vec::new();
    if layout.fixed {
        settings.push(("fixed", Value::Lengths(layout.key_bytes as u64, layout.value_bytes as u64)));
    }
    settings.push(("space", Value::Ratio(layout.space)));
    if layout.ordered {
        settings.push(("ordered", Value::Is(true)));
    }
    if layout.hash_bits != default.hash_bits {
        settings.push(("hash_bits", count(layout.hash_bits)));
    }
    if layout.segment_bytes != default.segment_bytes {
        settings.push(("segment_bytes", count(layout.segment_bytes)));
    }
    if layout.index_in_memory != default.index_in_memory {
        settings.push(("index_in_memory", Value::Ratio(layout.index_in_memory)));
    }
    if layout.unconfirmed_max != default.unconfirmed_max {
        settings.push(("unconfirmed_max", Value::Ratio(layout.unconfirmed_max)));
    }
    settings
}

/// Returns the settings of the FlashStore engine with a layout above a disk.
fn flashstore(layout: &FlashStoreLayout) -> Vec<(&'static str, Value)> {
    let default = FlashStoreLayout::new(1.0, 1.0, 0.0);
    let logs = &layout.logs;
    let mut settings = Vec::new();
    if logs.fixed {
        settings.push(("fixed", Value::Lengths(logs.key_bytes as u64, logs.value_bytes as u64)));
    }
    settings.extend([("flash_bytes", count(layout.flash_bytes)), ("disk", Value::Disk("disk"))]);
    if layout.queues != default.queues {
        settings.push(("queues", count(layout.queues.into())));
    }
    if layout.caches_reads != default.caches_reads {
        settings.push(("caches_reads", Value::Is(layout.caches_reads)));
    }
    if logs.segment_bytes != default.logs.segment_bytes {
        settings.push(("segment_bytes", count(logs.segment_bytes)));
    }
    if let (Below::Disk(disk), Below::Disk(default)) = (&layout.below, &default.below)
        && disk.last_filter_bits != default.last_filter_bits
    {
        settings.push(("disk.filter_last_store", count(disk.last_filter_bits)));
    }
    settings
}

pub(super) fn count(value: f64) -> Value {
    Value::Count(value.ceil() as u64)
}

/// The output of an engine's model, from which a [`Prediction`](super::Prediction) is computed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Costs {
    pub ram_bytes: f64,
    pub reads_per_get: f64,
    pub reads_per_miss: f64,
    pub read_bytes: f64,
    pub disk_gets: f64,
    pub disk_reads_per_get: f64,
    pub disk_reads_per_miss: f64,
    pub disk_writes: f64,
    pub disk_background_reads: f64,
    pub disk_bytes: f64,
    pub write_amplification: f64,
    pub background_reads: f64,
    pub background_reads_per_put: f64,
    pub space_amplification: f64,
    pub open_files: f64,
}

/// An engine's parameters and their costs.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub parameters: Parameters,
    pub costs: Costs,
}
