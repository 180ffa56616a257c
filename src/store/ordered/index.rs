//! The indexes and filters that a store may have, as one.

use super::Form;
use super::pages::Pages;
use crate::device::{AlignedBuffer, Purpose};
use crate::index::PlacementIndex;
use crate::index::block_perfect::{BlockPerfect, BlockPerfectOutline};
use crate::index::entropy_trie::{EntropyTrie, EntropyTrieBuilder, TrieSettings};
use crate::index::fences::{Fences, FencesBuilder, FencesSettings};
use crate::index::filter::{CuckooFilter, Filter, RangedFilter, RibbonFilter};
use crate::key::KeyHash;
use crate::store::file::{FilterKind, StoreFile, StoreFooter};
use crate::{Error, Result};
use std::ops::Range;

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
    /// A perfect hash from the records of each bucket to their blocks, all of which are full. Records of a fixed size,
    /// 2 to 256 per block; they are not ordered within a bucket.
    BlockPerfect,
    /// A perfect hash from the records of each bucket to their slots, 1.5 bits per key: a get reads only the sectors
    /// of its record. Records of a fixed size, smaller than a block; they are not ordered within a bucket.
    SlotPerfect,
}

impl IndexKind {
    /// All kinds.
    pub const ALL: [IndexKind; 5] = [
        IndexKind::Fences,
        IndexKind::EntropyTrie,
        IndexKind::DenseTrie,
        IndexKind::BlockPerfect,
        IndexKind::SlotPerfect,
    ];

    /// The name of the kind in settings and statistics.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::Fences => "fences",
            IndexKind::EntropyTrie => "entropy_trie",
            IndexKind::DenseTrie => "dense_trie",
            IndexKind::BlockPerfect => "block_perfect",
            IndexKind::SlotPerfect => "slot_perfect",
        }
    }

    /// The kind with a name.
    pub fn from_name(name: &str) -> Option<IndexKind> {
        IndexKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether the index locates the slot of a record, not only its block.
    pub fn locates_slots(self) -> bool {
        matches!(self, IndexKind::DenseTrie | IndexKind::SlotPerfect)
    }

    /// Whether the index assigns records to blocks, so that it is built together with the table and records are
    /// ordered between buckets only.
    pub fn is_perfect(self) -> bool {
        matches!(self, IndexKind::BlockPerfect | IndexKind::SlotPerfect)
    }
}

/// The kinds of saved indexes; whether a trie is dense stands in itself.
const SECTION_NONE: u8 = 0;
const SECTION_ENTROPY_TRIE: u8 = 1;
const SECTION_FENCES: u8 = 2;
const SECTION_BLOCK_PERFECT: u8 = 4;

/// What an index is built with.
#[derive(Debug, Clone, Copy)]
pub struct StoreIndexSettings {
    /// Which index.
    pub kind: IndexKind,
    /// How many records stand in each block, if all but the last are full of slots; else 1.
    pub slots_per_block: u32,
    /// About how many records will come.
    pub expected_records: u64,
    /// About how many blocks they will fill.
    pub expected_blocks: u64,
}

/// Makes a [`StoreIndex`] of records in hash order.
pub enum StoreIndexBuilder {
    /// A trie, and the slots of a block.
    EntropyTrie(EntropyTrieBuilder, u32),
    /// Fences.
    Fences(FencesBuilder),
}

impl StoreIndexBuilder {
    /// Starts without a record.
    pub fn new(settings: &StoreIndexSettings) -> Result<Self> {
        let slots_per_block = settings.slots_per_block.max(1);
        let trie = |records_per_block| {
            let expected_keys = settings.expected_records;
            let settings = TrieSettings { records_per_block, expected_keys, ..TrieSettings::default() };
            Ok(StoreIndexBuilder::EntropyTrie(EntropyTrieBuilder::new(settings)?, slots_per_block))
        };
        match settings.kind {
            IndexKind::EntropyTrie => trie(slots_per_block),
            IndexKind::DenseTrie => trie(1),
            IndexKind::Fences => Ok(StoreIndexBuilder::Fences(FencesBuilder::new(FencesSettings {
                expected_records: settings.expected_records,
                expected_blocks: settings.expected_blocks,
            }))),
            IndexKind::BlockPerfect | IndexKind::SlotPerfect => Err(Error::Setting {
                name: "index",
                problem:
                    "a perfect index determines the positions of records, so it must be built with the store"
                        .into(),
            }),
        }
    }

    /// Adds the next record and the blocks that have any of its bytes.
    pub fn push(&mut self, placement: u64, blocks: Range<u64>) -> Result<()> {
        match self {
            StoreIndexBuilder::EntropyTrie(trie, _) => trie.push(placement)?,
            StoreIndexBuilder::Fences(fences) => fences.push(placement, blocks)?,
        }
        Ok(())
    }

    /// Whether a lookup of either of two placements would read both blocks, if a block ended between them.
    pub fn would_share(&self, placement: u64, next: u64) -> bool {
        match self {
            StoreIndexBuilder::Fences(fences) => fences.cell_of(placement) == fences.cell_of(next),
            _ => false,
        }
    }

    /// No more records will come.
    pub fn finish(self) -> Result<StoreIndex> {
        Ok(match self {
            StoreIndexBuilder::EntropyTrie(trie, slots_per_block) => {
                StoreIndex::trie(trie.finish()?, slots_per_block)
            }
            StoreIndexBuilder::Fences(fences) => StoreIndex::Fences(fences.finish()),
        })
    }
}

/// The index of a store, in memory.
pub enum StoreIndex {
    /// See [`IndexKind::EntropyTrie`] and [`IndexKind::DenseTrie`].
    EntropyTrie {
        /// The trie.
        trie: EntropyTrie,
        /// How many of the units that it locates stand in a block: 1 if it is sparse.
        units_per_block: u64,
    },
    /// See [`IndexKind::Fences`].
    Fences(Fences),
    /// See [`IndexKind::BlockPerfect`] and [`IndexKind::SlotPerfect`].
    BlockPerfect {
        /// The index.
        index: BlockPerfect,
        /// How many of the units that it locates stand in a block: 1 unless it tells slots.
        units_per_block: u64,
    },
}

impl StoreIndex {
    fn trie(trie: EntropyTrie, slots_per_block: u32) -> StoreIndex {
        let units_per_block = u64::from((slots_per_block / trie.settings().records_per_block.max(1)).max(1));
        StoreIndex::EntropyTrie { trie, units_per_block }
    }

    /// A perfect index over blocks of so many slots.
    pub(super) fn perfect(index: BlockPerfect, slots_per_block: u32) -> StoreIndex {
        let units_per_block = units_per_block(index.records_per_block(), slots_per_block);
        StoreIndex::BlockPerfect { index, units_per_block }
    }

    /// Whether the records of the store are ordered by buckets only.
    pub(in crate::store) fn is_in_buckets(footer: &StoreFooter) -> bool {
        footer.index.kind == SECTION_BLOCK_PERFECT
    }

    /// Reads the index back. `slots_per_block` is as it was when it was built.
    pub(in crate::store) fn load(
        file: &StoreFile,
        form: Form,
        slots_per_block: u32,
    ) -> Result<Option<(StoreIndex, Option<Buckets>)>> {
        let section = &file.footer().index;
        if section.kind == SECTION_NONE {
            return Ok(None);
        }
        let bytes = file.read_section(section, Purpose::Recover)?;
        let offset = StoreFile::section_offset(section);
        let damaged = Error::decode(file.file().path(), offset);
        let index = match section.kind {
            SECTION_ENTROPY_TRIE => {
                let trie = EntropyTrie::decode(&bytes).map_err(damaged)?;
                let records = trie.settings().records_per_block;
                let fits = form != Form::Stream && [1, slots_per_block].contains(&records);
                if !fits || trie.len() != file.footer().records {
                    let expected =
                        format!("a trie of {} records, {slots_per_block} per block", file.footer().records);
                    let got = format!("{} records, {records} per block", trie.len());
                    return Err(file.file().corrupt(offset, expected, got));
                }
                StoreIndex::trie(trie, slots_per_block)
            }
            SECTION_BLOCK_PERFECT => {
                let (pages, bytes) = Pages::split(file, section, &bytes)?;
                let index = BlockPerfect::decode(bytes).map_err(damaged)?;
                let buckets = Buckets::new(index.outline(), pages, slots_per_block);
                return Ok(Some((StoreIndex::perfect(index, slots_per_block), Some(buckets))));
            }
            SECTION_FENCES => Fences::decode(&bytes).map(StoreIndex::Fences).map_err(damaged)?,
            kind => return Err(file.file().corrupt(offset, "an index", format!("a section of kind {kind}"))),
        };
        Ok(Some((index, None)))
    }

    /// The saved form: the kind of its section, and its bytes; with what stays in memory while it is on flash.
    pub(crate) fn encode(&self) -> (u8, Vec<u8>, Option<Buckets>) {
        let mut bytes = Vec::new();
        let section = match self {
            StoreIndex::EntropyTrie { trie, .. } => {
                trie.encode(&mut bytes);
                SECTION_ENTROPY_TRIE
            }
            StoreIndex::Fences(fences) => {
                fences.encode(&mut bytes);
                SECTION_FENCES
            }
            StoreIndex::BlockPerfect { index, units_per_block } => {
                index.encode(&mut bytes);
                let outline = index.outline();
                let (bytes, pages) = Pages::encode(&bytes, bytes.len() as u64 - outline.seeds_bytes());
                let buckets = Buckets { outline, pages, units_per_block: *units_per_block };
                return (SECTION_BLOCK_PERFECT, bytes, Some(buckets));
            }
        };
        (section, bytes, None)
    }

    /// The names of the index and of the filter in a file that ends so; `by_slot` if its blocks are found by slot.
    pub fn names(footer: &StoreFooter, by_slot: bool) -> (&'static str, &'static str) {
        let index = match footer.index.kind {
            SECTION_ENTROPY_TRIE => "entropy_trie",
            SECTION_FENCES => "fences",
            SECTION_BLOCK_PERFECT if by_slot => "slot_perfect",
            SECTION_BLOCK_PERFECT => "block_perfect",
            _ => "none",
        };
        let is = |kind: FilterKind| footer.filter.kind == kind as u8;
        let filter = match () {
            () if is(FilterKind::Cuckoo) => "cuckoo_tags",
            () if is(FilterKind::Ribbon) || is(FilterKind::Ranged) => "ribbon",
            () => "none",
        };
        (index, filter)
    }

    /// Which index it is.
    pub fn kind(&self) -> IndexKind {
        match self {
            StoreIndex::EntropyTrie { trie, units_per_block } => {
                let dense = trie.settings().records_per_block == 1 && *units_per_block > 1;
                if dense { IndexKind::DenseTrie } else { IndexKind::EntropyTrie }
            }
            StoreIndex::Fences(_) => IndexKind::Fences,
            StoreIndex::BlockPerfect { units_per_block: 2.., .. } => IndexKind::SlotPerfect,
            StoreIndex::BlockPerfect { .. } => IndexKind::BlockPerfect,
        }
    }

    /// The blocks in which the record of a key stands, if it is there.
    #[inline]
    pub fn locate(&self, hash: KeyHash) -> Range<u64> {
        let (units, units_per_block) = self.locate_units(hash);
        blocks_of(units, units_per_block)
    }

    /// The units in which the record of a key stands, if it is there, and how many of them stand in a block: slots, or
    /// blocks if that is 1.
    #[inline]
    pub(super) fn locate_units(&self, hash: KeyHash) -> (Range<u64>, u64) {
        match self {
            StoreIndex::EntropyTrie { trie, units_per_block } => {
                (trie.locate(hash.placement), *units_per_block)
            }
            StoreIndex::Fences(fences) => (fences.locate(hash.placement), 1),
            StoreIndex::BlockPerfect { index, units_per_block } => {
                (index.locate(hash.placement), *units_per_block)
            }
        }
    }

    /// The memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match self {
            StoreIndex::EntropyTrie { trie, .. } => trie.heap_bytes(),
            StoreIndex::Fences(fences) => fences.heap_bytes(),
            StoreIndex::BlockPerfect { index, .. } => index.heap_bytes(),
        }
    }
}

/// What stays in memory of a block-perfect index that is on flash.
#[derive(Clone)]
pub(crate) struct Buckets {
    /// Where each bucket begins.
    pub(super) outline: BlockPerfectOutline,
    /// Where the rest is, and how to check it.
    pub(super) pages: Pages,
    /// How many of the units that it locates stand in a block: 1 unless it tells slots.
    pub(super) units_per_block: u64,
}

/// How many units of an index stand in a block of so many slots, if a unit is so many records.
fn units_per_block(records_per_unit: u32, slots_per_block: u32) -> u64 {
    if records_per_unit == 1 { u64::from(slots_per_block.max(1)) } else { 1 }
}

/// The blocks that hold some units.
#[inline]
pub(super) fn blocks_of(units: Range<u64>, units_per_block: u64) -> Range<u64> {
    if units_per_block == 1 {
        return units;
    }
    units.start / units_per_block..units.end.div_ceil(units_per_block)
}

impl Buckets {
    fn new(outline: BlockPerfectOutline, pages: Pages, slots_per_block: u32) -> Buckets {
        let units_per_block = units_per_block(outline.records_per_block(), slots_per_block);
        Buckets { outline, pages, units_per_block }
    }

    /// Reads it from the beginning of the saved index.
    pub(super) fn open(file: &StoreFile, slots_per_block: u32) -> Result<Buckets> {
        let section = &file.footer().index;
        let pages = Pages::open(file, section)?;
        let mut buffer = AlignedBuffer::default();
        let (_, bytes) = pages.read(file, Purpose::Recover, 0..pages.head_bytes, &mut buffer)?;
        let head = bytes.get(..pages.head_bytes as usize).unwrap_or_default();
        let offset = StoreFile::section_offset(section);
        let outline = BlockPerfectOutline::decode(head).map_err(Error::decode(file.file().path(), offset))?;
        if pages.head_bytes.checked_add(outline.seeds_bytes()) != Some(pages.index_bytes) {
            let got = format!("{} of {} bytes", pages.head_bytes, pages.index_bytes);
            return Err(file.file().corrupt(offset, "a resident part that fits the index", got));
        }
        Ok(Buckets::new(outline, pages, slots_per_block))
    }

    /// The first block that has a record of the placement's bucket.
    pub(super) fn first_block_of_bucket(&self, placement: u64) -> u64 {
        self.outline.first_block_of_bucket(placement) / self.units_per_block
    }

    /// The units in which the record of a key stands, if it is there. One read.
    pub(super) fn locate(
        &self,
        file: &StoreFile,
        purpose: Purpose,
        hash: KeyHash,
        buffer: &mut AlignedBuffer,
    ) -> Result<Range<u64>> {
        let Range { start, end } = self.outline.seeds_for(hash.placement);
        if start >= end {
            return Ok(0..self.outline.blocks().min(1));
        }
        let head_bytes = self.pages.head_bytes;
        let (from, bytes) = self.pages.read(file, purpose, head_bytes + start..head_bytes + end, buffer)?;
        // The first page may have a part of the head too.
        let skip = head_bytes.saturating_sub(from);
        let seeds = bytes.get(skip as usize..).unwrap_or_default();
        Ok(self.outline.locate_in(hash.placement, (from + skip) - head_bytes, seeds))
    }
}

/// The filter of a store, in memory.
pub enum StoreFilter {
    /// The tags of the LogStore that the store was made of.
    Cuckoo(CuckooFilter),
    /// Near the information bound.
    Ribbon(RibbonFilter),
    /// The same by ranges, which can be made of any number of keys.
    Ranged(RangedFilter),
}

impl StoreFilter {
    /// An error if the saved filter is of no kind that is known.
    pub(super) fn check_kind(file: &StoreFile) -> Result<()> {
        let section = &file.footer().filter;
        let known = [FilterKind::None, FilterKind::Cuckoo, FilterKind::Ribbon, FilterKind::Ranged];
        if known.iter().any(|kind| *kind as u8 == section.kind) {
            return Ok(());
        }
        let offset = StoreFile::section_offset(section);
        Err(file.file().corrupt(offset, "a filter", format!("a section of kind {}", section.kind)))
    }

    /// Reads the filter back, if there is one.
    pub(in crate::store) fn load(file: &StoreFile) -> Result<Option<StoreFilter>> {
        let section = &file.footer().filter;
        let damaged = Error::decode(file.file().path(), StoreFile::section_offset(section));
        match section.kind {
            kind if kind == FilterKind::None as u8 => Ok(None),
            kind if kind == FilterKind::Cuckoo as u8 => {
                let bytes = file.read_section(section, Purpose::Recover)?;
                Ok(Some(StoreFilter::Cuckoo(CuckooFilter::decode(&bytes).map_err(damaged)?)))
            }
            kind if kind == FilterKind::Ribbon as u8 => {
                let bytes = file.read_section(section, Purpose::Recover)?;
                Ok(Some(StoreFilter::Ribbon(RibbonFilter::decode(&bytes).map_err(damaged)?)))
            }
            kind if kind == FilterKind::Ranged as u8 => {
                let bytes = file.read_section(section, Purpose::Recover)?;
                Ok(Some(StoreFilter::Ranged(RangedFilter::decode(&bytes).map_err(damaged)?)))
            }
            kind => {
                let offset = StoreFile::section_offset(section);
                Err(file.file().corrupt(offset, "a filter", format!("a section of kind {kind}")))
            }
        }
    }

    pub(super) fn encode(&self) -> (FilterKind, Vec<u8>) {
        let mut bytes = Vec::new();
        match self {
            StoreFilter::Cuckoo(filter) => {
                filter.encode(&mut bytes);
                (FilterKind::Cuckoo, bytes)
            }
            StoreFilter::Ribbon(filter) => {
                filter.encode(&mut bytes);
                (FilterKind::Ribbon, bytes)
            }
            StoreFilter::Ranged(filter) => {
                filter.encode(&mut bytes);
                (FilterKind::Ranged, bytes)
            }
        }
    }

    /// Whether a key may be in the store.
    #[inline]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        match self {
            StoreFilter::Cuckoo(filter) => filter.may_contain(hash.placement, hash.fingerprint),
            StoreFilter::Ribbon(filter) => filter.may_contain(hash.placement, hash.fingerprint),
            StoreFilter::Ranged(filter) => filter.may_contain(hash.placement, hash.fingerprint),
        }
    }

    /// The memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match self {
            StoreFilter::Cuckoo(filter) => filter.heap_bytes(),
            StoreFilter::Ribbon(filter) => filter.heap_bytes(),
            StoreFilter::Ranged(filter) => filter.heap_bytes(),
        }
    }
}
