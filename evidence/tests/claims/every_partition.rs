//! Runs the benchmark of MICA's in-memory stores in every mode at a tiny size, to keep it working.

use siltstone_evidence::Error;
use siltstone_evidence::mica::{Interface, Report, Settings, Table, run};
use siltstone_mica::{AccessMode, Eviction};

fn tiny() -> Settings {
    Settings { items: 5_000, operations: 10_000, rounds: 2, batch_size: 100, ..Settings::default() }
}

#[test]
fn every_mode_of_store_and_cache_serves_every_request() {
    for mode in AccessMode::ALL {
        for cache in [None, Some(Eviction::Fifo), Some(Eviction::ApproximateLru)] {
            for (threads, variable, hash_outside) in [(1, false, true), (2, true, false), (4, false, false)] {
                let settings = Settings {
                    mode,
                    cache: cache.is_some(),
                    eviction: cache.unwrap_or_default(),
                    threads,
                    variable,
                    hash_outside,
                    zipf: if variable { 0.99 } else { 0.0 },
                    get: 0.5,
                    value_size: 20,
                    ..tiny()
                };
                let report = run(&settings).unwrap();
                // A log that just holds each item once loses items to those that a policy appends again.
                let least = match cache {
                    None => 1.0,
                    Some(Eviction::Fifo) => 0.9,
                    Some(_) => 0.8,
                };
                assert!(report.found >= least, "{}", report.line());
                assert!(report.operations == 10_000 && report.ops_per_s >= report.median_ops_per_s);
                assert!(
                    report.ram_bytes_per_key > report.index_bytes_per_key
                        && report.index_bytes_per_key > 10.0
                );
            }
        }
    }
}

#[test]
fn a_database_serves_every_request_in_every_way_as_a_store_and_as_a_cache() {
    for interface in [Interface::Database, Interface::DatabaseMany, Interface::DatabaseValues] {
        for (cache, variable, key_size, value_size) in [(false, false, 8, 8), (true, true, 11, 3)] {
            let sizes = Settings { key_size, value_size, variable, cache, ..tiny() };
            let report = run(&Settings { interface, threads: 2, get: 0.5, ..sizes }).unwrap();
            assert!(report.found >= if cache { 0.8 } else { 1.0 }, "{}", report.line());
            assert!(report.ram_bytes_per_key > report.index_bytes_per_key);
        }
    }
}

#[test]
fn small_items_take_fewer_bytes_when_their_sizes_are_fixed() {
    let bytes = |variable| run(&Settings { variable, items: 100_000, ..tiny() }).unwrap().ram_bytes_per_key;
    let (fixed, variable) = (bytes(false), bytes(true));
    assert!(fixed < 29.0 && (7.5..8.5).contains(&(variable - fixed)), "{fixed} and {variable}");
}

#[test]
fn settings_outside_their_limits_are_refused() {
    let refused = |settings: Settings| {
        matches!(run(&settings), Err::<Report, _>(Error::Bench(siltstone_bench::Error::Settings(_))))
    };
    assert!(refused(Settings { threads: 3, ..tiny() }) && refused(Settings { threads: 0, ..tiny() }));
    assert!(refused(Settings { zipf: 1.0, ..tiny() }) && refused(Settings { get: 1.1, ..tiny() }));
    assert!(refused(Settings { key_size: 7, ..tiny() }) && refused(Settings { items: 0, ..tiny() }));
    let map = Settings { interface: Interface::Map, ..tiny() };
    assert!(refused(Settings { value_size: 9, ..map.clone() }) && refused(Settings { threads: 2, ..map }));
    let stopped = Settings { stop: std::sync::Arc::new(true.into()), ..tiny() };
    assert!(matches!(run(&stopped), Err(Error::Bench(siltstone_bench::Error::Stopped))));
}

#[test]
fn every_table_has_the_rows_of_its_experiment_and_they_can_be_measured() {
    let settings = Settings { items: 2_400, operations: 1_000, threads: 2, ..tiny() };
    let tables = [
        (Table::Scaling, 4),
        (Table::Skew, 2),
        (Table::Sizes, 12),
        (Table::Modes, 12),
        (Table::Interfaces, 10),
    ];
    for (table, count) in tables {
        let rows = table.rows(&settings);
        assert_eq!(rows.len(), count);
        for (name, row) in &rows {
            assert!(rows.iter().filter(|(other, _)| other == name).count() == 1, "{name}");
            let report = run(row).unwrap();
            assert_eq!(report.thread_ops_per_s.len(), row.threads);
            let slowest = report.thread_ops_per_s.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(report.found == 1.0 && slowest > 0.0, "{name}");
        }
    }
}
