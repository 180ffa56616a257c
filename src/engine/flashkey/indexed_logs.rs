//! The logs with their index, and the locks that keep both in the same order.

use super::below::Below;
use super::bound::Bound;
use super::left::Left;
use super::log_settings::LogSettings;
use super::unconfirmed::{NewerKey, Unconfirmed};
use crate::batch::NEVER;
use crate::engine::jobs::with_locks;
use crate::error::Result;
use crate::health::Health;
use crate::key::{Key, KeyHasher};
use crate::store::CompactionFilter;
use crate::store::data_logs::{DataLogs, DataView, SegmentInfo, Unit};
use crate::store::manifest::Header;
use crate::store::ordered_keys::{KeyState, OrderedKeys};
use crate::store::record::{RecordSpan, RecordView};
use crate::store::unit_index::{LogIndex, Residency};
use siltstone_device::sync::Mutex;
use siltstone_device::sync::atomic::{AtomicU64, Ordering::Relaxed};
use siltstone_device::{AlignedBuffer, Directory, Purpose};
use std::sync::{Arc, OnceLock};

/// The class of records that the store below has as well. Only databases with such a store have it: in others it is one
/// of moved records.
pub const CLEAN: u8 = 3;

/// The logs of a database and their index.
pub(crate) struct IndexedLogs {
    pub directory: Directory,
    pub header: Header,
    pub settings: LogSettings,
    pub(super) data: Arc<DataLogs>,
    pub(super) index: LogIndex,
    /// The keys in order, if the database keeps them.
    pub(super) keys: Option<OrderedKeys>,
    pub(super) unconfirmed: Unconfirmed,
    /// Decides which records stay when they are moved. Set once, before there is background work.
    compaction_filter: OnceLock<CompactionFilter>,
    /// The store to which records leave, if there is one.
    pub(super) below: Option<Arc<dyn Below>>,
    /// Held while records leave: from before they are written below until they have no entries.
    pub(super) leaving: Mutex<()>,
    /// The number of segments of the user log whose records leave or have left.
    pub(super) leavings: AtomicU64,
    /// The number of entries of clean records: those that the store below has as well.
    clean: AtomicU64,
    /// Hashes whole keys to compare them.
    secret: KeyHasher,
    /// The writer of each shard of the index, locked from before a record is appended until it is indexed.
    writers: Box<[Mutex<()>]>,
    /// The keys that a cache has evicted and that may come back, and counts of what becomes of records.
    pub(super) left: Left,
    pub counts: Counts,
    pub(super) bound: Bound,
    /// The bytes of all frames that entries point to, and of one on average.
    indexed_bytes: AtomicU64,
    frame_bytes: AtomicU64,
}

impl IndexedLogs {
    pub fn new(
        directory: Directory,
        header: Header,
        settings: LogSettings,
        data: DataLogs,
        index: LogIndex,
        keys: Option<OrderedKeys>,
        secret: KeyHasher,
    ) -> IndexedLogs {
        let writers = (0..index.shards()).map(|_| Mutex::new(())).collect();
        let left = Left::new(settings.segment_bytes, settings.is_cache());
        IndexedLogs {
            directory,
            header,
            settings,
            data: Arc::new(data),
            index,
            keys,
            unconfirmed: Unconfirmed::default(),
            compaction_filter: OnceLock::new(),
            below: None,
            leaving: Mutex::new(()),
            leavings: AtomicU64::new(0),
            clean: AtomicU64::new(0),
            secret,
            writers,
            left,
            counts: Counts::default(),
            bound: Bound::default(),
            indexed_bytes: AtomicU64::new(0),
            frame_bytes: AtomicU64::new(0),
        }
    }

    /// Sets the store to which records leave.
    pub fn over(self, below: Option<Arc<dyn Below>>) -> IndexedLogs {
        IndexedLogs { below, ..self }
    }

    /// Sets what decides which records stay when they are moved.
    pub fn set_compaction_filter(&self, filter: CompactionFilter) {
        // Each open sets it once.
        let _ = self.compaction_filter.set(filter);
    }

    /// Returns whether a record stays when it is moved.
    pub fn keeps(&self, record: &RecordView<'_>) -> bool {
        self.compaction_filter.get().is_none_or(|filter| filter.keeps(record))
    }

    pub fn health(&self) -> &Arc<Health> {
        self.data.health()
    }

    pub fn hasher(&self) -> KeyHasher {
        self.header.hasher
    }

    /// Returns a hash of a whole key, by which keys are compared while the database is open.
    pub(super) fn secret_hash(&self, key: &[u8]) -> u64 {
        self.secret.hash(key).placement
    }

    /// Returns the number of overwrites that are not confirmed.
    pub fn unconfirmed(&self) -> u64 {
        self.unconfirmed.count()
    }

    /// Notes that the record at a unit of the view is probably replaced by a newer one with this key. The writer of
    /// its shard is locked, or the view is the present one.
    pub(super) fn note_overwrite(&self, view: &DataView, unit: Unit, key: NewerKey) {
        // A unit whose number needs more than 32 bits gets no note. Cleaning then compares its record.
        if let Some((id, number)) = view.locate(unit) {
            self.unconfirmed.note(id, number, key);
        }
    }

    /// Returns the first unit of a segment.
    pub(super) fn first_unit(&self, segment: &SegmentInfo) -> Unit {
        u64::from(segment.slot) * self.data.units_per_slot()
    }

    /// Reserves a segment for a job. Returns false if another one has it, or has cleaned and released it since it was
    /// chosen.
    pub fn hold(&self, segment: &SegmentInfo) -> bool {
        let id = (segment.class, segment.base);
        if !self.unconfirmed.hold(id) {
            return false;
        }
        // A job ends its reservation after the release, so this view does not have a segment that was released.
        let is_live = self.data.view().segment_of(self.first_unit(segment)) == Some(id);
        if !is_live {
            self.unconfirmed.forget(id);
        }
        is_live
    }

    #[cfg(test)]
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.data.view().segments()
    }

    /// Returns the bytes of all logs on flash.
    pub fn disk_bytes(&self) -> u64 {
        let keys = self.keys.as_ref().map_or(0, OrderedKeys::disk_bytes);
        self.data.disk_bytes() + self.index.redo().disk_bytes() + keys
    }

    /// Returns the number of runs of keys in order, and of keys in them.
    pub fn key_runs(&self) -> (u64, u64) {
        self.keys.as_ref().map_or((0, 0), OrderedKeys::run_counts)
    }

    /// Returns how many deleted keys ranges in key order have passed.
    pub fn deleted_keys_passed(&self) -> u64 {
        self.keys.as_ref().map_or(0, OrderedKeys::passed)
    }

    /// Returns the bytes of the logs of data on flash.
    pub fn data_bytes(&self) -> u64 {
        self.data.disk_bytes()
    }

    /// Returns the number of entries without those that are probably of a key that has a newer one. Reads nothing,
    /// and counts tombstones and what has expired.
    pub fn probable_keys(&self) -> u64 {
        // The counts are of different moments, so the difference may be negative for a moment.
        self.index.len().saturating_sub(self.unconfirmed() + self.clean())
    }

    /// Returns the number of entries of clean records: those that the store below has as well.
    pub fn clean(&self) -> u64 {
        self.clean.load(Relaxed)
    }

    /// Adds entries of clean records.
    pub(super) fn add_clean(&self, entries: u64) {
        self.clean.fetch_add(entries, Relaxed);
    }

    /// Returns whether the store below may have a record of the key, which a tombstone has to hide.
    pub(super) fn is_below(&self, key: Key<'_>) -> bool {
        self.below.as_ref().is_some_and(|below| below.may_contain(key))
    }

    /// Returns whether a key without an entry needs a tombstone: the store below may have a record, or a record that
    /// has left may come back after a power loss.
    pub(super) fn may_come_back(&self, key: Key<'_>) -> bool {
        self.is_below(key) || self.left.may_have(key.hash().placement)
    }

    /// Counts a lookup in logs whose records may leave.
    #[inline]
    pub(super) fn count_lookup(&self, is_found: bool) {
        if self.settings.recycling.is_some() {
            let count = if is_found { &self.counts.found } else { &self.counts.missing };
            count.fetch_add(1, Relaxed);
        }
    }

    /// Keeps all records on flash, and the store below as it is, until the result is dropped.
    pub fn hold_leaving(&self) -> impl Sized + '_ {
        self.leaving.lock()
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.writers.len()
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> u64 {
        self.index.len()
    }

    /// Notes an operation for the order of the keys. The writer of the key's shard is locked.
    #[inline]
    pub(super) fn note_key(&self, record: &RecordView<'_>) {
        if let Some(keys) = &self.keys {
            let state = match (record.value, record.expires_at_ms) {
                (None, _) => KeyState::Deleted,
                (Some(_), NEVER) => KeyState::Live,
                (Some(_), _) => KeyState::Expiring,
            };
            keys.insert(record.key, state);
        }
    }

    /// Returns where the entries are.
    pub fn residency(&self) -> Residency {
        self.index.residency()
    }

    /// Returns the number of pages of the index that lookups have read.
    pub fn index_page_reads(&self) -> u64 {
        self.index.page_reads()
    }

    /// Runs `work` while the writers of the shards of these hashes are locked.
    #[inline]
    pub(super) fn with_writers<T>(
        &self,
        hashes: impl ExactSizeIterator<Item = u64>,
        work: impl FnOnce() -> T,
    ) -> T {
        let shards = hashes.map(|hash| self.index.shard_of(hash));
        with_locks(|shard| &self.writers[shard], shards, work)
    }

    /// Runs `work` while the writers of all shards are locked.
    pub(super) fn with_all_writers<T>(&self, work: impl FnOnce() -> T) -> T {
        with_locks(|shard| &self.writers[shard], 0..self.writers.len(), work)
    }

    /// Returns what `look` finds in the index, with a view of the logs at the same moment: what the entries point to
    /// can be read in it.
    #[inline]
    pub(super) fn look<T>(&self, look: impl Fn(&LogIndex) -> Result<T>) -> Result<(T, DataView)> {
        loop {
            let view = self.data.view();
            // After the view: a later one may lack a segment that the entries point to.
            let found = look(&self.index)?;
            // If a segment was released since the view, another one may have its place. A unit of that would be read
            // from the released one.
            if self.data.is_current(&view) {
                return Ok((found, view));
            }
        }
    }

    /// Notes the bytes of a frame that an entry points to from now on.
    pub(super) fn add_live(&self, bytes: u32) {
        self.indexed_bytes.fetch_add(u64::from(bytes), Relaxed);
    }

    /// Notes that no entry points to a frame any more.
    pub(super) fn add_dead(&self, unit: Unit, bytes: u32) {
        // The bytes at an open are an estimate if records are of any size.
        let subtract = |indexed: u64| Some(indexed.saturating_sub(u64::from(bytes)));
        let _ = self.indexed_bytes.fetch_update(Relaxed, Relaxed, subtract);
        if self.data.add_dead(unit, u64::from(bytes)) == Some(CLEAN) && self.settings.has_below {
            let _ = self.clean.fetch_update(Relaxed, Relaxed, |clean| clean.checked_sub(1));
        }
    }

    /// Sets the bytes of frames that entries point to.
    pub(super) fn set_indexed_bytes(&self, bytes: u64) {
        self.indexed_bytes.store(bytes, Relaxed);
    }

    /// Updates the average of these bytes. `entries` is the number of entries.
    pub(super) fn average_frames(&self, entries: u64) {
        self.frame_bytes.store(self.indexed_bytes.load(Relaxed) / entries.max(1), Relaxed);
    }

    /// Returns the bytes of live frames: those that entries point to, without those that are probably replaced.
    pub fn live_bytes(&self) -> u64 {
        let replaced = self.unconfirmed() * self.frame_bytes.load(Relaxed);
        self.indexed_bytes.load(Relaxed).saturating_sub(replaced)
    }

    /// Returns the bytes of live frames that the store below does not have, about.
    pub fn dirty_bytes(&self) -> u64 {
        self.live_bytes().saturating_sub(self.clean() * self.frame_bytes.load(Relaxed))
    }
}

/// Reads the records of `units`, the newest first, until one has this key. Returns where it is in `buffer`.
#[inline]
pub(super) fn find(
    view: &DataView,
    units: &[Unit],
    key: Key<'_>,
    purpose: Purpose,
    buffer: &mut AlignedBuffer,
) -> Result<Option<RecordSpan>> {
    for unit in units {
        let span = view.read(purpose, *unit, buffer)?;
        if span.view(buffer).key == key.bytes() {
            return Ok(Some(span));
        }
    }
    Ok(None)
}

/// Counts of logs whose records may leave, since the open.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Lookups that found a record in the logs, and none. Those in the record cache do not count.
    pub found: AtomicU64,
    pub missing: AtomicU64,
    /// Records that were put here because they were found below.
    pub promoted: AtomicU64,
    /// Records and tombstones that have left.
    pub left: AtomicU64,
}

/// Where a record of a key was read: its unit and segment, and the length of its frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordPlace {
    pub unit: Unit,
    pub segment: Option<(u8, u64)>,
    pub bytes: u32,
}

/// A record that was copied.
#[derive(Debug, Clone)]
pub(crate) struct OwnedRecord {
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
    pub expires_at_ms: u64,
}

impl From<&RecordView<'_>> for OwnedRecord {
    fn from(record: &RecordView<'_>) -> OwnedRecord {
        OwnedRecord {
            key: record.key.to_vec(),
            value: record.value.map(<[u8]>::to_vec),
            expires_at_ms: record.expires_at_ms,
        }
    }
}

impl OwnedRecord {
    pub fn heap_bytes(&self) -> usize {
        self.key.capacity() + self.value.as_ref().map_or(0, Vec::capacity)
    }

    pub fn view(&self) -> RecordView<'_> {
        RecordView { key: &self.key, value: self.value.as_deref(), expires_at_ms: self.expires_at_ms }
    }
}
