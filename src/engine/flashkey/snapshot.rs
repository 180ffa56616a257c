//! Snapshots: all records of one moment.

use crate::compose::hashed_log::LogSnapshot;
use crate::engine::{Found, Record, Records, Snapshot};
use crate::error::Result;
use crate::key::Key;

/// The records of one moment, as the engine returns them.
pub(super) struct FlashKeySnapshot(pub LogSnapshot);

impl Snapshot for FlashKeySnapshot {
    fn get(&self, key: Key<'_>) -> Result<Option<Found>> {
        Found::read(|value| self.0.get_into(key, value))
    }

    fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Found>>> {
        let found = self.0.get_many(keys)?.into_iter();
        Ok(found.map(|found| found.map(|(value, expires_at_ms)| Found { value, expires_at_ms })).collect())
    }

    /// Returns all records, segment by segment, in the order in which they were appended.
    fn records(&self) -> Records {
        let record = |(key, value, expires_at_ms)| Record { key, value, expires_at_ms };
        Box::new(self.0.records().map(move |read| read.map(record)))
    }
}
