//! The workloads of Table II on other stores, and after each store on FlashKey, which has to keep to the space that
//! this store took: Figures 3 to 6, Table V. The paper has quotients of a store and FlashKey.
//!
//! Both stores of a pair have caches of one size, a sixteenth of the data. RocksDB and FlashKey use direct I/O.
//! LevelDB cannot, so only its writes and its space are compared.

use super::{KEY_BYTES, VALUE_BYTES};
use crate::compare::peer;
use crate::compare::row::Row;
use crate::compare::table::{Choice, Table};
use crate::conditions::Conditions;
use crate::point::{Points, Reading};
use crate::quantity::{Quantity, Quoted, Times};
use crate::registry::Experiment;
use crate::{Error, Result};
use std::time::Duration;

const KEYS: u64 = 200_000;
/// Those of the paper.
const KEYS_OF_PAPER: u64 = 50_000_000;
/// The share of the data that a cache has.
const CACHE_SHARE: f64 = 1.0 / 16.0;
/// The time of reads and mixed workloads.
const DURATION: Duration = Duration::from_secs(5);

/// The stores of the paper.
pub const STORES: [&str; 2] = ["rocksdb", "leveldb"];

const WRITES: Quantity<Times> = Quantity::higher("write amplification of the store by FlashKey's");
const READS: Quantity<Times> = Quantity::higher("read amplification of the store by FlashKey's");
const SPACE: Quantity<Times> = Quantity::equal("space of the store by FlashKey's");
const GET_TIME: Quantity<Times> = Quantity::higher("mean time of a get of the store by FlashKey's");
const PUT_TIME: Quantity<Times> = Quantity::higher("mean time of a put of the store by FlashKey's");
const P50: Quantity<Times> = Quantity::higher("p50 of gets of the store by FlashKey's");
const P99999: Quantity<Times> = Quantity::higher("p99.999 of gets of the store by FlashKey's");

/// Table II at equal space.
pub static EXPERIMENT: Experiment =
    Experiment { name: "flashkey-peers", cost_s: 300, direct: true, counts: false, rates: true, run };

/// A quotient of the paper: with RocksDB, and with LevelDB.
struct Quotient {
    item: &'static str,
    workload: &'static str,
    /// The phase of `evidence table equal-space`.
    phase: &'static str,
    quantity: &'static Quantity<Times>,
    of: fn(&Row) -> Option<f64>,
    papers: [Option<f64>; 2],
}

impl Quotient {
    /// Returns whether the value depends on what serves reads.
    fn is_of_reads(&self) -> bool {
        self.item != FIGURE_3 && self.phase != W3.1
    }
}

const fn quotient(
    item: &'static str,
    (workload, phase): (&'static str, &'static str),
    quantity: &'static Quantity<Times>,
    of: fn(&Row) -> Option<f64>,
    papers: [Option<f64>; 2],
) -> Quotient {
    Quotient { item, workload, phase, quantity, of, papers }
}

const W2: (&str, &str) = ("W2, read", "read");
const W3: (&str, &str) = ("W3, overwrite", "overwrite2");
const W4: (&str, &str) = ("W4, 1 reader", "readwhilewriting");
const W5: (&str, &str) = ("W5, 3 readers", "readwhilewriting:3");
const ZIPF: (&str, &str) = ("overwrite, Zipf 0.99", "overwrite2-zipf");

const FIGURE_3: &str = "flashkey/figure-3";
const FIGURE_4: &str = "flashkey/figure-4";
const FIGURE_5: &str = "flashkey/figure-5";
const FIGURE_6: &str = "flashkey/figure-6";

/// Quotients of Table VI with RocksDB; else those that the text states.
const QUOTIENTS: [Quotient; 16] = [
    quotient(FIGURE_3, W3, &WRITES, writes, [Some(6.8), Some(12.0)]),
    quotient(FIGURE_3, W3, &SPACE, |row| Some(row.space_amplification), [None, None]),
    quotient(FIGURE_3, W4, &WRITES, writes, [Some(7.0), None]),
    quotient(FIGURE_3, W5, &WRITES, writes, [Some(7.77), None]),
    quotient(FIGURE_3, ZIPF, &WRITES, writes, [None, None]),
    quotient(FIGURE_4, W2, &READS, reads, [Some(1.30), None]),
    quotient(FIGURE_4, W4, &READS, reads, [None, None]),
    quotient(FIGURE_4, W5, &READS, reads, [Some(1.9), None]),
    quotient(FIGURE_5, W2, &GET_TIME, |row| Some(row.gets.mean), [Some(1.39), None]),
    quotient(FIGURE_5, W3, &PUT_TIME, put_time, [Some(1.89), Some(6.25)]),
    quotient(FIGURE_5, W4, &GET_TIME, |row| Some(row.gets.mean), [None, None]),
    quotient(FIGURE_5, W5, &GET_TIME, |row| Some(row.gets.mean), [Some(1.25), None]),
    quotient(FIGURE_6, W2, &P50, |row| Some(row.gets.p50), [Some(1.11), None]),
    quotient(FIGURE_6, W2, &P99999, |row| Some(row.gets.p99999), [Some(1.78), None]),
    quotient(FIGURE_6, W4, &P99999, |row| Some(row.gets.p99999), [None, None]),
    quotient(FIGURE_6, W5, &P99999, |row| Some(row.gets.p99999), [None, None]),
];

fn writes(row: &Row) -> Option<f64> {
    row.write_amplification
}

/// Returns the bytes that the process read, background work included, per byte that gets returned.
fn reads(row: &Row) -> Option<f64> {
    let gets = row.operations - row.puts.min(row.operations);
    let returned = gets as f64 * (row.key_size + row.value_size) as f64;
    (returned > 0.0).then(|| row.spent.read_bytes as f64 / returned)
}

/// Returns the mean time of a put until no background work was left.
fn put_time(row: &Row) -> Option<f64> {
    row.settled_ops_per_s.map(|rate| 1e6 / rate)
}

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let place = conditions.place.directory();
    let keys = conditions.number(KEYS);
    let cache_bytes = CACHE_SHARE * (keys * (KEY_BYTES + VALUE_BYTES) as u64) as f64;
    let choice = Choice {
        keys,
        cache_mb: (cache_bytes / f64::from(1 << 20)).ceil() as u64,
        key_size: KEY_BYTES,
        value_size: Some(VALUE_BYTES),
        seconds: conditions.duration(DURATION).as_secs_f64(),
        record_cache: true,
        peers: STORES.map(str::to_owned).into(),
        dir: place.join("stores"),
        out: place.join("rows.jsonl"),
        seed: conditions.seed,
        ..Choice::default()
    };
    let failed = |error: anyhow::Error| Error::wrong_results(format!("{error:#}"));
    let rows = Table::EqualSpace.run(&choice).map_err(failed)?;
    for quotient in &QUOTIENTS {
        let Quotient { item, workload, phase, quantity, of, papers } = quotient;
        for (store, paper) in STORES.iter().zip(papers) {
            if quotient.is_of_reads() && !peer::by_name(store).map_err(failed)?.has_direct {
                continue;
            }
            let value = |peer: &str| {
                let is_it = |row: &&Row| row.group == *store && row.peer == peer && row.phase == *phase;
                rows.iter().find(is_it).filter(|row| row.failure.is_none()).and_then(of)
            };
            if let (Some(theirs), Some(ours)) = (value(store), value("flashkey").filter(|ours| *ours > 0.0)) {
                let point = quantity.of(format!("{workload}, {store}")).paper(paper.map(Quoted::ratio));
                let point = point.from_keys(keys, KEYS_OF_PAPER);
                points.add(item, point.is(Reading::sample(theirs / ours)));
            }
        }
    }
    Ok(())
}
