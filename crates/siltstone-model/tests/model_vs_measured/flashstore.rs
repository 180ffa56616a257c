//! The model of FlashStore: with a disk, and as a cache.

use super::{KEY_BYTES, PUTS_PER_SETTLE, RAM_TOLERANCE, READS_TOLERANCE, absent, present};
use siltstone::{Database, Disk, FlashStoreSettings, SiltSettings, Stats};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory, Purpose};
use siltstone_model::{Below, FlashStoreLayout, FlashStoreStore, KeyStream, Popularity, SiltLayout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// For the writes of both stores, and for the share of gets that flash serves.
const TOLERANCE: f64 = 0.03;
/// For the bytes that are written to the disk.
const TOLERANCE_OF_DISK_WRITES: f64 = 0.04;
/// For the share of gets that flash serves, and the memory, of a cache that rejects puts.
const TOLERANCE_OF_REJECTING: f64 = 0.06;
const RAM_TOLERANCE_OF_REJECTING: f64 = 0.15;
/// Puts per key before those that are counted, and of those. Of records that leave there are a quarter to a half as
/// many, and the disk has reached its steady state after each record was written there once more.
const ROUNDS_WARM: u64 = 10;
const ROUNDS: u64 = 6;
/// Puts between two looks at the memory report, at the reads of a get, and at those of a get of a missing key.
const PUTS_PER_SAMPLE: u32 = 64;
/// The bytes of a frame: one unit.
const FRAME_BYTES: f64 = 121.0;
const VALUE_BYTES: f64 = 100.0;
/// The time between two puts, without those of records that a get missed: what a budget of writes counts.
const PUT_INTERVAL_MS: u64 = 10;
/// The segments of flash, at least.
const SEGMENTS: f64 = 20.0;
/// The items of the memory report that the model of the average has.
const LASTING: [&str; 10] = [
    "index",
    "unconfirmed",
    "locks",
    "admission",
    "log_index",
    "hash_filter",
    "hash_index",
    "sorted_index",
    "sorted_filter",
    "stores",
];

/// A workload: keys put once each, then put and read.
struct Case {
    keys: u64,
    skew: f64,
    gets_per_put: u64,
    layout: FlashStoreLayout,
}

/// Returns a layout whose flash holds this share of the keys when records begin to leave.
fn layout(keys: u64, share: f64) -> FlashStoreLayout {
    let mut layout = FlashStoreLayout::new(KEY_BYTES as f64, VALUE_BYTES, 0.0);
    layout.flash_bytes = share * keys as f64 * FRAME_BYTES / layout.usage;
    layout.logs.partitions = 4.0;
    layout.logs.segment_bytes = (layout.flash_bytes / SEGMENTS).log2().floor().exp2();
    if let Below::Disk(silt) = &mut layout.below {
        **silt = SiltLayout { partitions: 4.0, log_slots_min: 512.0, ..(**silt).clone() };
    }
    layout
}

fn detail(stats: &Stats, name: &str) -> f64 {
    stats.details.iter().find(|(other, _)| *other == name).map_or(0.0, |(_, value)| *value)
}

fn lasting_bytes(stats: &Stats) -> f64 {
    let items = stats.ram.items().iter().filter(|(name, _)| LASTING.contains(name));
    items.map(|&(_, bytes)| bytes as f64).sum()
}

/// What was counted.
#[derive(Default)]
struct Counted {
    gets: f64,
    /// Puts of records that a get missed.
    fills: f64,
    flash_gets: f64,
    flash_reads: f64,
    disk_gets: f64,
    disk_reads: f64,
    samples: f64,
    flash_reads_of_misses: f64,
    disk_reads_of_misses: f64,
    ram_bytes: f64,
}

/// A database with the workload.
struct Running<'a> {
    case: &'a Case,
    directory: Directory,
    database: Database,
    stream: KeyStream,
    clock: Arc<AtomicU64>,
    puts: u32,
    counted: Counted,
}

impl Running<'_> {
    fn put(&mut self, key: u32) {
        self.database.put(present(key), [7; VALUE_BYTES as usize]).unwrap();
        self.puts += 1;
        if self.puts.is_multiple_of(PUTS_PER_SETTLE) {
            self.database.settle().unwrap();
        }
    }

    fn flash_reads(&self) -> f64 {
        self.directory.io().of(Purpose::Get).reads as f64
    }

    /// Gets a key. A cache that does not have it is given it.
    fn get(&mut self, key: u32) {
        let before = self.flash_reads();
        let is_found = self.database.get(present(key)).unwrap().is_some();
        let reads = self.flash_reads() - before;
        self.counted.gets += 1.0;
        self.counted.flash_reads += reads;
        self.counted.flash_gets += f64::from(u8::from(reads > 0.0));
        assert!(is_found || matches!(self.case.layout.below, Below::Cache { .. }));
        if !is_found {
            self.counted.fills += 1.0;
            self.put(key);
        }
    }

    /// Looks at the memory, at a get, and at a get of a missing key.
    fn sample(&mut self) {
        let before = self.database.stats();
        self.counted.samples += 1.0;
        self.counted.ram_bytes += lasting_bytes(&before);
        let flash = self.flash_reads();
        assert!(self.database.get(absent(u64::from(self.puts))).unwrap().is_none());
        self.counted.flash_reads_of_misses += self.flash_reads() - flash;
        let disk_reads = |stats: &Stats| detail(stats, "disk_read_operations");
        let after = self.database.stats();
        self.counted.disk_reads_of_misses += disk_reads(&after) - disk_reads(&before);
        let (key, served) = (self.stream.next().unwrap(), self.counted.flash_gets);
        self.get(key);
        if self.counted.flash_gets == served {
            self.counted.disk_gets += 1.0;
            self.counted.disk_reads += disk_reads(&self.database.stats()) - disk_reads(&after);
        }
    }

    fn rounds(&mut self, rounds: u64) {
        for round in 0..rounds * self.case.keys {
            let key = self.stream.next().unwrap();
            self.clock.fetch_add(PUT_INTERVAL_MS, Relaxed);
            self.put(key);
            let is_sample = (round as u32).is_multiple_of(PUTS_PER_SAMPLE);
            if is_sample && self.case.gets_per_put > 0 {
                self.sample();
            }
            for _ in u64::from(is_sample)..self.case.gets_per_put {
                let key = self.stream.next().unwrap();
                self.get(key);
            }
        }
    }

    fn fill(&mut self) {
        let keys: Vec<u32> = self.stream.every_key().collect();
        keys.into_iter().for_each(|key| self.put(key));
        if matches!(self.case.layout.below, Below::Disk(_)) {
            // The disk has had each key.
            self.database.compact().unwrap();
            self.database.settle().unwrap();
        }
    }
}

/// The names and the shares of the figures that differ by more than they may.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare(&mut self, what: &str, model: f64, measured: f64, tolerance: f64) {
        // Below one read per lookup, the number of reads is dominated by chance.
        let unit = if what.contains("miss") { measured.max(1.0) } else { measured };
        let error = if model == measured { 0.0 } else { (model - measured) / unit };
        eprintln!("{what:16} model {model:12.4} measured {measured:12.4} {:+.2} %", 100.0 * error);
        if error.is_nan() || error.abs() > tolerance {
            self.0.push(format!("{what}: {model} for {measured}"));
        }
    }
}

impl Case {
    fn rejects(&self) -> bool {
        matches!(self.layout.below, Below::Cache { admitted } if admitted < 1.0)
    }

    /// Returns the bytes per second that the model says for the share of admitted puts; 0 for no limit.
    fn write_bytes_per_s(&self, store: &FlashStoreStore) -> u64 {
        if self.rejects() {
            let per_put = store.writes().total() * (KEY_BYTES as f64 + VALUE_BYTES);
            return (per_put * 1_000.0 / PUT_INTERVAL_MS as f64) as u64;
        }
        0
    }

    fn open(&self, directory: Directory, clock: &Arc<AtomicU64>, write_bytes_per_s: u64) -> Database {
        let FlashStoreLayout { logs, flash_bytes, usage, queues, caches_reads, below } = &self.layout;
        let settings = FlashStoreSettings::default()
            .hash_bits(logs.hash_bits as u8)
            .segment_bytes(logs.segment_bytes as u64)
            .flash_bytes(*flash_bytes as u64)
            .usage(*usage)
            .queues(*queues);
        let settings = match below {
            Below::Cache { .. } => settings.cache(true).write_bytes_per_s(write_bytes_per_s),
            Below::Disk(silt) => {
                let of_disk = SiltSettings::default()
                    .filter_last_store(Some(silt.last_filter_bits as u8))
                    .log_slots_min(silt.log_slots_min as u32);
                let disk = Disk::at("slow").engine(of_disk);
                settings.caches_reads(*caches_reads).disk(disk)
            }
        };
        Database::builder("memory")
            .background_threads(0)
            .partitions(logs.partitions as u32)
            .fixed(KEY_BYTES, VALUE_BYTES as usize)
            .engine(settings)
            .seed([3, 4])
            .simulated_clock(clock.clone())
            .open_in(directory)
            .unwrap()
    }

    fn agrees(&self) {
        let popularity = Popularity::zipf(self.keys, self.skew).unwrap();
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let store = self.layout.store(&popularity, self.gets_per_put as f64).unwrap();
        let clock = Arc::new(AtomicU64::new(1_000_000));
        let database = self.open(directory.clone(), &clock, self.write_bytes_per_s(&store));
        let stream = KeyStream::new(&popularity, 1).unwrap();
        let counted = Counted::default();
        let mut run = Running { case: self, directory, database, stream, clock, puts: 0, counted };
        run.fill();
        run.rounds(ROUNDS_WARM);
        run.counted = Counted::default();
        let (before, io) = (run.database.stats(), run.directory.io());
        run.rounds(ROUNDS);
        let (after, io) = (run.database.stats(), run.directory.io() - io);
        let puts = (ROUNDS * self.keys) as f64;
        let bytes = puts * (KEY_BYTES as f64 + VALUE_BYTES);
        let each = [Purpose::Log, Purpose::Collect, Purpose::Index, Purpose::Manifest];
        let each = each.map(|purpose| io.of(purpose).write_bytes as f64 / bytes);
        eprintln!("log, collect, index, manifest {each:.4?}, {:?}", store.writes());
        let mut found = Differences::default();
        let flash = io.total().write_bytes as f64 / bytes;
        found.compare("flash writes", store.writes().total(), flash, TOLERANCE);
        let of = |name: &str| detail(&after, name) - detail(&before, name);
        found.compare("destaged", store.destaged_per_put(), of("disk_writes") / puts, TOLERANCE);
        found.compare(
            "disk writes",
            store.disk_writes(),
            of("disk_write_bytes") / bytes,
            TOLERANCE_OF_DISK_WRITES,
        );
        // The model does not have tombstones that wait until older records are confirmed.
        if let (true, Below::Cache { admitted }) = (self.rejects(), &self.layout.below) {
            let admits = 1.0 - of("rejected") / (puts + run.counted.fills);
            eprintln!("admitted         model {admitted:12.4} measured {admits:12.4}");
            assert!((0.5 * admitted..*admitted).contains(&admits), "admits {admits}, not {admitted}");
        }
        let (of_gets, of_ram) = match self.rejects() {
            true => (TOLERANCE_OF_REJECTING, RAM_TOLERANCE_OF_REJECTING),
            false => (TOLERANCE, RAM_TOLERANCE),
        };
        compare_gets(&mut found, &store, &run.counted, of_gets);
        let ram = store.ram();
        let lasting = ram.total() - ram.buffers;
        found.compare("memory, bytes", lasting, run.counted.ram_bytes / run.counted.samples, of_ram);
        assert!(found.0.is_empty(), "{:?}", found.0);
    }
}

fn compare_gets(found: &mut Differences, store: &FlashStoreStore, counted: &Counted, tolerance: f64) {
    let Counted { gets, flash_gets, samples, disk_gets, .. } = *counted;
    found.compare("flash gets", store.flash_gets(), flash_gets / gets, tolerance);
    let reads = counted.flash_reads / flash_gets;
    found.compare("reads of flash", store.reads_per_flash_get(), reads, READS_TOLERANCE);
    let reads = counted.flash_reads_of_misses / samples;
    found.compare("of flash, miss", store.reads_per_flash_miss(), reads, READS_TOLERANCE);
    if matches!(store.layout.below, Below::Disk(_)) {
        let reads = counted.disk_reads / disk_gets;
        found.compare("reads of disk", store.reads_per_disk_get(), reads, READS_TOLERANCE);
        let reads = counted.disk_reads_of_misses / samples;
        found.compare("of disk, miss", store.reads_per_disk_miss(), reads, READS_TOLERANCE);
    }
}

#[test]
fn uniform_puts_and_gets_cost_what_the_model_says() {
    Case { keys: 24_000, skew: 0.0, gets_per_put: 1, layout: layout(24_000, 0.5) }.agrees();
}

#[test]
fn skewed_puts_and_gets_cost_what_the_model_says() {
    Case { keys: 24_000, skew: 0.99, gets_per_put: 1, layout: layout(24_000, 0.3) }.agrees();
}

#[test]
fn one_queue_costs_what_the_model_says() {
    let layout = FlashStoreLayout { queues: 1, ..layout(24_000, 0.3) };
    Case { keys: 24_000, skew: 0.99, gets_per_put: 1, layout }.agrees();
}

#[test]
fn many_gets_cost_what_the_model_says() {
    Case { keys: 24_000, skew: 0.8, gets_per_put: 6, layout: layout(24_000, 0.4) }.agrees();
}

#[test]
fn records_that_stay_on_the_disk_when_they_are_read_cost_what_the_model_says() {
    let layout = FlashStoreLayout { caches_reads: false, ..layout(24_000, 0.3) };
    Case { keys: 24_000, skew: 0.99, gets_per_put: 2, layout }.agrees();
}

#[test]
fn one_queue_of_uniform_keys_above_a_disk_that_serves_reads_costs_what_the_model_says() {
    let layout = FlashStoreLayout { caches_reads: false, queues: 1, ..layout(24_000, 0.7) };
    Case { keys: 24_000, skew: 0.0, gets_per_put: 2, layout }.agrees();
}

#[test]
fn a_cache_costs_what_the_model_says() {
    let layout = FlashStoreLayout { below: Below::Cache { admitted: 1.0 }, ..layout(24_000, 0.3) };
    Case { keys: 24_000, skew: 0.9, gets_per_put: 4, layout }.agrees();
}

#[test]
fn a_cache_with_one_queue_costs_what_the_model_says() {
    let layout = FlashStoreLayout { below: Below::Cache { admitted: 1.0 }, queues: 1, ..layout(24_000, 0.3) };
    Case { keys: 24_000, skew: 0.9, gets_per_put: 4, layout }.agrees();
}

#[test]
fn a_cache_that_rejects_puts_costs_what_the_model_says() {
    for (admitted, gets_per_put) in [(0.5, 2), (0.2, 1)] {
        let layout = FlashStoreLayout { below: Below::Cache { admitted }, ..layout(24_000, 0.3) };
        Case { keys: 24_000, skew: 0.9, gets_per_put, layout }.agrees();
    }
}
