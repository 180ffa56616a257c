//! BloomStore while it grows by keys that are new: memory per key by the database's own account, writes, and reads.

use super::super::{Figure, OnFigure, Settings, report};
use super::driver::{Engine, partitions};
use crate::stores::Peer;
use crate::synthetic::Synthetic;
use crate::{Error, Result};
use siltstone::{EngineKind, RamAccount};
use siltstone_bench::place::Place;
use siltstone_device::Purpose;
use siltstone_model::{BloomStoreLayout, ModelError};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// The memory is read as many times.
const SAMPLES: u64 = 2_000;
/// Means are taken from one part in these of the keys on.
const FIRST_SHARES: [u64; 2] = [100, 10];
/// The most gets of keys that exist, and of keys that do not, at the end.
const GETS_MAX: u64 = 100_000;

/// The settings that are compared: all defaults; a known number of keys; the paper's prefilter.
const CASES: [(&str, &[&str]); 3] =
    [("default", &[]), ("expected_keys", &["expected_keys"]), ("prefilter_bits", &["prefilter_bits"])];

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

/// Returns the items of the memory except the record cache, in bytes.
fn items_but_cache(ram: &RamAccount) -> impl Iterator<Item = (&'static str, u64)> {
    ram.items().iter().copied().filter(|(name, _)| *name != "record_cache")
}

/// Returns the memory except the record cache, in bytes.
fn all_but_cache(ram: &RamAccount) -> u64 {
    items_but_cache(ram).map(|(_, bytes)| bytes).sum()
}

/// The memory at each of some numbers of keys.
#[derive(Default)]
struct Samples(Vec<(u64, RamAccount)>);

impl Samples {
    /// Reports the mean and the most of all, and the mean of each item, in B per key, from this many keys on.
    fn report(&self, first: u64, share: u64, print: &mut dyn FnMut(String, f64) -> Result<()>) -> Result<()> {
        let since: Vec<_> = self.0.iter().filter(|(keys, _)| *keys >= first).collect();
        let count = since.len().max(1) as f64;
        let all: Vec<f64> =
            since.iter().map(|(keys, ram)| all_but_cache(ram) as f64 / *keys as f64).collect();
        print(
            format!("memory while growing from a {share}th, mean, B per key"),
            all.iter().sum::<f64>() / count,
        )?;
        print(
            format!("memory while growing from a {share}th, most, B per key"),
            all.iter().copied().fold(0.0, f64::max),
        )?;
        let mut items: BTreeMap<&str, f64> = BTreeMap::new();
        for (keys, ram) in since {
            for (name, bytes) in items_but_cache(ram) {
                *items.entry(name).or_default() += bytes as f64 / *keys as f64 / count;
            }
        }
        for (name, mean) in items.into_iter().filter(|(_, mean)| *mean > 0.0) {
            print(format!("{name} while growing from a {share}th, mean, B per key"), mean)?;
        }
        Ok(())
    }
}

/// Lets a database grow to the keys of the settings in each case.
pub(in super::super) fn run(settings: &Settings, place: &Place, on_figure: OnFigure<'_>) -> Result<()> {
    let is_case = |chosen: &String| CASES.iter().any(|(name, _)| chosen == name);
    if let Some(unknown) = settings.cases.iter().find(|chosen| !is_case(chosen)) {
        return Err(Error::settings(format!("there is no case {unknown} of growth")));
    }
    for (name, choices) in CASES {
        if !settings.cases.is_empty() && !settings.cases.iter().any(|chosen| chosen == name) {
            continue;
        }
        let value_of = |choice: &str| if choice == "expected_keys" { settings.num } else { 4 };
        let named: Vec<_> = choices.iter().map(|choice| (*choice, value_of(choice).to_string())).collect();
        let mut engine = Engine::create(settings, place, Synthetic::Linux, EngineKind::BloomStore, &named)?;
        let mut layout = BloomStoreLayout::new(20.0, 44.0);
        layout.records.partitions = partitions(settings.num).into();
        for choice in choices {
            match *choice {
                "expected_keys" => layout.expected_keys = settings.num as f64,
                _ => layout.prefilter_bits = 4.0,
            }
        }
        grow(settings, name, &mut engine, &layout, on_figure)?;
        drop(engine);
        place.clear()?;
    }
    Ok(())
}

fn grow(
    settings: &Settings,
    source: &'static str,
    engine: &mut Engine,
    layout: &BloomStoreLayout,
    on_figure: OnFigure<'_>,
) -> Result<()> {
    let keys = settings.num;
    let mut print = |what: String, theory: Option<f64>, measured: f64| {
        report(on_figure, &Figure { source, what, paper: None, theory, measured })
    };
    let (step, mut samples) = ((keys / SAMPLES).max(1), Samples::default());
    let begun = Instant::now();
    let mut value = [0; 44];
    for number in 0..keys {
        if settings.stop.load(Relaxed) {
            return Err(Error::STOPPED);
        }
        value[..8].copy_from_slice(&number.to_be_bytes());
        engine.insert(&key_of(number, settings.seed), &value)?;
        if (number + 1) % step == 0 {
            samples.0.push((number + 1, engine.ram()));
        }
    }
    engine.settle()?;
    let seconds = begun.elapsed().as_secs_f64();
    for share in FIRST_SHARES {
        samples.report(keys / share, share, &mut |what, measured| print(what, None, measured))?;
    }
    print(
        "memory at the end, B per key".to_owned(),
        None,
        all_but_cache(&engine.ram()) as f64 / keys as f64,
    )?;
    let grown = layout.grown(keys as f64).map_err(|error: ModelError| Error::settings(error.to_string()))?;
    let written = engine.io().total().write_bytes as f64 / (keys * 64) as f64;
    print("bytes written per byte".to_owned(), Some(grown.writes.total()), written)?;
    print("settled inserts per second".to_owned(), None, keys as f64 / seconds)?;
    let gets = keys.min(GETS_MAX);
    let mut random = fastrand::Rng::with_seed(settings.seed);
    for (what, theory, first) in
        [("get", grown.reads_per_get, 0), ("missing key", grown.reads_per_miss, keys)]
    {
        let before = engine.io();
        for lookup in 0..gets {
            let number = first + random.u64(..keys);
            let found = engine.lookup(&key_of(number, settings.seed))?;
            let expected = (first == 0).then_some(number.to_be_bytes());
            if found.as_ref().map(|value| &value[..8]) != expected.as_ref().map(|bytes| &bytes[..]) {
                return Err(siltstone_bench::Error::WrongValue { benchmark: "growth", number: lookup }.into());
            }
        }
        let reads = (engine.io() - before).of(Purpose::Get).reads as f64 / gets as f64;
        print(format!("reads per {what}"), Some(theory), reads)?;
    }
    Ok(())
}
