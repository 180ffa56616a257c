//! Past the page cache: whether a file can be read and written so, and at which alignment.

use std::fs::File;
use std::io::{self, ErrorKind};

#[cfg(target_os = "linux")]
pub(super) use linux::make_direct;

/// Only Linux says at which alignment direct I/O works.
#[cfg(not(target_os = "linux"))]
pub(super) fn make_direct(_file: &File) -> io::Result<Option<usize>> {
    Ok(None)
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use rustix::fs::{AtFlags, OFlags, StatxFlags, fcntl_getfl, fcntl_setfl, statx};
    use rustix::io::Errno;

    /// The alignment that suits every common device where the system does not tell one, in bytes.
    const CAUTIOUS_ALIGNMENT: usize = 4096;

    /// The alignment of memory that can be had, in bytes: that of [`AlignedBuffer`](crate::device::AlignedBuffer).
    const MEMORY_ALIGNMENT: u32 = 4096;

    /// Turns a file to direct I/O and returns its alignment in bytes; `None`, and the file as it was, where the file
    /// system refuses. (A file is opened first and turned then, since some file systems make a new file and refuse it
    /// after that.)
    pub(in crate::device::system) fn make_direct(file: &File) -> io::Result<Option<usize>> {
        let Some(alignment) = alignment(file)? else { return Ok(None) };
        let flags = fcntl_getfl(file)?;
        match fcntl_setfl(file, flags | OFlags::DIRECT) {
            Ok(()) => Ok(Some(alignment)),
            Err(Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What the system says of the file (`STATX_DIOALIGN`, since Linux 6.1), else a cautious one.
    fn alignment(file: &File) -> io::Result<Option<usize>> {
        let told = match statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
            Ok(told) if told.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => told,
            Ok(_) | Err(Errno::NOSYS) => return Ok(Some(CAUTIOUS_ALIGNMENT)),
            Err(error) => return Err(error.into()),
        };
        let (memory, offset) = (told.stx_dio_mem_align, told.stx_dio_offset_align);
        let usable = memory != 0 && offset.is_power_of_two() && memory <= MEMORY_ALIGNMENT;
        Ok(usable.then_some(memory.max(offset) as usize))
    }
}

/// The error of a file that was to be direct and cannot be.
pub(super) fn refused() -> io::Error {
    io::Error::new(
        ErrorKind::Unsupported,
        "its file system refuses direct I/O; take one that has it (ext4, XFS), or buffered access",
    )
}
