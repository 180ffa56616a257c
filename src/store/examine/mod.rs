//! Examines files whose bytes may be damaged: finds the damage, the keys that it affects, and every intact record.
//! Verify and repair share this code, so the reported damage is exactly what a repair loses.
//!
//! The keys of a damaged part are unknown, but its neighbours limit them: records are in hash order, so the lost ones
//! are between the last hash before the damage and the first one after it.

mod frames;
mod log;
mod open;
mod pass;
mod ranges;

pub use frames::Unreadable;
pub(in crate::store) use frames::{Seen, examine_frames};
pub(in crate::store) use log::read_segment_header;
pub use log::{ExaminedLog, ExaminedSegment, Found, LogToExamine, begin_after, remove_strays};
pub use open::{OpenedStore, StoreToOpen};
pub use pass::Examined;
pub(in crate::store) use ranges::RangeChecksums;

use crate::error::{Error, Result};
use crate::store::record::{RecordShape, RecordView};
use siltstone_device::{AlignedBuffer, File, Purpose};

/// Called with every intact record.
pub type Visit<'a> = dyn FnMut(&RecordView<'_>) -> Result<()> + 'a;

/// Called with the number of further bytes read; returns `false` to stop.
pub type Advance<'a> = dyn FnMut(u64) -> bool + 'a;

/// What the records of a store have in common.
#[derive(Debug, Clone, Copy)]
pub struct RecordScope {
    /// The shape of the records.
    pub shape: RecordShape,
    /// The partition of all records.
    pub partition: u64,
}

/// The error number of a device that could not read a sector.
const EIO: i32 = 5;

/// Returns whether an error means damage: wrong bytes, or bytes that the device has lost.
pub fn is_damage(error: &Error) -> bool {
    match error {
        // A damaged byte may state another version.
        Error::Corrupt { .. } | Error::Version { .. } => true,
        Error::Io { source, .. } => is_lost(source),
        _ => false,
    }
}

/// Returns whether an error means that a file does not exist.
pub fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
}

fn is_lost(error: &std::io::Error) -> bool {
    // No other error: without memory or access nothing is known of the bytes.
    error.raw_os_error() == Some(EIO)
}

/// Reads bytes; `None` if two attempts have failed because the device has lost them.
pub(in crate::store) fn read_if_readable<'a>(
    file: &File,
    offset: u64,
    length: usize,
    buffer: &'a mut AlignedBuffer,
) -> Result<Option<&'a [u8]>> {
    // A read that failed once may succeed when it is repeated.
    for _ in 0..2 {
        match file.read(Purpose::Maintain, offset, length, buffer) {
            Ok(_) => {
                // With direct I/O the buffer begins with the sector.
                let skip = (offset % file.alignment() as u64) as usize;
                return Ok(buffer.get(skip..skip + length));
            }
            Err(siltstone_device::Error::Io { source, .. }) if is_lost(&source) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}
