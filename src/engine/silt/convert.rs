//! Converting a LogStore that is full to a HashStore (SILT 3.2), while it goes on answering.

use super::Core;
use super::ledger::Pending;
use super::live::{Edit, Role, StoreEntry};
use super::settings::Mistake;
use crate::device::Purpose;
use crate::key::random_number;
use crate::store::hash_store::{HashStoreSettings, HashStoreWriter};
use crate::store::log_store::{FrozenLog, LogCursor};
use crate::store::merge::Cursor;
use crate::store::names::FileName;
use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A conversion in progress.
pub(super) struct ConvertJob {
    partition: usize,
    number: u64,
    tag: u64,
    frozen: Arc<FrozenLog>,
    cursor: LogCursor,
    writer: HashStoreWriter,
}

impl ConvertJob {
    /// Starts the conversion of the oldest frozen LogStore of a partition.
    pub fn start(core: &Core, partition: usize) -> Result<ConvertJob> {
        let view = core.partitions[partition].state.read().view.clone();
        let frozen = match view.frozen.last() {
            Some(frozen) => frozen.clone(),
            None => return Err(Error::Interrupted),
        };
        let (number, tag) = (core.take_number(), random_number()?);
        let name = FileName::HashStore(number).to_string();
        let settings = HashStoreSettings {
            format: core.settings.hash_store_format(),
            tag,
            shape: core.shape.records(),
            block_bytes: core.shape.block_bytes,
            expected_records: frozen.len().into(),
            expected_bytes: (frozen.end() - frozen.start()) / core.partitions.len() as u64,
            purpose: Purpose::Convert,
            piece_bytes: core.piece_bytes(),
        };
        let writer = HashStoreWriter::create(&core.directory, &name, &settings)?;
        let cursor = LogCursor::new(core.log.view(), frozen.clone(), core.placing, Purpose::Convert);
        let cursor = if settings.format.is_in_slot_order() { cursor.in_slot_order() } else { cursor };
        Ok(ConvertJob { partition, number, tag, frozen, cursor, writer })
    }

    /// Moves some records. Returns whether all were moved.
    pub fn step(&mut self, core: &Core) -> Result<bool> {
        for _ in 0..core.settings.step_records {
            if !self.cursor.advance()? {
                return Ok(true);
            }
            if let Some(entry) = self.cursor.entry()
                && !(core.settings.makes(Mistake::DropsDeletes) && entry.record.value.is_none())
            {
                self.writer.push(&entry)?;
            }
        }
        Ok(false)
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        // The cursor is dropped before the filter is made.
        self.writer.heap_bytes() + self.cursor.heap_bytes().max(self.writer.finish_bytes())
    }

    /// Replaces the LogStore by the HashStore.
    pub fn finish(self, core: &Core) -> Result<()> {
        drop(self.cursor);
        let store = self.writer.finish(self.frozen.tables())?;
        let role = Role::of(&store);
        let releases_too_much = core.settings.makes(Mistake::ReleasesTooMuch);
        let edit = Edit {
            partition: self.partition as u32,
            converted_to: if releases_too_much { core.log.end() } else { self.frozen.end() },
            removed: Vec::new(),
            added: vec![StoreEntry { number: self.number, tag: self.tag, role }],
        };
        core.ledger.run(|ledger| {
            {
                let mut state = core.partitions[self.partition].state.write();
                let mut view = (*state.view).clone();
                view.frozen.retain(|frozen| !Arc::ptr_eq(frozen, &self.frozen));
                view.hash_stores.insert(0, (self.number, store.clone()));
                state.view = Arc::new(view);
            }
            core.counters.conversions.fetch_add(1, Relaxed);
            core.commit_later(ledger, Pending { edit, number: self.number, file: store.shared_file() })
        })
    }
}
