//! COLA, the cache-oblivious lookahead array: Algorithm 4 of Lim's dissertation (4.1.1, 4.4).

use super::leveldb::LOG_BYTES;
use siltstone_model::Popularity;
use siltstone_model::{ModelError, positive};

/// The parameters of a COLA, in items. Each level is one table; the level above is merged into it as a whole.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Cola {
    /// wal: the items of a log.
    pub log_items: f64,
    /// r: the number of merges after which a level is merged into the next, typically 2 to 4.
    pub growth_factor: u32,
    /// L: the levels. The last one holds all keys.
    pub levels: u32,
}

impl Cola {
    /// Returns a COLA with 4 MiB of log and as many levels as its keys need at this growth factor.
    pub fn standard(keys: f64, item_bytes: f64, growth_factor: u32) -> Result<Self, ModelError> {
        let log_items = (LOG_BYTES / positive("item bytes", item_bytes)?).max(1.0);
        let levels = levels_for(positive("keys", keys)?, log_items, growth_factor)?;
        Ok(Cola { log_items, growth_factor, levels })
    }

    /// Returns the write amplification: the log first, then each level (Algorithm 4, estimateWA_COLA).
    pub fn writes(&self, popularity: &Popularity) -> Vec<f64> {
        let mut writes = vec![1.0];
        let mut interval = self.log_items;
        for _ in 1..self.levels {
            // The j-th merge writes Merge(Unique(i), Unique(j · i)) keys, which is Unique((j + 1) · i).
            let merges =
                (1..self.growth_factor).map(|merges| popularity.unique(interval * f64::from(merges)));
            let written: f64 = merges.sum();
            interval *= f64::from(self.growth_factor);
            writes.push(written / interval);
        }
        writes.push(popularity.keys() / interval);
        writes
    }

    /// Returns the tables that a get reads in the worst case. Without filters each is a read.
    pub fn tables_per_get_at_worst(&self) -> f64 {
        self.levels.into()
    }

    /// Returns the memory: two memtables, and Bloom filters with this many bits per key.
    pub fn ram_bytes(&self, keys: f64, item_bytes: f64, filter_bits_per_key: f64) -> f64 {
        2.0 * self.log_items * item_bytes + filter_bits_per_key / 8.0 * keys
    }
}

/// ⌈log_r N⌉, with N in units of a log.
pub(super) fn levels_for(keys: f64, log_items: f64, growth_factor: u32) -> Result<u32, ModelError> {
    if !(2..=1_000_000).contains(&growth_factor) {
        return Err(ModelError {
            name: "growth factor",
            got: growth_factor.into(),
            limit: "within 2 to 10^6",
        });
    }
    let mut levels = 1;
    let mut capacity = log_items * f64::from(growth_factor);
    while capacity < keys {
        capacity *= f64::from(growth_factor);
        levels += 1;
    }
    Ok(levels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_model::KeyStream;
    use std::collections::HashSet;

    /// Simulates the design of 4.1.1 with sets of keys.
    fn simulate(cola: &Cola, keys: impl Iterator<Item = u32>, all: u32, requests: usize) -> f64 {
        let mut levels: Vec<(HashSet<u32>, u32)> = vec![Default::default(); cola.levels as usize];
        if let Some(last) = levels.last_mut() {
            last.0.extend(0..all);
        }
        let (mut table, mut written, mut logged) = (HashSet::new(), 0, 0);
        for (request, key) in keys.take(requests).enumerate() {
            table.insert(key);
            if (request + 1) % cola.log_items as usize != 0 {
                continue;
            }
            let mut moving = std::mem::take(&mut table);
            for (index, (level, merges)) in levels.iter_mut().enumerate() {
                let is_last = index + 1 == cola.levels as usize;
                *merges += 1;
                if !is_last && *merges == cola.growth_factor {
                    // The level has accepted r − 1 merges: it moves to the next level, together with the new keys.
                    moving.extend(level.drain());
                    *merges = 0;
                    continue;
                }
                level.extend(moving.drain());
                written += level.len();
                break;
            }
            logged = request + 1;
        }
        1.0 + written as f64 / logged as f64
    }

    #[test]
    fn the_model_agrees_with_a_simulation() {
        for (skew, growth_factor) in [(0.0, 2), (0.0, 4), (0.99, 3)] {
            let popularity = Popularity::zipf(20_000, skew).unwrap();
            let cola = Cola { log_items: 50.0, growth_factor, levels: 4 };
            let keys = KeyStream::new(&popularity, 3).unwrap();
            let simulated = simulate(&cola, keys, 20_000, 128_000);
            let model: f64 = cola.writes(&popularity).iter().sum();
            assert!(
                (model / simulated - 1.0).abs() < 0.01,
                "{skew}, {growth_factor}: {model} for {simulated}"
            );
        }
    }

    #[test]
    fn levels_grow_with_the_keys() {
        assert_eq!(Cola::standard(1e8, 1000.0, 4).unwrap().levels, 8);
        assert_eq!(Cola::standard(10.0, 1000.0, 4).unwrap().levels, 1);
        assert!(Cola::standard(1e8, 1000.0, 1).is_err());
    }
}
