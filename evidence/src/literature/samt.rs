//! SAMT, the sorted array merge tree: Algorithm 4 of Lim's dissertation (4.1.1, 4.4).

use super::cola::levels_for;
use super::leveldb::LOG_BYTES;
use siltstone_model::Popularity;
use siltstone_model::{ModelError, positive};

/// The parameters of a SAMT, in items. A level holds up to r tables, which are merged when they move to the next.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Samt {
    /// wal: the items of a log.
    pub log_items: f64,
    /// r: the tables of a level.
    pub growth_factor: u32,
    /// L: the levels. The last one holds all keys.
    pub levels: u32,
}

impl Samt {
    /// Returns a SAMT with 4 MiB of log and as many levels as its keys need at this growth factor.
    pub fn standard(keys: f64, item_bytes: f64, growth_factor: u32) -> Result<Self, ModelError> {
        let log_items = (LOG_BYTES / positive("item bytes", item_bytes)?).max(1.0);
        let levels = levels_for(positive("keys", keys)?, log_items, growth_factor)?;
        Ok(Samt { log_items, growth_factor, levels })
    }

    /// Returns the write amplification: the log first, then each level (Algorithm 4, estimateWA_SAMT).
    pub fn writes(&self, popularity: &Popularity) -> Vec<f64> {
        let mut writes = vec![1.0];
        let mut interval = self.log_items;
        for _ in 1..self.levels {
            writes.push(popularity.unique(interval) / interval);
            interval *= f64::from(self.growth_factor);
        }
        writes.push(popularity.keys() / interval);
        writes
    }

    /// Returns the tables that a get reads in the worst case: r in every level but the last. Without filters each is a
    /// read.
    pub fn tables_per_get_at_worst(&self) -> f64 {
        f64::from(self.growth_factor) * f64::from(self.levels.saturating_sub(1)) + 1.0
    }

    /// Returns the memory: two memtables, and Bloom filters with this many bits per key.
    pub fn ram_bytes(&self, keys: f64, item_bytes: f64, filter_bits_per_key: f64) -> f64 {
        2.0 * self.log_items * item_bytes + filter_bits_per_key / 8.0 * keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_model::KeyStream;
    use std::collections::HashSet;

    /// Simulates the design of 4.1.1 with sets of keys.
    fn simulate(samt: &Samt, keys: impl Iterator<Item = u32>, all: usize, requests: usize) -> f64 {
        let mut levels: Vec<Vec<HashSet<u32>>> = vec![Vec::new(); samt.levels as usize - 1];
        let (mut table, mut written) = (HashSet::new(), 0);
        for (request, key) in keys.take(requests).enumerate() {
            table.insert(key);
            if (request + 1) % samt.log_items as usize != 0 {
                continue;
            }
            let mut moving = Some(std::mem::take(&mut table));
            for level in &mut levels {
                let Some(arrived) = moving.take() else { break };
                written += arrived.len();
                level.push(arrived);
                if level.len() == samt.growth_factor as usize {
                    moving = Some(level.drain(..).flatten().collect());
                }
            }
            // The last level holds every key, and is rewritten as a whole.
            written += if moving.is_some() { all } else { 0 };
        }
        1.0 + written as f64 / requests as f64
    }

    #[test]
    fn the_model_agrees_with_a_simulation() {
        for (skew, growth_factor) in [(0.0, 2), (0.0, 4), (0.99, 3)] {
            let popularity = Popularity::zipf(20_000, skew).unwrap();
            let samt = Samt { log_items: 50.0, growth_factor, levels: 4 };
            let keys = KeyStream::new(&popularity, 3).unwrap();
            let requests = 50 * growth_factor.pow(3) as usize * 20;
            let simulated = simulate(&samt, keys, 20_000, requests);
            let model: f64 = samt.writes(&popularity).iter().sum();
            assert!(
                (model / simulated - 1.0).abs() < 0.01,
                "{skew}, {growth_factor}: {model} for {simulated}"
            );
        }
    }

    #[test]
    fn it_writes_less_than_cola_and_reads_more() {
        let popularity = Popularity::zipf(10_000_000, 0.99).unwrap();
        let samt = Samt::standard(1e7, 1000.0, 4).unwrap();
        let cola = super::super::Cola::standard(1e7, 1000.0, 4).unwrap();
        assert!(samt.writes(&popularity).iter().sum::<f64>() < cola.writes(&popularity).iter().sum());
        assert!(samt.tables_per_get_at_worst() > cola.tables_per_get_at_worst());
    }
}
