//! Entries in the order of their hashes, with their records: the newest of each key.

use super::indexed_logs::{IndexedLogs, OwnedRecord};
use crate::error::Result;
use crate::store::data_logs::Unit;
use siltstone_device::Purpose;

/// Records in the order of the placements of their keys.
pub(crate) struct Groups {
    /// The records with their placements; also tombstones, and records that have expired.
    pub records: Vec<(u64, OwnedRecord)>,
    /// The hashes of all entries that were read, as far as the index keeps them.
    pub hashes: Vec<u64>,
    /// The placement with which the next ones begin; `None` at the end.
    pub next: Option<u64>,
}

impl Groups {
    /// Reads the records of about `entries` entries from the placement `from` on. Those of keys with equal hashes are
    /// not divided, and some before `from` may be among them. The reads overlap.
    pub fn read(logs: &IndexedLogs, from: u64, entries: usize) -> Result<Groups> {
        // Of one moment: the view can read the record of each entry, also if segments are released meanwhile.
        let (range, view) = logs.look(|index| index.range(from, entries))?;
        let units: Vec<Unit> = range.entries.iter().map(|(_, unit)| *unit).collect();
        let mut read: Vec<Option<OwnedRecord>> = vec![None; units.len()];
        view.read_many(Purpose::Iterate, &units, &mut |number, record| {
            read[number] = Some(record.into());
            Ok(())
        })?;
        let mut records: Vec<(u64, OwnedRecord)> = Vec::with_capacity(units.len());
        let entries: Vec<_> = range.entries.iter().zip(read).collect();
        for group in entries.chunk_by(|(one, _), (other, _)| one.0 == other.0) {
            let start = records.len();
            for record in group.iter().filter_map(|(_, record)| record.as_ref()) {
                // The newest is the first.
                if !records[start..].iter().any(|(_, newer)| newer.key == record.key) {
                    records.push((logs.hasher().hash(&record.key).placement, record.clone()));
                }
            }
            records[start..].sort_by_key(|(placement, _)| *placement);
        }
        let hashes = range.entries.iter().map(|(hash, _)| *hash).collect();
        Ok(Groups { records, hashes, next: range.next })
    }
}
