//! FlashStore's experiments.

mod cache;
mod caches;
mod device;
mod driver;
mod recycling;
mod traces;

use super::Settings;
use crate::Result;
use siltstone::{Database, EngineKind, Stats};
use siltstone_bench::place::Place;
use siltstone_bench::tuning::{SettingArgs, Tuning};
use std::sync::atomic::Ordering::Relaxed;

pub(super) use cache::run as cache;
pub(super) use device::run as device;
pub(super) use recycling::run as recycling;
pub(super) use traces::{shares, traces};

/// The share of flash at which records leave in the paper.
const PAPER_USAGE: f64 = 0.8;
/// The bytes of a frame in addition to its record, on average.
const FRAME_BYTES: u64 = 9;
/// The segments that flash holds, so that an open one is a small part of it.
const SEGMENTS: u64 = 128;
const SEGMENT_BYTES: [u64; 2] = [4 << 10, 32 << 20];

/// A share of flash that is measured with a popularity and a number of queues.
#[derive(Debug, Clone, Copy)]
struct Case {
    skew: f64,
    share: f64,
    queues: u8,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Case { skew, share, queues } = self;
        write!(f, "skew {skew}, flash {} %, queues {queues}", (share * 100.0).round())
    }
}

/// Measures all cases of the settings, with one skew by default, until it is interrupted.
fn each_case(settings: &Settings, skew: f64, mut run: impl FnMut(Case) -> Result<()>) -> Result<()> {
    let skews = if settings.skew.is_empty() { &[skew][..] } else { &settings.skew };
    for &skew in skews {
        for &share in &settings.share {
            for &queues in &settings.queues {
                if settings.stop.load(Relaxed) {
                    return Ok(());
                }
                run(Case { skew, share, queues })?;
            }
        }
    }
    Ok(())
}

/// Returns the value that was given for a setting of the engine that is on or off.
fn flag(settings: &Settings, name: &str, default: bool) -> bool {
    let given = settings.more.settings.iter().rev().find(|(other, _)| other == name);
    given.and_then(|(_, value)| value.parse().ok()).unwrap_or(default)
}

/// Opens a database whose flash has as many bytes as this share of all records takes there, without threads.
fn open(
    settings: &Settings,
    place: &Place,
    value_size: usize,
    share: f64,
    engine: &[(&str, String)],
) -> Result<Database> {
    let frame_bytes = (settings.key_size + value_size) as u64 + FRAME_BYTES;
    let flash_bytes = (share * (settings.num * frame_bytes) as f64) as u64;
    let mut named = vec![
        ("flash_bytes".to_owned(), flash_bytes.to_string()),
        ("segment_bytes".to_owned(), segment_bytes(flash_bytes).to_string()),
    ];
    if !engine.iter().any(|(name, _)| *name == "cache") {
        named.push(("disk".to_owned(), disk(settings)));
    }
    named.extend(engine.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    named.extend(settings.more.settings.iter().cloned());
    let tuning = Tuning {
        engine: EngineKind::FlashStore,
        settings: SettingArgs { settings: named },
        access: settings.access,
        background_threads: Some(0),
        ..Tuning::default()
    };
    let builder = Database::builder(place.directory()).fixed(settings.key_size, value_size);
    // Keys are hashed in the same way in each run.
    Ok(tuning.apply(builder.partitions(1).seed([settings.seed, 0])).open()?)
}

/// Returns the size of a segment, for this many bytes of flash.
fn segment_bytes(flash_bytes: u64) -> u64 {
    let [least, most] = SEGMENT_BYTES;
    (flash_bytes / SEGMENTS).next_power_of_two().clamp(least, most)
}

/// Returns the directory of the disk.
fn disk(settings: &Settings) -> String {
    settings.disk.as_ref().map_or("disk".to_owned(), |path| path.display().to_string())
}

fn detail(stats: &Stats, name: &str) -> f64 {
    stats.details.iter().find(|(other, _)| *other == name).map_or(0.0, |(_, value)| *value)
}
