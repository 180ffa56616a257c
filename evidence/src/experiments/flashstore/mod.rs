//! FlashStore's experiments.
//!
//! - [`formulas`] has 4.4.
//! - [`table`] has the hash table of 5.5.
//! - [`traces`] has Table 3, Figures 5 and 7, 5.9.
//! - [`recycling`] has 4.5, against exact LRU and the paper's log; and a cache on flash.

mod cache;
mod caches;
mod driver;
pub mod formulas;
pub mod recycling;
pub mod table;
pub mod traces;

use crate::conditions::{Conditions, Preset};
use crate::quantity::{Quantity, Share};
use crate::{Error, Result};
use driver::Driver;
use siltstone::{Database, EngineKind};

/// The share of flash at which records leave in the paper.
const PAPER_USAGE: f64 = 0.8;
/// The bytes of a frame in addition to its record, on average.
const FRAME_BYTES: u64 = 9;
/// The segments that flash holds, so that an open one is a small part of it.
const SEGMENTS: u64 = 128;
const SEGMENT_BYTES: [u64; 2] = [4 << 10, 32 << 20];

/// The item of recycling and of a cache.
const RECYCLING: &str = "flashstore/section-4.5";
/// The share of gets that an exact LRU of all of flash serves.
const LRU: Quantity<Share> = Quantity::equal("gets that are served, LRU of flash");
const KEYS: u64 = 30_000;
/// The fewest keys whose smallest share of flash holds as many segments as the engine needs.
const KEYS_MIN: u64 = 4_000;
/// The length of keys where records are counted.
const KEY_BYTES: usize = 16;
/// The bytes of flash per byte of all records on it.
const SHARES: [f64; 4] = [0.9, 0.75, 0.5, 0.25];
/// The share of the keys that change their popularity within as many requests as there are keys.
const DRIFT: f64 = 0.01;
/// Requests per key; the first half is not counted.
const LAPS: u64 = 12;

/// Returns the number of keys, which simulated caches name by 32 bits.
fn keys(conditions: &Conditions) -> Result<u32> {
    let refused = |_| Error::settings("the scale is too large: there are below 2^32 keys");
    u32::try_from(conditions.number_from(KEYS, KEYS_MIN)).map_err(refused)
}

/// Opens a database whose flash has as many bytes as this share of all records takes there.
fn open(
    conditions: &Conditions,
    preset: Preset,
    (keys, value_size): (u64, usize),
    share: f64,
    engine: &[(&str, String)],
) -> Result<Driver> {
    let frame_bytes = (KEY_BYTES + value_size) as u64 + FRAME_BYTES;
    let flash_bytes = (share * (keys * frame_bytes) as f64) as u64;
    let mut settings = vec![
        ("flash_bytes", flash_bytes.to_string()),
        ("segment_bytes", segment_bytes(flash_bytes).to_string()),
    ];
    if !engine.iter().any(|(name, _)| *name == "cache") {
        settings.push(("disk", disk(conditions)));
    }
    settings.extend(engine.iter().cloned());
    let tuning = conditions.tuning(EngineKind::FlashStore, preset, &settings);
    let builder = Database::builder(conditions.place.directory()).fixed(KEY_BYTES, value_size);
    let database = tuning.apply(builder.partitions(1)).open()?;
    Driver::new(conditions, keys, value_size, database)
}

/// Returns the size of a segment, for this many bytes of flash.
fn segment_bytes(flash_bytes: u64) -> u64 {
    let [least, most] = SEGMENT_BYTES;
    (flash_bytes / SEGMENTS).next_power_of_two().clamp(least, most)
}

/// Returns the directory of the disk.
fn disk(conditions: &Conditions) -> String {
    conditions.disk.as_ref().map_or("disk".to_owned(), |path| path.display().to_string())
}
