//! Rice codes of |Left| for nodes that are too large for Huffman codes. The deviation of |Left| from half of the keys
//! is divided by a power of two; the quotient is coded in unary, the remainder in binary.

use super::stream::Stream;
use crate::index::entropy_trie::{code_string::CodeWriter, huffman::MERGED};

/// A quotient of this size or more is replaced by this number of zeros and |Left| itself.
const QUOTIENT_LIMIT: u32 = 20;

/// Returns the number of remainder bits that makes the code of a binomial distribution shortest: half the binary
/// logarithm of 5/8 of the keys.
#[inline(always)]
fn remainder_bits(size: u64) -> u32 {
    (size - size / 4 - size / 8).ilog2() / 2
}

/// Writes a node of `size` keys.
pub(super) fn write(writer: &mut CodeWriter, size: u64, left: u64) {
    let deviation = left.wrapping_sub(size / 2) as i64;
    let number = ((deviation << 1) ^ (deviation >> 63)) as u64;
    let remainder_bits = remainder_bits(size);
    let quotient = number >> remainder_bits;
    if quotient < u64::from(QUOTIENT_LIMIT) {
        writer.write(1 << quotient, quotient as u32 + 1);
        writer.write(number & ((1 << remainder_bits) - 1), remainder_bits);
    } else {
        writer.write(0, QUOTIENT_LIMIT);
        writer.write(left & u64::from(u32::MAX), 32);
        writer.write(left >> 32, high_bits(size));
    }
}

/// Reads a node of `size` keys: [`MERGED`], or |Left|, which is less than `size`.
#[inline(always)]
pub(super) fn read<const BACKWARD: bool>(stream: &mut Stream<'_, BACKWARD>, size: u64) -> u64 {
    let bits = stream.peek();
    let quotient = bits.trailing_zeros();
    let left = if quotient < QUOTIENT_LIMIT {
        let remainder_bits = remainder_bits(size);
        let remainder = (bits >> (quotient + 1)) & ((1 << remainder_bits) - 1);
        stream.take(quotient + 1 + remainder_bits);
        let number = u64::from(quotient) << remainder_bits | remainder;
        (size / 2).wrapping_add((number >> 1) ^ (number & 1).wrapping_neg())
    } else {
        read_whole(stream, size)
    };
    // Damaged bytes may encode any number. `MERGED` keeps the reader within the subtrie.
    if left < size { left } else { MERGED }
}

/// Reads |Left| itself.
#[cold]
fn read_whole<const BACKWARD: bool>(stream: &mut Stream<'_, BACKWARD>, size: u64) -> u64 {
    let low = (stream.peek() >> QUOTIENT_LIMIT) & u64::from(u32::MAX);
    stream.take(QUOTIENT_LIMIT + 32);
    let high = stream.peek() & ((1 << high_bits(size)) - 1);
    stream.take(high_bits(size));
    high << 32 | low
}

/// Returns the number of bits of |Left| above the lower 32.
fn high_bits(size: u64) -> u32 {
    size.ilog2().saturating_sub(31)
}
