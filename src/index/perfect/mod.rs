//! Perfect hashing of hash-ordered keys, bucket by bucket, to the block or to the slot that each stands in: RecSplit
//! (Esposito, Mueller Graf and Vigna, 2020) with consensus-coded seeds (Lehmann, Sanders, Walzer and Ziegler, "Combined
//! Search and Encoding for Seeds, with an Application to Minimal Perfect Hashing", 2025).
//!
//! A *bucket* is the home of a range of placements, some 512 keys, and fills a range of blocks or slots. Inside the
//! bucket the order of the keys is free, so that it may be what is cheapest to describe: a binary tree splits the keys
//! by a hash whose seed is such that as many fall to either side as there is room for. With blocks, the tree ends
//! there; a bucket may begin and end in the midst of one. With slots, it ends with groups of five keys, each with a
//! seed that maps its keys to different slots.
//!
//! The seeds stand one after the other, every one with the number of bits that finding it takes on average, and a
//! fraction more. Nothing has to say how long they are: where a bucket's begin follows from the keys before it.

mod buckets;
mod builder;
mod search;
mod shape;
#[cfg(test)]
mod tests;

use super::DecodeError;
use super::bits::Bits;
use crate::coding::Decoder;
use crate::coding::mix;
use buckets::BucketCounts;
pub(crate) use builder::ConsensusBuilder;
use search::Hasher;
pub(crate) use shape::Target;
use shape::{Bucket, FRACTION_BITS, Shape, Tree, left_parts};
use std::ops::Range;
use std::sync::Arc;

/// The bits that a hash depends on: a seed and what is before it. So many zeros are before the first one.
const WINDOW_BITS: u32 = 64;

/// The most keys of an index.
pub(crate) const KEYS_MAX: u64 = 1 << 44;

/// Where every key is, if it is one of those that the index was made of.
#[derive(Debug, Clone)]
pub(crate) struct ConsensusIndex {
    outline: Arc<Outline>,
    /// With [`WINDOW_BITS`] zeros before them, so that the window of a seed that ends at a bit begins at its number.
    seeds: Bits,
}

/// An index without its seeds: it tells which of them a key needs.
#[derive(Debug)]
pub(crate) struct Outline {
    shape: &'static Shape,
    counts: BucketCounts,
    /// The buckets that are not solved as all others are, ascending; nearly always there are none.
    exceptions: Box<[Exception]>,
}

/// A bucket, and what is different about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Exception {
    bucket: u64,
    solution: Solution,
}

/// How the keys of a bucket are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Solution {
    /// By seeds, their hashes being changed by this number.
    Salted(u32),
    /// Not at all: they are in order, and every one may be anywhere.
    Ordered,
}

impl ConsensusIndex {
    fn new(outline: Outline, seeds: Bits) -> Self {
        Self { outline: Arc::new(outline), seeds }
    }

    /// The units, blocks or slots, of which one has the key: all those of a bucket that is not solved, otherwise one.
    pub(crate) fn locate(&self, placement: u64) -> Range<u64> {
        self.outline.locate(placement, |end| self.seeds.get(end, WINDOW_BITS))
    }

    /// Everything but the seeds. The index shares it.
    pub(crate) fn outline(&self) -> &Arc<Outline> {
        &self.outline
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> u64 {
        self.outline.len()
    }

    /// All the memory on the heap, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let shared = 2 * size_of::<usize>() + size_of::<Outline>();
        shared + self.outline.heap_bytes() + self.seeds.heap_bytes()
    }

    /// Appends everything but the target.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.outline.encode(out);
        self.seeds.encode(out);
    }

    /// Reads back what [`ConsensusIndex::encode`] wrote.
    pub(crate) fn decode(reader: &mut Decoder<'_>, target: Target) -> Result<Self, DecodeError> {
        let outline = Outline::decode(reader, target)?;
        let seeds = Bits::decode(reader, outline.seeds_end(), "seeds")?;
        Ok(Self::new(outline, seeds))
    }
}

impl Outline {
    /// As [`ConsensusIndex::locate`]; `window` gives the bits of the seeds that end at a bit.
    fn locate(&self, placement: u64, window: impl Fn(u64) -> u64) -> Range<u64> {
        if self.counts.keys() == 0 {
            return 0..0;
        }
        let bucket = self.bucket(placement);
        let salt = match self.solution(bucket.number) {
            Solution::Salted(salt) => Some(salt),
            Solution::Ordered => None,
        };
        let solved = salt.and_then(|salt| Some((self.shape.tree(bucket)?, hash_of(placement, salt))));
        if let Some((tree, hash)) = solved {
            let unit = unit_in(self.shape, bucket, &tree, hash, window);
            return unit..unit + 1;
        }
        let Bucket { first, len, .. } = bucket;
        let (units, end) =
            (self.shape.target.unit_len(), self.counts.keys().min(first + u64::from(len.max(1))));
        first.min(end - 1) / units..end.div_ceil(units)
    }

    /// As [`ConsensusIndex::locate`], from those bytes of the encoded seeds that begin at `start`; they must hold at
    /// least those that [`seeds_for`](Self::seeds_for) names.
    pub(crate) fn locate_in(&self, placement: u64, start: u64, seeds: &[u8]) -> Range<u64> {
        self.locate(placement, |end| {
            let at = (end / 8).checked_sub(start).and_then(|at| usize::try_from(at).ok());
            let mut window = [0; 16];
            let bytes = at.and_then(|at| seeds.get(at..)).unwrap_or_default();
            window.iter_mut().zip(bytes).take(9).for_each(|(to, from)| *to = *from);
            (u128::from_le_bytes(window) >> (end % 8)) as u64
        })
    }

    /// Which bytes of the encoded seeds have to be known to locate a key: those of its bucket.
    pub(crate) fn seeds_for(&self, placement: u64) -> Range<u64> {
        if self.counts.keys() == 0 {
            return 0..0;
        }
        let Bucket { number, first, len } = self.bucket(placement);
        let bit = |buckets, keys| self.shape.start(buckets, keys) >> FRACTION_BITS;
        let end = bit(number + 1, first + u64::from(len)) + u64::from(WINDOW_BITS);
        bit(number, first) / 8..end.div_ceil(8).min(self.seeds_bytes())
    }

    /// The bytes of all encoded seeds.
    pub(crate) fn seeds_bytes(&self) -> u64 {
        self.seeds_end().div_ceil(64) * 8
    }

    fn seeds_end(&self) -> u64 {
        seeds_end(self.shape, self.counts.len(), self.counts.keys())
    }

    fn bucket(&self, placement: u64) -> Bucket {
        let number = self.bucket_of(placement);
        let (first, len) = self.counts.get(number);
        Bucket { number, first, len }
    }

    /// The bucket that a placement belongs to. Buckets ascend with placements.
    pub(crate) fn bucket_of(&self, placement: u64) -> u64 {
        bucket_of(self.counts.len(), placement)
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> u64 {
        self.counts.keys()
    }

    /// All the memory on the heap, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.counts.heap_bytes() + size_of_val(&*self.exceptions)
    }

    fn solution(&self, bucket: u64) -> Solution {
        let found = self.exceptions.binary_search_by_key(&bucket, |exception| exception.bucket);
        found.map_or(Solution::Salted(0), |at| self.exceptions[at].solution)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.counts.encode(out);
        out.extend((self.exceptions.len() as u32).to_le_bytes());
        for &Exception { bucket, solution } in &self.exceptions {
            let salt = match solution {
                Solution::Salted(salt) => salt,
                Solution::Ordered => u32::MAX,
            };
            out.extend(bucket.to_le_bytes());
            out.extend(salt.to_le_bytes());
        }
    }

    /// Reads back what stands before the seeds.
    pub(crate) fn decode(reader: &mut Decoder<'_>, target: Target) -> Result<Self, DecodeError> {
        let counts = BucketCounts::decode(reader)?;
        let mut exceptions: Vec<Exception> = Vec::new();
        for _ in 0..reader.u32("a number of exceptions")? {
            let bucket = reader.u64("the bucket of an exception")?;
            let after = exceptions.last().map_or(0, |last| last.bucket + 1);
            let allowed = (after..counts.len()).contains(&bucket);
            reader.check(8, allowed, || format!("a bucket at or after {after}"), || bucket.to_string())?;
            let solution = match reader.u32("the salt of an exception")? {
                u32::MAX => Solution::Ordered,
                salt => Solution::Salted(salt),
            };
            exceptions.push(Exception { bucket, solution });
        }
        Ok(Self { shape: Shape::of(target), counts, exceptions: exceptions.into() })
    }
}

/// The bucket that a placement belongs to, of so many.
fn bucket_of(buckets: u64, placement: u64) -> u64 {
    ((u128::from(placement) * u128::from(buckets)) >> 64) as u64
}

/// A key's hash. Salts are small numbers.
fn hash_of(placement: u64, salt: u32) -> u64 {
    mix(placement.wrapping_add(u64::from(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// All bits of the seeds of so many buckets and keys.
fn seeds_end(shape: &Shape, buckets: u64, keys: u64) -> u64 {
    (shape.start(buckets, keys) >> FRACTION_BITS) + u64::from(WINDOW_BITS)
}

/// Follows a key down the tree of a solved bucket to its unit. `window` gives the bits that end at a bit.
#[inline]
fn unit_in(shape: &Shape, bucket: Bucket, tree: &Tree, hash: u64, window: impl Fn(u64) -> u64) -> u64 {
    let (mut part, mut parts, mut position) = (0, tree.parts, tree.seeds_start);
    let (mut start, mut end) = (0, bucket.len);
    while parts > 1 {
        let (split, left) = (shape.split(parts), left_parts(parts));
        position += u64::from(split.width);
        let middle = tree.keys_before(part + left);
        let hasher = Hasher::new(window(position >> FRACTION_BITS));
        if hasher.below(end - start, hash) < middle - start {
            (parts, end) = (left, middle);
        } else {
            position += u64::from(shape.split(left).subtree);
            (part, parts, start) = (part + left, parts - left, middle);
        }
    }
    match shape.target {
        Target::Blocks(len) => bucket.first / u64::from(len) + u64::from(part),
        Target::Slots => {
            let position = tree.groups_start + shape.groups_bits(part + 1, end - start);
            let hasher = Hasher::new(window(position >> FRACTION_BITS));
            bucket.first + u64::from(start + hasher.below(end - start, hash))
        }
    }
}
