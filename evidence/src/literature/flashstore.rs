//! FlashStore: the memory of its index (4.4 of the paper), and the recycling of its log on flash (4.5).
//!
//! The paper measures recycling (5.10) and has no formula for it. This one follows the life of a copy on flash. After
//! one lap of the log the copy is dropped if its key was put again, or appended again if it was read (the recency bit
//! is set). Otherwise it is destaged to the disk, and returns with the next put of its key, or with the next get if
//! flash also caches reads. Puts and gets have the same popularity.

use siltstone_model::Popularity;
use siltstone_model::increasing_root;
use siltstone_model::{ModelError, fraction, positive};

/// The parameters of a FlashStore.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct FlashStore {
    /// The bytes of a key and its value in a page.
    pub item_bytes: f64,
    /// The maximum size of the log on flash, in bytes.
    pub flash_bytes: f64,
    /// The share of it at which pages are recycled.
    pub flash_usage: f64,
    /// Whether a get that finds its item on disk copies it to flash.
    pub caches_reads: bool,
    /// A slot of the index: compact signature and pointer, in bytes.
    pub slot_bytes: f64,
    /// The bits of a signature.
    pub signature_bits: f64,
    /// n: the slots at which a key may be stored.
    pub candidates: f64,
    /// The share of the slots that is used.
    pub load_factor: f64,
    /// A page of flash, in bytes. The write buffer is three pages.
    pub page_bytes: f64,
    /// The read cache, in bytes.
    pub cache_bytes: f64,
    /// The Bloom filter over the keys on disk, in bits per key.
    pub disk_filter_bits: f64,
}

/// The cost of recycling in the steady state.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Recycling {
    /// The puts between two recyclings of the same page.
    pub puts_per_lap: f64,
    /// Items written to flash per put.
    pub flash_writes_per_put: f64,
    /// Items written to disk per put.
    pub disk_writes_per_put: f64,
    /// The share of gets served from flash.
    pub flash_gets: f64,
    /// The keys that are on flash, each with a slot of the index.
    pub keys_on_flash: f64,
}

impl FlashStore {
    /// Returns the store of the paper with this much flash, above a disk.
    pub fn paper(item_bytes: f64, flash_bytes: f64) -> Self {
        FlashStore {
            item_bytes,
            flash_bytes,
            flash_usage: 0.8,
            caches_reads: false,
            slot_bytes: 6.0,
            signature_bits: 16.0,
            candidates: 16.0,
            load_factor: 0.9,
            page_bytes: 4096.0,
            cache_bytes: 0.0,
            disk_filter_bits: 10.0,
        }
    }

    /// Checks that such a store is possible.
    pub fn check(&self) -> Result<(), ModelError> {
        positive("item bytes", self.item_bytes)?;
        positive("flash bytes", self.flash_bytes)?;
        positive("flash usage", fraction("flash usage", self.flash_usage)?)?;
        positive("load factor", fraction("load factor", self.load_factor)?)?;
        Ok(())
    }

    /// Returns the copies of items that fit on flash before pages are recycled.
    pub fn room(&self) -> f64 {
        self.flash_bytes * self.flash_usage / self.item_bytes
    }

    /// Returns the items that an index of this size can point to (4.4).
    pub fn index_items_max(&self, ram_bytes: f64) -> f64 {
        ram_bytes / self.slot_bytes
    }

    /// Returns the steady state at this ratio of gets to puts.
    pub fn recycling(&self, popularity: &Popularity, gets_per_put: f64) -> Result<Recycling, ModelError> {
        self.check()?;
        let room = self.room();
        let lives = |lap: f64| {
            let groups = popularity.groups().iter().zip(popularity.rates());
            let cached = if self.caches_reads { gets_per_put } else { 0.0 };
            groups.map(move |(group, &rate)| {
                (group, Life::of(group.probability, rate, lap, gets_per_put, cached))
            })
        };
        let lap = increasing_root(room, room, |lap| {
            lives(lap).map(|(group, life)| group.keys * life.appends * lap).sum()
        });
        let mut recycling = Recycling {
            puts_per_lap: lap,
            flash_writes_per_put: room / lap,
            disk_writes_per_put: 0.0,
            flash_gets: 0.0,
            keys_on_flash: 0.0,
        };
        for (group, life) in lives(lap) {
            recycling.disk_writes_per_put += group.keys * life.appends * life.destaged;
            recycling.flash_gets += group.keys * group.probability * life.on_flash;
            recycling.keys_on_flash += group.keys * life.on_flash;
        }
        Ok(recycling)
    }

    /// Returns the memory, in bytes: index, recency bits, buffer, cache, and the filter of keys on disk (4.2, 4.4).
    pub fn ram_bytes(&self, keys: f64, recycling: &Recycling) -> f64 {
        let slots = recycling.keys_on_flash / self.load_factor;
        let on_disk = (keys - recycling.keys_on_flash).max(0.0);
        slots * (self.slot_bytes + 1.0 / 8.0)
            + on_disk * self.disk_filter_bits / 8.0
            + 3.0 * self.page_bytes
            + self.cache_bytes
    }

    /// Reads from flash for a get whose item is there. Each slot probed before the right one has the same signature
    /// with a small probability; the number of such slots is that of any table filled by random probing.
    pub fn reads_per_get(&self) -> f64 {
        let probes = -(-self.load_factor).ln_1p() / self.load_factor;
        1.0 + (probes - 1.0).min(self.candidates) * (-self.signature_bits).exp2()
    }

    /// Reads from flash for a get whose item is not there: each candidate slot may have the same signature.
    pub fn reads_per_miss(&self) -> f64 {
        self.candidates * self.load_factor * (-self.signature_bits).exp2()
    }
}

/// The life of one key.
struct Life {
    /// Appends of this key per put of any key.
    appends: f64,
    /// The share of its appends that end on the disk.
    destaged: f64,
    /// The share of the time in which it is on flash.
    on_flash: f64,
}

impl Life {
    /// `cached`: the gets per put that bring a key back to flash.
    fn of(probability: f64, rate: f64, lap: f64, gets_per_put: f64, cached: f64) -> Life {
        let not_put = (-rate * lap).exp();
        let not_read = (-rate * gets_per_put * lap).exp();
        let time_until_end = -(-rate * lap).exp_m1() / probability;
        let destaged = not_put * not_read;
        let time_on_disk = destaged / (probability * (1.0 + cached));
        let appends = 1.0 / (time_until_end + time_on_disk);
        Life { appends, destaged, on_flash: time_until_end * appends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_model::KeyStream;
    use std::collections::VecDeque;

    /// 4.4: 4 GB of index point to 715 million items, or 42 GB of pairs of 64 bytes.
    #[test]
    fn the_index_of_the_paper_is_as_large_as_it_says() {
        let flashstore = FlashStore::paper(64.0, 160e9);
        let items = flashstore.index_items_max(f64::from(1u32 << 31) * 2.0);
        assert!((items / 715e6 - 1.0).abs() < 0.002, "{items}");
        assert!((items * 64.0 / (1u64 << 30) as f64 - 42.0).abs() < 0.7);
        assert!(flashstore.reads_per_get() < 1.0001);
    }

    /// Simulates the log, its recency bits and the disk. Returns appends, destages and gets from flash per put.
    fn simulate(store: &FlashStore, popularity: &Popularity, gets_per_put: usize) -> [f64; 3] {
        let room = store.room() as usize;
        let mut stream = KeyStream::new(popularity, 31).unwrap();
        let mut log: VecDeque<(u32, u64)> = VecDeque::new();
        let mut newest = vec![None; popularity.keys() as usize];
        let mut read = vec![false; newest.len()];
        let (mut appends, mut at) = (0u64, 0u64);
        let (mut appended, mut destaged, mut found, mut puts) = (0u64, 0u64, 0u64, 0u64);
        let warm = 30 * room;
        for put in 0..4 * warm {
            let counts = u64::from(put > warm);
            puts += counts;
            let mut waiting = Vec::from_iter(stream.next());
            for key in stream.by_ref().take(gets_per_put) {
                found += u64::from(newest[key as usize].is_some()) * counts;
                read[key as usize] |= newest[key as usize].is_some();
                if store.caches_reads && newest[key as usize].is_none() {
                    waiting.push(key);
                }
            }
            while let Some(key) = waiting.pop() {
                newest[key as usize] = Some(at);
                read[key as usize] = false;
                log.push_back((key, at));
                (at, appends) = (at + 1, appends + counts);
                if log.len() <= room {
                    continue;
                }
                let Some((oldest, place)) = log.pop_front() else { break };
                if newest[oldest as usize] == Some(place) {
                    if std::mem::take(&mut read[oldest as usize]) {
                        waiting.push(oldest);
                    } else {
                        newest[oldest as usize] = None;
                        destaged += counts;
                    }
                }
            }
            appended = appends;
        }
        [appended, destaged, found].map(|count| count as f64 / puts as f64)
    }

    #[test]
    fn the_model_agrees_with_simulated_recycling() {
        for (skew, share, gets_per_put, caches_reads) in
            [(0.0, 0.5, 1, false), (0.99, 0.3, 1, false), (0.99, 0.9, 4, false), (0.7, 0.5, 2, true)]
        {
            let popularity = Popularity::zipf(2_000, skew).unwrap();
            let mut store = FlashStore::paper(64.0, 2_000.0 * 64.0 / 0.8 * share);
            store.caches_reads = caches_reads;
            let [appends, destaged, found] = simulate(&store, &popularity, gets_per_put);
            let model = store.recycling(&popularity, gets_per_put as f64).unwrap();
            let case = format!("skew {skew}, {share}: {model:?} for {appends} {destaged} {found}");
            assert!((model.flash_writes_per_put / appends - 1.0).abs() < 0.02, "{case}");
            assert!((model.disk_writes_per_put - destaged).abs() < 0.02, "{case}");
            assert!((model.flash_gets * gets_per_put as f64 / found - 1.0).abs() < 0.02, "{case}");
        }
    }

    #[test]
    fn memory_is_that_of_the_slots_of_flash_and_of_the_filter_of_the_disk() {
        let popularity = Popularity::zipf(1_000_000, 0.99).unwrap();
        let store = FlashStore::paper(64.0, 60e6);
        let recycling = store.recycling(&popularity, 9.0).unwrap();
        let on_flash = recycling.keys_on_flash;
        let bytes = on_flash * 6.125 / 0.9 + (1e6 - on_flash) * 1.25;
        assert!((0.3..0.75).contains(&(on_flash / 1e6)), "{recycling:?}");
        assert!((store.ram_bytes(1e6, &recycling) / bytes - 1.0).abs() < 0.01);
    }
}
