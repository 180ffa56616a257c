//! The conversion of a full LogStore to a HashStore (SILT 3.2).
//!
//! 1. A background step takes the oldest frozen LogStore of all partitions of which none is being converted. Lookups
//!    use it until step 4.
//! 2. Each step reads records in hash order, one region of all its tables at a time (a region is one range of
//!    placements, so a region sorted in memory continues the order of the file). Tags ascend with the placements of a
//!    region, so the index alone gives the order: each record is read once, in that order, and only records with equal
//!    tags are compared before. BloomStore reads a part of the records at a time, up to an eighth of them, from long
//!    pieces of the log (`store/log_batch.rs`): of short records that takes less processor time than a read of each,
//!    and a batch is memory, which SILT spares.
//! 3. The records become a HashStore: in hash order with fences and a ribbon filter, or the paper's cuckoo table with
//!    the LogStore's tags. Tombstones are kept, since older stores may have their keys.
//! 4. The HashStore replaces the LogStore in the view, in one change, so every lookup finds the records in one of the
//!    two. It serves reads, but it is not durable yet: its part of the log is kept, and a crash leaves a file that no
//!    commit names.
//! 5. Several conversions are *committed* together (`commits`), when there are as many as partitions, with a merge, or
//!    when no other work is left: their files and the log are synced, and one commit of the manifest contains them all.
//! 6. The log is released up to the position before which every partition has its records in stores.

use super::commits::PendingConversion;
use super::live::{Edit, Role, StoreEntry};
use super::partition_settings::Mistake;
use super::parts::Parts;
use crate::error::{Error, Result};
use crate::names::FileName;
use crate::store::hash_store::{HashStoreFormat, HashStoreWriter};
use crate::store::log_cursor::LogCursor;
use crate::store::log_store::FrozenLog;
use crate::store::merge::Cursor;
use crate::store::table::OrderedTableSettings;
use siltstone_device::Purpose;
use siltstone_device::random_number;
use std::sync::Arc;

/// A step of a conversion is one of this many parts of other steps: writers that wait for LogStores continue after it.
const STEP_PARTS: usize = 4;

/// A conversion in progress.
pub(super) struct ConvertJob {
    partition: usize,
    number: u64,
    tag: u64,
    frozen: Arc<FrozenLog>,
    cursor: LogCursor,
    writer: HashStoreWriter,
    /// The records that the cursor has passed.
    passed: u64,
}

impl ConvertJob {
    /// Starts the conversion of the oldest frozen LogStore of a partition; partitions have `hash_stores` HashStores on
    /// average.
    pub fn start(parts: &Parts, partition: usize, hash_stores: f64) -> Result<ConvertJob> {
        let Parts { configuration, log, partitions, commits, memory, .. } = parts;
        let view = partitions.get(partition).view();
        // The oldest one: LogStores are converted in the order of their freezing.
        let frozen = match view.frozen.last() {
            Some(frozen) => frozen.clone(),
            None => return Err(Error::Interrupted),
        };
        let (number, tag) = (commits.take_store_number(), random_number()?);
        let name = FileName::HashStore(number).to_string();
        let format = match &configuration.settings.chain {
            Some(chain) => HashStoreFormat::Run(partitions.columns_of_runs(partition, chain)),
            None => configuration.settings.hash_store_format(hash_stores),
        };
        let settings = OrderedTableSettings {
            tag,
            shape: configuration.header.records(),
            block_bytes: configuration.header.block_bytes,
            expected_records: frozen.len().into(),
            // That part of the log has the records of all partitions.
            expected_bytes: (frozen.end() - frozen.start()) / partitions.len() as u64,
            purpose: Purpose::Convert,
            piece_bytes: memory.transfer_bytes(),
        };
        let writer = HashStoreWriter::create(&configuration.directory, &name, format, settings)?;
        let cursor = LogCursor::new(log.view(), frozen.clone(), configuration.hasher, Purpose::Convert);
        let cursor = format.order(cursor, partitions.len(), memory.transfer_bytes_max());
        Ok(ConvertJob { partition, number, tag, frozen, cursor, writer, passed: 0 })
    }

    /// Returns the partition.
    pub fn partition(&self) -> usize {
        self.partition
    }

    /// Moves some records. Returns whether all were moved.
    pub fn step(&mut self, parts: &Parts) -> Result<bool> {
        let settings = &parts.configuration.settings;
        for _ in 0..(settings.step_records / STEP_PARTS).max(1) {
            if !self.cursor.advance()? {
                return Ok(true);
            }
            self.passed += 1;
            // Tombstones are written too: an older store may have a record of the key.
            if let Some(entry) = self.cursor.entry()
                && !(settings.makes(Mistake::DropsDeletes) && entry.record.value.is_none())
            {
                self.writer.push(&entry)?;
            }
        }
        Ok(false)
    }

    /// Returns the share of the LogStore's records that were moved.
    pub fn converted(&self) -> f64 {
        (self.passed as f64 / f64::from(self.frozen.len().max(1))).min(1.0)
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        // The cursor is dropped before the filter is made.
        self.writer.heap_bytes() + self.cursor.heap_bytes().max(self.writer.finish_bytes())
    }

    /// Replaces the LogStore by the HashStore.
    pub fn finish(self, parts: &Parts) -> Result<()> {
        // Before the filter is solved: `heap_bytes` counts only the larger of both.
        drop(self.cursor);
        let store = Arc::new(self.writer.finish(self.frozen.tables())?);
        let role = Role::of(&store);
        let releases_too_much = parts.configuration.settings.makes(Mistake::ReleasesTooMuch);
        let edit = Edit {
            partition: self.partition as u32,
            // Not the end of the log: later records of the partition are in the next LogStore.
            converted_to: if releases_too_much { parts.log.end() } else { self.frozen.end() },
            removed: Vec::new(),
            added: vec![StoreEntry { number: self.number, tag: self.tag, role }],
        };
        // View and queue change under the queue's lock: a merge that finds the HashStore in a view must find it in the
        // queue or in the manifest, or its commit would remove a store that is not live.
        parts.commits.run(|queue| {
            let file = store.file().clone();
            parts.partitions.install_hash_store(self.partition, &self.frozen, (self.number, store));
            queue.add(PendingConversion { edit, number: self.number, file })
        })
    }
}
