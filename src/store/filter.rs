//! The filter of a store: kinds, saved form and the filter in memory.

use super::file::StoreFile;
use crate::error::{CorruptFile, Error, Result};
use crate::key::KeyHash;
use siltstone_device::Purpose;
use siltstone_index::filter::{CuckooFilter, Filter, RangedFilter, RibbonFilter};
use std::ops::Deref;

/// The kind of filter that excludes keys from a HashStore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterKind {
    /// The paper's hash filter (SILT 3.2): the tags of the LogStore, copied. Its false-positive rate is
    /// 8 / 2^`tag_bits`.
    CuckooTags,
    /// A ribbon filter, near the information bound. Its false-positive rate is 2^-`filter_bits`.
    Ribbon,
}

impl FilterKind {
    /// All kinds.
    #[doc(hidden)]
    pub const ALL: [FilterKind; 2] = [FilterKind::CuckooTags, FilterKind::Ribbon];

    /// Returns the name of the kind in settings and statistics.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        match self {
            FilterKind::CuckooTags => "cuckoo_tags",
            FilterKind::Ribbon => "ribbon",
        }
    }

    /// Returns the kind with a name.
    #[doc(hidden)]
    pub fn from_name(name: &str) -> Option<FilterKind> {
        FilterKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the kind of filter in a section of this kind, if there is one.
    pub(in crate::store) fn of_section(section: u8) -> Option<FilterKind> {
        match section {
            SECTION_CUCKOO => Some(FilterKind::CuckooTags),
            // A ranged filter is a list of ribbon filters. For users it is one kind.
            SECTION_RIBBON | SECTION_RANGED => Some(FilterKind::Ribbon),
            _ => None,
        }
    }
}

/// The kinds of filter sections in a file.
const SECTION_NONE: u8 = 0;
const SECTION_CUCKOO: u8 = 1;
const SECTION_RIBBON: u8 = 2;
/// Ribbon filters of ranges of placements: a merge builds one after the other.
const SECTION_RANGED: u8 = 3;

/// The filter of a store, in memory. An enum, since a get checks the filters of several stores.
pub enum StoreFilter {
    /// Copied tags.
    Cuckoo(CuckooFilter),
    /// A ribbon filter.
    Ribbon(RibbonFilter),
    /// Ribbon filters of ranges of placements.
    Ranged(RangedFilter),
}

impl From<CuckooFilter> for StoreFilter {
    fn from(filter: CuckooFilter) -> Self {
        StoreFilter::Cuckoo(filter)
    }
}

impl From<RibbonFilter> for StoreFilter {
    fn from(filter: RibbonFilter) -> Self {
        StoreFilter::Ribbon(filter)
    }
}

impl From<RangedFilter> for StoreFilter {
    fn from(filter: RangedFilter) -> Self {
        StoreFilter::Ranged(filter)
    }
}

impl Deref for StoreFilter {
    type Target = dyn Filter;

    fn deref(&self) -> &Self::Target {
        match self {
            StoreFilter::Cuckoo(filter) => filter,
            StoreFilter::Ribbon(filter) => filter,
            StoreFilter::Ranged(filter) => filter,
        }
    }
}

impl StoreFilter {
    /// Returns false only if the key is certainly not in the store. Matches the kind once, without a virtual call.
    #[inline]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        match self {
            StoreFilter::Cuckoo(filter) => filter.may_contain(hash.placement, hash.fingerprint),
            StoreFilter::Ribbon(filter) => filter.may_contain(hash.placement, hash.fingerprint),
            StoreFilter::Ranged(filter) => filter.may_contain(hash.placement, hash.fingerprint),
        }
    }

    /// Returns the filter without what only keys of lower placements need, if that saves memory: it may contain every
    /// such key.
    pub fn without_before(&self, placement: u64) -> Option<StoreFilter> {
        match self {
            // The first layer is in the order of placements, so lower keys have the first rows.
            StoreFilter::Ribbon(filter) => Some(filter.without_before(placement).into()),
            StoreFilter::Cuckoo(_) | StoreFilter::Ranged(_) => None,
        }
    }

    /// Returns an error if the kind of the saved filter is unknown.
    pub(in crate::store) fn check_kind(file: &StoreFile) -> Result<()> {
        let section = &file.footer().filter;
        // Only the kind, which the footer has: an open that leaves the filter on flash reads no more.
        if section.kind == SECTION_NONE || FilterKind::of_section(section.kind).is_some() {
            return Ok(());
        }
        let offset = StoreFile::section_offset(section);
        Err(file.file().corrupt(offset, "a filter", format!("a section of kind {}", section.kind)))
    }

    /// Reads and checks the filter of a file, if it has one.
    pub(in crate::store) fn load(file: &StoreFile) -> Result<Option<StoreFilter>> {
        StoreFilter::check_kind(file)?;
        let section = &file.footer().filter;
        if section.kind == SECTION_NONE {
            return Ok(None);
        }
        // The checksum in the footer is verified here: filters have none.
        let bytes = file.read_section(section, Purpose::Recover)?;
        let filter = match section.kind {
            SECTION_CUCKOO => CuckooFilter::decode(&bytes).map(StoreFilter::from),
            SECTION_RIBBON => RibbonFilter::decode(&bytes).map(StoreFilter::from),
            // `check_kind` has refused all other kinds.
            _ => RangedFilter::decode(&bytes).map(StoreFilter::from),
        };
        let offset = StoreFile::section_offset(section);
        filter.map(Some).map_err(Error::decode(file.file().path(), offset))
    }

    /// Returns the kind of the filter's section and its bytes.
    pub(in crate::store) fn encode_section(&self) -> (u8, Vec<u8>) {
        let section = match self {
            StoreFilter::Cuckoo(_) => SECTION_CUCKOO,
            StoreFilter::Ribbon(_) => SECTION_RIBBON,
            StoreFilter::Ranged(_) => SECTION_RANGED,
        };
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        (section, bytes)
    }
}
