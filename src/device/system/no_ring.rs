//! Replaces `ring` on systems without `io_uring`: all reads are left to the file.

use crate::device::{BatchRead, PieceExecutor};

pub(in crate::device) fn is_available() -> bool {
    false
}

pub(in crate::device) fn read_all(_reads: &mut [BatchRead<'_>], _depth: usize) {}

pub(in crate::device) fn executor() -> Option<Box<dyn PieceExecutor>> {
    None
}
