//! Codes of |Left| for nodes that are too large for Huffman codes. Both coders write the deviation of |Left| from half
//! of the keys: the paper's as an Elias gamma code, the fast one as a Rice code, which divides it by a power of two and
//! writes the quotient in unary and the remainder in binary.

use super::{Coder, code_string::CodeWriter, huffman::MERGED, stream::Stream};

/// A quotient of this size or more is replaced by this number of zeros and |Left| itself.
const QUOTIENT_LIMIT: u32 = 20;

/// Returns the number of remainder bits that makes the Rice code of a binomial distribution shortest: half the binary
/// logarithm of 5/8 of the keys.
#[inline(always)]
fn remainder_bits(size: u64) -> u32 {
    (size - size / 4 - size / 8).ilog2() / 2
}

/// Returns |Left| of a node of `size` keys from its folded deviation.
#[inline(always)]
fn unfolded(number: u64, size: u64) -> u64 {
    (size / 2).wrapping_add((number >> 1) ^ (number & 1).wrapping_neg())
}

/// Writes a node of `size` keys.
pub(super) fn write(coder: Coder, writer: &mut CodeWriter, size: u64, left: u64) {
    let deviation = left.wrapping_sub(size / 2) as i64;
    let number = ((deviation << 1) ^ (deviation >> 63)) as u64;
    match coder {
        Coder::Paper => {
            let low_bits = (number + 1).ilog2();
            writer.write(1 << low_bits, low_bits + 1);
            writer.write((number + 1) ^ (1 << low_bits), low_bits);
        }
        Coder::Fast => {
            let remainder_bits = remainder_bits(size);
            let quotient = number >> remainder_bits;
            if quotient < u64::from(QUOTIENT_LIMIT) {
                writer.write(1 << quotient, quotient as u32 + 1);
                writer.write(number & ((1 << remainder_bits) - 1), remainder_bits);
            } else {
                writer.write(0, QUOTIENT_LIMIT);
                // In two parts, because a reader has 57 bits at once.
                writer.write(left & u64::from(u32::MAX), 32);
                writer.write(left >> 32, high_bits(size));
            }
        }
    }
}

/// Reads a node of `size` keys: [`MERGED`], or |Left|, which is less than `size`.
#[inline(always)]
pub(super) fn read<const BACKWARD: bool>(coder: Coder, stream: &mut Stream<'_, BACKWARD>, size: u64) -> u64 {
    let left = match coder {
        Coder::Paper => read_gamma(stream, size),
        Coder::Fast => read_rice(stream, size),
    };
    // Damaged bytes may encode any number. `MERGED` keeps the reader within the subtrie.
    if left < size { left } else { MERGED }
}

#[inline(always)]
fn read_gamma<const BACKWARD: bool>(stream: &mut Stream<'_, BACKWARD>, size: u64) -> u64 {
    let low_bits = stream.peek().trailing_zeros();
    stream.take(low_bits + 1);
    // In damaged bytes there may be 64 zeros: the shift then gives 0.
    let high = 1u64.checked_shl(low_bits).unwrap_or(0);
    let low = stream.peek() & high.wrapping_sub(1);
    stream.take(low_bits);
    unfolded((high | low).wrapping_sub(1), size)
}

#[inline(always)]
fn read_rice<const BACKWARD: bool>(stream: &mut Stream<'_, BACKWARD>, size: u64) -> u64 {
    let bits = stream.peek();
    let quotient = bits.trailing_zeros();
    if quotient >= QUOTIENT_LIMIT {
        return read_whole(stream, size);
    }
    let remainder_bits = remainder_bits(size);
    let remainder = (bits >> (quotient + 1)) & ((1 << remainder_bits) - 1);
    stream.take(quotient + 1 + remainder_bits);
    unfolded(u64::from(quotient) << remainder_bits | remainder, size)
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
