//! BloomStore while it grows by keys that are new: memory per key by the database's own account, writes, and reads.

use super::driver::{Engine, partitions};
use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::experiments::quantities::{PUTS, READS_PER_GET, READS_PER_MISS, WRITE_AMPLIFICATION};
use crate::point::{Points, Reading, Settled};
use crate::quantity::{BytesPerKey, Quantity};
use crate::registry::Experiment;
use crate::stores::Peer;
use crate::synthetic::Synthetic;
use siltstone::{EngineKind, RamAccount};
use siltstone_device::Purpose;
use siltstone_model::BloomStoreLayout;
use std::time::Instant;

const ITEM: &str = "bloomstore/growth";
const KEYS: u64 = 500_000;
/// The memory is read as many times.
const SAMPLES: u64 = 2_000;
/// Means are taken from this part of the keys on.
const FIRST_SHARE: u64 = 10;
/// The most gets of keys that exist, and of keys that do not, at the end.
const GETS_MAX: u64 = 100_000;
const VALUE_BYTES: usize = 44;

/// The settings that are compared: those of the presets; a known number of keys; the paper's prefilter.
const CASES: [(&str, Preset, &[&str]); 4] = [
    ("default", Preset::Default, &[]),
    ("paper", Preset::Paper, &[]),
    ("expected_keys", Preset::Default, &["expected_keys"]),
    ("prefilter_bits", Preset::Default, &["prefilter_bits"]),
];

const MEAN: Quantity<BytesPerKey> = Quantity::lower("memory while growing, mean");
const MOST: Quantity<BytesPerKey> = Quantity::lower("memory while growing, most");
const AT_THE_END: Quantity<BytesPerKey> = Quantity::lower("memory at the end, without the record cache");

/// Growth in each case.
pub static EXPERIMENT: Experiment =
    Experiment { name: "bloomstore-growth", cost_s: 30, direct: false, counts: true, rates: true, run };

/// Returns a key of 20 bytes: 64 of its bits are a permutation of the numbers.
fn key_of(number: u64, seed: u64) -> [u8; 20] {
    let mut mixed = number ^ seed.rotate_left(32);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    let mut key = [0x5a; 20];
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key
}

/// Returns the memory except the record cache, in bytes.
fn all_but_cache(ram: &RamAccount) -> u64 {
    ram.items().iter().filter(|(name, _)| *name != "record_cache").map(|(_, bytes)| bytes).sum()
}

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let keys = conditions.number(KEYS);
    for (series, preset, choices) in CASES {
        let value_of = |choice: &str| if choice == "expected_keys" { keys } else { 4 };
        let settings: Vec<_> = choices.iter().map(|choice| (*choice, value_of(choice).to_string())).collect();
        let of = (Synthetic::Linux, keys);
        let mut engine = Engine::create(conditions, preset, of, EngineKind::BloomStore, &settings)?;
        let mut layout = BloomStoreLayout::new(20.0, VALUE_BYTES as f64);
        layout.records.partitions = partitions(keys).into();
        for choice in choices {
            match *choice {
                "expected_keys" => layout.expected_keys = keys as f64,
                _ => layout.prefilter_bits = 4.0,
            }
        }
        let layout = (preset == Preset::Default).then_some(&layout);
        grow(conditions, series, keys, &mut engine, layout, points)?;
        drop(engine);
        conditions.place.clear()?;
    }
    Ok(())
}

/// Puts new keys, and reads some at the end. The model is that of the engine's own settings.
fn grow(
    conditions: &Conditions,
    series: &'static str,
    keys: u64,
    engine: &mut Engine,
    layout: Option<&BloomStoreLayout>,
    points: &mut Points,
) -> Result<()> {
    let grown = layout.map(|layout| layout.grown(keys as f64)).transpose()?;
    let (step, mut samples) = ((keys / SAMPLES).max(1), Vec::new());
    let begun = Instant::now();
    let mut value = [0; VALUE_BYTES];
    for number in 0..keys {
        conditions.check()?;
        value[..8].copy_from_slice(&number.to_be_bytes());
        engine.insert(&key_of(number, conditions.seed), &value)?;
        if (number + 1) % step == 0 && number >= keys / FIRST_SHARE {
            samples.push(all_but_cache(&engine.ram()) as f64 / (number + 1) as f64);
        }
    }
    let settled = Settled::of(engine)?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut add = |point| points.add(ITEM, point);
    let mean = samples.iter().sum::<f64>() / samples.len().max(1) as f64;
    add(MEAN.of(series).is(Reading::count(mean)));
    add(MOST.of(series).is(Reading::count(samples.iter().copied().fold(0.0, f64::max))));
    add(AT_THE_END.of(series).is(settled.part_of_memory(all_but_cache(&engine.ram()), keys)));
    let record_bytes = 20 + VALUE_BYTES as u64;
    let written = engine.io().total().write_bytes as f64 / (keys * record_bytes) as f64;
    let model = grown.as_ref().map(|grown| grown.writes.total());
    add(WRITE_AMPLIFICATION.of(series).model(model).is(Reading::count(written)));
    add(PUTS.of(series).is(Reading::time(keys as f64 / seconds)));
    let gets = gets(conditions, keys, engine, 0)?;
    let model = grown.as_ref().map(|grown| grown.reads_per_get);
    add(READS_PER_GET.of(series).model(model).is(Reading::count(gets)));
    let misses = self::gets(conditions, keys, engine, keys)?;
    let model = grown.as_ref().map(|grown| grown.reads_per_miss);
    add(READS_PER_MISS.of(series).model(model).is(Reading::count(misses)));
    Ok(())
}

/// Returns the reads per get of random keys, which are numbered from `first` on; those from 0 on exist.
fn gets(conditions: &Conditions, keys: u64, engine: &mut Engine, first: u64) -> Result<f64> {
    let gets = keys.min(GETS_MAX);
    let mut random = fastrand::Rng::with_seed(conditions.seed);
    let before = engine.io();
    for lookup in 0..gets {
        let number = first + random.u64(..keys);
        let found = engine.lookup(&key_of(number, conditions.seed))?;
        let expected = (first == 0).then_some(number.to_be_bytes());
        if found.as_ref().map(|value| &value[..8]) != expected.as_ref().map(|bytes| &bytes[..]) {
            return Err(siltstone_bench::Error::WrongValue { benchmark: "growth", number: lookup }.into());
        }
    }
    Ok((engine.io() - before).of(Purpose::Get).reads as f64 / gets as f64)
}
