//! The code of one bucket, read forward from its begin or backward from its end.

use super::{bucket_index::Bucket, code_string::CodeString};

/// The rest of a bucket's code in one direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream<'a, const BACKWARD: bool> {
    bits: &'a CodeString,
    /// Where the rest begins (forward) or ends (backward).
    at: u64,
    /// The number of bits of the rest.
    left: u64,
}

impl<'a, const BACKWARD: bool> Stream<'a, BACKWARD> {
    /// Makes a stream of the complete code of a bucket.
    #[inline(always)]
    pub(super) fn new(bits: &'a CodeString, bucket: &Bucket) -> Self {
        let at = if BACKWARD { bucket.end.bit } else { bucket.begin.bit };
        Self { bits, at, left: bucket.end.bit - bucket.begin.bit }
    }

    /// Returns the next bits, at least [`PEEK_BITS`](super::code_string::PEEK_BITS) of them.
    #[inline(always)]
    pub(super) fn peek(&self) -> u64 {
        if BACKWARD { self.bits.peek_backward(self.at) } else { self.bits.peek(self.at) }
    }

    /// Skips `count` bits.
    #[inline(always)]
    pub(super) fn take(&mut self, count: u32) {
        let count = u64::from(count);
        // Damaged bytes may lead out of the bucket, and wrap around: `peek` then returns other bits or zeros.
        self.at = if BACKWARD { self.at.wrapping_sub(count) } else { self.at + count };
        self.left = self.left.saturating_sub(count);
    }

    /// Returns whether all bits of the bucket were read. Only damaged bytes lead further; what is read there has no
    /// meaning.
    #[inline(always)]
    pub(super) fn is_at_end(&self) -> bool {
        self.left == 0
    }
}
