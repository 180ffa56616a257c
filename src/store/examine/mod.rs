//! Reading all of a file whose bytes may be damaged: what is damaged, whose keys stood there, and every record that is
//! sound. Verifying and repairing do the same here, so that what is told and what is lost are the same.
//!
//! A damaged part says nothing of its keys, but its neighbours do: records stand in the order of their hashes, so that
//! what is lost lies between the last hash before and the first one behind.

mod frames;
mod log;
mod open;
mod pass;
mod ranges;

pub use frames::Unreadable;
pub use log::{ExaminedLog, ExaminedSegment, Found, LogToExamine};
pub use open::{OpenedStore, StoreToOpen, examine_store};
pub use pass::Examined;
pub(in crate::store) use ranges::RangeChecksums;

use crate::device::{AlignedBuffer, File, Purpose};
use crate::store::record::{RecordShape, RecordView};
use crate::{Error, Result};

/// Is shown every sound record.
pub type Visit<'a> = dyn FnMut(&RecordView<'_>) -> Result<()> + 'a;

/// Is told how many more bytes were read; answers whether to go on.
pub type Advance<'a> = dyn FnMut(u64) -> bool + 'a;

/// What the records of a store have in common.
#[derive(Debug, Clone, Copy)]
pub struct Belonging {
    /// The shape of the records.
    pub shape: RecordShape,
    /// The partition that all of them belong to.
    pub partition: u64,
}

/// The error number of a device that could not read a sector.
const EIO: i32 = 5;

/// Reads bytes; `None` if the device has lost them, as two tries have shown.
fn read_if_readable<'a>(
    file: &File,
    offset: u64,
    length: usize,
    buffer: &'a mut AlignedBuffer,
) -> Result<Option<&'a [u8]>> {
    for _ in 0..2 {
        match file.read(Purpose::Maintain, offset, length, buffer) {
            Ok(_) => {
                let skip = (offset % file.alignment() as u64) as usize;
                return Ok(buffer.get(skip..skip + length));
            }
            Err(Error::Io { source, .. }) if source.raw_os_error() == Some(EIO) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
