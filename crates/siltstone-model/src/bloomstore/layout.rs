//! The costs of this crate's BloomStore engine, whose partitions are followed from the first key on: each flush of a
//! LogStore makes a run, each `buffered_filters` runs a new chain, and a partition with too many runs is merged.
//! `tests/model_vs_measured.rs` compares the results with the engine's own counters.

use super::super::error::{ModelError, non_negative, positive};
use super::lookups::{Lookups, Rates};
use super::partition::{Partition, Run};
use crate::silt::SiltLayout;
use crate::silt::sizes::{FILE_ALIGNMENT, FOOTER_BYTES, ascending_bytes, log_tables, ribbon_bytes};
use siltstone::BloomStoreSettings;
use siltstone::engine::silt::costs;
use siltstone_index::bloom::functions_of;
use siltstone_index::prefilter::prefixes_for;

const PARTITION_BYTES: f64 = costs::PARTITION_BYTES as f64;
const STORE_BYTES: f64 = costs::STORE_BYTES as f64;
pub(super) const OCCUPANCY: f64 = costs::OCCUPANCY;
const LOG_SLOTS_MAX: f64 = costs::LOG_SLOTS_MAX as f64;
/// The unit of a page's length, in bytes.
const PAGE_UNIT: f64 = costs::CHAIN_BLOCK_BYTES as f64;
/// A page without columns: its header and that of its filters; each matrix of filters; each column without its filter:
/// the first block and the number of fences.
const PAGE_HEADER_BYTES: f64 = 20.0;
const MATRIX_BYTES: f64 = 8.0;
const COLUMN_BYTES: f64 = 7.0;
/// The directory of a chain on flash without its runs, and each of these; the place of a page; a run in memory.
const DIRECTORY_BYTES: f64 = 12.0;
const CHAIN_RUN_BYTES: f64 = 12.0;
const PLACE_BYTES: f64 = 4.0;
const CHAIN_RUN_RAM_BYTES: f64 = 16.0;
/// The columns of a run on flash without filters, first blocks and fences.
const COLUMNS_HEADER_BYTES: f64 = 20.0;
/// A fence on flash (a run has one per block), and its numbers in a range.
const FENCE_BYTES: f64 = 2.0;
const FENCES_PER_RANGE: f64 = 65_536.0;
/// The columns per range of the oldest run.
const OLD_COLUMNS: f64 = costs::OLD_COLUMNS as f64;
/// A partition is followed over as many flushes at most.
const FLUSHES_MAX: usize = 1 << 20;
/// Each partition is computed on its own, and each of its runs.
const PARTITIONS_MAX: f64 = 1024.0;
const CHAIN_LENGTH_MAX: f64 = 1000.0;

/// The records, and the engine's settings.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct BloomStoreLayout {
    /// The format of records, the partitions, and the LogStores, which are those of the engine SILT.
    pub records: SiltLayout,
    /// H: the most runs of a partition.
    pub chain_length: f64,
    /// The bits of the filter of a run, per record.
    pub filter_bits: f64,
    /// B: the runs of a partition that have filters in memory.
    pub buffered_filters: f64,
    /// The bits of the filter of the oldest run, per record.
    pub old_filter_bits: f64,
    /// The bits of the prefilter per key of a full chain; 0 for none.
    pub prefilter_bits: f64,
    /// The records in stores per key that they have, at most.
    pub space: f64,
    /// The number of keys that there will be; 0 if that is not known.
    pub expected_keys: f64,
}

/// Bytes written per byte put, of keys that are new.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct BloomStoreWrites {
    /// The log.
    pub log: f64,
    /// Runs made of LogStores.
    pub runs: f64,
    /// Chains.
    pub chains: f64,
    /// Runs made of all runs of a partition.
    pub merges: f64,
}

/// The memory, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct BloomStoreRam {
    /// The indexes of LogStores.
    pub log_stores: f64,
    /// The filters and fences of the newest runs.
    pub filters: f64,
    /// The places of the pages of chains.
    pub directories: f64,
    /// Prefilters.
    pub prefilters: f64,
    /// Open stores and partitions.
    pub fixed: f64,
}

/// A database that has grown to a number of keys.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct BloomStoreGrown {
    /// The number of keys.
    pub keys: f64,
    /// What was written since the first key.
    pub writes: BloomStoreWrites,
    /// The memory now.
    pub ram: BloomStoreRam,
    /// Reads per get of a key, any of them.
    pub reads_per_get: f64,
    /// Reads per get of a missing key.
    pub reads_per_miss: f64,
    /// Runs of a partition, on average.
    pub runs: f64,
    /// Bytes on flash per byte of items.
    pub space_amplification: f64,
}

impl BloomStoreWrites {
    /// WA: the sum.
    pub fn total(&self) -> f64 {
        self.log + self.runs + self.chains + self.merges
    }
}

impl BloomStoreRam {
    /// Returns the sum.
    pub fn total(&self) -> f64 {
        self.log_stores + self.filters + self.directories + self.prefilters + self.fixed
    }
}

impl BloomStoreLayout {
    /// Returns the engine's defaults, for records of one size.
    pub fn new(key_bytes: f64, value_bytes: f64) -> Self {
        let settings = BloomStoreSettings::default();
        // The other settings of LogStores are those of SILT.
        let records = SiltLayout::new(key_bytes, value_bytes);
        let records = SiltLayout { keys_per_log_slot: settings.runs.into(), ..records };
        BloomStoreLayout {
            records,
            chain_length: settings.chain_length.into(),
            filter_bits: settings.filter_bits.into(),
            buffered_filters: settings.buffered_filters.into(),
            old_filter_bits: settings.old_filter_bits.into(),
            prefilter_bits: settings.prefilter_bits.into(),
            space: settings.space,
            expected_keys: settings.expected_keys as f64,
        }
    }

    /// Checks that such a database is possible.
    ///
    /// # Errors
    /// The first value that is outside its limits.
    pub fn check(&self) -> Result<(), ModelError> {
        self.records.check()?;
        for (name, value) in [
            ("filter bits", self.filter_bits),
            ("buffered filters", self.buffered_filters),
            ("old filter bits", self.old_filter_bits),
        ] {
            positive(name, value)?;
        }
        positive("space above 1", self.space - 1.0)?;
        non_negative("prefilter bits", self.prefilter_bits)?;
        non_negative("expected keys", self.expected_keys)?;
        let within = |name, got: f64, most: f64, limit| match (1.0..=most).contains(&got) {
            true => Ok(()),
            false => Err(ModelError { name, got, limit }),
        };
        within("partitions", self.records.partitions, PARTITIONS_MAX, "within 1 to 1,024")?;
        within("chain length", self.chain_length, CHAIN_LENGTH_MAX, "within 1 to 1,000")
    }

    /// Returns the layout of LogStores. With a known number of keys, those of a chain of full length have these keys.
    pub(super) fn log_layout(&self) -> SiltLayout {
        if self.expected_keys == 0.0 {
            return self.records.clone();
        }
        let keys = self.expected_keys / self.records.partitions;
        let records = (keys + costs::MOST_DEVIATIONS * keys.sqrt()) / self.chain_length;
        let wanted = (records / (OCCUPANCY - costs::OCCUPANCY_DEVIATION)).ceil().min(LOG_SLOTS_MAX);
        let keys_per_log_slot = self.records.keys_per_log_slot.max(self.chain_length);
        let log_slots_min = self.records.log_slots_min.max(wanted);
        let mut log = SiltLayout { log_slots_min, keys_per_log_slot, ..self.records.clone() };
        while log.table(0.0).0 < wanted && log.log_slots_min < LOG_SLOTS_MAX {
            log.log_slots_min += (wanted / 16.0).floor() + 1.0;
        }
        log
    }

    /// Returns the records of the runs of a full chain, besides this many keys in the oldest run of the partition.
    fn young_records(&self, log: &SiltLayout, keys: f64) -> f64 {
        let length = self.chain_length;
        let growth = (1.0 + OCCUPANCY / log.keys_per_log_slot).powf(length) - 1.0;
        let smallest = length * log.smallest_log_slots() * OCCUPANCY;
        let expected = self.expected_keys / self.records.partitions;
        if expected > keys { expected - keys } else { keys * growth }.max(smallest)
    }

    /// Returns the number of prefixes of the prefilter of a partition with this many keys in its oldest run.
    pub(super) fn prefixes(&self, log: &SiltLayout, keys: f64) -> f64 {
        match self.prefilter_bits {
            0.0 => 0.0,
            bits => prefixes_for(keys + self.young_records(log, keys), bits) as f64,
        }
    }

    /// Returns the number of ranges of a partition with this many keys in its oldest run.
    pub(super) fn ranges(&self, log: &SiltLayout, keys: f64) -> f64 {
        let bits = self.young_records(log, keys) * self.filter_bits + keys * self.old_filter_bits;
        (bits / 8.0 / costs::CHAIN_PAGE_BYTES).ceil().max(1.0)
    }

    /// Returns the rows of the filters of a run: one of four numbers per power of two.
    fn rows(&self, keys: f64, columns: f64, bits: f64) -> u32 {
        let bits = (keys / columns * bits).max(8.0);
        let power = bits.log2().floor().exp2();
        ((4.0 * bits / power).round() * power / 4.0) as u32
    }

    pub(super) fn run(&self, keys: f64, ranges: f64, is_old: bool) -> Run {
        let (columns, bits) =
            if is_old { (OLD_COLUMNS, self.old_filter_bits) } else { (1.0, self.filter_bits) };
        let rows = self.rows(keys, ranges * columns, bits);
        Run { keys, rows, functions: functions_of(rows, f64::from(rows) / bits), columns, in_chain: is_old }
    }

    /// Returns the blocks of a run. The last one is half full.
    fn blocks(&self, keys: f64) -> f64 {
        self.records.stream_blocks(keys) + 0.5
    }

    /// Returns the filters, first blocks and fences of a run, in bytes.
    pub(super) fn columns_bytes(&self, run: &Run, ranges: f64) -> f64 {
        let columns = ranges * run.columns;
        let words = f64::from(run.rows.div_ceil(64));
        columns * (8.0 * words + 4.0) + 4.0 + FENCE_BYTES * self.blocks(run.keys)
    }

    /// Returns the bits of the filter in memory of a run that is in no chain.
    pub(super) fn buffered_bits(&self) -> f64 {
        self.filter_bits.min(costs::RUN_FILTER_BITS_MAX.into())
    }

    /// Returns the memory of the filter and the fences of a run that is in no chain, in bytes.
    pub(super) fn buffered_bytes(&self, run: &Run, ranges: f64) -> f64 {
        ribbon_bytes(run.keys, self.buffered_bits())
            + ascending_bytes(self.blocks(run.keys), ranges * FENCES_PER_RANGE)
    }

    /// Returns the length of a run's file.
    pub(super) fn run_bytes(&self, run: &Run, ranges: f64) -> f64 {
        let blocks = self.records.stream_blocks(run.keys);
        let filter = if run.is_old() { 0.0 } else { ribbon_bytes(run.keys, self.buffered_bits()) };
        self.records.file_bytes(blocks, COLUMNS_HEADER_BYTES + self.columns_bytes(run, ranges) + filter)
    }

    /// Returns the length of a chain of these runs.
    pub(super) fn chain_bytes(&self, partition: &Partition) -> f64 {
        let mut page = PAGE_HEADER_BYTES;
        let shape = |run: &Run| (run.rows, run.functions);
        for group in partition.runs.chunk_by(|one, other| shape(one) == shape(other)) {
            let columns: f64 = group.iter().map(|run| run.columns).sum();
            page += MATRIX_BYTES + (f64::from(group[0].rows) * columns / 64.0).ceil() * 8.0;
            page += columns * COLUMN_BYTES;
        }
        let blocks: f64 = partition.runs.iter().map(|run| self.blocks(run.keys)).sum();
        page += FENCE_BYTES * blocks / partition.ranges;
        let pages = partition.ranges * (page / PAGE_UNIT).ceil() * PAGE_UNIT;
        let directory = DIRECTORY_BYTES
            + CHAIN_RUN_BYTES * partition.runs.len() as f64
            + PLACE_BYTES * (partition.ranges + 1.0)
            + partition.prefilter().map_or(0.0, |prefilter| prefilter.flash_bytes());
        ((PAGE_UNIT + pages + directory + FOOTER_BYTES) / FILE_ALIGNMENT).ceil() * FILE_ALIGNMENT
    }

    /// Returns a database that has grown to this many keys by insertions alone.
    ///
    /// # Errors
    /// Settings outside their limits.
    pub fn grown(&self, keys: f64) -> Result<BloomStoreGrown, ModelError> {
        self.check()?;
        positive("keys", keys)?;
        let log = self.log_layout();
        let count = self.records.partitions;
        let numbers = 1..=count as usize;
        let begun = |number| Partition { first_share: number as f64 / count, ..Partition::default() };
        let mut partitions: Vec<Partition> = numbers.map(begun).collect();
        // The first LogStores are those of small records if the size of records is not known yet.
        let value_bytes = if self.records.fixed { self.records.value_bytes } else { 0.0 };
        let first = SiltLayout { value_bytes, ..log.clone() };
        partitions.iter_mut().for_each(|partition| begin_log_store(&first, partition, true));
        let (mut inserted, mut written) = (0.0, BloomStoreWrites::default());
        for _ in 0..FLUSHES_MAX {
            let left = |partition: &Partition| partition.log_keys - partition.logged;
            let least = partitions.iter().map(left).fold(f64::INFINITY, f64::min);
            let step = least.min((keys - inserted) / count).max(0.0);
            partitions.iter_mut().for_each(|partition| partition.logged += step);
            inserted += step * count;
            if inserted >= keys * (1.0 - 1e-12) {
                break;
            }
            if let Some(full) = partitions.iter_mut().find(|partition| left(partition) <= 1e-6) {
                self.flush(&log, full, &mut written);
            }
            self.merge_if_due(&log, &mut partitions, &mut written);
        }
        Ok(self.state(keys, &partitions, written))
    }

    /// Makes a run of the LogStore, and a chain if there are enough runs without one.
    fn flush(&self, log: &SiltLayout, partition: &mut Partition, written: &mut BloomStoreWrites) {
        if partition.ranges == 0.0 {
            partition.ranges = self.ranges(log, 0.0);
        }
        let run = self.run(partition.log_keys, partition.ranges, false);
        written.runs += self.run_bytes(&run, partition.ranges);
        // The next LogStore begins before the run is made.
        begin_log_store(log, partition, false);
        partition.keys += run.keys;
        partition.runs.push(run);
        let unchained = partition.runs.iter().filter(|run| !run.in_chain).count();
        if unchained as f64 >= self.buffered_filters {
            if partition.prefixes == 0.0 {
                partition.prefixes = self.prefixes(log, 0.0);
            }
            partition.runs.iter_mut().for_each(|run| run.in_chain = true);
            written.chains += self.chain_bytes(partition);
        }
    }

    /// Merges the fullest partition and its LogStore if there are too many runs.
    fn merge_if_due(&self, log: &SiltLayout, partitions: &mut [Partition], written: &mut BloomStoreWrites) {
        let runs = |partition: &Partition| partition.young().count() as f64;
        let records = |partition: &Partition| partition.young().map(|run| run.keys).sum::<f64>();
        let all: f64 = partitions.iter().map(runs).sum();
        let most = costs::RUNS_SHARE_MAX * self.chain_length * self.records.partitions;
        let is_due = self.expected_keys == 0.0 && all > most;
        let due = partitions.iter_mut().filter(|one| is_due || runs(one) > self.chain_length);
        let Some(fullest) = due.max_by(|one, other| records(one).total_cmp(&records(other))) else { return };
        let logged = fullest.logged;
        begin_log_store(log, fullest, true);
        fullest.keys += logged;
        fullest.ranges = self.ranges(log, fullest.keys);
        fullest.prefixes = self.prefixes(log, fullest.keys);
        fullest.runs = vec![self.run(fullest.keys, fullest.ranges, true)];
        written.merges += self.run_bytes(&fullest.runs[0], fullest.ranges);
        written.chains += self.chain_bytes(fullest);
    }

    /// Returns the database whose partitions are these, or a sample: each is counted as many times.
    pub(super) fn state(
        &self,
        keys: f64,
        partitions: &[Partition],
        written: BloomStoreWrites,
    ) -> BloomStoreGrown {
        let mut rates = Rates::default();
        let count = partitions.len() as f64;
        let item_bytes = self.records.key_bytes + self.records.value_bytes;
        let bytes = keys * item_bytes;
        let of_runs = |partition: &Partition| partition.runs.iter().map(|run| run.keys).sum::<f64>();
        let records: f64 = partitions.iter().map(|partition| of_runs(partition) + partition.logged).sum();
        let per_byte = |total: f64| total / bytes;
        let mut ram = BloomStoreRam::default();
        let (mut get, mut miss, mut flash) = (0.0, 0.0, 0.0);
        for partition in partitions {
            let of_partition = Lookups::new(partition, self.buffered_bits(), &mut rates);
            get += of_partition.reads_of_all_keys;
            miss += of_partition.reads_per_miss / count;
            let slot_bytes = self.records.log_slot_bytes(partition.slots, self.records.log_record_bytes());
            let tables = partition.tables;
            let allocated = (partition.logged / partition.room * tables).ceil().clamp(1.0, tables) / tables;
            ram.log_stores += partition.slots * slot_bytes * allocated;
            let buffered = partition.runs.iter().filter(|run| !run.in_chain);
            let buffered = buffered.map(|run| self.buffered_bytes(run, partition.ranges));
            ram.filters += buffered.sum::<f64>();
            let chained = partition.runs.iter().filter(|run| run.in_chain).count() as f64;
            ram.fixed += PARTITION_BYTES + STORE_BYTES * partition.runs.len() as f64;
            flash += partition.runs.iter().map(|run| self.run_bytes(run, partition.ranges)).sum::<f64>();
            if chained > 0.0 {
                ram.directories += PLACE_BYTES * (partition.ranges + 1.0) + CHAIN_RUN_RAM_BYTES * chained;
                ram.prefilters += partition.prefilter().map_or(0.0, |prefilter| prefilter.ram_bytes());
                ram.fixed += STORE_BYTES;
                flash += self.chain_bytes(partition);
            }
            flash += partition.logged * self.records.log_record_bytes();
        }
        let each = self.records.partitions / count;
        BloomStoreGrown {
            keys,
            writes: BloomStoreWrites {
                log: self.records.log_record_bytes() / item_bytes,
                runs: per_byte(written.runs),
                chains: per_byte(written.chains),
                merges: per_byte(written.merges),
            },
            ram: BloomStoreRam {
                log_stores: each * ram.log_stores,
                filters: each * ram.filters,
                directories: each * ram.directories,
                prefilters: each * ram.prefilters,
                fixed: each * ram.fixed + costs::KEY_STRIPES_BYTES as f64,
            },
            reads_per_get: get / records,
            reads_per_miss: miss,
            runs: partitions.iter().map(|partition| partition.runs.len() as f64).sum::<f64>() / count,
            space_amplification: each * per_byte(flash),
        }
    }
}

/// Begins the next LogStore of a partition, which may be frozen before it is full.
fn begin_log_store(log: &SiltLayout, partition: &mut Partition, is_first: bool) {
    let (slots, occupancy) = log.table(partition.keys);
    let is_staggered = is_first && partition.first_share < 1.0;
    let frozen_at = if is_staggered { OCCUPANCY * partition.first_share } else { occupancy };
    (partition.slots, partition.room) = (slots, slots * occupancy);
    partition.tables = log_tables(log.log_slots(partition.keys));
    (partition.log_keys, partition.logged) = (slots * frozen_at, 0.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_costs_what_the_study_of_its_settings_says() {
        let layout = BloomStoreLayout::new(20.0, 44.0);
        let grown = layout.grown(1e8).unwrap();
        let writes = grown.writes;
        assert!((1.0..1.1).contains(&writes.log) && (1.0..1.12).contains(&writes.runs), "{grown:?}");
        assert!((0.1..0.6).contains(&writes.chains) && (0.2..1.3).contains(&writes.merges), "{grown:?}");
        assert!((1.7..2.03).contains(&grown.reads_per_get), "{grown:?}");
        assert!((1.0..1.06).contains(&grown.reads_per_miss), "{grown:?}");
        assert!((0.05..0.6).contains(&(grown.ram.total() / 1e8)), "{grown:?}");
    }

    #[test]
    fn impossible_layouts_are_refused() {
        let of = |change: fn(&mut BloomStoreLayout, f64), value: f64| {
            let mut layout = BloomStoreLayout::new(20.0, 44.0);
            change(&mut layout, value);
            layout.check()
        };
        for wrong in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(of(|layout, value| layout.prefilter_bits = value, wrong).is_err(), "{wrong}");
            assert!(of(|layout, value| layout.expected_keys = value, wrong).is_err(), "{wrong}");
        }
        for wrong in [0.5, 1e12, f64::NAN] {
            assert!(of(|layout, value| layout.chain_length = value, wrong).is_err(), "{wrong}");
            assert!(of(|layout, value| layout.records.partitions = value, wrong).is_err(), "{wrong}");
        }
        assert!(of(|layout, value| layout.chain_length = value, 1.0).is_ok());
    }

    #[test]
    fn expected_keys_are_never_merged() {
        let layout = BloomStoreLayout { expected_keys: 1e8, ..BloomStoreLayout::new(20.0, 44.0) };
        let grown = layout.grown(1e8).unwrap();
        assert!(grown.writes.merges == 0.0 && grown.writes.total() < 2.6, "{grown:?}");
    }

    #[test]
    fn shorter_chains_are_merged_more_and_more_buffered_filters_write_fewer_chains() {
        let layout = BloomStoreLayout::new(20.0, 44.0);
        let of = |layout: &BloomStoreLayout| layout.grown(3e7).unwrap();
        let shorter = of(&BloomStoreLayout { chain_length: 48.0, ..layout.clone() });
        let buffered = of(&BloomStoreLayout { buffered_filters: 48.0, ..layout.clone() });
        let own = of(&layout);
        assert!(shorter.writes.merges > own.writes.merges && buffered.writes.chains < own.writes.chains);
        assert!(own.ram.filters < buffered.ram.filters || own.ram.filters == 0.0, "{own:?}");
        let few_bits = of(&BloomStoreLayout { filter_bits: 8.0, ..layout });
        assert!(few_bits.reads_per_miss > 10.0 * (own.reads_per_miss - 1.0), "{few_bits:?}");
    }
}
