//! How far what was written has come.

use crate::beds::Bed;
use siltstone::{Database, Step};

/// The records of the last write, as far along as it can be: in the log, converted, merged, and read back.
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

/// Takes the database to the stage. A reopened one is another handle.
pub fn reach(bed: &Bed, database: Database, stage: Stage) -> Database {
    match stage {
        Stage::Written => {}
        Stage::HalfWay => (0..3).for_each(|_| assert!(database.step().is_ok())),
        Stage::Settled => {
            database.settle().unwrap();
            assert_eq!(database.step().unwrap(), Step::Idle, "{bed}");
        }
        Stage::Compacted => database.compact().unwrap(),
        // What does not survive has no such stage.
        Stage::Reopened if !bed.is_persistent() => {}
        Stage::Reopened => {
            database.close().unwrap();
            drop(database);
            return bed.open();
        }
    }
    database
}
