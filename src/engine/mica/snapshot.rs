//! Snapshots: a copy of all records.

use crate::engine::{Found, Record, Records, Snapshot};
use crate::error::Result;
use crate::key::Key;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// A copy of all records.
pub(super) struct MicaSnapshot {
    pub records: Arc<[Record]>,
    /// The index of each key in `records`. Built by the first lookup.
    pub places: OnceLock<HashMap<Bytes, usize>>,
}

impl Snapshot for MicaSnapshot {
    /// Returns the value that a key had. The first call reads all records once.
    fn get(&self, key: Key<'_>) -> Result<Option<Found>> {
        // Only for lookups: an iteration needs no places, which take memory for each key.
        let places = self.places.get_or_init(|| {
            let keys = self.records.iter().map(|record| record.key.clone());
            keys.enumerate().map(|(at, key)| (key, at)).collect()
        });
        let found = places.get(key.bytes()).map(|&at| &self.records[at]);
        Ok(found.map(|record| Found { value: record.value.clone(), expires_at_ms: record.expires_at_ms }))
    }

    fn records(&self) -> Records {
        let records = self.records.clone();
        Box::new((0..records.len()).map(move |at| Ok(records[at].clone())))
    }
}
