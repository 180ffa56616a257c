//! Gets and puts of a full system by 16 threads (section 6.1): gets alone, nine gets per put, as many gets as puts. And
//! operations and memory over time while conversions and merges are limited as in the paper (Figure 9).
//!
//! Keys are random ones of those that exist, so puts are overwrites, with the conversions and merges of new keys.

use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::experiments::quantities::{GETS, OPERATIONS, READS_PER_GET};
use crate::point::{Points, Reading};
use crate::quantity::{BytesPerKey, OperationsPerSecond, Quantity, Quoted};
use crate::registry::Experiment;
use siltstone::EngineKind;
use siltstone_bench::db::{self, Benchmark, Report};
use std::time::Duration;

const MIXES: &str = "silt/section-6.1-throughput";
const FIGURE_9: &str = "silt/figure-9";

/// LogStores, whose log is read through the page cache, have a small part of them.
const KEYS_LARGE: u64 = 400_000;
const KEYS_SMALL: u64 = 600_000;
const THREADS: usize = 16;
const DURATION: Duration = Duration::from_secs(4);
const SERIES_DURATION: Duration = Duration::from_secs(15);
/// The intervals of the series at scale 1.
const INTERVALS: u32 = 30;
/// The paper's limits of conversions and of merges, 10,000 and 20,000 entries of 1,000 bytes per second, in bytes.
const LIMITS: [(&str, u64); 2] = [("convert_bytes_per_s", 10_000_000), ("merge_bytes_per_s", 20_000_000)];

const PUTS: Quantity<OperationsPerSecond> = Quantity::higher("puts");
const INDEXES: Quantity<BytesPerKey> = Quantity::lower("memory of indexes and filters");

/// Mixes of gets and puts.
pub static EXPERIMENT: Experiment =
    Experiment { name: "silt-mixes", cost_s: 190, direct: true, counts: false, rates: true, run };

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    for preset in Preset::ALL {
        mixes(conditions, preset, points)?;
    }
    series(conditions, points)
}

fn settings(conditions: &Conditions, preset: Preset, num: u64, value_size: usize) -> db::Settings {
    db::Settings {
        num,
        reads: Some(u64::MAX),
        threads: THREADS,
        key_size: 20,
        value_size,
        fixed: true,
        hashed_keys: true,
        duration: Some(conditions.duration(DURATION)),
        seed: conditions.seed,
        tuning: conditions.tuning(EngineKind::Silt, preset, &[]),
        stop: conditions.stop.clone(),
        ..db::Settings::default()
    }
}

/// Fills a database, runs the benchmarks on it, and removes it.
fn measure(
    conditions: &Conditions,
    settings: &db::Settings,
    on_report: &mut dyn FnMut(&Report),
) -> Result<()> {
    // Filling takes as long as it takes, without limits: each key exists then.
    let mut tuning = settings.tuning.clone();
    tuning.settings.settings.retain(|(name, _)| LIMITS.iter().all(|(limit, _)| limit != name));
    let fill = db::Settings {
        benchmarks: vec![Benchmark::FillUniqueRandom, Benchmark::Compact],
        duration: None,
        series: None,
        tuning,
        ..settings.clone()
    };
    db::run(&fill, &conditions.place, &mut |_| Ok(()))?;
    let on_it = db::Settings { use_existing_db: true, ..settings.clone() };
    db::run(&on_it, &conditions.place, &mut |report| {
        on_report(report);
        Ok(())
    })?;
    Ok(conditions.place.clear()?)
}

fn mixes(conditions: &Conditions, preset: Preset, points: &mut Points) -> Result<()> {
    let mut add = |point| points.add(MIXES, point);
    let name = preset.name();
    let large = settings(conditions, preset, conditions.number(KEYS_LARGE), 1_000);
    let benchmarks = vec![Benchmark::ReadRandom, Benchmark::ReadRandomWriteRandom];
    measure(conditions, &db::Settings { benchmarks, ..large }, &mut |report| {
        let gets = report.lookups as f64 / report.seconds;
        let reads = Reading::sample(report.costs.reads_per_get.unwrap_or(0.0));
        match report.benchmark {
            "readrandom" => {
                let series = format!("1 KiB, gets alone, {name}");
                add(GETS.of(&series).paper(Quoted::text(46_000.0)).is(Reading::time(gets)));
                add(READS_PER_GET.of(&series).is(reads));
            }
            "readrandomwriterandom" => {
                let series = format!("1 KiB, 90 % gets, {name}");
                add(GETS.of(&series).paper(Quoted::text(33_000.0)).is(Reading::time(gets)));
                let puts = (report.operations - report.lookups) as f64 / report.seconds;
                add(PUTS.of(&series).paper(Quoted::text(3_000.0)).is(Reading::time(puts)));
                add(READS_PER_GET.of(&series).is(reads));
            }
            _ => {}
        }
    })?;
    let small = settings(conditions, preset, conditions.number(KEYS_SMALL), 44);
    let benchmarks = vec![Benchmark::ReadRandomWriteRandom];
    measure(conditions, &db::Settings { benchmarks, read_percent: 50, ..small }, &mut |report| {
        if report.benchmark == "readrandomwriterandom" {
            let series = format!("64 B, 50 % gets, {name}");
            let rate = Reading::time(report.ops_per_s);
            add(OPERATIONS.of(&series).paper(Quoted::text(72_000.0)).is(rate));
        }
    })
}

fn series(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let num = conditions.number(KEYS_LARGE);
    let duration = conditions.duration(SERIES_DURATION);
    let intervals = conditions.rounds(INTERVALS as usize) as u32;
    let limits = LIMITS.map(|(name, limit)| (name, limit.to_string()));
    let settings = db::Settings {
        benchmarks: vec![Benchmark::ReadRandomWriteRandom],
        duration: Some(duration),
        series: Some((duration / intervals).max(Duration::from_millis(1))),
        tuning: conditions.tuning(EngineKind::Silt, Preset::Default, &limits),
        ..settings(conditions, Preset::Default, num, 1_000)
    };
    let series = "1 KiB, 90 % gets, default";
    measure(conditions, &settings, &mut |report| {
        for (number, sample) in report.series.iter().take(intervals as usize).enumerate() {
            let at = (number + 1) as f64 * duration.as_secs_f64() / f64::from(intervals);
            let mut add = |point| points.add(FIGURE_9, point);
            add(OPERATIONS.at(series, at).is(Reading::time(sample.ops_per_s)));
            let bytes = super::memory::of_indexes(&sample.ram);
            add(INDEXES.at(series, at).is(Reading::sample(bytes as f64 / num as f64)));
        }
    })
}
