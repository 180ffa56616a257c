//! Threads use a database in a real directory at the same time, during background work: what they see is linearizable.
//! `siltstone-testing linearize` does the same at length.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use siltstone::Access;
use siltstone_testing::TestEngine;
use siltstone_testing::linearizability::Load;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Compactions in the last round, at most.
const COMPACTIONS_MAX: usize = 20;

fn check(engine: &TestEngine, access: Access, value_length: Option<usize>) {
    let directory = tempfile::tempdir().unwrap();
    let fixed = value_length.map(|value_length| (Load::KEY_BYTES, value_length));
    let builder = engine.builder(&directory.path().join("db"), fixed).access(access);
    let database = builder.background_threads(4).open().unwrap();
    let load = Load { threads: 4, operations: 1000, hot_keys: 3, keys: 1_000, value_length, seed: 7 };
    let (mut rounds, is_done) = (0..4, AtomicBool::new(false));
    let outcome = std::thread::scope(|scope| {
        let compact = || {
            for _ in 0..COMPACTIONS_MAX {
                if !is_done.load(Relaxed) {
                    database.compact().unwrap();
                }
            }
        };
        let outcome = load.run(&database, |_| {
            // In the last round: they merge several partitions at once, and LogStores without a conversion.
            if rounds.len() == 1 {
                scope.spawn(compact);
            }
            rounds.next().is_some()
        });
        is_done.store(true, Relaxed);
        outcome
    });
    outcome.unwrap_or_else(|found| panic!("{engine:?}, {access:?}: {found}"));
    let details = database.stats().details;
    let is_any = |name: &str| details.iter().any(|(found, count)| *found == name && *count > 0.0);
    let merges_at_once = engine.further_jobs.contains(&"further_merges");
    assert!(!merges_at_once || is_any("further_merges"), "{engine:?}: {details:?}");
    assert!(engine.jobs.iter().all(|job| is_any(job.name)), "{engine:?}: {details:?}");
    database.close().unwrap();
}

#[test]
fn a_database_in_files_is_linearizable() {
    for engine in TestEngine::persistent() {
        check(&engine, Access::Buffered, None);
        check(&engine, Access::DirectOrBuffered, Some(24));
    }
}
