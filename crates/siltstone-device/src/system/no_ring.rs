//! Replaces `ring` on systems without `io_uring`: all reads are left to the file.

use crate::{BatchRead, PieceExecutor};

pub(crate) fn is_available() -> bool {
    false
}

pub(crate) fn read_all(_reads: &mut [BatchRead<'_>], _depth: usize) {}

pub(crate) fn executor() -> Option<Box<dyn PieceExecutor>> {
    None
}
