//! The perfect index, for records of a fixed size: maps each record to its block or slot, and knows nothing else.
//!
//! The records of a *bucket*, a range of placements with about 512 records, are distributed to the blocks of the bucket
//! by a perfect hash, so all blocks are full. With 4 records per block and a bucket of 8:
//!
//! ```text
//! placements of the bucket   a b c d e f g h      in this order they arrive
//! perfect hash of each       0 1 1 0 1 0 0 1      the seeds: all that is stored
//!                            -------- --------
//! blocks                     a d f g  b c e h     within a block, any order
//! ```
//!
//! The dissertation's sparse entropy-coded tries (Lim 2014, 3.1.6) solve the same problem for records in hash order.
//! The hash is RecSplit with consensus-coded seeds.
//!
//! A bucket fills a range of blocks or slots. Within a bucket the order of keys is free, so the order that is cheapest
//! to describe is chosen. A binary tree splits the keys by a hash. Its seed gives each side as many keys as it has
//! space for. With blocks, the tree ends there; a bucket may begin and end within a block. With slots, it ends with
//! groups of five keys, each with a seed that maps its keys to different slots.
//!
//! ```text
//! 16 keys of a bucket, 4 per block          seed s1 sends 8 keys to the left and 8 to the right
//!             s1                            s2 and s3 each split their 8 keys 4 : 4
//!           /    \
//!         s2      s3                        stored, in preorder: s1 s2 s3
//!        /  \    /  \
//!  block 0   1  2    3
//! ```
//!
//! Each seed is stored in the average number of bits that finding it takes, and a fraction of a bit more. No lengths
//! are stored: the number of keys before a bucket determines where its seeds begin.
//!
//! E. Esposito, T. Mueller Graf, S. Vigna, "RecSplit: Minimal Perfect Hashing via Recursive Splitting", ALENEX 2020;
//! H.-P. Lehmann, P. Sanders, S. Walzer, J. Ziegler, "Combined Search and Encoding for Seeds, with an Application to
//! Minimal Perfect Hashing", ESA 2025.

mod buckets;
mod builder;
mod search;
mod shape;
#[cfg(test)]
pub(crate) mod tests;

pub use builder::{PerfectIndexBuilder, PerfectIndexSettings};
#[doc(hidden)]
pub use shape::BUCKET_KEYS;

use super::bits::Bits;
use super::{DecodeError, PlacementIndex};
use crate::coding::Decoder;
use crate::coding::mix;
use buckets::BucketCounts;
use search::Hasher;
use shape::Target;
use shape::{Bucket, FRACTION_BITS, Shape, Tree, left_parts};
use std::ops::Range;
use std::sync::Arc;

const STRUCTURE: &str = "perfect index";
const MAGIC: [u8; 4] = *b"SSBP";
const VERSION: u16 = 1;

/// The bits that a hash depends on: a seed and the bits before it. The first seed is preceded by as many zeros.
const WINDOW_BITS: u32 = 64;

/// The maximum number of keys of an index.
const KEYS_MAX: u64 = 1 << 44;

/// Maps each record to its block, in 0.10 bits per record with 64 records per block, 0.24 with 16, 0.65 with 4. With 1
/// record per block it maps each record to its slot, in 1.5 bits.
///
/// Several records may have one placement. A bucket cannot be solved if more records than fill a block have one
/// placement; all its blocks are returned for each of its records then.
#[derive(Debug, Clone)]
pub struct PerfectIndex {
    outline: Arc<PerfectOutline>,
    /// Preceded by [`WINDOW_BITS`] zeros, so the window of a seed that ends at bit *n* begins at bit *n* of this
    /// string.
    seeds: Bits,
}

/// A [`PerfectIndex`] without its seeds, which are nearly all of it: 0.02 bits per record. It says which bytes of the
/// encoded index a lookup needs, so the seeds can stay on flash.
#[derive(Debug)]
pub struct PerfectOutline {
    shape: &'static Shape,
    counts: BucketCounts,
    /// The buckets that are not solved with salt 0, ascending; nearly always none.
    exceptions: Box<[Exception]>,
}

/// A bucket that is not solved with salt 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Exception {
    bucket: u64,
    solution: Solution,
}

/// How the keys of a bucket are mapped to units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Solution {
    /// By seeds, with hashes that depend on this salt.
    Salted(u32),
    /// Not at all: keys are in order, and each may be in any unit of the bucket.
    Ordered,
}

impl PerfectIndex {
    /// Returns the index without its seeds. Shares its memory with the index.
    pub fn outline(&self) -> &Arc<PerfectOutline> {
        &self.outline
    }

    /// Returns the number of records.
    pub fn len(&self) -> u64 {
        self.outline.len()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the encoded index (`docs/formats/perfect_index.md`).
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.outline.encode(out);
        self.seeds.encode(out);
    }

    /// Decodes what [`PerfectIndex::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that the format does not allow, with their offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let outline = PerfectOutline::read(&mut reader)?;
        let seeds = Bits::decode(&mut reader, outline.seeds_end(), "seeds")?;
        reader.end()?;
        Ok(Self { outline: Arc::new(outline), seeds })
    }
}

impl PlacementIndex for PerfectIndex {
    /// Returns the one block of the record, or all blocks of a bucket that could not be solved.
    fn locate(&self, placement: u64) -> Range<u64> {
        self.outline.locate(placement, |end| self.seeds.get(end, WINDOW_BITS))
    }

    fn heap_bytes(&self) -> usize {
        let shared = 2 * size_of::<usize>() + size_of::<PerfectOutline>();
        shared + self.outline.heap_bytes() + self.seeds.heap_bytes()
    }
}

impl PerfectOutline {
    /// Decodes an outline from the first bytes of an encoded [`PerfectIndex`], all those before the seeds.
    ///
    /// # Errors
    /// Bytes that the format does not allow, with their offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let outline = PerfectOutline::read(&mut reader)?;
        reader.end()?;
        Ok(outline)
    }

    /// Returns the unit, block or slot, of a key; all units of the bucket if the bucket is not solved. `window` returns
    /// the bits of the seeds that end at a given bit.
    fn locate(&self, placement: u64, window: impl Fn(u64) -> u64) -> Range<u64> {
        // Without keys there is no unit, and `end - 1` below would be negative.
        if self.counts.keys() == 0 {
            return 0..0;
        }
        let bucket = self.bucket(placement);
        let salt = match self.solution(bucket.number) {
            Solution::Salted(salt) => Some(salt),
            Solution::Ordered => None,
        };
        // An empty bucket has no tree, and one with a damaged count may have none: no unit is computed for these.
        let solved = salt.and_then(|salt| Some((self.shape.tree(bucket)?, hash_of(placement, salt))));
        if let Some((tree, hash)) = solved {
            let unit = unit_in(self.shape, bucket, &tree, hash, window);
            return unit..unit + 1;
        }
        let Bucket { first, len, .. } = bucket;
        // An empty bucket gives a unit next to it, because the index never reports that a key is absent.
        let (units, end) =
            (self.shape.target.unit_len(), self.counts.keys().min(first + u64::from(len.max(1))));
        first.min(end - 1) / units..end.div_ceil(units)
    }

    /// Like [`PerfectIndex::locate`], with seed bytes that begin at `start` and include those of
    /// [`seeds_for`](Self::seeds_for). Other bytes lead to a wrong block, but always to one that exists.
    pub fn locate_in(&self, placement: u64, start: u64, seeds: &[u8]) -> Range<u64> {
        self.locate(placement, |end| {
            let at = (end / 8).checked_sub(start).and_then(|at| usize::try_from(at).ok());
            let mut window = [0; 16];
            let bytes = at.and_then(|at| seeds.get(at..)).unwrap_or_default();
            // 64 bits that begin at any bit are in nine bytes.
            window.iter_mut().zip(bytes).take(9).for_each(|(to, from)| *to = *from);
            (u128::from_le_bytes(window) >> (end % 8)) as u64
        })
    }

    /// Returns the range of seed bytes that [`locate_in`](Self::locate_in) needs, about a hundred: those of the bucket.
    pub fn seeds_for(&self, placement: u64) -> Range<u64> {
        if self.counts.keys() == 0 {
            return 0..0;
        }
        let Bucket { number, first, len } = self.bucket(placement);
        let bit = |buckets, keys| self.shape.start(buckets, keys) >> FRACTION_BITS;
        let end = bit(number + 1, first + u64::from(len)) + u64::from(WINDOW_BITS);
        // Whole bytes on both sides: a window begins and ends at any bit.
        bit(number, first) / 8..end.div_ceil(8).min(self.seeds_bytes())
    }

    /// Returns the length of the seeds in the encoded index, in bytes.
    pub fn seeds_bytes(&self) -> u64 {
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

    /// Returns the first block that has a record of the placement's bucket. All records of higher placements are in
    /// this block or in later ones.
    pub fn first_block_of_bucket(&self, placement: u64) -> u64 {
        match self.counts.keys() {
            0 => 0,
            // Rounded down: the bucket may begin within a unit.
            _ => self.bucket(placement).first / self.shape.target.unit_len(),
        }
    }

    /// Returns the bucket of a placement. Buckets ascend with placements, and the records of a bucket are in
    /// consecutive blocks. The first block may begin with records of earlier buckets.
    pub fn bucket_of(&self, placement: u64) -> u64 {
        bucket_of(self.counts.len(), placement)
    }

    /// Returns the number of records.
    pub fn len(&self) -> u64 {
        self.counts.keys()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of blocks. All but the last are full.
    pub fn blocks(&self) -> u64 {
        self.len().div_ceil(self.shape.target.unit_len())
    }

    /// Returns the number of records that fill a block.
    pub fn records_per_block(&self) -> u32 {
        self.shape.target.unit_len() as u32
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.counts.heap_bytes() + size_of_val(&*self.exceptions)
    }

    fn solution(&self, bucket: u64) -> Solution {
        let found = self.exceptions.binary_search_by_key(&bucket, |exception| exception.bucket);
        found.map_or(Solution::Salted(0), |at| self.exceptions[at].solution)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend((self.records_per_block() as u16).to_le_bytes());
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

    /// Decodes what precedes the seeds.
    fn read(reader: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let records_per_block = u32::from(reader.u16("records per block")?);
        let allowed = (1..=256).contains(&records_per_block);
        reader.check(2, allowed, || "1 to 256 records per block".into(), || records_per_block.to_string())?;
        let counts = BucketCounts::decode(reader)?;
        let mut exceptions: Vec<Exception> = Vec::new();
        // No memory is reserved for a number that may be damaged.
        for _ in 0..reader.u32("a number of exceptions")? {
            let bucket = reader.u64("the bucket of an exception")?;
            // Ascending, since `solution` searches them by bisection.
            let after = exceptions.last().map_or(0, |last| last.bucket + 1);
            let allowed = (after..counts.len()).contains(&bucket);
            reader.check(8, allowed, || format!("a bucket at or after {after}"), || bucket.to_string())?;
            let solution = match reader.u32("the salt of an exception")? {
                u32::MAX => Solution::Ordered,
                salt => Solution::Salted(salt),
            };
            exceptions.push(Exception { bucket, solution });
        }
        Ok(Self { shape: Shape::of(Target::of(records_per_block)), counts, exceptions: exceptions.into() })
    }
}

/// Returns the bucket of a placement, one of `buckets`.
fn bucket_of(buckets: u64, placement: u64) -> u64 {
    ((u128::from(placement) * u128::from(buckets)) >> 64) as u64
}

/// Returns the hash of a key. Salts are small numbers.
fn hash_of(placement: u64, salt: u32) -> u64 {
    mix(placement.wrapping_add(u64::from(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// Returns the number of bits of the seeds of this number of buckets and keys.
fn seeds_end(shape: &Shape, buckets: u64, keys: u64) -> u64 {
    (shape.start(buckets, keys) >> FRACTION_BITS) + u64::from(WINDOW_BITS)
}

/// Follows a key down the tree of a solved bucket to its unit. `window` returns the bits of the seeds that end at a
/// given bit.
#[inline]
fn unit_in(shape: &Shape, bucket: Bucket, tree: &Tree, hash: u64, window: impl Fn(u64) -> u64) -> u64 {
    let (mut part, mut parts, mut position) = (0, tree.parts, tree.seeds_start);
    let (mut start, mut end) = (0, bucket.len);
    while parts > 1 {
        let (split, left) = (shape.split(parts), left_parts(parts));
        position += u64::from(split.width);
        let middle = tree.keys_before(part + left);
        // The left half has `middle - start` of the keys, and the seed was chosen such that exactly as many hash below
        // this number.
        let hasher = Hasher::new(window(position >> FRACTION_BITS));
        if hasher.below(end - start, hash) < middle - start {
            (parts, end) = (left, middle);
        } else {
            // The left subtree's seeds precede those of the right one.
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
