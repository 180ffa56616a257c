//! BloomStore at several values of a setting, on the paper's traces: Figures 6 to 8, Tables II and III, and the lengths
//! of chains and filters that the paper tries (IV-B).

use super::driver::{Costs, Engine, partitions, send};
use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::experiments::quantities::{GETS, MEMORY, READS_PER_GET};
use crate::point::{Points, Reading};
use crate::quantity::{BytesPerKey, Quantity, Quoted};
use crate::registry::Experiment;
use crate::synthetic::Synthetic;
use siltstone::{EngineKind, RamAccount};
use siltstone_model::BloomStoreLayout;

/// The keys at scale 1. Where only memory is read, no lookups are sent: all keys of the traces `linux` and `vx`.
const KEYS_OF_MEMORY: [u64; 2] = [2_427_697, 5_628_873];
const KEYS_OF_CHAINS: u64 = 100_000;
const KEYS_OF_PREFILTER: u64 = 600_000;
/// About as many lookups of a trace are sent, at scale 1.
const LOOKUPS: u64 = 200_000;
/// From as many keys on, memory is compared: with fewer, the LogStores, which have a least size, are a larger part of
/// it, and chains are shorter than the paper's.
const KEYS_MIN: u64 = 2_000_000;

/// The lengths of chains: the paper's, and some around them (Figure 6).
const CHAIN_LENGTHS: [u32; 6] = [16, 32, 64, 96, 128, 192];
const CHAIN_LENGTHS_OF_PAPER: [u32; 3] = [64, 96, 128];
const FILTER_BITS: [u32; 4] = [8, 12, 16, 20];
const PREFILTER_BITS: [u32; 4] = [0, 2, 4, 6];
/// The bits of a prefilter per key in Tables II and III: 495 KB for 2.4 million keys, and 2,880 KB for 5.6 million. The
/// setting has whole bits.
const PREFILTER_BITS_OF_PAPER: [u32; 2] = [2, 4];
/// A write buffer of the paper is a page of this many bytes, for as many records of 64 bytes (IV-B).
const PAGE_BYTES: f64 = 4096.0;
const PAGE_RECORDS: f64 = 64.0;

/// Tables II and III: KB of prefilter, buffered filters and data buffers, without and with a prefilter.
const TABLE_II: [[f64; 3]; 2] = [[0.0, 1302.0, 1648.0], [495.0, 807.0, 1648.0]];
const TABLE_III: [[f64; 3]; 2] = [[0.0, 3066.0, 3840.0], [2880.0, 186.0, 3840.0]];

const INDEXES: Quantity<BytesPerKey> = Quantity::lower("memory, all but buffers");

/// Figure 6: the memory by the length of chains.
pub static RAM: Experiment =
    Experiment { name: "bloomstore-ram", cost_s: 70, direct: false, counts: true, rates: false, run: ram };

/// The lengths of chains by the bits of filters.
pub static CHAINS: Experiment = Experiment {
    name: "bloomstore-chains",
    cost_s: 35,
    direct: false,
    counts: true,
    rates: true,
    run: chains,
};

/// Tables II and III: the memory by items.
pub static BY_ITEMS: Experiment = Experiment {
    name: "bloomstore-memory",
    cost_s: 60,
    direct: false,
    counts: true,
    rates: false,
    run: by_items,
};

/// Figures 7 and 8: lookups by the bits of the prefilter.
pub static PREFILTER: Experiment = Experiment {
    name: "bloomstore-prefilter",
    cost_s: 130,
    direct: false,
    counts: true,
    rates: true,
    run: prefilter,
};

/// The engine with some values of its settings.
struct Case {
    preset: Preset,
    trace: Synthetic,
    keys: u64,
    lookups_max: u64,
    values: Vec<(&'static str, u32)>,
}

impl Case {
    /// Sends the trace, and returns what it cost and the memory by items.
    fn send(&self, conditions: &Conditions) -> Result<(Costs, RamAccount)> {
        let values = self.values.iter().map(|(name, value)| (*name, value.to_string()));
        let settings: Vec<_> = values.chain([("expected_keys", self.keys.to_string())]).collect();
        let of = (self.trace, self.keys);
        let mut engine = Engine::create(conditions, self.preset, of, EngineKind::BloomStore, &settings)?;
        let costs = send(conditions, of, self.lookups_max, &mut engine)?;
        let ram = engine.ram();
        drop(engine);
        conditions.place.clear()?;
        Ok((costs, ram))
    }

    /// Returns the memory of the engine's own settings by the model, in bytes per key.
    fn model(&self) -> Result<Option<f64>> {
        if self.preset == Preset::Paper {
            return Ok(None);
        }
        let (key_bytes, value_bytes) = self.trace.lengths();
        let keys = self.keys as f64;
        let own = BloomStoreLayout::new(f64::from(key_bytes), f64::from(value_bytes));
        let mut layout = BloomStoreLayout { expected_keys: keys, ..own };
        layout.records.partitions = partitions(self.keys).into();
        for &(name, value) in &self.values {
            let place = match name {
                "chain_length" => &mut layout.chain_length,
                "filter_bits" => &mut layout.filter_bits,
                _ => &mut layout.prefilter_bits,
            };
            *place = value.into();
        }
        Ok(Some(layout.grown(keys)?.ram.total() / keys))
    }
}

fn ram(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let keys = conditions.number(KEYS_OF_MEMORY[0]).min(KEYS_OF_MEMORY[0]);
    for preset in Preset::ALL {
        for length in CHAIN_LENGTHS {
            let values = vec![("chain_length", length)];
            let case = Case { preset, trace: Synthetic::Linux, keys, lookups_max: 0, values };
            let (costs, ram) = case.send(conditions)?;
            let paper = Quoted::text(PAGE_BYTES / (PAGE_RECORDS * f64::from(length)));
            let bytes = costs.settled.part_of_memory(bytes_of(&ram, &[]), costs.inserts);
            let point = INDEXES.at(preset.name(), length.into()).paper(paper).model(case.model()?);
            points.add("bloomstore/figure-6", point.from_keys(keys, KEYS_MIN).is(bytes));
        }
    }
    Ok(())
}

fn chains(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let (keys, lookups_max) = (conditions.number(KEYS_OF_CHAINS), conditions.number(LOOKUPS));
    for trace in [Synthetic::Linux, Synthetic::Vx] {
        for length in CHAIN_LENGTHS_OF_PAPER {
            for bits in FILTER_BITS {
                let values = vec![("filter_bits", bits), ("chain_length", length)];
                let case = Case { preset: Preset::Default, trace, keys, lookups_max, values };
                let (costs, _) = case.send(conditions)?;
                let series = format!("{}, chain_length {length}", trace.name());
                add_lookups("bloomstore/section-iv-b-chains", &series, bits.into(), &costs, points);
            }
        }
    }
    Ok(())
}

fn by_items(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let tables = [
        ("bloomstore/table-ii", Synthetic::Linux, TABLE_II),
        ("bloomstore/table-iii", Synthetic::Vx, TABLE_III),
    ];
    for (((item, trace, table), keys_of_paper), bits) in
        tables.into_iter().zip(KEYS_OF_MEMORY).zip(PREFILTER_BITS_OF_PAPER)
    {
        let keys = conditions.number(keys_of_paper).min(keys_of_paper);
        for (prefilter_bits, row) in [0, bits].into_iter().zip(table) {
            let values = vec![("prefilter_bits", prefilter_bits)];
            let case = Case { preset: Preset::Default, trace, keys, lookups_max: 0, values };
            let (costs, ram) = case.send(conditions)?;
            let paper = row.map(|kilobytes| kilobytes * 1024.0 / keys_of_paper as f64);
            let series = format!("prefilter_bits {prefilter_bits}");
            for ((quantity, items), paper) in ITEMS.iter().zip(paper) {
                let bytes = costs.settled.part_of_memory(bytes_of(&ram, items), costs.inserts);
                let point = quantity.of(&series).paper(Quoted::text(paper)).unjudged("a part of the sum");
                points.add(item, point.is(bytes));
            }
            let bytes = costs.settled.part_of_memory(bytes_of(&ram, &[]), costs.inserts);
            let point = INDEXES.of(&series).paper(Quoted::text(paper.iter().sum())).model(case.model()?);
            points.add(item, point.from_keys(keys, KEYS_MIN).is(bytes));
        }
    }
    Ok(())
}

fn prefilter(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let (keys, lookups_max) = (conditions.number(KEYS_OF_PREFILTER), conditions.number(LOOKUPS));
    for (item, trace) in [("bloomstore/figure-7", Synthetic::Linux), ("bloomstore/figure-8", Synthetic::Vx)] {
        for preset in Preset::ALL {
            for bits in PREFILTER_BITS {
                let values = vec![("prefilter_bits", bits)];
                let (costs, _) = Case { preset, trace, keys, lookups_max, values }.send(conditions)?;
                add_lookups(item, preset.name(), bits.into(), &costs, points);
            }
        }
    }
    Ok(())
}

fn add_lookups(item: &'static str, series: &str, x: f64, costs: &Costs, points: &mut Points) {
    let lookups = costs.lookups.max(1) as f64;
    let reads = Reading::count(costs.lookup_reads as f64 / lookups);
    points.add(item, READS_PER_GET.at(series, x).is(reads));
    let rate = lookups / costs.lookup_time.as_secs_f64().max(1e-9);
    points.add(item, GETS.at(series, x).is(Reading::time(rate)));
    points.add(item, MEMORY.at(series, x).is(costs.settled.memory_per_key(costs.inserts)));
}

/// The paper's items, and what of the engine's memory is for the same purpose.
const ITEMS: [(Quantity<BytesPerKey>, &[&str]); 3] = [
    (Quantity::lower("prefilter"), &["prefilter"]),
    (Quantity::lower("filters of chains"), &["hash_filter", "hash_index", "sorted_index", "chain_directory"]),
    (Quantity::lower("records that are not on flash yet"), &["log_index", "frozen_log_index"]),
];
/// Buffers, whose size does not depend on the number of keys.
const BUFFERS: [&str; 6] =
    ["log_buffer", "convert_buffers", "merge_buffers", "chain_buffers", "read_buffers", "record_cache"];

/// Returns the memory of these items, or of all but buffers, in bytes.
fn bytes_of(ram: &RamAccount, items: &[&str]) -> u64 {
    let is_one = |name: &str| if items.is_empty() { !BUFFERS.contains(&name) } else { items.contains(&name) };
    ram.items().iter().filter(|(name, _)| is_one(name)).map(|(_, bytes)| bytes).sum()
}
