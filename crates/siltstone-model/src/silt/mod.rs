//! SILT: equations 2.4 to 2.7 of Lim's dissertation, and Algorithm 5 (4.5) for skewed loads.
//!
//! The equations of 2.4 assume that every put is for a different key. [`Silt::writes`] accounts for keys that occur
//! twice in a LogStore or a merge. For a uniform load of many keys both agree. The cost of a record and of a key in
//! each store is a parameter: the paper's ([`Silt::paper`]), or that of this crate's engine ([`SiltLayout`]).

mod costs;
mod layout;
pub(crate) mod sizes;

pub use costs::{SiltRam, SiltWrites};
pub use layout::SiltLayout;

use super::error::{ModelError, fraction, positive};
use super::popularity::Popularity;
use super::root::increasing_root;

/// The slots at which a key may be stored: two buckets of four (2.4).
const CANDIDATE_SLOTS: f64 = 8.0;
/// With more HashStores than this, only this many are evaluated, evenly spread.
const STORES_SAMPLED: f64 = 64.0;
/// The points at which the cost of merges is evaluated while a store is filled.
const FILL_POINTS: u32 = 256;
/// The iterations that find the fill of the LogStores.
const LOGGED_ROUNDS: u32 = 8;
/// The maximum share of unmerged keys: at 1 the data would not need to grow for a merge.
const SHARE_MAX: f64 = 0.999;

/// The parameters of a SILT store with a constant number of keys.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Silt {
    /// N: the keys of all partitions.
    pub keys: f64,
    /// c: the bytes of a key and its value.
    pub item_bytes: f64,
    /// P: the instances, each with a LogStore, HashStores and a SortedStore of its own.
    pub partitions: f64,
    /// d: the keys in the HashStores of one partition when they are merged; a key in two of them counts twice. A store
    /// that merges its fullest partition whenever all HashStores together hold d · (P + 1) / 2 keys has the same steady
    /// state: one partition after the other reaches d.
    pub merge_keys: f64,
    /// The smallest d of a store that is being filled and still has few keys.
    pub merge_keys_min: f64,
    /// The part of d that does not grow with the keys. 0 in the paper.
    pub merge_keys_added: f64,
    /// The number of HashStores by which a merge exceeds d: only whole HashStores are merged, and the contents of
    /// LogStores do not count when a merge becomes due. 0 in the paper.
    pub merge_excess_stores: f64,
    /// How many HashStores' worth of keys a merge takes directly from the LogStore, without conversion. 0 in the paper.
    pub merge_logged_stores: f64,
    /// The HashStores of a partition beyond those needed for its keys if all were full. 0 in the paper.
    pub partial_stores: f64,
    /// The slots of a LogStore's table: 2^(k + 2) in the paper.
    pub table_slots: f64,
    /// The share of these slots that is used when a LogStore is converted.
    pub table_occupancy: f64,
    /// The bytes of log after which LogStores are converted, even if they are not full. Infinite in the paper.
    pub log_bytes_max: f64,
    /// The bytes of a record in the log.
    pub log_record_bytes: f64,
    /// The bytes of a record in a HashStore.
    pub hash_record_bytes: f64,
    /// The fixed size of a HashStore on flash, in bytes. 0 in the paper.
    pub hash_store_bytes: f64,
    /// The bytes of a record in a SortedStore.
    pub sorted_record_bytes: f64,
    /// The fixed size of a SortedStore on flash, in bytes. 0 in the paper.
    pub sorted_store_bytes: f64,
    /// The index of a LogStore, in bytes per slot.
    pub log_slot_bytes: f64,
    /// The share of a LogStore's slots that is allocated while it is filled, on average. 1 in the paper.
    pub log_slots_allocated: f64,
    /// The same, over all LogStores, when memory is at its peak. 1 in the paper.
    pub log_slots_allocated_peak: f64,
    /// Full LogStores that wait for conversion when memory is at its peak. 1 in the paper.
    pub frozen_stores_peak: f64,
    /// The share by which HashStores exceed their bound at the peak of memory, during a merge. 0 in the paper.
    pub hash_excess: f64,
    /// The share of a merge's keys that are written again before it ends, at the peak of memory. 0 in the paper.
    pub refilled_share: f64,
    /// The memory of HashStores, filters and all else, in bytes per record.
    pub filter_bytes: f64,
    /// The index of the SortedStore, in bytes per key.
    pub sorted_index_bytes: f64,
    /// The average number of candidates that the LogStore returns for a missing key.
    pub log_false_positives: f64,
    /// f: the false positive rate of a HashStore's filter.
    pub false_positives: f64,
    /// The average number of reads from the SortedStore for a missing key: 1 without a filter, as in the paper.
    pub last_false_positives: f64,
    /// The memory of running conversions, merges and lookups, in bytes. 0 in the paper.
    pub buffer_bytes: f64,
    /// The memory of a database that does not depend on its data, in bytes. 0 in the paper.
    pub fixed_bytes: f64,
    /// The log that is not yet released, beyond that of one LogStore, in bytes. 0 in the paper.
    pub log_tail_bytes: f64,
}

/// The time between two conversions of one LogStore.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// The puts into all partitions within it.
    pub puts: f64,
    /// The keys that all partitions convert within it.
    keys: f64,
}

impl Silt {
    /// Returns the store of the paper, with 15-bit tags and tables of 2^17 slots.
    pub fn paper(keys: f64, item_bytes: f64, partitions: f64, merge_keys: f64) -> Self {
        Self::with_tags(keys, item_bytes, partitions, merge_keys, 15.0)
    }

    /// Returns the store of the paper with tags of k bits, and with tables of 2^(k + 2) slots.
    pub fn with_tags(keys: f64, item_bytes: f64, partitions: f64, merge_keys: f64, tag_bits: f64) -> Self {
        let table_occupancy = 0.93;
        let false_positives = CANDIDATE_SLOTS / tag_bits.exp2();
        Silt {
            keys,
            item_bytes,
            partitions,
            merge_keys,
            merge_keys_min: 0.0,
            merge_keys_added: 0.0,
            merge_excess_stores: 0.0,
            merge_logged_stores: 0.0,
            partial_stores: 0.0,
            table_slots: 4.0 * tag_bits.exp2(),
            table_occupancy,
            log_bytes_max: f64::INFINITY,
            log_record_bytes: item_bytes,
            hash_record_bytes: item_bytes / table_occupancy,
            hash_store_bytes: 0.0,
            sorted_record_bytes: item_bytes,
            sorted_store_bytes: 0.0,
            log_slot_bytes: (tag_bits + 1.0) / 8.0 + 4.0,
            log_slots_allocated: 1.0,
            log_slots_allocated_peak: 1.0,
            frozen_stores_peak: 1.0,
            hash_excess: 0.0,
            refilled_share: 0.0,
            filter_bytes: tag_bits / 8.0 / table_occupancy,
            sorted_index_bytes: 0.4,
            log_false_positives: false_positives,
            false_positives,
            last_false_positives: 1.0,
            buffer_bytes: 0.0,
            fixed_bytes: 0.0,
            log_tail_bytes: 0.0,
        }
    }

    /// Rounds d up to whole HashStores, as if a partition was merged once it has d keys.
    pub fn of_whole_hash_stores(self) -> Self {
        // The subtraction keeps a whole number from being rounded up because of its last digit.
        let stores = (self.merge_keys / self.table_keys() - 1e-9).ceil();
        Silt { merge_keys: stores * self.table_keys(), ..self }
    }

    /// Checks that such a store is possible: sizes above zero, shares within 0 to 1.
    pub fn check(&self) -> Result<(), ModelError> {
        positive("keys", self.keys)?;
        positive("item bytes", self.item_bytes)?;
        positive("partitions", self.partitions)?;
        positive("keys per merge", self.merge_keys)?;
        positive("table slots", self.table_slots)?;
        positive("table occupancy", fraction("table occupancy", self.table_occupancy)?)?;
        positive("log bytes per record", self.log_record_bytes)?;
        positive("HashStore bytes per record", self.hash_record_bytes)?;
        positive("SortedStore bytes per record", self.sorted_record_bytes)?;
        Ok(())
    }

    /// Returns the keys of a full LogStore.
    pub fn table_keys(&self) -> f64 {
        self.table_slots * self.table_occupancy
    }

    fn turn_at_worst(&self) -> Turn {
        let keys = (self.partitions * self.table_keys()).min(self.log_bytes_max / self.log_record_bytes);
        Turn { puts: keys, keys }
    }

    /// Returns what a turn depends on besides the popularity: the keys of all full LogStores, and the maximum of puts.
    pub(super) fn turn_limits(&self) -> (f64, f64) {
        (self.partitions * self.table_keys(), self.log_bytes_max / self.log_record_bytes)
    }

    pub(super) fn turn(&self, popularity: &Popularity) -> Turn {
        let (full, puts_max) = self.turn_limits();
        let puts = popularity.unique_inverse(full);
        if puts <= puts_max {
            Turn { puts, keys: full }
        } else {
            Turn { puts: puts_max, keys: popularity.unique(puts_max) }
        }
    }

    /// hc: the HashStores of a partition when they are merged.
    pub fn hash_stores_max(&self) -> f64 {
        self.merge_keys / self.hash_store_keys() + self.merge_excess_stores
    }

    /// H: the average number of HashStores of a partition (2.5).
    pub fn hash_stores_mean(&self) -> f64 {
        self.hashed_keys_mean() / self.partitions / self.hash_store_keys() + self.partial_stores
    }

    /// Returns the share of a merge's keys that were converted before.
    fn converted_share(&self) -> f64 {
        1.0 - self.merge_logged_stores / self.hash_stores_max().max(self.merge_logged_stores)
    }

    fn hash_store_keys(&self) -> f64 {
        self.turn_at_worst().keys / self.partitions
    }

    /// Returns the keys of all HashStores when a partition is merged.
    fn hashed_keys_max(&self) -> f64 {
        self.held(self.merge_keys)
    }

    /// Between two merges the HashStores grow by as much as a merge takes.
    fn hashed_keys_mean(&self) -> f64 {
        self.hashed_keys_max() - self.hash_stores_max() * self.hash_store_keys() / 2.0
    }

    /// Returns the write amplification if no key is put twice before its merge (2.4): 2.075 + N / (d · P) in the paper.
    pub fn writes_at_worst(&self) -> SiltWrites {
        self.writes_of(self.turn_at_worst())
    }

    /// Returns the write amplification under this load (Algorithm 5).
    ///
    /// `popularity` describes the whole store, whose keys are spread over the partitions by hash; the LogStores of all
    /// partitions together hold Unique(p) keys of the last p puts. To reproduce the dissertation's numbers, use one
    /// partition and the popularity of its keys.
    pub fn writes(&self, popularity: &Popularity) -> SiltWrites {
        self.writes_of(self.turn(popularity))
    }

    pub(super) fn writes_of(&self, turn: Turn) -> SiltWrites {
        let left = turn.keys / turn.puts;
        let merges = left / (self.hash_stores_max() * self.hash_store_keys());
        SiltWrites {
            log_store: self.log_record_bytes / self.item_bytes,
            hash_stores: self.converted_bytes(left * self.converted_share(), merges) / self.item_bytes,
            sorted_store: merges * self.merge_bytes(self.keys) / self.item_bytes,
        }
    }

    /// Returns the bytes that conversions and merges read per byte put.
    pub(super) fn background_reads(&self, turn: Turn) -> f64 {
        let left = turn.keys / turn.puts;
        let taken = self.hash_stores_max() * self.hash_store_keys();
        let merges = left / taken;
        let converted = self.converted_share();
        let of_hash_stores = taken * converted * self.hash_record_bytes;
        let of_log = taken * (1.0 - converted) * self.log_record_bytes;
        let merged = merges * (self.merge_bytes(self.keys) + of_hash_stores + of_log);
        (left * converted * self.log_record_bytes + merged) / self.item_bytes
    }

    /// Returns the bytes written by the conversion of this many records, between this many merges.
    fn converted_bytes(&self, records: f64, merges: f64) -> f64 {
        let stores = records / self.hash_store_keys() + merges * self.partial_stores;
        records * self.hash_record_bytes + stores * self.hash_store_bytes
    }

    /// Returns the bytes written by a merge in a store of this many keys.
    fn merge_bytes(&self, keys: f64) -> f64 {
        keys / self.partitions * self.sorted_record_bytes + self.sorted_store_bytes
    }

    /// Returns the write amplification of putting N new keys, each once, into an empty store; d grows with the keys.
    ///
    /// Let h be the share of unmerged keys. Partitions are merged in turn, and the data grows by a factor e^x from one
    /// merge of a partition to the next, where h is the mean of 1 − e^(−xi/P) over i = 1 to P. A merge writes all keys
    /// of a partition, so a new key costs 1 / x key writes. In addition every partition is merged once before that,
    /// when the HashStores reach the minimum of d.
    pub fn writes_of_filling(&self) -> SiltWrites {
        let held_min = self.held(self.merge_keys_min).max(1.0);
        let first = held_min + self.logged(2.0 * held_min / (self.partitions + 1.0));
        let (mut merges, mut merged_bytes) = (0.0, 0.0);
        if first < self.keys {
            merges = self.partitions;
            merged_bytes = merges * self.merge_bytes(first);
            let step = (self.keys / first).ln() / f64::from(FILL_POINTS);
            for point in 0..FILL_POINTS {
                let keys = first * (step * (f64::from(point) + 0.5)).exp();
                let share = (self.unmerged(keys) / keys).min(SHARE_MAX);
                let made = self.partitions * step / growth_between_merges(share, self.partitions);
                merges += made;
                merged_bytes += made * self.merge_bytes(keys);
            }
        }
        let logged =
            self.turn_at_worst().keys / 2.0 + merges * self.merge_logged_stores * self.hash_store_keys();
        let converted = (self.keys - logged).max(0.0);
        SiltWrites {
            log_store: self.log_record_bytes / self.item_bytes,
            hash_stores: self.converted_bytes(converted, merges) / self.keys / self.item_bytes,
            sorted_store: merged_bytes / self.keys / self.item_bytes,
        }
    }

    /// Returns the keys of all HashStores when a merge becomes due, for this d.
    fn held(&self, merge_keys: f64) -> f64 {
        merge_keys * (self.partitions + 1.0) / 2.0
    }

    /// Returns the keys of HashStores and LogStores when a merge becomes due, in a growing store of this many keys.
    fn unmerged(&self, keys: f64) -> f64 {
        let added = self.held(self.merge_keys_added.min(self.merge_keys));
        let share = (self.held(self.merge_keys) - added) / self.keys;
        // If merges take few keys, the LogStores hold less, and so do merges: a few iterations find both.
        let mut logged = self.turn_at_worst().keys / 2.0;
        let mut unmerged = 0.0;
        for _ in 0..LOGGED_ROUNDS {
            // The LogStore whose conversion made the merge due is empty, and its keys are beyond the bound. On average
            // both are half a LogStore, and cancel out.
            unmerged = (share * (keys - logged) + added).max(self.held(self.merge_keys_min)) + logged;
            logged = self.logged(2.0 * unmerged / (self.partitions + 1.0));
        }
        unmerged
    }

    /// Returns the average number of keys in all LogStores, if merges take this many keys of a partition.
    ///
    /// A merge also takes the LogStore. The next one is converted when a share u of it is filled, where u is uniformly
    /// distributed over the partitions. After y of a LogStore's keys, its average fill is y − y² / 2; the LogStores
    /// after that are half full on average.
    fn logged(&self, merged_keys: f64) -> f64 {
        let stores = merged_keys / self.hash_store_keys();
        let fullness =
            if stores < 1.0 { stores / 2.0 - stores * stores / 6.0 } else { 0.5 - 1.0 / (6.0 * stores) };
        self.turn_at_worst().keys * fullness
    }

    /// Returns the reads of a get that finds its key in the SortedStore (2.6).
    pub fn reads_per_get_at_worst(&self) -> f64 {
        1.0 + self.log_false_positives + self.hash_stores_mean() * self.false_positives
    }

    /// Returns the reads of a get of a missing key.
    pub fn reads_per_miss(&self) -> f64 {
        self.reads_per_get_at_worst() - 1.0 + self.last_false_positives
    }

    /// Returns the average reads of a get, where gets are distributed as puts are. A lookup ends at the store that has
    /// the key, so only the stores before it can give false positives.
    pub fn reads_per_get(&self, popularity: &Popularity) -> f64 {
        let (log_stores, hash_stores) = self.stores_asked(popularity);
        1.0 + log_stores * self.log_false_positives + hash_stores * self.false_positives
    }

    fn stores_asked(&self, popularity: &Popularity) -> (f64, f64) {
        self.stores_asked_of(self.turn(popularity), |puts| popularity.absent(puts))
    }

    /// Returns the numbers of LogStores and HashStores that a lookup visits in vain before the store that has the key.
    /// `absent` returns the share of gets whose key was not among the given number of puts.
    pub(super) fn stores_asked_of(&self, turn: Turn, absent: impl Fn(f64) -> f64) -> (f64, f64) {
        let interval = turn.puts;
        if interval.is_infinite() {
            return (0.0, 0.0);
        }
        // On average a LogStore is half full, and every number of HashStores up to hc is equally frequent.
        let most = 2.0 * self.hash_stores_mean();
        let samples = most.ceil().clamp(1.0, STORES_SAMPLED);
        let step = most / samples;
        let mut hash_stores = 0.0;
        let mut sample = 0.5;
        while sample < samples {
            let store = sample * step;
            hash_stores += step * (1.0 - store / most) * absent(interval * (store + 1.0));
            sample += 1.0;
        }
        (absent(interval / 2.0), hash_stores)
    }

    /// Returns the average memory (2.7), without the buffers of conversions and merges.
    pub fn ram(&self) -> SiltRam {
        self.ram_of(self.partitions * self.log_slots_allocated, self.hashed_keys_mean(), self.partitions, 0.0)
    }

    /// Returns the peak of memory of a store that is written as fast as it accepts writes. Before a merge the
    /// HashStores hold d · (P + 1) / 2 keys and the HashStore that triggers the merge. During the merge, writes exceed
    /// that bound and replace part of what the merge will remove, LogStores wait for conversion, and one more
    /// SortedStore is built.
    pub fn ram_peak(&self) -> SiltRam {
        let log_stores = self.partitions * self.log_slots_allocated_peak + self.frozen_stores_peak;
        let hashed = self.hashed_keys_max() * (1.0 + self.hash_excess)
            + self.hash_store_keys()
            + self.merge_keys * self.refilled_share;
        self.ram_of(log_stores, hashed, self.partitions + 1.0, self.buffer_bytes)
    }

    fn ram_of(&self, log_stores: f64, hashed: f64, sorted_stores: f64, buffers: f64) -> SiltRam {
        SiltRam {
            log_stores: log_stores * self.table_slots * self.log_slot_bytes,
            hash_stores: hashed * self.filter_bytes,
            sorted_stores: sorted_stores * self.keys / self.partitions * self.sorted_index_bytes,
            buffers,
            fixed: self.fixed_bytes,
        }
    }

    /// Returns the maximum number of open store files: those when the HashStores are fullest, and one for each job.
    pub fn store_files_max(&self) -> f64 {
        let hashed = self.hashed_keys_max() * (1.0 + self.hash_excess) + self.merge_keys;
        let hash_stores = hashed / self.hash_store_keys() + self.partitions * self.partial_stores;
        (hash_stores + self.partitions + 2.0).ceil()
    }

    /// MO: the average memory per key, in bytes (2.7).
    pub fn ram_bytes_per_key(&self) -> f64 {
        self.ram().total() / self.keys
    }

    /// Returns the maximum number of bytes on flash per byte of items: when the HashStores are fullest and a partition
    /// is merged, with the log of one turn of the LogStores.
    pub fn space_amplification(&self, popularity: &Popularity) -> f64 {
        self.space_of(self.turn(popularity)) / (self.keys * self.item_bytes)
    }

    /// Returns the same in bytes.
    pub(super) fn space_of(&self, turn: Turn) -> f64 {
        let hashed = self.hashed_keys_max();
        let sorted = self.keys * (1.0 + 1.0 / self.partitions);
        let hash_stores = hashed / self.hash_store_keys() + self.partitions * self.partial_stores;
        self.log_bytes(turn)
            + hashed * self.hash_record_bytes
            + hash_stores * self.hash_store_bytes
            + sorted * self.sorted_record_bytes
            + (self.partitions + 1.0) * self.sorted_store_bytes
    }

    /// Returns the maximum size of the log, in bytes.
    pub(super) fn log_bytes(&self, turn: Turn) -> f64 {
        if turn.puts.is_infinite() {
            // All keys fit into the LogStores, which never become full. The paper has no rule for this case.
            return 2.0 * self.partitions * self.table_keys() * self.log_record_bytes + self.log_tail_bytes;
        }
        turn.puts * self.log_record_bytes + self.log_tail_bytes
    }
}

/// x of [`Silt::writes_of_filling`] for a share h within 0 to 1.
fn growth_between_merges(share: f64, partitions: f64) -> f64 {
    let steps = partitions.clamp(1.0, STORES_SAMPLED);
    increasing_root(share, 2.0 * share, |x| {
        let of_step = |step: u32| -(-x * f64::from(step) / steps).exp_m1();
        (1..=steps as u32).map(of_step).sum::<f64>() / steps
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyStream;
    use std::collections::HashSet;

    /// The example of 2.4.
    fn example() -> Silt {
        Silt::paper(1e8, 1024.0, 4.0, 7.5e6)
    }

    fn near(got: f64, expected: f64, tolerance: f64) {
        assert!((got - expected).abs() <= tolerance, "{got} for {expected}");
    }

    #[test]
    fn the_example_of_2_4_is_reached() {
        let silt = example();
        near(silt.writes_at_worst().total(), 5.4, 0.05);
        near(silt.hash_stores_mean(), 31.0, 0.5);
        near(silt.reads_per_get_at_worst(), 1.008, 0.0005);
        near(silt.ram_bytes_per_key(), 0.73, 0.005);
        near(silt.ram().total(), 73e6, 0.5e6);
        near(silt.hash_stores_max(), 61.5, 0.1);
    }

    /// The closed forms of (2.5) to (2.7) give the paper's results.
    #[test]
    fn the_equations_are_those_of_the_paper() {
        let silt = example();
        let (n, p, d, k) = (1e8, 4.0, 7.5e6, 15.0f64);
        near(silt.writes_at_worst().total(), 2.075 + n / (d * p), 0.001);
        near(silt.hash_stores_mean(), 0.134 * d / k.exp2(), 0.1);
        near(silt.reads_per_get_at_worst(), 8.0 / k.exp2() + 1.07 * d / 4f64.powf(k) + 1.0, 1e-4);
        near(silt.ram_bytes_per_key(), ((16.5 + 0.5 * k) * k.exp2() + 0.067 * k * d) * p / n + 0.4, 0.01);
    }

    /// 4.5, with the popularity of one partition of N / 4 keys. All keys at once would give 2.91 and 5.04.
    #[test]
    fn the_skewed_example_of_4_5_is_reached() {
        let popularity = Popularity::zipf(25_000_000, 0.99).unwrap();
        let mut silt = Silt { keys: 25e6, partitions: 1.0, ..example() };
        silt.merge_keys = 62.0 * silt.table_keys();
        let ram = silt.ram_bytes_per_key();
        near(silt.writes(&popularity).total(), 3.04, 0.005);
        silt.merge_keys = 25.0 * silt.table_keys();
        near(silt.writes(&popularity).total(), 5.33, 0.005);
        near(silt.ram_bytes_per_key(), 0.56, 0.01);
        near(silt.ram_bytes_per_key() / ram, 0.75, 0.01);

        let popularity = Popularity::zipf(100_000_000, 0.99).unwrap();
        let mut silt = example();
        silt.merge_keys = 62.0 * silt.table_keys();
        near(silt.writes(&popularity).total(), 2.91, 0.005);
        silt.merge_keys = 25.0 * silt.table_keys();
        near(silt.writes(&popularity).total(), 5.04, 0.005);
    }

    #[test]
    fn uniform_loads_of_many_keys_write_as_in_the_worst_case() {
        let silt = example();
        let uniform = silt.writes(&Popularity::uniform(100_000_000).unwrap()).total();
        near(uniform, silt.writes_at_worst().total(), 0.02);
    }

    /// Simulates the stores with sets of keys and the trigger over all partitions. Gets are distributed as puts are.
    fn simulate(silt: &Silt, popularity: &Popularity) -> (f64, f64, f64) {
        let partitions = silt.partitions as usize;
        let table_keys = silt.table_keys() as usize;
        let limit = silt.merge_keys * (silt.partitions + 1.0) / 2.0;
        let partition_of = |key: u32| (key.wrapping_mul(0x9e37_79b1) >> 7) as usize % partitions;
        let mut sizes = vec![0.0; partitions];
        (0..silt.keys as u32).for_each(|key| sizes[partition_of(key)] += 1.0);
        let mut logs: Vec<HashSet<u32>> = vec![HashSet::new(); partitions];
        let mut hashes: Vec<Vec<HashSet<u32>>> = vec![Vec::new(); partitions];
        let (mut converted, mut merged, mut puts, mut peak) = (0.0, 0.0, 0.0, 0.0f64);
        let (mut asked, mut gets) = (0, 0);
        let warm = 4 * silt.keys as usize;
        for (request, key) in KeyStream::new(popularity, 5).unwrap().take(3 * warm).enumerate() {
            let partition = partition_of(key);
            if request % 16 == 0 && request > warm {
                gets += 1;
                let newest_first = hashes[partition].iter().rev();
                let stores = std::iter::once(&logs[partition]).chain(newest_first);
                asked += stores.take_while(|store| !store.contains(&key)).count();
                continue;
            }
            logs[partition].insert(key);
            puts += f64::from(u8::from(request > warm));
            if logs[partition].len() < table_keys {
                continue;
            }
            hashes[partition].push(std::mem::take(&mut logs[partition]));
            converted += if request > warm { table_keys as f64 } else { 0.0 };
            let held = |stores: &Vec<HashSet<u32>>| stores.len() * table_keys;
            let all: usize = hashes.iter().map(held).sum();
            peak = peak.max(all as f64);
            if all as f64 >= limit {
                let fullest = (0..partitions).max_by_key(|&p| held(&hashes[p])).unwrap();
                hashes[fullest].clear();
                merged += if request > warm { sizes[fullest] } else { 0.0 };
            }
        }
        let writes = 1.0 + converted / puts / silt.table_occupancy + merged / puts;
        (writes, 1.0 + asked as f64 / f64::from(gets) * silt.false_positives, peak)
    }

    #[test]
    fn the_model_agrees_with_a_simulation_of_the_global_trigger() {
        for (skew, tolerance) in [(0.0, 0.03), (0.6, 0.03), (0.99, 0.03)] {
            let popularity = Popularity::zipf(200_000, skew).unwrap();
            let silt = Silt::with_tags(200_000.0, 100.0, 8.0, 12_000.0, 8.0);
            let (writes, reads, peak) = simulate(&silt, &popularity);
            let model = silt.writes(&popularity).total();
            assert!((model / writes - 1.0).abs() < tolerance, "skew {skew}: {model} for {writes}");
            let model = silt.reads_per_get(&popularity);
            assert!((model / reads - 1.0).abs() < 0.01, "skew {skew}: {model} reads for {reads}");
            assert!(peak <= silt.merge_keys * 4.5 + silt.table_slots, "{peak}");
        }
    }

    #[test]
    fn a_single_partition_merges_whole_hash_stores_as_in_a_simulation() {
        let popularity = Popularity::zipf(100_000, 0.99).unwrap();
        for stores in [2.6, 3.0, 8.4] {
            let silt = Silt::with_tags(100_000.0, 100.0, 1.0, 1.0, 8.0);
            let silt = Silt { merge_keys: stores * silt.table_keys().floor(), ..silt };
            let (writes, _, _) = simulate(&silt, &popularity);
            let ratio = silt.of_whole_hash_stores().writes(&popularity).total() / writes;
            assert!((ratio - 1.0).abs() < 0.03, "{stores} HashStores: {ratio}");
        }
    }

    #[test]
    fn keys_that_fit_into_the_logs_are_only_logged() {
        let silt = Silt::paper(1_000.0, 100.0, 4.0, 500.0);
        let popularity = Popularity::uniform(1_000).unwrap();
        assert_eq!(silt.writes(&popularity).total(), 1.0);
        assert!(silt.space_amplification(&popularity).is_finite());
        assert!(Silt { keys: 0.0, ..silt }.check().is_err());
    }
}
