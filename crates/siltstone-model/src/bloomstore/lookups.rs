//! What lookups in a partition of the BloomStore engine read.

use super::partition::{Partition, Run};
use siltstone_index::bloom::false_positive_rate;
use std::collections::HashMap;

/// The false positives of filters, which many runs share.
#[derive(Default)]
pub(super) struct Rates(HashMap<(u32, u32, u64), f64>);

impl Rates {
    fn of(&mut self, Run { rows, functions, .. }: Run, keys: f64) -> f64 {
        let keys = (keys * 8.0).round().max(1.0) / 8.0;
        let rate = || false_positive_rate(rows, functions, keys);
        *self.0.entry((rows, functions, keys.to_bits())).or_insert_with(rate)
    }
}

/// What lookups in a partition read.
pub(super) struct Lookups {
    /// The sum over all keys.
    pub reads_of_all_keys: f64,
    pub reads_per_miss: f64,
}

impl Lookups {
    /// Of a partition whose runs have filters of `buffered_bits` before they are in the chain.
    pub fn new(partition: &Partition, buffered_bits: f64, rates: &mut Rates) -> Self {
        // A key of a LogStore is read from the log.
        let mut reads_of_all_keys = partition.logged;
        // The pages and blocks that a missing key reads: of young runs, and of the chain.
        let (mut of_young, mut of_chain) = (0.0, 0.0);
        for run in partition.runs.iter().rev() {
            let page = f64::from(u8::from(run.in_chain));
            reads_of_all_keys += run.keys * (1.0 + page + of_young + of_chain);
            let in_vain = match run.in_chain {
                true => rates.of(*run, run.keys / (partition.ranges * run.columns)),
                false => (-buffered_bits).exp2(),
            };
            *(if run.in_chain { &mut of_chain } else { &mut of_young }) += in_vain;
        }
        if partition.runs.iter().any(|run| run.in_chain) {
            of_chain += 1.0;
        }
        let passing = partition.prefilter().map_or(1.0, |prefilter| prefilter.passing());
        Lookups { reads_of_all_keys, reads_per_miss: of_young + passing * of_chain }
    }
}
