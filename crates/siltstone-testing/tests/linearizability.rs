//! Threads use a database in a real directory at the same time, during background work: what they see is linearizable.
//! `siltstone-testing linearize` does the same at length.

use siltstone::{Access, Database};
use siltstone_testing::linearizability::Load;

#[test]
fn a_database_in_files_is_linearizable() {
    for (access, value_length) in [(Access::Buffered, None), (Access::DirectOrBuffered, Some(24))] {
        let directory = tempfile::tempdir().unwrap();
        let builder = Database::builder(directory.path().join("db")).access(access);
        let mut builder = builder.partitions(2).set("log_slots_min", 64).background_threads(2);
        if let Some(value_length) = value_length {
            builder = builder.fixed(Load::KEY_BYTES, value_length);
        }
        let database = builder.open().unwrap();
        let load = Load { threads: 4, operations: 1000, hot_keys: 3, keys: 500, value_length, seed: 7 };
        let mut rounds = 0..3;
        load.run(&database, |_| rounds.next().is_some())
            .unwrap_or_else(|found| panic!("{access:?}: {found}"));
        assert!(database.stats().details.iter().any(|(name, count)| *name == "conversions" && *count > 0.0));
        database.close().unwrap();
    }
}
