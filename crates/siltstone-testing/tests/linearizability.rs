//! Threads use a database in a real directory at the same time, during background work: what they see is linearizable.
//! `siltstone-testing linearize` does the same at length.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use siltstone::Access;
use siltstone_testing::TestEngine;
use siltstone_testing::engines::Job;
use siltstone_testing::linearizability::Load;

fn check(engine: &TestEngine, access: Access, value_length: Option<usize>) {
    let directory = tempfile::tempdir().unwrap();
    let fixed = value_length.map(|value_length| (Load::KEY_BYTES, value_length));
    let builder = engine.builder(&directory.path().join("db"), fixed).access(access);
    let database = builder.background_threads(2).open().unwrap();
    let load = Load { threads: 4, operations: 1000, hot_keys: 3, keys: 1_000, value_length, seed: 7 };
    let mut rounds = 0..3;
    load.run(&database, |_| rounds.next().is_some())
        .unwrap_or_else(|found| panic!("{engine:?}, {access:?}: {found}"));
    let details = database.stats().details;
    let is_done = |job: &Job| details.iter().any(|(name, count)| *name == job.name && *count > 0.0);
    assert!(engine.jobs.iter().all(is_done), "{engine:?}: {details:?}");
    database.close().unwrap();
}

#[test]
fn a_database_in_files_is_linearizable() {
    for engine in TestEngine::persistent() {
        check(&engine, Access::Buffered, None);
        check(&engine, Access::DirectOrBuffered, Some(24));
    }
}
