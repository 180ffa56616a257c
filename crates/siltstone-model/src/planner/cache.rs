//! The plan of a cache on flash: how much of its load so much flash and memory serve, and what that writes.

use super::parameters::{Value, count};
use super::plan::builder_call;
use super::system::System;
use crate::error::{ModelError, non_negative, positive};
use crate::flash::Flash;
use crate::flashstore::{Below, FlashStoreLayout, FlashStoreStore};
use crate::popularity::Popularity;
use crate::root::increasing_root;
use siltstone::engine::flashstore::costs;

/// There are at least this many puts per get, so that the model has a time. They hardly cost tombstones.
const PUTS_PER_GET_MIN: f64 = 1e-4;
/// Flash of less than this many segments gets smaller ones.
const SEGMENTS_MIN: f64 = 128.0;
const SEGMENT_BYTES_MIN: f64 = 65_536.0;
/// A record in memory takes these bytes in addition to its key and value.
const CACHED_BYTES: f64 = 24.0;
/// How often the bytes of the logs are adjusted to the flash and the memory.
const ADJUSTMENTS: usize = 4;
/// How often the interval of the share of admitted puts is halved.
const HALVINGS: usize = 8;
/// The least share of admitted puts.
const ADMITTED_MIN: f64 = 1.0 / 4096.0;

/// Objects that are looked up in a cache, and put if it does not have them, and what there is for the cache. Their
/// popularity stays the same.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheDemand {
    /// The objects, and their popularity in gets and updates.
    pub popularity: Popularity,
    /// The bytes of a key.
    pub key_bytes: f64,
    /// The bytes of a value.
    pub value_bytes: f64,
    /// Whether all records have these sizes.
    pub fixed: bool,
    /// Gets per second. One that finds nothing is followed by a put.
    pub gets_per_s: f64,
    /// Other puts per second.
    pub updates_per_s: f64,
    /// The memory, in bytes.
    pub ram_bytes: f64,
    /// The flash.
    pub flash: Flash,
    /// The required lifetime of the flash, in seconds.
    pub lifetime_s: f64,
}

/// A cache of the engine FlashStore for a [`CacheDemand`].
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct CachePlan {
    /// The settings by their names in the builder and on the command line.
    pub settings: Vec<(&'static str, Value)>,
    /// The share of gets that find their object, in the steady state.
    pub hit_ratio: f64,
    /// The share of gets that the record cache serves without a read of flash: that of an LRU of its size.
    pub ram_hits: f64,
    /// Reads of flash per get.
    pub reads_per_get: f64,
    /// The objects on flash.
    pub objects: f64,
    /// The peak of memory without the record cache, in bytes.
    pub ram_bytes: f64,
    /// What is left for the record cache, in bytes.
    pub record_cache_bytes: f64,
    /// The bytes on flash.
    pub flash_bytes: f64,
    /// Bytes written to flash per second.
    pub written_per_s: f64,
    /// The share of puts that are admitted at most, so that the flash lasts as long as it has to.
    pub admitted: f64,
    /// The lifetime of the flash, in seconds.
    pub lifetime_s: f64,
}

impl CachePlan {
    /// Returns the call that opens a cache with the plan's settings.
    pub fn builder_call(&self) -> String {
        builder_call(System::FLASHSTORE, &self.settings)
    }
}

/// Returns the plan of a cache. If the index of all that fits on flash does not fit in memory, less flash is used. If
/// the flash would not last, `write_bytes_per_s` limits what is written.
///
/// # Errors
/// [`ModelError`] for values outside their ranges, and for flash or memory that is too little for any cache.
pub fn plan_cache(demand: &CacheDemand) -> Result<CachePlan, ModelError> {
    demand.check()?;
    let store = demand.fitted()?;
    let budget = demand.flash.bytes * demand.flash.erase_cycles / demand.lifetime_s;
    if demand.written_per_s(&store) <= budget {
        return demand.plan(&store, None);
    }
    let (mut low, mut high) = (ADMITTED_MIN, 1.0);
    let mut kept = demand.store(&admitting(&store.layout, low))?;
    for _ in 0..HALVINGS {
        let admitted: f64 = f64::sqrt(low * high);
        let store = demand.store(&admitting(&store.layout, admitted))?;
        if demand.written_per_s(&store) <= budget {
            (low, kept) = (admitted, store);
        } else {
            high = admitted;
        }
    }
    demand.plan(&kept, Some(budget))
}

fn admitting(layout: &FlashStoreLayout, admitted: f64) -> FlashStoreLayout {
    FlashStoreLayout { below: Below::Cache { admitted }, ..layout.clone() }
}

impl CacheDemand {
    fn check(&self) -> Result<(), ModelError> {
        positive("key and value bytes", self.key_bytes + self.value_bytes)?;
        positive("gets per second", self.gets_per_s)?;
        positive("RAM bytes", self.ram_bytes)?;
        self.flash.check()?;
        positive("lifetime", self.lifetime_s)?;
        non_negative("puts per second", self.updates_per_s)?;
        Ok(())
    }

    fn puts_per_s(&self) -> f64 {
        self.updates_per_s.max(PUTS_PER_GET_MIN * self.gets_per_s)
    }

    fn store(&self, layout: &FlashStoreLayout) -> Result<FlashStoreStore, ModelError> {
        layout.store(&self.popularity, self.gets_per_s / self.puts_per_s())
    }

    fn layout(&self, flash_bytes: f64) -> FlashStoreLayout {
        let mut layout = FlashStoreLayout::new(self.key_bytes, self.value_bytes, flash_bytes);
        layout.below = Below::Cache { admitted: 1.0 };
        let logs = &mut layout.logs;
        logs.fixed = self.fixed;
        let smaller = (flash_bytes / SEGMENTS_MIN).log2().floor().exp2().max(SEGMENT_BYTES_MIN);
        logs.segment_bytes = logs.segment_bytes.min(smaller);
        let lengths = self.fixed.then_some((self.key_bytes as usize, self.value_bytes as usize));
        logs.hash_bits = costs::hash_bits(flash_bytes.ceil() as u64, lengths).into();
        layout
    }

    /// Returns the cache that takes the flash, or as much of it as the memory has the index for.
    fn fitted(&self) -> Result<FlashStoreStore, ModelError> {
        let mut flash_bytes = self.flash.bytes;
        let mut store = self.store(&self.layout(flash_bytes))?;
        for _ in 0..ADJUSTMENTS {
            let ram = store.ram_peak();
            let index = (ram.index + ram.marks) / (costs::INDEX_SHARE * self.ram_bytes);
            let buffers = ram.total() - ram.index - ram.marks;
            let most = (ram.index + ram.marks) / (self.ram_bytes - buffers).max(1.0);
            let used = (store.flash_bytes() / self.flash.bytes).max(index).max(most);
            if used <= 1.0 {
                break;
            }
            flash_bytes /= used * 1.001;
            store = self.store(&self.layout(flash_bytes))?;
        }
        Ok(store)
    }

    fn written_per_s(&self, store: &FlashStoreStore) -> f64 {
        self.puts_per_s() * (self.key_bytes + self.value_bytes) * store.writes().total()
    }

    fn plan(&self, store: &FlashStoreStore, budget: Option<f64>) -> Result<CachePlan, ModelError> {
        let layout = &store.layout;
        let ram_bytes = store.ram_peak().total();
        let record_cache_bytes = (self.ram_bytes - ram_bytes).max(0.0);
        let ram_hits = self.hits_of_lru(record_cache_bytes);
        let hit_ratio = store.flash_gets();
        let written_per_s = self.written_per_s(store);
        let mut settings = Vec::new();
        if self.fixed {
            settings.push(("fixed", Value::Lengths(self.key_bytes as u64, self.value_bytes as u64)));
        }
        settings.push(("memory_budget", Value::Count(self.ram_bytes as u64)));
        settings.extend([("cache", Value::Is(true)), ("flash_bytes", count(layout.flash_bytes))]);
        if layout.logs.segment_bytes != FlashStoreLayout::new(1.0, 1.0, 0.0).logs.segment_bytes {
            settings.push(("segment_bytes", count(layout.logs.segment_bytes)));
        }
        if let Some(budget) = budget {
            settings.push(("write_bytes_per_s", Value::Count(budget as u64)));
        }
        Ok(CachePlan {
            settings,
            hit_ratio,
            ram_hits: ram_hits.min(hit_ratio),
            reads_per_get: (hit_ratio - ram_hits).max(0.0) * store.reads_per_flash_get()
                + (1.0 - hit_ratio) * store.reads_per_flash_miss(),
            objects: store.recycled.keys_on_flash,
            ram_bytes,
            record_cache_bytes,
            flash_bytes: store.flash_bytes(),
            written_per_s,
            admitted: match layout.below {
                Below::Cache { admitted } => admitted,
                Below::Disk(_) => 1.0,
            },
            lifetime_s: self.flash.bytes * self.flash.erase_cycles / written_per_s,
        })
    }

    /// Returns the share of gets that an LRU of this many bytes serves: a key is in it if it was used within the time
    /// in which as many other keys are (Che, Tung and Wang, 2002).
    fn hits_of_lru(&self, bytes: f64) -> f64 {
        let room = bytes / (self.key_bytes + self.value_bytes + CACHED_BYTES);
        if room >= self.popularity.keys() {
            return 1.0;
        }
        let used = |requests: f64, weight: fn(f64) -> f64| -> f64 {
            let groups = self.popularity.groups().iter();
            let each = groups.map(|group| {
                let is_used = -(-group.probability * requests).exp_m1();
                group.keys * weight(group.probability) * is_used
            });
            each.sum()
        };
        let requests = increasing_root(room, room, |requests| used(requests, |_| 1.0));
        used(requests, |probability| probability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::YEAR_S;

    fn demand() -> CacheDemand {
        CacheDemand {
            popularity: Popularity::zipf(100_000_000, 0.9).unwrap(),
            key_bytes: 16.0,
            value_bytes: 84.0,
            fixed: true,
            gets_per_s: 50_000.0,
            updates_per_s: 0.0,
            ram_bytes: 1e9,
            flash: Flash { bytes: 4e9, erase_cycles: 3_000.0 },
            lifetime_s: 1.0 * YEAR_S,
        }
    }

    fn has(plan: &CachePlan, name: &str) -> bool {
        plan.settings.iter().any(|(other, _)| *other == name)
    }

    #[test]
    fn all_flash_is_used_if_the_memory_holds_its_index() {
        let plan = plan_cache(&demand()).unwrap();
        assert!((0.97..=1.0).contains(&(plan.flash_bytes / 4e9)), "{plan:?}");
        assert!((0.75..0.85).contains(&plan.hit_ratio) && plan.ram_hits > 0.3, "{plan:?}");
        assert!(plan.ram_bytes / plan.objects < 7.0 && plan.record_cache_bytes > 7e8, "{plan:?}");
        let call = plan.builder_call();
        assert!(call.contains("FlashStoreSettings::default().cache(true).flash_bytes("), "{call}");
        assert!(call.contains(".fixed(16, 84).memory_budget(1000000000)"), "{call}");
    }

    #[test]
    fn with_little_memory_less_flash_is_used() {
        let plan = plan_cache(&CacheDemand { ram_bytes: 100e6, ..demand() }).unwrap();
        assert!((0.2..0.6).contains(&(plan.flash_bytes / 4e9)), "{plan:?}");
        assert!(plan.ram_bytes <= 101e6, "{plan:?}");
    }

    #[test]
    fn flash_that_would_not_last_rejects_puts() {
        let short = CacheDemand { lifetime_s: YEAR_S / 100.0, ..demand() };
        let lasting = plan_cache(&short).unwrap();
        assert!(!has(&lasting, "write_bytes_per_s") && lasting.admitted == 1.0, "{lasting:?}");
        let longer = CacheDemand { lifetime_s: 4.0 * lasting.lifetime_s, ..short };
        let plan = plan_cache(&longer).unwrap();
        assert!((0.97..1.03).contains(&(plan.lifetime_s / longer.lifetime_s)), "{plan:?}");
        assert!(plan.admitted < 0.5 && has(&plan, "write_bytes_per_s"), "{plan:?}");
        assert!((plan.hit_ratio - lasting.hit_ratio).abs() < 0.1, "{plan:?}, {lasting:?}");
    }

    #[test]
    fn impossible_caches_are_refused() {
        assert!(plan_cache(&CacheDemand { gets_per_s: 0.0, ..demand() }).is_err());
        let flash = Flash { bytes: 1e3, erase_cycles: 1.0 };
        assert!(plan_cache(&CacheDemand { flash, ..demand() }).is_err());
    }
}
