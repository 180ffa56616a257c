//! Snapshots and scans of both stores. What flash has of a key is newer than what the disk has, also if it is a
//! tombstone.

use crate::batch::TimestampMs;
use crate::engine::flashkey::to_found;
use crate::engine::flashkey::{FoundValue, Groups, IndexedLogs, LogSnapshot, Sought};
use crate::engine::{Engine, Found, PageBuilder, Record, Records, ScanLimit, ScanPage, Snapshot};
use crate::error::Result;
use crate::key::{Key, KeyHasher};
use bytes::Bytes;
use std::collections::{HashSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The number of records of the disk that are looked up on flash together.
const RECORDS_AT_ONCE: usize = 128;

/// Adds what `look` finds below of the keys that are missing.
pub(super) fn add_missing(
    keys: &[Key<'_>],
    sought: &mut [Sought<FoundValue>],
    look: impl FnOnce(&[Key<'_>]) -> Result<Vec<Option<Found>>>,
) -> Result<()> {
    let missing: Vec<usize> =
        (0..keys.len()).filter(|number| matches!(sought[*number], Sought::Missing)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let wanted: Vec<Key<'_>> = missing.iter().map(|number| keys[*number]).collect();
    for (number, found) in missing.into_iter().zip(look(&wanted)?) {
        if let Some(Found { value, expires_at_ms }) = found {
            sought[number] = Sought::Found((value, expires_at_ms));
        }
    }
    Ok(())
}

/// The records of one moment.
pub(super) struct TieredSnapshot {
    pub flash: LogSnapshot,
    pub disk: Arc<dyn Snapshot>,
}

impl Snapshot for TieredSnapshot {
    fn get(&self, key: Key<'_>) -> Result<Option<Found>> {
        Ok(self.get_many(&[key])?.pop().flatten())
    }

    fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Found>>> {
        let mut sought = self.flash.seek_many(keys)?;
        add_missing(keys, &mut sought, |missing| self.disk.get_many(missing))?;
        Ok(to_found(sought))
    }

    /// Returns the records on flash, then those of the disk.
    fn records(&self) -> Records {
        let below = BelowFlash {
            flash: self.flash.clone(),
            hasher: self.flash.hasher(),
            disk: self.disk.records(),
            ready: VecDeque::new(),
            is_failed: false,
        };
        Box::new(Snapshot::records(&self.flash).chain(below))
    }
}

/// The records of the disk that have no newer version on flash. Ends after the first error.
struct BelowFlash {
    flash: LogSnapshot,
    hasher: KeyHasher,
    disk: Records,
    ready: VecDeque<Record>,
    is_failed: bool,
}

impl BelowFlash {
    /// Reads more records. Returns false at the end.
    fn read(&mut self) -> Result<bool> {
        let records = self.disk.by_ref().take(RECORDS_AT_ONCE).collect::<Result<Vec<Record>>>()?;
        let keys: Vec<Key<'_>> = records.iter().map(|record| self.hasher.key(&record.key)).collect();
        // In the snapshot, whose records were returned before: what it has must not be returned again.
        let sought = self.flash.seek_many(&keys)?;
        let is_end = records.is_empty();
        let of_disk = records.into_iter().zip(sought);
        // A tombstone on flash hides the record, too.
        let of_disk = of_disk.filter(|(_, sought)| matches!(sought, Sought::Missing));
        self.ready.extend(of_disk.map(|(record, _)| record));
        Ok(!is_end)
    }
}

impl Iterator for BelowFlash {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        while !self.is_failed {
            if let Some(record) = self.ready.pop_front() {
                return Some(Ok(record));
            }
            match self.read() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.is_failed = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// Reads one page of the records whose scan positions are in a range. Of each part of it flash is read before the disk:
/// a record that leaves meanwhile is on the disk before it is not on flash.
pub(super) fn scan(
    flash: &IndexedLogs,
    disk: &dyn Engine,
    positions: RangeInclusive<u64>,
    limit: ScanLimit,
    now_ms: TimestampMs,
) -> Result<ScanPage> {
    let mut page = PageBuilder::new(limit);
    let (mut from, end) = positions.into_inner();
    while from <= end {
        let entries = limit.records.clamp(1, RECORDS_AT_ONCE);
        let groups = Groups::read(flash, from, entries)?;
        let mut last = groups.next.map_or(end, |next| next.saturating_sub(1).min(end)).max(from);
        let below = disk.scan(from..=last, ScanLimit { records: entries, ..limit }, now_ms)?;
        // Only up to where both were read.
        last = below.next.map_or(last, |next| next.saturating_sub(1).min(last));
        let of_flash = groups.records.into_iter();
        let of_flash: Vec<_> = of_flash.filter(|(position, _)| (from..=last).contains(position)).collect();
        let hasher = flash.hasher();
        let mut records: Vec<(u64, Record)> = Vec::with_capacity(of_flash.len() + below.records.len());
        {
            // Also of tombstones and expired records, which hide what the disk has.
            let newer: HashSet<&[u8]> = of_flash.iter().map(|(_, record)| &record.key[..]).collect();
            let of_disk = below.records.into_iter().filter(|record| !newer.contains(&record.key[..]));
            records.extend(of_disk.map(|record| (hasher.hash(&record.key).placement, record)));
        }
        for (position, record) in of_flash {
            if !record.view().is_gone(now_ms) {
                let value = Bytes::from(record.value.filter(|_| !limit.keys_only).unwrap_or_default());
                let (key, expires_at_ms) = (record.key.into(), record.expires_at_ms);
                records.push((position, Record { key, value, expires_at_ms }));
            }
        }
        records.sort_by_key(|(position, _)| *position);
        let mut next = last.checked_add(1);
        for (position, record) in records {
            if !page.push(position, || record) {
                return Ok(page.finish(None));
            }
            if page.is_full() {
                next = position.checked_add(1);
            }
        }
        if last >= end {
            break;
        }
        if page.is_full() {
            return Ok(page.finish(next));
        }
        from = last + 1;
    }
    Ok(page.finish(None))
}
