//! Memory from the allocator, on systems without mappings: nothing is mapped twice, and pages are small.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::io;

/// The unit of the length of circular memory.
pub const PAGE_BYTES: usize = 4096;

pub struct Mapping {
    address: *mut u8,
    layout: Layout,
    /// The number of bytes that are mapped twice.
    pub twice_bytes: usize,
}

// SAFETY: it is memory of the process, not tied to a thread; access to it is up to its user.
unsafe impl Send for Mapping {}
// SAFETY: its fields do not change after construction.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub fn plain(bytes: usize) -> io::Result<Mapping> {
        let layout = Layout::from_size_align(bytes.max(1), PAGE_BYTES).map_err(io::Error::other)?;
        // SAFETY: the layout has at least one byte.
        let address = unsafe { alloc_zeroed(layout) };
        if address.is_null() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(Mapping { address, layout, twice_bytes: 0 })
    }

    pub fn circular(bytes: usize, _twice_bytes: usize) -> io::Result<Mapping> {
        Mapping::plain(bytes)
    }

    #[inline]
    pub fn address(&self) -> *mut c_void {
        self.address.cast()
    }

    pub fn huge_bytes(&self) -> u64 {
        0
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and no reference into it outlives it.
        unsafe { dealloc(self.address, self.layout) };
    }
}
