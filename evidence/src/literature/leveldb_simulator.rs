//! An in-memory simulator of LevelDB, by the rules of its design document (Lim's dissertation, 4.3.5).
//!
//! It keeps only keys and compacts synchronously. Like the dissertation's simulator it leaves out three things:
//! widening the inputs of a compaction to reduce false overlaps, placing a new table below level-0, and more than four
//! tables in level-0. Two rules change its results most: a new table begins before the current one overlaps with more
//! than ten tables two levels below, counted from zero for each table; and keys are loaded in their order before
//! updates are counted. It serves to check [`LevelDb::writes`]: 10 M keys take seconds; 10^8 keys take minutes and 1 GB
//! of memory.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use super::leveldb::{LevelDb, LevelDbWrites};
use siltstone_model::KeyStream;
use siltstone_model::Popularity;
use siltstone_model::{ModelError, positive};

/// The largest table, in bytes.
const TABLE_BYTES: f64 = 2_097_152.0;
/// The maximum overlap of one table with the next level, in tables.
const OVERLAP_TABLES: usize = 10;
/// Requests per key after the load (4.3.5).
const REQUESTS_PER_KEY: u64 = 3;
/// One of this many requests is also a get whose tables are counted.
const REQUESTS_PER_GET: usize = 61;

/// A LevelDB without values.
#[derive(Debug)]
pub struct LevelDbSimulator {
    log_items: f64,
    level0_tables: usize,
    table_items: usize,
    log: Vec<u32>,
    level0: Vec<Vec<u32>>,
    levels: Vec<Level>,
    requests: u64,
    level0_written: u64,
    /// Scratch: the concatenated tables of the lower level that a compaction takes.
    lower: Vec<u32>,
}

/// Tables that do not overlap.
#[derive(Debug, Default)]
struct Level {
    /// By their smallest key.
    tables: BTreeMap<u32, Box<[u32]>>,
    items: usize,
    items_max: f64,
    last_compacted: Option<u32>,
    written: u64,
}

impl LevelDbSimulator {
    /// Creates an empty store of these parameters.
    pub fn new(leveldb: &LevelDb, item_bytes: f64) -> Result<Self, ModelError> {
        let table_items = (TABLE_BYTES / positive("item bytes", item_bytes)?).max(1.0);
        positive("levels", leveldb.level_items.len() as f64)?;
        let level = |&items_max: &f64| Level { items_max, ..Level::default() };
        Ok(LevelDbSimulator {
            log_items: positive("log items", leveldb.log_items)?,
            level0_tables: positive("level-0 tables", leveldb.level0_tables)?.ceil() as usize,
            table_items: table_items as usize,
            log: Vec::new(),
            level0: Vec::new(),
            levels: leveldb.level_items.iter().map(level).collect(),
            requests: 0,
            level0_written: 0,
            lower: Vec::new(),
        })
    }

    /// Puts an item, then compacts all levels that are full.
    pub fn put(&mut self, key: u32) {
        self.requests += 1;
        self.log.push(key);
        if (self.log.len() as f64) < self.log_items {
            return;
        }
        let mut table = std::mem::take(&mut self.log);
        table.sort_unstable();
        table.dedup();
        self.level0_written += table.len() as u64;
        self.level0.push(table);
        while let Some(level) = self.fullest() {
            if level == 0 { self.compact_level0() } else { self.compact(level) }
        }
    }

    /// Resets the counters, typically after the load.
    pub fn start_counting(&mut self) {
        self.requests = 0;
        self.level0_written = 0;
        self.levels.iter_mut().for_each(|level| level.written = 0);
    }

    /// Returns the items written per put.
    pub fn writes(&self) -> LevelDbWrites {
        let per_request = |items: u64| items as f64 / self.requests.max(1) as f64;
        LevelDbWrites {
            log: 1.0,
            level0: per_request(self.level0_written),
            levels: self.levels.iter().map(|level| per_request(level.written)).collect(),
        }
    }

    /// Returns the number of tables that a get of this key reads: those whose range includes the key, up to the one
    /// that holds it. All tables of level-0 count as including it.
    pub fn tables_of_get(&self, key: u32) -> usize {
        if self.log.contains(&key) {
            return 0;
        }
        let level0 = self.level0.iter().rev().map(Vec::as_slice);
        let levels = self.levels.iter().filter_map(|level| {
            let (_, table) = level.tables.range(..=key).next_back()?;
            (table.last() >= Some(&key)).then_some(&**table)
        });
        let mut looked_into = 0;
        for table in level0.chain(levels) {
            looked_into += 1;
            if table.binary_search(&key).is_ok() {
                break;
            }
        }
        looked_into
    }

    /// Returns the items in each level, from level-1 on.
    pub fn level_items(&self) -> Vec<usize> {
        self.levels.iter().map(|level| level.items).collect()
    }

    /// Returns the level that exceeds its limit by the largest factor, if any. The last level has no limit.
    fn fullest(&self) -> Option<usize> {
        let mut fullest = (self.level0.len() as f64 / self.level0_tables as f64, 0);
        for (index, level) in self.levels.iter().enumerate().take(self.levels.len() - 1) {
            let score = level.items as f64 / level.items_max;
            if score > fullest.0 {
                fullest = (score, index + 1);
            }
        }
        (fullest.0 >= 1.0).then_some(fullest.1)
    }

    /// Compacts all tables of level-0 together: keys are spread, so all of them overlap.
    fn compact_level0(&mut self) {
        let mut keys = self.level0.concat();
        self.level0.clear();
        keys.sort_unstable();
        keys.dedup();
        self.merge_into(1, keys.into_boxed_slice());
    }

    /// Compacts the next table of a level, in round-robin order over the key space.
    fn compact(&mut self, number: usize) {
        let level = &mut self.levels[number - 1];
        let bound = level.last_compacted.map_or(Unbounded, Excluded);
        let next = level.tables.range((bound, Unbounded)).next().or_else(|| level.tables.iter().next());
        let Some((&smallest, _)) = next else { return };
        let Some(table) = level.tables.remove(&smallest) else { return };
        level.items -= table.len();
        level.last_compacted = table.last().copied();
        self.merge_into(number + 1, table);
    }

    /// Merges sorted keys into a level and rewrites the tables that overlap with them.
    fn merge_into(&mut self, number: usize, keys: Box<[u32]>) {
        let (Some(&first), Some(&last)) = (keys.first(), keys.last()) else { return };
        let (upper, below) = self.levels.split_at_mut(number);
        let Some(level) = upper.last_mut() else { return };
        self.lower.clear();
        for smallest in level.overlapping(first, last) {
            if let Some(table) = level.tables.remove(&smallest) {
                self.lower.extend_from_slice(&table);
            }
        }
        let below = below.first();
        if self.lower.is_empty()
            && number > 1
            && below.is_none_or(|level| level.overlapping(first, last).len() <= OVERLAP_TABLES)
        {
            // A trivial move: the table changes its level and nothing is written.
            level.items += keys.len();
            level.tables.insert(first, keys);
            return;
        }
        let merged = union(&keys, &self.lower);
        level.items = level.items + merged.len() - self.lower.len();
        level.written += merged.len() as u64;
        let mut first = 0;
        for end in table_ends(&merged, below, self.table_items) {
            if let Some(table) = merged.get(first..end).filter(|table| !table.is_empty()) {
                level.tables.insert(table[0], table.into());
            }
            first = end;
        }
    }
}

/// The counts of a simulation of LevelDB.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct LevelDbSimulated {
    /// The items written per put.
    pub writes: LevelDbWrites,
    /// The average number of tables that a get reads, where gets are distributed as puts are.
    pub tables_per_get: f64,
}

/// Simulates a LevelDB: puts all keys once in order, then, counted, three times as many requests. One in 61 of these is
/// also looked up before it is put.
///
/// Loading the keys in random order would make the first compactions costlier, by 1 to 4 % in total; in order, the rows
/// of Table 4.1 match the dissertation.
pub fn simulate_leveldb(
    leveldb: &LevelDb,
    item_bytes: f64,
    popularity: &Popularity,
) -> Result<LevelDbSimulated, ModelError> {
    let keys = popularity.keys();
    if keys >= f64::from(u32::MAX) {
        return Err(ModelError { name: "simulated keys", got: keys, limit: "below 2^32" });
    }
    let mut simulator = LevelDbSimulator::new(leveldb, item_bytes)?;
    let stream = KeyStream::new(popularity, 1)?;
    (0..keys as u32).for_each(|key| simulator.put(key));
    simulator.start_counting();
    let (mut gets, mut tables) = (0, 0);
    for (request, key) in stream.take((REQUESTS_PER_KEY * keys as u64) as usize).enumerate() {
        if request % REQUESTS_PER_GET == 0 {
            gets += 1;
            tables += simulator.tables_of_get(key);
        }
        simulator.put(key);
    }
    Ok(LevelDbSimulated { writes: simulator.writes(), tables_per_get: tables as f64 / f64::from(gets) })
}

impl Level {
    /// Returns the smallest keys of the tables that overlap with `first` to `last`.
    fn overlapping(&self, first: u32, last: u32) -> Vec<u32> {
        let before = self.tables.range(..first).next_back();
        let before = before.filter(|(_, table)| table.last().is_some_and(|&largest| largest >= first));
        before.into_iter().chain(self.tables.range(first..=last)).map(|(&smallest, _)| smallest).collect()
    }
}

/// Splits the keys into tables and returns where each ends: at the maximum size, or before it overlaps with more than
/// ten tables of the level below.
fn table_ends(keys: &[u32], below: Option<&Level>, table_items: usize) -> Vec<usize> {
    let (first, last) = (keys.first().copied().unwrap_or(0), keys.last().copied().unwrap_or(0));
    let smallest_below = below.map_or(Vec::new(), |level| level.overlapping(first, last));
    let mut ends = Vec::new();
    let mut start = 0;
    while start < keys.len() {
        let full = (start + table_items).min(keys.len());
        // The eleventh table below, counted from the one that includes the first key.
        let passed = smallest_below.partition_point(|&smallest| smallest <= keys[start]);
        let end = match smallest_below.get(passed.max(1) - 1 + OVERLAP_TABLES) {
            Some(&eleventh) => full.min(start + keys[start..full].partition_point(|&key| key < eleventh)),
            None => full,
        };
        ends.push(end);
        start = end;
    }
    ends
}

/// Merges two sorted sets; each key occurs once in the result.
fn union(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut merged = vec![0; a.len() + b.len()];
    let (mut i, mut j, mut k) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (a[i], b[j]);
        merged[k] = x.min(y);
        k += 1;
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    merged.truncate(k);
    merged.extend_from_slice(&a[i..]);
    merged.extend_from_slice(&b[j..]);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simulate(leveldb: &LevelDb, popularity: &Popularity) -> LevelDbSimulator {
        let mut simulator = LevelDbSimulator::new(leveldb, 1000.0).unwrap();
        let stream = KeyStream::new(popularity, 7).unwrap();
        (0..popularity.keys() as u32).for_each(|key| simulator.put(key));
        simulator.start_counting();
        stream.take(3 * popularity.keys() as usize).for_each(|key| simulator.put(key));
        simulator
    }

    #[test]
    fn no_key_is_lost_and_none_is_twice_in_a_level() {
        let leveldb = LevelDb { log_items: 50.0, level0_tables: 4.0, level_items: vec![300.0, 3e3, 3e4] };
        let simulator = simulate(&leveldb, &Popularity::zipf(30_000, 0.7).unwrap());
        let mut all: Vec<u32> =
            simulator.log.iter().chain(simulator.level0.iter().flatten()).copied().collect();
        for level in &simulator.levels {
            let keys: Vec<u32> = level.tables.values().flat_map(|table| table.iter().copied()).collect();
            assert!(keys.is_sorted_by(|a, b| a < b));
            assert_eq!(keys.len(), level.items);
            assert!(level.tables.iter().all(|(smallest, table)| table.first() == Some(smallest)));
            all.extend(keys);
        }
        let space = all.len() as f64 / 30e3;
        assert!((0.95..1.0).contains(&(space / leveldb.space_amplification())), "{space}");
        all.sort_unstable();
        all.dedup();
        assert!(all.into_iter().eq(0..30_000));
    }

    /// 4.3.5: the model agrees with the simulation.
    #[test]
    fn the_model_agrees_with_the_simulation_of_a_million_keys() {
        for (skew, tolerance) in [(0.0, 0.02), (0.99, 0.02)] {
            let popularity = Popularity::zipf(1_000_000, skew).unwrap();
            let leveldb = LevelDb::standard(1e6, 1000.0).unwrap();
            let simulated = simulate(&leveldb, &popularity).writes();
            let model = leveldb.writes(&popularity);
            let ratio = model.total() / simulated.total();
            assert!((ratio - 1.0).abs() < tolerance, "skew {skew}: {ratio}\n{model:?}\n{simulated:?}");
        }
    }

    #[test]
    fn two_sets_are_united() {
        assert_eq!(union(&[1, 3, 5], &[2, 3, 9]), [1, 2, 3, 5, 9]);
        assert_eq!(union(&[], &[2]), [2]);
    }

    /// 1 GB of data, with write buffers of 256 KiB to 64 MiB.
    #[test]
    fn a_get_looks_into_as_many_tables_as_in_the_simulation() {
        for (keys, skew, buffer, growth) in [
            (50_000, 0.0, 0.25, 10.0),
            (50_000, 0.0, 1.0, 10.0),
            (50_000, 0.0, 4.0, 10.0),
            (50_000, 0.8, 4.0, 10.0),
            (50_000, 1.1, 4.0, 10.0),
            (50_000, 0.0, 16.0, 10.0),
            (50_000, 0.8, 16.0, 10.0),
            (50_000, 0.0, 64.0, 10.0),
            (50_000, 0.0, 4.0, 4.0),
        ] {
            let popularity = Popularity::zipf(keys, skew).unwrap();
            let bytes = buffer * f64::from(1 << 20);
            let leveldb = LevelDb::with_growth(keys as f64, 20_000.0, bytes, growth).unwrap();
            let simulated = simulate_leveldb(&leveldb, 20_000.0, &popularity).unwrap().tables_per_get;
            let model = leveldb.tables_per_get(&popularity);
            let ratio = model / simulated;
            assert!(
                (ratio - 1.0).abs() < 0.05,
                "skew {skew}, {buffer} MiB, {growth}: {model} for {simulated}"
            );
        }
    }
}
