//! Systems and processors on which a page of a mapping that cannot be read or written ends the process.

use std::ptr;

/// Copies from or to a mapping, and returns true.
///
/// # Safety
/// `to` is valid for writes of `bytes` bytes, and `from` for reads. No thread has a reference to what is mapped.
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) -> bool {
    // SAFETY: the caller vouches for both.
    unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
    true
}

/// Does nothing.
pub(super) fn prefetch(_address: *const u8) {}

/// Returns no time: nothing is copied.
pub(super) fn ticks() -> u64 {
    0
}

/// Returns false: there is no handler.
pub(super) fn install() -> bool {
    false
}
