//! Mappings of memory on Linux.

use super::{HUGE_PAGE_BYTES, PageKind};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::ptr;

/// What the system hands out at the least.
pub const PAGE_BYTES: usize = 4096;

pub struct Mapping {
    /// All that was reserved, to be given back.
    reserved: *mut c_void,
    reserved_bytes: usize,
    address: *mut c_void,
    /// Bytes that are there a second time.
    pub twice_bytes: usize,
    pub kind: PageKind,
}

// SAFETY: the mapping is memory of the process, tied to no thread; who may access it and how is for its user.
unsafe impl Send for Mapping {}
// SAFETY: its fields do not change after it was made.
unsafe impl Sync for Mapping {}

const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Mapping {
    pub fn plain(bytes: usize) -> io::Result<Mapping> {
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        if let Some(mapping) = Mapping::huge(bytes) {
            return Ok(mapping);
        }
        let mut mapping = Mapping::reserve(bytes, 0)?;
        // SAFETY: the range was reserved just now for this.
        unsafe { mapping.fill(mapping.address, bytes)? };
        Ok(mapping)
    }

    /// Huge pages from the pool, if there are as many. At an address that the system chooses: were it a reserved one, a
    /// refusal would leave a hole there, which another thread's memory could come into.
    fn huge(bytes: usize) -> Option<Mapping> {
        if bytes < HUGE_PAGE_BYTES {
            return None;
        }
        let reserved_bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES);
        let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB;
        // SAFETY: the system chooses addresses that are free.
        let address = unsafe { mmap_anonymous(ptr::null_mut(), reserved_bytes, ACCESS, flags) }.ok()?;
        Some(Mapping { reserved: address, reserved_bytes, address, twice_bytes: 0, kind: PageKind::Huge })
    }

    /// `twice_bytes`, a part of `bytes`, come from a file in memory that is mapped at the beginning and behind the end.
    pub fn circular(bytes: usize, twice_bytes: usize) -> io::Result<Mapping> {
        let mut mapping = Mapping::reserve(bytes + twice_bytes, twice_bytes)?;
        mapping.twice_bytes = twice_bytes;
        let file = memfd_create("siltstone", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, twice_bytes as u64)?;
        for at in [0, bytes] {
            let address = mapping.address.wrapping_byte_add(at);
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            // SAFETY: both ranges lie within what was reserved just now, and nothing stands there yet.
            unsafe { mmap(address, twice_bytes, ACCESS, flags, &file, 0)? };
        }
        if bytes > twice_bytes {
            let address = mapping.address.wrapping_byte_add(twice_bytes);
            // SAFETY: this range lies between the two, within what was reserved.
            unsafe { mapping.fill(address, bytes - twice_bytes)? };
        }
        Ok(mapping)
    }

    /// Addresses without memory, so that `huge_from` bytes behind the first a huge page can begin.
    fn reserve(bytes: usize, huge_from: usize) -> io::Result<Mapping> {
        let reserved_bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES) + 2 * HUGE_PAGE_BYTES;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the system chooses addresses that are free.
        let reserved = unsafe { mmap_anonymous(ptr::null_mut(), reserved_bytes, ProtFlags::empty(), flags)? };
        let aligned = (reserved as usize + huge_from).next_multiple_of(HUGE_PAGE_BYTES) - huge_from;
        let address = reserved.wrapping_byte_add(aligned - reserved as usize);
        Ok(Mapping { reserved, reserved_bytes, address, twice_bytes: 0, kind: PageKind::Small })
    }

    /// Puts memory behind reserved addresses: pages that may become huge.
    ///
    /// # Safety
    /// The range must be one that was reserved and is not yet in use.
    unsafe fn fill(&mut self, address: *mut c_void, bytes: usize) -> io::Result<()> {
        // SAFETY: as the caller promises.
        unsafe { mmap_anonymous(address, bytes, ACCESS, MapFlags::PRIVATE | MapFlags::FIXED)? };
        // SAFETY: this advice changes no content.
        let advised =
            bytes >= HUGE_PAGE_BYTES && unsafe { madvise(address, bytes, Advice::LinuxHugepage) }.is_ok();
        if advised {
            self.kind = PageKind::Transparent;
        }
        Ok(())
    }

    #[inline]
    pub fn address(&self) -> *mut c_void {
        self.address
    }

    /// Adds up what the system says about the mappings that begin in this range.
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

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was reserved by this mapping, and no reference into it outlives it.
        // It fails only for ranges that are none.
        let _ = unsafe { munmap(self.reserved, self.reserved_bytes) };
    }
}
