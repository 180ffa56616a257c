//! Recycling: the records of a segment that were not read since they came leave, so that the logs do not grow.
//!
//! ```text
//! marked             -> moved, and the mark is taken: a second chance (FlashStore, 4.5)
//! clean              -> the entry is removed: the store below has the record
//! value              -> put below, durably -> the entry is removed
//! gone               -> deleted below, if it may be there -> the entry is removed
//! end of the segment -> released, after the redo of all this is durable
//! ```
//!
//! 1. As in a cleaning, a step reads a piece of the segment, and finds the records that have an entry.
//! 2. Marked records stay, without the mark. While a compaction runs over a store below, only clean ones do.
//! 3. Of each key with several entries, only the newest remains.
//! 4. The others are written below, durably. No snapshot of both stores is taken from here to step 5.
//! 5. With the writer of the shard locked, their entries are removed, unless an older entry may be of the same key.
//! 6. What stays is moved. After the last piece the segment is released, as in a cleaning.
//!
//! A record that leaves is below before it has no entry, so a lookup that finds no entry, and then looks below, finds
//! it. Of several versions of a key the newest leaves last: a record leaves only when all older entries of its hash
//! are of other keys. So what the logs have of a key is never older than what the store below has.
//!
//! Without a store below the records are lost: the logs are a cache.

use super::clean::{Cleaning, Live};
use super::commits::Commits;
use super::confirm::compare;
use super::indexed_logs::{CLEAN, IndexedLogs, OwnedRecord};
use super::log_settings::Mistake;
use crate::batch::{Durability, HashedWrite, TimestampMs};
use crate::error::Result;
use crate::key::{Key, KeyHasher};
use crate::store::data_logs::{SegmentInfo, USER, Unit};
use siltstone_device::Purpose;
use siltstone_device::sync::atomic::Ordering::Relaxed;
use std::collections::HashSet;

/// The class of records that stay, and are not in the store below.
pub const KEPT: u8 = 1;

/// An entry: its hash, its unit, and the class and base of the segment of the unit.
type LeavingEntry = (u64, Unit, Option<(u8, u64)>);

impl IndexedLogs {
    /// Notes that records of a segment leave from now on. Returns the class to which the others move.
    pub(super) fn begin_leaving(&self, segment: &SegmentInfo) -> u8 {
        if segment.class == USER {
            // Before the first record leaves: a promotion that finds no entry of a newer record must see this.
            self.leavings.fetch_add(1, Relaxed);
        }
        if segment.class == CLEAN && self.settings.has_below { CLEAN } else { KEPT }
    }

    /// Returns which entries of the hashes of these records are older than them, and have other keys.
    fn older_of_other_keys(&self, records: &[Live]) -> Result<HashSet<LeavingEntry>> {
        let mut others = HashSet::new();
        for live in records {
            // Without a lock: `remove` compares the entries with these, once the writer is locked.
            let (units, view) = self.look(|index| index.candidates_of(&live.lookup))?;
            let rank = units.iter().position(|unit| *unit == live.unit).unwrap_or(units.len());
            let older: Vec<Unit> = units.iter().skip(rank + 1).copied().collect();
            view.read_many(Purpose::Collect, &older, &mut |number, record| {
                if record.key != live.record.key {
                    let unit = older[number];
                    others.insert((live.lookup.hash(), unit, view.segment_of(unit)));
                }
                Ok(())
            })?;
        }
        Ok(others)
    }
}

/// Returns the write that takes a record to the store below, if one is needed.
fn write_below<'r>(
    logs: &IndexedLogs,
    hasher: KeyHasher,
    record: &'r OwnedRecord,
    now_ms: TimestampMs,
) -> Option<HashedWrite<'r>> {
    let key: Key<'r> = hasher.key(&record.key);
    match &record.value {
        Some(value) if !record.view().is_gone(now_ms) => {
            Some(HashedWrite::put(key, value, record.expires_at_ms))
        }
        _ => logs.is_below(key).then(|| HashedWrite::delete(key)),
    }
}

/// Returns the records that have an entry. One that a newer record replaces must not be written below: if that is a
/// tombstone, it may leave with the same write.
fn still_live(logs: &IndexedLogs, records: Vec<Live>) -> Result<Vec<Live>> {
    let mut live = Vec::with_capacity(records.len());
    for record in records {
        if logs.index.candidates_of(&record.lookup)?.contains(&record.unit) {
            live.push(record);
        }
    }
    Ok(live)
}

impl Cleaning {
    /// Lets records leave. Returns those that stay, in the same order.
    pub(super) fn leave(
        &mut self,
        logs: &IndexedLogs,
        commits: &Commits,
        live: Vec<Live>,
        now_ms: TimestampMs,
    ) -> Result<Vec<Live>> {
        let is_kept = |live: &Live| {
            let is_marked = logs.index.take_mark(live.lookup.hash(), live.unit);
            let may_stay = !self.compacts || !logs.settings.has_below || self.segment.class == CLEAN;
            is_marked && may_stay && !live.record.view().is_gone(now_ms)
        };
        let (mut stay, leave): (Vec<Live>, Vec<Live>) = live.into_iter().partition(is_kept);
        // Of most hashes there is one entry.
        let mut several = Vec::new();
        for live in &leave {
            if logs.index.candidates_of(&live.lookup)?.len() > 1 {
                several.push(live.of_hash(logs));
            }
        }
        // Of each key only the newest record may leave, so the older ones lose their entries first.
        compare(logs, &several)?;
        let leave = still_live(logs, leave)?;
        let others = if several.is_empty() { HashSet::new() } else { logs.older_of_other_keys(&leave)? };

        // A snapshot of both stores holds this: between its two parts no record may reach the store below.
        let _leaving = logs.leaving.lock();
        let is_late = logs.settings.makes(Mistake::RemovesBeforeDestage);
        if is_late {
            self.late.extend(leave.iter().map(|live| live.record.clone()));
        } else {
            self.write_below(logs, commits, leave.iter().map(|live| &live.record), now_ms)?;
        }
        // A store below has all of them durably by now: redo may make the removal of an entry durable at any time.
        let shard_of = |live: &Live| logs.index.shard_of(live.lookup.hash());
        let mut left = leave.into_iter().peekable();
        while let Some(first) = left.next() {
            let shard = shard_of(&first);
            let mut of_shard = vec![first];
            of_shard.extend(std::iter::from_fn(|| left.next_if(|live| shard_of(live) == shard)));
            let hash = of_shard[0].lookup.hash();
            let remove = || logs.health().run(|| self.remove(logs, of_shard, &others, &mut stay));
            logs.with_writers(std::iter::once(hash), remove)?;
        }
        // They are moved shard by shard.
        stay.sort_by_key(shard_of);
        Ok(stay)
    }

    /// Writes the records that were to be written before.
    pub(super) fn write_late(
        &mut self,
        logs: &IndexedLogs,
        commits: &Commits,
        now_ms: TimestampMs,
    ) -> Result<()> {
        let late = std::mem::take(&mut self.late);
        self.write_below(logs, commits, late.iter(), now_ms)
    }

    /// Writes records to the store below, if there is one and they are not there.
    fn write_below<'r>(
        &self,
        logs: &IndexedLogs,
        commits: &Commits,
        records: impl Iterator<Item = &'r OwnedRecord>,
        now_ms: TimestampMs,
    ) -> Result<()> {
        // What is clean is below already: the entry goes without a write.
        let Some(below) = logs.below.as_ref().filter(|_| self.segment.class != CLEAN) else { return Ok(()) };
        let hasher = logs.hasher();
        let writes: Vec<_> = records.filter_map(|record| write_below(logs, hasher, record, now_ms)).collect();
        if writes.is_empty() {
            return Ok(());
        }
        // The records were put before the segment ended or, if it has moved records, before its order. The order may be
        // later than what the manifest states as synced, but records move only from finished segments.
        let end = if self.segment.class == USER {
            self.segment.base + self.segment.bytes
        } else {
            self.segment.order
        };
        below.expect(end.min(commits.finished_to()[usize::from(USER)]))?;
        let is_synced = !logs.settings.makes(Mistake::DestagesWithoutSync);
        below.write(&writes, if is_synced { Durability::Synced } else { Durability::Buffered }, now_ms)
    }

    /// Removes the entries of records of a shard, whose writer is locked. Those that have to stay are added to `stay`:
    /// older entries of their hashes may be of their keys.
    fn remove(
        &mut self,
        logs: &IndexedLogs,
        records: Vec<Live>,
        others: &HashSet<LeavingEntry>,
        stay: &mut Vec<Live>,
    ) -> Result<()> {
        let view = logs.data.view();
        for live in records {
            let (hash, units) = (live.lookup.hash(), logs.index.candidates_of(&live.lookup)?);
            // Overwritten since the piece was read.
            let Some(rank) = units.iter().position(|unit| *unit == live.unit) else { continue };
            // With the segment: by now, the unit may be the place of another record.
            let is_other = |unit: &Unit| others.contains(&(hash, *unit, view.segment_of(*unit)));
            // An older entry would be found once this one is gone.
            if !units[rank + 1..].iter().all(is_other) {
                stay.push(live);
                continue;
            }
            logs.index.remove(hash, live.unit);
            // A crash may bring the entry back. Until its removal is durable, a delete writes a tombstone.
            logs.left.note(hash);
            logs.counts.left.fetch_add(1, Relaxed);
            logs.add_dead(live.unit, live.bytes);
        }
        Ok(())
    }
}
