//! The merge of all HashStores of a partition into its SortedStore (SILT 3.3), in one sequential pass over both.
//!
//! 1. The policy chooses a partition by counts only: one whose compaction was requested; one with more than 48
//!    HashStores that hold few records; or, when all HashStores together hold more than d·(P+1)/2 records and an
//!    eighth of the smallest LogStores, the fullest one.
//! 2. Its LogStore is frozen, so that young records are merged too, without becoming a HashStore first. (Not if one of
//!    its LogStores is being converted.)
//! 3. All sources are read in hash order, and one cursor merges them by the rules of Table 3: the newest record of a
//!    key is kept, and tombstones and expired records are dropped. The writer writes the blocks and builds the index
//!    in the same pass. A step ends after 4,096 records or 1 MiB. After each sixteenth of the records the view gets
//!    what is written of the new store, with its index: lookups of lower placements search it in place of the stores
//!    that are merged, and the HashStores' ribbon filters lose their rows for these placements. Iterations, and
//!    recovery after a crash use the old stores, which have the same records; so do lookups after one has found damage
//!    in what is written, which the device may lose until it is synced. This is not done for a store that gets a
//!    filter, nor with tries, whose indexes do not exist before the end.
//! 4. The new file is synced, and one commit of the manifest replaces the merged stores by it. Then the view is
//!    replaced, the old files are removed, and the log is released. Before that commit nothing durable has changed,
//!    after it everything has. If the log has no other records of the partition, the partition no longer keeps any
//!    part of it; a compaction does the same for partitions that had nothing to merge. A compaction also writes a
//!    SortedStore again whose index or filter is not what the settings say.

use super::configuration::Configuration;
use super::live::{Edit, Role, StoreEntry};
use super::partition_settings::ChainSettings;
use super::parts::Parts;
use super::view::{InstalledChain, LoadedPiece, Merged, PieceKind, View};
use crate::batch::TimestampMs;
use crate::cache::RecordCache;
use crate::error::{Error, Result};
use crate::names::FileName;
use crate::store::StoreFilter;
use crate::store::chain::{self, AddedRun, Chain, ChainWriter, OLD_COLUMNS};
use crate::store::log_cursor::LogCursor;
use crate::store::log_store::FrozenLog;
use crate::store::manifest::Header;
use crate::store::merge::{Cursor, MergeCursor};
use crate::store::table::{
    BlockForm, IndexKind, OrderedTable, OrderedTableSettings, OrderedTableWriter, ReadablePart, TableForm,
};
use siltstone_device::Purpose;
use siltstone_device::random_number;
use siltstone_index::filter::RangedFilterBuilder;
use siltstone_index::prefilter::PrefilterBuilder;
use siltstone_index::run_columns::RunColumnsSettings;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A step ends after this many bytes, however few records they are.
const BYTES_PER_STEP: usize = 1 << 20;
/// A merge shows its records to lookups in about this many parts.
pub const PARTS: u64 = 16;

/// Records from outside that a merge adds to a partition, as the newest ones.
pub(super) struct Loaded {
    pub cursor: Box<dyn Cursor>,
    /// How many there are at most, and the bytes of their keys and values.
    pub records: u64,
    pub bytes: u64,
    /// The cache that has older records of these keys.
    pub cache: Arc<RecordCache>,
}

/// A merge in progress.
pub(super) struct MergeJob {
    partition: usize,
    number: u64,
    tag: u64,
    /// The stores that are merged, by number.
    inputs: Vec<u64>,
    /// How many of them are HashStores.
    hash_stores: usize,
    frozen: Vec<Arc<FrozenLog>>,
    hash_records: u64,
    sorted_records: u64,
    /// The records of all that is merged.
    records: u64,
    cursor: MergeCursor,
    output: Output,
    /// The chain that the merged one replaces.
    replaced: Option<(u64, Arc<Chain>)>,
    filter: Option<RangedFilterBuilder>,
    /// The cache that has older records, if records from outside are merged.
    loads_over: Option<Arc<RecordCache>>,
    prefilter: Option<PrefilterBuilder>,
    /// The number of records after which lookups can use the next part.
    next_part: u64,
    /// Whether a lookup found that what is written is damaged.
    is_damaged: Arc<AtomicBool>,
}

/// What a merge writes.
enum Output {
    /// The new store.
    Store(Box<OrderedTableWriter>),
    /// The store is written; its columns are being written to a chain with this number and tag.
    Chain { store: Arc<OrderedTable>, number: u64, tag: u64, writer: Box<ChainWriter> },
    /// Nothing more.
    Finished,
}

/// Returns the form of the merged run of a partition whose chain has this number of ranges.
pub(super) fn run_form(chain: &ChainSettings, ranges: u32) -> TableForm {
    let columns = RunColumnsSettings { ranges: ranges * OLD_COLUMNS, filter_bits: chain.old_filter_bits };
    TableForm { blocks: BlockForm::Stream, index: Some(IndexKind::Columns(columns)), fill_blocks: true }
}

/// Returns the form of a new SortedStore: with this index if it supports the records, otherwise with fences.
pub(super) fn sorted_form(header: &Header, index: IndexKind) -> TableForm {
    let (layout, block_bytes) = (header.layout, header.block_bytes);
    let index = if TableForm::suits(index, &layout, block_bytes) { index } else { IndexKind::Fences };
    TableForm::for_index(&layout, block_bytes, Some(index))
}

/// Returns the expected size of the merged store if a share of `new_key_ratio` of the young records has new keys: at
/// least half of all records, since a perfect index solves buckets of up to twice the records that it expects. Where
/// more than half of all records replace others, the index takes slightly more bits per key.
fn expected(sorted: u64, young: u64, new_key_ratio: f64) -> u64 {
    let new = (young as f64 * new_key_ratio) as u64;
    sorted.saturating_add(new).max(sorted.saturating_add(young) / 2)
}

impl MergeJob {
    /// Starts a merge of the stores of a partition, including its frozen LogStores if `with_frozen`; `None` if there is
    /// nothing to merge. `loaded` has further records, the newest ones.
    pub fn start(
        parts: &Parts,
        partition: usize,
        with_frozen: bool,
        new_key_ratio: f64,
        now_ms: TimestampMs,
        loaded: Option<Loaded>,
    ) -> Result<Option<MergeJob>> {
        let Parts { configuration, log, partitions, commits, memory, .. } = parts;
        let hasher = configuration.hasher;
        let view = partitions.get(partition).view();
        let frozen = if with_frozen { view.frozen.clone() } else { Vec::new() };
        // A damaged chain that cannot be made of columns is made of records, also of those of one run.
        let remakes_chain = view.chain.as_ref().is_some_and(|(_, chain)| chain.is_damaged());
        let has_young = !view.hash_stores.is_empty() || !frozen.is_empty() || loaded.is_some();
        // Only a compaction chooses a partition without young records.
        if !has_young && !remakes_chain && !is_outdated(parts, &view) {
            return Ok(None);
        }
        // From the newest source to the oldest: of records with equal keys the first source wins.
        let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
        let (loaded_records, loaded_bytes) = loaded.as_ref().map_or((0, 0), |new| (new.records, new.bytes));
        let loads_over = loaded.map(|Loaded { cursor, cache, .. }| {
            sources.push(cursor);
            cache
        });
        for frozen in &frozen {
            sources.push(Box::new(LogCursor::new(log.view(), frozen.clone(), hasher, Purpose::Merge)));
        }
        let transfer_bytes = memory.transfer_bytes();
        for (_, store) in &view.hash_stores {
            // All HashStores together take the memory of one stream.
            sources.push(store.cursor(Purpose::Merge, transfer_bytes / view.hash_stores.len()));
        }
        if let Some((_, store)) = &view.sorted {
            sources.push(store.cursor(Purpose::Merge, transfer_bytes));
        }
        let hash_stores = view.hash_stores.len();
        // By number, not by place: a conversion may add a newer HashStore to the view before the merge ends.
        let mut inputs: Vec<u64> = view.hash_stores.iter().map(|(number, _)| *number).collect();
        inputs.extend(view.sorted.iter().map(|(number, _)| *number));
        let young = loaded_records
            + view.hash_records()
            + frozen.iter().map(|frozen| u64::from(frozen.len())).sum::<u64>();
        let young_bytes = loaded_bytes
            + frozen.iter().map(|frozen| frozen.end() - frozen.start()).sum::<u64>()
                / partitions.len() as u64
            + view.hash_stores.iter().map(|(_, store)| store.file().length()).sum::<u64>();
        let sorted_bytes = view.sorted.as_ref().map_or(0, |(_, store)| store.file().length());
        let (number, tag) = (commits.take_store_number(), random_number()?);
        let header = &configuration.header;
        let expected_records = expected(view.sorted_records(), young, new_key_ratio);
        let form = match &configuration.settings.chain {
            Some(chain) => {
                let ranges = partitions.ranges_for(expected_records, chain);
                // From now on new runs are cut as the merged one.
                partitions.get(partition).set_ranges(ranges);
                run_form(chain, ranges)
            }
            None => sorted_form(header, configuration.settings.index),
        };
        let settings = OrderedTableSettings {
            tag,
            shape: header.records(),
            block_bytes: header.block_bytes,
            expected_records,
            expected_bytes: expected(sorted_bytes, young_bytes, new_key_ratio),
            purpose: Purpose::Merge,
            piece_bytes: transfer_bytes,
        };
        Ok(Some(MergeJob {
            partition,
            number,
            tag,
            inputs,
            hash_stores,
            frozen,
            hash_records: view.hash_records(),
            sorted_records: view.sorted_records(),
            records: young + view.sorted_records(),
            next_part: 0,
            is_damaged: Arc::default(),
            loads_over,
            // No older store remains, so a tombstone that is dropped uncovers nothing.
            cursor: MergeCursor::new(sources, Some(now_ms))
                .with_compaction_filter(configuration.compaction_filter.clone()),
            filter: last_filter(parts, settings.expected_records, &view)?,
            prefilter: prefilter(parts, settings.expected_records),
            // It stays the chain until the end: no job writes one for a partition that is merged (`choose_chain`).
            replaced: view.chain.clone(),
            output: Output::Store(Box::new(OrderedTableWriter::create(
                &configuration.directory,
                &FileName::SortedStore(number).to_string(),
                form,
                settings,
            )?)),
        }))
    }

    /// Moves some records, or writes some pages of the chain. Returns whether all were moved.
    pub fn step(&mut self, parts: &Parts) -> Result<bool> {
        let writer = match &mut self.output {
            Output::Store(writer) => writer,
            Output::Chain { writer, .. } => return writer.step(BYTES_PER_STEP),
            Output::Finished => return Ok(true),
        };
        let mut bytes = 0;
        for _ in 0..parts.configuration.settings.step_records {
            if !self.cursor.advance()? {
                return self.begin_chain(parts);
            }
            if let Some(entry) = self.cursor.entry() {
                bytes += entry.record.value.map_or(0, <[u8]>::len);
                writer.push(&entry)?;
                if let Some(filter) = &mut self.filter {
                    filter.push(entry.hash.placement, entry.hash.fingerprint)?;
                }
                if let Some(prefilter) = &mut self.prefilter {
                    prefilter.push(entry.hash.placement);
                }
            }
            if bytes > BYTES_PER_STEP {
                break;
            }
        }
        self.show_part(parts);
        Ok(false)
    }

    /// Begins to write the chain of the store that is complete, if there are chains. Returns whether there are none.
    fn begin_chain(&mut self, parts: &Parts) -> Result<bool> {
        let Parts { configuration, partitions, commits, memory, .. } = parts;
        if configuration.settings.chain.is_none() {
            return Ok(true);
        }
        let Output::Store(writer) = std::mem::replace(&mut self.output, Output::Finished) else {
            return Ok(true);
        };
        let store = Arc::new(writer.finish(None)?);
        let added = store.columns().map(|columns| AddedRun { number: self.number, columns: columns.clone() });
        let (number, tag) = (commits.take_store_number(), random_number()?);
        let settings =
            chain::ChainSettings { tag, purpose: Purpose::Merge, piece_bytes: memory.transfer_bytes() };
        let ranges = partitions.get(self.partition).ranges();
        let (directory, name) = (&configuration.directory, Role::Chain.file_name(number));
        let added = added.into_iter().collect();
        let writer = Box::new(ChainWriter::create(directory, &name, settings, ranges, None, added)?);
        // The writer of the chain holds the columns now; with its index, the store would hold them too.
        self.output = Output::Chain { store: Arc::new(store.without_index()), number, tag, writer };
        Ok(false)
    }

    /// Lets lookups use what is merged so far, once more of it is readable. Not if the new store has a filter: it is
    /// incomplete. Not if it has records from outside: they become visible when they are durable.
    fn show_part(&mut self, parts: &Parts) {
        if self.cursor.taken() < self.next_part
            || self.filter.is_some()
            || self.hash_stores == 0
            || self.loads_over.is_some()
        {
            return;
        }
        let Output::Store(writer) = &mut self.output else { return };
        let Some(part) = writer.readable_part() else { return };
        self.next_part = self.cursor.taken() + self.records / PARTS;
        let ReadablePart { placement, table } = part;
        let (hash_stores, is_damaged) = (self.hash_stores, self.is_damaged.clone());
        let merged = Merged { placement, sorted: Arc::new(table), hash_stores, is_damaged };
        let partition = parts.partitions.get(self.partition);
        // The part first: without it, lookups of lower placements would read every store whose filter loses rows.
        partition.change_view(|view| Some(View { merged: Some(merged), ..view.clone() }));
        // One after the other, so that no more than one filter is in memory twice.
        let view = partition.view();
        for (number, store) in view.hash_stores.iter().filter(|(number, _)| self.inputs.contains(number)) {
            let part = LoadedPiece::Store(store.without_filter_before(placement));
            partition.change_view(|view| view.with(*number, PieceKind::HashFilter, &part));
        }
    }

    /// Returns the partition.
    pub fn partition(&self) -> usize {
        self.partition
    }

    /// Returns the number of HashStore records that it has passed, about: it passes all sources at the same pace.
    pub fn merged_records(&self) -> u64 {
        let share = self.cursor.taken() as f64 / self.records.max(1) as f64;
        (self.hash_records as f64 * share.min(1.0)) as u64
    }

    /// Returns the memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, RangedFilterBuilder::heap_bytes);
        let output = match &self.output {
            Output::Store(writer) => writer.heap_bytes(),
            Output::Chain { writer, .. } => writer.heap_bytes() + writer.columns_bytes(),
            Output::Finished => 0,
        };
        let prefilter = self.prefilter.as_ref().map_or(0, PrefilterBuilder::heap_bytes);
        self.cursor.heap_bytes() + output + filter + prefilter
    }

    /// Ends the merge without an effect, and removes what it has written.
    pub fn abandon(self, parts: &Parts) -> Result<()> {
        let directory = &parts.configuration.directory;
        let chain = if let Output::Chain { number, .. } = &self.output { Some(*number) } else { None };
        drop(self.output);
        let chain = chain.map(|number| Role::Chain.file_name(number));
        // No commit names these files. If the process ends here, the next open removes them.
        let names = [FileName::SortedStore(self.number).to_string()].into_iter().chain(chain);
        Ok(names.into_iter().try_for_each(|name| directory.remove(&name))?)
    }

    /// Replaces everything that was merged by the new SortedStore. Returns the share of new keys, if there were any
    /// young records.
    pub fn finish(self, parts: &Parts) -> Result<Option<f64>> {
        let Parts { configuration, partitions, commits, .. } = parts;
        let taken = self.cursor.taken().saturating_sub(self.sorted_records);
        let filter = self.filter.map(RangedFilterBuilder::finish).transpose()?.map(StoreFilter::from);
        let mut added = vec![StoreEntry { number: self.number, tag: self.tag, role: Role::Sorted }];
        let (store, chain) = match self.output {
            Output::Store(writer) => (Arc::new(writer.finish(filter)?), None),
            Output::Chain { store, number, tag, writer } => {
                added.push(StoreEntry { number, tag, role: Role::Chain });
                let prefilter = self.prefilter.map(|prefilter| Arc::new(prefilter.finish()));
                let chain = Arc::new(writer.finish(prefilter.as_deref())?);
                (store, Some(InstalledChain { number, chain, prefilter }))
            }
            Output::Finished => return Err(Error::Interrupted),
        };
        let new = store.records().saturating_sub(self.sorted_records);
        // The file is durable before the manifest names it.
        store.file().sync(Purpose::Merge)?;
        let mut removed = self.inputs.clone();
        removed.extend(self.replaced.iter().map(|(number, _)| *number));
        let edit = Edit {
            partition: self.partition as u32,
            // Later records get later positions, so the commit below needs no lock of a writer.
            converted_to: partitions.log_end_without(self.partition, &self.frozen)?,
            removed,
            added,
        };
        // From before the records are visible until they are: no lookup may cache an older one meanwhile.
        let _announced = self.loads_over.as_ref().map(|cache| cache.write_all());
        commits.run(|queue| {
            // In this order: the commit is durable, then lookups use the new store, and only then the old files go.
            queue.commit(vec![edit])?;
            let store = (self.number, store);
            let before = partitions.install_sorted(self.partition, &self.frozen, &self.inputs, store, chain);
            let merged = before.stores().filter(|(number, ..)| self.inputs.contains(number));
            let merged = merged.map(|(number, role, store)| (role.file_name(number), store.file().file()));
            let chain = self.replaced.iter();
            let chain = chain.map(|(number, chain)| (Role::Chain.file_name(*number), chain.file().file()));
            // Views and snapshots still read these files: their space is reused only after the last handle is closed.
            configuration.directory.retire(merged.chain(chain))?;
            queue.release_log()
        })?;
        // Records from outside say nothing about those of writes.
        if taken == 0 || self.loads_over.is_some() {
            return Ok(None);
        }
        Ok(Some(new as f64 / taken as f64))
    }
}

/// Returns the builder of the prefilter of a partition with about this many records, if it is configured.
fn prefilter(parts: &Parts, records: u64) -> Option<PrefilterBuilder> {
    let chain = parts.configuration.settings.chain.as_ref().filter(|chain| chain.prefilter_bits > 0)?;
    Some(PrefilterBuilder::new(records, parts.partitions.prefixes_for(records, chain)))
}

/// Returns whether the SortedStore has another index than the settings say, or a filter that it should not have, or
/// lacks one. The kinds of tries and the bits of filters are not compared: a file does not state them.
fn is_outdated(parts: &Parts, view: &View) -> bool {
    let Configuration { settings, header, .. } = &*parts.configuration;
    let Some((_, store)) = view.sorted.as_ref().filter(|_| settings.chain.is_none()) else { return false };
    let (index, filter) = store.kind_names();
    let wanted = match sorted_form(header, settings.index).index {
        Some(IndexKind::DenseTrie | IndexKind::PaperTrie) => IndexKind::EntropyTrie.name(),
        wanted => wanted.map_or("none", IndexKind::name),
    };
    let lacks_or_has_too_much = match filter {
        "none" => last_filter_bits(parts, store.records(), view) > 0,
        // Not because a budget has become tight: then compactions would drop filters and build them in turn.
        _ => parts.configuration.last_filter.bits() == 0,
    };
    index != wanted || lacks_or_has_too_much
}

/// Returns the bits of the filter of a SortedStore with about this many records, which replaces that of `view`.
fn last_filter_bits(parts: &Parts, records: u64, view: &View) -> u8 {
    let filters = view.pieces().filter(|piece| piece.kind == PieceKind::SortedFilter);
    parts.memory.last_filter_bits(records, filters.map(|piece| piece.bytes).sum())
}

/// Returns the builder of the filter of a SortedStore with about this many records, which replaces that of `view`;
/// `None` if it gets none.
fn last_filter(parts: &Parts, records: u64, view: &View) -> Result<Option<RangedFilterBuilder>> {
    let bits = last_filter_bits(parts, records, view);
    // Its head would be in each store that has none.
    if bits == 0 { Ok(None) } else { Ok(Some(RangedFilterBuilder::new(records, bits)?)) }
}
