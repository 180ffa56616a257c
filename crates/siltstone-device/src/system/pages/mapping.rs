//! Memory mappings on Linux.

use super::HUGE_PAGE_BYTES;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::ptr;

/// The smallest page size.
pub const PAGE_BYTES: usize = 4096;

pub struct Mapping {
    /// The complete reserved range, to be unmapped.
    reserved: *mut c_void,
    reserved_bytes: usize,
    address: *mut c_void,
    /// The number of bytes that are mapped twice.
    pub twice_bytes: usize,
}

// SAFETY: the mapping is memory of the process, not tied to a thread; access to it is up to its user.
unsafe impl Send for Mapping {}
// SAFETY: its fields do not change after construction.
unsafe impl Sync for Mapping {}

const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Mapping {
    pub fn plain(bytes: usize) -> io::Result<Mapping> {
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        if let Some(mapping) = Mapping::huge(bytes) {
            return Ok(mapping);
        }
        let mapping = Mapping::reserve(bytes, 0)?;
        // SAFETY: the range was just reserved for this mapping.
        unsafe { fill(mapping.address, bytes)? };
        Ok(mapping)
    }

    /// Maps huge pages from the pool, if there are enough. The system chooses the address: if a reserved range were
    /// used, a refusal would leave a hole that another thread's mapping could occupy.
    fn huge(bytes: usize) -> Option<Mapping> {
        if bytes < HUGE_PAGE_BYTES {
            return None;
        }
        let reserved_bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES);
        let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB;
        // SAFETY: the system chooses free addresses.
        let address = unsafe { mmap_anonymous(ptr::null_mut(), reserved_bytes, ACCESS, flags) }.ok()?;
        Some(Mapping { reserved: address, reserved_bytes, address, twice_bytes: 0 })
    }

    /// Maps `bytes`. The first `twice_bytes` come from a file in memory that is mapped again after the end:
    ///
    /// ```text
    /// | file | anonymous memory ............ | file |
    /// 0      twice_bytes                     bytes  bytes + twice_bytes
    /// ```
    pub fn circular(bytes: usize, twice_bytes: usize) -> io::Result<Mapping> {
        let mut mapping = Mapping::reserve(bytes + twice_bytes, twice_bytes)?;
        mapping.twice_bytes = twice_bytes;
        let file = memfd_create("siltstone", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, twice_bytes as u64)?;
        for at in [0, bytes] {
            let address = mapping.address.wrapping_byte_add(at);
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            // SAFETY: both ranges are within the range just reserved, and nothing is mapped there yet.
            unsafe { mmap(address, twice_bytes, ACCESS, flags, &file, 0)? };
        }
        if bytes > twice_bytes {
            let address = mapping.address.wrapping_byte_add(twice_bytes);
            // SAFETY: this range is between the two, within what was reserved.
            unsafe { fill(address, bytes - twice_bytes)? };
        }
        Ok(mapping)
    }

    /// Reserves addresses without memory, such that a huge page can begin `huge_from` bytes after the first one.
    fn reserve(bytes: usize, huge_from: usize) -> io::Result<Mapping> {
        let reserved_bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES) + 2 * HUGE_PAGE_BYTES;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the system chooses free addresses.
        let reserved = unsafe { mmap_anonymous(ptr::null_mut(), reserved_bytes, ProtFlags::empty(), flags)? };
        let aligned = (reserved as usize + huge_from).next_multiple_of(HUGE_PAGE_BYTES) - huge_from;
        debug_assert!(aligned + bytes <= reserved as usize + reserved_bytes, "what is used is reserved");
        let address = reserved.wrapping_byte_add(aligned - reserved as usize);
        Ok(Mapping { reserved, reserved_bytes, address, twice_bytes: 0 })
    }

    #[inline]
    pub fn address(&self) -> *mut c_void {
        self.address
    }

    /// Adds up the huge pages that the system reports for the mappings that begin in this range.
    pub fn huge_bytes(&self) -> u64 {
        let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else { return 0 };
        let own = self.reserved as usize..self.reserved as usize + self.reserved_bytes;
        let (mut inside, mut kilobytes) = (false, 0);
        for line in maps.lines() {
            let first = line.split([' ', '-']).next().unwrap_or_default();
            if let Ok(start) = usize::from_str_radix(first, 16) {
                inside = own.contains(&start);
            } else if inside && ["AnonHugePages:", "Private_Hugetlb:", "ShmemPmdMapped:"].contains(&first) {
                let number = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
                kilobytes += number.unwrap_or(0);
            }
        }
        kilobytes << 10
    }
}

/// Maps memory at reserved addresses, in pages that may become huge.
///
/// # Safety
/// The range must be reserved by a mapping of the caller and not yet in use.
unsafe fn fill(address: *mut c_void, bytes: usize) -> io::Result<()> {
    // SAFETY: as the caller promises.
    unsafe { mmap_anonymous(address, bytes, ACCESS, MapFlags::PRIVATE | MapFlags::FIXED)? };
    if bytes >= HUGE_PAGE_BYTES {
        // SAFETY: this advice changes no contents. If the system refuses it, pages stay small.
        let _ = unsafe { madvise(address, bytes, Advice::LinuxHugepage) };
    }
    Ok(())
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was reserved by this mapping, and no reference into it outlives it. The call fails only for
        // ranges that are not mapped.
        let _ = unsafe { munmap(self.reserved, self.reserved_bytes) };
    }
}
