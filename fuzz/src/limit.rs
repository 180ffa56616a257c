//! Limits allocations, in tests as under libFuzzer: a larger one aborts the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;

/// The maximum size of an allocation, in bytes. No input is long enough to justify more.
const ALLOCATION_MAX: usize = 64 << 20;

struct Limited;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

fn check(bytes: usize) {
    if bytes > ALLOCATION_MAX {
        // A panic could be caught and hidden. Aborting makes libFuzzer keep the input.
        eprintln!("an allocation of {bytes} bytes exceeds {ALLOCATION_MAX}:\n{}", Backtrace::force_capture());
        std::process::abort();
    }
}

// SAFETY: all calls are forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        // SAFETY: the caller fulfils the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        check(bytes);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}
