//! The candidate parameters of the SILT engine, and their costs.

use crate::popularity::Popularity;
use crate::silt::{Silt, SiltLayout, Turn};
use std::collections::HashMap;

use super::demand::Demand;
use super::parameters::{Candidate, Costs, OTHER_FILES, Parameters};

/// Candidates for P. The smallest is always evaluated; a larger one only if each partition gets this many keys.
const PARTITIONS: [f64; 3] = [4.0, 16.0, 64.0];
const PARTITION_KEYS_MIN: f64 = 4000.0;
/// Candidates for the slots of a LogStore: fixed numbers, and one slot per this many keys.
const LOG_SLOTS: [f64; 5] = [64.0, 256.0, 1024.0, 4096.0, 16_384.0];
const KEYS_PER_LOG_SLOT: [f64; 2] = [50.0, 25.0];
/// The largest `log_slots_min` that the builder accepts.
const LOG_SLOTS_MAX: f64 = 16_777_216.0;
/// LogStores larger than this share of a partition are skipped, except for the smallest.
const LOG_SHARE_MAX: f64 = 0.1;
/// Candidates for d · P / N: the range that the builder accepts, in steps of 6 %.
const MERGE_RATIO_MIN: f64 = 0.01;
const MERGE_RATIO_MAX: f64 = 10.0;
const MERGE_RATIO_STEP: f64 = 1.06;
/// Candidates for the filter bits of HashStores.
const FILTER_BITS: [f64; 8] = [2.0, 4.0, 6.0, 8.0, 9.0, 10.0, 11.0, 13.0];
/// Candidates for the filter bits of the last store if some gets are for missing keys; 0 means no filter.
const LAST_FILTER_BITS: [f64; 4] = [0.0, 4.0, 7.0, 10.0];
/// Candidate block sizes besides the demand's own.
const BLOCK_BYTES: [f64; 2] = [8192.0, 16_384.0];
/// Layouts without fixed lengths are evaluated if fixed-size records leave more than this share of a block unused.
const UNUSED_SHARE: f64 = 0.02;
/// The points at which the share of absent keys is computed: numbers of requests, in steps of a tenth.
const ABSENT_MIN: f64 = 0.5;
const ABSENT_STEP: f64 = 1.1;
const ABSENT_POINTS: i32 = 330;

/// A cache of a popularity's results, which many candidates share.
pub(super) struct Asked<'a> {
    popularity: &'a Popularity,
    turns: HashMap<(u64, u64), Turn>,
    absent: Vec<f64>,
}

impl<'a> Asked<'a> {
    pub fn new(popularity: &'a Popularity) -> Self {
        let absent = (0..ABSENT_POINTS).map(|point| popularity.absent(ABSENT_MIN * ABSENT_STEP.powi(point)));
        Asked { popularity, turns: HashMap::new(), absent: absent.collect() }
    }

    fn turn(&mut self, silt: &Silt) -> Turn {
        let (full, puts_max) = silt.turn_limits();
        let key = (full.to_bits(), puts_max.to_bits());
        *self.turns.entry(key).or_insert_with(|| silt.turn(self.popularity))
    }

    /// Returns [`Popularity::absent`], interpolated between points.
    fn absent(&self, requests: f64) -> f64 {
        let place = (requests / ABSENT_MIN).ln() / ABSENT_STEP.ln();
        let at = |point: usize| self.absent.get(point).or(self.absent.last()).copied().unwrap_or(1.0);
        let below = place.max(0.0).floor();
        let share = (place - below).clamp(0.0, 1.0);
        at(below as usize) * (1.0 - share) + at(below as usize + 1) * share
    }

    fn stores_asked(&mut self, silt: &Silt) -> (f64, f64) {
        let turn = self.turn(silt);
        silt.stores_asked_of(turn, |puts| self.absent(puts))
    }
}

pub(super) fn candidates(demand: &Demand) -> Vec<Candidate> {
    let mut asked = Asked::new(&demand.popularity);
    let mut found = Vec::new();
    for layout in layouts(&demand.silt_layout) {
        let sensible = |partitions: &f64| {
            *partitions == PARTITIONS[0] || demand.keys() >= partitions * PARTITION_KEYS_MIN
        };
        for partitions in PARTITIONS.into_iter().filter(sensible) {
            let layout = SiltLayout { partitions, ..layout.clone() };
            for log_slots_min in log_slots(demand.keys() / partitions) {
                let layout = SiltLayout { log_slots_min, ..layout.clone() };
                found.extend(of_all_ratios(demand, &layout, &mut asked));
            }
        }
    }
    found
}

/// Returns the demand's own layout, and others that may cost less.
fn layouts(own: &SiltLayout) -> Vec<SiltLayout> {
    let mut found = vec![own.clone()];
    let sizes = BLOCK_BYTES.into_iter().filter(|bytes| *bytes > own.block_bytes);
    found.extend(sizes.map(|block_bytes| SiltLayout { block_bytes, ..own.clone() }));
    let of_any_size = found.iter().filter(|layout| layout.unused_share() > UNUSED_SHARE);
    let of_any_size: Vec<_> =
        of_any_size.map(|layout| SiltLayout { fixed: false, ..layout.clone() }).collect();
    found.extend(of_any_size);
    found
}

fn log_slots(partition_keys: f64) -> Vec<f64> {
    let of_the_keys = KEYS_PER_LOG_SLOT.map(|keys_per_slot| (partition_keys / keys_per_slot).ceil());
    // LogStores grow with the data anyway: small ones are only for small data.
    let fixed = LOG_SLOTS.into_iter().filter(|slots| {
        *slots <= LOG_SHARE_MAX * partition_keys && (*slots >= 1024.0 || partition_keys < 100_000.0)
    });
    let mut slots: Vec<f64> = of_the_keys.into_iter().filter(|slots| *slots > 1024.0).chain(fixed).collect();
    if slots.is_empty() {
        slots.push(LOG_SLOTS[0]);
    }
    slots.retain(|slots| *slots <= LOG_SLOTS_MAX);
    slots
}

fn of_all_ratios(demand: &Demand, layout: &SiltLayout, asked: &mut Asked<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    let (mut merge_ratio, mut merge_keys) = (MERGE_RATIO_MIN, 0.0);
    while merge_ratio <= MERGE_RATIO_MAX {
        let layout = SiltLayout { merge_ratio, ..layout.clone() };
        let Ok(silt) = layout.silt(demand.keys()) else { break };
        if silt.merge_keys > merge_keys {
            merge_keys = silt.merge_keys;
            found.extend(filtered(demand, &layout, asked));
        }
        merge_ratio *= MERGE_RATIO_STEP;
    }
    found
}

/// Varies the lengths of the filters.
fn filtered(demand: &Demand, layout: &SiltLayout, asked: &mut Asked<'_>) -> Vec<Candidate> {
    let misses = demand.missing_gets > 0.0;
    let mut found = Vec::new();
    for last_filter_bits in LAST_FILTER_BITS.into_iter().filter(|bits| misses || *bits == 0.0) {
        let layout = SiltLayout { last_filter_bits, ..layout.clone() };
        // Writes and space hardly depend on the HashStores' filters. Which stores a lookup visits does not depend on
        // filters at all.
        let Ok(silt) = layout.silt(demand.keys()) else { continue };
        let Some(costs) = costs(demand, &layout, &silt, asked) else { continue };
        let (log_stores, hash_stores) = asked.stores_asked(&silt);
        found.extend(FILTER_BITS.into_iter().filter_map(|filter_bits| {
            let layout = SiltLayout { filter_bits, ..layout.clone() };
            let silt = layout.silt(demand.keys()).ok()?;
            let in_vain = log_stores * silt.log_false_positives + hash_stores * silt.false_positives;
            let costs = Costs {
                ram_bytes: silt.ram_peak().total(),
                reads_per_get: 1.0 + in_vain,
                reads_per_miss: silt.reads_per_miss(),
                ..costs
            };
            Some(Candidate { parameters: Parameters::Silt(layout), costs })
        }));
    }
    found
}

fn costs(demand: &Demand, layout: &SiltLayout, silt: &Silt, asked: &mut Asked<'_>) -> Option<Costs> {
    let turn = asked.turn(silt);
    let (log_stores, hash_stores) = asked.stores_asked(silt);
    let in_vain = log_stores * silt.log_false_positives + hash_stores * silt.false_positives;
    let writes = silt.writes_of(turn).total() + demand.synced_excess();
    let log_files = silt.log_bytes(turn) / layout.log_segment_bytes + 1.0;
    let costs = Costs {
        ram_bytes: silt.ram_peak().total(),
        reads_per_get: 1.0 + in_vain,
        reads_per_miss: silt.reads_per_miss(),
        read_bytes: layout.read_bytes(),
        write_amplification: writes,
        background_reads: silt.background_reads(turn),
        background_reads_per_put: 0.0,
        space_amplification: silt.space_of(turn) / demand.data_bytes(),
        open_files: (silt.store_files_max() + log_files + OTHER_FILES).ceil(),
        ..Costs::default()
    };
    costs.write_amplification.is_finite().then_some(costs)
}

/// Returns the costs of this layout.
pub(super) fn of_layout(demand: &Demand, layout: &SiltLayout) -> Option<Candidate> {
    let silt = layout.silt(demand.keys()).ok()?;
    let costs = costs(demand, layout, &silt, &mut Asked::new(&demand.popularity))?;
    Some(Candidate { parameters: Parameters::Silt(layout.clone()), costs })
}

/// Returns whether a candidate is part of the trade-off curve: its filters are those of the demand, as in Figure 2.8.
pub(super) fn is_standard(demand: &Demand, candidate: &Candidate) -> bool {
    match &candidate.parameters {
        Parameters::Silt(layout) => {
            layout.filter_bits == demand.silt_layout.filter_bits && layout.last_filter_bits == 0.0
        }
        Parameters::FlashKey(_) | Parameters::FlashStore(_) | Parameters::Named(_) => true,
    }
}

/// Returns the layout for `times` as many keys, with LogStores scaled along.
pub(super) fn scaled(layout: &SiltLayout, times: f64) -> SiltLayout {
    let log_slots_min = (layout.log_slots_min * times).ceil().clamp(16.0, LOG_SLOTS_MAX);
    SiltLayout { log_slots_min, ..layout.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_results_are_those_of_the_popularity() {
        let popularity = Popularity::zipf(1_000_000, 0.99).unwrap();
        let asked = Asked::new(&popularity);
        for requests in [0.1, 0.7, 10.0, 12_345.0, 1e6, 3.3e7, 1e12] {
            let (got, expected) = (asked.absent(requests), popularity.absent(requests.max(ABSENT_MIN)));
            assert!((got - expected).abs() < 1e-3, "{requests}: {got} for {expected}");
        }
    }
}
