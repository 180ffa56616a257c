//! Packed numbers of any width, low bits first, in 64-bit words: a number is read from two of them, and `select` scans
//! them. The codes of tries, which are read from both ends, have a string of bytes of their own
//! (`entropy_trie::code_string`).

use super::DecodeError;
use crate::coding::Decoder;

/// A growing sequence of bits.
#[derive(Debug, Clone, Default)]
pub(crate) struct BitWriter {
    words: Vec<u64>,
    len: u64,
}

impl BitWriter {
    /// Appends the lowest `width` bits, at most 64, of a number that has no others.
    pub(crate) fn push(&mut self, value: u64, width: u32) {
        let used = (self.len % 64) as u32;
        self.len += u64::from(width);
        if width == 0 {
            return;
        }
        match self.words.last_mut() {
            Some(last) if used > 0 => {
                *last |= value << used;
                // `used` is not 0 here, so the shift is below 64.
                if used + width > 64 {
                    self.words.push(value >> (64 - used));
                }
            }
            _ => self.words.push(value),
        }
    }

    /// Appends `count` zeros.
    pub(crate) fn push_zeros(&mut self, count: u64) {
        self.len += count;
        self.words.resize(self.len.div_ceil(64) as usize, 0);
    }

    /// Returns the number of `width` bits that begins at bit `start`. Bits after the end are 0.
    pub(crate) fn get(&self, start: u64, width: u32) -> u64 {
        let (word, shift) = ((start / 64) as usize, (start % 64) as u32);
        let at = |word: usize| self.words.get(word).copied().unwrap_or(0);
        // In two shifts, because `shift` may be 0 and a shift by 64 is not allowed.
        let both = (at(word) >> shift) | ((at(word + 1) << 1) << (63 - shift));
        if width == 0 { 0 } else { both & (u64::MAX >> (64 - width)) }
    }

    /// Returns the number of bits.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the memory held, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// Returns the sequence for reading.
    pub(crate) fn finish(self) -> Bits {
        Bits::from_words(self.words, self.len)
    }
}

/// A sequence of bits for reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bits {
    /// One word more than the bits need, so a number at any position can be read from two words.
    words: Box<[u64]>,
    len: u64,
}

impl Bits {
    fn from_words(mut words: Vec<u64>, len: u64) -> Self {
        words.push(0);
        Self { words: words.into(), len }
    }

    /// Returns the number of `width` bits, at most 64, that begins at bit `start`. Bits after the end are 0.
    #[inline(always)]
    pub(crate) fn get(&self, start: u64, width: u32) -> u64 {
        let (word, shift) = ((start / 64) as usize, (start % 64) as u32);
        // Damaged numbers may lead behind the words. They read zeros there.
        let Some(&[low, high]) = self.words.get(word..).and_then(|words| words.first_chunk()) else {
            return 0;
        };
        let both = (low >> shift) | ((high << 1) << (63 - shift));
        if width == 0 { 0 } else { both & (u64::MAX >> (64 - width)) }
    }

    /// Returns the number of bits.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the words with the bits; unused bits of the last word are 0.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words[..self.words.len() - 1]
    }

    /// Returns the heap memory, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Appends the words. The caller has to store their number.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.words().iter().flat_map(|word| word.to_le_bytes()));
    }

    /// Decodes the words of `len` bits.
    pub(crate) fn decode(
        reader: &mut Decoder<'_>,
        len: u64,
        expected: &'static str,
    ) -> Result<Self, DecodeError> {
        // `words` takes the bytes before it allocates, so a damaged length reserves no memory.
        let words = reader.words(len.div_ceil(64).try_into().unwrap_or(usize::MAX), expected)?;
        // Ones behind the end would count as numbers of an Elias-Fano sequence.
        let unused = (64 - len % 64) % 64;
        let padding = words.last().map_or(0, |&last| if unused == 0 { 0 } else { last >> (64 - unused) });
        let zeros = || format!("{unused} zero bits at the end of {expected}");
        reader.check(8, padding == 0, zeros, || format!("{padding:#x}"))?;
        Ok(Self::from_words(words, len))
    }
}

/// Returns the position of the set bit that has `rank` set bits before it, which must exist. Without a branch (Vigna,
/// "Broadword implementation of rank/select queries", WEA 2008).
#[inline(always)]
pub(crate) fn select_in_word(word: u64, rank: u32) -> u32 {
    const BYTES: u64 = 0x0101_0101_0101_0101;
    const HIGHEST: u64 = BYTES << 7;
    let pairs = word - ((word >> 1) & 0x5555_5555_5555_5555);
    let nibbles = (pairs & 0x3333_3333_3333_3333) + ((pairs >> 2) & 0x3333_3333_3333_3333);
    // In each byte the number of ones up to its end.
    let ones = ((nibbles + (nibbles >> 4)) & (BYTES * 0x0f)).wrapping_mul(BYTES);
    let not_above = |sums: u64, rank: u64| ((((rank * BYTES) | HIGHEST) - sums) & HIGHEST).count_ones();
    let start = not_above(ones, rank.into()) * 8;
    let rank_in_byte = u64::from(rank) - (((ones << 8) >> (start & 63)) & 0xff).min(rank.into());
    // The byte's bits, one per byte, and again the number of ones up to each.
    let spread = (((word >> (start & 63)) & 0xff) * BYTES) & 0x8040_2010_0804_0201;
    let spread = ((spread + (BYTES * 0x7f)) & HIGHEST) >> 7;
    start + not_above(spread.wrapping_mul(BYTES), rank_in_byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Numbers;

    #[test]
    fn numbers_of_all_widths_are_returned() {
        let mut numbers = Numbers(1);
        let (mut writer, mut wanted, mut start) = (BitWriter::default(), Vec::new(), 0);
        for _ in 0..5_000 {
            let width = (numbers.next() % 65) as u32;
            let value = if width == 0 { 0 } else { numbers.next() >> (64 - width) };
            writer.push(value, width);
            wanted.push((start, width, value));
            start += u64::from(width);
            if width == 7 {
                writer.push_zeros(100);
                wanted.push((start + 36, 64, 0));
                start += 100;
            }
        }
        assert_eq!(writer.len(), start);
        let bits = writer.finish();
        for (start, width, value) in wanted {
            assert_eq!(bits.get(start, width), value);
        }
        assert_eq!((bits.get(start, 64), bits.get(u64::MAX, 1)), (0, 0));
    }

    #[test]
    fn a_word_is_searched_for_its_nth_one() {
        let mut numbers = Numbers(2);
        for word in
            [0, 1, 1 << 63, u64::MAX].into_iter().chain((0..1_000).map(|_| numbers.next() & numbers.next()))
        {
            for (rank, place) in (0..64).filter(|bit| word >> bit & 1 == 1).enumerate() {
                assert_eq!(select_in_word(word, rank as u32), place);
            }
        }
    }
}
