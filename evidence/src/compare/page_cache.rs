//! Controls what the system's page cache holds of a store's files: all or nothing.

use crate::compare::meter::files_below;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Writes all dirty data of the directory's file system to the device.
pub fn sync(directory: &Path) -> Result<()> {
    let file = File::open(directory).with_context(|| format!("cannot open {}", directory.display()))?;
    // SAFETY: the descriptor is open.
    match unsafe { libc::syncfs(file.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()).context("cannot sync the file system"),
    }
}

/// Removes all files below a directory from the page cache. Dirty data remains: sync first.
pub fn forget(directory: &Path) -> Result<()> {
    for path in files_below(directory)? {
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        // SAFETY: the descriptor is open; the call is advice.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
    Ok(())
}

/// Reads all files below a directory into the page cache.
pub fn warm(directory: &Path) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    for path in files_below(directory)? {
        let mut file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        while file.read(&mut buffer)? > 0 {}
    }
    Ok(())
}
