//! The memory of section 6.1: the most of indexes and filters while records of 64 bytes and of 1 KiB are put. It is
//! looked at after each of many equal parts of the puts, between which nothing works in the background.
//!
//! The paper's preset has four partitions, as in the paper's experiments. Buffers of conversions and merges are not
//! part of the paper's figure: they are shown next to it.

use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::experiments::quantities::{MEMORY_MOST, READS_PER_GET, READS_PER_MISS, WRITE_AMPLIFICATION};
use crate::point::{Points, Reading, Settled};
use crate::quantity::{BytesPerKey, Quantity, Quoted};
use crate::registry::Experiment;
use siltstone::{Batch, Database, EngineKind, Purpose, RamAccount};
use siltstone_bench::keys::Keys;
use siltstone_bench::random::{Permutation, Rng};

const ITEM: &str = "silt/section-6.1-memory";

/// The memory of the engine.
pub static EXPERIMENT: Experiment =
    Experiment { name: "silt-memory", cost_s: 130, direct: false, counts: true, rates: false, run };

/// Keys at scale 1, the bytes of a value, and the most memory in the paper.
const CASES: [(&str, u64, usize, f64); 2] =
    [("64 B", 8_000_000, 44, 0.60), ("1 KiB", 1_000_000, 1_000, 0.69)];
/// LogStores have at least some thousand slots, whatever the number of keys. At as many keys they take a tenth of the
/// paper's memory.
const KEYS_MIN: u64 = 5_000_000;
const KEY_BYTES: usize = 20;
const PARTITIONS_OF_PAPER: u32 = 4;
const BATCH: u64 = 100;
/// How often the memory is looked at.
const LOOKS: u64 = 500;
/// Reads are counted, so some of them are enough.
const GETS_MAX: u64 = 100_000;

const INDEXES_MOST: Quantity<BytesPerKey> = Quantity::lower("memory of indexes and filters, most");
const INDEXES: Quantity<BytesPerKey> = Quantity::lower("memory of indexes and filters");

/// The items of the memory whose size depends on the number of records.
const OF_INDEXES: [&str; 6] =
    ["log_index", "frozen_log_index", "hash_filter", "hash_index", "sorted_index", "sorted_filter"];

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    for (name, keys, value_size, paper) in CASES {
        for preset in Preset::ALL {
            let num = conditions.number(keys);
            let mut tuning = conditions.tuning(EngineKind::Silt, preset, &[]);
            if preset == Preset::Paper {
                tuning.partitions = Some(PARTITIONS_OF_PAPER);
            }
            let builder = Database::builder(conditions.place.directory()).fixed(KEY_BYTES, value_size);
            let mut database = tuning.apply(builder.hashed_keys()).open()?;
            let series = format!("{name}, {}", preset.name());
            let mut add = |point| points.add(ITEM, point);
            let keys = Keys::new(KEY_BYTES, num, true)?;
            let most = fill(conditions, &database, &keys, value_size)?;
            let per_key = |bytes: u64| Reading::count(bytes as f64 / num as f64);
            let point = INDEXES_MOST.of(&series).paper(Quoted::text(paper)).from_keys(num, KEYS_MIN);
            add(point.is(per_key(most)));
            let settled = Settled::of(&mut database)?;
            let stats = database.stats();
            add(INDEXES.of(&series).is(settled.part_of_memory(of_indexes(&stats.ram), num)));
            add(MEMORY_MOST.of(&series).is(per_key(stats.ram_peak.total_bytes())));
            add(WRITE_AMPLIFICATION.of(&series).is(Reading::count(stats.write_amplification())));
            for (quantity, exist) in [(&READS_PER_GET, true), (&READS_PER_MISS, false)] {
                let reads = reads(conditions, &database, &keys, exist)?;
                add(quantity.of(&series).is(Reading::count(reads)));
            }
            drop(database);
            conditions.place.clear()?;
        }
    }
    Ok(())
}

/// Returns the memory of indexes and filters, in bytes.
pub(super) fn of_indexes(ram: &RamAccount) -> u64 {
    let is_one = |name: &&str| OF_INDEXES.contains(name);
    ram.items().iter().filter(|(name, _)| is_one(name)).map(|(_, bytes)| bytes).sum()
}

/// Puts all keys in random order, and returns the most memory of indexes and filters.
fn fill(conditions: &Conditions, database: &Database, keys: &Keys, value_size: usize) -> Result<u64> {
    let num = keys.count();
    let order = Permutation::new(num, conditions.seed);
    let (mut batch, mut most) = (Batch::new(), 0);
    let step = (num / LOOKS).max(BATCH);
    let (mut key, mut value) = (Vec::new(), vec![7; value_size]);
    for position in 0..num {
        let number = order.at(position);
        value[..8].copy_from_slice(&number.to_be_bytes());
        keys.write(number, &mut key);
        batch.put(&key, &value)?;
        if (position + 1) % BATCH == 0 || position + 1 == num {
            conditions.check()?;
            database.write(&batch)?;
            batch.clear();
        }
        if (position + 1) % step == 0 || position + 1 == num {
            most = most.max(of_indexes(&database.stats().ram));
        }
    }
    Ok(most)
}

/// Returns the reads per get of random keys, all of which exist, or none.
fn reads(conditions: &Conditions, database: &Database, keys: &Keys, exist: bool) -> Result<f64> {
    let gets = keys.count().min(GETS_MAX);
    let mut random = Rng::with_seed(conditions.seed);
    let mut key = Vec::new();
    let before = database.stats().io;
    for lookup in 0..gets {
        let number = random.u64(..keys.count());
        if exist {
            keys.write(number, &mut key)
        } else {
            keys.write_missing(number, &mut key)
        }
        let found = database.get(&key)?.is_some_and(|value| value[..8] == number.to_be_bytes());
        if found != exist {
            return Err(siltstone_bench::Error::WrongValue { benchmark: "memory", number: lookup }.into());
        }
    }
    Ok((database.stats().io - before).of(Purpose::Get).reads as f64 / gets as f64)
}
