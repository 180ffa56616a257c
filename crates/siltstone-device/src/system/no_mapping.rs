//! Systems and processors on which all reads are calls.

use std::fs::File;
use std::io;
use std::ops::Deref;

/// How a file is read.
#[derive(Default)]
pub(super) struct ReadMapping;

impl ReadMapping {
    /// Returns false: no read is a copy.
    pub fn is_warm(&self, _bytes: usize) -> bool {
        false
    }

    /// Copies nothing.
    pub fn copy<F: Deref<Target = File>>(
        &self,
        _offset: u64,
        _buffer: &mut [u8],
        _file: impl FnOnce() -> io::Result<F>,
    ) -> bool {
        false
    }

    /// Does nothing.
    pub fn prefetch(&self, _offset: u64, _bytes: usize) {}

    /// Reads by a call.
    pub fn call<T>(&self, read: impl FnOnce() -> T) -> T {
        read()
    }

    /// Truncates the file by `truncate`.
    pub fn truncate(&self, _length: u64, truncate: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        truncate()
    }

    /// Has no effect.
    pub fn drop_pages(&self) {}
}
