//! Bulk loading: records are sorted by their placement and merged into the SortedStores, partition by partition.
//!
//! 1. `put` adds records to an external sort. Nothing of the database changes.
//! 2. `finish` sorts them by whole placements, so partitions follow each other, and one pass feeds all merges.
//! 3. The merge of a partition takes the loaded records as the newest of its sources, so a load is as atomic per
//!    partition, and recovers in the same way, as any merge. It waits until no conversion or chain of the partition is
//!    in progress: their records are older.
//! 4. While a partition is merged, `update`, `insert_if_absent` and `transact` of its keys wait (`loading`). Other
//!    writes do not: they count as after the load.
//! 5. An interruption abandons the merge in progress. The partitions that were merged before keep their records.
//!
//! A new database writes each record once.

use super::merge::Loaded;
use super::put::Writer;
use crate::batch::TimestampMs;
use crate::engine::BulkLoad;
use crate::error::{Error, Result};
use crate::key::{Key, KeyHash, PartitionHasher};
use crate::progress::Progress;
use crate::store::merge::{Cursor, PlacedRecord};
use crate::store::record::{RecordShape, RecordView};
use crate::store::sort::{Duplicates, ExternalSort, FAN_IN_MAX, SortSettings, SortedRecords};
use siltstone_device::sync::Mutex;
use std::sync::Arc;

/// A load of an engine of partitions.
pub(super) struct SiltBulkLoad<'a> {
    writer: &'a Writer,
    sort: ExternalSort,
    /// The records of each partition and the bytes of their keys and values, with duplicates.
    parts: Vec<(u64, u64)>,
}

impl SiltBulkLoad<'_> {
    /// Begins a load that sorts in this much memory, in bytes.
    pub fn begin(writer: &Writer, memory_bytes: usize) -> Result<SiltBulkLoad<'_>> {
        let configuration = &writer.parts.configuration;
        let header = &configuration.header;
        // By whole hashes, so that the partitions follow each other in the sorted records.
        let hasher = PartitionHasher { partitions_log2: 0, ..configuration.hasher };
        let settings = SortSettings {
            shape: RecordShape { layout: header.layout, hasher },
            memory_bytes,
            fan_in_max: FAN_IN_MAX,
            duplicates: Duplicates::LastWins,
        };
        let sort = ExternalSort::new(configuration.directory.clone(), settings)?;
        Ok(SiltBulkLoad { writer, sort, parts: vec![(0, 0); configuration.partitions()] })
    }
}

impl BulkLoad for SiltBulkLoad<'_> {
    fn put(
        &mut self,
        key: Key<'_>,
        value: &[u8],
        expires_at_ms: TimestampMs,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let record = RecordView { key: key.bytes(), value: Some(value), expires_at_ms };
        self.sort.push(&record, progress)?;
        let (records, bytes) =
            &mut self.parts[key.hash().partition(self.writer.parts.configuration.hasher.partitions_log2)];
        *records += 1;
        *bytes += (record.key.len() + value.len()) as u64;
        Ok(())
    }

    fn finish(self: Box<Self>, now_ms: TimestampMs, progress: &mut Progress<'_>) -> Result<()> {
        let SiltBulkLoad { writer, sort, parts } = *self;
        let sorted = sort.finish(progress)?;
        let total_bytes = parts.iter().map(|(_, bytes)| bytes).sum();
        let feed = Arc::new(Mutex::new(Feed { records: sorted, is_ahead: false, passed_bytes: 0 }));
        for (partition, (records, bytes)) in parts.into_iter().enumerate().filter(|(_, part)| part.0 > 0) {
            let partitions_log2 = writer.parts.configuration.hasher.partitions_log2;
            let cursor = PartCursor {
                feed: feed.clone(),
                partition,
                partitions_log2,
                hash: KeyHash { placement: 0, fingerprint: 0 },
                key: Vec::new(),
                value: None,
                expires_at_ms: 0,
            };
            let loaded =
                Loaded { cursor: Box::new(cursor), records, bytes, cache: writer.parts.cache.clone() };
            let _loading = writer.begin_load(partition);
            let mut go_on = || progress(feed.lock().passed_bytes.min(total_bytes), total_bytes);
            writer.scheduler.load(partition, loaded, now_ms, &mut go_on)?;
            // Only now: an interrupted merge has written nothing to its partition.
            writer.writes.add(records, bytes);
        }
        if progress(total_bytes, total_bytes) { Ok(()) } else { Err(Error::Interrupted) }
    }
}

/// The sorted records, which the partitions take one after the other.
struct Feed {
    records: SortedRecords,
    /// The current record is not yet taken: it belongs to a later partition.
    is_ahead: bool,
    passed_bytes: u64,
}

/// The sorted records of one partition.
struct PartCursor {
    feed: Arc<Mutex<Feed>>,
    partition: usize,
    partitions_log2: u32,
    /// The current record, copied: it leaves the sort with the next one.
    hash: KeyHash,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    expires_at_ms: TimestampMs,
}

impl Cursor for PartCursor {
    fn advance(&mut self) -> Result<bool> {
        let feed = &mut *self.feed.lock();
        // The record that ended the partition before is the first of this one.
        feed.is_ahead = feed.is_ahead || feed.records.advance()?;
        let next = feed.records.entry().filter(|_| feed.is_ahead);
        let next = next.filter(|next| next.hash.partition(self.partitions_log2) == self.partition);
        let value = self.value.take();
        let Some(PlacedRecord { hash, record }) = next else { return Ok(false) };
        feed.is_ahead = false;
        feed.passed_bytes += (record.key.len() + record.value.map_or(0, <[u8]>::len)) as u64;
        self.hash = hash.within_partition(self.partitions_log2);
        self.key.clear();
        self.key.extend_from_slice(record.key);
        let mut value = value.unwrap_or_default();
        value.clear();
        value.extend_from_slice(record.value.unwrap_or_default());
        self.value = Some(value);
        self.expires_at_ms = record.expires_at_ms;
        Ok(true)
    }

    fn entry(&self) -> Option<PlacedRecord<'_>> {
        let value = Some(self.value.as_deref()?);
        let record = RecordView { key: &self.key, value, expires_at_ms: self.expires_at_ms };
        Some(PlacedRecord { hash: self.hash, record })
    }

    /// Without the memory of the sort, which is not the database's.
    fn heap_bytes(&self) -> usize {
        self.key.capacity() + self.value.as_ref().map_or(0, Vec::capacity)
    }
}
