//! All records at one moment: a copy of them.

use crate::Result;
use crate::engine::{Found, Record, Records, Snapshot};
use crate::key::Key;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// A copy of all records.
pub(super) struct MicaSnapshot {
    pub records: Arc<[Record]>,
    /// Where the record of each key is. Made for the first key that is looked up.
    pub places: OnceLock<HashMap<Bytes, usize>>,
}

impl Snapshot for MicaSnapshot {
    /// The first call goes through all records once.
    fn get(&self, key: Key<'_>) -> Result<Option<Found>> {
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
