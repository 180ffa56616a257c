//! The tags of a cuckoo table, which locate its records (SILT 3.2). They are saved as the filter of the file, and are
//! always in memory: the records have no order in which they could be searched.

use crate::error::{CorruptFile, Result};
use crate::key::KeyHash;
use crate::store::StoreFilter;
use crate::store::file::StoreFile;
use siltstone_index::filter::{CuckooFilter, Filter};
use std::ops::Range;

/// Reads and checks the tags of a file: those of other records would locate slots that do not exist.
pub(super) fn load(file: &StoreFile) -> Result<CuckooFilter> {
    let records = file.footer().records;
    let got = match StoreFilter::load(file)? {
        // The rank of a slot is the number of a record, so the counts must be equal.
        Some(StoreFilter::Cuckoo(tags)) if tags.len() == records => return Ok(tags),
        Some(filter) => format!("a filter of {} records", filter.len()),
        None => "no filter".to_owned(),
    };
    // The checksum was right, so the footer and this section do not belong together.
    let offset = StoreFile::section_offset(&file.footer().filter);
    Err(file.file().corrupt(offset, format!("the tags of {records} records"), got))
}

/// Returns the slots with the tag of a key: 1 + 2^-12 on average if the key is there, 2^-12 if not.
pub(super) fn slots(tags: &CuckooFilter, hash: KeyHash) -> impl Iterator<Item = u64> + '_ {
    tags.candidate_slots(hash.placement, hash.fingerprint).map(|slot| slot.rank.into())
}

/// Returns the slot with the tag of a key, or no slot; `None` if several have the tag.
pub(super) fn locate(tags: &CuckooFilter, hash: KeyHash) -> Option<Range<u64>> {
    let mut slots = slots(tags, hash);
    match (slots.next(), slots.next()) {
        (None, _) => Some(0..0),
        (Some(slot), None) => Some(slot..slot + 1),
        _ => None,
    }
}
