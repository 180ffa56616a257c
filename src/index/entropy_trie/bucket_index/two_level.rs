//! The paper's two-level index of the buckets (ECT 3.1.3): where the records and the code of each bucket begin.
//!
//! The upper level has the absolute offsets of every 64th bucket, the lower level 16-bit offsets relative to these for
//! every bucket: 34 bits per bucket, 0.133 bits per key with 256 keys per bucket.
//!
//! Deviation: a group of buckets whose offsets do not fit in 16 bits, because keys are not uniform or more than
//! expected, is *wide*: its upper entry refers to a row of 64-bit offsets.

use super::Offsets;
use crate::coding::{DecodeError, Decoder};

/// The maximum number of buckets per group.
const GROUP_BUCKETS_MAX: u32 = 64;

/// The expected keys per group. Their code takes about 40,000 bits, below the limit of 65,536.
const GROUP_KEYS: u32 = 64 * 256;

/// Marks an upper entry whose position is the number of a wide row.
const WIDE: u64 = 1 << 63;

/// The two-level index. Its last entry is the end of the last bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::index::entropy_trie) struct TwoLevelIndex {
    group_buckets: u32,
    upper: Vec<Offsets>,
    /// Position and bit of each bucket, relative to its entry of the upper level.
    lower: Vec<[u16; 2]>,
    /// Rows of `group_buckets` absolute offsets.
    wide: Vec<Offsets>,
}

impl TwoLevelIndex {
    /// Returns a builder, to which the buckets are [pushed](TwoLevelBuilder::push).
    pub(in crate::index::entropy_trie) fn builder(bucket_keys: u32) -> TwoLevelBuilder {
        let group_buckets = Self::group_buckets(bucket_keys);
        let index = Self { group_buckets, upper: Vec::new(), lower: Vec::new(), wide: Vec::new() };
        TwoLevelBuilder { index, group: Vec::with_capacity(group_buckets as usize) }
    }

    /// Returns the buckets per group for an expected number of keys per bucket.
    fn group_buckets(bucket_keys: u32) -> u32 {
        (GROUP_KEYS / bucket_keys.max(1)).clamp(1, GROUP_BUCKETS_MAX)
    }

    /// Returns the begin of `bucket`, or the end of the last bucket if there is no such bucket.
    #[inline]
    pub(in crate::index::entropy_trie) fn begin(&self, bucket: u64) -> Offsets {
        let bucket = bucket.min(self.lower.len() as u64 - 1);
        let group = bucket / u64::from(self.group_buckets);
        let upper = self.upper[group as usize];
        if upper.position & WIDE != 0 {
            let row = (upper.position & !WIDE) * u64::from(self.group_buckets);
            return self.wide[(row + bucket % u64::from(self.group_buckets)) as usize];
        }
        let [position, bit] = self.lower[bucket as usize];
        Offsets { position: upper.position + u64::from(position), bit: upper.bit + u64::from(bit) }
    }

    /// Appends the encoded index: the number of wide rows, the upper level, the lower level, the wide rows.
    pub(in crate::index::entropy_trie) fn encode(&self, out: &mut Vec<u8>) {
        let rows = self.wide.len() / self.group_buckets as usize;
        out.extend_from_slice(&(rows as u64).to_le_bytes());
        self.upper.iter().for_each(|offsets| offsets.encode(out));
        for [position, bit] in &self.lower {
            out.extend_from_slice(&position.to_le_bytes());
            out.extend_from_slice(&bit.to_le_bytes());
        }
        self.wide.iter().for_each(|offsets| offsets.encode(out));
    }

    /// Decodes what [`encode`](Self::encode) wrote for `buckets` buckets with `end.position` records and `end.bit` bits
    /// of code. Verifies that the offsets ascend and end there.
    pub(in crate::index::entropy_trie) fn decode(
        decoder: &mut Decoder<'_>,
        bucket_keys: u32,
        buckets: u64,
        end: Offsets,
    ) -> Result<Self, DecodeError> {
        let group_buckets = Self::group_buckets(bucket_keys);
        let entries = buckets.saturating_add(1);
        let groups = entries.div_ceil(u64::from(group_buckets));
        let rows = decoder.at_most(groups, "wide rows")?;
        let upper = decoder.arrays(groups, "offsets of groups")?.iter().map(Offsets::decode).collect();
        let lower = decoder.arrays(entries, "offsets of buckets")?;
        let lower =
            lower.iter().map(|&[a, b, c, d]| [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]);
        let lower = lower.collect();
        let wide = decoder
            .arrays(rows.saturating_mul(u64::from(group_buckets)), "wide rows")?
            .iter()
            .map(Offsets::decode)
            .collect();
        let index = Self { group_buckets, upper, lower, wide };
        index.validate(decoder, rows, end)?;
        Ok(index)
    }

    /// Verifies that every wide row exists, that offsets ascend, and that the last bucket ends at `end`.
    fn validate(&self, decoder: &Decoder<'_>, rows: u64, end: Offsets) -> Result<(), DecodeError> {
        for upper in &self.upper {
            let row = upper.position & !WIDE;
            if upper.position & WIDE != 0 && row >= rows {
                return Err(decoder.unexpected(format!("a wide row below {rows}"), row));
            }
            if upper.position & WIDE == 0 && (upper.position > end.position || upper.bit > end.bit) {
                return Err(
                    decoder.unexpected(format!("offsets of buckets up to {end:?}"), format!("{upper:?}"))
                );
            }
        }
        let mut last = Offsets::default();
        for bucket in 0..self.lower.len() as u64 {
            let begin = self.begin(bucket);
            if begin.position < last.position || begin.bit < last.bit {
                return Err(
                    decoder.unexpected(format!("bucket {bucket} from {last:?} on"), format!("{begin:?}"))
                );
            }
            last = begin;
        }
        if last != end {
            return Err(decoder.unexpected(format!("the last bucket to end at {end:?}"), format!("{last:?}")));
        }
        Ok(())
    }

    /// Returns the heap memory, in bytes.
    pub(in crate::index::entropy_trie) fn heap_bytes(&self) -> usize {
        size_of::<Offsets>() * (self.upper.capacity() + self.wide.capacity())
            + size_of::<[u16; 2]>() * self.lower.capacity()
    }
}

/// Collects the offsets of the buckets, in order.
#[derive(Debug, Clone)]
pub(in crate::index::entropy_trie) struct TwoLevelBuilder {
    index: TwoLevelIndex,
    /// The offsets of the current group.
    group: Vec<Offsets>,
}

impl TwoLevelBuilder {
    /// Adds the begin of the next bucket; after the last bucket, its end.
    pub(in crate::index::entropy_trie) fn push(&mut self, begin: Offsets) {
        self.group.push(begin);
        if self.group.len() == self.index.group_buckets as usize {
            self.flush();
        }
    }

    /// Finishes the index.
    pub(in crate::index::entropy_trie) fn finish(mut self) -> TwoLevelIndex {
        self.flush();
        self.index.upper.shrink_to_fit();
        self.index.lower.shrink_to_fit();
        self.index.wide.shrink_to_fit();
        self.index
    }

    fn flush(&mut self) {
        let (Some(&first), Some(&last)) = (self.group.first(), self.group.last()) else { return };
        let narrow = |offset: u64| u16::try_from(offset).ok();
        let fits = narrow(last.position - first.position).and(narrow(last.bit - first.bit)).is_some();
        let index = &mut self.index;
        if fits {
            index.upper.push(first);
        } else {
            let row = (index.wide.len() / index.group_buckets as usize) as u64;
            index.upper.push(Offsets { position: WIDE | row, bit: 0 });
            index.wide.extend_from_slice(&self.group);
            index.wide.resize((row as usize + 1) * index.group_buckets as usize, last);
        }
        index.lower.extend(self.group.drain(..).map(|begin| match fits {
            true => [(begin.position - first.position) as u16, (begin.bit - first.bit) as u16],
            false => [0, 0],
        }));
    }
}
