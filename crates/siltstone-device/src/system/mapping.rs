//! Short reads of a buffered file, copied from a mapping instead of read by calls.
//!
//! A call costs more than the copy if the page cache has the bytes. If it has not, a call is better: a batch of calls
//! overlaps, and the system reads what a read needs at once, a mapping page by page. Nothing says beforehand what the
//! page cache has, so the time of the last copies does:
//!
//! ```text
//! mapped: copy --- takes long ---> 16 reads by calls (twice as many each time) --> mapped
//!                                  a short one halves what is left
//! ```
//!
//! - **Errors.** A page that cannot be read makes the copy short ([`guarded_copy`](super::guarded_copy)), and a call
//!   then returns the error.
//! - **The end.** A mapping reads zeros behind the end of the file, up to the end of the page. So only bytes below a
//!   length that the system has reported are copied. `truncate` lowers it first.
//! - **Files that are written over.** A retired file is opened again, so nothing of this is left.
//! - **Memory.** The mapped pages are those of the page cache. The system takes them back as it needs, and no account
//!   of the library has them; they are part of the resident memory of the process (`RssFile`).
//! - **Holes.** In tmpfs, a page of a hole takes space when a mapping reads it. A call takes none, so files of tmpfs
//!   are not mapped.
//! - **Addresses.** A file takes up to twice its length of them. None is mapped if the process has a limit of them
//!   (`RLIMIT_AS`), and at most [`MAPPINGS_MAX`] files are. Only processors of x86-64 have the guarded copy, so only
//!   they map files; all others read by calls.

use super::guarded_copy;
use crate::sync::Mutex;
use rustix::fs::fstatfs;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::process::{Resource, getrlimit};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The maximum length of a read that is copied, in bytes.
const COPIED_BYTES_MAX: usize = 16 << 10;
/// Files are mapped in powers of two of bytes, at least this many: 64 KiB.
const MAPPED_BYTES_MIN: u64 = 65_536;
/// The mappings of the process, of the 65,530 that Linux allows by default.
const MAPPINGS_MAX: u64 = 1 << 14;
/// The bytes that a processor moves at once.
const CACHE_LINE_BYTES: usize = 64;
/// The number of tmpfs as a file system.
const TMPFS: u64 = 0x0102_1994;
/// A read that takes longer has waited for the drive, or the thread was interrupted.
const SLOW: Duration = Duration::from_micros(20);
/// The same in ticks of the processor's clock: 12 to 30 µs.
const SLOW_TICKS: u64 = 60_000;
/// The number of reads that are calls after a copy was slow: at first, and after several.
const CALLS_MIN: u32 = 16;
const CALLS_MAX: u32 = 4096;
/// All reads are calls: the file cannot be mapped.
const CALLS_ONLY: u32 = u32::MAX;

static MAPPINGS: AtomicU64 = AtomicU64::new(0);

/// How a file is read through mappings.
#[derive(Default)]
pub(super) struct ReadMapping {
    /// The newest mapping, which `all` keeps.
    newest: AtomicPtr<Mapped>,
    /// The length of the file, or less, and no more than is mapped.
    known_bytes: AtomicU64,
    /// The number of reads that have to be calls, or `CALLS_ONLY`.
    calls: AtomicU32,
    /// What it is set to by the next slow copy.
    calls_next: AtomicU32,
    /// All mappings. A thread may be copying from an older one, so they last as long as the file is open.
    #[expect(clippy::vec_box, reason = "`newest` points to one of them, so they may not move")]
    all: Mutex<Vec<Box<Mapped>>>,
}

impl ReadMapping {
    /// Returns whether a read of `bytes` is a copy, as far as is known: the last copies were quick. Counts a read.
    pub fn is_warm(&self, bytes: usize) -> bool {
        if bytes > COPIED_BYTES_MAX || bytes == 0 {
            return false;
        }
        let calls = self.calls.load(Ordering::Relaxed);
        if calls > 0 && calls != CALLS_ONLY {
            // Inexact if several threads read, which does not matter.
            self.calls.store(calls - 1, Ordering::Relaxed);
        }
        calls == 0
    }

    /// Copies what a read asks for. Returns false if a call has to read it.
    pub fn copy<F: Deref<Target = File>>(
        &self,
        offset: u64,
        buffer: &mut [u8],
        file: impl FnOnce() -> io::Result<F>,
    ) -> bool {
        let Some(end) = offset.checked_add(buffer.len() as u64) else { return false };
        if !self.is_warm(buffer.len()) || (end > self.known_bytes() && !self.extend(end, file)) {
            return false;
        }
        // SAFETY: the pointer is null or that of a box in `all`, from which none is removed before this file is closed.
        let Some(mapped) = (unsafe { self.newest.load(Ordering::Acquire).as_ref() }) else { return false };
        let begin = guarded_copy::ticks();
        // SAFETY: `end` is at most `known_bytes`, which was set after the mapping that has as many bytes, and the
        // mapping lasts as long as the file is open. `buffer` is borrowed exclusively.
        let is_complete = unsafe {
            let from = mapped.address.cast::<u8>().add(offset as usize);
            guarded_copy::copy(buffer.as_mut_ptr(), from, buffer.len())
        };
        self.observe(guarded_copy::ticks().saturating_sub(begin) > SLOW_TICKS);
        is_complete
    }

    /// Asks the processor for the bytes of a read that is a copy. Pages that are not in memory stay where they are.
    pub fn prefetch(&self, offset: u64, bytes: usize) {
        let is_copied = bytes <= COPIED_BYTES_MAX && self.calls.load(Ordering::Relaxed) == 0;
        let Some(end) = offset.checked_add(bytes as u64).filter(|end| *end <= self.known_bytes()) else {
            return;
        };
        // SAFETY: as in `copy`.
        let Some(mapped) = (unsafe { self.newest.load(Ordering::Acquire).as_ref() }) else { return };
        if is_copied {
            for line in (offset..end).step_by(CACHE_LINE_BYTES) {
                guarded_copy::prefetch(mapped.address.cast::<u8>().wrapping_add(line as usize));
            }
        }
    }

    /// Notes whether a copy was slow.
    pub(super) fn observe(&self, is_slow: bool) {
        let next = self.calls_next.load(Ordering::Relaxed);
        if is_slow {
            let calls = next.max(CALLS_MIN);
            self.calls.store(calls, Ordering::Relaxed);
            self.calls_next.store((2 * calls).min(CALLS_MAX), Ordering::Relaxed);
        } else if next != 0 {
            self.calls_next.store(0, Ordering::Relaxed);
        }
    }

    /// Reads by a call, and notes whether the page cache had the bytes while copies are given up.
    pub fn call<T>(&self, read: impl FnOnce() -> T) -> T {
        let calls = self.calls.load(Ordering::Relaxed);
        if calls == 0 || calls == CALLS_ONLY {
            return read();
        }
        let begin = Instant::now();
        let outcome = read();
        if begin.elapsed() <= SLOW {
            self.calls.store(calls / 2, Ordering::Relaxed);
        }
        outcome
    }

    fn known_bytes(&self) -> u64 {
        self.known_bytes.load(Ordering::Acquire)
    }

    /// Maps the file up to `end`, if it is as long. Returns whether it is mapped.
    fn extend<F: Deref<Target = File>>(&self, end: u64, file: impl FnOnce() -> io::Result<F>) -> bool {
        let mut all = self.all.lock();
        let Ok(file) = file() else { return false };
        // Under the lock, so that the file is not truncated before its length is set.
        let Ok(length) = file.metadata().map(|metadata| metadata.len()) else { return false };
        if length < end {
            return false;
        }
        if all.last().is_none_or(|mapped| (mapped.bytes as u64) < end) {
            let Some(mapped) = Mapped::open(&file, length).map(Box::new) else {
                self.calls.store(CALLS_ONLY, Ordering::Relaxed);
                return false;
            };
            self.newest.store(ptr::from_ref(&*mapped).cast_mut(), Ordering::Release);
            all.push(mapped);
        }
        let mapped = all.last().map_or(0, |mapped| mapped.bytes as u64);
        self.known_bytes.store(length.min(mapped), Ordering::Release);
        true
    }

    /// Truncates the file to `length` bytes by `truncate`.
    pub fn truncate(&self, length: u64, truncate: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _all = self.all.lock();
        // Before, so that no copy reads zeros behind the new end.
        self.known_bytes.fetch_min(length, Ordering::AcqRel);
        truncate()
    }

    /// Unmaps pages, which the system keeps in its cache as long as a process has mapped them. The next copies map them
    /// again.
    pub fn drop_pages(&self) {
        for mapped in &*self.all.lock() {
            // SAFETY: the range is a mapping of a file that is only read: its pages are read again when needed.
            let _ = unsafe { madvise(mapped.address, mapped.bytes, Advice::LinuxDontNeed) };
        }
    }
}

/// A mapping of a file from its start on.
struct Mapped {
    address: *mut c_void,
    bytes: usize,
}

// SAFETY: the mapping is memory of the process, not tied to a thread, and is only read.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Maps a file that has `length` bytes now, and may become longer.
    fn open(file: &File, length: u64) -> Option<Mapped> {
        let bytes = length.checked_next_power_of_two()?.max(MAPPED_BYTES_MIN);
        let bytes = usize::try_from(bytes).ok()?;
        if fstatfs(file).is_ok_and(|system| system.f_type as u64 == TMPFS) {
            return None;
        }
        if !is_possible() || MAPPINGS.fetch_add(1, Ordering::Relaxed) >= MAPPINGS_MAX {
            MAPPINGS.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        // SAFETY: the system chooses free addresses.
        let mapped = unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0) };
        let Ok(address) = mapped else {
            MAPPINGS.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        // SAFETY: the advice changes no contents. Without it, a page that is read brings 128 KiB around it.
        let _ = unsafe { madvise(address, bytes, Advice::Random) };
        Some(Mapped { address, bytes })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        MAPPINGS.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the range was mapped by this value, and its file is being closed, so nothing reads it. The call fails
        // only for ranges that are not mapped.
        let _ = unsafe { munmap(self.address, self.bytes) };
    }
}

/// Returns whether this process maps files to read them.
fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| getrlimit(Resource::As).current.is_none() && guarded_copy::install())
}
