//! Figure 10: memory of indexes and filters while new keys are put into a database with half of the keys, by the kinds
//! of stores that it has.
//!
//! ```text
//!   LogStores                  a LogStore of each partition has place for all of its keys
//!   LogStores, HashStores      nothing is merged
//!   LogStores, SortedStores    each conversion is followed by a merge
//!   all kinds                  as by default
//! ```
//!
//! In the paper's third chain, LogStores wait in memory until they are merged. Here they become HashStores until the
//! merge, which is done at once, so that chain takes less.

use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::point::{Points, Reading};
use crate::quantity::{BytesPerKey, Quantity, Quoted, Times};
use crate::registry::Experiment;
use siltstone::{Batch, Database, EngineKind};
use siltstone_bench::keys::Keys;
use siltstone_bench::random::Permutation;

const ITEM: &str = "silt/figure-10";

/// Keys at scale 1, of which half are there before.
const KEYS: u64 = 6_000_000;
const KEY_BYTES: usize = 20;
const VALUE_BYTES: usize = 12;
/// As in the paper.
const PARTITIONS: u32 = 4;
const BATCH: u64 = 100;
/// The points of a line.
const POINTS: u64 = 20;
/// The looks at the memory between two points.
const LOOKS: u64 = 25;
/// With fewer keys than in the paper, LogStores of least size are a larger part of the memory of all kinds.
const KEYS_OF_PAPER: u64 = 100_000_000;
/// The slots of a LogStore with all keys of a partition, per key: a cuckoo table is full at 0.93.
const SLOTS_PER_KEY: f64 = 1.08;

const MEMORY: Quantity<BytesPerKey> = Quantity::lower("memory of indexes and filters");
const BY_ALL: Quantity<Times> = Quantity::equal("most memory by that of all kinds");

/// Figure 10.
pub static EXPERIMENT: Experiment =
    Experiment { name: "silt-chains", cost_s: 60, direct: false, counts: true, rates: false, run };

/// A chain of kinds of stores, with how many times as much memory it takes as all kinds, in the paper.
struct Chain {
    name: &'static str,
    merge_ratio: Option<&'static str>,
    has_all_in_log: bool,
    by_all: Option<f64>,
}

const ALL_KINDS: Chain = Chain { name: "all kinds", merge_ratio: None, has_all_in_log: false, by_all: None };
const CHAINS: [Chain; 3] = [
    Chain { name: "LogStores", merge_ratio: Some("10"), has_all_in_log: true, by_all: Some(10.0) },
    Chain {
        name: "LogStores, HashStores",
        merge_ratio: Some("10"),
        has_all_in_log: false,
        by_all: Some(4.0),
    },
    Chain {
        name: "LogStores, SortedStores",
        merge_ratio: Some("0.01"),
        has_all_in_log: false,
        by_all: Some(2.0),
    },
];

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let all = line(conditions, &ALL_KINDS, points)?;
    for chain in &CHAINS {
        let most = line(conditions, chain, points)?;
        let point = BY_ALL.of(chain.name).paper(chain.by_all.map(Quoted::ratio));
        let point = point.from_keys(conditions.number(KEYS), KEYS_OF_PAPER);
        points.add(ITEM, point.is(Reading::count(most / all)));
    }
    Ok(())
}

/// Fills a database, adds its memory over the keys in it, and returns the most.
fn line(conditions: &Conditions, chain: &Chain, points: &mut Points) -> Result<f64> {
    // Each point is after as many puts.
    let part = (conditions.number(KEYS) / 2 / POINTS).max(1);
    let num = 2 * POINTS * part;
    let database = open(conditions, chain, num)?;
    let keys = Keys::new(KEY_BYTES, num, true)?;
    let order = Permutation::new(num, conditions.seed);
    let look = (part / LOOKS).max(1);
    let (mut batch, mut key, mut most) = (Batch::new(), Vec::new(), 0.0f64);
    let mut most_of_part = 0.0f64;
    for position in 0..num {
        let put = position + 1;
        keys.write(order.at(position), &mut key);
        batch.put(&key, [7; VALUE_BYTES])?;
        let looks = put > num / 2 && (put % look == 0 || put % part == 0);
        if put % BATCH == 0 || looks {
            conditions.check()?;
            database.write(&batch)?;
            batch.clear();
        }
        if looks {
            most_of_part = most_of_part.max(super::memory::of_indexes(&database.stats().ram) as f64);
        }
        if looks && put % part == 0 {
            let per_key = Reading::count(most_of_part / num as f64);
            points.add(ITEM, MEMORY.at(chain.name, put as f64 / num as f64).is(per_key));
            most = most.max(most_of_part);
            most_of_part = 0.0;
        }
    }
    drop(database);
    conditions.place.clear()?;
    Ok(most)
}

fn open(conditions: &Conditions, chain: &Chain, num: u64) -> Result<Database> {
    let mut settings = Vec::new();
    settings.extend(chain.merge_ratio.map(|ratio| ("merge_ratio", ratio.to_owned())));
    if chain.has_all_in_log {
        let slots = (num as f64 / f64::from(PARTITIONS) * SLOTS_PER_KEY).ceil() as u64;
        settings.push(("log_slots_min", slots.to_string()));
        settings.push(("log_bytes_max", (1u64 << 30).to_string()));
    }
    let mut tuning = conditions.tuning(EngineKind::Silt, Preset::Paper, &settings);
    tuning.partitions = Some(PARTITIONS);
    let builder = Database::builder(conditions.place.directory());
    Ok(tuning.apply(builder.fixed(KEY_BYTES, VALUE_BYTES).hashed_keys()).open()?)
}
