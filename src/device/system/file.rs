//! A file of the operating system, through its page cache or past it.

use super::direct;
use crate::device::{Access, FileBackend};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

/// The largest alignment of an address that a backend may ask for, in bytes.
const ADDRESS_ALIGNMENT_MAX: usize = 4096;

pub(super) struct SystemFile {
    file: File,
    /// 1: through the page cache; else what direct I/O asks for, in bytes.
    alignment: usize,
}

impl SystemFile {
    pub(super) fn new(file: File, access: Access) -> io::Result<Self> {
        let alignment = match access {
            Access::Buffered => 1,
            Access::Direct => direct::make_direct(&file)?.ok_or_else(direct::refused)?,
            Access::DirectOrBuffered => direct::make_direct(&file)?.unwrap_or(1),
        };
        Ok(SystemFile { file, alignment })
    }

    /// Some systems carry a misaligned direct access out through the page cache, others answer `EINVAL`: here it is
    /// an error always, and says what it is.
    fn check_alignment(&self, offset: u64, buffer: &[u8]) -> io::Result<()> {
        let address = buffer.as_ptr().addr() % self.alignment.min(ADDRESS_ALIGNMENT_MAX);
        let misaligned =
            !offset.is_multiple_of(self.alignment as u64) || !buffer.len().is_multiple_of(self.alignment);
        if misaligned || address != 0 {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "direct I/O whose offset, length or address is no multiple of the file's alignment",
            ));
        }
        Ok(())
    }
}

impl FileBackend for SystemFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.check_alignment(offset, buffer)?;
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            // A direct read that ends inside a block has met the end of the file, and cannot go on from there.
            if !done.is_multiple_of(self.alignment) {
                break;
            }
        }
        Ok(done)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.check_alignment(offset, bytes)?;
        self.file.write_all_at(bytes, offset)
    }

    /// `fdatasync`, which carries the length too, but not the times.
    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn start_writeback(&self, offset: u64, length: u64) {
        if self.alignment == 1 {
            start_writeback(&self.file, offset, length);
        }
    }

    fn drop_cache(&self) {
        if self.alignment == 1 {
            drop_cache(&self.file);
        }
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        if length < self.length()? {
            self.file.set_len(length)?;
        }
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

#[cfg(target_os = "linux")]
fn start_writeback(file: &File, offset: u64, length: u64) {
    use std::os::fd::AsRawFd;
    let (Ok(offset), Ok(length)) = (i64::try_from(offset), i64::try_from(length)) else { return };
    // SAFETY: the call takes no pointer, and the descriptor is open as long as `file` lives. It is a hint, so its
    // outcome does not matter: a failed write shows itself at the next sync.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE);
    }
}

#[cfg(not(target_os = "linux"))]
fn start_writeback(_file: &File, _offset: u64, _length: u64) {}

#[cfg(target_os = "linux")]
fn drop_cache(file: &File) {
    // A hint: where it is not taken, there is nothing that could be done instead.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

#[cfg(not(target_os = "linux"))]
fn drop_cache(_file: &File) {}
