//! Ascending numbers in 2 + lg(range / count) bits each.
//!
//! The low bits of each number are stored as they are. The high parts are stored in unary: a zero for each possible
//! high part, preceded by a one for each number that has this high part. With `low_bits` = 2 and `end` = 20:
//!
//! ```text
//! numbers      2      5      6      7     17
//! high, low    0,10   1,01   1,10   1,11  4,01
//! lows         10 01 10 11 01
//! highs        1 0 1 1 1 0 0 0 1 0
//!                |       | | |   |
//! end of part    0       1 2 3   4
//! ```
//!
//! The numbers with high part *h* are the ones between zeros *h* - 1 and *h*; the number of a one is its position minus
//! *h*. A sample of the positions of zeros makes finding a zero cheap.
//!
//! P. Elias, "Efficient storage and retrieval by content and address of static files", J. ACM 21(2), 1974; R. Fano, "On
//! the number of bits required to implement an associative memory", 1971.

use super::DecodeError;
use super::bits::{BitWriter, Bits, select_in_word};
use crate::coding::Decoder;
use crate::processors::per_processor;
use std::ops::Range;

/// The position of every 128th zero is sampled, and from there words are counted. Samples take 1/4 bit per zero, and
/// there are one to two zeros per number.
const ZEROS_PER_SAMPLE: u64 = 128;

/// Up to this many numbers with one high part are scanned; more are searched by bisection.
const SCANNED_MAX: u64 = 8;

/// The maximum number of values.
pub(crate) const LEN_MAX: u64 = 1 << 30;

/// Builds an [`EliasFano`] from numbers pushed in ascending order.
#[derive(Debug, Clone)]
pub(crate) struct EliasFanoBuilder {
    low_bits: u32,
    lows: BitWriter,
    highs: BitWriter,
    len: u64,
    end: u64,
    last: u64,
}

impl EliasFanoBuilder {
    /// Makes a builder for about `expected_len` numbers below `end`. Another count takes more memory per number.
    pub(crate) fn new(expected_len: u64, end: u64) -> Self {
        // The width of least cost, where a zero takes 5/4 bits.
        let zeros_max = expected_len.clamp(1, LEN_MAX) as f64 * 1.6;
        let low_bits = (0..63).find(|&bits| (end >> bits) as f64 <= zeros_max).unwrap_or(63);
        Self { low_bits, lows: BitWriter::default(), highs: BitWriter::default(), len: 0, end, last: 0 }
    }

    /// Appends a number. Returns false, without an effect, if it is lower than the last one or not below the end, or if
    /// there are [`LEN_MAX`] numbers already.
    #[must_use]
    pub(crate) fn push(&mut self, value: u64) -> bool {
        // The high bits have no place for a lower number: they only grow at their end.
        if value < self.last || value >= self.end || self.len == LEN_MAX {
            return false;
        }
        let zeros = self.highs.len() - self.len;
        self.highs.push_zeros((value >> self.low_bits) - zeros);
        self.highs.push(1, 1);
        self.lows.push(value & ((1 << self.low_bits) - 1), self.low_bits);
        self.len += 1;
        self.last = value;
        true
    }

    /// Returns the memory held, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.lows.heap_bytes() + self.highs.heap_bytes()
    }

    /// Returns the sequence.
    pub(crate) fn finish(mut self) -> EliasFano {
        let zeros = self.highs.len() - self.len;
        self.highs.push_zeros(zeros_of(self.end, self.low_bits) - zeros);
        EliasFano::new(self.low_bits, self.len, self.end, self.lows.finish(), self.highs.finish())
    }
}

/// Returns the number of zeros in a complete sequence: one after each high part.
fn zeros_of(end: u64, low_bits: u32) -> u64 {
    if end == 0 { 0 } else { ((end - 1) >> low_bits) + 1 }
}

/// A sequence of ascending numbers; numbers may be equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EliasFano {
    low_bits: u32,
    len: u64,
    end: u64,
    lows: Bits,
    highs: Bits,
    /// The position of every [`ZEROS_PER_SAMPLE`]th zero.
    samples: Box<[u32]>,
}

impl EliasFano {
    fn new(low_bits: u32, len: u64, end: u64, lows: Bits, highs: Bits) -> Self {
        let mut samples = Vec::with_capacity((zeros_of(end, low_bits).div_ceil(ZEROS_PER_SAMPLE)) as usize);
        let mut zeros = 0;
        for (at, &word) in highs.words().iter().enumerate() {
            let zeros_here = u64::from((!word).count_ones());
            // At most one per word, because a word has fewer zeros than there are from one sample to the next.
            let next = samples.len() as u64 * ZEROS_PER_SAMPLE;
            if next < zeros + zeros_here {
                let place = at as u64 * 64 + u64::from(select_in_word(!word, (next - zeros) as u32));
                // The unused bits of the last word look like zeros of the sequence.
                if place < highs.len() {
                    samples.push(place as u32);
                }
            }
            zeros += zeros_here;
        }
        Self { low_bits, len, end, lows, highs, samples: samples.into() }
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the exclusive upper bound of the numbers.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns which of the numbers, in their order, are equal to `value`: an empty range at its place if there is
    /// none. Reads two or three cache lines.
    pub(crate) fn equal_range(&self, value: u64) -> Range<u64> {
        equal_range(self, value)
    }

    /// Computes the same with instructions that every processor of the architecture has.
    #[inline(always)]
    fn equal_range_portably(&self, value: u64) -> Range<u64> {
        // There is no zero for its high part.
        if value >= self.end {
            return self.len..self.len;
        }
        let high = value >> self.low_bits;
        // The numbers with this high part are the ones between two zeros.
        let start = if high == 0 { 0 } else { self.place_of_zero(high - 1) + 1 };
        let first = start - high;
        let end = first + self.ones_from(start);
        let low = value & ((1 << self.low_bits) - 1);
        if end - first > SCANNED_MAX {
            let below = self.partition_point(first..end, |other| other < low);
            return below..self.partition_point(below..end, |other| other <= low);
        }
        let (mut below, mut not_above) = (first, first);
        for number in first..end {
            let other = self.low(number);
            below += u64::from(other < low);
            not_above += u64::from(other <= low);
        }
        below..not_above
    }

    /// Returns whether `value` is one of the numbers.
    pub(crate) fn contains(&self, value: u64) -> bool {
        self.len > 0 && !self.equal_range(value).is_empty()
    }

    /// Iterates over the numbers in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let ones = self.highs.words().iter().enumerate().flat_map(|(at, &word)| {
            let remaining = std::iter::successors(Some(word), |&word| Some(word & word.wrapping_sub(1)));
            remaining
                .take_while(|&word| word != 0)
                .map(move |word| at as u64 * 64 + u64::from(word.trailing_zeros()))
        });
        ones.zip(0..self.len).map(|(place, number)| ((place - number) << self.low_bits) | self.low(number))
    }

    /// Returns the heap memory, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.lows.heap_bytes() + self.highs.heap_bytes() + size_of_val(&*self.samples)
    }

    /// Appends the encoded sequence.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.len.to_le_bytes());
        out.extend(self.end.to_le_bytes());
        out.push(self.low_bits as u8);
        self.lows.encode(out);
        self.highs.encode(out);
    }

    /// Decodes a sequence, and verifies that its numbers ascend.
    pub(crate) fn decode(reader: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let len = reader.u64("a number of values")?;
        reader.check(8, len <= LEN_MAX, || "at most 2^30 values".into(), || len.to_string())?;
        let end = reader.u64("an end of the values")?;
        let low_bits = u32::from(reader.u8("low bits")?);
        // Positions in the high bits are then at most 3 * 2^30, and fit in the samples.
        let allowed = low_bits < 64 && zeros_of(end, low_bits) <= 2 * LEN_MAX;
        reader.check(
            1,
            allowed,
            || format!("a number of low bits for values below {end}"),
            || low_bits.to_string(),
        )?;
        let lows = Bits::decode(reader, len * u64::from(low_bits), "low bits")?;
        // One zero per high part, as `finish` writes them.
        let zeros = zeros_of(end, low_bits);
        let highs = Bits::decode(reader, len + zeros, "high bits")?;
        // `place_of_zero` relies on these counts: it looks for a zero without a check for the end.
        let ones: u64 = highs.words().iter().map(|word| u64::from(word.count_ones())).sum();
        reader.check(0, ones == len, || format!("{len} ones in the high bits"), || ones.to_string())?;
        let last_is_zero = highs.len() == 0 || highs.get(highs.len() - 1, 1) == 0;
        reader.check(0, last_is_zero, || "a zero as the last high bit".into(), || "a one".into())?;
        // The order is checked after the counts, on which `iter` relies.
        let sequence = Self::new(low_bits, len, end, lows, highs);
        let ascending = sequence.iter().is_sorted() && sequence.iter().last().is_none_or(|last| last < end);
        reader.check(0, ascending, || format!("ascending values below {end}"), || "other values".into())?;
        Ok(sequence)
    }

    /// Returns the position of the zero that has `rank` zeros before it. It must exist.
    #[inline(always)]
    fn place_of_zero(&self, rank: u64) -> u64 {
        // There is a sample at or before each zero: `decode` has checked the number of zeros.
        let sample = self.samples[(rank / ZEROS_PER_SAMPLE) as usize];
        let mut rank = (rank % ZEROS_PER_SAMPLE) as u32;
        let words = self.highs.words();
        let mut at = (sample / 64) as usize;
        let mut zeros = !words[at] & (u64::MAX << (sample % 64));
        while rank >= zeros.count_ones() {
            rank -= zeros.count_ones();
            at += 1;
            zeros = !words[at];
        }
        at as u64 * 64 + u64::from(select_in_word(zeros, rank))
    }

    /// Returns the number of consecutive ones from `start` on.
    #[inline(always)]
    fn ones_from(&self, start: u64) -> u64 {
        let mut place = start;
        loop {
            // Bits beyond the end read as 0, so the loop ends.
            let ones = u64::from((!self.highs.get(place, 64)).trailing_zeros());
            place += ones;
            if ones < 64 {
                return place - start;
            }
        }
    }

    #[inline(always)]
    fn low(&self, number: u64) -> u64 {
        self.lows.get(number * u64::from(self.low_bits), self.low_bits)
    }

    fn partition_point(&self, range: Range<u64>, before: impl Fn(u64) -> bool) -> u64 {
        let Range { mut start, mut end } = range;
        while start < end {
            let middle = start.midpoint(end);
            if before(self.low(middle)) {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        start
    }
}

per_processor! {
    /// [`EliasFano::equal_range`], compiled a second time for processors that count ones in one instruction.
    fn equal_range(sequence: &EliasFano, value: u64) -> Range<u64> {
        sequence.equal_range_portably(value)
    }
    x86_64: ["bmi2", "avx2", "bmi1", "lzcnt", "popcnt"];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Numbers;

    fn built(values: &[u64], expected_len: u64, end: u64) -> EliasFano {
        let mut builder = EliasFanoBuilder::new(expected_len, end);
        assert!(values.iter().all(|&value| builder.push(value)));
        builder.finish()
    }

    fn values(count: usize, end: u64, seed: u64) -> Vec<u64> {
        let mut numbers = Numbers(seed);
        let mut values: Vec<u64> = (0..count).map(|_| numbers.next() % end).collect();
        values.sort_unstable();
        values
    }

    #[test]
    fn it_finds_what_a_sorted_list_has() {
        for (count, end) in
            [(0, 1), (1, 1), (3, 1), (1, 1 << 60), (500, 20), (500, 700), (2_000, 100_000), (700, u64::MAX)]
        {
            for expected_len in [1.max(count as u64), 10 * count as u64, count as u64 / 10] {
                let values = values(count, end, end);
                let sequence = built(&values, expected_len, end);
                assert!(sequence.iter().eq(values.iter().copied()));
                let asked = values
                    .iter()
                    .flat_map(|&value| [value.saturating_sub(1), value, value.saturating_add(1)]);
                for asked in asked.chain([0, 1, end / 2, end - 1, end, u64::MAX]) {
                    let wanted = values.partition_point(|&value| value < asked) as u64
                        ..values.partition_point(|&value| value <= asked) as u64;
                    assert_eq!(sequence.equal_range(asked), wanted, "{asked} of {count} below {end}");
                    assert_eq!(sequence.equal_range_portably(asked), wanted);
                    assert_eq!(sequence.contains(asked), !wanted.is_empty());
                }
            }
        }
    }

    #[test]
    fn long_runs_of_equal_numbers_are_found_whole() {
        let values: Vec<u64> = [vec![3; 1_000], vec![64; 5_000], vec![65; 1], vec![999; 300]].concat();
        let sequence = built(&values, values.len() as u64, 1_000);
        assert_eq!(sequence.equal_range(64), 1_000..6_000);
        assert_eq!(sequence.equal_range(66), 6_001..6_001);
        assert_eq!(sequence.equal_range(999), 6_001..6_301);
    }

    #[test]
    fn numbers_that_descend_or_reach_the_end_are_refused() {
        let mut builder = EliasFanoBuilder::new(1, 1_000);
        assert!(builder.push(998) && !builder.push(997) && !builder.push(1_000) && builder.push(999));
        assert!(builder.finish().iter().eq([998, 999]));
    }

    #[test]
    fn it_takes_two_bits_more_than_the_logarithm() {
        let sequence = built(&values(100_000, 6_400_000, 5), 100_000, 6_400_000);
        assert!(sequence.heap_bytes() * 8 < 830_000, "{}", sequence.heap_bytes() * 8);
    }
}
