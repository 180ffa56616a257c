//! The reserve of free space. Puts are refused when the file system has less: what frees space, or makes it durable
//! that it is free, needs some before. Deletes and background work use it.
//!
//! The reserve is computed, not stored, so it is the same after a kill and in another process. Other programs that fill
//! the file system use it up.

use crate::device::Directory;
use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The least reserve, in bytes: for manifests, the ends of logs, and what is mapped of them.
const RESERVE_BYTES_MIN: u64 = 3 << 20;
/// The reserve has one part in this many of the data besides, for the tombstones of deletes.
const DATA_PER_TOMBSTONES: u64 = 16;
/// The free space is measured again after a share of what is free besides the reserve was put, and after this many
/// bytes.
const PUT_SHARE: u64 = 8;
const PUT_BYTES_MAX: u64 = 16 << 20;

/// The free space of the directory of a database, as puts use it.
#[derive(Default)]
pub(in crate::engine) struct Space {
    /// The bytes that may be put before the free space is measured again.
    credit: AtomicU64,
}

/// Returns the reserve of a database with this much data whose background work needs `work_bytes` at most before it
/// frees any.
pub(in crate::engine) fn reserve_bytes(data_bytes: u64, work_bytes: u64) -> u64 {
    RESERVE_BYTES_MIN + data_bytes / DATA_PER_TOMBSTONES + work_bytes
}

impl Space {
    /// Returns an error if `bytes` do not fit into what is free besides the reserve. Nearly always costs an atomic
    /// operation.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub fn check(&self, directory: &Directory, bytes: u64, reserve: impl FnOnce() -> u64) -> Result<()> {
        if self.credit.fetch_update(Relaxed, Relaxed, |credit| credit.checked_sub(bytes)).is_ok() {
            return Ok(());
        }
        let Some(free) = directory.free_bytes()? else {
            self.credit.store(PUT_BYTES_MAX, Relaxed);
            return Ok(());
        };
        let reserve = reserve();
        let Some(left) = free.checked_sub(reserve.saturating_add(bytes)) else {
            self.credit.store(0, Relaxed);
            return Err(Error::NoSpace { path: directory.path(), free, reserve });
        };
        // Only a share: background work and other programs use the same space before it is measured again.
        self.credit.store((left / PUT_SHARE).min(PUT_BYTES_MAX), Relaxed);
        Ok(())
    }
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
