//! LevelDB: Algorithm 3 of Lim's dissertation (4.3), and its method for reads (4.8).
//!
//! Tables and levels are counted in items of equal size. As in the dissertation, the model leaves out compactions
//! triggered by seeks, compression, and LevelDB's own headers and indexes (18 bytes per item).

use siltstone_model::Popularity;
use siltstone_model::{ModelError, positive};

/// The size of the log at which a memtable becomes a table, in bytes (4.3.2).
pub const LOG_BYTES: f64 = 4.0 * MEBIBYTE;
/// The number of tables in level-0 that triggers a compaction (4.3.3).
pub const LEVEL0_TABLES: f64 = 4.0;
/// The ratio between the sizes of a level and the one above it.
pub const GROWTH_FACTOR: f64 = 10.0;
/// The maximum number of levels.
const LEVELS_MAX: u32 = 64;
/// Size(1).
const LEVEL1_BYTES: f64 = 10.0 * MEBIBYTE;
const MEBIBYTE: f64 = (1u32 << 20) as f64;

/// The parameters of a LevelDB, in items.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct LevelDb {
    /// wal: the items of a log, after which the memtable is written as a table.
    pub log_items: f64,
    /// c0: the number of tables in level-0 that triggers a compaction.
    pub level0_tables: f64,
    /// Size(1) to Size(L): the items that a level holds before it is compacted. The last level holds all keys.
    pub level_items: Vec<f64>,
}

/// The sources of write amplification, in items written per put (Table 4.1).
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct LevelDbWrites {
    /// Memtable to log.
    pub log: f64,
    /// Memtable to level-0.
    pub level0: f64,
    /// Level-0 to level-1, level-1 to level-2, and so on.
    pub levels: Vec<f64>,
}

impl LevelDbWrites {
    /// WA: the sum.
    pub fn total(&self) -> f64 {
        self.log + self.level0 + self.levels.iter().sum::<f64>()
    }
}

impl LevelDb {
    /// LevelDB's defaults: 4 MiB of log, 4 tables in level-0, and levels of 10^l MiB up to the first that holds all
    /// keys.
    pub fn standard(keys: f64, item_bytes: f64) -> Result<Self, ModelError> {
        Self::with_growth(keys, item_bytes, LOG_BYTES, GROWTH_FACTOR)
    }

    /// Like [`LevelDb::standard`], with another write buffer, in bytes, and another growth factor (at least 2). The
    /// first level keeps its size.
    pub fn with_growth(keys: f64, item_bytes: f64, log_bytes: f64, growth: f64) -> Result<Self, ModelError> {
        positive("keys", keys)?;
        positive("item bytes", item_bytes)?;
        positive("log bytes", log_bytes)?;
        if !(2.0..=1e9).contains(&growth) {
            return Err(ModelError { name: "growth factor", got: growth, limit: "within 2 to 10^9" });
        }
        let mut level_items = Vec::new();
        let mut size = LEVEL1_BYTES / item_bytes;
        while size < keys {
            level_items.push(size);
            size *= growth;
        }
        level_items.push(keys);
        let log_items = (log_bytes / item_bytes).max(1.0);
        Ok(LevelDb { log_items, level0_tables: LEVEL0_TABLES, level_items })
    }

    /// Like [`LevelDb::standard`], with this many levels below level-0: the growth factor follows (4.6.3, Figure 4.15).
    pub fn with_levels(keys: f64, item_bytes: f64, levels: u32) -> Result<Self, ModelError> {
        let mut standard = Self::standard(keys, item_bytes)?;
        if !(1..=LEVELS_MAX).contains(&levels) {
            return Err(ModelError { name: "levels", got: levels.into(), limit: "within 1 to 64" });
        }
        let first = (LEVEL1_BYTES / item_bytes).min(keys);
        let growth = (keys / first).powf(1.0 / f64::from(levels.max(2) - 1));
        standard.level_items = (0..levels).map(|level| first * growth.powf(level.into())).collect();
        if let Some(last) = standard.level_items.last_mut() {
            *last = keys;
        }
        Ok(standard)
    }

    /// Returns the write amplification under this load (Algorithm 3).
    pub fn writes(&self, popularity: &Popularity) -> LevelDbWrites {
        // The levels depend on each other only through their intervals, DInterval(l).
        let intervals = self.level_items.iter().map(|&size| popularity.density_interval(size));
        self.writes_of(popularity, &intervals.collect::<Vec<_>>())
    }

    /// Like [`LevelDb::writes`], for LevelDB's code, whose memtable keeps all versions of a key and writes them all to
    /// level-0. Algorithm 3 counts each key once there.
    pub fn writes_of_the_code(&self, popularity: &Popularity) -> LevelDbWrites {
        LevelDbWrites { level0: 1.0, ..self.writes(popularity) }
    }

    /// Like [`LevelDb::writes`], with DInterval of every level but the last already known.
    pub(super) fn writes_of(&self, popularity: &Popularity, density_intervals: &[f64]) -> LevelDbWrites {
        let log_items = self.log_items;
        let mut levels = Vec::with_capacity(self.level_items.len());
        let mut interval = log_items * self.level0_tables;
        for (level, &size) in self.level_items.iter().enumerate() {
            // Unique(Interval(l)) keys, collected over Interval(l) requests, are merged into Size(l + 1) others.
            let merged = popularity.unique(interval + popularity.unique_inverse(size));
            let false_overlaps = if level == 0 { 0.0 } else { popularity.unique(interval) };
            levels.push((merged + false_overlaps) / interval);
            interval += density_intervals.get(level).copied().unwrap_or(f64::INFINITY);
        }
        LevelDbWrites { log: 1.0, level0: popularity.unique(log_items) / log_items, levels }
    }

    /// Returns the write amplification if no compaction ever merged duplicates, as in asymptotic analysis (4.3.4): each
    /// turnover of a level rewrites it and the whole next level.
    pub fn writes_at_worst(&self) -> LevelDbWrites {
        let mut moved = self.log_items * self.level0_tables;
        let mut levels = Vec::with_capacity(self.level_items.len());
        for &size in &self.level_items {
            levels.push((moved + size) / moved);
            moved = size;
        }
        LevelDbWrites { log: 1.0, level0: 1.0, levels }
    }

    /// Returns the average number of tables that a get reads, where gets are distributed as puts are. Without filters
    /// each table is a read (4.1.2; the method is that of 4.8).
    ///
    /// A key is not in a level if it was not put within as many requests as that level and those above it cover.
    /// Level-0 has 0 to c0 − 1 tables, each number equally often. Below level-0, a get reads a table only if the key is
    /// in its range.
    pub fn tables_per_get(&self, popularity: &Popularity) -> f64 {
        let mut tables = 0.0;
        let mut age = self.log_items / 2.0;
        let mut newer = 1.0;
        while newer < self.level0_tables {
            // The share of the time in which level-0 has at least `newer` tables.
            let share = 1.0 - newer / self.level0_tables;
            tables += share * popularity.absent(age);
            age += share * self.log_items;
            newer += 1.0;
        }
        let burst = self.log_items * self.level0_tables;
        let mut interval_above = burst;
        for &size in &self.level_items {
            // A level receives items only when level-0 is compacted, so a place in the key space is compacted that much
            // later than DInterval says. After that it has no table until the level above is compacted there: on
            // average after half of that level's interval, plus half of level-0's.
            let interval = popularity.density_interval(size) + burst;
            let uncovered = (interval_above + burst) / (2.0 * interval);
            tables += (1.0 - uncovered).max(0.0) * popularity.absent(age);
            age += popularity.unique_inverse(size);
            interval_above = interval;
        }
        tables
    }

    /// Returns the tables that a get for a missing key reads in the worst case.
    pub fn tables_per_miss(&self) -> f64 {
        self.level0_tables + self.level_items.len() as f64
    }

    /// Returns the maximum number of items on flash per key: a log, a full level-0 and full levels. The outputs of a
    /// compaction that coexist with its inputs, a few tables, are not counted.
    pub fn space_amplification(&self) -> f64 {
        let keys = self.level_items.last().copied().unwrap_or(0.0);
        ((1.0 + self.level0_tables) * self.log_items + self.level_items.iter().sum::<f64>()) / keys
    }

    /// Returns the memory: two memtables, and Bloom filters with this many bits per key.
    pub fn ram_bytes(&self, item_bytes: f64, filter_bits_per_key: f64) -> f64 {
        let keys = self.level_items.last().copied().unwrap_or(0.0);
        2.0 * self.log_items * item_bytes + filter_bits_per_key / 8.0 * keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 4.1, "Analysis, no opt": 10^8 keys of 1 kB, uniform.
    #[test]
    fn every_row_of_table_4_1_is_reached() {
        let popularity = Popularity::uniform(100_000_000).unwrap();
        let writes = LevelDb::standard(1e8, 1000.0).unwrap().writes(&popularity);
        let rows = [writes.log, writes.level0].into_iter().chain(writes.levels.iter().copied());
        let expected = [1.00, 1.00, 1.62, 4.77, 6.22, 6.32, 4.89];
        assert_eq!(writes.levels.len(), 5);
        for (row, expected) in rows.zip(expected) {
            assert!((row / expected - 1.0).abs() < 0.01, "{row} for {expected}: {writes:?}");
        }
        assert!((writes.total() / 25.82 - 1.0).abs() < 0.001, "{}", writes.total());
    }

    /// 4.3.5: the worst case overestimates by 1.8 to 3.6 times.
    #[test]
    fn the_worst_case_overestimates_as_the_dissertation_says() {
        let leveldb = LevelDb::standard(1e8, 1000.0).unwrap();
        let worst = leveldb.writes_at_worst().total();
        let uniform = leveldb.writes(&Popularity::uniform(100_000_000).unwrap()).total();
        let zipf = leveldb.writes(&Popularity::zipf(100_000_000, 0.99).unwrap()).total();
        assert!((1.8..1.9).contains(&(worst / uniform)), "{}", worst / uniform);
        assert!((3.3..3.8).contains(&(worst / zipf)), "{}", worst / zipf);
    }

    /// The writes counted for Debian's LevelDB 1.23 (docs/MODELS.md).
    #[test]
    fn the_code_writes_what_the_model_says_within_4_per_cent() {
        for (keys, skew, counted) in
            [(1e6, 0.0, 12.50), (1e6, 0.99, 6.85), (1e7, 0.0, 18.66), (1e7, 0.99, 9.87)]
        {
            let popularity = Popularity::zipf(keys as u64, skew).unwrap();
            let writes = LevelDb::standard(keys, 1000.0).unwrap().writes_of_the_code(&popularity).total();
            assert!(
                (writes / counted - 1.0).abs() < 0.04,
                "{keys} keys, skew {skew}: {writes} for {counted}"
            );
        }
    }

    #[test]
    fn a_skewed_get_ends_in_an_early_level() {
        let leveldb = LevelDb::standard(1e7, 1000.0).unwrap();
        let uniform = leveldb.tables_per_get(&Popularity::uniform(10_000_000).unwrap());
        let zipf = leveldb.tables_per_get(&Popularity::zipf(10_000_000, 0.99).unwrap());
        assert!(zipf < uniform && uniform < leveldb.tables_per_miss(), "{zipf} {uniform}");
    }

    #[test]
    fn a_store_that_fits_into_one_level_has_one() {
        let leveldb = LevelDb::standard(100.0, 1000.0).unwrap();
        assert_eq!(leveldb.level_items, [100.0]);
        assert!(leveldb.writes(&Popularity::uniform(100).unwrap()).total().is_finite());
        assert!(LevelDb::standard(100.0, 0.0).is_err());
    }
}
