//! Table 7, the column of the SortedStore: gets of keys that exist and of keys that do not, by 16 threads, after all
//! stores have been merged. ECT's Table 3.4 is the same measurement of a trie of all records.

use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::experiments::quantities::{GETS, READS_PER_GET, READS_PER_MISS};
use crate::point::{Points, Reading};
use crate::quantity::Quoted;
use crate::registry::Experiment;
use siltstone::EngineKind;
use siltstone_bench::db::{self, Benchmark};

const TABLE_7: &str = "silt/table-7";
const TABLE_3_4: &str = "ect/table-3.4";
const KEYS: u64 = 100_000;

/// Gets of a SortedStore.
pub static EXPERIMENT: Experiment =
    Experiment { name: "silt-stores", cost_s: 25, direct: false, counts: true, rates: true, run };

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let num = conditions.number(KEYS);
    for preset in Preset::ALL {
        // The engine's own index of records of this size is another one.
        let index = (preset == Preset::Default).then(|| ("index", "dense_trie".to_owned()));
        let settings = db::Settings {
            benchmarks: vec![
                Benchmark::FillUniqueRandom,
                Benchmark::Compact,
                Benchmark::ReadRandom,
                Benchmark::ReadMissing,
            ],
            num,
            threads: 16,
            key_size: 20,
            value_size: 1_000,
            fixed: true,
            hashed_keys: true,
            seed: conditions.seed,
            tuning: conditions.tuning(EngineKind::Silt, preset, index.as_slice()),
            stop: conditions.stop.clone(),
            ..db::Settings::default()
        };
        let series = format!("SortedStore, {}", preset.name());
        db::run(&settings, &conditions.place, &mut |report| {
            let rate = Reading::time(report.ops_per_s);
            let reads = Reading::count(report.costs.reads_per_get.unwrap_or(0.0));
            let mut add = |item, point| points.add(item, point);
            match report.benchmark {
                "readrandom" => {
                    let hit = format!("{series}, hit");
                    add(TABLE_7, GETS.of(&hit).paper(Quoted::text(46_570.0)).is(rate));
                    add(TABLE_7, READS_PER_GET.of(&hit).is(reads));
                    add(TABLE_3_4, GETS.of(&series).paper(Quoted::text(64_020.0)).is(rate));
                    add(TABLE_3_4, READS_PER_GET.of(&series).is(reads));
                }
                "readmissing" => {
                    let miss = format!("{series}, miss");
                    add(TABLE_7, GETS.of(&miss).paper(Quoted::text(46_610.0)).is(rate));
                    add(TABLE_7, READS_PER_MISS.of(&miss).is(reads));
                }
                _ => {}
            }
            Ok(())
        })?;
        conditions.place.clear()?;
    }
    Ok(())
}
