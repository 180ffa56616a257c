//! Threads use a database in a real directory at the same time, during background work: what they see is linearizable.
//! `siltstone-testing linearize` does the same at length.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use siltstone::Access;
use siltstone_testing::TestEngine;
use siltstone_testing::linearizability::Load;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::ScopedJoinHandle;

/// Compactions at a time, at most: on a drive, syncs make them slow.
const COMPACTIONS_MAX: usize = 20;
/// The rounds of operations, and the maximum number until every job has run, which depends on the schedule of threads.
const ROUNDS: RangeInclusive<usize> = 4..=200;

fn check(engine: &TestEngine, access: Access, value_length: Option<usize>) {
    let directory = tempfile::tempdir().unwrap();
    let fixed = value_length.map(|value_length| (Load::KEY_BYTES, value_length));
    let builder = engine.builder(&directory.path().join("db"), fixed).access(access);
    let database = builder.background_threads(4).open().unwrap();
    let load = Load { threads: 4, operations: 1000, hot_keys: 3, keys: 1_000, value_length, seed: 7 };
    let mut expected: Vec<_> = engine.jobs.iter().map(|job| job.name).collect();
    expected.extend(engine.further_jobs.iter().filter(|name| **name == "further_merges"));
    let missing = || {
        let details = database.stats().details;
        let has_run = |name: &&str| details.iter().any(|(found, count)| found == name && *count > 0.0);
        expected.iter().find(|name| !has_run(name)).copied()
    };
    let (mut rounds, is_done) = (0, AtomicBool::new(false));
    let outcome = std::thread::scope(|scope| {
        let compact = || {
            for _ in 0..COMPACTIONS_MAX {
                if !is_done.load(Relaxed) {
                    database.compact().unwrap();
                }
            }
        };
        let mut compactions: Option<ScopedJoinHandle<'_, ()>> = None;
        let outcome = load.run(&database, |_| {
            rounds += 1;
            // From the last round on: they merge several partitions at once, and LogStores without a conversion.
            if rounds >= *ROUNDS.start() && compactions.as_ref().is_none_or(ScopedJoinHandle::is_finished) {
                compactions = Some(scope.spawn(compact));
            }
            rounds <= *ROUNDS.start() || rounds <= *ROUNDS.end() && missing().is_some()
        });
        is_done.store(true, Relaxed);
        outcome
    });
    outcome.unwrap_or_else(|found| panic!("{engine:?}, {access:?}: {found}"));
    assert_eq!(missing(), None, "a job that has not run, {engine:?}: {:?}", database.stats().details);
    database.close().unwrap();
}

#[test]
fn a_database_in_files_is_linearizable() {
    for engine in TestEngine::persistent() {
        check(&engine, Access::Buffered, None);
        check(&engine, Access::DirectOrBuffered, Some(24));
    }
}
