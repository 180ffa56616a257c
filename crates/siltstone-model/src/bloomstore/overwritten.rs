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
use crate::silt::log_tables;

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
    /// Those of the first one after a merge, in each partition.
    first: Vec<f64>,
}

/// What a partition writes from one merge to the next.
struct Cycle {
    /// The records of its runs, the oldest first.
    runs: Vec<f64>,
    puts: f64,
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

    /// Returns the keys with which the first LogStore after a merge is frozen, in each partition.
    fn first_log_stores(&self, partition_keys: f64) -> impl Iterator<Item = f64> + use<> {
        let (slots, log_keys) = self.full_log_store(partition_keys);
        let count = self.records.partitions;
        let keys = move |number: usize| (slots * OCCUPANCY * number as f64 / count).min(log_keys);
        (1..count as usize).map(keys).chain([log_keys])
    }

    /// Returns what each partition writes between two merges.
    fn cycles(&self, partition_keys: f64, puts: &LogStorePuts) -> Vec<Cycle> {
        let (_, log_keys) = self.full_log_store(partition_keys);
        // The records in runs above which there is too much garbage.
        let young = (self.space - 1.0) * partition_keys;
        let first_log_stores = self.first_log_stores(partition_keys).zip(&puts.first);
        let cycle = |(first, first_puts): (f64, &f64)| {
            let others = ((young - first) / log_keys).max(0.0).floor() + 1.0;
            let others = others.clamp(1.0, self.chain_length);
            let runs = std::iter::once(first).chain((0..others as usize).map(|_| log_keys)).collect();
            Cycle { runs, puts: first_puts + others * puts.full }
        };
        first_log_stores.map(cycle).collect()
    }

    /// Returns a database whose keys are overwritten, on average between two merges of its partitions. The peak of
    /// memory is that just before a merge ends.
    ///
    /// # Errors
    /// Settings outside their limits.
    pub fn overwritten(&self, keys: f64, puts: &LogStorePuts) -> Result<BloomStoreSteady, ModelError> {
        self.check()?;
        let records = &self.records;
        let partition_keys = keys / records.partitions;
        let (slots, log_keys) = self.full_log_store(partition_keys);
        let ranges = self.ranges(&self.log_layout(), partition_keys);
        let old = self.run(partition_keys, ranges, true);
        let run = self.run(log_keys, ranges, false);
        let after = |cycle: &Cycle, count: usize| {
            let buffered = self.buffered_filters as usize;
            let chained = count / buffered.max(1) * buffered;
            let young = cycle.runs.iter().take(count).enumerate();
            let young = young
                .map(|(number, keys)| Run { in_chain: number < chained, ..self.run(*keys, ranges, false) });
            Partition {
                runs: std::iter::once(old).chain(young).collect(),
                keys: partition_keys,
                ranges,
                prefixes: self.prefixes(&self.log_layout(), partition_keys),
                first_share: 1.0,
                slots,
                room: log_keys,
                tables: log_tables(records.log_slots(partition_keys)),
                log_keys,
                logged: cycle.runs.get(count).unwrap_or(&log_keys) / 2.0,
            }
        };
        let cycles = self.cycles(partition_keys, puts);
        // All partitions get as many puts.
        let mut writes = BloomStoreWrites {
            log: records.log_record_bytes() / (records.key_bytes + records.value_bytes),
            ..BloomStoreWrites::default()
        };
        for cycle in &cycles {
            let put_bytes = cycle.puts * (records.key_bytes + records.value_bytes) * records.partitions;
            let runs = cycle.runs.iter().map(|keys| self.run_bytes(&self.run(*keys, ranges, false), ranges));
            writes.runs += runs.sum::<f64>() / put_bytes;
            writes.merges += self.run_bytes(&old, ranges) / put_bytes;
            // The merge writes one of the old run, and each `buffered_filters` runs another one.
            let chains = (0..=cycle.runs.len()).step_by(self.buffered_filters.max(1.0) as usize);
            writes.chains +=
                chains.map(|count| self.chain_bytes(&after(cycle, count))).sum::<f64>() / put_bytes;
        }
        // Chains are written every few runs, so lookups are those of the mean over all of a cycle.
        let moments =
            |cycle: &Cycle| (0..cycle.runs.len()).map(|count| after(cycle, count)).collect::<Vec<_>>();
        let moments: Vec<_> = cycles.iter().flat_map(moments).collect();
        let mean = self.state(keys, &moments, BloomStoreWrites::default());
        let full: Vec<_> = cycles.iter().map(|cycle| after(cycle, cycle.runs.len() - 1)).collect();
        let full: BloomStoreGrown = self.state(keys, &full, BloomStoreWrites::default());
        let slot_bytes = records.log_slot_bytes(slots, records.log_record_bytes());
        let buffered = self.buffered_filters * self.columns_bytes(&run, ranges) * records.partitions;
        let ram_peak = BloomStoreRam {
            // All tables, and those of LogStores that are being converted.
            log_stores: 1.25 * slots * slot_bytes * records.partitions,
            filters: buffered + self.columns_bytes(&old, ranges),
            ..full.ram
        };
        let most = cycles.iter().map(|cycle| cycle.runs.len()).max().unwrap_or(0);
        Ok(BloomStoreSteady {
            writes,
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
