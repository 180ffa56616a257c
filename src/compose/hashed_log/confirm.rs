//! Confirming: the records of entries with an equal hash are read, and of each key the youngest entry remains.
//!
//! Keys are compared by a hash of 64 bits with a secret of this opening, so that the key of a put need not be read
//! again. Two different keys whose hashes in the index are equal are taken for one with a probability of 2^-64.

use super::indexed_logs::IndexedLogs;
use super::pairs::Pair;
use super::settings::Mistake;
use crate::Result;
use crate::device::Purpose;
use crate::store::data_logs::{DataView, USER, Unit};
use crate::store::log_index::{Candidates, Lookup};

/// The maximum number of hashes that one step compares.
const HASHES_PER_STEP: usize = 128;

/// What is known of an entry's record.
#[derive(Default)]
pub(super) struct Compared {
    pub unit: Unit,
    /// The secret hash of its key.
    pub key: u64,
    pub is_tombstone: bool,
    pub bytes: u32,
}

/// Compares the records of some queued hashes. Returns the number of entries that were removed, or `None` if no hash
/// was queued.
pub(super) fn confirm(logs: &IndexedLogs) -> Result<Option<u64>> {
    let pairs = logs.pairs.take(HASHES_PER_STEP);
    if pairs.is_empty() { Ok(None) } else { compare(logs, &pairs).map(Some) }
}

/// Reads the records of the entries of these hashes, except those whose keys are known, and leaves the youngest entry
/// of each key. Returns the number of entries that were removed.
pub(super) fn compare(logs: &IndexedLogs, pairs: &[Pair]) -> Result<u64> {
    let hashes: Vec<u64> = pairs.iter().map(|pair| pair.hash).collect();
    let (groups, view) = logs.look(|index| {
        let lookups = index.look_up(&hashes)?.into_iter().zip(pairs);
        let groups = lookups.map(|(lookup, pair)| Ok((pair, index.candidates_of(&lookup)?, lookup)));
        groups.collect::<Result<Vec<(&Pair, Candidates, Lookup)>>>()
    })?;
    let groups: Vec<_> = groups.into_iter().filter(|(_, units, _)| units.len() > 1).collect();
    let mut records: Vec<Compared> = Vec::with_capacity(2 * groups.len());
    let mut unread: Vec<usize> = Vec::with_capacity(groups.len());
    for (pair, units, _) in &groups {
        for (rank, unit) in units.iter().enumerate() {
            // The first one is never removed in favour of another, so its length is not needed.
            let is_known =
                rank == 0 && *unit == pair.youngest && view.segment_of(*unit) == Some((USER, pair.base));
            if !is_known {
                unread.push(records.len());
            }
            records.push(Compared { unit: *unit, key: pair.key_hash, ..Compared::default() });
        }
    }
    let units: Vec<Unit> = unread.iter().map(|number| records[*number].unit).collect();
    view.read_many(Purpose::Collect, &units, &mut |number, record| {
        let compared = &mut records[unread[number]];
        compared.bytes = logs.data.frame_bytes(record);
        (compared.key, compared.is_tombstone) = (logs.secret_hash(record.key), record.value.is_none());
        Ok(())
    })?;
    let (mut records, mut removed) = (records.into_iter(), 0);
    for (_, units, lookup) in groups {
        removed += keep_youngest(logs, &lookup, &view, records.by_ref().take(units.len()).collect())?;
    }
    Ok(removed)
}

/// Locks the writer of the shard, and removes the entries of records that a younger one replaces, and of tombstones of
/// which no older record is left. `group` has records of this hash that were read in `view`, the youngest first;
/// entries that have changed since are left for the next time. Returns how many were removed.
pub(super) fn keep_youngest(
    logs: &IndexedLogs,
    lookup: &Lookup,
    view: &DataView,
    mut group: Vec<Compared>,
) -> Result<u64> {
    let remove = || {
        let now = logs.data.view();
        // The place of a segment that was released may be that of another one.
        let before = group.len();
        group.retain(|record| now.segment_of(record.unit) == view.segment_of(record.unit));
        let has_moved = group.len() < before;
        remove_replaced(logs, lookup, &group, has_moved)
    };
    logs.with_writers(std::iter::once(lookup.hash()), || logs.health().run(remove))
}

fn remove_replaced(
    logs: &IndexedLogs,
    lookup: &Lookup,
    group: &[Compared],
    mut has_moved: bool,
) -> Result<u64> {
    let hash = lookup.hash();
    let mut removed = 0;
    let rank = |units: &Candidates, unit: Unit| units.iter().position(|other| *other == unit);
    for (number, older) in group.iter().enumerate() {
        let Some(younger) = group[..number].iter().find(|younger| younger.key == older.key) else { continue };
        let units = logs.index.candidates_of(lookup)?;
        match (rank(&units, younger.unit), rank(&units, older.unit)) {
            (Some(young), Some(old)) if young < old => {
                let keeps_older = logs.settings.makes(Mistake::KeepsTheOlder);
                let gone = if keeps_older { younger } else { older };
                logs.index.remove(hash, gone.unit);
                logs.add_dead(gone.unit, gone.bytes);
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
        let units = logs.index.candidates_of(lookup)?;
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
    Ok(removed)
}
