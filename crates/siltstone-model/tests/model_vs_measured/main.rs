//! Compares the models of the engines with the engines: named workloads on a device that counts.
//!
//! SILT is here, the others are in files of their names. The tolerances are those of docs/MODELS.md: 5 % for write
//! amplification (also while a store is filled) and memory; 1 % for reads per get, or 0.01 reads if a get of a missing
//! key takes less than one read.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "the figures are what one looks at when a claim fails")]

mod bloomstore;
mod flashkey;
mod flashstore;

use siltstone::{Database, SiltSettings, Stats};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory, Purpose};
use siltstone_mica::{Erew, ItemLayout, StoreSettings};
use siltstone_model::{KeyStream, Mica, Popularity, SiltLayout};

const KEY_BYTES: usize = 16;
const MISS: &str = "reads per miss";
const WRITES_TOLERANCE: f64 = 0.05;
const READS_TOLERANCE: f64 = 0.01;
const RAM_TOLERANCE: f64 = 0.05;
/// The peak of memory of a store that is written as fast as it accepts writes, relative to the model's. The memory
/// report includes the read buffers of all threads of the process; a database with two workers has three.
const RAM_PEAK_SHARE: std::ops::RangeInclusive<f64> = 0.87..=1.06;
const READ_BUFFERS_BYTES: u64 = 3 * 8_192;
/// Puts per key during which the peak is measured.
const PEAK_ROUNDS: u64 = 2;
/// Puts per key that are counted.
const ROUNDS: u64 = 4;
/// Puts per key before that, per unit of the merge ratio, at least one. The engine learns from merges how many of its
/// young records are new keys; after a load it assumes all of them are.
const ROUNDS_WARM_OF_RATIO: f64 = 4.0;
/// Puts between two settlements of background work, between two gets, and between two looks at the memory report.
const PUTS_PER_SETTLE: u32 = 8;
const PUTS_PER_GET: u64 = 8;
const PUTS_PER_SAMPLE: u64 = 512;
/// Memory that only a running job uses.
const BUFFERS: [&str; 5] =
    ["frozen_log_index", "log_buffer", "convert_buffers", "merge_buffers", "read_buffers"];

/// A workload: keys put once each, then overwritten.
struct Case {
    keys: u64,
    skew: f64,
    layout: SiltLayout,
}

/// The counts.
#[derive(Default)]
struct Measured {
    filling: f64,
    writes: f64,
    reads_per_get: f64,
    reads_per_miss: f64,
    ram_bytes: f64,
    ram_peak_bytes: f64,
}

fn small() -> SiltLayout {
    SiltLayout { partitions: 4.0, log_slots_min: 512.0, filter_bits: 6.0, ..SiltLayout::new(16.0, 84.0) }
}

impl Case {
    fn open(&self, directory: Directory) -> Database {
        let layout = &self.layout;
        let settings = SiltSettings::default()
            .merge_ratio(layout.merge_ratio)
            .filter_bits(layout.filter_bits as u8)
            .log_slots_min(layout.log_slots_min as u32)
            .filter_last_store(Some(layout.last_filter_bits as u8));
        let builder = Database::builder("memory")
            .background_threads(0)
            .partitions(layout.partitions as u32)
            .engine(settings)
            .block_bytes(layout.block_bytes as u32)
            .seed([3, 4]);
        let value_bytes = layout.value_bytes as usize;
        let builder = if layout.fixed { builder.fixed(KEY_BYTES, value_bytes) } else { builder };
        builder.open_in(directory).unwrap()
    }

    fn popularity(&self) -> Popularity {
        Popularity::zipf(self.keys, self.skew).unwrap()
    }

    fn run(&self) -> Measured {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let database = self.open(directory.clone());
        let value = vec![7; self.layout.value_bytes as usize];
        let mut unsettled = 0;
        let mut put = |key: u32| {
            database.put(present(key), &value).unwrap();
            unsettled += 1;
            if unsettled % PUTS_PER_SETTLE == 0 {
                database.settle().unwrap();
            }
        };
        let mut stream = KeyStream::new(&self.popularity(), 1).unwrap();
        stream.every_key().for_each(&mut put);
        let filling = database.stats().write_amplification();
        let rounds_warm = (ROUNDS_WARM_OF_RATIO * self.layout.merge_ratio).floor().max(1.0) as u64;
        stream.by_ref().take((rounds_warm * self.keys) as usize).for_each(&mut put);
        let (before, io) = (database.stats(), directory.io());
        let mut measured = Measured { filling, ..Measured::default() };
        for round in 0..ROUNDS * self.keys {
            stream.by_ref().take(1).for_each(&mut put);
            if round % PUTS_PER_GET == 0 {
                stream.by_ref().take(1).for_each(|key| measured.get(&database, &directory, key, round));
            }
            if round % PUTS_PER_SAMPLE == 0 {
                measured.ram_bytes += lasting_bytes(&database.stats());
            }
        }
        let puts = (ROUNDS * self.keys) as f64;
        let after = database.stats();
        let written = (directory.io() - io).total().write_bytes as f64;
        measured.writes = written / (after.user_bytes - before.user_bytes) as f64;
        measured.reads_per_get /= puts / PUTS_PER_GET as f64;
        measured.reads_per_miss /= puts / PUTS_PER_GET as f64;
        measured.ram_bytes /= (puts / PUTS_PER_SAMPLE as f64).ceil();
        // Without workers, a write does a step of background work only if it cannot proceed otherwise.
        stream.by_ref().take(self.keys as usize).for_each(|key| database.put(present(key), &value).unwrap());
        database.reset_ram_peak();
        let rounds = (PEAK_ROUNDS * self.keys) as usize;
        stream.by_ref().take(rounds).for_each(|key| database.put(present(key), &value).unwrap());
        let ram_peak = database.stats().ram_peak;
        let read_buffers = ram_peak.items().iter().find(|(name, _)| *name == "read_buffers").unwrap().1;
        measured.ram_peak_bytes = (ram_peak.total_bytes() - read_buffers + READ_BUFFERS_BYTES) as f64;
        measured
    }

    fn agrees(&self) {
        let measured = self.run();
        let popularity = self.popularity();
        let model = self.layout.silt(self.keys as f64).unwrap();
        compare("filling", model.writes_of_filling().total(), measured.filling, WRITES_TOLERANCE);
        compare("overwriting", model.writes(&popularity).total(), measured.writes, WRITES_TOLERANCE);
        compare("reads per get", model.reads_per_get(&popularity), measured.reads_per_get, READS_TOLERANCE);
        compare(MISS, model.reads_per_miss(), measured.reads_per_miss, READS_TOLERANCE);
        compare("memory, bytes", model.ram().total(), measured.ram_bytes, RAM_TOLERANCE);
        let peak_share = measured.ram_peak_bytes / model.ram_peak().total();
        eprintln!("peak of memory   measured {} of the model's", peak_share);
        assert!(RAM_PEAK_SHARE.contains(&peak_share), "{peak_share}");
    }
}

fn compare(what: &str, model: f64, measured: f64, tolerance: f64) {
    // Below one read per lookup, the number of reads is dominated by chance.
    let unit = if what == MISS && measured < 1.0 { 1.0 } else { measured };
    let error = (model - measured) / unit;
    eprintln!("{what:16} model {model:12.4} measured {measured:12.4} {:+.2} %", 100.0 * error);
    assert!(error.abs() <= tolerance, "{what}: {model} for {measured}");
}

impl Measured {
    /// Gets a key that exists and one that does not.
    fn get(&mut self, database: &Database, directory: &Directory, key: u32, missing: u64) {
        let reads = || directory.io().of(Purpose::Get).reads;
        let start = reads();
        assert!(database.get(present(key)).unwrap().is_some());
        let found = reads();
        assert!(database.get(absent(missing)).unwrap().is_none());
        self.reads_per_get += (found - start) as f64;
        self.reads_per_miss += (reads() - found) as f64;
    }
}

fn present(key: u32) -> [u8; KEY_BYTES] {
    u128::from(key).to_le_bytes()
}

fn absent(number: u64) -> [u8; KEY_BYTES] {
    (u128::from(number) | 1 << 100).to_le_bytes()
}

/// Indexes and filters.
fn lasting_bytes(stats: &Stats) -> f64 {
    let items = stats.ram.items().iter().filter(|(name, _)| !BUFFERS.contains(name));
    items.map(|&(_, bytes)| bytes as f64).sum()
}

#[test]
fn uniform_overwrites_cost_what_the_model_says() {
    Case { keys: 60_000, skew: 0.0, layout: small() }.agrees();
}

#[test]
fn skewed_overwrites_cost_what_the_model_says() {
    Case { keys: 60_000, skew: 0.99, layout: small() }.agrees();
}

#[test]
fn a_higher_merge_ratio_costs_what_the_model_says() {
    let layout = SiltLayout { partitions: 8.0, merge_ratio: 0.6, filter_bits: 8.0, ..small() };
    Case { keys: 60_000, skew: 0.6, layout }.agrees();
}

#[test]
fn the_default_settings_cost_what_the_model_says() {
    // LogStores that are small relative to the data, as with large data.
    let layout = SiltLayout { log_slots_min: 256.0, ..SiltLayout::new(16.0, 48.0) };
    Case { keys: 120_000, skew: 0.99, layout }.agrees();
}

#[test]
fn records_of_any_size_cost_what_the_model_says() {
    let layout = SiltLayout { fixed: false, ..small() };
    Case { keys: 40_000, skew: 0.0, layout: SiltLayout { value_bytes: 300.0, ..layout } }.agrees();
}

#[test]
fn large_blocks_and_two_records_to_a_block_cost_what_the_model_says() {
    let layout = SiltLayout { partitions: 2.0, value_bytes: 3_000.0, block_bytes: 8192.0, ..small() };
    // Records of this size have twice as many slots.
    Case { keys: 8_000, skew: 0.0, layout: SiltLayout { log_slots_min: 64.0, ..layout } }.agrees();
}

#[test]
fn sixty_hash_stores_of_a_partition_cost_what_the_model_says() {
    let layout = SiltLayout { merge_ratio: 1.0, log_slots_min: 256.0, filter_bits: 11.0, ..small() };
    Case { keys: 60_000, skew: 0.0, layout }.agrees();
}

#[test]
fn a_filter_on_the_last_store_costs_what_the_model_says() {
    Case { keys: 60_000, skew: 0.0, layout: SiltLayout { last_filter_bits: 7.0, ..small() } }.agrees();
}

#[test]
fn the_model_of_mica_says_what_a_partition_takes() {
    for (key_bytes, value_bytes, fixed) in [(8, 8, true), (8, 8, false), (16, 64, true), (16, 61, false)] {
        let items = 200_000;
        let layout = ItemLayout { fixed: fixed.then_some((key_bytes, value_bytes)), expiring: false };
        let settings = StoreSettings::for_items(layout, items, key_bytes, value_bytes);
        let measured = settings.open::<Erew>().unwrap().account().total_bytes() as f64;
        let predicted = Mica::siltstone(items as f64, (key_bytes + value_bytes) as f64, fixed).ram_bytes();
        let ratio = measured / predicted;
        assert!((0.99..1.01).contains(&ratio), "{key_bytes} + {value_bytes} B, fixed {fixed}: {ratio}");
    }
}
