//! Direct I/O: whether a file supports it, and its alignment.

use std::fs::File;
use std::io::{self, ErrorKind};

#[cfg(target_os = "linux")]
pub(super) use linux::make_direct;

/// Only Linux reports the alignment of direct I/O.
#[cfg(not(target_os = "linux"))]
pub(super) fn make_direct(_file: &File) -> io::Result<Option<usize>> {
    Ok(None)
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use rustix::fs::{AtFlags, OFlags, StatxFlags, fcntl_getfl, fcntl_setfl, statx};
    use rustix::io::Errno;

    /// The alignment, in bytes, if the system reports none. All common devices accept it.
    const CAUTIOUS_ALIGNMENT: usize = 4096;

    /// The alignment of buffers, in bytes: that of [`AlignedBuffer`](crate::AlignedBuffer).
    const MEMORY_ALIGNMENT: u32 = 4096;

    /// Switches a file to direct I/O and returns its alignment in bytes; `None`, with the file unchanged, if the file
    /// system refuses it. (The flag is set after opening, because some file systems create a new file and then refuse
    /// the flag.)
    pub(in crate::system) fn make_direct(file: &File) -> io::Result<Option<usize>> {
        let Some(alignment) = alignment(file)? else { return Ok(None) };
        let flags = fcntl_getfl(file)?;
        match fcntl_setfl(file, flags | OFlags::DIRECT) {
            Ok(()) => Ok(Some(alignment)),
            Err(Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the alignment that the system reports (`STATX_DIOALIGN`, since Linux 6.1), else a cautious default.
    fn alignment(file: &File) -> io::Result<Option<usize>> {
        let reported = match statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
            Ok(reported) if reported.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => reported,
            Ok(_) | Err(Errno::NOSYS) => return Ok(Some(CAUTIOUS_ALIGNMENT)),
            Err(error) => return Err(error.into()),
        };
        let (memory, offset) = (reported.stx_dio_mem_align, reported.stx_dio_offset_align);
        let usable = memory != 0 && offset.is_power_of_two() && memory <= MEMORY_ALIGNMENT;
        Ok(usable.then_some(memory.max(offset) as usize))
    }
}

/// Returns the error of a file that was to be direct and cannot be.
pub(super) fn refused() -> io::Error {
    io::Error::new(
        ErrorKind::Unsupported,
        "its file system refuses direct I/O; take one that has it (ext4, XFS), or buffered access",
    )
}
