//! A cache on flash without a disk: hit ratio, and bytes written to flash. A get that finds nothing is followed by a
//! put.

use super::caches::Lru;
use super::{DRIFT, LAPS, LRU, RECYCLING, SHARES, keys, open};
use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::experiments::quantities::{HITS, MEMORY};
use crate::point::{Points, Reading};
use crate::quantity::{BytesPerGet, Quantity};
use crate::requests::Drifting;

/// Objects of 100 bytes with keys of 16.
const VALUE_BYTES: usize = 84;
const SKEW: f64 = 0.9;

const WRITTEN: Quantity<BytesPerGet> = Quantity::lower("bytes written to flash");

pub(super) fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    for share in SHARES {
        for preset in Preset::ALL {
            run_one(conditions, share, preset, points)?;
        }
    }
    Ok(())
}

fn run_one(conditions: &Conditions, share: f64, preset: Preset, points: &mut Points) -> Result<()> {
    let count = keys(conditions)?;
    let size = (u64::from(count), VALUE_BYTES);
    let mut driver = open(conditions, preset, size, share, &[("cache", true.to_string())])?;
    let on_flash = (share * f64::from(count)) as usize;
    let (mut lru, mut lru_hits) = (Lru::new(count, on_flash), 0);
    let mut before = driver.counts();
    let mut requests = Drifting::new(count.into(), SKEW, DRIFT, conditions.seed)?;
    for lap in 0..LAPS {
        conditions.check()?;
        if lap == LAPS / 2 {
            (before, lru_hits) = (driver.counts(), 0);
        }
        for key in requests.by_ref().take(count as usize) {
            if !driver.get(key)? {
                driver.put(key)?;
            }
            lru_hits += u64::from(lru.uses(key));
        }
    }
    let after = driver.counts();
    let settled = driver.settled()?;
    driver.close()?;
    conditions.place.clear()?;
    let gets = (after.gets - before.gets).max(1) as f64;
    let series = format!("cache, {}", preset.name());
    let hits = (after.found - before.found) as f64 / gets;
    points.add(RECYCLING, HITS.at(&series, share).is(Reading::count(hits)));
    points.add(RECYCLING, LRU.at("cache", share).calculated(lru_hits as f64 / gets));
    let written = (after.flash_bytes - before.flash_bytes) as f64;
    points.add(RECYCLING, WRITTEN.at(&series, share).is(Reading::count(written / gets)));
    points.add(RECYCLING, MEMORY.at(&series, share).is(settled.memory_per_key(on_flash as u64)));
    Ok(())
}
