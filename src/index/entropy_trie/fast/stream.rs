//! The code of one bucket, read forward from its begin or backward from its end.

use crate::index::entropy_trie::{bucket_index::Bucket, code_string::CodeString};

/// The rest of a bucket's code in one direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream<'a, const BACKWARD: bool> {
    bits: &'a CodeString,
    /// The bit where the code begins (forward) or ends (backward).
    origin: u64,
    taken: u64,
    /// The number of bits of the bucket.
    len: u64,
}

impl<'a, const BACKWARD: bool> Stream<'a, BACKWARD> {
    /// Makes a stream of the complete code of a bucket.
    #[inline(always)]
    pub(super) fn new(bits: &'a CodeString, bucket: &Bucket) -> Self {
        let origin = if BACKWARD { bucket.end.bit } else { bucket.begin.bit };
        Self { bits, origin, taken: 0, len: bucket.end.bit - bucket.begin.bit }
    }

    /// Returns the next bits, at least [`PEEK_BITS`](crate::index::entropy_trie::code_string::PEEK_BITS) of them.
    #[inline(always)]
    pub(super) fn peek(&self) -> u64 {
        if BACKWARD {
            self.bits.peek_backward(self.origin.wrapping_sub(self.taken))
        } else {
            self.bits.peek(self.origin + self.taken)
        }
    }

    /// Skips `count` bits.
    #[inline(always)]
    pub(super) fn take(&mut self, count: u32) {
        self.taken += u64::from(count);
    }

    /// Returns whether all bits of the bucket were read. Only damaged bytes lead further; what is read there has no
    /// meaning.
    #[inline(always)]
    pub(super) fn is_at_end(&self) -> bool {
        self.taken >= self.len
    }
}
