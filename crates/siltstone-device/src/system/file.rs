//! A file of the operating system, with buffered or direct access.

use super::descriptors::{Descriptors, Opened, Source};
use super::mapping::ReadMapping;
use super::process::forks_made;
use super::window::Appending;
use crate::sync::Mutex;
use crate::{Access, Descriptor, FileBackend, FileState, Hint, Transfer};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

/// The maximum alignment of an address that a backend may require, in bytes.
const ADDRESS_ALIGNMENT_MAX: usize = 4096;

pub(super) struct SystemFile {
    source: Source,
    descriptors: Arc<Descriptors>,
    /// 1 for access through the page cache; else the alignment of direct I/O, in bytes.
    alignment: usize,
    appending: Mutex<Appending>,
    /// Unused by direct I/O.
    mapping: ReadMapping,
    /// How many forks the process had made when the file was opened.
    forks_made: Option<u64>,
}

impl SystemFile {
    /// Opens or creates a file of the directory, depending on the flags.
    pub(super) fn open(
        descriptors: &Arc<Descriptors>,
        name: &str,
        flags: OFlags,
        access: Access,
    ) -> io::Result<Self> {
        let forks_made = forks_made();
        let (source, alignment) = descriptors.open(name, flags, access)?;
        let (appending, mapping) = Default::default();
        let descriptors = descriptors.clone();
        Ok(SystemFile { source, descriptors, alignment, appending, mapping, forks_made })
    }

    fn file(&self) -> io::Result<Opened<'_>> {
        self.descriptors.file(&self.source, false)
    }

    fn file_to_write(&self) -> io::Result<Opened<'_>> {
        self.descriptors.file(&self.source, true)
    }

    /// Returns whether a forked child may have the file open.
    fn was_forked(&self) -> bool {
        self.forks_made.is_none() || self.forks_made != forks_made()
    }

    /// Reads by calls of the system.
    fn pread(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let file = self.file()?;
        let mut done = 0;
        while done < buffer.len() {
            match file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            // A direct read that ends within a block has reached the end of the file; it could not continue at that
            // offset.
            if !done.is_multiple_of(self.alignment) {
                break;
            }
        }
        Ok(done)
    }

    /// Refuses misaligned direct access with an error that says so. Some systems execute it through the page cache,
    /// others return `EINVAL`.
    fn check_alignment(&self, offset: u64, buffer: &[u8]) -> io::Result<()> {
        let address = buffer.as_ptr().addr() % self.alignment.min(ADDRESS_ALIGNMENT_MAX);
        let misaligned =
            !offset.is_multiple_of(self.alignment as u64) || !buffer.len().is_multiple_of(self.alignment);
        if misaligned || address != 0 {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "direct I/O requires an offset, a length and an address that are multiples of the file's alignment",
            ));
        }
        Ok(())
    }
}

impl FileBackend for SystemFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.check_alignment(offset, buffer)?;
        if self.alignment > 1 {
            return self.pread(offset, buffer);
        }
        if self.mapping.copy(offset, buffer, || self.file()) {
            return Ok(buffer.len());
        }
        self.mapping.call(|| self.pread(offset, buffer))
    }

    fn read_in_memory(&self, offset: u64, buffer: &mut [u8]) -> bool {
        self.alignment == 1 && self.mapping.copy(offset, buffer, || self.file())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.check_alignment(offset, bytes)?;
        self.file_to_write()?.write_all_at(bytes, offset)
    }

    fn append_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let done = match self.alignment {
            1 => self.appending.lock().copy(&*self.file_to_write()?, offset, bytes),
            _ => 0,
        };
        if done == bytes.len() { Ok(()) } else { self.write_at(offset + done as u64, &bytes[done..]) }
    }

    /// `fdatasync`, which includes the length but not the times.
    fn sync(&self) -> io::Result<()> {
        self.descriptors.sync(&self.source)?;
        // Writing its pages to the device has write-protected them. The next copy asks for writable ones,
        // which reports a file system that has failed.
        self.appending.lock().synced();
        Ok(())
    }

    /// Direct I/O has no cache.
    fn hint(&self, hint: Hint) {
        match hint {
            _ if self.alignment > 1 => {}
            Hint::Prefetch { offset, length } => self.mapping.prefetch(offset, length),
            Hint::Writeback { offset, length } => {
                if let Ok(file) = self.file() {
                    start_writeback(&file, offset, length);
                }
            }
            Hint::DropCache => {
                if let Ok(file) = self.file() {
                    // Before: the system drops no page that is mapped.
                    self.mapping.drop_pages();
                    drop_cache(&file);
                }
            }
        }
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        // Nothing may be mapped after the end of the file.
        let mut appending = self.appending.lock();
        *appending = Appending::default();
        if length < self.file()?.metadata()?.len() {
            self.mapping.truncate(length, || self.file_to_write()?.set_len(length))?;
        }
        Ok(())
    }

    fn state(&self) -> io::Result<FileState> {
        let metadata = self.file()?.metadata()?;
        let names = (!self.was_forked()).then(|| metadata.nlink());
        Ok(FileState { length: metadata.len(), names })
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn descriptor(&self, transfer: Transfer) -> Option<Descriptor<'_>> {
        if let Transfer::Read { bytes } = transfer
            && self.alignment == 1
            && self.mapping.is_warm(bytes)
        {
            return None;
        }
        let writes = transfer == Transfer::Write;
        self.descriptors.file(&self.source, writes).ok().map(|file| match file {
            Opened::Kept(file) => Descriptor::Borrowed(file.as_fd()),
            Opened::Pooled(file) => Descriptor::Shared(file),
        })
    }
}

impl Drop for SystemFile {
    fn drop(&mut self) {
        self.descriptors.close(&self.source);
    }
}

#[cfg(target_os = "linux")]
fn start_writeback(file: &File, offset: u64, length: u64) {
    use std::os::fd::AsRawFd;
    let (Ok(offset), Ok(length)) = (i64::try_from(offset), i64::try_from(length)) else { return };
    // SAFETY: the call takes no pointer, and the descriptor is open while `file` lives. It is a hint, so its outcome
    // does not matter: a failed write is reported by the next sync.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE);
    }
}

#[cfg(not(target_os = "linux"))]
fn start_writeback(_file: &File, _offset: u64, _length: u64) {}

#[cfg(target_os = "linux")]
fn drop_cache(file: &File) {
    // A hint: if the system ignores it, there is no alternative.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

#[cfg(not(target_os = "linux"))]
fn drop_cache(_file: &File) {}
