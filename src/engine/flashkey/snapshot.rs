//! The logs and their index at one moment.

use super::get::{FoundValue, Sought, Wanted, find_many};
use super::indexed_logs::{IndexedLogs, OwnedRecord, find};
use crate::batch::TimestampMs;
use crate::cache::Ticket;
use crate::error::Result;
use crate::key::{Key, KeyHasher};
use crate::store::data_logs::{DataView, Frames, Unit};
use crate::store::ordered_keys::KeysSnapshot;
use crate::store::unit_index::{IndexSnapshot, KnownEntry};
use bytes::Bytes;
use siltstone_device::{Purpose, with_scratch};
use std::collections::VecDeque;
use std::sync::Arc;

/// The bytes that an iteration reads at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The records of one moment. While it is held, the first change of a page of the index copies that page, and segments
/// that are released keep their space.
#[derive(Clone)]
pub(crate) struct LogSnapshot {
    pub(super) index: Arc<IndexSnapshot>,
    pub(super) view: DataView,
    hasher: KeyHasher,
    pub(super) now_ms: TimestampMs,
}

impl LogSnapshot {
    /// Locks all writers for a moment.
    pub fn take(logs: &IndexedLogs, now_ms: TimestampMs) -> Result<LogSnapshot> {
        // With all writers locked no batch is indexed in part.
        let (index, view) = logs.with_all_writers(|| logs.look(|index| Ok(index.snapshot())))?;
        Ok(LogSnapshot { index: Arc::new(index), view, hasher: logs.hasher(), now_ms })
    }

    /// Also returns the keys in order of the same moment, if the database keeps them.
    ///
    /// # Errors
    /// Those of [`take`](Self::take).
    pub fn take_ordered(
        logs: &IndexedLogs,
        now_ms: TimestampMs,
    ) -> Result<Option<(LogSnapshot, KeysSnapshot)>> {
        let Some(keys) = &logs.keys else { return Ok(None) };
        // Under the same locks, so keys and entries are those of the same operations.
        let (looked, keys) =
            logs.with_all_writers(|| (logs.look(|index| Ok(index.snapshot())), keys.snapshot()));
        let (index, view) = looked?;
        let snapshot = LogSnapshot { index: Arc::new(index), view, hasher: logs.hasher(), now_ms };
        Ok(Some((snapshot, keys)))
    }

    /// Returns how keys are hashed.
    pub fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// Appends the value that a key had to `value`, and returns when it expires.
    pub fn get_into(&self, key: Key<'_>, value: &mut Vec<u8>) -> Result<Option<TimestampMs>> {
        let units = self.index.candidates(Purpose::Get, &[key.hash().placement])?.pop().unwrap_or_default();
        with_scratch(|buffer| {
            let Some(span) = find(&self.view, &units, key, Purpose::Get, buffer)? else { return Ok(None) };
            let record = span.view(buffer);
            Ok(record.value.filter(|_| !record.is_gone(self.now_ms)).map(|found| {
                value.extend_from_slice(found);
                record.expires_at_ms
            }))
        })
    }

    /// Returns the values that several keys had. The reads overlap.
    pub fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<FoundValue>>> {
        Ok(self.seek_many(keys)?.into_iter().map(Sought::found).collect())
    }

    /// Like [`get_many`](Self::get_many), and distinguishes keys without an entry in the logs.
    pub fn seek_many(&self, keys: &[Key<'_>]) -> Result<Vec<Sought<FoundValue>>> {
        let mut found = vec![Sought::Missing; keys.len()];
        let hashes: Vec<u64> = keys.iter().map(|key| key.hash().placement).collect();
        let candidates = self.index.candidates(Purpose::Get, &hashes)?;
        let wanted = keys.iter().zip(candidates).enumerate();
        let wanted =
            wanted.map(|(number, (key, units))| Wanted { number, key: *key, units, ticket: Ticket::NONE });
        find_many(Purpose::Get, &self.view, wanted.collect(), &mut |wanted, _, record| {
            let value = record.value.filter(|_| !record.is_gone(self.now_ms));
            found[wanted.number] = value.map_or(Sought::Gone, |value| {
                Sought::Found((Bytes::copy_from_slice(value), record.expires_at_ms))
            });
        })?;
        Ok(found)
    }

    /// Returns all records, segment by segment.
    pub fn records(&self) -> SnapshotRecords {
        let segments = self.view.segments().into_iter().map(|segment| (segment.class, segment.base));
        SnapshotRecords {
            segments: segments.collect(),
            snapshot: self.clone(),
            frames: None,
            ready: VecDeque::new(),
            failed: false,
        }
    }

    /// Returns whether the snapshot has this record, which is at `unit`, and no newer one of its key. `units` are
    /// those of its hash.
    fn has(&self, unit: Unit, units: &[Unit], key: &[u8]) -> Result<bool> {
        let key = self.hasher.key(key);
        let Some(rank) = units.iter().position(|other| *other == unit) else { return Ok(false) };
        // The first entry of a hash is newer than all others of its key.
        if rank == 0 {
            return Ok(true);
        }
        with_scratch(|buffer| Ok(find(&self.view, &units[..rank], key, Purpose::Iterate, buffer)?.is_none()))
    }
}

/// The records of a snapshot. Ends after the first error.
pub(crate) struct SnapshotRecords {
    snapshot: LogSnapshot,
    /// The segments that are still to be read.
    segments: VecDeque<(u8, u64)>,
    frames: Option<Frames>,
    /// Records that were read.
    ready: VecDeque<OwnedRecord>,
    failed: bool,
}

impl SnapshotRecords {
    /// Reads the next piece. Returns false at the end.
    fn read(&mut self) -> Result<bool> {
        let frames = match self.frames.take() {
            Some(frames) => Some(frames),
            None => self
                .segments
                .pop_front()
                .map(|(class, base)| self.snapshot.view.frames(class, base, Purpose::Iterate)),
        };
        let Some(mut frames) = frames else { return Ok(false) };
        let snapshot = &self.snapshot;
        let (mut records, mut hashes) = (Vec::new(), Vec::new());
        let has_more = frames.next_piece(PIECE_BYTES, &mut |unit, record, _| {
            let hash = snapshot.hasher.hash(record.key).placement;
            // Older records of the key are left out by this entry, which is before theirs.
            if record.is_gone(snapshot.now_ms) {
                return Ok(());
            }
            let known = snapshot.index.known(hash, unit);
            if known != KnownEntry::IsMissing {
                records.push((unit, known == KnownEntry::IsNewest, OwnedRecord::from(record)));
            }
            if known == KnownEntry::Unclear {
                hashes.push(hash);
            }
            Ok(())
        })?;
        let mut unclear = snapshot.index.candidates(Purpose::Index, &hashes)?.into_iter();
        for (unit, is_newest, record) in records {
            if is_newest || snapshot.has(unit, &unclear.next().unwrap_or_default(), &record.key)? {
                self.ready.push_back(record);
            }
        }
        self.frames = has_more.then_some(frames);
        Ok(true)
    }
}

impl Iterator for SnapshotRecords {
    type Item = Result<(Bytes, Bytes, TimestampMs)>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            if let Some(OwnedRecord { key, value, expires_at_ms }) = self.ready.pop_front() {
                return Some(Ok((Bytes::from(key), Bytes::from(value.unwrap_or_default()), expires_at_ms)));
            }
            match self.read() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
