//! The index of a table in hash order: one of several structures, built with the table and saved in its file.
//!
//! An index locates *units*: slots if it is dense or perfect to slots, blocks otherwise. A perfect index may be left on
//! flash except for its outline; a lookup then reads the seeds of one bucket ([`PagedIndex`]).

use super::BlockForm;
use super::pages::Pages;
use crate::error::{CorruptFile, Error, Result};
use crate::key::KeyHash;
use crate::store::file::{StoreFile, StoreFooter};
use siltstone_device::{AlignedBuffer, Purpose};
use siltstone_index::PlacementIndex;
use siltstone_index::entropy_trie::{Coder, EntropyTrie, EntropyTrieBuilder, TrieSettings};
use siltstone_index::fences::{Fences, FencesBuilder, FencesSettings};
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
pub(super) const SECTION_COLUMNS: u8 = 7;

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
        let slots_per_block = settings.slots_per_block.max(1);
        let trie = |records_per_block, coder| {
            let expected_keys = settings.expected_records;
            let settings =
                TrieSettings { records_per_block, expected_keys, coder, ..TrieSettings::default() };
            Ok(StoreIndexBuilder::EntropyTrie(EntropyTrieBuilder::new(settings)?, slots_per_block))
        };
        match settings.kind {
            IndexKind::EntropyTrie => trie(slots_per_block, Coder::Fast),
            IndexKind::DenseTrie => trie(1, Coder::Fast),
            IndexKind::PaperTrie => trie(1, Coder::Paper),
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
            StoreIndexBuilder::Fences(fences) => Some(StoreIndex::fences(fences.clone().finish())),
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
        Ok(match self {
            StoreIndexBuilder::EntropyTrie(trie, slots_per_block) => {
                StoreIndex::trie(trie.finish()?, slots_per_block)
            }
            StoreIndexBuilder::Fences(fences) => StoreIndex::fences(fences.finish()),
            StoreIndexBuilder::Columns(columns) => StoreIndex::columns(columns.finish()),
        })
    }
}

/// The index of a table, in memory.
pub struct StoreIndex {
    structure: Structure,
    /// The number of units per block: 1 if the units are blocks.
    pub(super) units_per_block: u64,
}

enum Structure {
    /// In a box, because tries are larger than the fences of the many HashStores.
    EntropyTrie(Box<EntropyTrie>),
    Fences(Fences),
    Perfect(PerfectIndex),
    /// Of a run that was just written: its memory is released when the chain has the columns.
    Columns(Arc<RunColumns>),
    /// Of a run whose columns are on flash only.
    RunFences(RunFences),
}

impl StoreIndex {
    fn trie(trie: EntropyTrie, slots_per_block: u32) -> StoreIndex {
        // 1 for a pruned trie, which counts blocks already.
        let units_per_block = u64::from((slots_per_block / trie.settings().records_per_block.max(1)).max(1));
        StoreIndex { structure: Structure::EntropyTrie(Box::new(trie)), units_per_block }
    }

    fn fences(fences: Fences) -> StoreIndex {
        StoreIndex { structure: Structure::Fences(fences), units_per_block: 1 }
    }

    fn columns(columns: RunColumns) -> StoreIndex {
        StoreIndex { structure: Structure::Columns(Arc::new(columns)), units_per_block: 1 }
    }

    /// Returns the fences of columns; `None` if these are damaged.
    pub(super) fn fences_of(columns: &RunColumns) -> Option<StoreIndex> {
        let structure = Structure::RunFences(RunFences::of(columns)?);
        Some(StoreIndex { structure, units_per_block: 1 })
    }

    /// Returns the columns of a run, if they are in memory.
    pub fn run_columns(&self) -> Option<&Arc<RunColumns>> {
        match &self.structure {
            Structure::Columns(columns) => Some(columns),
            _ => None,
        }
    }

    pub(super) fn perfect(index: PerfectIndex, slots_per_block: u32) -> StoreIndex {
        let units_per_block = units_per_block(index.outline(), slots_per_block);
        StoreIndex { structure: Structure::Perfect(index), units_per_block }
    }

    /// Returns whether the records of a table with this footer are ordered between buckets only.
    pub(in crate::store) fn is_in_buckets(footer: &StoreFooter) -> bool {
        footer.index.kind == SECTION_PERFECT
    }

    /// Reads and checks the index of a file, if it has one, with the part that stays in memory while the rest is on
    /// flash. `slots_per_block` is the one that the index was built with.
    pub(in crate::store) fn load(
        file: &StoreFile,
        form: BlockForm,
        slots_per_block: u32,
    ) -> Result<Option<(StoreIndex, Option<PagedIndex>)>> {
        let section = &file.footer().index;
        if section.kind == SECTION_NONE {
            return Ok(None);
        }
        // The checksum in the footer is verified before anything is decoded: the index itself has none.
        let bytes = file.read_section(section, Purpose::Recover)?;
        let offset = StoreFile::section_offset(section);
        let damaged = Error::decode(file.file().path(), offset);
        let index = match section.kind {
            SECTION_ENTROPY_TRIE => {
                let trie = EntropyTrie::decode(&bytes).map_err(damaged)?;
                let records = trie.settings().records_per_block;
                let fits = form != BlockForm::Stream && [1, slots_per_block].contains(&records);
                // A trie counts records, so that one for other records would locate blocks that do not exist.
                if !fits || trie.len() != file.footer().records {
                    let expected =
                        format!("a trie of {} records, {slots_per_block} per block", file.footer().records);
                    let got = format!("{} records, {records} per block", trie.len());
                    return Err(file.file().corrupt(offset, expected, got));
                }
                StoreIndex::trie(trie, slots_per_block)
            }
            SECTION_PERFECT => {
                // The checksums of the pages are for later reads of parts. The whole section was verified above.
                let (pages, bytes) = Pages::split(file, section, &bytes)?;
                let index = PerfectIndex::decode(bytes).map_err(damaged)?;
                // Blocks follow from the number of records before, so that of another table would locate others.
                if index.len() != file.footer().records {
                    let expected = format!("an index of {} records", file.footer().records);
                    return Err(file.file().corrupt(offset, expected, index.len().to_string()));
                }
                // Kept with the whole index too, so that dropping the index needs no read.
                let paged = PagedIndex::new(index.outline().clone(), pages, slots_per_block);
                return Ok(Some((StoreIndex::perfect(index, slots_per_block), Some(paged))));
            }
            // The table limits what fences return to its blocks.
            SECTION_FENCES => StoreIndex::fences(Fences::decode(&bytes).map_err(damaged)?),
            SECTION_COLUMNS => {
                let columns = decode_columns(file, &bytes)?;
                // Only the fences stay in memory. The filters of the columns are read from the chain.
                let unordered = || file.file().corrupt(offset, "ascending fences", "others");
                StoreIndex::fences_of(&columns).ok_or_else(unordered)?
            }
            kind => return Err(file.file().corrupt(offset, "an index", format!("a section of kind {kind}"))),
        };
        Ok(Some((index, None)))
    }

    /// Returns the kind of the index's section and its bytes, and the part that stays in memory while the rest is on
    /// flash.
    pub(crate) fn encode(&self) -> (u8, Vec<u8>, Option<PagedIndex>) {
        let mut bytes = Vec::new();
        match &self.structure {
            Structure::EntropyTrie(trie) => {
                trie.encode(&mut bytes);
                (SECTION_ENTROPY_TRIE, bytes, None)
            }
            Structure::Fences(fences) => {
                fences.encode(&mut bytes);
                (SECTION_FENCES, bytes, None)
            }
            Structure::Perfect(index) => {
                index.encode(&mut bytes);
                let outline = index.outline().clone();
                // The seeds are last, so the part that an open reads is contiguous.
                let (bytes, pages) = Pages::encode(&bytes, bytes.len() as u64 - outline.seeds_bytes());
                let paged = PagedIndex { outline, pages, units_per_block: self.units_per_block };
                (SECTION_PERFECT, bytes, Some(paged))
            }
            Structure::Columns(columns) => {
                columns.encode(&mut bytes);
                (SECTION_COLUMNS, bytes, None)
            }
            // They are never written: the file has the columns.
            Structure::RunFences(_) => (SECTION_NONE, bytes, None),
        }
    }

    /// Returns the kind of index that a footer names, if it names one. A file does not distinguish dense tries from
    /// pruned ones. `by_slot` says whether the table's slots have checksums.
    pub(super) fn kind_in(footer: &StoreFooter, by_slot: bool) -> Option<IndexKind> {
        match footer.index.kind {
            SECTION_ENTROPY_TRIE => Some(IndexKind::EntropyTrie),
            SECTION_FENCES => Some(IndexKind::Fences),
            SECTION_PERFECT if by_slot => Some(IndexKind::SlotPerfect),
            SECTION_PERFECT => Some(IndexKind::BlockPerfect),
            SECTION_COLUMNS => Some(IndexKind::Columns(RunColumnsSettings { ranges: 0, filter_bits: 0 })),
            _ => None,
        }
    }

    /// Returns the kind of index.
    pub fn kind(&self) -> IndexKind {
        match &self.structure {
            Structure::EntropyTrie(trie) => {
                // With one slot per block, a dense and a pruned trie are the same.
                let dense = trie.settings().records_per_block == 1 && self.units_per_block > 1;
                match trie.settings().coder {
                    Coder::Paper => IndexKind::PaperTrie,
                    Coder::Fast if dense => IndexKind::DenseTrie,
                    Coder::Fast => IndexKind::EntropyTrie,
                }
            }
            Structure::Fences(_) => IndexKind::Fences,
            Structure::Perfect(_) if self.units_per_block > 1 => IndexKind::SlotPerfect,
            Structure::Perfect(_) => IndexKind::BlockPerfect,
            Structure::Columns(columns) => IndexKind::Columns(columns.settings()),
            Structure::RunFences(fences) => IndexKind::Columns(fences.settings()),
        }
    }

    /// Returns the outline of a perfect index.
    pub(in crate::store) fn outline(&self) -> Option<&PerfectOutline> {
        match &self.structure {
            Structure::Perfect(index) => Some(index.outline()),
            _ => None,
        }
    }

    /// Returns the blocks that may contain the record of a key.
    #[inline]
    pub fn locate_blocks(&self, hash: KeyHash) -> Range<u64> {
        blocks_of(self.locate(hash), self.units_per_block)
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
            _ => Some(self.locate_blocks(KeyHash { placement, fingerprint: 0 }).start),
        }
    }

    /// Returns the units that may contain the record of a key.
    #[inline]
    pub(super) fn locate(&self, hash: KeyHash) -> Range<u64> {
        match &self.structure {
            Structure::EntropyTrie(trie) => trie.locate(hash.placement),
            Structure::Fences(fences) => fences.locate(hash.placement),
            Structure::Perfect(index) => index.locate(hash.placement),
            Structure::Columns(columns) => columns.locate(hash.placement),
            Structure::RunFences(fences) => fences.locate(hash.placement),
        }
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match &self.structure {
            Structure::EntropyTrie(trie) => size_of_val(&**trie) + trie.heap_bytes(),
            Structure::Fences(fences) => fences.heap_bytes(),
            Structure::Perfect(index) => index.heap_bytes(),
            Structure::Columns(columns) => size_of_val(&**columns) + columns.heap_bytes(),
            Structure::RunFences(fences) => fences.heap_bytes(),
        }
    }
}

/// Returns the columns in the bytes of a file's index section.
pub(super) fn decode_columns(file: &StoreFile, bytes: &[u8]) -> Result<RunColumns> {
    let offset = StoreFile::section_offset(&file.footer().index);
    let columns = RunColumns::decode(bytes).map_err(Error::decode(file.file().path(), offset))?;
    // Columns of other blocks would lead lookups outside of the file.
    if columns.blocks() != file.footer().blocks {
        let expected = format!("columns of {} blocks", file.footer().blocks);
        return Err(file.file().corrupt(offset, expected, columns.blocks().to_string()));
    }
    Ok(columns)
}

/// Returns the number of units per block of a perfect index over blocks of this number of slots.
fn units_per_block(outline: &PerfectOutline, slots_per_block: u32) -> u64 {
    // With one record per unit, the units are slots.
    if outline.records_per_block() == 1 { u64::from(slots_per_block.max(1)) } else { 1 }
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

/// A perfect index whose seeds are on flash: its outline, which says which of them a key needs, and the checksums of
/// their pages.
pub(crate) struct PagedIndex {
    pub(super) outline: Arc<PerfectOutline>,
    pub(super) pages: Pages,
    /// The number of units per block: 1 if the units are blocks.
    pub(super) units_per_block: u64,
}

impl PagedIndex {
    fn new(outline: Arc<PerfectOutline>, pages: Pages, slots_per_block: u32) -> PagedIndex {
        let units_per_block = units_per_block(&outline, slots_per_block);
        PagedIndex { outline, pages, units_per_block }
    }

    /// Reads the outline and the checksums of the pages.
    pub(super) fn open(file: &StoreFile, slots_per_block: u32) -> Result<PagedIndex> {
        let section = &file.footer().index;
        // Two reads, whatever the size: the table of pages, then the head that it delimits.
        let pages = Pages::open(file, section)?;
        let mut buffer = AlignedBuffer::default();
        let (_, bytes) = pages.read(file, Purpose::Recover, 0..pages.head_bytes, &mut buffer)?;
        // The last page of the head may also have seeds.
        let head = bytes.get(..pages.head_bytes as usize).unwrap_or_default();
        let offset = StoreFile::section_offset(section);
        let outline = PerfectOutline::decode(head).map_err(Error::decode(file.file().path(), offset))?;
        // The outline says which seeds a key needs, so both must agree on where these are.
        if pages.head_bytes.checked_add(outline.seeds_bytes()) != Some(pages.index_bytes) {
            let got = format!("{} of {} bytes", pages.head_bytes, pages.index_bytes);
            return Err(file.file().corrupt(offset, "a resident part that fits the index", got));
        }
        Ok(PagedIndex::new(Arc::new(outline), pages, slots_per_block))
    }

    /// Returns the first block that contains a record of the placement's bucket.
    pub(super) fn first_block_of_bucket(&self, placement: u64) -> u64 {
        self.outline.first_block_of_bucket(placement) / self.units_per_block
    }

    /// Returns the units that may contain the record of a key. Takes one read.
    pub(super) fn locate(
        &self,
        file: &StoreFile,
        purpose: Purpose,
        hash: KeyHash,
        buffer: &mut AlignedBuffer,
    ) -> Result<Range<u64>> {
        let Range { start, end } = self.outline.seeds_for(hash.placement);
        // Without keys there are no seeds to read.
        if start >= end {
            return Ok(0..self.outline.blocks().min(1));
        }
        let head_bytes = self.pages.head_bytes;
        let (from, bytes) = self.pages.read(file, purpose, head_bytes + start..head_bytes + end, buffer)?;
        // Whole pages are read, so the first one may begin in the head.
        let skip = head_bytes.saturating_sub(from);
        let seeds = bytes.get(skip as usize..).unwrap_or_default();
        Ok(self.outline.locate_in(hash.placement, (from + skip) - head_bytes, seeds))
    }
}
