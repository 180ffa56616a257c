//! The code of one bucket, read from its begin forward or from its end backward.

use crate::index::entropy_trie::{bits::Bits, bucket_index::Bucket};

/// The rest of a bucket's code in one direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream<'a, const BACKWARD: bool> {
    bits: &'a Bits,
    /// The bit from which on, or before which, the code is read.
    origin: u64,
    taken: u64,
    /// The bits of the bucket.
    len: u64,
}

impl<'a, const BACKWARD: bool> Stream<'a, BACKWARD> {
    /// The whole code of a bucket.
    #[inline(always)]
    pub(super) fn new(bits: &'a Bits, bucket: &Bucket) -> Self {
        let origin = if BACKWARD { bucket.end.bit } else { bucket.begin.bit };
        Self { bits, origin, taken: 0, len: bucket.end.bit - bucket.begin.bit }
    }

    /// The next bits, [`PEEK_BITS`](crate::index::entropy_trie::bits::PEEK_BITS) of them at least.
    #[inline(always)]
    pub(super) fn peek(&self) -> u64 {
        if BACKWARD {
            self.bits.peek_backward(self.origin.wrapping_sub(self.taken))
        } else {
            self.bits.peek(self.origin + self.taken)
        }
    }

    /// Passes over `count` bits.
    #[inline(always)]
    pub(super) fn take(&mut self, count: u32) {
        self.taken += u64::from(count);
    }

    /// Whether all bits of the bucket have been read. What is read beyond comes of damaged bytes and means nothing.
    #[inline(always)]
    pub(super) fn is_at_end(&self) -> bool {
        self.taken >= self.len
    }
}
