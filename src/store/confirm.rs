//! Reading twice before anything is thrown away.

use crate::device::{AlignedBuffer, File, Purpose};
use crate::{Error, Result};

/// An error if `bytes`, which were read at `offset`, are others when they are read again: a bit that turned over on its
/// way from the device looks like the torn end of a file, and what looks so is cut off.
pub fn confirm(file: &File, offset: u64, bytes: &[u8]) -> Result<()> {
    file.drop_cache();
    let mut again = AlignedBuffer::default();
    if file.read(Purpose::Recover, offset, bytes.len(), &mut again)? == bytes {
        return Ok(());
    }
    Err(differs(file))
}

/// The error for bytes that were others when they were read again.
pub fn differs(file: &File) -> Error {
    Error::io("read", file.path())(std::io::Error::other("two reads of the same bytes differ"))
}
