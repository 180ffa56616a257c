//! Construction of a dictionary: by the memory for sorting (Figures 3.7 and 3.12), by items (Figure 3.8), the best of
//! them (Tables 3.3 and 3.5), and updates compared with builds from scratch (Figure 3.9). One thread sorts and builds.
//!
//! Large items have keys of 111 bytes and values of 1,000; small ones 12 and 4 bytes.

use crate::Result;
use crate::conditions::Conditions;
use crate::experiments::quantities::KEYS_PER_S;
use crate::point::{Points, Reading};
use crate::quantity::{KeysPerSecond, Quantity, Quoted, Times};
use crate::registry::Experiment;
use siltstone::DictionaryIndex;
use siltstone_bench::dict::{self, Report};

/// The memory for sorting, as shares of the data: the paper's 192 MiB to 2 GiB of 16 GB.
const MEMORY_SHARES: [f64; 4] = [1.0 / 64.0, 1.0 / 32.0, 1.0 / 16.0, 1.0 / 8.0];
const MEMORY_MIN: f64 = (4u64 << 20) as f64;
/// The items, as shares of all.
const ITEM_SHARES: [f64; 4] = [0.25, 0.5, 0.75, 1.0];
const UPDATES: u32 = 5;
const LOOKUPS: u64 = 1_000;

const FASTER: Quantity<Times> = Quantity::higher("time of a build from scratch by that of an update");

/// Dictionaries of large and of small items.
pub static EXPERIMENT: Experiment =
    Experiment { name: "ect-dictionary", cost_s: 120, direct: false, counts: false, rates: true, run };

/// The length of items, and what the paper has of one core.
struct Items {
    name: &'static str,
    keys: u64,
    key_size: usize,
    value_size: usize,
    figure: &'static str,
    table: &'static str,
    best: Quoted<KeysPerSecond>,
}

const LARGE: Items = Items {
    name: "large items",
    keys: 150_000,
    key_size: 111,
    value_size: 1_000,
    figure: "ect/figure-3.7",
    table: "ect/table-3.3",
    best: Quoted::text(138e3),
};

const SMALL: Items = Items {
    name: "small items",
    keys: 2_000_000,
    key_size: 12,
    value_size: 4,
    figure: "ect/figure-3.12",
    table: "ect/table-3.5",
    best: Quoted::text(455e3),
};

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    for items in [LARGE, SMALL] {
        let keys = conditions.number(items.keys);
        let mut best = 0.0f64;
        for share in MEMORY_SHARES {
            let bytes = items.memory(keys, share);
            let rate = items.build(conditions, keys, bytes, 0)?.build_keys_per_s;
            let mb = bytes as f64 / f64::from(1 << 20);
            points.add(items.figure, KEYS_PER_S.at("one thread", mb).is(Reading::time(rate)));
            best = best.max(rate);
        }
        let series = format!("{}, one thread", items.name);
        points.add(items.table, KEYS_PER_S.of(series).paper(items.best).is(Reading::time(best)));
    }
    for share in ITEM_SHARES {
        let keys = ((conditions.number(LARGE.keys) as f64 * share) as u64).max(1);
        let report = LARGE.build(conditions, keys, LARGE.memory(keys, MEMORY_SHARES[2]), 0)?;
        let rate = Reading::time(report.build_keys_per_s);
        points.add("ect/figure-3.8", KEYS_PER_S.at("one thread", keys as f64).is(rate));
    }
    // Each batch has as many items as the first build.
    let keys = (conditions.number(LARGE.keys) / 4).max(1);
    let updated = LARGE.build(conditions, keys, LARGE.memory(keys, MEMORY_SHARES[3]), UPDATES)?;
    for (number, update) in (1u32..).zip(&updated.updates) {
        // More than 20 % with 5 updates.
        let paper = (number == UPDATES).then_some(Quoted::ratio(1.2));
        let point = FASTER.at("one thread", number.into()).paper(paper);
        points.add("ect/figure-3.9", point.is(Reading::time(update.rebuild_to_update)));
    }
    Ok(())
}

impl Items {
    /// Returns the memory for sorting, in bytes.
    fn memory(&self, keys: u64, share: f64) -> usize {
        (share * (keys * (self.key_size + self.value_size) as u64) as f64).max(MEMORY_MIN) as usize
    }

    fn build(&self, conditions: &Conditions, keys: u64, memory_bytes: usize, updates: u32) -> Result<Report> {
        conditions.check()?;
        let settings = dict::Settings {
            keys,
            updates,
            key_size: self.key_size,
            value_size: self.value_size,
            fixed: true,
            index: DictionaryIndex::DenseTrie,
            memory_bytes,
            lookups: LOOKUPS.min(keys),
            seed: conditions.seed,
            stop: conditions.stop.clone(),
            ..dict::Settings::default()
        };
        let report = dict::run(&settings, &conditions.place)?;
        conditions.place.clear()?;
        Ok(report)
    }
}
