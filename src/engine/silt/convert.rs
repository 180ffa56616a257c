//! Converting a LogStore that is full to a HashStore (SILT 3.2), while it goes on answering.

use super::ledger::Pending;
use super::live::{Edit, Role, StoreEntry};
use super::settings::Mistake;
use super::{Core, FilterKind, HashStoreKind};
use crate::device::{AlignedBuffer, Purpose};
use crate::index::filter::{CuckooFilter, RibbonBuilder};
use crate::key::random_number;
use crate::store::cuckoo::CuckooTableWriter;
use crate::store::hash_store::HashStore;
use crate::store::log::LogView;
use crate::store::log_store::{FrozenLog, LogCursor};
use crate::store::merge::Cursor;
use crate::store::names::FileName;
use crate::store::ordered::{BlockForm, IndexKind, OrderedTableSettings, OrderedTableWriter};
use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A conversion under way.
pub(super) struct ConvertJob {
    partition: usize,
    number: u64,
    tag: u64,
    frozen: Arc<FrozenLog>,
    filter_bits: u8,
    target: Target,
}

enum Target {
    Cuckoo {
        writer: Box<CuckooTableWriter>,
        view: LogView,
        next_region: u32,
        buffer: AlignedBuffer,
    },
    Ordered {
        writer: Box<OrderedTableWriter>,
        cursor: Box<LogCursor>,
        /// A filter that is made of the records.
        ribbon: Option<RibbonBuilder>,
    },
}

impl ConvertJob {
    /// Begins with the oldest LogStore of a partition.
    pub fn start(core: &Core, partition: usize) -> Result<ConvertJob> {
        let view = core.partitions[partition].state.read().view.clone();
        let frozen = match view.frozen.last() {
            Some(frozen) => frozen.clone(),
            None => return Err(Error::Interrupted),
        };
        let (number, tag) = (core.take_number(), random_number()?);
        let name = FileName::HashStore(number).to_string();
        let (shape, block_bytes) = (core.shape.records(), core.shape.block_bytes);
        let target = match core.settings.hash_store {
            HashStoreKind::CuckooTable => Target::Cuckoo {
                writer: Box::new(CuckooTableWriter::create(
                    &core.directory,
                    &name,
                    tag,
                    shape,
                    block_bytes,
                    core.piece_bytes(),
                )?),
                view: core.log.view(),
                next_region: 0,
                buffer: AlignedBuffer::default(),
            },
            HashStoreKind::HashOrdered => {
                let settings = OrderedTableSettings {
                    tag,
                    shape,
                    form: BlockForm::Stream,
                    block_bytes,
                    index: Some(IndexKind::Fences),
                    packed: false,
                    expected_records: frozen.len().into(),
                    expected_bytes: (frozen.end() - frozen.start()) / core.partitions.len() as u64,
                    purpose: Purpose::Convert,
                    piece_bytes: core.piece_bytes(),
                };
                let writer = OrderedTableWriter::create(&core.directory, &name, settings)?;
                let log = core.log.view();
                let cursor = LogCursor::new(log, frozen.clone(), core.placing, Purpose::Convert);
                let expected = frozen.len().into();
                let ribbon = match core.settings.filter {
                    FilterKind::Ribbon => Some(RibbonBuilder::new(expected, core.settings.filter_bits)?),
                    FilterKind::CuckooTags => None,
                };
                Target::Ordered { writer: Box::new(writer), cursor: Box::new(cursor), ribbon }
            }
        };
        Ok(ConvertJob { partition, number, tag, frozen, filter_bits: core.settings.filter_bits, target })
    }

    /// Moves some records; answers whether all were moved.
    pub fn step(&mut self, core: &Core) -> Result<bool> {
        match &mut self.target {
            Target::Cuckoo { writer, view, next_region, buffer } => {
                let Some(table) = self.frozen.tables().first() else { return Ok(true) };
                for (_, _, packed) in table.region_slots(*next_region) {
                    let position = self.frozen.position(packed);
                    writer.push(&view.read(Purpose::Convert, position, buffer)?)?;
                }
                *next_region += 1;
                Ok(*next_region >= table.region_count())
            }
            Target::Ordered { writer, cursor, ribbon } => {
                for _ in 0..core.settings.step_records {
                    if !cursor.advance()? {
                        return Ok(true);
                    }
                    if let Some(entry) = cursor.entry()
                        && !(core.settings.makes(Mistake::DropsDeletes) && entry.record.value.is_none())
                    {
                        writer.push(&entry)?;
                        if let Some(ribbon) = ribbon {
                            ribbon.push(entry.hash.placement, entry.hash.fingerprint)?;
                        }
                    }
                }
                Ok(false)
            }
        }
    }

    /// The memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match &self.target {
            Target::Cuckoo { writer, buffer, .. } => writer.heap_bytes() + buffer.heap_bytes(),
            Target::Ordered { writer, cursor, ribbon } => {
                // When all is moved the cursor is gone, and the filter is there, as it is and encoded.
                let filter = self.frozen.len() as usize * usize::from(self.filter_bits) / 8;
                let ribbon = ribbon.as_ref().map_or(0, RibbonBuilder::heap_bytes);
                writer.heap_bytes() + ribbon + cursor.heap_bytes().max(2 * filter)
            }
        }
    }

    /// Puts the HashStore in the place of the LogStore.
    pub fn finish(self, core: &Core) -> Result<()> {
        let tags = || match self.frozen.tables() {
            [table] => Ok(CuckooFilter::from_index(table)),
            tables => {
                let problem =
                    format!("{} tables cannot be copied into one filter; use 1 table", tables.len());
                Err(Error::Setting { name: "tables of a LogStore", problem })
            }
        };
        let (store, role) = match self.target {
            Target::Cuckoo { writer, .. } => {
                (HashStore::Cuckoo(Arc::new(writer.finish(tags()?)?)), Role::CuckooTable)
            }
            Target::Ordered { writer, cursor, ribbon } => {
                drop(cursor);
                let filter = match ribbon {
                    Some(ribbon) => ribbon.finish().into(),
                    None => tags()?.into(),
                };
                let store = writer.finish(Some(filter))?;
                (HashStore::Ordered(Arc::new(store)), Role::HashOrdered)
            }
        };
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
