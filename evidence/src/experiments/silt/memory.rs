//! The memory of section 6.1: records of 64 bytes that are put while nothing is merged ahead of need, and of 1 KiB. The
//! paper has 100 million keys; memory that does not depend on their number is a larger part of fewer keys.

use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::experiments::quantities::{
    MEMORY, MEMORY_MOST, READS_PER_GET, READS_PER_MISS, WRITE_AMPLIFICATION,
};
use crate::point::{Points, Reading, Settled};
use crate::quantity::Quoted;
use crate::registry::Experiment;
use siltstone::EngineKind;
use siltstone_bench::db::{self, Benchmark};

const ITEM: &str = "silt/section-6.1-memory";

/// The memory of the engine.
pub static EXPERIMENT: Experiment =
    Experiment { name: "silt-memory", cost_s: 50, counts: true, rates: false, run };

/// Keys at scale 1, the bytes of a value, and the most memory in the paper.
const CASES: [(&str, u64, usize, f64); 2] = [("64 B", 2_000_000, 44, 0.60), ("1 KiB", 300_000, 1_000, 0.69)];

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    for (name, keys, value_size, paper) in CASES {
        for preset in Preset::ALL {
            let num = conditions.number(keys);
            let settings = db::Settings {
                benchmarks: vec![Benchmark::FillUniqueRandom, Benchmark::ReadRandom, Benchmark::ReadMissing],
                num,
                // Reads are counted, so some of them are enough.
                reads: Some(num.min(200_000)),
                key_size: 20,
                value_size,
                fixed: true,
                hashed_keys: true,
                batch_size: Some(100),
                seed: conditions.seed,
                tuning: conditions.tuning(EngineKind::Silt, preset, &[]),
                stop: conditions.stop.clone(),
                ..db::Settings::default()
            };
            let series = format!("{name}, {}", preset.name());
            db::run(&settings, &conditions.place, &mut |report| {
                let reads = Reading::count(report.costs.reads_per_get.unwrap_or(0.0));
                let mut add = |point| points.add(ITEM, point);
                match report.benchmark {
                    "readrandom" => add(READS_PER_GET.of(&series).is(reads)),
                    "readmissing" => add(READS_PER_MISS.of(&series).is(reads)),
                    _ => {
                        let most = Reading::count(report.costs.ram_bytes_per_key_max);
                        add(MEMORY_MOST.of(&series).paper(Quoted::text(paper)).is(most));
                        add(MEMORY.of(&series).is(Settled::of_costs(&report.costs).memory_per_key(num)));
                        let written = report.costs.write_amplification.unwrap_or(0.0);
                        add(WRITE_AMPLIFICATION.of(&series).is(Reading::count(written)));
                    }
                }
                Ok(())
            })?;
            conditions.place.clear()?;
        }
    }
    Ok(())
}
