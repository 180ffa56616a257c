//! The workloads of YCSB: Table III and Figure 7.

use super::tuning;
use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::experiments::quantities::{OPERATIONS_SETTLED, WRITE_AMPLIFICATION};
use crate::point::{Points, Reading};
use crate::registry::Experiment;
use siltstone_bench::ycsb::{self, Records, Workload};

const ITEM: &str = "flashkey/figure-7";
const KEYS: u64 = 30_000;
/// At this number of operations there are some of each kind.
const KEYS_MIN: u64 = 500;
const VALUE_BYTES: usize = 1000;
/// The space amplification of FlashKey under YCSB.
const SPACE: f64 = 1.23;

/// The workloads in the order of the paper. E scans, so it has a database of its own, with the keys in order.
const WORKLOADS: [Workload; 6] =
    [Workload::A, Workload::B, Workload::C, Workload::F, Workload::D, Workload::E];

/// The workloads of YCSB.
pub static EXPERIMENT: Experiment =
    Experiment { name: "flashkey-ycsb", cost_s: 50, direct: false, counts: false, rates: true, run };

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    for preset in Preset::ALL {
        for (number, workload) in WORKLOADS.into_iter().enumerate() {
            conditions.check()?;
            if workload == Workload::E {
                conditions.place.clear()?;
            }
            let settings = settings(conditions, preset, number, workload);
            ycsb::run(&settings, &conditions.place, &mut |run| {
                let load = if run.phase == "load" { ", load" } else { "" };
                let series = format!("{}{load}, {}", workload.name().to_uppercase(), preset.name());
                let rate = run.rates.settled_ops_per_s.unwrap_or(run.rates.ops_per_s);
                points.add(ITEM, OPERATIONS_SETTLED.of(&series).is(Reading::time(rate)));
                if let Some(writes) = run.costs.write_amplification {
                    points.add(ITEM, WRITE_AMPLIFICATION.of(&series).is(Reading::sample(writes)));
                }
                Ok(())
            })?;
        }
        conditions.place.clear()?;
    }
    Ok(())
}

/// Returns the settings of a workload. All but the first and E continue with the database of the one before.
fn settings(conditions: &Conditions, preset: Preset, number: usize, workload: Workload) -> ycsb::Settings {
    let usual = ycsb::Settings::default();
    let field_length = (VALUE_BYTES / usual.field_count).max(1);
    let record_bytes = Records::KEY_BYTES_MAX + field_length * usual.field_count;
    let records = conditions.number_from(KEYS, KEYS_MIN);
    let scans = workload == Workload::E;
    let continues = number > 0 && !scans;
    let engine = [("ordered", scans.to_string())];
    ycsb::Settings {
        workload,
        records,
        operations: records,
        field_length,
        write_all_fields: true,
        use_existing_db: continues,
        db: continues.then(|| conditions.place.directory().to_owned()),
        seed: conditions.seed + number as u64,
        tuning: tuning(conditions, preset, records * record_bytes as u64, SPACE, &engine),
        stop: conditions.stop.clone(),
        ..usual
    }
}
