//! Merging all HashStores of a partition into its SortedStore (SILT 3.3), in one sequential pass over both.

use super::Core;
use super::live::{Edit, Role, StoreEntry};
use super::policy::piece_bytes;
use crate::Result;
use crate::batch::TimestampMs;
use crate::device::Purpose;
use crate::index::filter::RangedFilterBuilder;
use crate::key::random_number;
use crate::store::StoreFilter;
use crate::store::log_store::{FrozenLog, LogCursor};
use crate::store::manifest::Header;
use crate::store::merge::{Cursor, MergeCursor};
use crate::store::names::FileName;
use crate::store::ordered::{
    BlockForm, IndexKind, OrderedTableSettings, OrderedTableWriter, slots_per_block,
};
use crate::store::record::RecordLayout;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// So many records a block can be placed by a block-perfect index.
const RECORDS_PER_BLOCK: RangeInclusive<u32> = 2..=256;
/// The bytes after which a step ends, however few records they were.
const BYTES_PER_STEP: usize = 1 << 20;
/// Of each new measurement of the novelty this share counts.
const NOVELTY_WEIGHT: f64 = 0.5;

/// A merge under way.
pub(super) struct MergeJob {
    partition: usize,
    number: u64,
    tag: u64,
    /// The stores that are merged, by number.
    inputs: Vec<u64>,
    frozen: Vec<Arc<FrozenLog>>,
    hash_records: u64,
    sorted_records: u64,
    /// The records of all that is merged.
    records: u64,
    novelty: f64,
    cursor: MergeCursor,
    writer: OrderedTableWriter,
    filter: Option<RangedFilterBuilder>,
}

/// Whether there can be such an index of records of a layout.
pub(super) fn suits(index: IndexKind, layout: &RecordLayout, block_bytes: u32) -> bool {
    let form = OrderedTableSettings::form_for(layout, block_bytes, false, Some(index));
    match index {
        IndexKind::Fences => true,
        _ if form == BlockForm::Stream => false,
        IndexKind::BlockPerfect => RECORDS_PER_BLOCK.contains(&slots_per_block(layout, form, block_bytes)),
        IndexKind::SlotPerfect | IndexKind::DenseTrie => form == BlockForm::CheckedSlots,
        IndexKind::EntropyTrie => true,
    }
}

/// What a SortedStore of a database is written with, but for the number of its records.
pub(super) fn sorted_settings(
    shape: &Header,
    index: IndexKind,
    tag: u64,
    purpose: Purpose,
    piece_bytes: usize,
) -> OrderedTableSettings {
    let (layout, block_bytes) = (shape.layout, shape.block_bytes);
    let index = Some(if suits(index, &layout, block_bytes) { index } else { IndexKind::Fences });
    let form = OrderedTableSettings::form_for(&layout, block_bytes, false, index);
    let (expected_records, expected_bytes) = (0, 0);
    OrderedTableSettings {
        tag,
        shape: shape.records(),
        form,
        block_bytes,
        index,
        fill_blocks: false,
        expected_records,
        expected_bytes,
        purpose,
        piece_bytes,
    }
}

/// What a merge is planned for if of `young` records a share of `novelty` is new: never less than half of what may
/// come, since a perfect index solves buckets of up to twice the records that it expects. Where more than half of all
/// records replace others, the index takes slightly more bits per key.
fn expected(sorted: u64, young: u64, novelty: f64) -> u64 {
    let new = (young as f64 * novelty) as u64;
    sorted.saturating_add(new).max(sorted.saturating_add(young) / 2)
}

impl MergeJob {
    /// Begins with what the partition holds; `None` if there is nothing to merge.
    pub fn start(
        core: &Core,
        partition: usize,
        with_frozen: bool,
        novelty: f64,
        now_ms: TimestampMs,
    ) -> Result<Option<MergeJob>> {
        let view = core.partitions[partition].state.read().view.clone();
        let frozen = if with_frozen { view.frozen.clone() } else { Vec::new() };
        if view.hash_stores.is_empty() && frozen.is_empty() {
            return Ok(None);
        }
        let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
        for frozen in &frozen {
            let log = core.log.view();
            sources.push(Box::new(LogCursor::new(log, frozen.clone(), core.placing, Purpose::Merge)));
        }
        let piece = core.piece_bytes();
        for (_, store) in &view.hash_stores {
            sources.push(store.cursor(Purpose::Merge, piece / view.hash_stores.len()));
        }
        if let Some((_, store)) = &view.sorted {
            sources.push(store.cursor(Purpose::Merge, piece));
        }
        let mut inputs: Vec<u64> = view.hash_stores.iter().map(|(number, _)| *number).collect();
        inputs.extend(view.sorted.iter().map(|(number, _)| *number));
        let young = view.hash_records() + frozen.iter().map(|frozen| u64::from(frozen.len())).sum::<u64>();
        let young_bytes = frozen.iter().map(|frozen| frozen.end() - frozen.start()).sum::<u64>()
            / core.partitions.len() as u64
            + view.hash_stores.iter().map(|(_, store)| store.file().length()).sum::<u64>();
        let sorted_bytes = view.sorted.as_ref().map_or(0, |(_, store)| store.file().length());
        let (number, tag) = (core.take_number(), random_number()?);
        let settings = OrderedTableSettings {
            expected_records: expected(view.sorted_records(), young, novelty),
            expected_bytes: expected(sorted_bytes, young_bytes, novelty),
            ..core.sorted_settings(tag)
        };
        Ok(Some(MergeJob {
            partition,
            number,
            tag,
            inputs,
            frozen,
            hash_records: view.hash_records(),
            sorted_records: view.sorted_records(),
            records: young + view.sorted_records(),
            novelty,
            cursor: MergeCursor::new(sources, Some(now_ms)),
            filter: core.last_filter(settings.expected_records)?,
            writer: OrderedTableWriter::create(
                &core.directory,
                &FileName::SortedStore(number).to_string(),
                settings,
            )?,
        }))
    }

    /// Moves some records; answers whether all were moved.
    pub fn step(&mut self, core: &Core) -> Result<bool> {
        let mut bytes = 0;
        for _ in 0..core.settings.step_records {
            if !self.cursor.advance()? {
                return Ok(true);
            }
            if let Some(entry) = self.cursor.entry() {
                bytes += entry.record.value.map_or(0, <[u8]>::len);
                self.writer.push(&entry)?;
                if let Some(filter) = &mut self.filter {
                    filter.push(entry.hash.placement, entry.hash.fingerprint)?;
                }
            }
            if bytes > BYTES_PER_STEP {
                break;
            }
        }
        Ok(false)
    }

    /// About how many records of HashStores it has gone over: all are gone over at the same pace.
    pub fn merged_records(&self) -> u64 {
        let share = self.cursor.taken() as f64 / self.records.max(1) as f64;
        (self.hash_records as f64 * share.min(1.0)) as u64
    }

    /// The memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, RangedFilterBuilder::heap_bytes);
        self.cursor.heap_bytes() + self.writer.heap_bytes() + filter
    }

    /// Puts the new SortedStore in the place of everything that was merged. Answers the novelty, smoothed, if anything
    /// can be told of it.
    pub fn finish(self, core: &Core) -> Result<Option<f64>> {
        let taken = self.cursor.taken().saturating_sub(self.sorted_records);
        let new = self.writer.records().saturating_sub(self.sorted_records);
        let filter = self.filter.map(RangedFilterBuilder::finish).transpose()?.map(StoreFilter::from);
        let store = Arc::new(self.writer.finish(filter)?);
        store.file().sync(Purpose::Merge)?;
        let edit = Edit {
            partition: self.partition as u32,
            converted_to: core.log_taken_by(self.partition, &self.frozen)?,
            removed: self.inputs.clone(),
            added: vec![StoreEntry { number: self.number, tag: self.tag, role: Role::Sorted }],
        };
        core.ledger.run(|ledger| {
            core.commit(ledger, Some(edit))?;
            let removed = {
                let mut state = core.partitions[self.partition].state.write();
                let mut view = (*state.view).clone();
                view.frozen.retain(|frozen| !self.frozen.iter().any(|merged| Arc::ptr_eq(frozen, merged)));
                view.hash_stores.retain(|(number, _)| !self.inputs.contains(number));
                view.sorted = Some((self.number, store));
                std::mem::replace(&mut state.view, Arc::new(view))
            };
            for (number, _) in removed.hash_stores.iter().filter(|(number, _)| self.inputs.contains(number)) {
                core.directory.remove(&FileName::HashStore(*number).to_string())?;
            }
            if let Some((number, _)) = removed.sorted {
                core.directory.remove(&FileName::SortedStore(number).to_string())?;
            }
            core.release_log(ledger)
        })?;
        core.counters.merges.fetch_add(1, Relaxed);
        if taken == 0 {
            return Ok(None);
        }
        let measured = new as f64 / taken as f64;
        Ok(Some(self.novelty + NOVELTY_WEIGHT * (measured - self.novelty)))
    }
}

impl Core {
    /// Up to where the log holds nothing of a partition once these LogStores are merged: up to its end, if the
    /// partition has no other record in it.
    fn log_taken_by(&self, number: usize, merged: &[Arc<FrozenLog>]) -> Result<u64> {
        // Whoever appends a record of the partition has locked its writer until the record is indexed.
        self.lock_writer(number, |partition| {
            let end = self.log.end();
            let mut state = partition.state.write();
            let is_merged = |frozen| merged.iter().any(|merged| Arc::ptr_eq(frozen, merged));
            if state.active.is_empty() && state.view.frozen.iter().all(is_merged) {
                state.active.restart(end);
                return Ok(end);
            }
            Ok(merged.iter().map(|frozen| frozen.end()).max().unwrap_or(0))
        })
    }

    /// Lets go of the log on behalf of all partitions that have nothing in it.
    pub(super) fn advance_idle_logs(&self) -> Result<()> {
        let end = self.log.end();
        for (number, partition) in self.partitions.iter().enumerate() {
            let is_behind = {
                let state = partition.state.read();
                state.active.is_empty() && state.view.frozen.is_empty() && state.active.start() < end
            };
            if is_behind {
                self.advance_empty_log(number)?;
            }
        }
        Ok(())
    }

    /// What background work reads or writes in one piece, in bytes.
    pub(super) fn piece_bytes(&self) -> usize {
        let bytes = piece_bytes(&self.settings, self.keys.load(Relaxed), self.directory.access());
        bytes.min(self.residency.piece_bytes_max())
    }

    /// The filter of a SortedStore with about so many records, if it shall have one and a budget leaves room.
    fn last_filter(&self, records: u64) -> Result<Option<RangedFilterBuilder>> {
        let bits = self.settings.filter_last_store;
        // It is there twice while it is saved.
        if bits == 0 || !self.residency.leaves_room_for(records * u64::from(bits) / 4) {
            return Ok(None);
        }
        Ok(Some(RangedFilterBuilder::new(records, bits)?))
    }

    fn sorted_settings(&self, tag: u64) -> OrderedTableSettings {
        sorted_settings(&self.shape, self.settings.index_kind(), tag, Purpose::Merge, self.piece_bytes())
    }

    /// Lets go of the log on behalf of a partition that has nothing in it.
    pub(super) fn advance_empty_log(&self, number: usize) -> Result<()> {
        // The manifest comes before any partition, as in a checkpoint.
        self.ledger.run(|ledger| {
            self.lock_writer(number, |partition| {
                let end = self.log.end();
                {
                    let state = partition.state.read();
                    if !state.active.is_empty() || !state.view.frozen.is_empty() {
                        return Ok(());
                    }
                }
                partition.state.write().active.restart(end);
                let edit = Edit { partition: number as u32, converted_to: end, ..Edit::default() };
                self.commit(ledger, Some(edit))?;
                self.release_log(ledger)
            })
        })
    }
}
