//! How far the records of a test have moved through the stores.

use super::TestBed;
use siltstone::{Database, Step};

/// Where the last writes are: in the log, converted, merged, or read back after reopening.
#[derive(Debug, Clone, Copy)]
pub enum Stage {
    Written,
    HalfWay,
    Settled,
    Compacted,
    Reopened,
}

pub const STAGES: [Stage; 5] =
    [Stage::Written, Stage::HalfWay, Stage::Settled, Stage::Compacted, Stage::Reopened];

/// Moves the database to the stage. After reopening, it is another handle.
pub fn reach(bed: &TestBed, database: Database, stage: Stage) -> Database {
    match stage {
        Stage::Written => {}
        Stage::HalfWay => (0..3).for_each(|_| assert!(database.step().is_ok())),
        Stage::Settled => {
            database.settle().unwrap();
            assert_eq!(database.step().unwrap(), Step::Idle, "{bed}");
        }
        Stage::Compacted => database.compact().unwrap(),
        // Databases that do not survive the process cannot be reopened.
        Stage::Reopened if !bed.is_persistent() => {}
        Stage::Reopened => {
            database.close().unwrap();
            drop(database);
            return bed.open();
        }
    }
    database
}
