//! The index of the virtual buckets (ECT 3.1.3): where the records and the code of each bucket begin.

mod lines;
mod two_level;

pub(super) use lines::{Bucket, LineIndex, LineIndexBuilder};
pub(super) use two_level::{TwoLevelBuilder, TwoLevelIndex};

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
        let word = |from: usize| std::array::from_fn(|index| bytes[from + index]);
        Self { position: u64::from_le_bytes(word(0)), bit: u64::from_le_bytes(word(8)) }
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
    fn the_two_level_index_gives_back_what_was_pushed() {
        for begins in all_begins() {
            for bucket_keys in [1, 256, 300, 5_000, 65_536] {
                let mut builder = TwoLevelIndex::builder(bucket_keys);
                begins.iter().for_each(|begin| builder.push(*begin));
                let index = builder.finish();
                for (bucket, begin) in begins.iter().enumerate() {
                    assert_eq!(index.begin(bucket as u64), *begin);
                }
                assert_eq!(index.begin(u64::MAX), begins[5_000]);
            }
        }
    }

    #[test]
    fn the_line_index_gives_back_what_was_pushed_whatever_was_expected() {
        for begins in all_begins() {
            for expected in [Offsets::default(), begins[5_000], Offsets { position: 1 << 40, bit: 1 << 41 }] {
                let mut builder = LineIndexBuilder::new(5_000, expected);
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
        let mut builder = LineIndexBuilder::new(5_000, Offsets::default());
        begins[..5_000].iter().for_each(|begin| builder.push(*begin, false));
        let index = builder.finish(begins[5_000]);
        assert_eq!(index.heap_bytes(), 5_000usize.div_ceil(28) * 64 + 16);
    }

    #[test]
    fn the_line_index_has_a_second_entry_of_the_upper_level_where_it_needs_one() {
        let buckets = 4096 * 28 + 100;
        let offsets = |bucket| Offsets { position: bucket * 100, bit: bucket * 230 };
        let mut builder = LineIndexBuilder::new(buckets, offsets(buckets));
        (0..buckets).for_each(|bucket| builder.push(offsets(bucket), false));
        let index = builder.finish(offsets(buckets));
        for bucket in (0..buckets).rev().take(200) {
            let expected = Bucket { begin: offsets(bucket), end: offsets(bucket + 1), is_plain: false };
            assert_eq!(index.bucket(bucket), expected);
        }
    }
}
