//! To which of two databases the files of a directory belong, if its manifest and its mirror have different ids: a
//! restore may have put one of them into the wrong directory.

use crate::error::Result;
use crate::names::FileName;
use crate::store::log_format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use siltstone_device::{Access, AlignedBuffer, Directory, Purpose};
use std::cmp::Reverse;

/// Returns the one of these ids that the newest segment of a log has; `None` if no segment has one of them. The log of
/// users decides before others: in a copy of a database, its newest segment has the id of the copy, and others may have
/// that of the original.
pub(super) fn owner_of_files(directory: &Directory, ids: [u64; 2]) -> Result<Option<u64>> {
    let names = directory.list()?;
    let mut segments: Vec<_> = names
        .iter()
        .filter_map(|name| match FileName::parse(name) {
            Some(FileName::Segment { class, base }) => Some((class.number(), Reverse(base), name)),
            _ => None,
        })
        .collect();
    // The newest segment first: the database that was open last has written it.
    segments.sort_unstable();
    let mut buffer = AlignedBuffer::default();
    for (_, _, name) in segments {
        let file = directory.open(name, Access::Buffered)?;
        // A crash may have come before its header was written.
        if file.length()? < SEGMENT_HEADER_BYTES as u64 {
            continue;
        }
        let header = file.read(Purpose::Recover, 0, SEGMENT_HEADER_BYTES, &mut buffer)?;
        if let Some((_, Some(SegmentHeader { database_id, .. }))) = SegmentHeader::decode(header)
            && ids.contains(&database_id)
        {
            return Ok(Some(database_id));
        }
    }
    Ok(None)
}
