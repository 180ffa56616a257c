//! Progress of long operations.

/// Called periodically with the bytes processed and the total. Returns `false` to stop the operation.
pub type Progress<'a> = dyn FnMut(u64, u64) -> bool + 'a;
