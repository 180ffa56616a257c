//! Single kinds of stores: their memory (Table 2), the latency of their gets (Figure 11), their construction
//! (Table 6), and gets of keys that exist and of keys that do not, by 16 threads (Table 7). ECT's Table 3.4 is the
//! measurement of SortedStores.
//!
//! A get does not say which kind of store had its key, so a database of one partition has all records in one kind:
//!
//! ```text
//! 1. put all               LogStore, which has place for all
//! 2. compact               SortedStore
//! 3. put all again         LogStore, whose records are newer; opened with a short log: conversions alone are timed
//! 4. compact, put all      HashStores of small LogStores, whose records are newer
//! 5. compact               merge of HashStores and SortedStore
//! ```
//!
//! One thread puts and does the background work, and 16 get. Missing keys are looked up in the SortedStore as well, so
//! there is no rate of misses for HashStores. The log is read through the page cache, so the rate of LogStores is not
//! that of the drive.

use crate::conditions::{Conditions, Preset};
use crate::experiments::device;
use crate::experiments::quantities::{GET_TIME, GETS, KEYS_PER_S, READS_PER_GET, READS_PER_MISS};
use crate::point::{Points, Reading, Settled};
use crate::quantity::{BytesPerKey, Quantity, Quoted, Times};
use crate::registry::Experiment;
use crate::{Error, Result};
use siltstone::{Database, EngineKind, Stats};
use siltstone_bench::db::{self, Benchmark, Report};
use siltstone_bench::keys::{Keys, ValueKind, Values};
use siltstone_bench::random::Permutation;
use siltstone_bench::tuning::Tuning;
use std::time::{Duration, Instant};

const TABLE_2: &str = "silt/table-2";
const FIGURE_11: &str = "silt/figure-11";
const TABLE_6: &str = "silt/table-6";
const TABLE_7: &str = "silt/table-7";
const TABLE_3_4: &str = "ect/table-3.4";

/// At scale 1 a LogStore with as many keys is nearly full.
const KEYS: u64 = 118_000;
const KEY_BYTES: usize = 20;
const VALUE_BYTES: usize = 1_000;
const THREADS: usize = 16;
/// The reads of a thread at scale 1.
const READS: u64 = 8_000;
/// LogStores of records of this size have twice as many slots as the setting.
const SLOTS_FACTOR: f64 = 2.0;
/// The slots of a LogStore with all keys, per key: a cuckoo table is full at 0.93.
const SLOTS_PER_KEY: f64 = 1.016;
/// A kind of store is measured if it has this share of the records.
const SHARE_MIN: f64 = 0.9;
/// The least value of the setting.
const SLOTS_MIN: u64 = 16;
/// LogStores whose setting is this part of the keys become some 30 HashStores, the paper's number.
const SETTING_PART: u64 = 60;
/// The least and the usual log that is not converted, in bytes.
const LOG_BYTES_MIN: u64 = 4096;
const LOG_BYTES_MAX: u64 = 1 << 30;

const MEMORY: Quantity<BytesPerKey> = Quantity::lower("memory of the index or filter");
const BY_RAW: Quantity<Times> = Quantity::higher("gets by raw reads of the drive");

/// Single kinds of stores.
pub static EXPERIMENT: Experiment =
    Experiment { name: "silt-stores", cost_s: 130, direct: true, counts: true, rates: true, run };

/// A kind of store, with the paper's values.
struct Kind {
    name: &'static str,
    /// The count of its records, and the items of its memory.
    records: &'static str,
    items: &'static [&'static str],
    memory: f64,
    keys_per_s: f64,
    hit: Option<f64>,
    miss: Option<f64>,
}

const LOG: Kind = Kind {
    name: "LogStore",
    records: "log_records",
    items: &["log_index"],
    memory: 6.5,
    keys_per_s: 204_600.0,
    hit: None,
    miss: Some(7_086_000.0),
};

const HASH: Kind = Kind {
    name: "HashStore",
    records: "hash_records",
    items: &["hash_filter", "hash_index"],
    memory: 2.2,
    keys_per_s: 67_960.0,
    hit: Some(44_930.0),
    miss: None,
};

const SORTED: Kind = Kind {
    name: "SortedStore",
    records: "sorted_records",
    items: &["sorted_index"],
    memory: 0.4,
    keys_per_s: 26_760.0,
    hit: Some(46_570.0),
    miss: Some(46_610.0),
};

/// The paper's raw reads of 1,024 bytes per second.
const RAW_OF_PAPER: f64 = 48_000.0;

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let raw = device::random_reads_per_s(conditions, THREADS)?;
    for preset in Preset::ALL {
        let mut filled = Filled::new(conditions, preset, conditions.number(KEYS), raw)?;
        let put = filled.timed(|filled, database| filled.put(database))?;
        filled.measure(&LOG, put, points)?;
        filled.timed(|_, database| Ok(database.compact()?))?;
        filled.measure(&SORTED, None, points)?;
        filled.timed(|filled, database| filled.put(database))?;
        filled.set("log_bytes_max", LOG_BYTES_MIN);
        let converted = filled.timed(|_, database| Ok(database.settle()?))?;
        filled.set("log_slots_min", (filled.keys.count() / SETTING_PART).max(SLOTS_MIN));
        filled.timed(|_, database| Ok(database.compact()?))?;
        filled.set("log_bytes_max", LOG_BYTES_MAX);
        filled.timed(|filled, database| filled.put(database))?;
        filled.measure(&HASH, converted, points)?;
        let merged = filled.timed(|_, database| Ok(database.compact()?))?;
        filled.construction(&SORTED, merged, points);
        drop(filled);
        conditions.place.clear()?;
    }
    Ok(())
}

/// Returns the records of a kind of store.
fn records(kind: &Kind, stats: &Stats) -> f64 {
    let count = stats.details.iter().find(|(name, _)| *name == kind.records);
    count.map_or(0.0, |(_, count)| *count)
}

/// A database in which a kind of store has the records.
struct Filled<'a> {
    conditions: &'a Conditions,
    preset: Preset,
    /// Random reads of the drive per second.
    raw: f64,
    settings: Vec<(&'static str, String)>,
    keys: Keys,
    values: Values,
}

impl Filled<'_> {
    fn new(conditions: &Conditions, preset: Preset, num: u64, raw: f64) -> Result<Filled<'_>> {
        let slots = ((num as f64 * SLOTS_PER_KEY / SLOTS_FACTOR).ceil() as u64).max(SLOTS_MIN);
        let mut settings = vec![
            ("log_slots_min", slots.to_string()),
            ("keys_per_log_slot", "1000000".to_owned()),
            // With fewer, conversions would be followed by a merge.
            ("merge_ratio", "10".to_owned()),
            // The paper's SortedStores have no filter.
            ("filter_last_store", "0".to_owned()),
        ];
        if preset == Preset::Default {
            // The engine's own index of records of this size is another one.
            settings.push(("index", "dense_trie".to_owned()));
        }
        let keys = Keys::new(KEY_BYTES, num, true)?;
        let values = Values::of_kind(ValueKind::default(), VALUE_BYTES, conditions.seed)?;
        Ok(Filled { conditions, preset, raw, settings, keys, values })
    }

    /// Changes a setting, from the next opening on.
    fn set(&mut self, name: &'static str, value: u64) {
        self.settings.retain(|(other, _)| *other != name);
        self.settings.push((name, value.to_string()));
    }

    fn tuning(&self) -> Tuning {
        let tuning = self.conditions.tuning(EngineKind::Silt, self.preset, &self.settings);
        Tuning { partitions: Some(1), background_threads: Some(0), ..tuning }
    }

    /// Opens the database, works, and returns the time of the work. The database is closed then.
    fn timed(&self, work: impl FnOnce(&Self, &Database) -> Result<()>) -> Result<Option<Duration>> {
        let builder = Database::builder(self.conditions.place.directory());
        let database = self.tuning().apply(builder.fixed(KEY_BYTES, VALUE_BYTES).hashed_keys()).open()?;
        let begun = Instant::now();
        work(self, &database)?;
        let time = begun.elapsed();
        database.close()?;
        Ok(Some(time))
    }

    fn series(&self, kind: &Kind) -> String {
        format!("{}, {}", kind.name, self.preset.name())
    }

    /// Puts all keys once, in random order.
    fn put(&self, database: &Database) -> Result<()> {
        let num = self.keys.count();
        let order = Permutation::new(num, self.conditions.seed);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for position in 0..num {
            self.conditions.check()?;
            let number = order.at(position);
            self.keys.write(number, &mut key);
            self.values.write(number, position, &mut value);
            database.put(&key, &value)?;
        }
        Ok(())
    }

    /// Returns whether a kind of store has nearly all keys.
    fn is_of(&self, kind: &Kind, stats: &Stats) -> bool {
        records(kind, stats) >= SHARE_MIN * self.keys.count() as f64
    }

    /// Adds memory, construction and gets of a kind of store, if it has nearly all keys.
    fn measure(&self, kind: &Kind, constructed: Option<Duration>, points: &mut Points) -> Result<()> {
        let mut has_them = false;
        self.timed(|_, database| {
            let mut database = database.clone();
            let settled = Settled::of(&mut database)?;
            let stats = database.stats();
            has_them = self.is_of(kind, &stats);
            if has_them {
                self.memory(kind, settled, &stats, points);
            }
            Ok(())
        })?;
        if has_them {
            self.construction(kind, constructed, points);
            self.gets(kind, points)?;
        }
        Ok(())
    }

    fn memory(&self, kind: &Kind, settled: Settled, stats: &Stats, points: &mut Points) {
        let is_of_it = |name: &str| kind.items.contains(&name);
        let bytes = stats.ram.items().iter().filter(|(name, _)| is_of_it(name)).map(|(_, bytes)| bytes).sum();
        let point = MEMORY.of(self.series(kind)).paper(Quoted::text(kind.memory));
        points.add(TABLE_2, point.is(settled.part_of_memory(bytes, records(kind, stats) as u64)));
    }

    fn construction(&self, kind: &Kind, time: Option<Duration>, points: &mut Points) {
        if let Some(time) = time {
            let rate = self.keys.count() as f64 / time.as_secs_f64().max(1e-9);
            let point = KEYS_PER_S.of(self.series(kind)).paper(Quoted::text(kind.keys_per_s));
            points.add(TABLE_6, point.is(Reading::time(rate)));
        }
    }

    /// Adds gets of keys that exist, and of keys that do not if the paper has these.
    fn gets(&self, kind: &Kind, points: &mut Points) -> Result<()> {
        let settings = db::Settings {
            benchmarks: vec![Benchmark::Settle, Benchmark::ReadRandom, Benchmark::ReadMissing],
            num: self.keys.count(),
            reads: Some(self.conditions.number(READS)),
            threads: THREADS,
            key_size: KEY_BYTES,
            value_size: VALUE_BYTES,
            fixed: true,
            hashed_keys: true,
            use_existing_db: true,
            seed: self.conditions.seed,
            tuning: self.tuning(),
            stop: self.conditions.stop.clone(),
            ..db::Settings::default()
        };
        let mut is_of_it = true;
        db::run(&settings, &self.conditions.place, &mut |report| {
            is_of_it &= report.benchmark == "open" || self.is_of(kind, &report.stats);
            self.add_gets(kind, report, points);
            Ok(())
        })?;
        match is_of_it {
            true => Ok(()),
            false => Err(Error::wrong_results(format!("a {} does not have the records", kind.name))),
        }
    }

    fn add_gets(&self, kind: &Kind, report: &Report, points: &mut Points) {
        let series = self.series(kind);
        let mut add = |item, point| points.add(item, point);
        let rate = Reading::time(report.ops_per_s);
        let reads = Reading::count(report.costs.reads_per_get.unwrap_or(0.0));
        match (report.benchmark, kind.miss) {
            ("readrandom", _) => {
                let hit = format!("{series}, hit");
                add(TABLE_7, GETS.of(&hit).paper(kind.hit.map(Quoted::text)).is(rate));
                if let Some(paper) = kind.hit {
                    let paper = Quoted::ratio(paper / RAW_OF_PAPER);
                    let by_raw = Reading::time(report.ops_per_s / self.raw);
                    add(TABLE_7, BY_RAW.of(&hit).paper(paper).is(by_raw));
                }
                add(TABLE_2, READS_PER_GET.of(&series).is(reads));
                add(FIGURE_11, GET_TIME.of(&series).is(Reading::time(report.micros_per_op)));
                if kind.name == SORTED.name {
                    add(TABLE_3_4, GETS.of(&series).paper(Quoted::text(64_020.0)).is(rate));
                    add(TABLE_3_4, READS_PER_GET.of(&series).is(reads));
                }
            }
            ("readmissing", Some(paper)) => {
                let miss = format!("{series}, miss");
                add(TABLE_7, GETS.of(&miss).paper(Quoted::text(paper)).is(rate));
                add(TABLE_2, READS_PER_MISS.of(&series).is(reads));
            }
            _ => {}
        }
    }
}
