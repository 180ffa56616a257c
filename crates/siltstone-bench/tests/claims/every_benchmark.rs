//! Runs every benchmark at a tiny size, to keep them working.

use crate::small_tables;
use siltstone::Durability;
use siltstone_bench::Error;
use siltstone_bench::db::{Benchmark, Report, Settings, run};
use siltstone_bench::place::Place;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

fn tiny(benchmarks: &[Benchmark]) -> Settings {
    Settings {
        benchmarks: benchmarks.to_vec(),
        num: 2_000,
        key_size: 20,
        value_size: 44,
        tuning: small_tables(),
        ..Settings::default()
    }
}

fn reports(settings: &Settings) -> Result<Vec<Report>, Error> {
    let mut reports = Vec::new();
    let place = Place::prepare(settings.db.as_deref())?;
    run(settings, &place, &mut |report| {
        reports.push(report.clone());
        Ok(())
    })?;
    Ok(reports)
}

/// All benchmarks except the one that ends the process, and the one that needs the order of keys.
fn harmless() -> Vec<Benchmark> {
    let others = [Benchmark::Abort, Benchmark::Queue];
    Benchmark::ALL.iter().copied().filter(|benchmark| !others.contains(benchmark)).collect()
}

#[test]
fn a_queue_in_the_order_of_keys_finds_its_head_each_time() {
    let mut settings = tiny(&[Benchmark::Queue]);
    settings.tuning.engine = siltstone::EngineKind::FlashKey;
    settings.tuning.partitions = None;
    settings.tuning.settings.settings = vec![("ordered".to_owned(), "true".to_owned())];
    let reports = reports(&settings).unwrap();
    // It fails if the head is not the first key.
    assert_eq!((reports[0].skipped, reports[0].operations), (None, 2_000));
    let without_order = self::reports(&tiny(&[Benchmark::Queue])).unwrap();
    assert!(without_order[0].skipped.is_some_and(|reason| reason.contains("ordered=true")));
}

#[test]
fn every_benchmark_runs_on_every_shape() {
    for (fixed, hashed_keys, threads, batch_size) in [
        (false, false, 1, None),
        (true, false, 2, None),
        (true, true, 1, Some(16)),
        (false, true, 2, Some(7)),
    ] {
        let settings = Settings { fixed, hashed_keys, threads, batch_size, ..tiny(&harmless()) };
        let reports = reports(&settings).unwrap();
        assert_eq!(reports.len(), harmless().len());
        for report in reports {
            assert!(
                report.costs.keys > 0 && report.costs.ram_bytes_max >= report.costs.ram_bytes,
                "{}",
                report.line()
            );
            assert!(report.line().starts_with(report.benchmark) && !report.remarks().is_empty());
        }
    }
}

#[test]
fn the_number_of_keys_is_known_exactly() {
    use Benchmark::*;
    let reports = reports(&tiny(&[FillSeq, ReadRandom, FillRandom, ReadRandom, ReadSeq])).unwrap();
    assert_eq!((reports[0].costs.keys, reports[1].found), (2_000, Some(2_000)));
    assert!(
        (1_100..1_400).contains(&reports[2].costs.keys),
        "1 - 1/e of the keys are written: {}",
        reports[2].costs.keys
    );
    assert_eq!(reports[4].operations, reports[2].costs.keys, "the iteration finds as many");
}

#[test]
fn an_existing_database_is_recognised_and_never_destroyed() {
    use Benchmark::*;
    let directory = tempfile::tempdir().unwrap();
    let place = Some(PathBuf::from(directory.path()));
    let filled = reports(&Settings { db: place.clone(), ..tiny(&[FillUniqueRandom]) }).unwrap();
    assert_eq!(filled[0].costs.keys, 2_000);
    let again = Settings { db: place, ..tiny(&[FillRandom, ReadRandom]) };
    assert!(matches!(reports(&again), Err(Error::Occupied(_))));
    let again = reports(&Settings { use_existing_db: true, ..again }).unwrap();
    assert_eq!((again[0].benchmark, again[0].costs.keys), ("open", 2_000));
    assert!(again[1].skipped.is_some());
    assert_eq!(again[2].found, Some(2_000));
}

#[test]
fn an_interruption_before_the_keys_of_an_existing_database_are_known_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let filled =
        Settings { db: Some(PathBuf::from(directory.path())), ..tiny(&[Benchmark::FillUniqueRandom]) };
    reports(&filled).unwrap();
    let again = Settings {
        use_existing_db: true,
        stop: Arc::new(true.into()),
        benchmarks: vec![Benchmark::Overwrite],
        ..filled
    };
    let reports = reports(&again).unwrap();
    assert_eq!((reports.len(), reports[0].benchmark), (1, "open"));
    assert!(reports[0].skipped.is_some_and(|reason| reason.contains("interrupted")), "the keys are unknown");
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let refused = |settings: Settings| assert!(reports(&settings).is_err());
    refused(Settings { num: 0, ..tiny(&[Benchmark::FillSeq]) });
    refused(Settings { threads: 0, ..tiny(&[Benchmark::FillSeq]) });
    refused(Settings { key_size: 1, ..tiny(&[Benchmark::FillSeq]) });
    refused(Settings { use_existing_db: true, ..tiny(&[Benchmark::ReadRandom]) });
}

#[test]
fn synced_writes_are_synced() {
    let settings = Settings { durability: Durability::Synced, num: 50, ..tiny(&[Benchmark::FillSeq]) };
    let report = reports(&settings).unwrap().remove(0);
    assert_eq!(serde_json::to_value(&report).unwrap()["durability"], "synced");
    assert!(report.stats.io.total().syncs > 0);
}

#[test]
fn a_mix_has_its_share_of_reads() {
    let mixed = |read_percent| {
        let settings = Settings {
            read_percent,
            ..tiny(&[Benchmark::FillUniqueRandom, Benchmark::ReadRandomWriteRandom])
        };
        reports(&settings).unwrap().remove(1)
    };
    let report = mixed(90);
    let share = report.lookups as f64 / report.operations as f64;
    assert!((share - 0.9).abs() < 0.05 && report.found == Some(report.lookups), "{share}");
    assert!(report.costs.write_amplification.is_some() && report.settled_ops_per_s.is_some());
    let puts = mixed(0);
    assert_eq!((puts.lookups, puts.found, puts.costs.reads_per_get), (0, None, None));
}

#[test]
fn a_series_has_all_operations_of_the_threads() {
    let interval = Some(Duration::from_millis(1));
    // The writes next to reads are no operations.
    let benchmarks = [Benchmark::FillUniqueRandom, Benchmark::ReadRandom, Benchmark::ReadWhileWriting];
    for report in reports(&Settings { series: interval, threads: 2, ..tiny(&benchmarks) }).unwrap() {
        let mut from = 0.0;
        let of_interval = report.series.iter().map(|sample| {
            let seconds = sample.seconds - from;
            from = sample.seconds;
            sample.ops_per_s * seconds
        });
        let operations: f64 = of_interval.sum();
        let share = operations / report.operations as f64;
        assert!((share - 1.0).abs() < 0.05, "{}: {share}", report.benchmark);
        assert!(serde_json::to_value(&report).unwrap()["series"][0]["ram_bytes"].is_number());
    }
    assert!(reports(&Settings { series: Some(Duration::ZERO), ..tiny(&benchmarks) }).is_err());
}
