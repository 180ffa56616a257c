//! Strings of bits that are written once, forward, and read from any position, forward or backward.
//!
//! Codes are decoded from both ends of a bucket, at least 57 bits by one unaligned load, so the bytes have padding on
//! both sides. The packed numbers of `index::bits` are aligned words instead: a number of up to 64 bits is read from
//! two of them, `select` scans them, and they are what is saved.
//!
//! Bits are numbered from the least significant bit of the first byte on. A field is written with its least
//! significant bit first, so the next bits of a string are the low bits of a word, and they index a table without a
//! shift.

/// Zero bytes in memory before and after the bits, so that a word can be loaded around any bit.
const PADDING_BYTES: usize = 8;

/// The minimum number of bits that [`CodeString::peek`] and [`CodeString::peek_backward`] return: a word without the
/// bits of the position's byte.
pub const PEEK_BITS: u32 = 57;

/// An immutable string of bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeString {
    /// The bits between two paddings.
    bytes: Vec<u8>,
    len: u64,
}

impl Default for CodeString {
    fn default() -> Self {
        CodeWriter::new().finish()
    }
}

impl CodeString {
    /// Makes a string of the first `len` bits of `bytes`; missing bytes are zeros.
    pub fn from_bytes(bytes: &[u8], len: u64) -> Self {
        let mut padded = Vec::with_capacity(bytes.len() + 2 * PADDING_BYTES);
        padded.resize(PADDING_BYTES, 0);
        padded.extend_from_slice(bytes);
        padded.resize(bytes.len() + 2 * PADDING_BYTES, 0);
        Self { bytes: padded, len }
    }

    /// Returns the number of bits.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns the bits as bytes, the last one padded with zeros.
    pub fn as_bytes(&self) -> &[u8] {
        let end = PADDING_BYTES + self.len.div_ceil(8) as usize;
        self.bytes.get(PADDING_BYTES..end).unwrap_or(&[])
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the bits from `position` on, the next one lowest: at least [`PEEK_BITS`] of them, zeros after the end.
    #[inline(always)]
    pub fn peek(&self, position: u64) -> u64 {
        self.word((position >> 3) as usize + PADDING_BYTES) >> (position & 7)
    }

    /// Returns the bits before `position` in backward order, the last one lowest: at least [`PEEK_BITS`] of them, zeros
    /// before the beginning.
    #[inline(always)]
    pub fn peek_backward(&self, position: u64) -> u64 {
        // The word before that byte. The padding before the bits shifts it by eight bytes.
        let byte_end = position.wrapping_add(7) >> 3;
        (self.word(byte_end as usize) << (position.wrapping_neg() & 7)).reverse_bits()
    }

    #[inline(always)]
    fn word(&self, byte: usize) -> u64 {
        match self.bytes.get(byte..).and_then(|rest| rest.first_chunk()) {
            Some(word) => u64::from_le_bytes(*word),
            // Only damaged numbers lead behind the padding.
            None => 0,
        }
    }
}

/// Writes a string of bits.
#[derive(Debug, Clone)]
pub struct CodeWriter {
    /// The padding and all complete words.
    bytes: Vec<u8>,
    tail: u64,
    /// Below 64.
    tail_bits: u32,
}

impl CodeWriter {
    /// Makes an empty string.
    pub fn new() -> Self {
        Self { bytes: vec![0; PADDING_BYTES], tail: 0, tail_bits: 0 }
    }

    /// Returns the number of bits written.
    pub fn len(&self) -> u64 {
        (self.bytes.len() - PADDING_BYTES) as u64 * 8 + u64::from(self.tail_bits)
    }

    /// Appends the low `count` bits of `value`, at most 64, the lowest first. Higher bits must be zero.
    #[inline]
    pub fn write(&mut self, value: u64, count: u32) {
        debug_assert!(count == 64 || value >> count == 0, "{value:#x} is wider than {count} bits");
        self.tail |= value << self.tail_bits;
        let filled = self.tail_bits + count;
        if filled >= 64 {
            self.push_word(self.tail);
            // If there was no tail, the value is written completely, and a shift by 64 gives none.
            self.tail = value.checked_shr(64 - self.tail_bits).unwrap_or(0);
            self.tail_bits = filled - 64;
        } else {
            self.tail_bits = filled;
        }
    }

    /// Appends all bits of `other` in backward order and empties it.
    pub fn append_backward(&mut self, other: &mut Self) {
        // The last bits first: the tail, then the words from the last one back.
        if other.tail_bits > 0 {
            self.write(other.tail.reverse_bits() >> (64 - other.tail_bits), other.tail_bits);
        }
        for word in other.bytes.get(PADDING_BYTES..).unwrap_or(&[]).rchunks_exact(8) {
            let word = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            self.write(word.reverse_bits(), 64);
        }
        other.bytes.truncate(PADDING_BYTES);
        other.tail = 0;
        other.tail_bits = 0;
    }

    /// Returns the string for reading.
    pub fn finish(mut self) -> CodeString {
        let len = self.len();
        // The length was taken before: from here on the zeros of the last word would count.
        self.push_word(self.tail);
        self.bytes.truncate(PADDING_BYTES + len.div_ceil(8) as usize);
        self.bytes.resize(self.bytes.len() + PADDING_BYTES, 0);
        self.bytes.shrink_to_fit();
        CodeString { bytes: self.bytes, len }
    }

    fn push_word(&mut self, word: u64) {
        if self.bytes.capacity() - self.bytes.len() < 8 {
            // Grows by an eighth rather than double, since the string may be most of a store's memory.
            self.bytes.reserve_exact(self.bytes.len() / 8 + 64);
        }
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields of all widths, with values that have bits at both ends.
    fn fields() -> Vec<(u64, u32)> {
        (0..400u64)
            .map(|i| {
                let width = (i * 7 % 58) as u32;
                (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & ((1 << width) - 1), width)
            })
            .collect()
    }

    #[test]
    fn written_fields_are_read_forward() {
        let mut writer = CodeWriter::new();
        for (value, width) in fields() {
            writer.write(value, width);
        }
        let bits = writer.finish();
        let mut position = 0;
        for (value, width) in fields() {
            assert_eq!(bits.peek(position) & ((1 << width) - 1), value);
            position += u64::from(width);
        }
        assert_eq!(position, bits.len());
    }

    #[test]
    fn fields_appended_backward_are_read_backward() {
        let (mut writer, mut other) = (CodeWriter::new(), CodeWriter::new());
        writer.write(0b101, 3);
        for (value, width) in fields() {
            other.write(value, width);
        }
        writer.append_backward(&mut other);
        assert_eq!(other.len(), 0);
        let bits = writer.finish();
        let mut position = bits.len();
        for (value, width) in fields() {
            assert_eq!(bits.peek_backward(position) & ((1 << width) - 1), value);
            position -= u64::from(width);
        }
        assert_eq!(position, 3);
        assert_eq!(bits.peek(0) & 7, 0b101);
    }

    #[test]
    fn words_of_64_bits_may_be_written_at_any_offset() {
        for offset in 0..64 {
            let mut writer = CodeWriter::new();
            writer.write(0, offset);
            writer.write(u64::MAX, 64);
            writer.write(0, 3);
            let bits = writer.finish();
            assert_eq!(bits.len(), u64::from(offset) + 67);
            let ones: u32 = bits.as_bytes().iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(ones, 64);
            assert_eq!(bits.peek(u64::from(offset)) & 0xffff, 0xffff);
        }
    }

    #[test]
    fn bits_outside_the_string_are_zeros() {
        let bits = CodeString::from_bytes(&[0xff; 3], 24);
        assert_eq!(bits.peek(20), 0xf);
        assert_eq!(bits.peek_backward(4) & 0xff, 0xf);
        for position in [24, 1000, u64::MAX / 2, u64::MAX - 3, u64::MAX] {
            assert_eq!(bits.peek(position), 0, "{position}");
        }
        for position in [0, 1 << 40, u64::MAX / 2] {
            assert_eq!(bits.peek_backward(position), 0, "{position}");
        }
    }

    #[test]
    fn a_string_of_the_same_bytes_is_equal() {
        let mut writer = CodeWriter::new();
        for (value, width) in fields() {
            writer.write(value, width);
        }
        let bits = writer.finish();
        assert_eq!(CodeString::from_bytes(bits.as_bytes(), bits.len()), bits);
    }
}
