//! The paper's two-level index of the buckets (ECT 3.1.3): where each bucket's records and each bucket's code begin.
//!
//! The upper level holds the absolute offsets of every 64th bucket, the lower level 16-bit offsets of every bucket
//! from there: 34 bits a bucket, 0.133 bits a key when a bucket has 256 keys.
//!
//! Deviation: a group of buckets whose offsets do not fit into 16 bits, because its keys are not as uniform or not as
//! few as expected, is *wide*: its upper entry names a row of 64-bit offsets instead.

use super::Offsets;
use crate::coding::{DecodeError, Decoder};

/// The largest number of buckets of a group.
const GROUP_BUCKETS_MAX: u32 = 64;

/// The keys of a group when their number is as expected. Their code takes some 40,000 bits, and 65,536 is the limit.
const GROUP_KEYS: u32 = 64 * 256;

/// Marks the position of an upper entry as the number of a wide row.
const WIDE: u64 = 1 << 63;

/// The two-level index. The last of its entries is the end of the last bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::index::entropy_trie) struct TwoLevelIndex {
    group_buckets: u32,
    upper: Vec<Offsets>,
    /// Positions and bits of the buckets from the entries of the upper level.
    lower: Vec<[u16; 2]>,
    /// Rows of `group_buckets` absolute offsets.
    wide: Vec<Offsets>,
}

impl TwoLevelIndex {
    /// An index to which the buckets are yet to be [pushed](TwoLevelBuilder::push).
    pub(in crate::index::entropy_trie) fn builder(bucket_keys: u32) -> TwoLevelBuilder {
        let group_buckets = Self::group_buckets(bucket_keys);
        let index = Self { group_buckets, upper: Vec::new(), lower: Vec::new(), wide: Vec::new() };
        TwoLevelBuilder { index, group: Vec::with_capacity(group_buckets as usize) }
    }

    /// The buckets of a group, when `bucket_keys` keys are expected in a bucket.
    fn group_buckets(bucket_keys: u32) -> u32 {
        (GROUP_KEYS / bucket_keys.max(1)).clamp(1, GROUP_BUCKETS_MAX)
    }

    /// The offsets at which `bucket` begins; those of the end, if there is no such bucket.
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

    /// Appends the index to `out`: the number of wide rows, the upper level, the lower level, the wide rows.
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

    /// Reads back what [`encode`](Self::encode) wrote for `buckets` buckets over `end.position` records whose code has
    /// `end.bit` bits. Afterwards the offsets of the buckets ascend and end there.
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

    /// Checks that every row is there and that no bucket begins before the one before it or ends behind `end`.
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

    /// The memory on the heap, in bytes.
    pub(in crate::index::entropy_trie) fn heap_bytes(&self) -> usize {
        size_of::<Offsets>() * (self.upper.capacity() + self.wide.capacity())
            + size_of::<[u16; 2]>() * self.lower.capacity()
    }
}

/// Collects the offsets of the buckets, in order.
#[derive(Debug, Clone)]
pub(in crate::index::entropy_trie) struct TwoLevelBuilder {
    index: TwoLevelIndex,
    /// The offsets of the group that is not full yet.
    group: Vec<Offsets>,
}

impl TwoLevelBuilder {
    /// Adds the offsets at which the next bucket begins, and last of all those at which the last one ends.
    pub(in crate::index::entropy_trie) fn push(&mut self, begin: Offsets) {
        self.group.push(begin);
        if self.group.len() == self.index.group_buckets as usize {
            self.flush();
        }
    }

    /// Ends the index.
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
