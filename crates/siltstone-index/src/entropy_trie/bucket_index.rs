//! The index of the virtual buckets (ECT 3.1.3): where the records and the code of each bucket begin. 28 buckets per
//! cache line.
//!
//! A line holds the offsets at which its first bucket begins, and two bytes per bucket. The first byte is the deviation
//! of its number of keys from the average. The second is the deviation of the length of its code from the average for
//! that number of keys. A lookup adds up the bytes before its bucket:
//!
//! ```text
//! line (64 bytes)   position | bit | keys, length of bucket 0 | of bucket 1 | .. | of bucket 27
//!                     u32      u32       u8      u8
//! bucket i begins   at record  upper.position + position + i * mean_keys + sum of keys[..i]
//!                   at bit     upper.bit + bit + mean_bits(keys before i) + sum of lengths[..i]
//! ```
//!
//! This takes 18.3 bits per bucket and one cache line per lookup. Deviation: the lower level of the paper's index has
//! 16-bit offsets instead of deviations, and takes 34 bits per bucket.
//!
//! The offsets of a line are relative to an upper level, with an entry for every 4,096th line. A line whose numbers do
//! not fit is *wide*: it refers to a record of 64-bit offsets instead. The averages are those of all buckets, which are
//! known only at the end, so the index is built twice: with estimates, then with the true averages. Each copy takes 3 %
//! of the trie's memory.

use crate::coding::{DecodeError, Decoder};
use crate::list_bytes;

/// The buckets per line.
const LINE_BUCKETS: usize = 28;

/// The lines per entry of the upper level.
const UPPER_LINES: usize = 4096;

/// Marks a line whose position is the number of a wide record.
const WIDE: u32 = 1 << 31;

/// The byte that encodes a deviation of 0.
const NO_DEVIATION: u8 = 128;

/// The exclusive limit of the average number of keys, below which sums cannot overflow.
const MEAN_KEYS_LIMIT: u32 = 1 << 24;

/// The fraction bits of the average code length per key.
const KEY_BITS_SHIFT: u32 = 16;

/// The begin or the end of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Offsets {
    /// The number of records before it.
    pub position: u64,
    /// The number of bits of code before it.
    pub bit: u64,
}

impl Offsets {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(&self.bit.to_le_bytes());
    }

    fn decode(bytes: &[u8; 16]) -> Self {
        let number = u128::from_le_bytes(*bytes);
        Self { position: number as u64, bit: (number >> 64) as u64 }
    }
}

/// A line, 64 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
struct Line {
    /// Where the first bucket begins, relative to the entry of the upper level.
    position: u32,
    bit: u32,
    /// Two bytes per bucket, the first bucket lowest: the deviation of the number of keys in the low byte, that of the
    /// code length in the high byte, each plus [`NO_DEVIATION`].
    deviations: [u64; LINE_BUCKETS / 4],
}

/// The deviations of a bucket, or sums of deviations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Deviations {
    keys: i64,
    length: i64,
}

impl Line {
    /// Returns the deviations of a bucket, by its number in the line.
    #[inline(always)]
    fn deviations(&self, within: usize) -> Deviations {
        let pair = self.deviations[within / 4] >> (within % 4 * 16);
        let deviation = |byte: u64| (byte & 0xff) as i64 - i64::from(NO_DEVIATION);
        Deviations { keys: deviation(pair), length: deviation(pair >> 8) }
    }

    /// Returns the sums of the deviations of the first `count` buckets.
    #[inline(always)]
    fn sums(&self, count: usize) -> Deviations {
        // Four lanes of 16 bits. Seven bytes per lane cannot overflow it, nor can the sum of all 28 bytes at the end.
        const LOW_BYTES: u64 = 0x00ff_00ff_00ff_00ff;
        let (mut keys, mut lengths) = (0, 0);
        for (index, word) in self.deviations.iter().enumerate() {
            let bits = (count * 16).saturating_sub(index * 64) as u32;
            let counted = word & !u64::MAX.checked_shl(bits).unwrap_or(0);
            keys += counted & LOW_BYTES;
            lengths += (counted >> 8) & LOW_BYTES;
        }
        let sum = |lanes: u64| (lanes.wrapping_mul(0x0001_0001_0001_0001) >> 48) as i64;
        let zero = i64::from(NO_DEVIATION) * count as i64;
        Deviations { keys: sum(keys) - zero, length: sum(lengths) - zero }
    }
}

/// A line whose numbers do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WideLine {
    /// Where each bucket begins, and where the last one ends.
    begins: [Offsets; LINE_BUCKETS + 1],
    /// A bit per bucket: whether it is [`plain`](Bucket::is_plain).
    plain: u32,
}

impl WideLine {
    fn decode(bytes: &[u8; 16 * (LINE_BUCKETS + 1) + 4]) -> Self {
        let (begins, plain) = bytes.as_chunks();
        let plain = plain.iter().rev().fold(0, |plain, &byte| plain << 8 | u32::from(byte));
        Self { begins: std::array::from_fn(|at| Offsets::decode(&begins[at])), plain }
    }
}

/// The extent of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket {
    pub begin: Offsets,
    pub end: Offsets,
    /// Whether the bucket is coded node by node.
    pub is_plain: bool,
}

/// The averages that deviations are relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Averages {
    /// Keys per bucket.
    keys: u32,
    /// Bits of code per key, in 2^-16 bits.
    key_bits: u32,
}

impl Averages {
    fn of(end: Offsets, buckets: u64) -> Self {
        let keys = (end.position + buckets / 2) / buckets.max(1);
        let key_bits = (u128::from(end.bit) << KEY_BITS_SHIFT) / u128::from(end.position.max(1));
        Self {
            // Limited: with other averages the lookups are the same, and more lines are wide.
            keys: u32::try_from(keys).unwrap_or(u32::MAX).min(MEAN_KEYS_LIMIT - 1),
            key_bits: u32::try_from(key_bits).unwrap_or(u32::MAX),
        }
    }

    /// Returns the average code length of `keys` keys.
    #[inline(always)]
    fn bits(self, keys: i64) -> i64 {
        (keys * i64::from(self.key_bits)) >> KEY_BITS_SHIFT
    }
}

/// The index of the buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BucketIndex {
    averages: Averages,
    buckets: u64,
    lines: Vec<Line>,
    upper: Vec<Offsets>,
    wide: Vec<WideLine>,
}

impl BucketIndex {
    /// Returns the number of buckets.
    #[inline]
    pub(super) fn buckets(&self) -> u64 {
        self.buckets
    }

    /// Returns a bucket by its number, which must exist.
    #[inline]
    pub(super) fn bucket(&self, bucket: u64) -> Bucket {
        let (number, within) =
            ((bucket / LINE_BUCKETS as u64) as usize, (bucket % LINE_BUCKETS as u64) as usize);
        let line = &self.lines[number];
        if line.position & WIDE != 0 {
            let wide = &self.wide[(line.position & !WIDE) as usize];
            let (begin, end) = (wide.begins[within], wide.begins[within + 1]);
            return Bucket { begin, end, is_plain: wide.plain >> within & 1 == 1 };
        }
        let upper = self.upper[number / UPPER_LINES];
        let (before, own) = (line.sums(within), line.deviations(within));
        let keys_before = i64::from(self.averages.keys) * within as i64 + before.keys;
        let keys = i64::from(self.averages.keys) + own.keys;
        // Damaged numbers wrap around here, and `validate` refuses them.
        let offsets = |keys: i64, longer: i64| Offsets {
            position: (upper.position + u64::from(line.position)).wrapping_add_signed(keys),
            bit: (upper.bit + u64::from(line.bit)).wrapping_add_signed(self.averages.bits(keys) + longer),
        };
        Bucket {
            begin: offsets(keys_before, before.length),
            end: offsets(keys_before + keys, before.length + own.length),
            is_plain: false,
        }
    }

    /// Returns the heap memory, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        list_bytes(&self.lines) + list_bytes(&self.upper) + list_bytes(&self.wide)
    }

    /// Appends the encoded index.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.averages.keys.to_le_bytes());
        out.extend_from_slice(&self.averages.key_bits.to_le_bytes());
        out.extend_from_slice(&(self.wide.len() as u64).to_le_bytes());
        for offsets in &self.upper {
            offsets.encode(out);
        }
        for line in &self.lines {
            out.extend_from_slice(&line.position.to_le_bytes());
            out.extend_from_slice(&line.bit.to_le_bytes());
            line.deviations.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
        for wide in &self.wide {
            for offsets in &wide.begins {
                offsets.encode(out);
            }
            out.extend_from_slice(&wide.plain.to_le_bytes());
        }
    }

    /// Reads back what [`encode`](Self::encode) wrote for `buckets` buckets over `end.position` records whose code has
    /// `end.bit` bits. Afterwards every bucket begins where the one before it ends, and the last one ends there.
    pub(super) fn decode(decoder: &mut Decoder<'_>, buckets: u64, end: Offsets) -> Result<Self, DecodeError> {
        let averages =
            Averages { keys: decoder.u32("keys of a bucket")?, key_bits: decoder.u32("bits of a key")? };
        // Below the limit, the sums of a line do not overflow, whatever its bytes are.
        if averages.keys >= MEAN_KEYS_LIMIT {
            return Err(decoder.unexpected(format!("an average below {MEAN_KEYS_LIMIT}"), averages.keys));
        }
        let lines = buckets.div_ceil(LINE_BUCKETS as u64);
        let wide = decoder.at_most(lines, "wide lines")?;
        let upper = decoder.arrays(lines.div_ceil(UPPER_LINES as u64), "offsets")?;
        let upper = upper.iter().map(Offsets::decode).collect();
        let lines = decoder.arrays(lines, "lines")?.iter().map(Line::decode).collect();
        let wide = decoder.arrays(wide, "wide lines")?.iter().map(WideLine::decode).collect();
        let index = Self { averages, buckets, lines, upper, wide };
        index.validate(decoder, end)?;
        Ok(index)
    }

    fn validate(&self, decoder: &Decoder<'_>, end: Offsets) -> Result<(), DecodeError> {
        for upper in &self.upper {
            if upper.position > end.position || upper.bit > end.bit {
                return Err(
                    decoder.unexpected(format!("offsets of buckets up to {end:?}"), format!("{upper:?}"))
                );
            }
        }
        for line in &self.lines {
            // A lookup takes this number as an index without a check.
            let wide = line.position & !WIDE;
            if line.position & WIDE != 0 && wide as usize >= self.wide.len() {
                return Err(decoder.unexpected(format!("a wide line below {}", self.wide.len()), wide));
            }
        }
        // Lookups add up the numbers of a line without a check, so each sum is checked here.
        let mut last = Offsets::default();
        for number in 0..self.buckets {
            let bucket = self.bucket(number);
            // Each bucket begins where the last one ends, so no record is in two buckets and none is left out.
            let ascends = bucket.end.position >= last.position && bucket.end.bit >= last.bit;
            if bucket.begin != last || !ascends {
                return Err(
                    decoder.unexpected(format!("bucket {number} from {last:?} on"), format!("{bucket:?}"))
                );
            }
            last = bucket.end;
        }
        if last != end {
            return Err(decoder.unexpected(format!("the last bucket to end at {end:?}"), format!("{last:?}")));
        }
        Ok(())
    }
}

impl Line {
    /// Makes a line from the begins of its buckets, followed by the end of the last one. `None` if a number does not
    /// fit.
    fn new(begins: &[Offsets], upper: Offsets, averages: Averages) -> Option<Self> {
        let first = begins.first()?;
        let mut line = Self {
            // The highest bit of a position marks a wide line.
            position: u32::try_from(first.position - upper.position)
                .ok()
                .filter(|position| position & WIDE == 0)?,
            bit: u32::try_from(first.bit - upper.bit).ok()?,
            deviations: [0; LINE_BUCKETS / 4],
        };
        let byte = |deviation: i64| u8::try_from(deviation + i64::from(NO_DEVIATION)).ok().map(u64::from);
        let mut keys_before = 0;
        for (within, ends) in begins.windows(2).enumerate() {
            let (begin, end) = (ends[0], ends[1]);
            let keys = i64::try_from(end.position - begin.position).ok()?;
            let key_deviation = byte(keys - i64::from(averages.keys))?;
            // Rounded as a lookup rounds it: the difference of two averages, not the average of the keys.
            let expected = averages.bits(keys_before + keys) - averages.bits(keys_before);
            let length_deviation = byte(i64::try_from(end.bit - begin.bit).ok()? - expected)?;
            line.deviations[within / 4] |= (key_deviation | length_deviation << 8) << (within % 4 * 16);
            keys_before += keys;
        }
        Some(line)
    }

    /// Makes a line that refers to a wide line.
    fn wide(number: usize) -> Self {
        Self { position: WIDE | number as u32, bit: 0, deviations: [0; LINE_BUCKETS / 4] }
    }

    fn decode(bytes: &[u8; 64]) -> Self {
        let (words, _) = bytes.as_chunks();
        let words: [u64; 8] = std::array::from_fn(|index| u64::from_le_bytes(words[index]));
        let [first, deviations @ ..] = words;
        Self { position: first as u32, bit: (first >> 32) as u32, deviations }
    }
}

/// Collects the offsets of the buckets, in order.
#[derive(Debug, Clone)]
pub(super) struct BucketIndexBuilder {
    index: BucketIndex,
    /// The begins of the buckets of the current line.
    begins: Vec<Offsets>,
    plain: u32,
}

impl BucketIndexBuilder {
    /// Makes a builder from the expected number of buckets, of records, and of bits of code.
    pub(super) fn new(buckets: u64, expected: Offsets) -> Self {
        Self::with(Averages::of(expected, buckets))
    }

    fn with(averages: Averages) -> Self {
        let index =
            BucketIndex { averages, buckets: 0, lines: Vec::new(), upper: Vec::new(), wide: Vec::new() };
        Self { index, begins: Vec::with_capacity(LINE_BUCKETS + 1), plain: 0 }
    }

    /// Adds the next bucket.
    pub(super) fn push(&mut self, begin: Offsets, is_plain: bool) {
        if self.begins.len() == LINE_BUCKETS {
            self.flush(begin);
        }
        self.plain |= u32::from(is_plain) << self.begins.len();
        self.begins.push(begin);
        self.index.buckets += 1;
    }

    /// Finishes the index; the last bucket ends at `end`.
    pub(super) fn finish(mut self, end: Offsets) -> BucketIndex {
        self.flush(end);
        let guess = self.index;
        // With estimates more lines are wide than necessary.
        let mut again = Self::with(Averages::of(end, guess.buckets));
        for bucket in 0..guess.buckets {
            let Bucket { begin, is_plain, .. } = guess.bucket(bucket);
            again.push(begin, is_plain);
        }
        again.flush(end);
        let mut index = again.index;
        index.lines.shrink_to_fit();
        index.upper.shrink_to_fit();
        index.wide.shrink_to_fit();
        index
    }

    fn flush(&mut self, end: Offsets) {
        let Some(&first) = self.begins.first() else { return };
        let index = &mut self.index;
        let number = index.lines.len();
        if number.is_multiple_of(UPPER_LINES) {
            // The first line of a group has a position of 0, which always fits.
            index.upper.push(first);
        }
        let upper = index.upper[number / UPPER_LINES];
        self.begins.push(end);
        // Only wide lines have the bits of plain buckets.
        let narrow = if self.plain == 0 { Line::new(&self.begins, upper, index.averages) } else { None };
        index.lines.push(narrow.unwrap_or_else(|| {
            // The last line may have fewer buckets. Its other entries repeat the end.
            let mut begins = [end; LINE_BUCKETS + 1];
            begins[..self.begins.len()].copy_from_slice(&self.begins);
            index.wide.push(WideLine { begins, plain: self.plain });
            Line::wide(index.wide.len() - 1)
        }));
        self.begins.clear();
        self.plain = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the begins of 5,000 buckets, and the end of the last one, for buckets of `keys(bucket)` keys of 2.3
    /// bits.
    fn begins(keys: impl Fn(u64) -> u64) -> Vec<Offsets> {
        let mut begin = Offsets::default();
        let mut begins = vec![begin];
        for bucket in 0..5_000 {
            begin.position += keys(bucket);
            begin.bit += keys(bucket) * 23 / 10 + bucket % 20;
            begins.push(begin);
        }
        begins
    }

    /// Numbers of keys by bucket: the expected ones; none; a few buckets that are far too full or empty; and numbers
    /// far beyond any narrow field.
    fn all_begins() -> Vec<Vec<Offsets>> {
        vec![
            begins(|bucket| 200 + bucket * 7919 % 100),
            begins(|_| 0),
            begins(|bucket| if bucket % 701 == 0 { 70_000 } else { 256 }),
            begins(|bucket| if bucket % 50 == 0 { 0 } else { 256 }),
            begins(|bucket| bucket << 28),
        ]
    }

    #[test]
    fn it_gives_back_what_was_pushed_whatever_was_expected() {
        for begins in all_begins() {
            for expected in [Offsets::default(), begins[5_000], Offsets { position: 1 << 40, bit: 1 << 41 }] {
                let mut builder = BucketIndexBuilder::new(5_000, expected);
                for (bucket, begin) in begins[..5_000].iter().enumerate() {
                    builder.push(*begin, bucket % 977 == 5);
                }
                let index = builder.finish(begins[5_000]);
                for (bucket, ends) in begins.windows(2).enumerate() {
                    let expected = Bucket { begin: ends[0], end: ends[1], is_plain: bucket % 977 == 5 };
                    assert_eq!(index.bucket(bucket as u64), expected);
                }
            }
        }
    }

    #[test]
    fn a_line_holds_28_buckets_that_are_as_expected() {
        let begins = begins(|bucket| 200 + bucket * 7919 % 100);
        let mut builder = BucketIndexBuilder::new(5_000, Offsets::default());
        begins[..5_000].iter().for_each(|begin| builder.push(*begin, false));
        let index = builder.finish(begins[5_000]);
        assert_eq!(index.heap_bytes(), 5_000usize.div_ceil(28) * 64 + 16);
    }

    #[test]
    fn it_has_a_second_entry_of_the_upper_level_where_it_needs_one() {
        let buckets = 4096 * 28 + 100;
        let offsets = |bucket| Offsets { position: bucket * 100, bit: bucket * 230 };
        let mut builder = BucketIndexBuilder::new(buckets, offsets(buckets));
        (0..buckets).for_each(|bucket| builder.push(offsets(bucket), false));
        let index = builder.finish(offsets(buckets));
        for bucket in (0..buckets).rev().take(200) {
            let expected = Bucket { begin: offsets(bucket), end: offsets(bucket + 1), is_plain: false };
            assert_eq!(index.bucket(bucket), expected);
        }
    }
}
