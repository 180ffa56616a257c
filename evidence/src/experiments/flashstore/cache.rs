//! A cache on flash without a disk: hit ratio, and bytes written to flash. A get that finds nothing is followed by a
//! put.

use super::super::{Figure, OnFigure, Settings, report};
use super::caches::Lru;
use super::driver::Driver;
use super::{Case, each_case, open};
use crate::requests::Drifting;
use crate::{Error, Result};
use siltstone_bench::place::Place;
use std::sync::atomic::Ordering::Relaxed;

/// Objects of 100 bytes with keys of 16.
const VALUE_BYTES: usize = 84;
const SKEW: f64 = 0.9;
const SOURCE: &str = "cache on flash";

pub(in super::super) fn run(settings: &Settings, place: &Place, on_figure: OnFigure<'_>) -> Result<()> {
    each_case(settings, SKEW, |case| run_one(settings, place, case, on_figure))
}

fn run_one(settings: &Settings, place: &Place, case: Case, on_figure: OnFigure<'_>) -> Result<()> {
    let Case { skew, share, queues } = case;
    let value_size = settings.value_size.unwrap_or(VALUE_BYTES);
    let engine = [("queues", queues.to_string()), ("cache", true.to_string())];
    let database = open(settings, place, value_size, share, &engine)?;
    let mut driver = Driver::new(settings, value_size, database)?;
    let keys = u32::try_from(settings.num).map_err(|_| Error::settings("there are below 2^32 keys"))?;
    let mut lru = Lru::new(keys, (share * settings.num as f64) as usize);
    let mut lru_hits = 0;
    let mut before = driver.counts();
    let mut requests = Drifting::new(settings.num, skew, settings.drift, settings.seed)?;
    for lap in 0..settings.laps {
        if settings.stop.load(Relaxed) {
            break;
        }
        if lap == settings.laps / 2 {
            (before, lru_hits) = (driver.counts(), 0);
        }
        for key in requests.by_ref().take(settings.num as usize) {
            if !driver.get(key)? {
                driver.put(key)?;
            }
            lru_hits += u64::from(lru.uses(key));
        }
    }
    let (after, stats) = (driver.counts(), driver.stats());
    driver.close()?;
    place.clear()?;
    let gets = (after.gets - before.gets).max(1) as f64;
    let mut figure = |what: &str, theory, measured| {
        let what = format!("{case}: {what}");
        report(on_figure, &Figure { source: SOURCE, what, paper: None, theory, measured })
    };
    let hits = (after.found - before.found) as f64 / gets;
    figure("hit ratio; LRU of flash", Some(lru_hits as f64 / gets), hits)?;
    let written = (after.flash_bytes - before.flash_bytes) as f64;
    figure("bytes written to flash per get", None, written / gets)?;
    figure(
        "puts per get; LRU of flash",
        Some(1.0 - lru_hits as f64 / gets),
        (after.puts - before.puts) as f64 / gets,
    )?;
    let of_flash = share * settings.num as f64;
    figure("memory, B per record that fits on flash", None, stats.ram.total_bytes() as f64 / of_flash)
}
