//! The entropy-coded trie (SILT 3.3; dissertation 2.2.3; ECT, its chapter 3): maps a placement to the number of its
//! record among the records sorted by placement, in 2.4 to 2.5 bits per key, or to its block, in fewer bits.
//!
//! Placements are divided into *virtual buckets* of about 256 keys. The keys of a bucket form a binary trie of their
//! bits, of which only the number of keys in the left subtrie of each node is stored. These numbers follow the binomial
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
//! There are two coders: `paper` writes the tries and the index of the buckets as the paper describes them; `fast`
//! takes fewer bits (2.41 instead of 2.51 per key), and a lookup takes an eighth of the time.
//!
//! Deviations from the paper, common to both coders:
//!
//! * The bucket of a placement is the high word of its product with the number of buckets, so this number need not be a
//!   power of two. The low word replaces the remaining bits of the placement.
//! * Equal placements are allowed: a trie ends where the bits of its keys are used up, and such a leaf is a range.
//!
//! Limits: it never reports that a key is absent; the number of keys must be known approximately in advance; keys that
//! are not uniform take more memory and time, and many equal keys take time.
//!
//! H. Lim, D. G. Andersen, M. Kaminsky, "Practical Batch-Updatable External Hashing with Sorting", ALENEX 2013.

mod bucket_index;
mod builder;
mod code_string;
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
    /// The paper's: pre-order, Huffman codes for small subtries, Elias gamma codes for others, and a two-level index of
    /// the buckets.
    Paper,
    /// Fewer bits and several times faster: small subtries are coded jointly, a table skips several nodes per step, a
    /// bucket is coded from both ends, and the index of the buckets consists of cache lines.
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

    /// Returns a sparse, or sparser, version of the trie without access to the records (ECT 3.1.6). Takes about as long
    /// as decoding every bucket once.
    ///
    /// # Errors
    ///
    /// [`BuildError::Setting`] if `records_per_block` is not a multiple of the present one: a sparse trie does not know
    /// where in a block a record is.
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
    /// For a dense trie, returns the numbers of the records with this placement: one, unless placements are equal. For
    /// a sparse trie, returns the blocks that hold them: nearly always one.
    fn locate(&self, placement: u64) -> Range<u64> {
        if self.len == 0 {
            return 0..0;
        }
        let (bucket, key) = bucket_and_key(placement, self.buckets);
        let records = match &self.body {
            Body::Paper(trie) => trie.locate(bucket, key),
            Body::Fast(trie) => trie.locate(bucket, key),
        };
        // An empty bucket gives an empty range, which may be at the very end.
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
