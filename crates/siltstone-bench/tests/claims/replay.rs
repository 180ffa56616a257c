//! Replays tiny traces and compares the result with a table in memory.

use crate::small_tables;
use siltstone_bench::Error;
use siltstone_bench::place::Place;
use siltstone_bench::random;
use siltstone_bench::trace::replay::{Report, Settings, run};
use siltstone_bench::trace::{Kind, Operation, TraceError};

use std::collections::HashMap;

fn trace(operations: u64, keys: u64, value_length: impl Fn(u64) -> u32) -> Vec<Operation> {
    let mut random = random::stream(operations, keys);
    let kinds = [Kind::Get, Kind::Get, Kind::Set, Kind::Set, Kind::Delete];
    let operation = |number| Operation {
        kind: kinds[random.u64(..5) as usize],
        key: random.u64(..keys),
        key_length: 20,
        value_length: value_length(number),
        time_ms: number,
        time_to_live_s: 0,
    };
    (0..operations).map(operation).collect()
}

fn settings() -> Settings {
    Settings { tuning: small_tables(), ..Settings::default() }
}

fn replay(settings: &Settings, trace: &[Operation]) -> Result<Report, Error> {
    let operations = trace.to_vec();
    run(settings, &Place::prepare(settings.db.as_deref())?, Box::new(operations.into_iter().map(Ok)))
}

/// Returns the number of gets that find their key, and the keys at the end with their bytes.
fn expected(trace: &[Operation], fill_misses: bool) -> (u64, u64, u64) {
    let (mut held, mut found) = (HashMap::new(), 0);
    for operation in trace {
        match operation.kind {
            Kind::Get if held.contains_key(&operation.key) => found += 1,
            Kind::Get if !fill_misses || operation.value_length == 0 => {}
            Kind::Get | Kind::Set => {
                held.insert(operation.key, operation.value_length);
            }
            Kind::Delete => {
                held.remove(&operation.key);
            }
        }
    }
    (found, held.len() as u64, held.values().map(|length| 20 + u64::from(*length)).sum())
}

#[test]
fn a_replay_does_what_the_trace_says() {
    let trace = trace(5_000, 700, |number| (number % 70) as u32);
    for (threads, fill_misses) in [(1, false), (3, false), (3, true)] {
        let report = replay(&Settings { threads, fill_misses, ..settings() }, &trace).unwrap();
        let (found, keys, data_bytes) = expected(&trace, fill_misses);
        assert_eq!((report.found, report.costs.keys), (found, keys));
        let space = report.costs.disk_bytes as f64 / data_bytes as f64;
        assert!((report.costs.space_amplification / space - 1.0).abs() < 1e-9);
        let operations = |kind: Kind| {
            report.rates.by_operation.get(&kind.name().to_lowercase()).map_or(0, |figures| figures.operations)
        };
        let recorded = |kind| trace.iter().filter(|operation| operation.kind == kind).count() as u64;
        assert_eq!(operations(Kind::Get), recorded(Kind::Get));
        assert_eq!(operations(Kind::Delete), recorded(Kind::Delete));
        assert!(fill_misses || operations(Kind::Set) == recorded(Kind::Set));
        assert!(report.summary().contains(&format!("{found} of {} gets", recorded(Kind::Get))));
    }
}

#[test]
fn records_of_one_size_take_it_from_the_first_set() {
    let trace = trace(2_000, 300, |_| 44);
    let fixed = Settings { fixed: true, hashed_keys: false, ..settings() };
    let report = replay(&fixed, &trace).unwrap();
    assert_eq!((report.found, report.costs.keys), (expected(&trace, false).0, expected(&trace, false).1));
    let gets: Vec<Operation> = trace.into_iter().filter(|operation| operation.kind == Kind::Get).collect();
    assert!(matches!(replay(&fixed, &gets), Err(Error::Settings(_))));
}

#[test]
fn a_part_of_a_trace_can_be_replayed_and_again_on_what_is_there() {
    let trace = trace(3_000, 300, |_| 44);
    let directory = tempfile::tempdir().unwrap();
    let place = Settings { db: Some(directory.path().to_owned()), ..settings() };
    let report = replay(&Settings { operations: Some(1_000), ..place.clone() }, &trace).unwrap();
    assert_eq!(report.rates.all.operations, 1_000);
    assert!(matches!(replay(&place, &trace), Err(Error::Occupied(_))));
    let again = replay(&Settings { use_existing_db: true, ..place }, &trace).unwrap();
    assert!(again.found > expected(&trace, false).0, "the first gets find keys, too");
}

#[test]
fn the_first_error_of_the_trace_ends_the_replay() {
    let trace = trace(3_000, 300, |_| 44).into_iter().map(Ok);
    let broken = trace.chain([Err(TraceError::CutShort { at: 7, what: "a chunk" })]);
    let outcome =
        run(&Settings { threads: 2, ..settings() }, &Place::prepare(None).unwrap(), Box::new(broken));
    assert!(matches!(outcome, Err(Error::Trace(TraceError::CutShort { at: 7, .. }))));
    assert!(matches!(replay(&Settings { threads: 0, ..settings() }, &[]), Err(Error::Settings(_))));
}
