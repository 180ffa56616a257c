//! The indexes and filters that a store may have, as one.

use crate::device::Purpose;
use crate::index::PlacementIndex;
use crate::index::block_perfect::BlockPerfect;
use crate::index::entropy_trie::EntropyTrie;
use crate::index::fences::Fences;
use crate::index::filter::{CuckooFilter, Filter, RibbonFilter};
use crate::key::KeyHash;
use crate::store::file::{FilterKind, StoreFile};
use crate::{Error, Result};
use std::ops::Range;

/// Which index finds the block of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SortedIndexKind {
    /// The entropy-coded trie, sparse. Only for slots.
    EntropyTrie = 1,
    /// Elias–Fano fences between the blocks.
    Fences = 2,
    /// A perfect hash of each bucket to its blocks, which are all full. Only for slots, two or more in a block.
    BlockPerfect = 3,
}

/// The index of a store, in memory.
pub enum StoreIndex {
    /// See [`SortedIndexKind::EntropyTrie`].
    EntropyTrie(EntropyTrie),
    /// See [`SortedIndexKind::Fences`].
    Fences(Fences),
    /// See [`SortedIndexKind::BlockPerfect`].
    BlockPerfect(BlockPerfect),
}

impl StoreIndex {
    pub(super) fn load(file: &StoreFile) -> Result<StoreIndex> {
        let section = &file.footer().index;
        let bytes = file.read_section(section, Purpose::Recover)?;
        let damaged = Error::decode(file.file().path(), StoreFile::section_offset(section));
        match section.kind {
            kind if kind == SortedIndexKind::EntropyTrie as u8 => {
                EntropyTrie::decode(&bytes).map(StoreIndex::EntropyTrie).map_err(damaged)
            }
            kind if kind == SortedIndexKind::Fences as u8 => {
                Fences::decode(&bytes).map(StoreIndex::Fences).map_err(damaged)
            }
            kind if kind == SortedIndexKind::BlockPerfect as u8 => {
                BlockPerfect::decode(&bytes).map(StoreIndex::BlockPerfect).map_err(damaged)
            }
            kind => {
                let offset = StoreFile::section_offset(section);
                Err(file.file().corrupt(offset, "an index", format!("a section of kind {kind}")))
            }
        }
    }

    /// The index's kind and its saved form.
    pub(super) fn encode(&self) -> (SortedIndexKind, Vec<u8>) {
        let mut bytes = Vec::new();
        let kind = match self {
            StoreIndex::EntropyTrie(trie) => {
                trie.encode(&mut bytes);
                SortedIndexKind::EntropyTrie
            }
            StoreIndex::Fences(fences) => {
                fences.encode(&mut bytes);
                SortedIndexKind::Fences
            }
            StoreIndex::BlockPerfect(index) => {
                index.encode(&mut bytes);
                SortedIndexKind::BlockPerfect
            }
        };
        (kind, bytes)
    }

    /// The blocks in which the record of a key stands, if it is there.
    #[inline]
    pub fn locate(&self, hash: KeyHash) -> Range<u64> {
        match self {
            StoreIndex::EntropyTrie(trie) => trie.locate(hash.placement),
            StoreIndex::Fences(fences) => fences.locate(hash.placement),
            StoreIndex::BlockPerfect(index) => index.locate(hash.placement),
        }
    }

    /// The memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match self {
            StoreIndex::EntropyTrie(trie) => trie.heap_bytes(),
            StoreIndex::Fences(fences) => fences.heap_bytes(),
            StoreIndex::BlockPerfect(index) => index.heap_bytes(),
        }
    }
}

/// The filter of a store, in memory.
pub enum StoreFilter {
    /// The tags of the LogStore that the store was made of.
    Cuckoo(CuckooFilter),
    /// Near the information bound.
    Ribbon(RibbonFilter),
}

impl StoreFilter {
    pub(super) fn load(file: &StoreFile) -> Result<Option<StoreFilter>> {
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
        }
    }

    /// Whether a key may be in the store.
    #[inline]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        match self {
            StoreFilter::Cuckoo(filter) => filter.may_contain(hash.placement, hash.fingerprint),
            StoreFilter::Ribbon(filter) => filter.may_contain(hash.placement, hash.fingerprint),
        }
    }

    /// The memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match self {
            StoreFilter::Cuckoo(filter) => filter.heap_bytes(),
            StoreFilter::Ribbon(filter) => filter.heap_bytes(),
        }
    }
}
