//! Runs every workload of YCSB at a tiny size, to keep them working.

use crate::small_tables;
use siltstone::{Database, EngineKind};
use siltstone_bench::Error;
use siltstone_bench::place::Place;

use siltstone_bench::ycsb::{Distribution, Records, Report, Request, Settings, Workload, run};

fn tiny(workload: Workload) -> Settings {
    Settings {
        workload,
        records: 1_000,
        operations: 4_000,
        threads: 2,
        field_count: 3,
        field_length: 20,
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

fn operations(report: &Report, request: Request) -> u64 {
    let name = request.name().to_lowercase().replace('-', "_");
    report.rates.by_operation.get(&name).map_or(0, |figures| figures.operations)
}

#[test]
fn every_workload_does_what_it_says() {
    for workload in Workload::ALL.into_iter().filter(|workload| *workload != Workload::E) {
        for (fixed, write_all_fields) in [(false, false), (true, true)] {
            let reports = reports(&Settings { fixed, write_all_fields, ..tiny(workload) }).unwrap();
            let [load, run] = &reports[..] else { panic!("two phases") };
            assert_eq!((load.phase, load.costs.keys, load.rates.all.operations), ("load", 1_000, 1_000));
            assert_eq!((run.phase, run.rates.all.operations), ("run", 4_000));
            for request in Request::ALL {
                let (got, expected) = (operations(run, request) as f64 / 4_000.0, workload.share(request));
                assert!((got - expected).abs() < 0.03, "{workload} {request:?}: {got}");
            }
            let inserted = operations(run, Request::Insert);
            assert_eq!(run.costs.keys, 1_000 + inserted);
            assert_eq!(run.distribution, workload.distribution().name());
            assert!(
                run.summary().contains(&format!("[READ], Operations, {}", operations(run, Request::Read)))
            );
        }
    }
}

#[test]
fn a_database_with_ordered_keys_is_scanned() {
    let mut settings = tiny(Workload::E);
    settings.tuning.engine = EngineKind::FlashKey;
    settings.tuning.settings.settings = vec![("ordered".to_owned(), "true".to_owned())];
    let run = reports(&settings).unwrap().remove(1);
    let (scans, inserts) = (operations(&run, Request::Scan), operations(&run, Request::Insert));
    assert_eq!((scans + inserts, run.rates.all.operations), (4_000, 4_000));
    assert!(scans > 10 * inserts && inserts > 100, "{scans}, {inserts}");
}

#[test]
fn every_distribution_can_be_chosen() {
    for distribution in Distribution::ALL {
        let settings = Settings { distribution: Some(distribution), ..tiny(Workload::D) };
        let run = reports(&settings).unwrap().remove(1);
        assert_eq!((run.distribution, run.rates.all.operations), (distribution.name(), 4_000));
    }
}

#[test]
fn no_update_is_lost_among_threads() {
    for workload in [Workload::A, Workload::F] {
        let directory = tempfile::tempdir().unwrap();
        let settings =
            Settings { records: 20, threads: 4, db: Some(directory.path().to_owned()), ..tiny(workload) };
        let run = reports(&settings).unwrap().remove(1);
        let updates = operations(&run, Request::Update) + operations(&run, Request::ReadModifyWrite);
        let records = Records::new(settings.field_count, settings.field_length, false);
        let database = Database::builder(directory.path()).create(false).open().unwrap();
        let found: Vec<_> = database.iter().unwrap().map(Result::unwrap).collect();
        let counted: u64 = found.iter().map(|record| records.updates_of(&record.value)).sum();
        assert_eq!((found.len(), counted), (20, updates));
    }
}

#[test]
fn a_loaded_database_serves_many_runs() {
    let directory = tempfile::tempdir().unwrap();
    let load = Settings { db: Some(directory.path().to_owned()), ..tiny(Workload::D) };
    reports(&load).unwrap();
    assert!(matches!(reports(&load), Err(Error::Occupied(_))));
    let again = Settings { use_existing_db: true, seed: 5, ..load };
    for workload in [Workload::F, Workload::D] {
        let reports = reports(&Settings { workload, ..again.clone() }).unwrap();
        assert!(reports.len() == 1 && reports[0].phase == "run");
    }
    let more = Settings { records: 5_000, workload: Workload::C, ..again.clone() };
    assert!(matches!(reports(&more), Err(Error::Lost { .. })));
    let other = Settings { field_count: 2, workload: Workload::C, ..again };
    assert!(matches!(reports(&other), Err(Error::WrongValue { .. })));
}

#[test]
fn invalid_settings_are_refused() {
    assert!(matches!(reports(&tiny(Workload::E)), Err(Error::Settings(_))));
    for settings in [
        Settings { records: 0, ..tiny(Workload::A) },
        Settings { threads: 0, ..tiny(Workload::A) },
        Settings { field_length: 0, ..tiny(Workload::A) },
        Settings { field_count: usize::MAX, ..tiny(Workload::A) },
    ] {
        assert!(matches!(reports(&settings), Err(Error::Settings(_))));
    }
}

#[test]
fn the_object_has_the_common_fields() {
    let run = reports(&tiny(Workload::F)).unwrap().remove(1);
    let object = serde_json::to_value(run).unwrap();
    for field in [
        "benchmark",
        "workload",
        "phase",
        "operations",
        "ops_per_s",
        "settled_ops_per_s",
        "p50_us",
        "p99_us",
        "p999_us",
        "ram_bytes_per_key",
        "reads_per_get",
        "read_bytes_per_get",
        "write_amplification",
        "space_amplification",
    ] {
        assert!(object.get(field).is_some(), "{field}");
    }
    assert!(object["by_operation"]["read_modify_write"]["p99_us"].as_f64().unwrap() > 0.0);
}
