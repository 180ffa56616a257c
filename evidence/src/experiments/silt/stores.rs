//! Single kinds of stores: their memory (Table 2), the latency of gets that they answer (Figure 11), their construction
//! (Table 6), and gets of keys that exist and of keys that do not, by 16 threads (Table 7). ECT's Table 3.4 is the
//! measurement of SortedStores.
//!
//! A get does not say which kind of store had its key, so databases are filled such that one kind has all or nearly all:
//!
//! ```text
//! LogStore      one partition, whose LogStore has place for all records
//! SortedStore   all records after a compaction
//! HashStore     the same, and each record put once more, with so many HashStores allowed that none is merged: their
//!               records are newer than those of SortedStores. Some percent are still in LogStores.
//! ```
//!
//! One thread puts and does the background work. A missing key is looked up in SortedStores too, so there is no rate of
//! misses for HashStores.

use crate::conditions::{Conditions, Preset};
use crate::experiments::device;
use crate::experiments::quantities::{GET_TIME, GETS, KEYS_PER_S, READS_PER_GET, READS_PER_MISS};
use crate::point::{Points, Reading, Settled};
use crate::quantity::{BytesPerKey, OperationsPerSecond, Quantity, Quoted, Times};
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
const PARTITIONS: u32 = 4;
/// The HashStores of a partition when it has all keys.
const HASH_STORES: u64 = 16;
/// A kind of store is measured if it has this share of the records.
const SHARE_MIN: f64 = 0.9;

const MEMORY: Quantity<BytesPerKey> = Quantity::lower("memory of the index or filter");
const BY_RAW: Quantity<Times> = Quantity::higher("gets by raw reads of the drive, by as many threads");

/// Single kinds of stores.
pub static EXPERIMENT: Experiment =
    Experiment { name: "silt-stores", cost_s: 110, direct: true, counts: true, rates: true, run };

/// A kind of store, with the paper's values.
struct Kind {
    name: &'static str,
    /// The count of its records, and the items of its memory.
    records: &'static str,
    items: &'static [&'static str],
    memory: f64,
    keys_per_s: f64,
    hit: f64,
    miss: Option<f64>,
}

const LOG: Kind = Kind {
    name: "LogStore",
    records: "log_records",
    items: &["log_index"],
    memory: 6.5,
    keys_per_s: 204_600.0,
    hit: 46_790.0,
    miss: Some(7_086_000.0),
};

const HASH: Kind = Kind {
    name: "HashStore",
    records: "hash_records",
    items: &["hash_filter", "hash_index"],
    memory: 2.2,
    keys_per_s: 67_960.0,
    hit: 44_930.0,
    miss: None,
};

const SORTED: Kind = Kind {
    name: "SortedStore",
    records: "sorted_records",
    items: &["sorted_index"],
    memory: 0.4,
    keys_per_s: 26_760.0,
    hit: 46_570.0,
    miss: Some(46_610.0),
};

/// The paper's raw reads of 1,024 bytes per second.
const RAW_OF_PAPER: f64 = 48_000.0;

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let raw = device::random_reads_per_s(conditions, THREADS)?;
    let num = conditions.number(KEYS);
    for preset in Preset::ALL {
        let slots = (num as f64 * SLOTS_PER_KEY / SLOTS_FACTOR).ceil().max(16.0);
        let filled = Filled::new(conditions, preset, num, 1, slots as u64)?;
        let put = filled.put(&mut filled.open()?)?;
        filled.measure(&LOG, num as f64 / put.as_secs_f64(), raw, points)?;
        conditions.place.clear()?;
        let slots = num / (HASH_STORES * u64::from(PARTITIONS)) / SLOTS_FACTOR as u64;
        let filled = Filled::new(conditions, preset, num, PARTITIONS, slots.max(16))?;
        let compact = |database: Database| -> Result<f64> {
            let begun = Instant::now();
            database.compact()?;
            Ok(num as f64 / begun.elapsed().as_secs_f64())
        };
        filled.put(&mut filled.open()?)?;
        compact(filled.open()?)?;
        filled.gets(&SORTED, raw, points)?;
        let twice = filled.put(&mut filled.open()?)?;
        // What conversions took is what the puts took longer than those that were not converted.
        let converting = twice.saturating_sub(put).as_secs_f64().max(1e-9);
        let has_converted = filled.measure(&HASH, num as f64 / converting, raw, points)?;
        let rate = compact(filled.open()?)?;
        filled.memory(&SORTED, points)?;
        if has_converted {
            let point = KEYS_PER_S.of(filled.series(&SORTED)).paper(Quoted::text(SORTED.keys_per_s));
            points.add(TABLE_6, point.is(Reading::time(rate)));
        }
        conditions.place.clear()?;
    }
    Ok(())
}

/// A database in which a kind of store has the records.
struct Filled<'a> {
    conditions: &'a Conditions,
    preset: Preset,
    tuning: Tuning,
    keys: Keys,
    values: Values,
}

impl Filled<'_> {
    fn new(
        conditions: &Conditions,
        preset: Preset,
        num: u64,
        partitions: u32,
        log_slots: u64,
    ) -> Result<Filled<'_>> {
        let mut settings = vec![
            ("log_slots_min", log_slots.to_string()),
            ("keys_per_log_slot", "1000000".to_owned()),
            ("merge_ratio", "10".to_owned()),
        ];
        if preset == Preset::Default {
            // The engine's own index of records of this size is another one.
            settings.push(("index", "dense_trie".to_owned()));
        }
        let mut tuning = conditions.tuning(EngineKind::Silt, preset, &settings);
        (tuning.partitions, tuning.background_threads) = (Some(partitions), Some(0));
        let keys = Keys::new(KEY_BYTES, num, true)?;
        let values = Values::of_kind(ValueKind::default(), VALUE_BYTES, conditions.seed)?;
        Ok(Filled { conditions, preset, tuning, keys, values })
    }

    fn open(&self) -> Result<Database> {
        let builder = Database::builder(self.conditions.place.directory());
        Ok(self.tuning.apply(builder.fixed(KEY_BYTES, VALUE_BYTES).hashed_keys()).open()?)
    }

    fn series(&self, kind: &Kind) -> String {
        format!("{}, {}", kind.name, self.preset.name())
    }

    /// Puts all keys once, in random order, and returns the time until no background work is left.
    fn put(&self, database: &mut Database) -> Result<Duration> {
        let num = self.keys.count();
        let order = Permutation::new(num, self.conditions.seed);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let begun = Instant::now();
        for position in 0..num {
            self.conditions.check()?;
            let number = order.at(position);
            self.keys.write(number, &mut key);
            self.values.write(number, position, &mut value);
            database.put(&key, &value)?;
        }
        database.settle()?;
        Ok(begun.elapsed())
    }

    /// Returns whether a kind of store has nearly all keys.
    fn is_of(&self, kind: &Kind, stats: &Stats) -> bool {
        let records = stats.details.iter().find(|(name, _)| *name == kind.records);
        records.is_some_and(|(_, records)| *records >= SHARE_MIN * self.keys.count() as f64)
    }

    /// Adds memory, construction and gets of a kind of store, if it has nearly all keys. Returns whether it has.
    fn measure(&self, kind: &Kind, keys_per_s: f64, raw: f64, points: &mut Points) -> Result<bool> {
        if !self.memory(kind, points)? {
            return Ok(false);
        }
        let point = KEYS_PER_S.of(self.series(kind)).paper(Quoted::text(kind.keys_per_s));
        points.add(TABLE_6, point.is(Reading::time(keys_per_s)));
        self.gets(kind, raw, points)?;
        Ok(true)
    }

    /// Adds the memory per record of a kind of store, if it has nearly all keys. Returns whether it has.
    fn memory(&self, kind: &Kind, points: &mut Points) -> Result<bool> {
        let mut database = self.open()?;
        let settled = Settled::of(&mut database)?;
        let stats = database.stats();
        if !self.is_of(kind, &stats) {
            return Ok(false);
        }
        let count =
            |name: &str| stats.details.iter().find(|(other, _)| *other == name).map(|(_, count)| *count);
        let records = count(kind.records).unwrap_or(0.0) as u64;
        let is_of_it = |name: &str| kind.items.contains(&name);
        let bytes = stats.ram.items().iter().filter(|(name, _)| is_of_it(name)).map(|(_, bytes)| bytes).sum();
        let point = MEMORY.of(self.series(kind)).paper(Quoted::text(kind.memory));
        points.add(TABLE_2, point.is(settled.part_of_memory(bytes, records)));
        Ok(true)
    }

    /// Adds gets of keys that exist, and of keys that do not if the paper has these.
    fn gets(&self, kind: &Kind, raw: f64, points: &mut Points) -> Result<()> {
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
            tuning: self.tuning.clone(),
            stop: self.conditions.stop.clone(),
            ..db::Settings::default()
        };
        let mut is_of_it = true;
        db::run(&settings, &self.conditions.place, &mut |report| {
            is_of_it &= report.benchmark == "open" || self.is_of(kind, &report.stats);
            self.add_gets(kind, raw, report, points);
            Ok(())
        })?;
        match is_of_it {
            true => Ok(()),
            false => Err(Error::wrong_results(format!("a {} does not have the records", kind.name))),
        }
    }

    fn add_gets(&self, kind: &Kind, raw: f64, report: &Report, points: &mut Points) {
        let series = self.series(kind);
        let mut add = |item, point| points.add(item, point);
        let gets =
            |series: &str, paper: f64| GETS.of(series).paper(Quoted::<OperationsPerSecond>::text(paper));
        let rate = Reading::time(report.ops_per_s);
        let reads = Reading::count(report.costs.reads_per_get.unwrap_or(0.0));
        match (report.benchmark, kind.miss) {
            ("readrandom", _) => {
                let hit = format!("{series}, hit");
                add(TABLE_7, gets(&hit, kind.hit).is(rate));
                let paper = Quoted::ratio(kind.hit / RAW_OF_PAPER);
                add(TABLE_7, BY_RAW.of(&hit).paper(paper).is(Reading::time(report.ops_per_s / raw)));
                add(TABLE_2, READS_PER_GET.of(&series).is(reads));
                add(FIGURE_11, GET_TIME.of(&series).is(Reading::time(report.micros_per_op)));
                if kind.name == SORTED.name {
                    add(TABLE_3_4, gets(&series, 64_020.0).is(rate));
                    add(TABLE_3_4, READS_PER_GET.of(&series).is(reads));
                }
            }
            ("readmissing", Some(paper)) => {
                let miss = format!("{series}, miss");
                add(TABLE_7, gets(&miss, paper).is(rate));
                add(TABLE_2, READS_PER_MISS.of(&series).is(reads));
            }
            _ => {}
        }
    }
}
