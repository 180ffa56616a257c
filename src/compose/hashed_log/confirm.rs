//! Confirming: the records of entries with an equal hash are read, and of each key the youngest entry remains.

use super::indexed_logs::IndexedLogs;
use crate::Result;
use crate::device::Purpose;
use crate::store::data_logs::Unit;
use crate::store::log_index::Candidates;

/// The maximum number of hashes that one step compares.
const HASHES_PER_STEP: usize = 64;
/// The number of entries that a step of a sweep searches.
const SWEEP_ENTRIES: usize = 16_384;

/// What was read of an entry's record.
struct Compared {
    unit: Unit,
    key: Vec<u8>,
    is_tombstone: bool,
    bytes: u32,
}

/// Compares the records of some queued hashes. Returns the number of entries that were removed, or `None` if no hash
/// was queued.
pub(super) fn confirm(logs: &IndexedLogs) -> Result<Option<u64>> {
    let hashes = logs.pairs.take(HASHES_PER_STEP);
    if hashes.is_empty() {
        return Ok(None);
    }
    let (groups, view) = logs.look(|index| {
        let groups = hashes.iter().map(|hash| (*hash, index.candidates(*hash)));
        groups.filter(|(_, units)| units.len() > 1).collect::<Vec<(u64, Candidates)>>()
    });
    let units: Vec<Unit> = groups.iter().flat_map(|(_, units)| units.iter().copied()).collect();
    let mut records: Vec<Option<Compared>> = units.iter().map(|_| None).collect();
    view.read_many(Purpose::Collect, &units, &mut |number, record| {
        let bytes = logs.data.frame_bytes(record);
        let (key, is_tombstone) = (record.key.to_vec(), record.value.is_none());
        records[number] = Some(Compared { unit: units[number], key, is_tombstone, bytes });
        Ok(())
    })?;
    let (mut records, mut removed) = (records.into_iter(), 0);
    for (hash, units) in groups {
        let group: Vec<Compared> = records.by_ref().take(units.len()).flatten().collect();
        removed += logs.with_writers(std::iter::once(hash), || {
            logs.health().run(|| Ok(keep_youngest(logs, hash, &group)))
        })?;
    }
    Ok(Some(removed))
}

/// Removes the entries of records that a younger one replaces, and of tombstones of which no older record is left. The
/// writer of the shard is locked; entries that have changed since they were read are left for the next time. Returns
/// how many were removed.
fn keep_youngest(logs: &IndexedLogs, hash: u64, group: &[Compared]) -> u64 {
    let mut removed = 0;
    let rank = |units: &Candidates, unit: Unit| units.iter().position(|other| *other == unit);
    let mut has_moved = false;
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

/// A search of the index for hashes of several entries.
pub(super) struct Sweep {
    /// The hash with which the next step begins.
    from: u64,
}

impl Sweep {
    pub fn begin(logs: &IndexedLogs) -> Sweep {
        logs.pairs.begin_sweep();
        Sweep { from: 0 }
    }

    /// Searches some entries. Returns the search unless it is complete.
    pub fn step(mut self, logs: &IndexedLogs) -> Option<Sweep> {
        let range = logs.index.range(self.from, SWEEP_ENTRIES);
        let mut last = None;
        for pair in range.entries.windows(2) {
            let hash = pair[0].0;
            if hash == pair[1].0 && last != Some(hash) {
                logs.pairs.push(hash);
                last = Some(hash);
            }
        }
        self.from = range.next?;
        Some(self)
    }
}
