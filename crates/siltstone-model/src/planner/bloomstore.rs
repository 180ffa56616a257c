//! The candidate parameters of the BloomStore engine, and their costs.

use crate::bloomstore::{BloomStoreLayout, LogStorePuts};
use crate::silt::SiltLayout;

use super::demand::Demand;
use super::parameters::{Candidate, Costs, OTHER_FILES, Parameters, Value, count};

/// Candidates for the most runs of a partition, and for the runs that have as many records as there are keys.
const CHAIN_LENGTHS: [f64; 3] = [64.0, 96.0, 160.0];
const RUNS: [f64; 3] = [32.0, 64.0, 96.0];
/// Candidates for the runs whose filters stay in memory.
const BUFFERED_FILTERS: [f64; 3] = [4.0, 8.0, 16.0];
/// Candidates for the bits of the prefilter per key, the others only if there are gets of missing keys.
const PREFILTER_BITS: [f64; 3] = [0.0, 4.0, 8.0];
/// Candidates for the records in stores per key.
const SPACES: [f64; 5] = [1.1, 1.25, 1.5, 2.0, 3.0];

pub(super) fn candidates(demand: &Demand) -> Vec<Candidate> {
    let mut found = Vec::new();
    for runs in RUNS {
        let own = BloomStoreLayout::new(demand.key_bytes, demand.value_bytes);
        let SiltLayout { fixed, expiring, .. } = demand.silt_layout;
        let records = SiltLayout { fixed, expiring, keys_per_log_slot: runs, ..own.records.clone() };
        let own = BloomStoreLayout { records, ..own };
        let log_store_puts = own.log_store_puts(&demand.popularity);
        for chain_length in CHAIN_LENGTHS {
            for buffered_filters in BUFFERED_FILTERS {
                for space in SPACES {
                    let prefilters = if demand.missing_gets > 0.0 { PREFILTER_BITS.len() } else { 1 };
                    for prefilter_bits in &PREFILTER_BITS[..prefilters] {
                        let of_chain = BloomStoreLayout { chain_length, buffered_filters, ..own.clone() };
                        let layout = BloomStoreLayout { space, prefilter_bits: *prefilter_bits, ..of_chain };
                        found.extend(candidate(demand, &layout, &log_store_puts));
                    }
                }
            }
        }
    }
    found
}

/// Returns the mean bytes of a read: one of the two of a get is a page, the other one the blocks that a record spans.
fn read_bytes(records: &SiltLayout) -> f64 {
    let in_stream = SiltLayout { fixed: false, ..records.clone() };
    (records.block_bytes + in_stream.read_bytes()) / 2.0
}

/// Returns the costs of a layout for a constant number of keys that are overwritten.
fn candidate(demand: &Demand, layout: &BloomStoreLayout, log_store_puts: &LogStorePuts) -> Option<Candidate> {
    let steady = layout.overwritten(demand.keys(), log_store_puts).ok()?;
    let mut settings = Vec::new();
    if layout.records.fixed {
        settings.push(("fixed", Value::Lengths(demand.key_bytes as u64, demand.value_bytes as u64)));
    }
    settings.extend([
        ("chain_length", count(layout.chain_length)),
        ("runs", count(layout.records.keys_per_log_slot)),
        ("buffered_filters", count(layout.buffered_filters)),
        ("space", Value::Ratio(layout.space)),
    ]);
    let for_prefilter = if layout.prefilter_bits > 0.0 { steady.writes.runs } else { 0.0 };
    if layout.prefilter_bits > 0.0 {
        settings.push(("prefilter_bits", count(layout.prefilter_bits)));
    }
    let costs = Costs {
        ram_bytes: steady.ram_peak.total(),
        reads_per_get: steady.reads_per_get,
        reads_per_miss: steady.reads_per_miss,
        read_bytes: read_bytes(&layout.records),
        write_amplification: steady.writes.total() + demand.synced_excess(),
        // Runs are read by merges, and chains when they are written; a prefilter is made of the runs.
        background_reads: steady.writes.merges + steady.writes.chains + for_prefilter,
        space_amplification: steady.space_amplification,
        open_files: (layout.records.partitions * (steady.runs + 1.0) + OTHER_FILES).ceil(),
        ..Costs::default()
    };
    Some(Candidate { parameters: Parameters::Named(settings), costs })
}
