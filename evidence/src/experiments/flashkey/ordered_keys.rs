//! The tree of keys (V-A.3): the space that it takes, as a share of that of the database, and what it costs to write.

use super::{KEY_BYTES, VALUE_BYTES, tuning};
use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::experiments::quantities::WRITE_AMPLIFICATION;
use crate::point::{Points, Reading};
use crate::quantity::{Quantity, Quoted, Share};
use crate::registry::Experiment;
use siltstone_bench::db::{self, Benchmark};

const ITEM: &str = "flashkey/section-v-a-3";
const KEYS: u64 = 50_000;
const SPACE: f64 = 1.25;

const SPACE_OF_KEYS: Quantity<Share> = Quantity::lower("space of the keys in order");

/// The space of the keys in order.
pub static EXPERIMENT: Experiment =
    Experiment { name: "flashkey-ordered-keys", cost_s: 10, direct: false, counts: true, rates: false, run };

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    for preset in Preset::ALL {
        let (without, _) = filled(conditions, preset, false)?;
        let (with, writes) = filled(conditions, preset, true)?;
        let share = (with - without).max(0.0) / with;
        points
            .add(ITEM, SPACE_OF_KEYS.of(preset.name()).paper(Quoted::text(0.027)).is(Reading::count(share)));
        points.add(ITEM, WRITE_AMPLIFICATION.of(preset.name()).is(Reading::count(writes)));
    }
    Ok(())
}

/// Fills a database, and returns its bytes and its write amplification.
fn filled(conditions: &Conditions, preset: Preset, is_ordered: bool) -> Result<(f64, f64)> {
    let num = conditions.number(KEYS);
    let engine = [("ordered", is_ordered.to_string())];
    let data_bytes = num * (KEY_BYTES + VALUE_BYTES) as u64;
    let settings = db::Settings {
        benchmarks: vec![Benchmark::FillUniqueRandom],
        num,
        key_size: KEY_BYTES,
        value_size: VALUE_BYTES,
        seed: conditions.seed,
        tuning: tuning(conditions, preset, data_bytes, SPACE, &engine),
        stop: conditions.stop.clone(),
        ..db::Settings::default()
    };
    let mut filled = (0.0, 0.0);
    db::run(&settings, &conditions.place, &mut |report| {
        filled = (report.costs.disk_bytes as f64, report.costs.write_amplification.unwrap_or(0.0));
        Ok(())
    })?;
    conditions.place.clear()?;
    Ok(filled)
}
