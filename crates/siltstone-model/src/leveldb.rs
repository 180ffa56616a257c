//! LevelDB: Algorithm 3 of Lim's dissertation (4.3), and what 4.8 says of reads.
//!
//! Tables and levels are counted in items: all items have the same size. What is left out, as in the dissertation: the
//! compactions that seeks trigger, compression, and LevelDB's own headers and indexes (18 bytes an item).

use super::error::{ModelError, positive};
use super::popularity::Popularity;

/// Bytes of the log after which a memtable becomes a table (4.3.2).
pub const LOG_BYTES: f64 = 4.0 * MEBIBYTE;
/// Tables in level-0 at which they are compacted (4.3.3).
pub const LEVEL0_TABLES: f64 = 4.0;
/// How many times larger than the level before it a level may be.
pub const GROWTH_FACTOR: f64 = 10.0;
/// More levels than that do not occur.
const LEVELS_MAX: u32 = 64;
/// Size(1).
const LEVEL1_BYTES: f64 = 10.0 * MEBIBYTE;
const MEBIBYTE: f64 = (1u32 << 20) as f64;

/// The parameters of a LevelDB, in items.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct LevelDb {
    /// wal: the items of a log, after which the memtable is written as a table.
    pub log_items: f64,
    /// c0: the tables in level-0 that trigger their compaction.
    pub level0_tables: f64,
    /// Size(1) to Size(L): the items that a level holds before it is compacted. The last level holds all keys.
    pub level_items: Vec<f64>,
}

/// Where write amplification comes from, in items written for each item that is put (Table 4.1).
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct LevelDbWrites {
    /// Memtable to log.
    pub log: f64,
    /// Memtable to level-0.
    pub level0: f64,
    /// Level-0 to 1, level-1 to 2, and so on.
    pub levels: Vec<f64>,
}

impl LevelDbWrites {
    /// WA: all of it.
    pub fn total(&self) -> f64 {
        self.log + self.level0 + self.levels.iter().sum::<f64>()
    }
}

impl LevelDb {
    /// LevelDB as it comes: 4 MiB of log, 4 tables in level-0, and levels of 10^l MiB up to the first that is large
    /// enough for all keys.
    pub fn standard(keys: f64, item_bytes: f64) -> Result<Self, ModelError> {
        Self::with_growth(keys, item_bytes, LOG_BYTES, GROWTH_FACTOR)
    }

    /// The same with another write buffer, in bytes, and another factor (2 or more) between the sizes of levels. The
    /// first level is not changed.
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

    /// The same with as many levels, besides level-0, as are asked for: the growth factor follows (4.6.3, Figure 4.15).
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

    /// The write amplification under that load (Algorithm 3).
    pub fn writes(&self, popularity: &Popularity) -> LevelDbWrites {
        // The levels are independent of each other but for their intervals, DInterval(l).
        let intervals = self.level_items.iter().map(|&size| popularity.density_interval(size));
        self.writes_of(popularity, &intervals.collect::<Vec<_>>())
    }

    /// The same for LevelDB's code, in which a memtable keeps every version of a key and writes them all to level-0.
    /// Algorithm 3 has each key once there.
    pub fn writes_of_the_code(&self, popularity: &Popularity) -> LevelDbWrites {
        LevelDbWrites { level0: 1.0, ..self.writes(popularity) }
    }

    /// [`LevelDb::writes`] where DInterval of every level but the last is known already.
    pub(super) fn writes_of(&self, popularity: &Popularity, density_intervals: &[f64]) -> LevelDbWrites {
        let log_items = self.log_items;
        let mut levels = Vec::with_capacity(self.level_items.len());
        let mut interval = log_items * self.level0_tables;
        for (level, &size) in self.level_items.iter().enumerate() {
            // Unique(Interval(l)) keys, the fruit of Interval(l) requests, are merged into Size(l + 1) others.
            let merged = popularity.unique(interval + popularity.unique_inverse(size));
            let false_overlaps = if level == 0 { 0.0 } else { popularity.unique(interval) };
            levels.push((merged + false_overlaps) / interval);
            interval += density_intervals.get(level).copied().unwrap_or(f64::INFINITY);
        }
        LevelDbWrites { log: 1.0, level0: popularity.unique(log_items) / log_items, levels }
    }

    /// The write amplification if no compaction ever met a key twice, as asymptotic analysis has it (4.3.4): a level
    /// and the whole of the next one are written for every turn-over of the level.
    pub fn writes_at_worst(&self) -> LevelDbWrites {
        let mut moved = self.log_items * self.level0_tables;
        let mut levels = Vec::with_capacity(self.level_items.len());
        for &size in &self.level_items {
            levels.push((moved + size) / moved);
            moved = size;
        }
        LevelDbWrites { log: 1.0, level0: 1.0, levels }
    }

    /// The tables that a get looks into on average, for a key drawn as the writes are; every one of them is a read if
    /// there are no filters (4.1.2, and 4.8 for the method).
    ///
    /// A key is not in a level if it was not put within as many requests as the level and those before it hold. From 0
    /// to c0 - 1 tables are in level-0, each number as often as any other. A get looks into a level below only if the
    /// key lies within one of its tables.
    pub fn tables_per_get(&self, popularity: &Popularity) -> f64 {
        let mut tables = 0.0;
        let mut age = self.log_items / 2.0;
        let mut newer = 1.0;
        while newer < self.level0_tables {
            // The share of the time in which level-0 has at least so many tables.
            let share = 1.0 - newer / self.level0_tables;
            tables += share * popularity.absent(age);
            age += share * self.log_items;
            newer += 1.0;
        }
        let burst = self.log_items * self.level0_tables;
        let mut interval_above = burst;
        for &size in &self.level_items {
            // A level gets items only as often as level-0 is compacted. So a place is compacted that much later than
            // DInterval says, and then has no table until the level above is compacted there: after half of that
            // level's interval on average, and half of level-0's.
            let interval = popularity.density_interval(size) + burst;
            let uncovered = (interval_above + burst) / (2.0 * interval);
            tables += (1.0 - uncovered).max(0.0) * popularity.absent(age);
            age += popularity.unique_inverse(size);
            interval_above = interval;
        }
        tables
    }

    /// The tables that a get for a missing key looks into at worst.
    pub fn tables_per_miss(&self) -> f64 {
        self.level0_tables + self.level_items.len() as f64
    }

    /// The most items on flash for each key: a log, as many tables in level-0 as there may be, and full levels. What a
    /// compaction writes before its inputs are removed, a few tables, is not counted.
    pub fn space_amplification(&self) -> f64 {
        let keys = self.level_items.last().copied().unwrap_or(0.0);
        ((1.0 + self.level0_tables) * self.log_items + self.level_items.iter().sum::<f64>()) / keys
    }

    /// The memory: two memtables, and Bloom filters of that many bits a key if there are any.
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

    /// What Debian's LevelDB 1.23 was counted to write (docs/MODELS.md).
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
