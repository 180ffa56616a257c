//! The entropy-coded trie (SILT 3.3; dissertation 2.2.3; ECT, its chapter 3): where each of the records stands that
//! are sorted by placement, in 2.4 to 2.5 bits a key, or the block that it stands in, in less.
//!
//! The placements are cut into *virtual buckets* of some 256 keys. Those of a bucket form a binary trie of their bits,
//! of which nothing is kept but the number of keys in the left subtrie of every node. These numbers follow the
//! binomial distribution, so short codes can be given to the likely ones. A lookup finds its bucket in an index and
//! decodes the trie down to its key, passing over the subtries to the left of it.
//!
//! Two coders are siblings here: `paper` writes the tries and the index of the buckets as the paper has them, `fast`
//! in fewer bits (2.41 instead of 2.51 a key) and so that a lookup takes an eighth of the time.
//!
//! Deviations from the paper, which both coders share:
//!
//! - The bucket of a placement is the high word of its product with the number of buckets, so that this number need
//!   not be a power of two; the low word takes the place of the rest of the placement's bits.
//! - Equal placements are allowed: a trie ends where the bits of its keys are used up, and such a leaf is a range.
//!
//! What it is bad at: it never tells that a key is absent; the number of keys must be known roughly beforehand; keys
//! that are not uniform take more memory and time, and many equal keys take time.

mod bits;
mod bucket_index;
mod builder;
mod fast;
mod format;
mod huffman;
mod paper;
mod subtrie;

pub use builder::EntropyTrieBuilder;

use super::{BuildError, PlacementIndex};
use fast::FastTrie;
use paper::PaperTrie;
use std::{fmt, ops::Range};

/// The bits of a placement.
const KEY_BITS: u32 = 64;

/// How tries are written as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coder {
    /// As the paper has it: pre-order, Huffman codes for small subtries and Elias gamma codes above, a two-level index
    /// of the buckets.
    Paper,
    /// In fewer bits and several times less time: small subtries are coded jointly, a table passes over several nodes a
    /// step, a bucket is coded from both ends, the bucket index is made of cache lines.
    #[default]
    Fast,
}

/// The bucket of a placement, one of `buckets`, and what the placement has beyond the number of its bucket. Both
/// together ascend with the placement.
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
    /// The average number of keys in a virtual bucket (g in ECT 3.1.3), 1 to 65,536. Larger buckets take less memory
    /// and more time.
    pub bucket_keys: u32,
    /// The size of the largest subtrie whose root has a Huffman code (hmax in ECT 3.1.4), in keys, 1 to 64. The fast
    /// coder has joint codes for subtries of up to 6 keys whatever this is.
    pub huffman_max: u32,
    /// The records of a block, 1 or more. With 1 the trie is dense and locates the record; with more it is sparse and
    /// locates the block only, in less memory (ECT 3.1.6). Blocks are counted from the first record on.
    pub records_per_block: u32,
    /// About how many keys will be pushed, at most 2^40. From 1/4 to 4 times as many keep memory and time near
    /// those of [`bucket_keys`](Self::bucket_keys); any other number works, but not as well.
    pub expected_keys: u64,
}

impl Default for TrieSettings {
    /// A dense trie with buckets of 256 keys and Huffman codes up to 64, as in the paper; no keys are expected.
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

    /// How many buckets there are.
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

/// An entropy-coded trie over records that are sorted by placement.
///
/// Beside its own memory it uses decoding tables of some 150 KiB that all tries of a process share; they are made when
/// the first trie is, in a few milliseconds.
#[derive(Clone)]
pub struct EntropyTrie {
    settings: TrieSettings,
    buckets: u64,
    len: u64,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    Paper(PaperTrie),
    Fast(FastTrie),
}

impl EntropyTrie {
    /// How many keys, that is, records, the trie was built over.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The settings that it was built with.
    pub fn settings(&self) -> &TrieSettings {
        &self.settings
    }

    /// All memory of the trie by key, in bits; 0 if there are no keys.
    pub fn bits_per_key(&self) -> f64 {
        let bytes = self.heap_bytes() + size_of::<Self>();
        if self.len == 0 { 0.0 } else { bytes as f64 * 8.0 / self.len as f64 }
    }

    /// The same trie, made sparse or sparser without a look at the records (ECT 3.1.6), which is about as fast as
    /// decoding every bucket once.
    ///
    /// # Errors
    ///
    /// [`BuildError::Setting`], if `records_per_block` is not a multiple of the present one: a trie that does not know
    /// where inside a block a record stands cannot tell.
    pub fn to_sparse(&self, records_per_block: u32) -> Result<Self, BuildError> {
        if records_per_block == 0 || !records_per_block.is_multiple_of(self.settings.records_per_block) {
            let limit = "a multiple of the trie's";
            return Err(BuildError::Setting {
                name: "records_per_block",
                got: records_per_block.into(),
                limit,
            });
        }
        let settings = TrieSettings { records_per_block, ..self.settings };
        let body = match &self.body {
            Body::Paper(trie) => Body::Paper(trie.to_sparse(&settings)),
            Body::Fast(trie) => Body::Fast(trie.to_sparse(&settings)),
        };
        Ok(Self { settings, buckets: self.buckets, len: self.len, body })
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
    /// Of a dense trie, the positions of the records that have this placement: one, unless placements are equal. Of a
    /// sparse trie, the blocks that hold them: nearly always one.
    fn locate(&self, placement: u64) -> Range<u64> {
        if self.len == 0 {
            return 0..0;
        }
        let (bucket, key) = bucket_and_key(placement, self.buckets);
        let records = match &self.body {
            Body::Paper(trie) => trie.locate(bucket, key),
            Body::Fast(trie) => trie.locate(bucket, key),
        };
        // An empty bucket gives an empty range, which may stand at the very end.
        let first = records.start.min(self.len - 1);
        let last = records.end.saturating_sub(1).max(first);
        match u64::from(self.settings.records_per_block) {
            1 => first..last + 1,
            records_per_block => first / records_per_block..last / records_per_block + 1,
        }
    }

    fn heap_bytes(&self) -> usize {
        match &self.body {
            Body::Paper(trie) => trie.heap_bytes(),
            Body::Fast(trie) => trie.heap_bytes(),
        }
    }
}

#[cfg(test)]
mod tests;
