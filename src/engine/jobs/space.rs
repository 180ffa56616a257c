//! The reserve of free space. Puts are refused when the file system has less: what frees space, or makes it durable
//! that it is free, needs some before. Deletes and background work use it.
//!
//! The reserve is computed, not stored, so it is the same after a kill and in another process. Other programs that fill
//! the file system use it up.

use crate::error::{Error, Result};
use siltstone_device::Directory;

/// The least reserve, in bytes: for manifests, the ends of logs, and what is mapped of them.
const RESERVE_BYTES_MIN: u64 = 3 << 20;
/// The reserve has one part in this many of the data besides, for the tombstones of deletes.
const DATA_PER_TOMBSTONES: u64 = 16;
/// The free space is measured again after a share of what is free besides the reserve was put, and after this many
/// bytes.
const PUT_SHARE: u64 = 8;
const PUT_BYTES_MAX: u64 = 16 << 20;

/// Returns the reserve of a database with this much data whose background work needs `work_bytes` at most before it
/// frees any.
pub(in crate::engine) fn reserve_bytes(data_bytes: u64, work_bytes: u64) -> u64 {
    RESERVE_BYTES_MIN + data_bytes / DATA_PER_TOMBSTONES + work_bytes
}

/// Returns how many bytes may be put after `bytes` before the free space is measured again.
///
/// # Errors
/// [`Error::NoSpace`] if `bytes` do not fit into what is free besides the reserve.
pub(in crate::engine) fn check_space(
    directory: &Directory,
    bytes: u64,
    reserve: impl FnOnce() -> u64,
) -> Result<u64> {
    // What cannot be measured is enough.
    let Some(free) = directory.free_bytes()? else { return Ok(PUT_BYTES_MAX) };
    let reserve = reserve();
    let Some(left) = free.checked_sub(reserve.saturating_add(bytes)) else {
        return Err(Error::NoSpace { path: directory.path(), free, reserve });
    };
    // Only a share: background work and other programs use the same space before it is measured again.
    Ok((left / PUT_SHARE).min(PUT_BYTES_MAX))
}

/// Returns whether the file system has this many bytes besides the reserve, for work that adds them to the reserve.
/// What cannot be measured is enough.
pub(in crate::engine) fn has_besides(directory: &Directory, reserve: u64, bytes: u64) -> bool {
    // Puts that were checked against the smaller reserve may still use so much.
    !is_short(directory, reserve.saturating_add(bytes).saturating_add(PUT_BYTES_MAX))
}

/// Returns whether the file system has less than the reserve, so that space has to be freed. What cannot be measured is
/// enough.
pub(in crate::engine) fn is_short(directory: &Directory, reserve: u64) -> bool {
    directory.free_bytes().ok().flatten().is_some_and(|free| free < reserve)
}
