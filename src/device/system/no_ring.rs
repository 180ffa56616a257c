//! Where there are no rings: every read is left to the file itself.

use crate::device::batch::BatchRead;

pub(in crate::device) fn is_available() -> bool {
    false
}

pub(in crate::device) fn read_all(_reads: &mut [BatchRead<'_>], _depth: usize) {}
