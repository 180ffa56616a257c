//! The entropy-coded trie (SILT 3.3; dissertation 2.2.3; ECT, its chapter 3): maps a placement to the number of its
//! record among the records sorted by placement, in 2.4 to 2.5 bits per key, or to its block, in fewer bits.
//!
//! Placements are divided into *virtual buckets* of about 256 keys. The keys of a bucket form a binary trie of their
//! bits. Only the number of keys in the left subtrie of each node is stored. These numbers follow the binomial
//! distribution, so likely ones have short codes.
//!
//! ```text
//!                 3                 keys of a bucket: 0001 0010 0110 | 1000 1011 1110
//!            0 /     \ 1
//!             2         2
//!           /  \       /  \
//!          1  0110    1  1110
//!         / \        / \
//!      0001 0010  1000 1011         stored, in pre-order: 3 2 1 2 1
//! ```
//!
//! A lookup finds its bucket in an index and decodes the trie down to its key. The code of each subtrie on the left of
//! the path is skipped, and its size is added up. For 1011: 3 keys are on the left (their code, `2 1`, is skipped),
//! then 0 keys, then 1 key: record 4 of the bucket.
//!
//! A subtrie has no code if it is a *leaf*: a subtrie of one key, or, in a sparse trie, one whose records share a block
//! (3.1.6). Beyond the paper, a subtrie is also a leaf if all 64 bits of its keys are used up, so its keys are equal.
//!
//! There are two coders. The paper's writes each trie in pre-order, with Huffman codes for small subtries and Elias
//! gamma codes for others (ECT 3.1.4). |Left| = 0 and |Left| = |T| share a code, so a lookup of an indexed key takes
//! the only existing subtrie without a look at its bit. The fast coder takes fewer bits, and a lookup an eighth of the
//! time:
//!
//! * The subtrie on the left of the root's split is coded forward from the begin of the bucket's code, the one on the
//!   right backward from its end. So a lookup skips subtries of one half only.
//! * In a dense trie a subtrie of 3 to 6 keys has a joint code (`joint`), and a table (`skip`) skips subtries of up to
//!   64 keys, several nodes per step.
//! * Nodes above `huffman_max` have Rice codes instead of Elias gamma codes (`large`).
//!
//! ```text
//! bucket   | root | left subtrie, forward -->       <-- right subtrie, backward |
//! ```
//!
//! A sparse trie has no joint codes, since leaves may be anywhere in a subtrie. Neither does a *plain* bucket of a
//! dense trie: one with equal keys, where a reader has to count depths.
//!
//! Deviations from the paper, common to both coders:
//!
//! * The bucket of a placement is the high word of its product with the number of buckets, so this number need not be a
//!   power of two. The low word replaces the remaining bits of the placement.
//! * The index of the buckets (`bucket_index`) consists of single cache lines, and takes half as many bits.
//! * Equal placements are allowed: such a leaf is a range.
//!
//! Limits: it never reports that a key is absent; the number of keys must be known approximately in advance; keys that
//! are not uniform take more memory and time, and many equal keys take time.
//!
//! H. Lim, D. G. Andersen, M. Kaminsky, "Practical Batch-Updatable External Hashing with Sorting", ALENEX 2013.

mod bucket_index;
mod builder;
mod code_string;
mod codes;
mod dense;
mod format;
mod huffman;
mod joint;
mod large;
mod reader;
mod skip;
mod stream;
mod subtrie;

pub use builder::EntropyTrieBuilder;

use super::{BuildError, PlacementIndex};
use bucket_index::{Bucket, BucketIndex};
use code_string::CodeString;
use codes::Codes;
use huffman::MERGED;
use reader::Reader;
use std::{fmt, ops::Range};
use stream::Stream;
use subtrie::Subtrie;

/// The bits of a placement.
const KEY_BITS: u32 = 64;

/// How tries are written as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coder {
    /// The paper's: pre-order, Huffman codes for small subtries, Elias gamma codes for others.
    Paper,
    /// Fewer bits and several times faster: small subtries are coded jointly, a table skips several nodes per step, and
    /// a bucket is coded from both ends.
    #[default]
    Fast,
}

/// Returns the bucket of a placement, one of `buckets`, and the remaining part of the placement. The pair ascends with
/// the placement.
#[inline(always)]
fn bucket_and_key(placement: u64, buckets: u64) -> (u64, u64) {
    let product = u128::from(placement) * u128::from(buckets);
    ((product >> KEY_BITS) as u64, product as u64)
}

/// The settings of an [`EntropyTrie`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrieSettings {
    /// How the tries of the buckets are written.
    pub coder: Coder,
    /// The average number of keys per virtual bucket (g in ECT 3.1.3), 1 to 65,536. Larger buckets take less memory and
    /// more time.
    pub bucket_keys: u32,
    /// The largest subtrie whose root has a Huffman code (hmax in ECT 3.1.4), in keys, 1 to 64. In addition, the fast
    /// coder always has joint codes for subtries of up to 6 keys.
    pub huffman_max: u32,
    /// The records per block, 1 or more. With 1 the trie is dense and locates records; with more it is sparse and
    /// locates blocks, in less memory (ECT 3.1.6). The first record is the first of a block.
    pub records_per_block: u32,
    /// The approximate number of keys, at most 2^40. Memory and time stay near those of
    /// [`bucket_keys`](Self::bucket_keys) if the true number is from 1/4 to 4 times as many; any other number works,
    /// but not as well.
    pub expected_keys: u64,
}

impl Default for TrieSettings {
    /// Returns the settings of a dense trie with buckets of 256 keys and Huffman codes up to 64 keys, as in the paper.
    /// `expected_keys` is 0.
    fn default() -> Self {
        Self {
            coder: Coder::default(),
            bucket_keys: 256,
            huffman_max: 64,
            records_per_block: 1,
            expected_keys: 0,
        }
    }
}

impl TrieSettings {
    const BUCKET_KEYS_MAX: u32 = 1 << 16;
    const EXPECTED_KEYS_MAX: u64 = 1 << 40;

    /// Returns the number of buckets.
    fn buckets(&self) -> u64 {
        self.expected_keys.div_ceil(u64::from(self.bucket_keys.max(1))).max(1)
    }

    fn check(&self) -> Result<(), BuildError> {
        let limits = [
            ("bucket_keys", self.bucket_keys.into(), 1, Self::BUCKET_KEYS_MAX.into(), "from 1 to 65,536"),
            ("huffman_max", self.huffman_max.into(), 1, huffman::SIZE_MAX as u64, "from 1 to 64"),
            ("records_per_block", self.records_per_block.into(), 1, u64::MAX, "1 or more"),
            ("expected_keys", self.expected_keys, 0, Self::EXPECTED_KEYS_MAX, "at most 2^40"),
        ];
        for (name, got, min, max, limit) in limits {
            if got < min || got > max {
                return Err(BuildError::Setting { name, got, limit });
            }
        }
        Ok(())
    }
}

/// An entropy-coded trie over records sorted by placement.
///
/// Besides its own memory it uses decoding tables of about 150 KiB, which all tries of a process share. The first trie
/// computes them, in a few milliseconds.
#[derive(Clone)]
pub struct EntropyTrie {
    settings: TrieSettings,
    codes: Codes,
    len: u64,
    index: BucketIndex,
    /// The codes of the buckets, one after another.
    bits: CodeString,
}

impl EntropyTrie {
    /// Returns the number of keys, that is, of records.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the settings that the trie was built with.
    pub fn settings(&self) -> &TrieSettings {
        &self.settings
    }

    /// Returns the memory per key, in bits; 0 if there are no keys.
    pub fn bits_per_key(&self) -> f64 {
        let bytes = self.heap_bytes() + size_of::<Self>();
        if self.len == 0 { 0.0 } else { bytes as f64 * 8.0 / self.len as f64 }
    }

    /// Returns the records that may be that of `key`, the part of the placement that does not select the bucket. The
    /// range is empty in an empty bucket.
    fn locate_in_bucket(&self, bucket: &Bucket, key: u64) -> Range<u64> {
        let mut forward = Stream::<false>::new(&self.bits, bucket);
        let size = bucket.end.position - bucket.begin.position;
        let mut subtrie = Subtrie::root(size, bucket.begin.position);
        // Every node takes a bit, so the end of the code bounds the walk on damaged bytes.
        while subtrie.size > self.codes.unsplit_max && !self.codes.leaves.has(subtrie) && !forward.is_at_end()
        {
            let left = self.codes.read_node(&mut forward, subtrie.size);
            // All keys are on one side. The key is not compared, so one that is absent follows them.
            if left == MERGED {
                subtrie = subtrie.deeper();
                continue;
            }
            let (left, right) = subtrie.split(left);
            // From the end of the bucket, so that the code of the left half is not skipped.
            return if subtrie.is_right(key) {
                self.locate_in_subtrie(Stream::<true>::new(&self.bits, bucket), bucket, key, right)
            } else {
                self.locate_in_subtrie(forward, bucket, key, left)
            };
        }
        self.locate_in_subtrie(forward, bucket, key, subtrie)
    }

    /// Returns those in the subtrie whose code comes next in the stream.
    #[inline(always)]
    fn locate_in_subtrie<const BACKWARD: bool>(
        &self,
        stream: Stream<'_, BACKWARD>,
        bucket: &Bucket,
        key: u64,
        subtrie: Subtrie,
    ) -> Range<u64> {
        let mut reader = Reader { codes: &self.codes, stream };
        // A plain bucket has equal keys and no joint codes, and its reader counts depths.
        if self.codes.has_joint && !bucket.is_plain {
            reader.locate_joint(key, subtrie)
        } else {
            reader.locate(key, subtrie)
        }
    }
}

impl fmt::Debug for EntropyTrie {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("EntropyTrie");
        debug
            .field("settings", &self.settings)
            .field("len", &self.len)
            .field("heap_bytes", &self.heap_bytes());
        debug.finish_non_exhaustive()
    }
}

impl PlacementIndex for EntropyTrie {
    /// For a dense trie, returns the numbers of the records with this placement: one, unless placements are equal. For
    /// a sparse trie, returns the blocks that hold them: nearly always one.
    fn locate(&self, placement: u64) -> Range<u64> {
        if self.len == 0 {
            return 0..0;
        }
        // The buckets of the index and not of the settings, because `bucket` must exist in it.
        let (bucket, key) = bucket_and_key(placement, self.index.buckets());
        let records = self.locate_in_bucket(&self.index.bucket(bucket), key);
        // An empty bucket gives an empty range, which may be at the very end.
        let first = records.start.min(self.len - 1);
        let last = records.end.saturating_sub(1).max(first);
        match u64::from(self.settings.records_per_block) {
            1 => first..last + 1,
            records_per_block => first / records_per_block..last / records_per_block + 1,
        }
    }

    fn heap_bytes(&self) -> usize {
        self.index.heap_bytes() + self.bits.heap_bytes()
    }
}

#[cfg(test)]
pub(crate) mod tests;
