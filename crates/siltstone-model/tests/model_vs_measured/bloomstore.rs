//! The model of BloomStore, with the tolerances of SILT's.

use super::{
    BUFFERS, KEY_BYTES, MISS, Measured, PUTS_PER_SETTLE, RAM_TOLERANCE, READS_TOLERANCE, WRITES_TOLERANCE,
    compare, present,
};
use siltstone::{BloomStoreSettings, Database, Stats};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory, Purpose};
use siltstone_model::{BloomStoreLayout, KeyStream, Popularity, SiltLayout};

const VALUE_BYTES: f64 = 84.0;
const PARTITIONS: f64 = 4.0;
/// While a database grows, it is looked at as many times, from this share of its keys on.
const SAMPLES: u64 = 60;
const FIRST_SAMPLE: f64 = 0.3;
/// Gets of a key, and as many of missing keys, at each time.
const GETS_PER_SAMPLE: u64 = 1_000;

/// A database that grows by new keys.
struct Growth {
    keys: u64,
    layout: BloomStoreLayout,
}

fn small() -> BloomStoreLayout {
    let own = BloomStoreLayout::new(KEY_BYTES as f64, VALUE_BYTES);
    let records = SiltLayout {
        partitions: PARTITIONS,
        log_slots_min: 512.0,
        keys_per_log_slot: 32.0,
        ..own.records.clone()
    };
    BloomStoreLayout { records, chain_length: 40.0, buffered_filters: 4.0, ..own }
}

/// Indexes and filters.
fn lasting_bytes(stats: &Stats) -> f64 {
    let is_buffer = |name: &str| name == "chain_buffers" || BUFFERS.contains(&name);
    let items = stats.ram.items().iter().filter(|(name, _)| !is_buffer(name));
    items.map(|&(_, bytes)| bytes as f64).sum()
}

fn open(layout: &BloomStoreLayout, directory: Directory) -> Database {
    let settings = BloomStoreSettings::default()
        .chain_length(layout.chain_length as u32)
        .runs(layout.records.keys_per_log_slot as u32)
        .filter_bits(layout.filter_bits as u8)
        .buffered_filters(layout.buffered_filters as u32)
        .old_filter_bits(layout.old_filter_bits as u8)
        .prefilter_bits(layout.prefilter_bits as u8)
        .space(layout.space)
        .expected_keys(layout.expected_keys as u64)
        .log_slots_min(layout.records.log_slots_min as u32);
    let builder = Database::builder("memory")
        .background_threads(0)
        .partitions(layout.records.partitions as u32)
        .engine(settings)
        .seed([3, 4]);
    let builder = match layout.records.fixed {
        true => builder.fixed(KEY_BYTES, layout.records.value_bytes as usize),
        false => builder,
    };
    builder.open_in(directory).unwrap()
}

impl Growth {
    fn agrees(&self) {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let database = open(&self.layout, directory.clone());
        let value = vec![7; self.layout.records.value_bytes as usize];
        let keys = KeyStream::new(&Popularity::uniform(self.keys).unwrap(), 1).unwrap().every_key();
        let first = FIRST_SAMPLE * self.keys as f64;
        let step = (self.keys as f64 - first) / (SAMPLES - 1) as f64;
        let mut samples = (0..SAMPLES).map(|sample| (first + step * sample as f64) as u64).peekable();
        let (mut measured, mut model) = (Measured::default(), [0.0; 4]);
        let mut measured_writes = 0.0;
        let item_bytes = KEY_BYTES as f64 + self.layout.records.value_bytes;
        let written = |purpose| directory.io().of(purpose).write_bytes as f64;
        let purposes = [Purpose::Log, Purpose::Convert, Purpose::Merge, Purpose::Manifest];
        let mut random = fastrand::Rng::with_seed(5);
        let present_keys: Vec<u32> = keys.collect();
        for (count, key) in (1..).zip(&present_keys) {
            database.put(present(*key), &value).unwrap();
            if count % u64::from(PUTS_PER_SETTLE) == 0 {
                database.settle().unwrap();
            }
            if samples.next_if_eq(&count).is_none() {
                continue;
            }
            measured.ram_bytes += lasting_bytes(&database.stats());
            measured_writes += purposes.map(written).iter().sum::<f64>() / (count as f64 * item_bytes);
            for _ in 0..GETS_PER_SAMPLE {
                let key = present_keys[random.usize(..count as usize)];
                measured.get(&database, &directory, key, random.u64(..));
            }
            let grown = self.layout.grown(count as f64).unwrap();
            let values = [grown.reads_per_get, grown.reads_per_miss, grown.ram.total(), grown.writes.total()];
            model.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        let stats = database.stats();
        let per_byte = |purpose| written(purpose) / stats.user_bytes as f64;
        let grown = self.layout.grown(self.keys as f64).unwrap();
        eprintln!("log, convert, merge, manifest {:.4?}, {:?}", purposes.map(per_byte), grown.writes);
        eprintln!("{:?} {:?}\n{:?} {:?}", stats.details, stats.ram, grown.runs, grown.ram);
        let samples = SAMPLES as f64;
        let gets = samples * GETS_PER_SAMPLE as f64;
        let [get, miss, ram, writes] = model.map(|sum| sum / samples);
        // The mean, because a merge is a large part of what was written at one moment.
        compare("growth", writes, measured_writes / samples, WRITES_TOLERANCE);
        compare("memory, bytes", ram, measured.ram_bytes / samples, RAM_TOLERANCE);
        compare("reads per get", get, measured.reads_per_get / gets, READS_TOLERANCE);
        compare(MISS, miss, measured.reads_per_miss / gets, READS_TOLERANCE);
    }
}

#[test]
fn growth_costs_what_the_model_says() {
    Growth { keys: 120_000, layout: small() }.agrees();
}

#[test]
fn growth_to_an_expected_number_of_keys_costs_what_the_model_says() {
    Growth { keys: 120_000, layout: BloomStoreLayout { expected_keys: 120_000.0, ..small() } }.agrees();
}

#[test]
fn few_bits_per_key_cost_what_the_model_says() {
    let layout = BloomStoreLayout { filter_bits: 8.0, old_filter_bits: 6.0, ..small() };
    Growth { keys: 200_000, layout }.agrees();
}

#[test]
fn a_prefilter_costs_what_the_model_says() {
    Growth { keys: 120_000, layout: BloomStoreLayout { prefilter_bits: 4.0, ..small() } }.agrees();
}

#[test]
fn records_of_any_size_cost_what_the_model_says() {
    let own = small();
    let records = SiltLayout { value_bytes: 300.0, fixed: false, ..own.records.clone() };
    Growth { keys: 90_000, layout: BloomStoreLayout { records, ..own } }.agrees();
}

/// Keys are put again in random order, so that garbage makes the merges.
#[test]
fn overwriting_costs_what_the_model_says() {
    const KEYS: u32 = 40_000;
    const LAPS: [u32; 2] = [3, 8];
    let layout = small();
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let database = open(&layout, directory.clone());
    let mut random = fastrand::Rng::with_seed(6);
    let value = vec![7; VALUE_BYTES as usize];
    let mut measured = Measured::default();
    let written = |user_bytes: u64| {
        let io = directory.io();
        let purposes = [Purpose::Log, Purpose::Convert, Purpose::Merge, Purpose::Manifest];
        (purposes.map(|purpose| io.of(purpose).write_bytes), user_bytes)
    };
    for key in 0..KEYS {
        database.put(present(key), &value).unwrap();
    }
    database.settle().unwrap();
    let (mut before, mut gets) = (([0; 4], 0), 0);
    for put in 0..LAPS[1] * KEYS {
        if put == LAPS[0] * KEYS {
            before = written(database.stats().user_bytes);
        }
        database.put(present(random.u32(..KEYS)), &value).unwrap();
        if put % PUTS_PER_SETTLE == 0 {
            database.settle().unwrap();
        }
        if put > LAPS[0] * KEYS && put % 20 == 0 {
            measured.get(&database, &directory, random.u32(..KEYS), random.u64(..));
            gets += 1;
        }
    }
    let popularity = Popularity::uniform(KEYS.into()).unwrap();
    let steady = layout.overwritten(popularity.keys(), &layout.log_store_puts(&popularity)).unwrap();
    let after = written(database.stats().user_bytes);
    let bytes = (after.1 - before.1) as f64;
    let purposes: Vec<f64> =
        after.0.iter().zip(before.0).map(|(after, before)| (after - before) as f64 / bytes).collect();
    eprintln!("log, convert, merge, manifest {purposes:.4?}, {:?}", steady.writes);
    eprintln!("{:?} {:?}", database.stats().details, steady.runs);
    compare("overwriting", steady.writes.total(), purposes.iter().sum(), WRITES_TOLERANCE);
    compare("reads per get", steady.reads_per_get, measured.reads_per_get / f64::from(gets), READS_TOLERANCE);
    compare(MISS, steady.reads_per_miss, measured.reads_per_miss / f64::from(gets), READS_TOLERANCE);
}
