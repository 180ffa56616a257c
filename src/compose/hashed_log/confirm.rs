//! Confirming: the records of entries with an equal hash are read, and of each key the youngest entry remains.

use super::indexed_logs::IndexedLogs;
use crate::Result;
use crate::device::Purpose;
use crate::store::data_logs::{DataView, Unit};
use crate::store::log_index::Candidates;

/// The maximum number of hashes that one step compares.
const HASHES_PER_STEP: usize = 64;

/// What was read of an entry's record. `K` identifies the key.
pub(super) struct Compared<K> {
    pub unit: Unit,
    pub key: K,
    pub is_tombstone: bool,
    pub bytes: u32,
}

/// Compares the records of some queued hashes. Returns the number of entries that were removed, or `None` if no hash
/// was queued.
pub(super) fn confirm(logs: &IndexedLogs) -> Result<Option<u64>> {
    let hashes = logs.pairs.take(HASHES_PER_STEP);
    if hashes.is_empty() { Ok(None) } else { compare(logs, &hashes).map(Some) }
}

/// Reads the records of all entries of these hashes, and leaves the youngest entry of each key. Returns the number of
/// entries that were removed.
pub(super) fn compare(logs: &IndexedLogs, hashes: &[u64]) -> Result<u64> {
    let (groups, view) = logs.look(|index| {
        let groups = hashes.iter().map(|hash| (*hash, index.candidates(*hash)));
        groups.filter(|(_, units)| units.len() > 1).collect::<Vec<(u64, Candidates)>>()
    });
    let units: Vec<Unit> = groups.iter().flat_map(|(_, units)| units.iter().copied()).collect();
    let mut records: Vec<Option<Compared<Vec<u8>>>> = units.iter().map(|_| None).collect();
    view.read_many(Purpose::Collect, &units, &mut |number, record| {
        let bytes = logs.data.frame_bytes(record);
        let (key, is_tombstone) = (record.key.to_vec(), record.value.is_none());
        records[number] = Some(Compared { unit: units[number], key, is_tombstone, bytes });
        Ok(())
    })?;
    let (mut records, mut removed) = (records.into_iter(), 0);
    for (hash, units) in groups {
        let group: Vec<_> = records.by_ref().take(units.len()).flatten().collect();
        removed += keep_youngest(logs, hash, &view, group)?;
    }
    Ok(removed)
}

/// Locks the writer of the shard, and removes the entries of records that a younger one replaces, and of tombstones of
/// which no older record is left. `group` has records of this hash that were read in `view`, the youngest first;
/// entries that have changed since are left for the next time. Returns how many were removed.
pub(super) fn keep_youngest<K: PartialEq>(
    logs: &IndexedLogs,
    hash: u64,
    view: &DataView,
    mut group: Vec<Compared<K>>,
) -> Result<u64> {
    let remove = || {
        let now = logs.data.view();
        // The place of a segment that was released may be that of another one.
        let before = group.len();
        group.retain(|record| now.segment_of(record.unit) == view.segment_of(record.unit));
        let has_moved = group.len() < before;
        Ok(remove_replaced(logs, hash, &group, has_moved))
    };
    logs.with_writers(std::iter::once(hash), || logs.health().run(remove))
}

fn remove_replaced<K: PartialEq>(
    logs: &IndexedLogs,
    hash: u64,
    group: &[Compared<K>],
    mut has_moved: bool,
) -> u64 {
    let mut removed = 0;
    let rank = |units: &Candidates, unit: Unit| units.iter().position(|other| *other == unit);
    for (number, older) in group.iter().enumerate() {
        let Some(younger) = group[..number].iter().find(|younger| younger.key == older.key) else { continue };
        let units = logs.index.candidates(hash);
        match (rank(&units, younger.unit), rank(&units, older.unit)) {
            (Some(young), Some(old)) if young < old => {
                logs.index.remove(hash, older.unit);
                logs.add_dead(older.unit, older.bytes);
                removed += 1;
            }
            (_, None) => {}
            _ => has_moved = true,
        }
    }
    // Without an older entry that may be of its key, a tombstone hides nothing.
    for (number, tombstone) in group.iter().enumerate().filter(|(_, record)| record.is_tombstone).rev() {
        let is_other = |unit: &Unit| {
            let mut older = group[number + 1..].iter();
            older.any(|older| older.unit == *unit && older.key != tombstone.key)
        };
        let units = logs.index.candidates(hash);
        if let Some(rank) = rank(&units, tombstone.unit)
            && units[rank + 1..].iter().all(is_other)
        {
            logs.index.remove(hash, tombstone.unit);
            logs.add_dead(tombstone.unit, tombstone.bytes);
            removed += 1;
        }
    }
    if has_moved {
        logs.pairs.push(hash);
    }
    removed
}
