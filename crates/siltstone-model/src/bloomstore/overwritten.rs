//! The costs of this crate's BloomStore engine while its keys are overwritten: garbage makes the merges.
//!
//! A merge takes the LogStore too. The next one of the partition is frozen with a share of the records of a full one
//! that differs from partition to partition, so the partitions have cycles of different lengths:
//!
//! ```text
//! partition 0   | |    |    |    |      runs from one merge to the next: until they have
//! partition 1   |  |    |    |          `space` - 1 times the keys of the partition
//! ```

use super::super::error::ModelError;
use super::layout::{BloomStoreGrown, BloomStoreLayout, BloomStoreRam, BloomStoreWrites, OCCUPANCY};
use super::partition::{Partition, Run};
use crate::popularity::Popularity;
use crate::silt::sizes::log_tables;

/// The partitions of the sample, at most.
const PARTITIONS_SAMPLED: f64 = 16.0;
/// The moments between merges at which lookups are counted, of all these partitions together.
const MOMENTS_SAMPLED: f64 = 32.0;

/// A database whose keys are overwritten.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct BloomStoreSteady {
    /// What is written.
    pub writes: BloomStoreWrites,
    /// The most memory.
    pub ram_peak: BloomStoreRam,
    /// Reads per get of a record, of any age.
    pub reads_per_get: f64,
    /// Reads per get of a missing key.
    pub reads_per_miss: f64,
    /// The most runs of a partition.
    pub runs: f64,
    /// Bytes on flash per byte of items before a merge.
    pub space_amplification: f64,
}

/// The puts to a partition that fill its LogStores.
#[derive(Debug, Clone, PartialEq)]
pub struct LogStorePuts {
    /// Those of a full one.
    full: f64,
    /// Those of the first one after a merge, in each partition of the sample.
    first: Vec<f64>,
}

/// What a partition writes from one merge to the next.
struct Cycle {
    /// Its runs, the oldest first.
    runs: Vec<Run>,
    puts: f64,
}

/// What all partitions have in common.
struct Common {
    keys: f64,
    slots: f64,
    /// The keys of a full LogStore.
    log_keys: f64,
    ranges: f64,
    prefixes: f64,
    tables: f64,
    /// The run that a merge makes.
    old: Run,
    /// A run of a full LogStore.
    run: Run,
}

impl BloomStoreLayout {
    /// Returns the puts to a partition that fill its LogStores.
    pub fn log_store_puts(&self, popularity: &Popularity) -> LogStorePuts {
        let partitions = self.records.partitions;
        let puts = |log_keys: f64| popularity.unique_inverse(log_keys * partitions) / partitions;
        let partition_keys = popularity.keys() / partitions;
        let (_, log_keys) = self.full_log_store(partition_keys);
        let first = self.first_log_stores(partition_keys).map(puts).collect();
        LogStorePuts { full: puts(log_keys), first }
    }

    /// Returns the slots of the LogStore of a partition, and the keys in it when it is full: not all that there are.
    fn full_log_store(&self, partition_keys: f64) -> (f64, f64) {
        let (slots, occupancy) = self.records.table(partition_keys);
        (slots, (slots * occupancy).min(0.5 * partition_keys))
    }

    /// Returns the keys with which the first LogStore after a merge is frozen, in each partition of the sample.
    fn first_log_stores(&self, partition_keys: f64) -> impl Iterator<Item = f64> + use<> {
        let (slots, log_keys) = self.full_log_store(partition_keys);
        let count = self.records.partitions;
        let sampled = count.min(PARTITIONS_SAMPLED);
        // The partition in the middle of each part of them; all of them if they are few.
        let share = move |number: usize| (number as f64 + 0.5) / sampled + 0.5 / count;
        let keys =
            move |share: f64| if share < 1.0 { (slots * OCCUPANCY * share).min(log_keys) } else { log_keys };
        (0..sampled as usize).map(share).map(keys)
    }

    fn common(&self, partition_keys: f64) -> Common {
        let (slots, log_keys) = self.full_log_store(partition_keys);
        let log = self.log_layout();
        let ranges = self.ranges(&log, partition_keys);
        Common {
            keys: partition_keys,
            slots,
            log_keys,
            ranges,
            prefixes: self.prefixes(&log, partition_keys),
            tables: log_tables(self.records.log_slots(partition_keys)),
            old: self.run(partition_keys, ranges, true),
            run: self.run(log_keys, ranges, false),
        }
    }

    /// Returns what each partition of the sample writes between two merges.
    fn cycles(&self, common: &Common, puts: &LogStorePuts) -> Vec<Cycle> {
        // The records in runs above which there is too much garbage.
        let young = (self.space - 1.0) * common.keys;
        let first_log_stores = self.first_log_stores(common.keys).zip(&puts.first);
        let cycle = |(first, first_puts): (f64, &f64)| {
            let others = ((young - first) / common.log_keys).max(0.0).floor() + 1.0;
            let others = others.clamp(1.0, self.chain_length);
            let mut runs = vec![self.run(first, common.ranges, false)];
            runs.resize(1 + others as usize, common.run);
            Cycle { runs, puts: first_puts + others * puts.full }
        };
        first_log_stores.map(cycle).collect()
    }

    /// Returns a partition after this many runs of a cycle.
    fn after(&self, common: &Common, cycle: &Cycle, count: usize) -> Partition {
        let buffered = self.buffered_filters.max(1.0) as usize;
        let chained = count / buffered * buffered;
        let young = cycle.runs.iter().take(count).enumerate();
        let young = young.map(|(number, run)| Run { in_chain: number < chained, ..*run });
        Partition {
            runs: std::iter::once(common.old).chain(young).collect(),
            keys: common.keys,
            ranges: common.ranges,
            prefixes: common.prefixes,
            first_share: 1.0,
            slots: common.slots,
            room: common.log_keys,
            tables: common.tables,
            log_keys: common.log_keys,
            logged: cycle.runs.get(count).map_or(common.log_keys, |run| run.keys) / 2.0,
        }
    }

    /// Returns the writes per byte put.
    fn cycle_writes(&self, common: &Common, cycles: &[Cycle]) -> BloomStoreWrites {
        let records = &self.records;
        let item_bytes = records.key_bytes + records.value_bytes;
        let log = records.log_record_bytes() / item_bytes;
        let mut writes = BloomStoreWrites { log, ..BloomStoreWrites::default() };
        for cycle in cycles {
            // All partitions get as many puts.
            let put_bytes = cycle.puts * item_bytes * cycles.len() as f64;
            let runs = cycle.runs.iter().map(|run| self.run_bytes(run, common.ranges));
            writes.runs += runs.sum::<f64>() / put_bytes;
            writes.merges += self.run_bytes(&common.old, common.ranges) / put_bytes;
            // The merge writes one of the old run, and each `buffered_filters` runs another one.
            let chains = (0..=cycle.runs.len()).step_by(self.buffered_filters.max(1.0) as usize);
            let chains = chains.map(|count| self.chain_bytes(&self.after(common, cycle, count)));
            writes.chains += chains.sum::<f64>() / put_bytes;
        }
        writes
    }

    /// Returns partitions at moments of their cycles: those in which a LogStore is half full, or some of them that are
    /// evenly spaced, others in each partition.
    fn moments(&self, common: &Common, cycles: &[Cycle]) -> Vec<Partition> {
        let count = cycles.len() as f64;
        let of_cycle = |(number, cycle): (usize, &Cycle)| {
            let runs = cycle.runs.len() as f64;
            let moments = (MOMENTS_SAMPLED / count).ceil().min(runs);
            let offset = (number as f64 + 0.5) / count;
            let moment = |moment| (f64::from(moment) + offset) / moments * runs;
            (0..moments as u32).map(|at| self.after(common, cycle, moment(at) as usize)).collect::<Vec<_>>()
        };
        cycles.iter().enumerate().flat_map(of_cycle).collect()
    }

    /// Returns a database whose keys are overwritten, on average between two merges of its partitions. The peak of
    /// memory is that just before a merge ends.
    ///
    /// # Errors
    /// Settings outside their limits.
    pub fn overwritten(&self, keys: f64, puts: &LogStorePuts) -> Result<BloomStoreSteady, ModelError> {
        self.check()?;
        let records = &self.records;
        let common = self.common(keys / records.partitions);
        let cycles = self.cycles(&common, puts);
        // Chains are written every few runs, so lookups are those of the mean over a cycle.
        let mean = self.state(keys, &self.moments(&common, &cycles), BloomStoreWrites::default());
        let full = cycles.iter().map(|cycle| self.after(&common, cycle, cycle.runs.len() - 1));
        let full: BloomStoreGrown = self.state(keys, &full.collect::<Vec<_>>(), BloomStoreWrites::default());
        let slot_bytes = records.log_slot_bytes(common.slots, records.log_record_bytes());
        let of_partition = self.buffered_filters * self.buffered_bytes(&common.run, common.ranges);
        let ram_peak = BloomStoreRam {
            // All tables, and those of LogStores that are being converted.
            log_stores: 1.25 * common.slots * slot_bytes * records.partitions,
            // The merged run has its columns in memory until its chain is written.
            filters: of_partition * records.partitions + self.columns_bytes(&common.old, common.ranges),
            ..full.ram
        };
        let most = cycles.iter().map(|cycle| cycle.runs.len()).max().unwrap_or(0);
        Ok(BloomStoreSteady {
            writes: self.cycle_writes(&common, &cycles),
            ram_peak,
            reads_per_get: mean.reads_per_get,
            reads_per_miss: mean.reads_per_miss,
            runs: most as f64 + 1.0,
            space_amplification: full.space_amplification,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overwriting_costs_as_many_merges_as_space_allows() {
        let popularity = Popularity::uniform(10_000_000).unwrap();
        let of = |space: f64| {
            let layout = BloomStoreLayout { space, ..BloomStoreLayout::new(20.0, 44.0) };
            layout.overwritten(popularity.keys(), &layout.log_store_puts(&popularity)).unwrap()
        };
        let (less, more) = (of(1.25), of(1.75));
        // A merge for each quarter of the keys that are put again.
        assert!((3.2..4.4).contains(&less.writes.merges), "{less:?}");
        assert!((1.1..1.6).contains(&more.writes.merges), "{more:?}");
        assert!(less.reads_per_get < 2.1 && (1.0..1.1).contains(&less.reads_per_miss), "{less:?}");
        assert!(less.space_amplification < 1.6 && more.space_amplification < 2.2, "{less:?}, {more:?}");
    }
}
