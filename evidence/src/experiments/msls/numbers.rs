//! The numbers of the text: the primitives (4.2.4, 4.3.3), SILT under skew (4.5), and the optimizer (4.6).
//!
//! For SILT under skew, the paper does not say whether its 25 and 62 HashStores are of one partition or of all keys.
//! The paper's values are next to the reading that gives them.

use super::curves::ITEM_BYTES;
use crate::Result;
use crate::conditions::Conditions;
use crate::literature::LevelDb;
use crate::point::{Points, Reading};
use crate::quantity::{BytesPerByte, BytesPerKey, Keys, Quantity, Quoted, Seconds, Share};
use crate::registry::Experiment;
use siltstone_model::{Popularity, Silt};
use std::time::Instant;

const ITEM: &str = "msls/section-4.5";
const KEYS: u64 = 100_000_000;
/// The keys of a partition of SILT.
const PARTITION_KEYS: u64 = 25_000_000;

const UNIQUE: Quantity<Keys> = Quantity::equal("keys");
const WRITES: Quantity<BytesPerByte> = Quantity::equal("write amplification");
const MEMORY: Quantity<BytesPerKey> = Quantity::equal("memory");
const SAVED: Quantity<Share> = Quantity::equal("memory saved");
const WRITES_SAVED: Quantity<Share> = Quantity::higher("writes saved");
const TIME: Quantity<Seconds> = Quantity::lower("time of the optimizer");

/// The numbers of the text.
pub static EXPERIMENT: Experiment =
    Experiment { name: "msls-numbers", cost_s: 5, direct: false, counts: true, rates: true, run };

fn run(_: &Conditions, points: &mut Points) -> Result<()> {
    primitives(points)?;
    silt(points)?;
    optimizer(points)
}

fn primitives(points: &mut Points) -> Result<()> {
    let zipf = Popularity::zipf(KEYS, 0.99)?;
    let uniform = Popularity::uniform(KEYS)?;
    let size = 10.0 * f64::from(1 << 20);
    for (series, paper, value) in [
        ("Merge(1e7, 9e7), Zipf 0.99", 9.03e7, zipf.merge(1e7, 9e7)),
        ("DInterval(10 Mi), uniform", 2.26e7, uniform.density_interval(size)),
        ("Unique^-1(10 Mi), uniform", 1.11e7, uniform.unique_inverse(size)),
    ] {
        points.add(ITEM, UNIQUE.of(series).paper(Quoted::text(paper)).calculated(value));
    }
    Ok(())
}

fn silt(points: &mut Points) -> Result<()> {
    let silt = Silt::paper(KEYS as f64, 1024.0, 4.0, 7.5e6);
    let with_stores =
        |stores: f64, silt: &Silt| Silt { merge_keys: stores * silt.table_keys(), ..silt.clone() };
    for (name, keys, partitions, is_papers) in
        [("one partition", PARTITION_KEYS, 1.0, true), ("all keys", KEYS, 4.0, false)]
    {
        let zipf = Popularity::zipf(keys, 0.99)?;
        let silt = Silt { keys: keys as f64, partitions, ..silt.clone() };
        for (stores, paper) in [(62.0, 3.0), (25.0, 5.4)] {
            let paper = is_papers.then_some(Quoted::text(paper));
            let writes = with_stores(stores, &silt).writes(&zipf).total();
            let series = format!("SILT, Zipf 0.99, {stores} HashStores, {name}");
            points.add(ITEM, WRITES.of(series).paper(paper).calculated(writes));
        }
        let memory = with_stores(25.0, &silt).ram_bytes_per_key();
        let series = format!("SILT, 25 HashStores, {name}");
        points.add(ITEM, MEMORY.of(series).paper(Quoted::text(0.56)).calculated(memory));
        let saved = 1.0 - memory / with_stores(62.0, &silt).ram_bytes_per_key();
        points.add(ITEM, SAVED.of(format!("SILT, 25 instead of 62 HashStores, {name}")).calculated(saved));
    }
    let [few, many] = [25.0, 62.0].map(|stores| {
        let ram = with_stores(stores, &silt).ram();
        ram.total() - ram.log_stores
    });
    let series = "SILT, 25 instead of 62 HashStores, LogStores not counted";
    points.add(ITEM, SAVED.of(series).paper(Quoted::text(0.26)).calculated(1.0 - few / many));
    Ok(())
}

fn optimizer(points: &mut Points) -> Result<()> {
    for (skew, paper_s) in [(0.0, 3.17), (0.99, 118.0)] {
        let popularity = Popularity::zipf(KEYS, skew)?;
        let leveldb = LevelDb::standard(KEYS as f64, ITEM_BYTES)?;
        let start = Instant::now();
        let found = leveldb.optimize(&popularity);
        let seconds = Reading::time(start.elapsed().as_secs_f64());
        let series = format!("optimizer, skew {skew}");
        points.add(ITEM, TIME.of(&series).paper(Quoted::text(paper_s)).is(seconds));
        points.add(ITEM, WRITES.of(&series).calculated(found.writes.total()));
    }
    let popularity = Popularity::uniform(10_000_000)?;
    let leveldb = LevelDb::with_growth(1e7, ITEM_BYTES, 1e6 * ITEM_BYTES, 10.0)?;
    let saved = 1.0 - leveldb.optimize(&popularity).writes.total() / leveldb.writes(&popularity).total();
    let series = "optimizer, buffer of 1 M items, by the model";
    points.add(ITEM, WRITES_SAVED.of(series).paper(Quoted::text(0.305)).calculated(saved));
    Ok(())
}
