//! Appending to a file through a mapping: a short write copies into the page cache, without a system call.
//!
//! ```text
//! file    | written ................. | zeros, reserved |
//! window            |       | ready  |                      |
//! ```
//!
//! Space is reserved before it is mapped, and pages are made writable before they are written to. Both calls report a
//! file system that is full or has failed as an error. Then `pwrite` is used instead, so its errors are the only ones.
//! One case remains. If the system has written a page to the device in the meantime, the next write to the page is a
//! page fault. If the file system has failed since then, the copy is not complete ([`guarded_copy`]), and `pwrite`
//! returns the error. On processors without a guarded copy the fault ends the process (`SIGBUS`); no write that was
//! acknowledged is lost by that.

use super::guarded_copy;
use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::ptr;

/// The bytes that are reserved and mapped at a time: as many as the file has, within these limits.
const WINDOW_BYTES_MIN: usize = 16 << 10;
const WINDOW_BYTES_MAX: usize = 1 << 20;
/// The maximum number of bytes that are made writable at a time: 64 KiB.
const READY_BYTES_MAX: usize = 65_536;
/// The number of bytes that are made writable after a sync. More would be written by the next sync, as zeros. Windows
/// begin at multiples of it, so systems with larger pages refuse them.
const READY_BYTES_MIN: usize = 4 << 10;
/// Longer writes are cheaper by `pwrite`. A copy costs less than a call, but each mapped page is made writable, and is
/// protected again when it is written to the device. That interrupts the other threads of the process.
const COPIED_BYTES_MAX: usize = 256;

/// The file systems that write in place: a page whose space is reserved can always be written. The numbers are those of
/// ext4, XFS and tmpfs.
const FILE_SYSTEMS: [u64; 3] = [0xEF53, 0x5846_5342, 0x0102_1994];

/// How a file is appended to.
#[derive(Default)]
pub(super) enum Appending {
    /// Nothing was appended yet.
    #[default]
    Unknown,
    /// The end of the file is mapped.
    Mapped(Box<Window>),
    /// The system does not support this, or has refused it.
    Refused,
}

impl Appending {
    /// Copies the leading part of `bytes` to `offset` in the page cache. Returns its length; the rest has to be written
    /// by a call.
    pub fn copy(&mut self, file: &File, offset: u64, bytes: &[u8]) -> usize {
        if bytes.len() > COPIED_BYTES_MAX {
            return 0;
        }
        let mut done = 0;
        while done < bytes.len() && !matches!(self, Appending::Refused) {
            let at = offset + done as u64;
            let copied = match self {
                Appending::Mapped(window) if window.contains(at) => window.copy(at, &bytes[done..]),
                _ => Window::open(file, at).map(|window| {
                    *self = Appending::Mapped(Box::new(window));
                    0
                }),
            };
            match copied {
                Ok(count) => done += count,
                // From now on by calls, which report the error if it remains.
                Err(_) => *self = Appending::Refused,
            }
        }
        done
    }

    /// Records that the file was synced: its pages are no longer known to be writable.
    pub fn synced(&mut self) {
        if let Appending::Mapped(window) = self {
            window.ready = 0..0;
            window.step = READY_BYTES_MIN;
        }
    }
}

/// The mapped end of a file.
pub(super) struct Window {
    address: *mut c_void,
    /// The offset of the first mapped byte in the file.
    start: u64,
    /// The number of mapped bytes.
    bytes: usize,
    /// The bytes that were made writable since the last sync.
    ready: Range<usize>,
    /// The number of bytes to make writable next.
    step: usize,
}

// SAFETY: the mapping is memory of the process, not tied to a thread, and it is written to only through `&mut self`.
unsafe impl Send for Window {}

impl Window {
    /// Reserves and maps the file from `offset` on.
    fn open(file: &File, offset: u64) -> io::Result<Window> {
        if !FILE_SYSTEMS.contains(&(fstatfs(file)?.f_type as u64)) {
            return Err(ErrorKind::Unsupported.into());
        }
        // Without the handler, a page that cannot be written ends the process.
        guarded_copy::install();
        let start = offset - offset % READY_BYTES_MIN as u64;
        let bytes = start.min(WINDOW_BYTES_MAX as u64) as usize;
        let bytes = bytes.next_power_of_two().max(WINDOW_BYTES_MIN);
        // Before the mapping: a page fault without space for the page ends the process.
        fallocate(file, FallocateFlags::empty(), start, bytes as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses free addresses.
        let address = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, file, start)? };
        Ok(Window { address, start, bytes, ready: 0..0, step: READY_BYTES_MIN })
    }

    fn contains(&self, offset: u64) -> bool {
        (self.start..self.start + self.bytes as u64).contains(&offset)
    }

    /// Copies as many bytes to `offset`, which is in the window, as the window has space for. Returns their number.
    fn copy(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let from = (offset - self.start) as usize;
        let count = bytes.len().min(self.bytes - from);
        if from < self.ready.start || from + count > self.ready.end {
            self.make_ready(from, from + count)?;
        }
        // SAFETY: the range from `from` to `from + count` is within the mapping, and the file is not truncated while it
        // exists. No reference to this memory is ever made, so none overlaps the source.
        let is_complete =
            unsafe { guarded_copy::copy(self.address.cast::<u8>().add(from), bytes.as_ptr(), count) };
        if !is_complete {
            return Err(ErrorKind::Other.into());
        }
        Ok(count)
    }

    /// Makes the pages from `from` to at least `until` writable. Fails on systems with larger pages.
    fn make_ready(&mut self, from: usize, until: usize) -> io::Result<()> {
        if !(self.ready.start..=self.ready.end).contains(&from) {
            let page = from - from % READY_BYTES_MIN;
            self.ready = page..page;
        }
        let start = self.ready.end;
        let end = (start + self.step).max(until).next_multiple_of(READY_BYTES_MIN).min(self.bytes);
        let address = self.address.wrapping_byte_add(start);
        // SAFETY: the range is within the mapping, and this advice changes no contents.
        unsafe { madvise(address, end - start, Advice::LinuxPopulateWrite)? };
        self.ready.end = end;
        self.step = (2 * self.step).min(READY_BYTES_MAX);
        Ok(())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by this window, and no reference into it exists. The call fails only for ranges
        // that are not mapped.
        let _ = unsafe { munmap(self.address, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::tests::folder;

    fn create(folder: &tempfile::TempDir) -> File {
        let path = folder.path().join("file");
        File::options().read(true).write(true).create_new(true).open(path).unwrap()
    }

    /// Returns whether files of this folder are mapped: whether it is on one of the file systems that are known.
    fn is_mapped(folder: &tempfile::TempDir) -> bool {
        let file = create(folder);
        let is_known = FILE_SYSTEMS.contains(&(fstatfs(&file).unwrap().f_type as u64));
        let copied = Appending::default().copy(&file, 0, b"bytes");
        std::fs::remove_file(folder.path().join("file")).unwrap();
        assert_eq!(copied, if is_known { 5 } else { 0 });
        is_known
    }

    #[test]
    fn short_appends_are_copied_completely_across_pages_and_windows_and_after_syncs() {
        let folder = folder();
        if !is_mapped(&folder) {
            return;
        }
        for (first, synced_every) in [(0, usize::MAX), (1, 3), (4_000, 100), (70_001, 1)] {
            let folder = tempfile::tempdir_in(folder.path()).unwrap();
            let file = create(&folder);
            file.set_len(first).unwrap();
            let mut appending = Appending::default();
            let mut expected = vec![0; first as usize];
            for round in 0..6_000 {
                let bytes = vec![round as u8 | 1; 1 + round * 37 % COPIED_BYTES_MAX];
                assert_eq!(appending.copy(&file, expected.len() as u64, &bytes), bytes.len(), "{round}");
                expected.extend_from_slice(&bytes);
                if round % synced_every == 1 {
                    appending.synced();
                }
                let Appending::Mapped(window) = &appending else { panic!("it is mapped") };
                let end = expected.len() - window.start as usize;
                // The pages of the last bytes are writable, and not many further ones.
                assert!(window.ready.end >= end || window.ready.is_empty());
                assert!(window.ready.end <= end + READY_BYTES_MAX + READY_BYTES_MIN);
                assert!(window.bytes >= WINDOW_BYTES_MIN && window.bytes <= WINDOW_BYTES_MAX);
            }
            let bytes = std::fs::read(folder.path().join("file")).unwrap();
            assert!(bytes.starts_with(&expected) && bytes[expected.len()..].iter().all(|&byte| byte == 0));
            assert!(bytes.len() <= expected.len() + expected.len().next_power_of_two().max(WINDOW_BYTES_MIN));
        }
    }

    #[test]
    fn a_longer_append_is_not_copied() {
        let folder = folder();
        let file = create(&folder);
        let mut appending = Appending::default();
        assert_eq!(appending.copy(&file, 0, &[1; COPIED_BYTES_MAX + 1]), 0);
        assert_eq!(file.metadata().unwrap().len(), 0, "no space is reserved");
        let copied = appending.copy(&file, 0, &[1; COPIED_BYTES_MAX]);
        assert!([0, COPIED_BYTES_MAX].contains(&copied));
        assert_eq!(copied > 0, matches!(appending, Appending::Mapped(_)));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_appended_to_by_calls_from_then_on() {
        let folder = folder();
        drop(create(&folder));
        let file = File::open(folder.path().join("file")).unwrap();
        let mut appending = Appending::default();
        assert_eq!(appending.copy(&file, 0, b"bytes"), 0);
        assert!(matches!(appending, Appending::Refused));
    }
}
