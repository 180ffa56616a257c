//! FlashKey's experiments.
//!
//! - [`workloads`] has Table II's workloads, with the index in memory and on flash: Table VI.
//! - [`ycsb`] has Table III's workloads: Figure 7.
//! - [`peers`] has the workloads of Table II next to other stores at equal space: Figures 3 to 6.
//! - [`cleaning`] has appends per put by rule, skew and space.
//! - [`formulas`] has VI-C.
//! - [`index`], [`ordered_keys`] have V-A.

pub mod cleaning;
pub mod formulas;
pub mod index;
pub mod ordered_keys;
pub mod peers;
pub mod workloads;
pub mod ycsb;

use crate::conditions::{Conditions, Preset};
use siltstone::EngineKind;
use siltstone_bench::tuning::Tuning;

/// The lengths of keys and values in the paper.
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 1024;
/// The data have at least this many segments, so that open ones are a small part of the space.
const SEGMENTS_MIN: u64 = 128;
const SEGMENT_BYTES: [u64; 2] = [4 << 10, 32 << 20];

/// Returns the size of a segment for this many bytes of data.
fn segment_bytes(data_bytes: u64) -> u64 {
    let [least, most] = SEGMENT_BYTES;
    (data_bytes / SEGMENTS_MIN).next_power_of_two().clamp(least, most)
}

/// Returns the settings of a database of `data_bytes` bytes.
fn tuning(
    conditions: &Conditions,
    preset: Preset,
    data_bytes: u64,
    space: f64,
    engine: &[(&str, String)],
) -> Tuning {
    let sizes = [("segment_bytes", segment_bytes(data_bytes).to_string()), ("space", space.to_string())];
    let settings: Vec<_> = sizes.into_iter().chain(engine.iter().cloned()).collect();
    conditions.tuning(EngineKind::FlashKey, preset, &settings)
}
