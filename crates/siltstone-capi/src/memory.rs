//! The allocator of the library: the functions of C. So memory that a `Vec` has allocated can be given to a caller, who
//! frees it with [`siltstone_free`](crate::siltstone_free), without a copy.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_char, c_void};
use std::mem::ManuallyDrop;
use std::ptr::null_mut;

struct CAllocator;

#[global_allocator]
static ALLOCATOR: CAllocator = CAllocator;

/// Returns whether `malloc` aligns as the layout demands.
#[inline]
fn is_plain(layout: Layout) -> bool {
    layout.align() <= align_of::<libc::max_align_t>() && layout.align() <= layout.size()
}

// SAFETY: `malloc`, `calloc`, `realloc` and `posix_memalign` return NULL or memory of the size and the alignment, which
// `free` accepts; they do not unwind.
unsafe impl GlobalAlloc for CAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_plain(layout) {
            // SAFETY: any size may be asked for.
            return unsafe { libc::malloc(layout.size()) }.cast();
        }
        let mut memory = null_mut();
        let align = layout.align().max(size_of::<*mut c_void>());
        // SAFETY: the alignment is a power of two and a multiple of the size of a pointer.
        match unsafe { libc::posix_memalign(&raw mut memory, align, layout.size()) } {
            0 => memory.cast(),
            _ => null_mut(),
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_plain(layout) {
            // SAFETY: any size may be asked for.
            return unsafe { libc::calloc(layout.size(), 1) }.cast();
        }
        // SAFETY: as the caller guarantees.
        let memory = unsafe { self.alloc(layout) };
        if !memory.is_null() {
            // SAFETY: the memory has this size.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, _: Layout) {
        // SAFETY: the memory is of one of these functions.
        unsafe { libc::free(memory.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that the size is possible for this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if is_plain(layout) && is_plain(new) {
            // SAFETY: the memory is of `malloc`, `calloc` or `realloc`.
            return unsafe { libc::realloc(memory.cast(), size) }.cast();
        }
        // SAFETY: as the caller guarantees.
        let moved = unsafe { self.alloc(new) };
        if !moved.is_null() {
            // SAFETY: both have as many bytes; the new memory is apart from the old one, which nothing uses any more.
            unsafe {
                moved.copy_from_nonoverlapping(memory, size.min(layout.size()));
                self.dealloc(memory, layout);
            }
        }
        moved
    }
}

/// Gives the memory of a vector to the caller, who frees it with `siltstone_free`. Never NULL.
#[inline]
pub fn give_memory(mut bytes: Vec<u8>) -> *mut c_char {
    // A vector without capacity has no memory.
    bytes.reserve(usize::from(bytes.is_empty()));
    ManuallyDrop::new(bytes).as_mut_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_its_alignment_and_keeps_its_bytes_when_it_grows() {
        for align in [1, 2, 16, 64, 4096] {
            let layout = Layout::from_size_align(100, align).unwrap();
            // SAFETY: the sizes are not 0, and the memory is freed once, with its layout.
            unsafe {
                let zeroes = ALLOCATOR.alloc_zeroed(layout);
                assert!(zeroes.addr().is_multiple_of(align) && *zeroes.add(99) == 0);
                zeroes.add(99).write(7);
                let grown = ALLOCATOR.realloc(zeroes, layout, 10_000);
                assert_eq!((grown.addr() % align, *grown.add(98), *grown.add(99)), (0, 0, 7));
                let shrunk = ALLOCATOR.realloc(grown, Layout::from_size_align(10_000, align).unwrap(), 1);
                assert_eq!((shrunk.addr() % align, *shrunk), (0, 0));
                ALLOCATOR.dealloc(shrunk, Layout::from_size_align(1, align).unwrap());
            }
        }
    }

    #[test]
    fn a_vector_without_bytes_is_given_as_memory_too() {
        for bytes in [Vec::new(), vec![1, 2, 3]] {
            let given = give_memory(bytes);
            assert!(!given.is_null());
            // SAFETY: memory of a vector, which is not used afterwards.
            unsafe { crate::siltstone_free(given.cast()) };
        }
    }
}
