//! What locates the records of a table: one of several structures, built with the table and saved in its file.
//!
//! An index locates *units*: slots if it is dense, perfect to slots or made of tags, blocks otherwise.
//!
//! | structure | file | in memory |
//! |---|---|---|
//! | trie | `trie` | all of it, or nothing |
//! | fences | here | all of it, or nothing |
//! | perfect index | `paged` | all of it, or its outline: a lookup then reads the seeds of one bucket |
//! | columns of a run | `columns` | fences in their place, or nothing |
//! | tags of a cuckoo table | `tags` | always all of it |

mod columns;
mod paged;
mod pages;
mod tags;
mod trie;

use super::BlockForm;
use crate::damage::DamagedPart;
use crate::error::{CorruptFile, Error, Result};
use crate::key::KeyHash;
use crate::store::Query;
use crate::store::file::{Section, StoreFile, StoreFooter};
use paged::PagedIndex;
use siltstone_device::{AlignedBuffer, Purpose};
use siltstone_index::PlacementIndex;
use siltstone_index::entropy_trie::{EntropyTrie, EntropyTrieBuilder};
use siltstone_index::fences::{Fences, FencesBuilder, FencesSettings};
use siltstone_index::filter::{CuckooFilter, Filter};
use siltstone_index::perfect::{PerfectIndex, PerfectOutline};
use siltstone_index::run_columns::{RunColumns, RunColumnsBuilder, RunColumnsSettings};
use siltstone_index::run_fences::RunFences;
use std::ops::Range;
use std::sync::Arc;

/// The kind of index that locates the records of a table in hash order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexKind {
    /// Elias–Fano coded fences between the blocks (ECT 3.1.6): the smallest for records of any size.
    Fences,
    /// The entropy-coded trie (SILT 3.3), pruned to one leaf per block. Records of a fixed size, smaller than a block.
    EntropyTrie,
    /// The entropy-coded trie with one leaf per record (ECT 3.1.4), about 2.5 bits per key: a get reads only the
    /// sectors of its record. Records of a fixed size, smaller than a block.
    DenseTrie,
    /// Like `DenseTrie`, with the paper's codes: Huffman codes of small subtries, Elias gamma codes of others. Slower,
    /// and a little larger.
    PaperTrie,
    /// A perfect hash from the records of each bucket to their blocks. All blocks are full. Records of a fixed size, 2
    /// to 256 per block; they are not ordered within a bucket.
    BlockPerfect,
    /// A perfect hash from the records of each bucket to their slots, 1.5 bits per key: a get reads only the sectors
    /// of its record. Records of a fixed size, smaller than a block; they are not ordered within a bucket.
    SlotPerfect,
    /// Bloom filters of ranges of hashes, with the blocks of each range: they also exclude keys. For the runs of a
    /// chain, which has them on flash.
    #[doc(hidden)]
    Columns(RunColumnsSettings),
}

impl IndexKind {
    /// All kinds that a SortedStore may have.
    #[doc(hidden)]
    pub const ALL: [IndexKind; 6] = [
        IndexKind::Fences,
        IndexKind::EntropyTrie,
        IndexKind::DenseTrie,
        IndexKind::PaperTrie,
        IndexKind::BlockPerfect,
        IndexKind::SlotPerfect,
    ];

    /// Returns the name of the kind in settings and statistics.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::Fences => "fences",
            IndexKind::EntropyTrie => "entropy_trie",
            IndexKind::DenseTrie => "dense_trie",
            IndexKind::PaperTrie => "paper_trie",
            IndexKind::BlockPerfect => "block_perfect",
            IndexKind::SlotPerfect => "slot_perfect",
            IndexKind::Columns(_) => "columns",
        }
    }

    /// Returns the kind with a name.
    #[doc(hidden)]
    pub fn from_name(name: &str) -> Option<IndexKind> {
        IndexKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns whether the index locates the slot of a record, not only its block.
    #[doc(hidden)]
    pub fn locates_slots(self) -> bool {
        matches!(self, IndexKind::DenseTrie | IndexKind::PaperTrie | IndexKind::SlotPerfect)
    }

    /// Returns whether the index assigns records to blocks, so that it is built together with the table and records are
    /// ordered between buckets only.
    #[doc(hidden)]
    pub fn is_perfect(self) -> bool {
        matches!(self, IndexKind::BlockPerfect | IndexKind::SlotPerfect)
    }
}

/// The kinds of index sections in a file. A trie says itself whether it is dense, a perfect index whether it locates
/// slots.
const SECTION_NONE: u8 = 0;
const SECTION_ENTROPY_TRIE: u8 = 1;
const SECTION_FENCES: u8 = 2;
const SECTION_PERFECT: u8 = 4;
const SECTION_COLUMNS: u8 = 7;

/// What an index is built with.
#[derive(Debug, Clone, Copy)]
pub struct StoreIndexSettings {
    /// The kind of index.
    pub kind: IndexKind,
    /// The number of records in a full block if records are in slots, else 1.
    pub slots_per_block: u32,
    /// The approximate number of records.
    pub expected_records: u64,
    /// The approximate number of blocks that the records fill.
    pub expected_blocks: u64,
}

/// Builds a [`StoreIndex`] from records in hash order. Perfect indexes are built by the table's writer.
pub enum StoreIndexBuilder {
    /// A trie, and the number of slots in a block.
    EntropyTrie(EntropyTrieBuilder, u32),
    /// Fences.
    Fences(FencesBuilder),
    /// Columns.
    Columns(RunColumnsBuilder),
}

impl StoreIndexBuilder {
    /// Makes a builder without records.
    pub fn new(settings: &StoreIndexSettings) -> Result<Self> {
        match settings.kind {
            IndexKind::EntropyTrie | IndexKind::DenseTrie | IndexKind::PaperTrie => {
                Ok(StoreIndexBuilder::EntropyTrie(trie::builder(settings)?, settings.slots_per_block.max(1)))
            }
            IndexKind::Fences => Ok(StoreIndexBuilder::Fences(FencesBuilder::new(FencesSettings {
                expected_records: settings.expected_records,
                expected_blocks: settings.expected_blocks,
            }))),
            IndexKind::Columns(columns) => {
                let columns = RunColumnsBuilder::new(columns, settings.expected_records)?;
                Ok(StoreIndexBuilder::Columns(columns))
            }
            IndexKind::BlockPerfect | IndexKind::SlotPerfect => Err(Error::Setting {
                name: "index",
                problem:
                    "a perfect index determines the positions of records, so it must be built with the store"
                        .into(),
            }),
        }
    }

    /// Adds the next record, and the blocks that contain any of its bytes.
    pub fn push(&mut self, placement: u64, blocks: Range<u64>) -> Result<()> {
        match self {
            StoreIndexBuilder::EntropyTrie(trie, _) => trie.push(placement)?,
            StoreIndexBuilder::Fences(fences) => fences.push(placement, blocks)?,
            StoreIndexBuilder::Columns(columns) => columns.push(placement, blocks)?,
        }
        Ok(())
    }

    /// Returns whether a lookup of either of two placements would read two blocks if a block ended between them.
    pub fn would_share(&self, placement: u64, next: u64) -> bool {
        match self {
            // Records of one cell on both sides make the boundary shared: a lookup then reads both blocks.
            StoreIndexBuilder::Fences(fences) => fences.cell_of(placement) == fences.cell_of(next),
            StoreIndexBuilder::EntropyTrie(..) | StoreIndexBuilder::Columns(_) => false,
        }
    }

    /// Returns the index of the records so far, if it is cheap to have before the last record.
    pub(super) fn so_far(&self) -> Option<StoreIndex> {
        match self {
            StoreIndexBuilder::EntropyTrie(..) | StoreIndexBuilder::Columns(_) => None,
            // A copy, because the builder continues. Fences are small.
            StoreIndexBuilder::Fences(fences) => {
                Some(StoreIndex::new(Structure::Fences(fences.clone().finish()), 1))
            }
        }
    }

    /// Returns the memory of columns, in bytes: they are as large before they are finished as after that. The others
    /// are small.
    pub fn heap_bytes(&self) -> usize {
        match self {
            StoreIndexBuilder::Columns(columns) => columns.heap_bytes(),
            StoreIndexBuilder::EntropyTrie(..) | StoreIndexBuilder::Fences(_) => 0,
        }
    }

    /// Returns the index.
    pub fn finish(self) -> Result<StoreIndex> {
        let (structure, slots_per_block) = match self {
            StoreIndexBuilder::EntropyTrie(trie, slots_per_block) => {
                (Structure::EntropyTrie(Box::new(trie.finish()?)), slots_per_block)
            }
            StoreIndexBuilder::Fences(fences) => (Structure::Fences(fences.finish()), 1),
            StoreIndexBuilder::Columns(columns) => (Structure::Columns(Arc::new(columns.finish())), 1),
        };
        Ok(StoreIndex::new(structure, slots_per_block))
    }
}

/// The index of a table, in memory: all of it, or the part that stays there while the rest is on flash.
pub struct StoreIndex {
    structure: Structure,
    /// The number of units per block: 1 if the units are blocks.
    pub(super) units_per_block: u64,
    /// Whether the units are slots.
    pub(super) by_slot: bool,
}

enum Structure {
    /// In a box, because tries are larger than the fences of the many HashStores.
    EntropyTrie(Box<EntropyTrie>),
    Fences(Fences),
    /// With the part that stays in memory, so that dropping the rest needs no read; `None` until the index is saved.
    Perfect(PerfectIndex, Option<Arc<PagedIndex>>),
    Paged(Arc<PagedIndex>),
    /// Of a run that was just written: its memory is released when the chain has the columns.
    Columns(Arc<RunColumns>),
    /// Of a run whose columns are on flash only.
    RunFences(RunFences),
    Tags(CuckooFilter),
}

impl StoreIndex {
    fn new(structure: Structure, slots_per_block: u32) -> StoreIndex {
        let by_slot = match &structure {
            Structure::EntropyTrie(trie) => trie.settings().records_per_block == 1,
            Structure::Perfect(index, _) => index.outline().records_per_block() == 1,
            Structure::Paged(paged) => paged.outline.records_per_block() == 1,
            Structure::Tags(_) => true,
            Structure::Fences(_) | Structure::Columns(_) | Structure::RunFences(_) => false,
        };
        let units_per_block = if by_slot { u64::from(slots_per_block.max(1)) } else { 1 };
        StoreIndex { structure, units_per_block, by_slot }
    }

    pub(super) fn perfect(index: PerfectIndex, slots_per_block: u32) -> StoreIndex {
        StoreIndex::new(Structure::Perfect(index, None), slots_per_block)
    }

    pub(super) fn of_tags(tags: CuckooFilter, slots_per_block: u32) -> StoreIndex {
        StoreIndex::new(Structure::Tags(tags), slots_per_block)
    }

    /// Returns whether the records of a table with this footer are ordered between buckets only.
    pub(crate) fn is_in_buckets(footer: &StoreFooter) -> bool {
        footer.index.kind == SECTION_PERFECT || is_of_tags(footer)
    }

    /// Returns the section of the index of a table with this footer, and what its damage is called.
    pub(in crate::store) fn section_of(footer: &StoreFooter) -> (&Section, DamagedPart) {
        match is_of_tags(footer) {
            true => (&footer.filter, DamagedPart::Filter),
            false => (&footer.index, DamagedPart::Index),
        }
    }

    /// Returns whether a table with this footer has a filter besides its index.
    pub(in crate::store) fn has_filter(footer: &StoreFooter) -> bool {
        footer.filter.kind != SECTION_NONE && !is_of_tags(footer)
    }

    /// Reads and checks the index of a file, if it has one. `slots_per_block` is the one that the index was built with.
    pub(in crate::store) fn load(
        file: &StoreFile,
        form: BlockForm,
        slots_per_block: u32,
    ) -> Result<Option<StoreIndex>> {
        let (section, _) = StoreIndex::section_of(file.footer());
        if section.kind == SECTION_NONE {
            return Ok(None);
        }
        if is_of_tags(file.footer()) {
            return StoreIndex::load_resident(file, slots_per_block);
        }
        // The checksum in the footer is verified before anything is decoded: the index itself has none.
        let bytes = file.read_section(section, Purpose::Recover)?;
        let offset = StoreFile::section_offset(section);
        let structure = match section.kind {
            SECTION_ENTROPY_TRIE => {
                Structure::EntropyTrie(Box::new(trie::decode(file, form, slots_per_block, &bytes)?))
            }
            SECTION_PERFECT => {
                let (index, paged) = PagedIndex::decode(file, &bytes)?;
                Structure::Perfect(index, Some(Arc::new(paged)))
            }
            // The table limits what fences return to its blocks.
            SECTION_FENCES => {
                Structure::Fences(Fences::decode(&bytes).map_err(Error::decode(file.file().path(), offset))?)
            }
            SECTION_COLUMNS => {
                // Only the fences stay in memory. The filters of the columns are read from the chain.
                let fences = RunFences::of(&columns::decode(file, &bytes)?);
                let unordered = || file.file().corrupt(offset, "ascending fences", "others");
                Structure::RunFences(fences.ok_or_else(unordered)?)
            }
            kind => return Err(file.file().corrupt(offset, "an index", format!("a section of kind {kind}"))),
        };
        Ok(Some(StoreIndex::new(structure, slots_per_block)))
    }

    /// Reads the part of the index of a file that is always in memory, if there is one.
    pub(super) fn load_resident(file: &StoreFile, slots_per_block: u32) -> Result<Option<StoreIndex>> {
        let structure = match StoreIndex::is_in_buckets(file.footer()) {
            false => return Ok(None),
            true if is_of_tags(file.footer()) => Structure::Tags(tags::load(file)?),
            true => Structure::Paged(Arc::new(PagedIndex::open(file)?)),
        };
        Ok(Some(StoreIndex::new(structure, slots_per_block)))
    }

    /// Returns the part of the index that stays in memory while the rest is on flash, if there is one.
    pub(super) fn resident(self: &Arc<Self>) -> Option<Arc<StoreIndex>> {
        match &self.structure {
            Structure::Tags(_) | Structure::Paged(_) => Some(self.clone()),
            Structure::Perfect(_, Some(paged)) => {
                Some(Arc::new(StoreIndex { structure: Structure::Paged(paged.clone()), ..**self }))
            }
            _ => None,
        }
    }

    /// Returns whether all of the index is in memory.
    pub(super) fn is_whole(&self) -> bool {
        !matches!(self.structure, Structure::Paged(_))
    }

    /// Returns the kind of the index's section and its bytes.
    pub(crate) fn encode(&mut self) -> (u8, Vec<u8>) {
        let mut bytes = Vec::new();
        match &mut self.structure {
            Structure::EntropyTrie(trie) => {
                trie.encode(&mut bytes);
                (SECTION_ENTROPY_TRIE, bytes)
            }
            Structure::Fences(fences) => {
                fences.encode(&mut bytes);
                (SECTION_FENCES, bytes)
            }
            Structure::Perfect(index, paged) => {
                let (bytes, encoded) = PagedIndex::encode(index);
                *paged = Some(Arc::new(encoded));
                (SECTION_PERFECT, bytes)
            }
            Structure::Columns(columns) => {
                columns.encode(&mut bytes);
                (SECTION_COLUMNS, bytes)
            }
            // They are never written: the file has the columns, the whole index, or the tags as its filter.
            Structure::RunFences(_) | Structure::Paged(_) | Structure::Tags(_) => (SECTION_NONE, bytes),
        }
    }

    /// Returns the name of the kind of index that a footer names. A file does not distinguish dense tries from pruned
    /// ones. `by_slot` says whether the table's slots have checksums.
    pub(super) fn name_in(footer: &StoreFooter, by_slot: bool) -> &'static str {
        match footer.index.kind {
            _ if is_of_tags(footer) => "cuckoo_table",
            SECTION_ENTROPY_TRIE => IndexKind::EntropyTrie.name(),
            SECTION_FENCES => IndexKind::Fences.name(),
            SECTION_PERFECT if by_slot => IndexKind::SlotPerfect.name(),
            SECTION_PERFECT => IndexKind::BlockPerfect.name(),
            SECTION_COLUMNS => "columns",
            _ => "none",
        }
    }

    /// Returns the kind of index; `None` for tags, which no setting of an index selects.
    pub fn kind(&self) -> Option<IndexKind> {
        Some(match &self.structure {
            Structure::EntropyTrie(trie) => trie::kind(trie, self.units_per_block),
            Structure::Fences(_) => IndexKind::Fences,
            Structure::Perfect(..) | Structure::Paged(_) if self.units_per_block > 1 => {
                IndexKind::SlotPerfect
            }
            Structure::Perfect(..) | Structure::Paged(_) => IndexKind::BlockPerfect,
            Structure::Columns(columns) => IndexKind::Columns(columns.settings()),
            Structure::RunFences(fences) => IndexKind::Columns(fences.settings()),
            Structure::Tags(_) => return None,
        })
    }

    /// Returns the outline of a perfect index.
    fn outline(&self) -> Option<&PerfectOutline> {
        match &self.structure {
            Structure::Perfect(index, _) => Some(index.outline()),
            Structure::Paged(paged) => Some(&paged.outline),
            _ => None,
        }
    }

    fn tags(&self) -> Option<&CuckooFilter> {
        match &self.structure {
            Structure::Tags(tags) => Some(tags),
            _ => None,
        }
    }

    /// Returns the bucket of a placement; `None` if all records are in order. Buckets ascend with placements.
    pub(in crate::store) fn bucket_of(&self, placement: u64) -> Option<u64> {
        let region_of = |tags: &CuckooFilter| tags.settings().region_of(placement).into();
        self.outline().map(|outline| outline.bucket_of(placement)).or_else(|| self.tags().map(region_of))
    }

    /// Returns a block such that all records from a placement on begin in it or in later blocks; `None` if the index
    /// does not know.
    pub(super) fn first_block_from(&self, placement: u64) -> Option<u64> {
        match &self.structure {
            // Where all records are on one side of a node, a trie does not compare: it leads a placement that no record
            // has to any record of these, also to one that follows others which the placement precedes.
            Structure::EntropyTrie(_) => None,
            // Not `locate`: the filter of a column may exclude the placement.
            Structure::Columns(columns) => Some(columns.first_block_from(placement)),
            Structure::Fences(fences) => Some(fences.locate(placement).start),
            Structure::RunFences(fences) => Some(fences.locate(placement).start),
            Structure::Tags(tags) => {
                let first = tags.first_rank_of_region(tags.settings().region_of(placement));
                Some(u64::from(first) / self.units_per_block)
            }
            Structure::Perfect(..) | Structure::Paged(_) => {
                let first = self.outline()?.first_block_of_bucket(placement);
                Some(first / self.units_per_block)
            }
        }
    }

    /// Returns the units that may contain the record of a key; `None` if they do not follow each other, for tags that
    /// several slots have. Reads nothing if all of the index is in memory, else once.
    #[inline]
    pub(super) fn locate(
        &self,
        file: &StoreFile,
        query: &Query<'_>,
        buffer: &mut AlignedBuffer,
    ) -> Result<Option<Range<u64>>> {
        let placement = query.hash.placement;
        Ok(Some(match &self.structure {
            Structure::EntropyTrie(trie) => trie.locate(placement),
            Structure::Fences(fences) => fences.locate(placement),
            Structure::Perfect(index, _) => index.locate(placement),
            Structure::Paged(paged) => paged.locate(file, query, buffer)?,
            Structure::Columns(columns) => columns.locate(placement),
            Structure::RunFences(fences) => fences.locate(placement),
            Structure::Tags(tags) => return Ok(tags::locate(tags, query.hash)),
        }))
    }

    /// Returns the slots that have the tag of a key.
    pub(super) fn slots_with_tag(&self, hash: KeyHash) -> impl Iterator<Item = u64> + '_ {
        self.tags().into_iter().flat_map(move |tags| tags::slots(tags, hash))
    }

    /// Returns whether lookups of a key read these blocks of the file.
    pub(in crate::store) fn leads_to(
        &self,
        file: &StoreFile,
        hash: KeyHash,
        blocks: &Range<u64>,
    ) -> Result<bool> {
        let query = Query { purpose: Purpose::Maintain, hash, key: &[] };
        let Some(units) = self.locate(file, &query, &mut AlignedBuffer::default())? else {
            return Ok(self.slots_with_tag(hash).any(|slot| slot / self.units_per_block == blocks.start));
        };
        let found = blocks_of(units, self.units_per_block);
        Ok(found.start <= blocks.start && blocks.end <= found.end)
    }

    /// Returns false only if the index knows that the key is absent. Reads nothing.
    pub(super) fn may_contain(&self, hash: KeyHash) -> bool {
        self.tags().is_none_or(|tags| tags.may_contain(hash.placement, hash.fingerprint))
    }

    /// Returns the heap memory, in bytes, except for tags.
    pub fn heap_bytes(&self) -> usize {
        match &self.structure {
            Structure::EntropyTrie(trie) => size_of_val(&**trie) + trie.heap_bytes(),
            Structure::Fences(fences) => fences.heap_bytes(),
            Structure::Perfect(index, paged) => {
                index.heap_bytes() + paged.as_ref().map_or(0, |paged| paged.pages_bytes())
            }
            Structure::Paged(paged) => paged.pages_bytes() + paged.outline.heap_bytes(),
            Structure::Columns(columns) => size_of_val(&**columns) + columns.heap_bytes(),
            Structure::RunFences(fences) => fences.heap_bytes(),
            Structure::Tags(_) => 0,
        }
    }

    /// Returns the heap memory of tags, which count as a filter, in bytes.
    pub(super) fn tags_bytes(&self) -> usize {
        self.tags().map_or(0, Filter::heap_bytes)
    }

    /// Returns the heap memory of the outline, in bytes.
    pub(super) fn outline_bytes(&self) -> usize {
        self.outline().map_or(0, PerfectOutline::heap_bytes)
    }
}

/// Returns whether the index of a table with this footer is made of tags.
fn is_of_tags(footer: &StoreFooter) -> bool {
    footer.kind == BlockForm::CuckooSlots as u8
}

/// Returns the blocks that contain some units.
#[inline]
pub(super) fn blocks_of(units: Range<u64>, units_per_block: u64) -> Range<u64> {
    if units_per_block == 1 {
        return units;
    }
    // Rounded outward, since either end may be within a block.
    units.start / units_per_block..units.end.div_ceil(units_per_block)
}
