//! Collisions of the hash table (V-A.1): reads of a key that exists, and of one that does not.

use super::{KEY_BYTES, VALUE_BYTES, tuning};
use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::experiments::quantities::{MEMORY, READS_PER_GET, READS_PER_MISS};
use crate::point::{Points, Reading, Settled};
use crate::registry::Experiment;
use siltstone_bench::db::{self, Benchmark};

const ITEM: &str = "flashkey/section-v-a-1";
const KEYS: u64 = 50_000;
const SPACE: f64 = 1.25;

/// Reads per get and per miss by the bits of a hash.
pub static EXPERIMENT: Experiment =
    Experiment { name: "flashkey-index", cost_s: 15, direct: false, counts: true, rates: false, run };

/// The bits of a hash: few, and those of both presets.
const HASH_BITS: [Option<&str>; 2] = [None, Some("28")];

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let num = conditions.number(KEYS);
    for preset in Preset::ALL {
        for hash_bits in HASH_BITS {
            let engine = hash_bits.map(|bits| ("hash_bits", bits.to_owned()));
            let data_bytes = num * (KEY_BYTES + VALUE_BYTES) as u64;
            let settings = db::Settings {
                benchmarks: vec![Benchmark::FillUniqueRandom, Benchmark::ReadRandom, Benchmark::ReadMissing],
                num,
                key_size: KEY_BYTES,
                value_size: VALUE_BYTES,
                seed: conditions.seed,
                tuning: tuning(conditions, preset, data_bytes, SPACE, engine.as_slice()),
                stop: conditions.stop.clone(),
                ..db::Settings::default()
            };
            let series = match hash_bits {
                Some(bits) => format!("hash_bits {bits}, {}", preset.name()),
                None => preset.name().to_owned(),
            };
            db::run(&settings, &conditions.place, &mut |report| {
                let reads = Reading::count(report.costs.reads_per_get.unwrap_or(0.0));
                match report.benchmark {
                    "readrandom" => points.add(ITEM, READS_PER_GET.of(&series).is(reads)),
                    "readmissing" => points.add(ITEM, READS_PER_MISS.of(&series).is(reads)),
                    _ => {
                        let memory = Settled::of_costs(&report.costs).memory_per_key(num);
                        points.add(ITEM, MEMORY.of(&series).is(memory));
                    }
                }
                Ok(())
            })?;
            conditions.place.clear()?;
        }
    }
    Ok(())
}
